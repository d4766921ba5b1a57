"""Preferences: a small chat model learns which answers are preferred, is resumed, shared by ranks, evaluated, previewed and asked."""
import json
import math
import pathlib
import unittest

from chat_test import conversation, write_inputs
from trainctl_process import InScratch, metrics, newest_checkpoint, run, temporary_directory, write_experiment

EXPERIMENT = """
name: acceptance-preference
seed: 5
dataset: {kind: preference, train: pairs.jsonl, eval_fraction: 0.2, tokenizer: bytes, chat_template: chat.jinja, seq_len: 192, batch_size: 4, cache_dir: cache}
model: {init_from: first, dropout: 0, attention_dropout: 0}
task: {kind: dpo, beta: 0.5}
optimizer: {kind: adamw, lr: 1e-3}
train: {steps: 20, eval_every: 10, log_every: 1}
checkpoint: {every: 10, keep_last: 2}
device: {kind: cpu}
"""
SMALL = ("--set", "train.steps=4", "--set", "train.eval_every=4", "--set", "checkpoint.every=2")


def pair(number):
    return {"prompt": f"What is after {number}?", "chosen": f"It is {number + 1}.", "rejected": f"No idea, {number}?"}


def write_pairs(root, rows=None):
    rows = [pair(number) for number in range(200)] if rows is None else rows
    (root / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write_experiment(root, EXPERIMENT, "pairs.yaml")


def train_first(root):
    """A model that has seen few conversations, and its run `first`."""
    config = write_inputs(root, rows=[conversation(number) for number in range(40)])
    first = run("train", config, "--run-dir", "first", "--set", "train.steps=10", "--set", "train.eval_every=0", cwd=root)
    assert first.returncode == 0, first.stderr


class Preferences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        train_first(cls.root)
        cls.config = write_pairs(cls.root)
        trained = run("train", cls.config, "--run-dir", "run", "--json", cwd=cls.root)
        assert trained.returncode == 0, trained.stderr
        cls.summary = json.loads(trained.stdout)

    def test_the_preferred_answers_become_likelier(self):
        losses = [record["loss"] for record in metrics(self.root / "run") if record["event"] == "step"]
        self.assertAlmostEqual(losses[0], math.log(2), 5, "the network is its own reference at first")
        final = self.summary["final_metrics"]
        self.assertLess(final["loss"], 0.6)
        self.assertGreater(final["reward_accuracy"], 0.8)
        self.assertGreater(final["reward_margin"], 0.1)

    def test_a_resumed_run_ends_with_the_same_bits(self):
        resumed = run("train", self.config, "--run-dir", "resumed", "--resume", "run/checkpoints/step_00000010", cwd=self.root)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual((newest_checkpoint(self.root / "resumed") / "model.safetensors").read_bytes(),
                         (newest_checkpoint(self.root / "run") / "model.safetensors").read_bytes())

    def test_an_evaluation_compares_with_the_same_reference(self):
        told = run("eval", "run", "--json", cwd=self.root)
        self.assertEqual(told.returncode, 0, told.stderr)
        evaluated = json.loads(told.stdout)["metrics"]
        for name in ("loss", "reward_accuracy", "reward_margin"):
            self.assertAlmostEqual(evaluated[name], self.summary["final_metrics"][name], 5)

    def test_ranks_and_accumulation_sum_to_the_same_step(self):
        losses = {}
        for name, settings in {"one": (), "ranks": ("--nproc", "2", "--set", "dataset.batch_size=2"),
                               "parts": ("--set", "dataset.batch_size=2", "--set", "accumulation.steps=2")}.items():
            result = run("train", self.config, "--run-dir", name, *SMALL, *settings, cwd=self.root)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses[name] = [record["loss"] for record in metrics(self.root / name) if record["event"] == "step"]
        for other in ("ranks", "parts"):
            for ours, theirs in zip(losses["one"], losses[other], strict=True):
                self.assertAlmostEqual(ours, theirs, 5, other)

    def test_padded_rows_and_other_losses_train(self):
        for loss in ("hinge", "ipo"):
            result = run("train", self.config, "--run-dir", loss, *SMALL, "--set", f"task.loss_type={loss}", "--set", "dataset.packing=none", cwd=self.root)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_adapters_are_trained_beside_their_reference(self):
        result = run("train", self.config, "--run-dir", "lora", *SMALL, "--set", "model.lora={rank: 4, target_modules: [c_attn]}", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [record["loss"] for record in metrics(self.root / "lora") if record["event"] == "step"]
        self.assertAlmostEqual(losses[0], math.log(2), 5)
        self.assertNotAlmostEqual(losses[-1], math.log(2), 5)

    def test_half_of_a_row_is_compared_with_the_positions(self):
        trained = run("train", self.config, "--run-dir", "half", *SMALL, "--set", "dataset.seq_len=384", cwd=self.root)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        longer = run("train", self.config, "--run-dir", "longer", *SMALL, "--set", "dataset.seq_len=386", cwd=self.root)
        self.assertEqual(longer.returncode, 1)
        self.assertIn("sequences have up to 193 tokens, but model gpt2 has positions for 192", longer.stderr)

    def test_the_other_commands_take_the_experiment(self):
        shown = run("data", "preview", self.config, "-n", 1, cwd=self.root)
        self.assertIn("pair 1, chosen", shown.stdout + shown.stderr)
        self.assertIn("<|user|>What is after 0?<|end|><|assistant|>[[It is 1.<|end|>]]", shown.stdout)
        self.assertIn("<|user|>What is after 0?<|end|><|assistant|>[[No idea, 0?<|end|>]]", shown.stdout)
        for command in (("check", self.config), ("data", "prepare", self.config), ("plan", self.config), ("profile", self.config, "--set", "profiler.active=1"),
                        ("generate", "run", "--chat", "--prompt", "What is after 7?", "--max-tokens", 4)):
            result = run(*command, cwd=self.root)
            self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")


class Wrong(InScratch):
    def test_a_row_that_is_no_pair_is_named(self):
        config = write_pairs(self.root, [pair(1), {"prompt": "Hm?", "chosen": "a"}])
        write_inputs(self.root)
        result = run("check", config, "--set", "model.kind=gpt2", "--set", "model.init_from=null", "--set", "task.reference=first", cwd=self.root)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("pairs.jsonl:2: no `rejected`; got prompt and chosen", result.stderr + result.stdout)

    def test_a_reference_is_asked_for(self):
        config = write_pairs(self.root)
        result = run("check", config, "--set", "model.kind=gpt2", "--set", "model.init_from=null", cwd=self.root)
        self.assertEqual(result.returncode, 2)
        self.assertIn("dpo compares with the network that training starts from", result.stderr)

    def test_shared_layers_are_refused(self):
        config = write_pairs(self.root)
        result = run("check", config, "--set", "model.kind=gpt2", "--set", "distributed={kind: ddp, tensor: 2}", cwd=self.root)
        self.assertIn("each rank has the whole frozen network", result.stderr)
