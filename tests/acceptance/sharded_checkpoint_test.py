"""Checkpoints that ranks write together: killed ranks, other numbers of ranks, one file out of many parts, snapshots in memory."""
import json
import os
import pathlib
import random
import re
import signal
import unittest

from trainctl_process import metrics, newest_checkpoint, run, start, temporary_directory, write_experiment
from waits import PATIENCE_S, children_of, wait_for

EXPERIMENT = """
name: sharded
seed: 5
dataset: {{kind: synthetic_tokens, num_samples: 1000, num_eval_samples: 0, seq_len: 16, vocab_size: 60, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 64, num_layers: 3, num_heads: 2, dropout: 0.1, attention_dropout: 0.1}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 2e-3, clip_norm: 1.0}}
train: {{steps: {steps}, log_every: 1}}
checkpoint: {checkpoint}
tracking: {{tensorboard: false}}
device: {{kind: cpu}}
distributed: {{kind: {kind}, timeout_s: 60}}
"""


class ShardedCheckpoint(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.directory = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        self.run_dir = self.directory / "run"

    def config(self, ranks=1, steps=60, kind="zero", checkpoint="{every: 1, keep_last: 3}"):
        text = EXPERIMENT.format(batch=24 // ranks, steps=steps, kind=kind, checkpoint=checkpoint)
        return write_experiment(self.directory, text, f"{ranks}-{steps}-{kind}.yaml")

    def call(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def train(self, config, ranks=1, run_dir=None):
        return self.call("train", config, "--run-dir", run_dir or self.run_dir, "--no-progress", "--nproc", ranks)

    def last_step(self):
        """Of the run so far; 0 where there is none."""
        path = self.run_dir / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        steps = [int(match[1]) for line in lines if (match := re.search(r'"step":\s*(\d+)', line))]
        return max(steps, default=0)

    def kill(self, config, ranks, steps, victims=1):
        """Starts a run, and kills ranks of it when it has taken some steps."""
        begin = self.last_step()
        process = start("train", config, "--run-dir", self.run_dir, "--no-progress", "--nproc", ranks)
        self.addCleanup(process.kill)
        wait_for(lambda: self.last_step() >= begin + steps or process.poll() is not None)
        for victim in children_of(process.pid)[-victims:]:
            os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)

    def test_a_rank_killed_during_saves_costs_no_earlier_checkpoint_and_the_run_goes_on_with_others(self):
        whole = self.directory / "whole"
        self.train(self.config(), run_dir=whole)
        expected = {record["step"]: record["loss"] for record in metrics(whole)}
        draw = random.Random(1)
        for ranks, kind in ((4, "zero"), (2, "ddp"), (3, "zero")):
            self.kill(self.config(ranks, kind=kind), ranks, draw.randint(3, 12))
            if (self.run_dir / "checkpoints").exists() and any((self.run_dir / "checkpoints").glob("step_????????")):
                self.assertEqual(json.loads(self.call("checkpoint", "verify", self.run_dir, "--json").stdout)["damaged"], [])
        self.train(self.config(2), ranks=2)
        actual = {record["step"]: record["loss"] for record in metrics(self.run_dir)}
        self.assertEqual(sorted(actual), sorted(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(actual[step], loss, delta=1e-3, msg=f"step {step}")

    def test_parts_become_one_file_and_every_command_reads_them(self):
        import safetensors.numpy

        self.train(self.config(3, steps=4), ranks=3)
        self.assertTrue((newest_checkpoint(self.run_dir) / "part_00003_of_00003.safetensors").exists())
        one = self.directory / "one.safetensors"
        self.call("checkpoint", "consolidate", self.run_dir, "--output", one)
        self.call("export", self.config(3, steps=4), "--checkpoint", self.run_dir, "--format", "safetensors", "--output", self.directory / "out")
        consolidated = safetensors.numpy.load_file(one)
        exported = safetensors.numpy.load_file(self.directory / "out/model.safetensors")
        for name, values in exported.items():
            self.assertTrue((consolidated[name] == values).all(), name)
        everything = self.directory / "all.safetensors"
        self.call("checkpoint", "consolidate", self.run_dir, "--output", everything, "--everything")
        self.assertEqual(sum(name.startswith("optimizer.exp_avg.") for name in safetensors.numpy.load_file(everything)),
                         sum(name.startswith("model.") for name in safetensors.numpy.load_file(everything)))
        self.call("train", self.config(steps=6), "--run-dir", self.directory / "fresh", "--set", f"model.init_from={self.run_dir}")

    def test_ranks_that_are_killed_go_on_from_their_snapshot_bit_for_bit(self):
        checkpoint = f"{{every: 0, in_memory: {{every: 2, path: {self.directory}}}}}"
        config = self.config(2, steps=80, checkpoint=checkpoint)
        whole = self.directory / "whole"
        self.train(config, ranks=2, run_dir=whole)
        draw = random.Random(2)
        for _ in range(3):
            self.kill(config, 2, draw.randint(5, 20), victims=2)
        resumed = self.train(config, ranks=2).stderr
        self.assertIn("resuming the snapshot of step", resumed)
        self.assertEqual(metrics(self.run_dir), metrics(whole))
        self.assertEqual([path for path in self.directory.rglob("trainctl-snapshots-*/*/*")], [])


if __name__ == "__main__":
    unittest.main()
