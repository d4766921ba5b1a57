"""Ranks that share layers, and stages of them: every launcher, equal losses, lost ranks, other layouts, exports, bad layouts."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import unittest

from hang_test import children_of
from trainctl_process import ROOT, TRAINCTL, metrics, newest_checkpoint, run, start, temporary_directory, write_experiment
from waits import PATIENCE_S, is_running, num_records, wait_for

LAUNCH = ROOT / "scripts/launch"
EXPERIMENT = """
name: square
seed: 5
dataset: {{kind: synthetic_tokens, num_samples: 1000, num_eval_samples: 48, seq_len: 16, vocab_size: 61, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 64, num_layers: 2, num_heads: 4, dropout: 0.1, attention_dropout: 0.1}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 2e-3, clip_norm: 1.0}}
accumulation: {{steps: 2}}
train: {{steps: {steps}, log_every: 1, eval_every: 10, watchdog: {{min_timeout_s: 5}}}}
checkpoint: {{every: 5, keep_last: 10}}
tracking: {{tensorboard: false}}
device: {{kind: cpu, num_threads: 1}}
distributed: {distributed}
"""
SQUARE = "{kind: ddp, tensor: 2, pipeline: 2, timeout_s: 40}"


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMI", "TORCHELASTIC"))}
    return {**kept, "TRAINCTL": str(TRAINCTL), "OMP_NUM_THREADS": "1", **more}


class TensorParallel(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.directory = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def config(self, distributed, data=1, steps=10):
        text = EXPERIMENT.format(batch=12 // data, steps=steps, distributed=distributed)
        return write_experiment(self.directory, text, re.sub(r"\W+", "-", f"{distributed}-{data}-{steps}") + ".yaml")

    def train(self, config, ranks, name, *more):
        done = run("train", config, "--run-dir", self.directory / name, "--no-progress", "--nproc", ranks, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.directory / name

    def losses(self, run_directory):
        return [record["loss"] for record in metrics(run_directory) if record["event"] == "step"]

    def assert_near(self, ours, expected):
        self.assertEqual(len(ours), len(expected))
        for a, b in zip(ours, expected):
            self.assertAlmostEqual(a, b, places=4)

    def weights(self, checkpoint, name):
        merged = self.directory / f"{name}.safetensors"
        done = run("checkpoint", "consolidate", checkpoint, "--output", merged)
        self.assertEqual(done.returncode, 0, done.stderr)
        return merged.read_bytes()

    def test_every_launcher_starts_stages_of_shared_layers(self):
        alone = self.losses(self.train(self.config("{kind: none}"), 1, "alone"))
        config = self.config(SQUARE)
        nproc = self.train(config, 4, "nproc")
        self.assert_near(self.losses(nproc), alone)
        mpirun = "mpirun --oversubscribe" + (" --allow-run-as-root" if os.geteuid() == 0 else "")
        python = ROOT / ".deps/python/bin/python3"
        for name, needs, settings in (("torchrun", python, {"TORCHRUN": f"{shlex.quote(str(python))} -m torch.distributed.run"}),
                                      ("mpirun", shutil.which("mpirun"), {"MPIRUN": mpirun})):
            if needs is None or not pathlib.Path(needs).exists():
                self.skipTest(f"no {needs or name} here")
            done = subprocess.run([LAUNCH / f"{name}.sh", config, "--run-dir", self.directory / name], env=environment(NPROC="4", **settings),
                                  capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.losses(self.directory / name), self.losses(nproc))

    def start_square(self, name):
        """A run under way, with the processes of its ranks."""
        process = start("train", self.config(SQUARE, steps=100000), "--run-dir", self.directory / name, "--no-progress", "--nproc", 4)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.directory / name) >= 5, process)
        ranks = children_of(process.pid)
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        return process, ranks

    def test_a_killed_and_a_stopped_rank_are_named(self):
        for name, sent in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
            process, ranks = self.start_square(name)
            os.kill(ranks[2], sent)
            _, errors = process.communicate(timeout=PATIENCE_S)
            self.assertNotEqual(process.returncode, 0, errors)
            self.assertRegex(errors, r"rank 2 ", name)
            wait_for(lambda: not any(map(is_running, ranks.values())))

    def test_a_checkpoint_goes_on_in_any_layout_and_is_exported(self):
        square = newest_checkpoint(self.train(self.config(SQUARE), 4, "square"))
        losses = {}
        for name, distributed, data, ranks in (("data 4", "{kind: ddp}", 4, 4), ("tensor 4", "{kind: ddp, tensor: 4}", 1, 4),
                                               ("context 2", "{kind: zero, stage: 3, context: 2, tensor: 2}", 1, 4), ("alone", "{kind: none}", 1, 1), ("shards", "{kind: zero, stage: 3, tensor: 2}", 2, 4)):
            going_on = self.train(self.config(distributed, data=data, steps=12), ranks, name, "--resume", square)
            losses[name] = self.losses(going_on)
            self.assertEqual(len(losses[name]), 2)
            self.assert_near(losses[name], losses["data 4"])
        exported = self.directory / "exported"
        done = run("export", self.config(SQUARE), "--checkpoint", self.directory / "square", "--format", "hf", "--output", exported)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((exported / "model.safetensors").exists())

    def test_a_killed_run_resumes_to_the_bit(self):
        config = self.config("{kind: zero, stage: 1, tensor: 2, timeout_s: 40}", data=2, steps=100)
        whole = self.train(config, 4, "whole")
        process = start("train", config, "--run-dir", self.directory / "killed", "--no-progress", "--nproc", 4)
        self.addCleanup(process.kill)
        checkpoints = self.directory / "killed/checkpoints"
        wait_for(lambda: [p for p in checkpoints.glob("step_*") if ".tmp" not in p.name], process)
        os.kill(children_of(process.pid)[1], signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        self.train(config, 4, "killed")
        self.assertEqual(self.weights(newest_checkpoint(self.directory / "killed"), "killed"), self.weights(newest_checkpoint(whole), "whole"))

    def test_layouts_that_cannot_be_are_refused_at_their_line(self):
        for distributed, said in (("{kind: ddp, tensor: 3}", r"13:\d+: .*divides model.num_heads, 4, got 3; take 2 or 4"),
                                  ("{kind: ddp, context: 3}", r"13:\d+: .*sequences of 16 tokens .* 6 equal chunks; take 2 or 4"),
                                  ("{kind: none, context: 2}", r"13:\d+: .*kind is none; take auto, ddp or zero"),
                                  ("{kind: none, tensor: 2}", r"13:\d+: .*kind is none; take auto, ddp or zero"),
                                  ("{kind: ddp, tensor: 0}", r"distributed.tensor")):
            done = run("check", "--file-only", self.config(distributed))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, said)
        done = run("train", self.config("{kind: ddp, tensor: 2, pipeline: 2}"), "--run-dir", self.directory / "bad", "--nproc", 2)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"tensor is 2, which doesn't divide the 1 rank of a stage")


if __name__ == "__main__":
    unittest.main()
