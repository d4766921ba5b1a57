"""scripts/suites.py runs a part when anything that it depends on changes, and counts nothing as passed that did not run."""
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import suites


def inputs():
    return {str(part): part.inputs for part in suites.all_parts({})}


def due_after_a_change_of(path):
    """The parts that are due when the file of that name changes."""
    before, blobs = inputs(), dict(suites.blobs())
    assert path in blobs, path
    with mock.patch.object(suites, "blobs", lambda: {**blobs, path: "changed"}):
        after = inputs()
    return {name for name in before if before[name] != after[name]}


class Inputs(unittest.TestCase):
    def test_a_source_concerns_itself_and_its_library(self):
        due = due_after_a_change_of(self.source("src/tracking/"))
        self.assertLessEqual({"odr/trainctl", "tsan/tracking", "asan/tracking", "asan/train", "asan/plan"}, due)
        self.assertFalse({"tsan/dataset", "asan/core", "asan/optimizer"} & due)
        self.assertEqual(len([name for name in due if name.startswith("dev/")]), 1)
        self.assertEqual(len([name for name in due if name.startswith("tidy/")]), 1)

    def source(self, folder):
        return next(path for path in suites.under(folder) if path.endswith(".cpp"))

    def test_a_header_concerns_every_source_that_includes_it(self):
        due = due_after_a_change_of("src/core/error.h")
        self.assertLessEqual({f"asan/{folder}" for folder in suites.read_graph() if suites.under(f"tests/{folder}/")}, due)
        self.assertGreater(len([name for name in due if name.startswith("dev/")]), 100)

    def test_a_test_concerns_its_folder_alone(self):
        test = self.source("tests/comm/")
        self.assertEqual(due_after_a_change_of(test), {f"dev/{test}", "asan/comm", "tsan/comm"})

    def test_the_slow_tests_are_those_with_the_label(self):
        listed = subprocess.run(["ctest", "--preset", "release", "-N", "-L", "^slow$"], cwd=suites.ROOT, capture_output=True, text=True)
        self.assertEqual(set(re.findall(r"Test +#\d+: (\S+)", listed.stdout)), set(suites.SLOW_READ), listed.stderr)

    def test_the_rules_of_clang_tidy_concern_every_source(self):
        self.assertEqual(due_after_a_change_of(".clang-tidy"), {name for name in inputs() if name.startswith("tidy/")})

    def test_a_comment_concerns_nothing(self):
        source = """#include <a>  // why
// whole
int a = 1'000;  // it's

auto url = "http://a";  /* two
  lines */ char quote = '"';  // NOLINT(a)
auto page = R"js(a  // b
  // c)js";
"""
        code = """#include <a>
int a = 1'000;

auto url = "http://a"; char quote = '"';  // NOLINT(a)
auto page = R"js(a  // b
  // c)js";
"""
        self.assertEqual(suites.code_of(source), code)

    def test_a_page_of_the_docs_concerns_nothing(self):
        self.assertEqual(due_after_a_change_of("docs/architecture.md"), set())


class Runs(unittest.TestCase):
    good, bad, late = (suites.Part("asan", name, "inputs") for name in ("good", "bad", "late"))

    def run_main(self, *arguments, ledger=None):
        """(exit status, output, ledger afterwards) of a run whose parts pass, fail, and come too late."""
        def runner(parts, deadline):
            for part in parts:
                if part == self.late:
                    raise suites.OutOfTime
                suites.call(["true"], deadline)
                yield [part], part == self.good, f"what {part.name} printed"

        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(folder) / "suites.json"
        path.write_text(json.dumps(ledger or {}))
        with mock.patch.multiple(suites, LEDGER=path, RUN={"asan": runner}, all_parts=lambda _: [self.good, self.bad, self.late]), \
                mock.patch("sys.argv", ["suites.py", *arguments]), contextlib.redirect_stdout(io.StringIO()) as output:
            try:
                suites.main()
                status = 0
            except SystemExit as end:
                status = end.code
        return status, output.getvalue(), json.loads(path.read_text())

    def test_what_is_left_out_may_be_tolerated_for_some_days_after_it_passed(self):
        ages = {"never": {}, "long ago": {"asan/late": ["other inputs", 1, "2020-01-01"]}, "lately": {"asan/late": ["other inputs", 1, "2999-01-01"]}}
        statuses = {age: self.run_main("--tolerate", "14", "asan/good", "asan/late", ledger=ledger)[0] for age, ledger in ages.items()}
        self.assertEqual(statuses, {"never": False, "long ago": True, "lately": False})
        self.assertTrue(self.run_main("--tolerate", "14", ledger=ages["lately"])[0], "a part that fails")

    def test_what_passes_is_recorded_and_not_run_again(self):
        status, output, ledger = self.run_main("--record", "asan/good")
        self.assertEqual((status, ledger["asan/good"][0]), (0, "inputs"))
        status, output, _ = self.run_main("asan/good", ledger=ledger)
        self.assertEqual(status, 0)
        self.assertIn("1 parts recorded, 0 passed", output)

    def test_a_failure_fails_and_is_not_recorded(self):
        status, output, ledger = self.run_main("--record", "asan/bad", "asan/good")
        self.assertEqual((status, list(ledger)), (1, ["asan/good"]))
        self.assertIn("what bad printed", output)

    def test_a_part_that_did_not_run_is_named_and_fails(self):
        status, output, ledger = self.run_main("--record", "asan/late")
        self.assertEqual((status, ledger), (1, {}))
        self.assertIn("not run: asan: late", output)

    def test_a_part_of_other_inputs_is_run(self):
        status, output, _ = self.run_main("asan/good", ledger={"asan/good": ["older inputs", 1, "2026-01-01"]})
        self.assertEqual(status, 0)
        self.assertIn("asan: good passed", output)

    def test_a_command_ends_at_the_deadline(self):
        with self.assertRaises(suites.OutOfTime):
            suites.call(["sleep", "60"], time.monotonic() + 0.2)


class TypesOfOneName(unittest.TestCase):
    """The flags of the odr preset find what they are there to find."""

    def link(self, *members):
        flags = next(p for p in json.loads(suites.preset("odr")) if p["name"] == "odr")["cacheVariables"]["CMAKE_CXX_FLAGS_RELEASE"].split()
        with tempfile.TemporaryDirectory() as folder:
            for name, member, text in zip("ab", members, ("int a() { return int(Part{}.get()); }", "int a();\nint main() { return a() + int(Part{}.get()); }")):
                pathlib.Path(folder, f"{name}.cpp").write_text(f"struct Part {{ {member} value; {member} get() {{ return value; }} }};\n{text}\n")
                subprocess.run(["c++", *flags, "-c", f"{name}.cpp"], cwd=folder, check=True)
            return subprocess.run(["c++", *flags, "a.o", "b.o", "-o", "program"], cwd=folder, capture_output=True, text=True)

    def test_two_types_of_one_name_do_not_link(self):
        self.assertEqual(self.link("int", "int").returncode, 0)
        run = self.link("int", "double")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("One Definition Rule", run.stderr)


if __name__ == "__main__":
    unittest.main()
