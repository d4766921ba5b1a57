"""Signals that ask a training to end, wherever it is; and what is there afterwards."""
import os
import signal
import subprocess
import unittest

from trainctl_process import TRAINCTL, InScratch, newest_checkpoint, run, write_experiment
from waits import PATIENCE_S, catches, children_of, computed_s, num_records, wait_for

TINY = """
name: tiny
seed: 1
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 0, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [16]}
train: {steps: 1000000, log_every: 1}
device: {kind: cpu, num_threads: 1}
"""


class Signals(InScratch):
    def setUp(self):
        super().setUp()
        self.config = write_experiment(self.root, TINY)
        self.run_directory = self.root / "run"

    def start(self, *more, stderr=None, before=()):
        self.log = open(self.root / "log", "w")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([*before, TRAINCTL, "train", self.config, "--run-dir", self.run_directory, "--no-progress", *more],
                                   stdout=subprocess.DEVNULL, stderr=stderr or self.log, cwd=self.root)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def text(self):
        return (self.root / "log").read_text()

    def ranks(self, process):
        """The ids of the processes that train, once there are all."""
        return [process.pid]

    def wait_for(self, words, process):
        wait_for(lambda: words in self.text(), process)

    def let_compute(self, process, more_s):
        """Waits until the run has used this much more CPU time, so that it is in the midst of what it began, however busy the machine is."""
        until = computed_s(process) + more_s
        wait_for(lambda: computed_s(process) >= until, process)

    def end(self, process, number):
        """Ends the run by a signal. What it is doing then would take longer than the patience."""
        process.send_signal(number)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"it goes on {PATIENCE_S} s after signal {number}: {self.text()[-800:]}")
        self.assertEqual(process.returncode, 128 + number, self.text())

    def test_each_signal_saves_the_step_that_was_made(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                self.run_directory = self.root / f"run{number}"
                process = self.start()
                self.wait_for("step 3/", process)
                self.end(process, number)
                self.assertIn("stopped after", self.text())
                self.assertGreater(int(newest_checkpoint(self.run_directory).name.split("_")[1]), 2)

    def test_a_long_evaluation_is_broken_off_and_its_step_is_saved(self):
        process = self.start("--set", "dataset.num_eval_samples=1000000000", "--set", "train.steps=5", "--set", "train.eval_every=2")
        self.wait_for("step 2/", process)
        self.let_compute(process, 0.5)
        self.end(process, signal.SIGTERM)
        self.assertEqual(newest_checkpoint(self.run_directory).name, "step_00000002")

    def test_a_final_evaluation_that_was_broken_off_is_made_by_the_next_start(self):
        sizes = ("--set", "train.steps=3")
        process = self.start(*sizes, "--set", "dataset.num_eval_samples=1000000000")
        self.wait_for("step 3/", process)
        self.let_compute(process, 0.5)
        self.end(process, signal.SIGTERM)
        self.assertEqual(newest_checkpoint(self.run_directory).name, "step_00000003")
        result = run("train", self.config, "--run-dir", self.run_directory, *sizes, "--set", "dataset.num_eval_samples=64", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("evaluation at step 3", result.stderr)

    def test_a_step_of_very_many_micro_batches_is_given_up(self):
        process = self.start("--set", "accumulation.steps=1000000000", "--set", "dataset.num_samples=1000000000000")
        self.wait_for("writing", process)
        self.let_compute(process, 0.5)
        self.end(process, signal.SIGTERM)

    def test_a_step_that_is_given_up_leaves_no_trace(self):
        sets = ("--set", "accumulation.steps=3000", "--set", "dataset.num_samples=24000", "--set", "checkpoint.every=1", "--set", "train.steps=3",
                "--set", "model={kind: cnn, channels: [4], batch_norm: true, hidden: 8}", "--set", "train.log_every=1")
        whole = run("train", self.config, "--run-dir", self.root / "whole", *sets, cwd=self.root)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        process = self.start(*sets)
        self.wait_for("step 1/3", process)
        self.let_compute(process, 0.2)
        self.end(process, signal.SIGTERM)
        resumed = run("train", self.config, "--run-dir", self.run_directory, *sets, cwd=self.root)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        for name in ("model.safetensors", "state.safetensors"):
            files = [directory / "checkpoints/step_00000003" / name for directory in (self.root / "whole", self.run_directory)]
            if files[0].exists():
                self.assertEqual(files[0].read_bytes(), files[1].read_bytes(), name)

    def test_one_very_long_micro_batch_with_nothing_to_save_ends_at_once(self):
        process = self.start("--set", "model={kind: lstm, num_layers: 2, hidden_size: 1024}", "--set", "task={kind: causal_lm}", "--set",
                             "dataset={kind: synthetic_tokens, num_samples: 64, num_eval_samples: 0, seq_len: 2500, vocab_size: 16, batch_size: 16}")
        self.wait_for("writing", process)
        self.let_compute(process, 2)
        self.end(process, signal.SIGTERM)

    def test_building_ends_at_once(self):
        process = self.start("--set", "model={kind: lstm, num_layers: 10000, hidden_size: 8}",
                             "--set", "dataset={kind: synthetic_tokens, num_samples: 64, num_eval_samples: 0, seq_len: 8, vocab_size: 16, batch_size: 4}",
                             "--set", "task={kind: causal_lm}")
        wait_for(lambda: self.ranks(process) and all(catches(rank, signal.SIGTERM) for rank in self.ranks(process)), process)
        self.end(process, signal.SIGTERM)
        self.assertNotIn("writing", self.text(), "it trains already")

    def test_a_closed_pipe_saves_as_sigterm_does(self):
        reader, writer = os.pipe()
        process = self.start(stderr=writer)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                if "step 3/" in line:
                    break
        self.assertEqual(process.wait(PATIENCE_S), 128 + signal.SIGPIPE)
        self.assertGreater(int(newest_checkpoint(self.run_directory).name.split("_")[1]), 2)

    def test_nohup_is_respected(self):
        process = self.start(before=("nohup",))
        self.wait_for("step 3/", process)
        process.send_signal(signal.SIGHUP)
        before = num_records(self.run_directory)
        wait_for(lambda: num_records(self.run_directory) >= before + 200, process)
        self.end(process, signal.SIGTERM)


class Ranks(Signals):
    """A few of them, on two ranks."""

    def ranks(self, process):
        found = children_of(process.pid)
        return found if len(found) == 2 else []

    def start(self, *more, **options):
        return super().start("--nproc", "2", "--set", "distributed={kind: ddp, timeout_s: 60}", *more, **options)

    test_a_step_that_is_given_up_leaves_no_trace = None
    test_one_very_long_micro_batch_with_nothing_to_save_ends_at_once = None
    test_a_final_evaluation_that_was_broken_off_is_made_by_the_next_start = None
    test_nohup_is_respected = None


if __name__ == "__main__":
    unittest.main()
