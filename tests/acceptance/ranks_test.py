"""Ranks as a user starts them: every kind takes the steps of one process, and a run goes on with another number of ranks."""
import json
import pathlib
import unittest

from trainctl_process import newest_checkpoint, run, signal, start, temporary_directory, write_experiment
from waits import PATIENCE_S, num_records, wait_for

EXPERIMENT = """
name: ranks
seed: 5
dataset: {kind: synthetic_tokens, num_samples: 1000, num_eval_samples: 50, seq_len: 16, vocab_size: 60, batch_size: 24}
model: {kind: gpt2, hidden_size: 32, num_layers: 3, num_heads: 2, dropout: 0.1, attention_dropout: 0.1}
task: {kind: causal_lm}
optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.01, clip_norm: 1.0, lr_scheduler: {kind: cosine, warmup: 20}}
train: {steps: 60, eval_every: 30, log_every: 1}
checkpoint: {every: 30}
tracking: {tensorboard: false}
device: {kind: cpu}
distributed: {timeout_s: 120}
"""


def losses(run_directory):
    """step -> loss; a step that was taken again after a restart must have come out the same."""
    found = {}
    for line in (pathlib.Path(run_directory) / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["event"] == "step":
            found[record["step"]] = record["loss"]
    return found


class Ranks(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.directory = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def train(self, name, *options):
        done = run("train", write_experiment(self.directory, EXPERIMENT), "--run-dir", self.directory / name, "--no-progress", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(self.directory / name)

    def assert_same(self, actual, expected, tolerance):
        self.assertEqual(sorted(actual), sorted(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(actual[step], loss, delta=tolerance, msg=f"step {step}")

    def test_every_kind_takes_the_steps_of_one_process(self):
        expected = self.train("alone")
        kinds = [(2, ["ddp"]), (3, ["zero", "--set", "distributed.stage=1"]), (2, ["zero", "--set", "distributed.stage=2"]),
                 (4, ["zero", "--set", "distributed.stage=3"])]
        for number, (ranks, kind) in enumerate(kinds):
            with self.subTest(kind=kind, ranks=ranks):
                actual = self.train(f"kind{number}", "--nproc", ranks, "--set", f"dataset.batch_size={24 // ranks}", "--set",
                                    f"distributed.kind={kind[0]}", *kind[1:])
                self.assert_same(actual, expected, 1e-4)
        actual = self.train("threads", "--set", "dataset.batch_size=8", "--set", "distributed.kind=local_replicas", "--set",
                            "distributed.devices=3")
        self.assert_same(actual, expected, 1e-4)

    def stopped(self, config, ranks, after):
        """A run on so many ranks that is sent SIGTERM when it has passed a step."""
        process = start("train", config, "--run-dir", self.directory / "elastic", "--no-progress", "--nproc", ranks)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.directory / "elastic") > 0 and max(losses(self.directory / "elastic")) >= after, process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 143, errors)

    def test_a_run_goes_on_with_other_ranks_and_the_same_global_batch(self):
        long = EXPERIMENT.replace("steps: 60, eval_every: 30", "steps: 160, eval_every: 160").replace("every: 30", "every: 60")
        alone = run("train", write_experiment(self.directory, long), "--run-dir", self.directory / "alone", "--no-progress")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        shared = write_experiment(self.directory, long.replace("batch_size: 24", "batch_size: 6"), "shared.yaml")
        self.stopped(shared, 4, after=25)
        at_first = int(newest_checkpoint(self.directory / "elastic").name.split("_")[1])
        self.stopped(shared, 3, after=at_first + 25)  # 18 samples and then 6 in a step
        self.assertGreater(int(newest_checkpoint(self.directory / "elastic").name.split("_")[1]), at_first)
        last = run("train", shared, "--run-dir", self.directory / "elastic", "--no-progress")
        self.assertEqual(last.returncode, 0, last.stderr)
        self.assert_same(losses(self.directory / "elastic"), losses(self.directory / "alone"), 2e-3)

    def test_threads_refuse_a_launcher(self):
        config = write_experiment(self.directory, EXPERIMENT)
        refused = run("train", config, "--run-dir", self.directory / "refused", "--nproc", 2, "--set", "distributed.kind=local_replicas")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("replicas are threads of one process", refused.stderr)


if __name__ == "__main__":
    unittest.main()
