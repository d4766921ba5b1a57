"""Pipelines over processes: launchers, equal losses, lost ranks, other layouts, and schedules from a file."""
import math
import os
import pathlib
import re
import signal
import unittest

from trainctl_process import metrics, newest_checkpoint, run, start, temporary_directory, write_experiment
from waits import PATIENCE_S, children_of, wait_for

EXPERIMENT = """
name: pipeline
seed: 5
dataset: {{kind: synthetic_tokens, num_samples: 1000, num_eval_samples: 48, seq_len: 16, vocab_size: 60, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 64, num_layers: 3, num_heads: 2, dropout: 0.1, attention_dropout: 0.1}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 2e-3, clip_norm: 1.0}}
accumulation: {{steps: 4}}
train: {{steps: {steps}, log_every: 1, eval_every: 10}}
checkpoint: {{every: 5, keep_last: 10}}
tracking: {{tensorboard: false}}
device: {{kind: cpu, num_threads: 1}}
distributed: {distributed}
"""

# The second stage has the head, whose logits take 62.5 MiB.
OUT_OF_MEMORY = """
name: memory
seed: 5
dataset: {kind: synthetic_tokens, num_samples: 1000, num_eval_samples: 0, seq_len: 256, vocab_size: 8000, batch_size: 8}
model: {kind: gpt2, hidden_size: 64, num_layers: 4, num_heads: 2}
task: {kind: causal_lm, loss_chunk_size: 100000}
optimizer: {kind: adamw, lr: 2e-3}
accumulation: {steps: 4}
train: {steps: 4, log_every: 1}
checkpoint: {every: 2}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
distributed: {kind: ddp, pipeline: 2, pipeline_split: {kind: by_hand, blocks: [2, 4]}}
"""


class Pipeline(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.directory = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def config(self, distributed, data=1, steps=10):
        text = EXPERIMENT.format(batch=6 // data, steps=steps, distributed=distributed)
        name = re.sub(r"\W+", "-", f"{distributed}-{data}-{steps}")
        return write_experiment(self.directory, text, name + ".yaml")

    def train(self, config, ranks, name):
        done = run("train", config, "--run-dir", self.directory / name, "--no-progress", "--nproc", ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.directory / name

    def losses(self, run_directory):
        return [record["loss"] for record in metrics(run_directory) if record["event"] == "step"]

    def assert_near(self, ours, expected, places=4):
        self.assertEqual(len(ours), len(expected))
        for a, b in zip(ours, expected):
            self.assertAlmostEqual(a, b, places=places)

    def weights(self, run_directory):
        merged = self.directory / f"{run_directory.name}.safetensors"
        done = run("checkpoint", "consolidate", newest_checkpoint(run_directory), "--output", merged)
        self.assertEqual(done.returncode, 0, done.stderr)
        return merged.read_bytes()

    def test_a_stage_that_runs_out_of_memory_is_named_and_nothing_is_lost(self):
        config = write_experiment(self.directory, OUT_OF_MEMORY, "memory.yaml")
        whole = run("train", config, "--run-dir", self.directory / "whole", "--no-progress", "--nproc", 2)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        run_directory = self.directory / "memory"
        first = run("train", config, "--run-dir", run_directory, "--no-progress", "--nproc", 2, "--set", "train.steps=2")
        self.assertEqual(first.returncode, 0, first.stderr)
        # A plan may be 5 % too high, so that a run just above its limit is tried.
        planned = float(re.search(r"estimated memory: ([\d.]+) MiB on the rank that holds most", whole.stderr)[1])
        limit = math.ceil(planned / 1.05)
        limited = run("train", config, "--run-dir", run_directory, "--no-progress", "--nproc", 2, "--set", f"device.memory_limit_mib={limit}")
        self.assertEqual(limited.returncode, 1, limited.stderr)
        self.assertRegex(limited.stderr, rf"(?m)^trainctl: rank 1 on \S+ failed at step 2: out of memory at step 3: cannot allocate .* of {limit}.0 MiB are in use")
        self.assertIn("  try: dataset.batch_size: 4, accumulation.steps: 8", limited.stderr)
        self.assertNotIn("frame #", limited.stderr)
        self.train(config, 2, "memory")  # goes on where the checkpoint was
        self.assertEqual(self.weights(run_directory), self.weights(self.directory / "whole"))

    def test_four_processes_make_the_losses_of_one(self):
        alone = self.losses(self.train(self.config("{kind: none}"), 1, "alone"))
        self.assertEqual(len(alone), 10)
        for kind in ("ddp", "zero, stage: 1", "zero, stage: 3"):
            config = self.config(f"{{kind: {kind}, pipeline: 2}}", data=2)
            self.assert_near(self.losses(self.train(config, 4, re.sub(r"\W+", "-", kind))), alone)

    def test_a_schedule_may_come_from_a_file(self):
        schedule = self.directory / "mine.csv"
        schedule.write_text("0F0,0F1,0F2,,0B0,0F3,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n")
        layout = f"{{kind: ddp, pipeline: 2, pipeline_schedule: {{kind: csv, file: {schedule}}}}}"
        alone = self.losses(self.train(self.config("{kind: none}"), 1, "alone"))
        self.assert_near(self.losses(self.train(self.config(layout), 2, "csv")), alone)
        schedule.write_text("0F1,0F0,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B9\n")
        done = run("train", self.config(layout, steps=11), "--run-dir", self.directory / "bad", "--nproc", 2)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("mine.csv", done.stderr)

    def kill_a_rank(self, config, ranks, run_directory):
        """Starts a run, and kills its last rank once there is a checkpoint. Returns what the run says, and how it ends."""
        process = start("train", config, "--run-dir", run_directory, "--no-progress", "--nproc", ranks)
        self.addCleanup(process.kill)
        wait_for(lambda: any(".tmp" not in path.name for path in (run_directory / "checkpoints").glob("step_*")), process)
        victims = children_of(process.pid)
        self.assertEqual(len(victims), ranks)
        os.kill(victims[-1], signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE_S)
        return errors, process.returncode

    def test_a_killed_stage_is_named_and_the_run_goes_on_in_another_layout(self):
        row = self.config("{kind: ddp, pipeline: 2, timeout_s: 60}", data=2, steps=4000)
        errors, status = self.kill_a_rank(row, 4, self.directory / "run")
        self.assertNotEqual(status, 0)
        self.assertRegex(errors, r"rank 3 ")
        checkpoint = newest_checkpoint(self.directory / "run")
        step = int(checkpoint.name.split("_")[-1])
        for name, distributed, data, ranks in (("alone", "{kind: none}", 1, 1),
                                               ("shards", "{kind: zero, stage: 2}", 2, 2),
                                               ("v", "{kind: ddp, pipeline: 2, pipeline_schedule: {kind: zbv}}", 1, 2)):
            config = self.config(distributed, data=data, steps=step + 5)
            done = run("train", config, "--run-dir", self.directory / name, "--resume", checkpoint, "--no-progress", "--nproc", ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(self.losses(self.directory / name)), 5)
            if name != "alone":
                self.assert_near(self.losses(self.directory / name), self.losses(self.directory / "alone"))

    def test_a_killed_run_resumes_to_the_bit(self):
        config = self.config("{kind: zero, stage: 1, pipeline: 2, timeout_s: 60}", data=2, steps=200)
        whole = self.train(config, 4, "whole")
        _, status = self.kill_a_rank(config, 4, self.directory / "killed")
        self.assertNotEqual(status, 0)
        self.train(config, 4, "killed")
        self.assertEqual(self.weights(self.directory / "killed"), self.weights(whole))


if __name__ == "__main__":
    unittest.main()
