"""CONTRIBUTING.md tells the truth: by the steps that it lists, and no others, a kind is added.

    extension_test.py [BUILD]

Each file of cases/ describes one made-up kind (addition.py). A copy of the tree gets the listed files of all of them, and
no others. All that reads them must compile, the programs must know the new kinds, and the compiler must tell what is
forgotten."""
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "cases"))
from extended_tree import ROOT, ExtendedTree

CASES = [importlib.import_module(path.stem).CASE for path in sorted((HERE / "cases").glob("*.py"))]
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else str(ROOT / "build/release")


def listed_files(section, name):
    """Paths at the head of the numbered items of a section of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    body = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert body, f"CONTRIBUTING.md has no section '{section}'"
    heads = re.findall(r"^\d+\. (\*\*`[^`]+`\*\*(?:, \*\*`[^`]+`\*\*)*)", body.group(1), re.M)
    return {path.replace("<name>", name) for head in heads for path in re.findall(r"`([^`]+)`", head)}


class Extension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="trainctl-extension-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.tree = ExtendedTree(cls.directory.name, BUILD)
        for case in CASES:
            cls.tree.write(case.steps)
            folder = cls.tree.root / "runs" / case.name
            folder.mkdir(parents=True)
            for name, text in case.files.items():
                (folder / name).write_text(text)
        cls.programs = sorted({program for case in CASES for program in case.programs})
        cls.is_compiled = False

    def setUp(self):
        self.begin = time.monotonic()

    def tearDown(self):
        print(f"{self.id().split('.')[-1]}: {time.monotonic() - self.begin:.0f} s", flush=True)

    def test_1_the_steps_are_the_files_that_the_guide_lists(self):
        for case in CASES:
            with self.subTest(case=case.name):
                self.assertEqual(set(case.steps), listed_files(case.section, case.name))

    def test_2_with_these_files_alone_all_compiles(self):
        in_program = set().union(*(self.tree.libraries(program) for program in self.programs))
        units = self.tree.affected([path for case in CASES for path in [*case.steps, *case.tests]])
        print(f"{len(units)} compilations: {', '.join(sorted({unit.library() for unit in units}))}", flush=True)
        failed = self.tree.compile_all(units, lambda unit: unit.library() in in_program)
        for sources, messages in failed.items():
            self.fail(f"another file had to be touched, or a step is wrong: {sources}\n{messages[:6000]}")
        type(self).is_compiled = True

    def test_3_the_programs_know_it(self):
        self.assertTrue(self.is_compiled, "compiled before")
        for program in self.programs:
            self.assertEqual(self.tree.link(program)[1][:6000], "")
        for case in CASES:
            for program, run in [(program, run) for program, runs in case.programs.items() for run in runs]:
                with self.subTest(case=case.name, program=program, arguments=run.arguments):
                    done = subprocess.run([self.tree.root / "bin" / program, *run.arguments], capture_output=True, text=True,
                                          timeout=300, cwd=self.tree.root / "runs" / case.name)
                    self.assertEqual(done.returncode, run.code, done.stdout[-3000:] + done.stderr[-3000:])
                    for text in run.says:
                        self.assertIn(text, done.stdout + done.stderr)

    def test_4_the_compiler_tells_what_is_forgotten(self):
        mistakes = list(enumerate(mistake for case in CASES for mistake in case.forgotten))
        compiled = [(i, mistake) for i, mistake in mistakes if mistake.source]
        messages = dict(self.tree.in_parallel(lambda one: (one[0], self.tree.compile_changed(one[1].source, one[1].change, f"mistake{one[0]}")), compiled))
        for i, mistake in mistakes:
            path, old, new = mistake.change
            with self.subTest(path=path, left_out=old[:60], instead=new[:60]):
                if mistake.program:
                    self.assertTrue(self.is_compiled, "compiled before")
                    messages[i] = self.tree.link(mistake.program, without=[path])[1]
                for text in mistake.says:
                    self.assertIn(text, messages[i])

    def test_5_no_other_folder_asks_for_a_kind(self):
        for path, alias, folder in {closed for case in CASES for closed in case.closed_sets}:
            listed = re.search(rf"using {alias} =\s*(?:\w+::)*OneOf<(.*?)>;", (ROOT / path).read_text(), re.S).group(1)
            kinds = "|".join(sorted(set(re.findall(r"\b(\w+Config)\b", listed))))
            asks = re.compile(rf"\b(?:get_if|get|holds_alternative|is_same_v|same_as)<[^;{{}}()]*\b{folder}::(?:{kinds})\b")
            for file in [*(ROOT / "src").rglob("*.[ch]*"), *(ROOT / "apps").rglob("*.[ch]*")]:
                if file.suffix not in (".h", ".cpp") or file.is_relative_to(ROOT / "src" / folder):
                    continue
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    self.assertIsNone(asks.search(line), f"{file.relative_to(ROOT)}:{number} asks for a kind of {alias}: {line.strip()}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
