"""Ranks that make no step any more: who differs is said, with every rank's spans and stacks, and the run ends with an error."""
import os
import pathlib
import subprocess
import unittest

from trainctl_process import InScratch, preloaded, signal, start, write_experiment, write_images
from waits import PATIENCE_S, is_running, num_records, wait_for

EXPERIMENT = """
name: hanging
dataset: {kind: image_folder, train: images, batch_size: 4, num_workers: 1, prefetch_factor: 1, cache_dir: cache, transforms: [{kind: random_resized_crop, size: 8}]}
model: {kind: mlp, hidden: [64]}
train: {steps: 1000000, log_every: 5, watchdog: {step_multiple: 5, min_timeout_s: 1}}
checkpoint: {every: 0}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
distributed: {kind: ddp, timeout_s: 40}
"""


def children_of(parent):
    """pid by RANK."""
    found = {}
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and int((process / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                variables = dict(entry.split(b"=", 1) for entry in (process / "environ").read_bytes().split(b"\0") if b"=" in entry)
                found[int(variables[b"RANK"])] = int(process.name)
        except (OSError, KeyError):  # it has ended, or is no rank
            continue
    return found


class Hang(InScratch):
    def setUp(self):
        super().setUp()
        self.config = write_experiment(self.root, EXPERIMENT)
        write_images(self.root / "images")

    def start(self, **more):
        process = start("train", self.config, "--run-dir", self.root / "run", "--nproc", "2", "--no-progress", cwd=self.root, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end_of(self, process):
        try:
            _, errors = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail("the run hangs on")
        self.assertEqual(process.returncode, 1, errors)
        return errors

    def report_of(self, rank):
        """The last one: on a busy machine there may be others."""
        found = sorted((self.root / "run/stacks").glob(f"step_*_rank_{rank}.txt"), key=lambda path: int(path.name.split("_")[1]))
        self.assertTrue(found, f"rank {rank} wrote none")
        return found[-1].read_text()

    def test_a_stopped_rank_is_named_and_the_run_ends(self):
        process = self.start()
        wait_for(lambda: num_records(self.root / "run") >= 3, process)
        ranks = children_of(process.pid)
        self.assertEqual(sorted(ranks), [0, 1])
        os.kill(ranks[1], signal.SIGSTOP)
        errors = self.end_of(process)
        report = self.report_of(0)
        self.assertRegex(report.splitlines()[0], r"^rank 1 on \S+ differs: it is stopped .*, (and has not come to|in|and is through with) .*, where rank 0 on \S+ waits")
        self.assertIn("Spans:", report)
        self.assertIn("Stacks:", report)
        self.assertRegex(errors, r"no step for .* after step \d+.*rank 1 on \S+ differs")
        self.assertRegex(errors, r"rank 1 on \S+ hangs: no sign of life since step \d+")
        wait_for(lambda: not any(map(is_running, ranks.values())))

    def test_a_rank_that_is_stuck_in_its_loader_is_named_with_where(self):
        environment = preloaded("slow_reads", self.root, path=self.root / "images", us=600_000_000, rank=1, after=400)
        if environment is None:
            self.skipTest("no C compiler for the disk that hangs")
        process = self.start(env=environment)
        errors = self.end_of(process)
        for rank in (0, 1):
            report = self.report_of(rank)
            self.assertRegex(report.splitlines()[0], r"^rank 1 on \S+ differs: it is in data for .*, where rank 0 on \S+ waits", rank)
            self.assertRegex(report, rf"\nrank {rank}: no step for ")
        self.assertRegex(self.report_of(1), r"(usleep|nanosleep)")  # the loader's thread, in the disk that hangs
        self.assertRegex(errors, r"trainctl: rank 1 on \S+ never came to .*: it was in data for ")


if __name__ == "__main__":
    unittest.main()
