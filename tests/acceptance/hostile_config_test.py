"""Every number of a config, one at a time, as numbers that nobody means: `check` refuses it, or `train` runs or says why not."""
import concurrent.futures
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

from schema_numbers import numbers_of_schema
from trainctl_process import TRAINCTL, run, temporary_directory, write_experiment
from waits import PATIENCE_S

VALUES = ("0", "1", "-1", "0.37", "1e300", ".nan", "1000000007", "9223372036854775807")
LONGEST_RUN_S = 6  # then it is sent SIGTERM
COMMON = """
seed: 1
train: {steps: 3, log_every: 1, eval_every: 2, watchdog: {min_timeout_s: 5}}
checkpoint: {every: 2, keep_last: 2}
device: {kind: cpu, num_threads: 1, memory_limit_mib: 1024}
"""
EXPERIMENTS = {
    "images": """
name: images
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1,
  transforms: [{kind: random_crop, padding: 2}, {kind: random_resized_crop, size: 8}, {kind: normalize, mean: [0.5], std: [0.5]}, {kind: random_erasing}]}
model: {kind: cnn, channels: [4], num_pools: 1, batch_norm: true, hidden: 8, dropout: 0.1}
task: {kind: classification, label_smoothing: 0.1, mixup: 0.2, cutmix: 1.0}
optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.01, clip_norm: 1.0, lr_scheduler: {kind: cosine, warmup: 2}, ema: {decay: 0.99}}
accumulation: {steps: 2}
""",
    "tokens": """
name: tokens
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 8, seq_len: 8, vocab_size: 50, batch_size: 4, num_workers: 1}
model: {kind: llama, hidden_size: 16, num_layers: 1, num_heads: 2, intermediate_size: 16, max_position_embeddings: 8, lora: {rank: 2, target_modules: [q_proj]}}
task: {kind: causal_lm}
optimizer: {kind: adafactor, lr: 1e-3}
activation_checkpointing: {kind: every_n, n: 1}
""",
    "replicas": """
name: replicas
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 8, seq_len: 8, vocab_size: 50, batch_size: 4, num_workers: 1}
model: {kind: lstm, num_layers: 1, hidden_size: 8}
task: {kind: causal_lm}
optimizer: {kind: sgd, lr: 0.1, momentum: 0.9, lr_scheduler: {kind: one_cycle}}
distributed: {kind: local_replicas, devices: 2}
amp: {mode: bf16}
""",
}
# What datasets that no experiment above reads may train, without an evaluation.
BERT = "kind: bert, hidden_size: 16, num_layers: 1, num_heads: 2, intermediate_size: 16, max_position_embeddings: 1024"
PLAIN = [f"{{name: plain, seed: 1, model: {model}, task: {{kind: {task}}}, train: {{steps: 3}}, device: {{kind: cpu, num_threads: 1, memory_limit_mib: 1024}}}}"
         for model, task in {
             "{kind: cnn, channels: [4], hidden: 8}": "classification", "{kind: mlp, hidden: [8]}": "classification",
             "{kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2}": "causal_lm", f"{{{BERT}, head: masked_lm}}": "masked_lm",
             f"{{{BERT}, head: classification}}": "classification", f"{{{BERT}, head: token_classification}}": "token_classification"}.items()]


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


def with_section(experiment, section, made):
    """The experiment with this value of a section, beside what it says of the same kind."""
    there = experiment.get(section)
    if isinstance(made, dict) and there and there.get("kind") in (None, made.get("kind")):
        made = {**there, **made}
    return {**experiment, section: made}


def fault_of(code, text):
    """What is wrong with how a command ended, or None."""
    if code not in (0, 1, 2, 128 + signal.SIGTERM):
        return f"exit code {code}"
    if code in (1, 2) and not re.search(r"(?m)^trainctl: |^\S*(exp_\w+\.yaml:|--set )", text):
        return "no line says why"
    if found := re.search(r"frame #|std::|c10::|at::|Exception raised|terminate called", text):
        return f"'{found[0]}' is no word for a user"
    if code in (1, 2):
        lines = text[max(text.rfind("trainctl: "), 0):].strip().splitlines()
        problems = sum(re.match(r"\S*exp_\w+\.yaml:\d+:\d+: ", line) is not None for line in lines)  # a line each
        most = 6 if "  reality: " in text else 4  # memory that ran out is told with what held it
        if len(lines) - max(problems - 1, 0) > most:
            return f"{len(lines)} lines"
    return None


class HostileConfig(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.configs = {name: write_experiment(cls.root, text + COMMON, f"exp_{name}.yaml") for name, text in EXPERIMENTS.items()}

    def numbers_of_experiments(self):
        """(what is set, to which value, arguments that say so)"""
        for name, config in self.configs.items():
            shown = run("config", "show", config)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            for key in numbers_of(yaml.safe_load(shown.stdout)):
                for value in VALUES:
                    yield f"{name} {key}", value, [config, "--set", f"{key}={value}"]

    def numbers_of_reference(self):
        """As numbers_of_experiments, for every kind: in the experiment that takes the number's least value, if one does."""
        schema = json.loads(run("config", "schema").stdout)
        bases = [yaml.safe_load(text) for text in [*(config.read_text() for config in self.configs.values()), *PLAIN]]
        places = list(numbers_of_schema(schema))

        def fitting(numbered):
            number, (section, _, valid, document) = numbered
            for base in bases:
                config = write_experiment(self.root, yaml.safe_dump(with_section(base, section, document(valid))), f"exp_{number:03}.yaml")
                if run("check", "--file-only", config).returncode == 0:
                    return base
            return bases[0]

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for number, ((section, path, _, document), base) in enumerate(zip(places, pool.map(fitting, enumerate(places)))):
                for i, value in enumerate(VALUES):
                    hostile = with_section(base, section, document(float(value) if value == "1e300" else yaml.safe_load(value)))
                    yield path, value, [write_experiment(self.root, yaml.safe_dump(hostile), f"exp_{number:03}_{i}.yaml")]

    def check(self, arguments):
        result = run("check", "--file-only", *arguments, timeout=PATIENCE_S)
        return fault_of(result.returncode, result.stderr), result.returncode, result.stderr

    def train(self, arguments):
        directory = tempfile.mkdtemp(dir=self.root)
        process = subprocess.Popen([TRAINCTL, "train", *arguments, "--run-dir", directory, "--no-progress"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.root)
        try:
            _, text = process.communicate(timeout=LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                _, text = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"it goes on {PATIENCE_S} s after SIGTERM", None, process.communicate()[1]
        return fault_of(process.returncode, text), process.returncode, text

    def all_of(self, command, cases):
        """The exit code of each case; every fault is a failure of its own."""
        codes = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (what, value, arguments), (fault, code, text) in zip(cases, pool.map(lambda case: command(case[2]), cases)):
                codes.append(code)
                with self.subTest(what=what, value=value, arguments=arguments):
                    self.assertIsNone(fault, text[-600:])
        return codes

    def check_and_train(self, cases):
        codes = self.all_of(self.check, cases)
        accepted = [case for case, code in zip(cases, codes) if code == 0]
        trained = self.all_of(self.train, accepted)
        print(f"{len(cases)} checked; {len(trained)} trained: "
              + ", ".join(f"{trained.count(kind)} ended with {kind}" for kind in (0, 1, 2, 143)), file=sys.stderr)
        return codes, accepted

    def test_numbers_of_experiments(self):
        codes, accepted = self.check_and_train(list(self.numbers_of_experiments()))
        self.assertGreater(len(codes), 600)
        self.assertGreater(len(accepted), 250)

    def test_numbers_of_the_reference(self):
        codes, accepted = self.check_and_train(list(self.numbers_of_reference()))
        self.assertGreater(len(codes), 3000)
        self.assertGreater(len(accepted), 600)


if __name__ == "__main__":
    unittest.main()
