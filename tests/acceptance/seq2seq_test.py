"""Translations with an encoder-decoder: every command, on numbers in words that a small T5 learns."""
import json
import pathlib
import subprocess
import sys
import unittest

from trainctl_process import ROOT, metrics, newest_checkpoint, run, temporary_directory

EXPERIMENT = """
name: numbers
seed: 1
dataset:
  kind: text_seq2seq
  train: {{files: [{root}/pairs/train.jsonl], source: translation.en, target: translation.de}}
  eval: {{files: [{root}/pairs/eval.jsonl], source: translation.en, target: translation.de}}
  tokenizer: bytes
  prefix: "German: "
  max_source_length: 48
  max_target_length: 32
  length_group_batches: 0
  batch_size: 16
  num_workers: 1
  cache_dir: {root}/cache
model: {{kind: t5, hidden_size: 32, num_layers: 1, num_heads: 2, intermediate_size: 64, dropout: 0.1}}
task: {{kind: seq2seq_lm, label_smoothing: 0.1}}
optimizer: {{kind: adamw, lr: 3e-3, clip_norm: 1.0}}
train: {{steps: {steps}, eval_every: {steps}, log_every: 1}}
checkpoint: {{every: 10}}
tracking: {{tensorboard: false}}
device: {{kind: cpu}}
"""


class Seq2Seq(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        subprocess.run([sys.executable, ROOT / "scripts/number_pairs.py", cls.root / "pairs", "100"], check=True)

    def done(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def write(self, name, steps=20):
        path = self.root / f"{name}.yaml"
        path.write_text(EXPERIMENT.format(root=self.root, steps=steps))
        return path

    def train(self, config, name, *more):
        self.done("train", config, "--run-dir", self.root / name, "--no-progress", *more)
        return {record["step"]: record["loss"] for record in metrics(self.root / name) if record["event"] == "step"}

    def test_a_small_t5_learns_and_each_command_takes_it(self):
        config = self.write("learns", steps=150)
        losses = self.train(config, "learns")
        self.assertLess(losses[150], 0.7 * losses[1])
        evaluated = json.loads(self.done("eval", self.root / "learns", "--json").stdout)["metrics"]
        self.assertEqual(list(evaluated), ["loss", "perplexity", "accuracy"])
        self.assertGreater(evaluated["accuracy"], 0.4)
        prompt = ("--prompt", "forty-two", "--max-tokens", "12")
        greedy = json.loads(self.done("generate", self.root / "learns", *prompt, "--greedy", "--json").stdout)
        self.assertEqual(greedy["num_prompt_tokens"], len("German: forty-two") + 1)
        self.assertTrue(greedy["samples"][0]["text"].isalpha(), greedy)
        self.assertEqual(self.done("generate", self.root / "learns", *prompt, "--greedy").stdout, greedy["samples"][0]["text"] + "\n")
        drawn = json.loads(self.done("generate", self.root / "learns", *prompt, "--num-samples", 3, "--json").stdout)
        self.assertEqual(len(drawn["samples"]), 3)
        sources = self.root / "sources.txt"
        sources.write_text("forty-two\nninety\n")
        written = [json.loads(line) for line in self.done("predict", self.root / "learns", sources).stdout.splitlines()]
        self.assertEqual([line["line"] for line in written], [1, 2])
        self.assertEqual(written[0]["text"][:12], greedy["samples"][0]["text"])
        pairs = self.done("predict", self.root / "learns", self.root / "pairs/eval.jsonl").stdout.splitlines()
        self.assertEqual(len(pairs), 10)
        self.assertIn("text", json.loads(pairs[0]))

    def test_a_resumed_run_and_two_ranks_take_the_same_steps(self):
        config = self.write("steps")
        expected = self.train(config, "whole")
        self.train(config, "resumed", "--set", "train.steps=10")
        self.assertEqual(self.train(config, "resumed"), expected)
        for name in ("model.safetensors", "state.safetensors"):
            self.assertEqual((newest_checkpoint(self.root / "resumed") / name).read_bytes(), (newest_checkpoint(self.root / "whole") / name).read_bytes(), name)
        layouts = {"ddp": (2, "distributed.kind=ddp"), "zero": (2, "distributed.kind=zero"), "pipeline": (2, "distributed.pipeline=2")}
        for name, (ranks, setting) in layouts.items():
            batch = 16 // (1 if name == "pipeline" else ranks)
            with self.subTest(name):
                actual = self.train(config, name, "--nproc", ranks, "--set", setting, "--set", f"dataset.batch_size={batch}")
                for step, loss in expected.items():
                    self.assertAlmostEqual(actual[step], loss, delta=1e-4, msg=f"step {step}")

    def test_a_student_learns_from_a_teacher(self):
        config = self.write("teacher", steps=30)
        self.train(config, "teacher")
        distilled = self.root / "distilled.yaml"
        settings = f"distillation: {{teacher: {{init_from: {self.root / 'teacher'}}}, weight: 1}}\n"
        distilled.write_text(config.read_text().replace("dropout: 0.1", "dropout: 0").replace("label_smoothing: 0.1", "label_smoothing: 0") + settings)
        # The divergence of a network from itself is 0.
        same = self.train(distilled, "same", "--set", "train.steps=1", "--set", f"model.init_from={self.root / 'teacher'}")
        self.assertAlmostEqual(same[1], 0, delta=1e-6)
        student = self.train(distilled, "student", "--set", "model.hidden_size=16")
        self.assertGreater(student[1], 0.1)
        self.assertLess(student[30], student[1])

    def test_layouts_that_a_t5_cannot_have_are_refused(self):
        config = self.write("refused")
        for setting, message in {"distributed.tensor=2": "the layers of t5 can't be split over ranks",
                                 "distributed.context=2": "the sequences of t5 can't be split over ranks",
                                 "quantization.kind=qat": "qat takes networks with one input, and t5 has two",
                                 "task.kind=causal_lm": "expected seq2seq_lm",
                                 "model.relative_attention_num_buckets=6": "expected a multiple of 4"}.items():
            with self.subTest(setting):
                result = run("check", config, "--set", setting)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn(message, result.stderr)

    def test_what_is_exported_starts_a_run_and_graphs_are_refused(self):
        config = self.write("exported", steps=10)
        self.train(config, "exported")
        self.done("export", self.root / "exported", "--output", self.root / "hf")
        described = json.loads((self.root / "hf/config.json").read_text())
        self.assertEqual((described["model_type"], described["d_model"], described["decoder_start_token_id"]), ("t5", 32, 0))
        again = self.root / "again.yaml"
        again.write_text(config.read_text().replace("{kind: t5, hidden_size: 32, num_layers: 1, num_heads: 2, intermediate_size: 64, dropout: 0.1}",
                                                    f"{{init_from: {self.root / 'hf'}}}"))
        before = json.loads(self.done("eval", self.root / "exported", "--json").stdout)["metrics"]
        after = json.loads(self.done("eval", again, "--checkpoint", self.root / "hf", "--json").stdout)["metrics"]
        self.assertAlmostEqual(before["loss"], after["loss"], places=6)
        for arguments in (("export", "--format", "onnx", "--output", "t5.onnx"), ("export", "--format", "torchscript", "--output", "t5.pt"),
                          ("quantize", "--output", "int8"), ("export", "--format", "gguf", "--output", "t5.gguf")):
            with self.subTest(arguments):
                result = run(arguments[0], self.root / "exported", *arguments[1:], cwd=self.root)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn("t5", result.stderr)

    def test_the_data_are_shown_prepared_and_refused_with_their_place(self):
        config = self.write("data")
        shown = self.done("data", "preview", config, "--num-samples", 2).stdout
        self.assertIn("text_seq2seq, train", shown)
        self.assertRegex(shown, r"German: [a-z -]+")
        self.assertIn("[[", shown)
        prepared = json.loads(self.done("data", "prepare", config, "--json").stdout)
        self.assertEqual([text["part"] for text in prepared], ["train", "eval"])
        bad = self.root / "bad.jsonl"
        bad.write_text('{"translation": {"en": "one", "de": "eins"}}\n{"translation": {"en": "two"}}\n')
        result = run("check", config, "--set", f"dataset.train.files=[{bad}]")
        self.assertEqual(result.returncode, 2)
        self.assertIn("bad.jsonl:2: this object has no member 'translation.de'", result.stderr)
        cut = self.done("train", config, "--run-dir", self.root / "cut", "--set", "dataset.max_source_length=12", "--set", "train.steps=1")
        self.assertRegex(cut.stdout + cut.stderr, r"dataset\.train: \d+ of 90 sources are cut to 12 tokens")


if __name__ == "__main__":
    unittest.main()
