"""Results that can't be written: every command says so and ends with 1."""
import pathlib
import unittest
import subprocess

from trainctl_process import TRAINCTL, run, temporary_directory, write_experiment, write_images
from waits import PATIENCE_S

TINY = """
name: tiny
seed: 1
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 64, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [16]}
train: {steps: 3}
device: {kind: cpu, num_threads: 1}
"""
LANGUAGE = """
name: language
dataset: {kind: text_lm, train: {files: [text]}, tokenizer: bytes, seq_len: 16, batch_size: 4, num_workers: 1, cache_dir: tokenized}
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 32}
task: causal_lm
train: {steps: 2}
device: {kind: cpu, num_threads: 1}
"""
PHOTOS = """
name: photos
dataset: {kind: image_folder, train: photos, batch_size: 8, num_workers: 1, cache_dir: lists, transforms: [{kind: center_crop, size: 8}]}
model: {kind: cnn, channels: [4], hidden: 8}
train: {steps: 2}
device: {kind: cpu, num_threads: 1}
"""


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        (cls.root / "text").write_text("some words\n" * 2000)
        write_images(cls.root / "photos")
        cls.config, cls.language, cls.photos = (write_experiment(cls.root, text, f"{name}.yaml")
                                                for name, text in {"tiny": TINY, "language": LANGUAGE, "photos": PHOTOS}.items())
        for config in (cls.config, cls.language, cls.photos):
            trained = run("train", config, "--run-dir", cls.run_of(config), cwd=cls.root)
            assert trained.returncode == 0, trained.stderr

    @classmethod
    def run_of(cls, config):
        return cls.root / "runs" / config.stem

    def with_model(self, command, config, *arguments):
        return [command, config, "--checkpoint", self.run_of(config), *arguments]

    def to_full_disk(self, *arguments):
        with open("/dev/full", "w") as full:
            return subprocess.run([TRAINCTL, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.root, timeout=PATIENCE_S)

    def under_file_limit(self, kib, *arguments):
        """Where no file can be longer than `kib` KiB."""
        return subprocess.run(["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash", TRAINCTL, *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.root, timeout=PATIENCE_S)

    def test_every_command_notices(self):
        model = ("--checkpoint", self.run_of(self.config))
        commands = {
            "help": ["--help"], "version": ["--version"], "check": ["check", self.config], "check --json": ["check", self.config, "--json"],
            "config show": ["config", "show", self.config], "config new": ["config", "new"], "config schema": ["config", "schema"],
            "config reference": ["config", "reference"], "train --json": ["train", self.config, "--run-dir", self.root / "json", "--json"],
            "eval": ["eval", self.config, *model], "eval --json": ["eval", self.config, *model, "--json"],
            "plan": ["plan", self.config], "plan --json": ["plan", self.config, "--json"],
            "profile --json": ["profile", self.config, "--run-dir", self.root / "profile", "--json"],
            "track": ["track", self.run_of(self.config), "--to", "csv"],
            "compare": ["compare", self.run_of(self.config)], "compare --json": ["compare", self.run_of(self.config), "--json"],
            "checkpoint verify": ["checkpoint", "verify", self.run_of(self.config)], "data stats": ["data", "stats", self.config],
            "data verify": ["data", "verify", self.config], "data bench": ["data", "bench", self.config],
            "data stats --json": ["data", "stats", self.config, "--json"], "data verify --json": ["data", "verify", self.config, "--json"],
            "data bench --json": ["data", "bench", self.config, "--seconds", "0.1", "--warmup", "0", "--json"],
            "data prepare": ["data", "prepare", self.language], "data shard": ["data", "shard", self.photos, "--output", "shards"],
            "checkpoint consolidate": ["checkpoint", "consolidate", self.run_of(self.config), "--output", "weights.safetensors"],
            "predict": self.with_model("predict", self.photos, "--input", "photos/class_0/000.png"),
            "generate": self.with_model("generate", self.language, "--prompt", "so", "--max-tokens", "4"),
            "quantize": self.with_model("quantize", self.config, "--method", "dynamic", "--output", "quantized"),
            "quantize --json": self.with_model("quantize", self.config, "--method", "dynamic", "--output", "quantized_too", "--json"),
            "export": self.with_model("export", self.config, "--format", "onnx", "--output", "exported"),
            "tokenize": ["tokenize", "--train-bpe", "text", "--vocab-size", "300", "--output", "bpe"],
            "doctor": ["doctor"], "doctor --json": ["doctor", "--json"],
        }
        for name, arguments in commands.items():
            with self.subTest(name):
                result = self.to_full_disk(*arguments)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"trainctl: cannot write to standard output: (No space left on device|part of it was lost)\n  try: ")

    def test_an_output_that_is_cut_off_in_the_middle_is_noticed(self):
        self.assertEqual(run("tokenize", "--train-bpe", "text", "--vocab-size", "300", "--output", "half", cwd=self.root).returncode, 0)
        result = self.to_full_disk("tokenize", "--tokenizer", "half", "text")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write to standard output", result.stderr)

    def test_a_file_size_limit_is_told(self):
        result = subprocess.run(["bash", "-c", f'ulimit -f 8; exec "{TRAINCTL}" config schema > schema.json'], capture_output=True, text=True, cwd=self.root)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, "trainctl: cannot write to standard output: (File too large|part of it was lost)")

    def test_a_file_that_cannot_be_written_is_named_and_not_left_half_written(self):
        outputs = {
            "train": (["train", self.config], "--run-dir"), "profile": (["profile", self.config], "--run-dir"),
            "compare --html": (["compare", self.run_of(self.config)], "--html"), "data stats --html": (["data", "stats", self.photos], "--html"),
            "data shard": (["data", "shard", self.photos], "--output"),
            "data prepare": (["data", "prepare", self.language, "--set"], "dataset.cache_dir="),
            "checkpoint consolidate": (["checkpoint", "consolidate", self.run_of(self.config)], "--output"),
            "quantize": (self.with_model("quantize", self.config, "--method", "dynamic"), "--output"),
            "tokenize": (["tokenize", "--train-bpe", "text", "--vocab-size", "300"], "--output"),
            **{f"export {kind}": (self.with_model("export", self.config, "--format", kind), "--output") for kind in ("onnx", "torchscript", "safetensors")},
            "export --mobile": (self.with_model("export", self.config, "--format", "torchscript", "--mobile"), "--output"),
            "export hf": (self.with_model("export", self.language, "--format", "hf"), "--output"),
        }
        for name, (arguments, option) in outputs.items():
            with self.subTest(name):
                target = self.root / "cut" / name.replace(" ", "_")
                target.parent.mkdir(exist_ok=True)
                result = self.under_file_limit(0, *arguments, *([f"{option}{target}"] if option.endswith("=") else [option, target]))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"trainctl: [^\n]*File too large")
                self.assertLessEqual(len(result.stderr.splitlines()), 4, result.stderr)
                left = [path for path in [target, *target.rglob("*")] if path.is_file() and path.stat().st_size == 0 and not path.name.startswith(".")]
                self.assertEqual(left, [])

    def test_a_quantized_network_keeps_its_report_where_a_new_one_cannot_be_written(self):
        target = self.root / "kept"
        arguments = self.with_model("quantize", self.config, "--output", target, "--method")
        self.assertEqual(run(*arguments, "dynamic", cwd=self.root).returncode, 0)
        before = {path.name: path.read_bytes() for path in target.iterdir()}
        result = self.under_file_limit(64, *arguments, "weight_only")  # report.html is longer, the weights are not
        self.assertRegex(result.stderr, r"trainctl: [^\n]*File too large")
        self.assertEqual({path.name: path.read_bytes() for path in target.iterdir()}, before)


if __name__ == "__main__":
    unittest.main()
