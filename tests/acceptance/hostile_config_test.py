"""Every number of three experiments, one at a time, as numbers that nobody means: `check` refuses it, or `train` runs or says why not.

    hostile_config_test.py          each value through check, and one huge one through train
    hostile_config_test.py --all    each value that check accepts through train, too: an hour
"""
import concurrent.futures
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import yaml

from trainctl_process import TRAINCTL, run, temporary_directory, write_experiment

VALUES = ("0", "1", "-1", "0.37", "1e300", ".nan", "1000000007", "9223372036854775807")
HUGE = "1000000007"
LONGEST_RUN_S = 6  # then it is sent SIGTERM; --all waits longer
PATIENCE_S = 8     # for the second or two that a stop takes, on a busy machine
COMMON = """
seed: 1
train: {steps: 3, log_every: 1, eval_every: 2, hang_after_s: 5}
checkpoint: {every: 2, keep: 2}
device: {kind: cpu, threads: 1, memory_limit_mib: 1024}
"""
EXPERIMENTS = {
    "images": """
name: images
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, workers: 1,
  transforms: [{kind: random_crop, padding: 2}, {kind: random_resized_crop, size: 8}, {kind: normalize, mean: [0.5], std: [0.5]}, {kind: random_erasing}]}
model: {kind: cnn, channels: [4], num_pools: 1, batch_norm: true, hidden: 8, dropout: 0.1}
task: {kind: classification, label_smoothing: 0.1, mixup: 0.2, cutmix: 1.0}
optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.01, clip_norm: 1.0, schedule: {kind: cosine, warmup: 2}, ema: {decay: 0.99}}
accumulation: {steps: 2}
""",
    "tokens": """
name: tokens
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 8, length: 8, vocab_size: 50, batch_size: 4, workers: 1}
model: {kind: llama, hidden_size: 16, num_layers: 1, num_heads: 2, intermediate_size: 16, max_positions: 8, lora: {rank: 2, targets: [q_proj]}}
task: {kind: causal_lm}
optimizer: {kind: adafactor, lr: 1e-3}
activation_checkpointing: {kind: every, k: 1}
""",
    "replicas": """
name: replicas
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 8, length: 8, vocab_size: 50, batch_size: 4, workers: 1}
model: {kind: lstm, num_layers: 1, hidden_size: 8}
task: {kind: causal_lm}
optimizer: {kind: sgd, lr: 0.1, momentum: 0.9, schedule: {kind: one_cycle}}
distributed: {kind: data_parallel, devices: 2}
amp: {mode: bf16}
""",
}


def numbers_of(document, path=""):
    """The keys of a document whose values are numbers."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from numbers_of(value, f"{path}.{key}" if path else key)
    elif isinstance(document, list):
        for i, value in enumerate(document):
            yield from numbers_of(value, f"{path}[{i}]")
    elif isinstance(document, (int, float)) and not isinstance(document, bool):
        yield path


def fault_of(code, text):
    """What is wrong with how a command ended, or None."""
    if code not in (0, 1, 2, 128 + signal.SIGTERM):
        return f"exit code {code}"
    if code in (1, 2) and not re.search(r"(?m)^trainctl: |^\S*(exp_\w+\.yaml:|--set )", text):
        return "no line says why"
    if found := re.search(r"frame #|std::|c10::|at::|Exception raised|terminate called", text):
        return f"'{found[0]}' is no word for a user"
    if code in (1, 2) and len((message := text[max(text.rfind("trainctl: "), 0):]).strip().splitlines()) > 4:
        return f"{len(message.splitlines())} lines"
    return None


class HostileConfig(unittest.TestCase):
    longest_run_s = LONGEST_RUN_S
    trained_values = (HUGE,)

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.configs = {name: write_experiment(cls.root, text + COMMON, f"exp_{name}.yaml") for name, text in EXPERIMENTS.items()}

    def assignments(self, values):
        for name, config in self.configs.items():
            shown = run("config", "show", config)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            for key in numbers_of(yaml.safe_load(shown.stdout)):
                for value in values:
                    yield name, f"{key}={value}"

    def check(self, name, assignment):
        result = run("check", self.configs[name], "--file-only", "--set", assignment, timeout=30)
        return fault_of(result.returncode, result.stderr), result.returncode, result.stderr

    def train(self, name, assignment):
        directory = self.root / re.sub(r"\W", "_", f"{name}_{assignment}")
        process = subprocess.Popen([TRAINCTL, "train", self.configs[name], "--run-dir", directory, "--no-progress", "--set", assignment],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.root)
        try:
            _, text = process.communicate(timeout=self.longest_run_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                _, text = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"it goes on {PATIENCE_S} s after SIGTERM", None, process.communicate()[1]
        return fault_of(process.returncode, text), process.returncode, text

    def all_of(self, command, assignments):
        """{(experiment, assignment): exit code}; every fault is a failure of its own."""
        codes = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (name, assignment), (fault, code, text) in zip(assignments, pool.map(lambda one: command(*one), assignments)):
                codes[name, assignment] = code
                with self.subTest(experiment=name, set=assignment):
                    self.assertIsNone(fault, text[-600:])
        return codes

    def test_numbers_that_nobody_means(self):
        codes = self.all_of(self.check, list(self.assignments(VALUES)))
        accepted = [one for one, code in codes.items() if code == 0 and one[1].split("=")[1] in self.trained_values]
        self.assertGreater(len(codes), 600)
        self.assertGreater(len(accepted), 30)
        trained = self.all_of(self.train, accepted)
        print(f"{len(codes)} checked; {len(trained)} trained: "
              + ", ".join(f"{sum(code == kind for code in trained.values())} ended with {kind}" for kind in (0, 1, 2, 143)))


if __name__ == "__main__":
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        HostileConfig.trained_values = VALUES
        HostileConfig.longest_run_s = 20
    unittest.main()
