"""A guide of docs/guides as a script: its files, its commands in order, and what they should print.

A page has blocks of ```console: lines that begin with "$ " are commands, and the lines after them what the command prints, of which "…" stands
for what is left out. Comments in the page, which readers don't see, say what the test does with the next blocks:

  <!-- ci: data NAME... -->            the data of scripts/guide_data.py that the page begins with; --share N makes them smaller
  <!-- ci: with COMMAND: OPTIONS -->   commands that begin so get these options too, until the page's end: fewer epochs, a smaller network
  <!-- ci: file NAME -->               the next block is a file of that name
  <!-- ci: exits N -->                 the next block's commands end with this code
  <!-- ci: not run: REASON -->         the next block isn't run
"""
import dataclasses
import re
import shlex

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
DIRECTIVE = re.compile(r"<!-- ci: (.*?) -->", re.S)
SHELLS = ("console", "sh", "bash", "shell")
NUMBER = r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?"
QUANTITY = re.compile(rf"({NUMBER})( ?(?:ns|µs|ms|s|min|h|B|KiB|MiB|GiB|%)(?![\w]))?")
TIMES = ("ns", "µs", "ms", "s", "min", "h")


@dataclasses.dataclass
class Command:
    line: int
    text: str
    expected: list
    exit_code: int = 0


@dataclasses.dataclass
class Page:
    data: list = dataclasses.field(default_factory=list)
    steps: list = dataclasses.field(default_factory=list)  # commands, and files as (name, text)
    not_run: list = dataclasses.field(default_factory=list)  # (line, reason)
    problems: list = dataclasses.field(default_factory=list)


def with_options(text, additions):
    """The command with what the page adds to those that begin like it: before a pipe or a redirection."""
    for begin, options in additions:
        if text.startswith(begin):
            head, mark, tail = re.match(r"(.*?)(\s[|>].*|$)()", text, re.S).groups()
            text = f"{head} {options}{mark}{tail}"
    return text


def commands_of(block, line, additions, exit_code):
    """The commands of a block, each with the lines that it should print."""
    for number, text in enumerate(block.splitlines(), line):
        if text.startswith("$ "):
            command = Command(number, text[2:], [], exit_code)
            yield command
        elif command.text.endswith("\\"):
            command.text = command.text[:-1] + text.strip()
        else:
            command.expected.append(text)


def read_page(text):
    page, additions, pending = Page(), [], {}
    for match in sorted([*FENCE.finditer(text), *DIRECTIVE.finditer(text)], key=lambda found: found.start()):
        line = text.count("\n", 0, match.start()) + 1
        if match.re is DIRECTIVE:
            word, _, rest = " ".join(match[1].split()).partition(" ")
            if word == "data":
                page.data += shlex.split(rest)
            elif word == "with":
                additions.append(tuple(part.strip() for part in rest.split(":", 1)))
            elif word in ("file", "exits", "not"):
                pending[word] = rest
            else:
                page.problems.append(f"line {line}: unknown directive {word}")
            continue
        language, block = match.groups()
        if "not" in pending:
            page.not_run.append((line, pending["not"].removeprefix("run: ")))
        elif "file" in pending:
            page.steps.append((pending["file"], block))
        elif language == "console":
            for command in commands_of(block, line + 1, additions, int(pending.get("exits", 0))):
                page.steps.append(command)
        elif language in SHELLS:
            page.problems.append(f"line {line}: commands stand in ```console, or the page says why they aren't run")
        pending = {}
    for step in page.steps:
        if isinstance(step, Command):
            step.text = with_options(step.text, additions)
    return page


def pattern_of(expected):
    """A regular expression for lines like this one: other numbers, other units of time and memory, one of several things, anything for "…"."""
    parts, at = [], 0

    def literal(text):
        return re.sub(r"^(\\ [a-z]+)s\b", r"\1s?", re.escape(text)) if at else re.escape(text)  # after a number: "3 epochs", "1 epoch"

    for match in QUANTITY.finditer(expected):
        parts.append(literal(expected[at:match.start()]))
        unit = (match[2] or "").strip()
        parts.append(NUMBER + {"": "", "%": " ?%"}.get(unit, r" ?(?:ns|µs|ms|s|min|h)" if unit in TIMES else r" ?(?:B|KiB|MiB|GiB)"))
        at = match.end()
    text = "".join([*parts, literal(expected[at:])])
    text = re.sub(r"(?:\\ )+", r"\\s+", text)
    return re.compile("^" + text.replace("…", ".*") + r"\s*$")


def missing_line(expected, printed):
    """The first expected line that no printed line is like, each later than the one before; None if all are there."""
    lines = iter(printed)
    for text in expected:
        if text.strip() in ("…", ""):
            continue
        pattern = pattern_of(text)
        if not any(pattern.match(line) for line in lines):
            return text
    return None
