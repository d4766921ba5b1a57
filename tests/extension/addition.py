"""What a case of the extension test says: a made-up kind, added by the steps of a section of CONTRIBUTING.md."""
import dataclasses


@dataclasses.dataclass
class New:
    """The whole text of a new file."""
    text: str

    def apply(self, old):
        assert old is None, "the file is there already"
        return self.text


@dataclasses.dataclass
class After:
    """Text that is put behind an anchor, which the file has once."""
    anchor: str
    text: str

    def apply(self, old):
        assert old is not None and old.count(self.anchor) == 1, f"the file has {self.anchor!r} {old and old.count(self.anchor)} times"
        return old.replace(self.anchor, self.anchor + self.text)


@dataclasses.dataclass
class Before:
    """Text that is put before an anchor, which the file has once."""
    anchor: str
    text: str

    def apply(self, old):
        return After(self.anchor, "").apply(old).replace(self.anchor, self.text + self.anchor)


@dataclasses.dataclass
class Forgotten:
    """A mistake, and what the compiler says of it. `change` is (path, text that the file has once, text instead), and
    `source` is compiled. If `program` is given, it is linked without the object of `path`."""
    change: tuple
    says: list
    source: str = ""
    program: str = ""


@dataclasses.dataclass
class Run:
    """A call of a program that was built with the addition."""
    arguments: list
    says: list
    code: int = 0


@dataclasses.dataclass
class Addition:
    section: str  # its title in CONTRIBUTING.md, whose numbered items begin with the paths of files
    name: str  # stands for <name> there
    steps: dict  # path -> list of edits
    files: dict = dataclasses.field(default_factory=dict)  # name -> text: what the runs read, in their folder
    programs: dict = dataclasses.field(default_factory=dict)  # "trainctl", "trainctl_engine", "test_model", ... -> runs
    tests: list = dataclasses.field(default_factory=list)  # those that are there, and must pass with the addition
    forgotten: list = dataclasses.field(default_factory=list)
    # (path, alias, folder): no other folder may ask whether a value is one of the alternatives of this OneOf.
    closed_sets: list = dataclasses.field(default_factory=list)
