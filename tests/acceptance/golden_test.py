"""Loss curves of two small runs, step by step, against those in tests/golden/: golden_test.py --write renews them.

The runs are in fp32 on the CPU, on generated data, without dropout. CPUs and numbers of threads add in another order, and 40 steps amplify that. What
they amplify it to, and what a learning rate that is 1 % off does, was measured: tests/golden/README.md. TOLERANCE lies between the two.
"""
import json
import math
import pathlib
import sys
import unittest

from trainctl_process import ROOT, InScratch, metrics, run, write_experiment

GOLDEN = ROOT / "tests/golden/loss_curves.json"
STEPS = 40
TOLERANCE = 3e-3  # relative, of each step's loss

COMMON = """
name: golden
seed: 7
device: {kind: cpu}
amp: {mode: fp32}
train: {steps: 40, log_every: 1}
checkpoint: {every: 0}
"""
RUNS = {
    "cnn": COMMON + """
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 32, channels: 3, height: 16, width: 16, num_classes: 10, batch_size: 32,
  transforms: [{kind: random_crop, padding: 2}, {kind: random_horizontal_flip}, {kind: normalize}]}
model: {kind: cnn, channels: [8, 16], batch_norm: true, hidden: 32, dropout: 0}
task: {kind: classification, label_smoothing: 0.1}
optimizer: {kind: sgd, momentum: 0.9, lr: 0.05, weight_decay: 5e-4, clip_norm: 5, lr_scheduler: {kind: cosine, warmup: 5}}
""",
    "gpt2": COMMON + """
dataset: {kind: synthetic_tokens, num_samples: 512, num_eval_samples: 8, vocab_size: 256, batch_size: 8}
model: {kind: gpt2, hidden_size: 64, num_layers: 2, num_heads: 4, dropout: 0, attention_dropout: 0}
task: {kind: causal_lm}
optimizer: {kind: adamw, lr: 3e-3, beta2: 0.95, weight_decay: 0.1, clip_norm: 1.0, lr_scheduler: {kind: cosine, warmup: 5}}
accumulation: {steps: 2}
""",
}


def losses_of(name, directory, *settings, env=None):
    """The loss of each step of a run."""
    config = write_experiment(directory, RUNS[name], f"{name}.yaml")
    run_directory = pathlib.Path(directory) / ("-".join([name, *settings]).replace("/", "_"))
    result = run("train", config, "--run-dir", run_directory, *(word for setting in settings for word in ("--set", setting)), env=env)
    assert result.returncode == 0, result.stderr
    return [record["loss"] for record in metrics(run_directory) if record["event"] == "step"]


def largest_difference(losses, golden):
    """Relative, over the steps."""
    assert len(losses) == len(golden) == STEPS
    return max(abs(loss - expected) / expected if math.isfinite(loss) else math.inf for loss, expected in zip(losses, golden))


class Golden(InScratch):
    def setUp(self):
        super().setUp()
        self.golden = json.loads(GOLDEN.read_text())

    def test_losses_are_the_golden_ones(self):
        self.assertEqual(self.golden.keys(), RUNS.keys())
        for name in RUNS:
            with self.subTest(name):
                self.assertLessEqual(largest_difference(losses_of(name, self.root), self.golden[name]), TOLERANCE)

    def test_a_learning_rate_one_percent_off_is_seen(self):
        for name, rate in (("cnn", 0.05), ("gpt2", 3e-3)):
            with self.subTest(name):
                changed = losses_of(name, self.root, f"optimizer.lr={1.01 * rate:.6g}")
                self.assertGreater(largest_difference(changed, self.golden[name]), TOLERANCE)


def write_golden():
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        curves = {name: losses_of(name, directory) for name in RUNS}
    text = ",\n".join(f'  "{name}": [\n' + ",\n".join(f"    {loss:.9g}" for loss in losses) + "\n  ]" for name, losses in curves.items())
    GOLDEN.write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_golden()
    else:
        unittest.main()
