"""Results that can't be written: every command says so and ends with 1."""
import pathlib
import unittest
import subprocess

from trainctl_process import ROOT, TRAINCTL, run, temporary_directory, write_experiment

TINY = """
name: tiny
seed: 1
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 64, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, workers: 1}
model: {kind: mlp, hidden: [16]}
train: {steps: 3}
device: {kind: cpu, threads: 1}
"""


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = temporary_directory()
        cls.root = pathlib.Path(cls.temporary.name)
        cls.config = write_experiment(cls.root, TINY)
        trained = run("train", cls.config, "--run-dir", cls.root / "run", cwd=cls.root)
        assert trained.returncode == 0, trained.stderr
        (cls.root / "text").write_text("some words\n" * 2000)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def to_full_disk(self, *arguments):
        with open("/dev/full", "w") as full:
            return subprocess.run([TRAINCTL, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.root, timeout=120)

    def test_every_command_notices(self):
        model = ("--checkpoint", self.root / "run")
        commands = {
            "help": ["--help"], "version": ["--version"], "check": ["check", self.config], "check --json": ["check", self.config, "--json"],
            "config show": ["config", "show", self.config], "config new": ["config", "new"], "config schema": ["config", "schema"],
            "config reference": ["config", "reference"], "train --json": ["train", self.config, "--run-dir", self.root / "json", "--json"],
            "eval": ["eval", self.config, *model], "eval --json": ["eval", self.config, *model, "--json"],
            "plan": ["plan", self.config], "plan --json": ["plan", self.config, "--json"],
            "profile --json": ["profile", self.config, "--run-dir", self.root / "profile", "--json"],
            "compare": ["compare", self.root / "run"], "compare --json": ["compare", self.root / "run", "--json"],
            "checkpoint verify": ["checkpoint", "verify", self.root / "run"], "data stat": ["data", "stat", self.config],
            "data verify": ["data", "verify", self.config], "data bench": ["data", "bench", self.config],
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


if __name__ == "__main__":
    unittest.main()
