"""scripts/gpu_check.py keeps what it has seen, whatever a program or a stage does. Programs that do nothing stand in for trainctl and its tests."""
import pathlib
import subprocess
import sys
import types
import unittest
from unittest import mock

from trainctl_process import ROOT, InScratch

sys.path.insert(0, str(ROOT / "scripts"))
import timed_check


def new_check(seconds):
    return timed_check.Check(types.SimpleNamespace(directory=pathlib.Path("build"), seconds=seconds, rehearse=True))


class Stages(unittest.TestCase):
    def test_a_stage_without_time_is_no_failure(self):
        check = new_check(seconds=0)
        check.stage(lambda check: check.run("true"))
        self.assertEqual((len(check.unfinished), check.failures), (1, []))
        self.assertIn("the time was over", check.text[-1])

    def test_a_program_that_the_end_of_all_time_stops_is_no_failure(self):
        with mock.patch.object(timed_check, "SHORTEST_S", 0):
            check = new_check(seconds=0.2)
            check.stage(lambda check: check.run("sleep", 1000))
        self.assertEqual((len(check.unfinished), check.failures), (1, []))

    def test_a_program_that_hangs_is_stopped_with_its_children_and_fails(self):
        check = new_check(seconds=1000)
        self.assertEqual(check.run("sh", "-c", "sleep 1000 & wait", limit=0.2).returncode, 124)

    def test_a_stage_that_raises_is_a_failure_with_its_traceback(self):
        check = new_check(seconds=1000)
        check.stage(lambda check: {}["absent"])
        check.stage(lambda check: check.heading("the next stage"))
        self.assertEqual((len(check.failures), check.unfinished), (1, []))
        self.assertIn("KeyError: 'absent'", check.outputs[0][1])
        self.assertIn("the next stage", check.text[-1])


class Report(InScratch):
    def program(self, name, script):
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def test_programs_that_leave_no_files_spoil_no_other_stage(self):
        self.program("trainctl", "exit 0")
        self.program("test_none", "exit 0")
        self.program("test_some", 'case "$1" in --list*) echo one; echo two; exit 2;; esac; echo "cases: 2 passed"')
        self.program("test_broken", "exit 127")
        command = [sys.executable, ROOT / "scripts/gpu_check.py", self.root, "--rehearse", "--output", self.root / "seen"]
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.root)
        self.assertEqual(result.returncode, 1, result.stderr)
        report = (self.root / "seen/gpu-results.md").read_text()
        self.assertEqual(report, result.stdout.removesuffix("\n"))
        self.assertIn("| test_some | 2 | pass | cases: 2 passed |", report)
        self.assertIn("| test_broken |  | **FAIL** |", report)
        self.assertNotIn("test_none", report)
        self.assertRegex(report, r"\*\*failed: test_broken, .*precisions")
        self.assertIn("No such file or directory", report)
        self.assertIn("## What strategies are worth", report)


if __name__ == "__main__":
    unittest.main()
