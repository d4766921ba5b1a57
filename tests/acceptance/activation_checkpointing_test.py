"""One line in the file saves activations, and the losses stay the same, bit for bit."""
import pathlib
import unittest

from trainctl_process import EXPERIMENT, metrics, run, temporary_directory, write_experiment

GPT2 = """
name: small-gpt2
seed: 5
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 16, seq_len: 32, vocab_size: 100, batch_size: 4, num_workers: 0}
model: {kind: gpt2, hidden_size: 32, num_layers: 4, num_heads: 2, max_position_embeddings: 32}
task: causal_lm
optimizer: {kind: adamw, lr: 1e-3, clip_norm: 1.0}
accumulation: {steps: 2}
train: {steps: 12, eval_every: 6, log_every: 1}
device: {kind: cpu}
"""
WAYS = ("full", "{kind: every_n, n: 2}", "selective_op", "sqrt", "{kind: full, offload: cpu}")


class ActivationCheckpointing(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)

    def losses(self, name, text):
        # `offload` is refused where the file says cpu: there is nothing to move.
        if "offload" in text:
            text = text.replace("device: {kind: cpu}", "device: {kind: auto}")
        config = write_experiment(self.root, text, f"{name}.yaml")
        result = run("train", config, "--run-dir", self.root / name)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [{k: v for k, v in record.items() if k != "memory_mib"} for record in metrics(self.root / name)]

    def check(self, kind, text, ways):
        expected = self.losses(f"{kind}-plain", text)
        self.assertGreater(len(expected), 10)
        for number, way in enumerate(ways):
            with self.subTest(kind=kind, way=way):
                self.assertEqual(self.losses(f"{kind}-{number}", text + f"activation_checkpointing: {way}\n"), expected)

    def test_a_language_model_with_dropout(self):
        self.check("gpt2", GPT2, WAYS)

    def test_a_language_model_in_bf16(self):
        self.check("bf16", GPT2 + "amp: {mode: bf16}\n", ("full", "selective_op"))

    def test_a_cnn_with_batch_norm(self):
        self.check("cnn", EXPERIMENT.replace("steps: 300", "steps: 60"), ("full", "sqrt"))

    def test_a_dataset_cut_otherwise_sees_the_same_dropout(self):
        whole = self.losses("whole", GPT2.replace("batch_size: 4", "batch_size: 8").replace("steps: 2}", "steps: 1}"))
        parts = self.losses("parts", GPT2.replace("batch_size: 4", "batch_size: 2").replace("steps: 2}", "steps: 4}"))
        self.assertEqual(len(whole), len(parts))
        for one, other in zip(whole, parts):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=2e-5)


if __name__ == "__main__":
    unittest.main()
