"""What `plan` predicts against what training then holds, and what `auto` makes of it."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import unittest

from trainctl_process import TRAINCTL, metrics, newest_checkpoint, run, signal, start, temporary_directory, write_experiment
from waits import PATIENCE_S, num_records, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import plan_memory  # noqa: E402

RUNS = ["cnn", "gpt2 bf16", "resnet50", "resnet18 for eight bits", "bert", "bert texts for eight bits", "t5", "lstm"]


TEXT = """
name: text
dataset: {kind: text_lm, train: {files: [text]}, tokenizer: bytes, seq_len: 64, batch_size: 8, num_workers: 1, cache_dir: tokenized}
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 64}
task: causal_lm
train: {epochs: 1000}
device: {kind: cpu, num_threads: 1}
"""


class PlanTest(unittest.TestCase):
    def test_predicted_peaks_are_near_the_measured_ones(self):
        for name in RUNS:
            with self.subTest(name):
                result = plan_memory.compare(TRAINCTL, name)
                self.assertLessEqual(abs(result["error"]), plan_memory.MOST, result)

    def test_workspaces_of_depthwise_convolutions_are_predicted(self):
        for name in ("mobilenet_v3_small", "efficientnet_b0"):
            with self.subTest(name):
                result = plan_memory.compare(TRAINCTL, name)
                self.assertLessEqual(abs(result["error"]), plan_memory.MOST_MEDIAN, result)


class PriceTest(unittest.TestCase):
    def test_a_price_needs_the_number_of_steps(self):
        with temporary_directory() as root:
            result = run("plan", write_experiment(root, TEXT), "--cost-per-hour", "2")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--cost-per-hour", result.stderr)


AUTO = """
name: chosen
seed: 3
dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 64, vocab_size: 500, batch_size: auto}
model: {kind: gpt2, hidden_size: 64, num_layers: 4, num_heads: 2, max_position_embeddings: 64, dropout: 0.1}
task: {kind: causal_lm}
activation_checkpointing: {kind: auto}
train: {steps: 60, log_every: 1}
checkpoint: {every: 20}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1, memory_limit_mib: 24}
"""


class AutoTest(unittest.TestCase):
    """The chosen batch and recomputation are those of the run, whatever the memory when it goes on."""

    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root, AUTO)

    def train(self, directory, *options):
        result = run("train", self.config, "--run-dir", self.root / directory, "--no-progress", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def choice(self, errors):
        found = re.search(r"auto is dataset.batch_size: (\d+) and activation_checkpointing.kind: (\w+)", errors)
        self.assertIsNotNone(found, errors)
        return found.groups()

    def stop_after(self, directory, steps, *options):
        process = start("train", self.config, "--run-dir", self.root / directory, "--no-progress", *options)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.root / directory) >= steps, process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 143, errors)

    def test_a_resumed_run_keeps_what_was_chosen_bit_for_bit(self):
        batch, recomputed = self.choice(self.train("whole"))
        self.stop_after("parts", 10)
        # A choice that is made now would be another.
        more = ("--set", "device.memory_limit_mib=400")
        self.assertNotEqual(self.choice(self.train("anew", *more, "--set", "train.steps=1")), (batch, recomputed))
        errors = self.train("parts", *more)
        self.assertIn(f"auto stays what it was when the run began: dataset.batch_size={batch}, activation_checkpointing.kind={recomputed}", errors)
        self.assertEqual(metrics(self.root / "parts"), metrics(self.root / "whole"))
        for name in ("model.safetensors", "state.safetensors"):
            self.assertEqual((newest_checkpoint(self.root / "parts") / name).read_bytes(),
                             (newest_checkpoint(self.root / "whole") / name).read_bytes(), name)
        self.assertIn(f"batch_size: {batch}", (self.root / "parts/config.yaml").read_text())

    def test_ranks_go_on_with_what_the_first_one_chose(self):
        ranks = ("--nproc", "2", "--set", "train.steps=30")
        self.choice(self.train("whole", *ranks))
        self.stop_after("parts", 5, *ranks)
        self.assertIn("auto stays what it was", self.train("parts", *ranks, "--set", "device.memory_limit_mib=400"))
        self.assertEqual(metrics(self.root / "parts"), metrics(self.root / "whole"))


RESNET = """
name: narrow
seed: 3
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 0, channels: 3, height: 64, width: 64, num_classes: 100, batch_size: auto}
model: {kind: resnet18}
task: {kind: classification}
optimizer: {kind: sgd, lr: 1e-3, momentum: 0.9}
train: {steps: 3, log_every: 1}
tracking: {tensorboard: false}
device: {kind: cpu, memory_limit_mib: 215}
"""


class NarrowTest(unittest.TestCase):
    """A memory limit that AVX2 kernels exceed where others don't: their gradient of a convolution holds eight copies of the weights."""

    def setUp(self):
        temporary = temporary_directory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.config = write_experiment(self.root, RESNET)
        self.environment = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "XDG_CACHE_HOME": str(self.root / "cache")}

    def train(self, directory, *options):
        result = run("train", self.config, "--run-dir", self.root / directory, "--no-progress", *options, env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def batch(self, directory):
        return int(re.search(r"batch_size: (\d+)", (self.root / directory / "config.yaml").read_text())[1])

    def test_what_auto_chooses_fits_on_a_cpu_with_avx2(self):
        errors = self.train("auto")
        self.assertNotIn("ran out of memory", errors)
        self.assertIn("two steps took", errors)
        plan = run("plan", self.config, "--json", "--set", f"dataset.batch_size={self.batch('auto')}", env=self.environment)
        predicted = json.loads(plan.stdout)["memory"]["peak_bytes"]
        measured = max(json.loads(line).get("memory_mib", 0) for line in (self.root / "auto/metrics.jsonl").read_text().splitlines())
        self.assertLess(abs(predicted / (measured * plan_memory.MIB) - 1), 0.05)

    def test_a_choice_that_runs_out_of_memory_gives_way_to_a_smaller_one_and_leaves_no_trace(self):
        self.train("auto")
        # A prediction that is too low: kernels without workspaces.
        for path in (self.root / "cache/trainctl/rates").glob("workspaces_*.json"):
            kept = json.loads(path.read_text())
            path.write_text(json.dumps({key: {batch: {"events": [], "result_bytes": 0} for batch in batches} for key, batches in kept.items()}))
        errors = self.train("stepped")
        self.assertRegex(errors, r"dataset.batch_size: 32 ran out of memory at .*: auto is dataset.batch_size: 16")
        chosen = self.batch("stepped")
        self.assertLess(chosen, 32)
        self.train("by_hand", "--set", f"dataset.batch_size={chosen}")
        self.assertEqual(metrics(self.root / "stepped"), metrics(self.root / "by_hand"))
        for name in ("model.safetensors", "state.safetensors"):
            self.assertEqual((newest_checkpoint(self.root / "stepped") / name).read_bytes(), (newest_checkpoint(self.root / "by_hand") / name).read_bytes(), name)


WIDE = """
name: wide
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 0, channels: 1, height: 64, width: 64, num_classes: 10, batch_size: 16}
model: {kind: mlp, hidden: [1024]}
optimizer: {kind: adamw, lr: 1e-4}
train: {steps: 6, log_every: 1, eval_every: 0}
checkpoint: {every: 2}
tracking: {report: false}
device: {kind: cpu, num_threads: 1, memory_limit_mib: 100}
"""
LONG = """
name: long
seed: 1
dataset: {kind: text_classification, train: {files: [rows.jsonl]}, tokenizer: bytes, max_length: 2048, length_group_batches: 0, shuffle: false, batch_size: 8}
model: {kind: bert, hidden_size: 64, num_layers: 2, num_heads: 2, intermediate_size: 128, max_position_embeddings: 2048}
optimizer: {kind: adamw, lr: 1e-4}
train: {epochs: 1, log_every: 6}
tracking: {report: false}
device: {kind: cpu, num_threads: 1, memory_limit_mib: 120}
"""


class LimitTest(unittest.TestCase):
    """A run that won't fit into device.memory_limit_mib is refused before its first step, and what is named makes it fit."""

    def setUp(self):
        temporary = temporary_directory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def train(self, config, directory, *sets):
        return run("train", config, "--run-dir", self.root / directory, "--no-progress", *(word for value in sets for word in ("--set", value)), cwd=self.root)

    def check_refusal(self, result, directory):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("device.memory_limit_mib", result.stderr)
        self.assertNotIn("step 1", result.stderr)
        self.assertFalse([record for record in metrics(self.root / directory) if record["event"] == "step"])

    def test_the_copy_of_a_checkpoint_counts(self):
        config = write_experiment(self.root, WIDE)
        plan = json.loads(run("plan", config, "--json").stdout)
        self.assertFalse(plan["fits"])
        self.assertEqual(plan["memory_bytes"], 100 << 20)
        state = sum(plan["memory"]["peak_by_purpose"][purpose] for purpose in ("parameters", "optimizer"))
        self.assertAlmostEqual(plan["memory"]["peak_by_purpose"]["checkpoint"] / state, 1, delta=0.01)
        refused = self.train(config, "refused")
        self.check_refusal(refused, "refused")
        self.assertIn("checkpoint.async: false", refused.stderr)
        trained = self.train(config, "at_once", "checkpoint.async=false")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        trained = self.train(config, "with_room", "device.memory_limit_mib=130")
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_the_longest_text_counts(self):
        config = write_experiment(self.root, LONG)
        rows = [json.dumps({"text": "word " * 4, "label": str(row % 2)}) + "\n" for row in range(160)]
        (self.root / "rows.jsonl").write_text("".join(rows))
        trained = self.train(config, "short")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertNotIn("won't fit", trained.stderr)
        rows[150] = json.dumps({"text": "word " * 400, "label": "0"}) + "\n"
        (self.root / "rows.jsonl").write_text("".join(rows))
        refused = self.train(config, "long")
        self.check_refusal(refused, "long")
        named = re.search(r"try: (.*?), predicted", refused.stderr)[1].split(", ")
        trained = self.train(config, "smaller", *(setting.replace(": ", "=") for setting in named))
        self.assertEqual(trained.returncode, 0, trained.stderr)


SCRIPTED = """
name: scripted
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 0, channels: 3, height: 32, width: 32, num_classes: 10, batch_size: 16}
model: {kind: torchscript, path: net.pt}
optimizer: {kind: adamw, lr: 1e-4, clip_norm: 1.0}
train: {steps: 4, log_every: 1}
tracking: {report: false}
device: {kind: cpu, num_threads: 1}
"""
NETWORKS = """
import torch
from torch import nn
torch.manual_seed(0)
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 8, 8)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 10)
    def forward(self, x):
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                    nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
    def forward(self, x):
        return torch.relu(x + self.branch(x))
head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
networks = {"mlp": nn.Sequential(nn.Flatten(), nn.Linear(3072, 1024), nn.ReLU(), nn.Linear(1024, 10)),
            "cnn": nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3), nn.GELU(), *head),
            "resnet": nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), Residual(64), Residual(64), *head), "attention": Attention()}
for name, network in networks.items():
    torch.jit.script(network).save(name + ".pt")
"""


LOGITS = """
name: logits
seed: 1
dataset: {kind: synthetic_images, num_samples: 4096, num_eval_samples: 0, channels: 1, height: 8, width: 8, num_classes: 10, batch_size: 32}
model: {kind: mlp, hidden: [4]}
train: {steps: 2}
tracking: {tensorboard: false, report: false}
device: {kind: cpu, num_threads: 1}
"""


class ScriptedTest(unittest.TestCase):
    def test_memory_of_scripted_networks_is_predicted(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("no PyTorch for Python, which writes the networks")
        with temporary_directory() as directory:
            root = pathlib.Path(directory)
            (root / "networks.py").write_text(NETWORKS)
            subprocess.run([sys.executable, "networks.py"], check=True, cwd=root)
            for network in ("mlp", "cnn", "resnet", "attention"):
                with self.subTest(network):
                    config = write_experiment(root, SCRIPTED.replace("net.pt", f"{network}.pt"))
                    predicted = json.loads(run("plan", config, "--json", cwd=root).stdout)["memory"]["peak_bytes"]
                    trained = run("train", config, "--run-dir", root / network, "--no-progress", cwd=root)
                    self.assertEqual(trained.returncode, 0, trained.stderr)
                    records = [json.loads(line) for line in (root / network / "metrics.jsonl").read_text().splitlines()]
                    measured = max(record.get("memory_mib", 0) for record in records)
                    self.assertLess(abs(predicted / (measured * plan_memory.MIB) - 1), plan_memory.MOST_MEDIAN)


class PlanOfStoredLogits(unittest.TestCase):
    def test_the_file_takes_no_memory(self):
        with temporary_directory() as directory:
            config = write_experiment(directory, LOGITS)
            logits = pathlib.Path(directory) / "logits.safetensors"
            for arguments in (("train", config, "--run-dir", f"{directory}/run"), ("eval", f"{directory}/run", "--split", "train", "--logits", logits)):
                result = run(*arguments, "--no-progress", cwd=directory)
                self.assertEqual(result.returncode, 0, result.stderr)
            plain, distilled = (json.loads(run("plan", config, *more, "--json", cwd=directory).stdout)["memory"]["peak_bytes"]
                                for more in ((), ("--set", f"distillation.logits={logits}")))
            self.assertLess(distilled, 2 * plain)


class PlanOfLayouts(unittest.TestCase):
    def test_offload_to_a_disk_is_planned_without_one(self):
        with temporary_directory() as directory:
            config = write_experiment(directory, AUTO.replace("batch_size: auto", "batch_size: 8").replace("kind: auto}", "kind: none}"))
            offload = pathlib.Path(directory) / "offload"
            result = run("plan", config, "--world", "2", "--json", "--set", "distributed.kind=zero", "--set", f"distributed.offload.path={offload}",
                         "--set", "distributed.offload.optimizer=disk", "--set", "distributed.offload.parameters=disk")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertFalse(offload.exists())

    def test_the_network_between_nodes_is_told_to_be_missing_from_the_time(self):
        with temporary_directory() as directory:
            config = write_experiment(directory, AUTO.replace("batch_size: auto", "batch_size: 8").replace("kind: auto}", "kind: none}"))
            result = run("plan", config, "--world", "16", "--device", "h100", "--set", "distributed.kind=ddp", timeout=300)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("network between nodes is not modelled", result.stdout + result.stderr)

    def test_epochs_of_data_that_is_not_read_are_planned(self):
        with temporary_directory() as directory:
            (pathlib.Path(directory) / "text").write_text("some words\n" * 2000)
            config = write_experiment(directory, TEXT)
            for more in ((), ("--set", "dataset.batch_size=auto", "--set", "device.memory_limit_mib=200")):
                planned = run("plan", config, *more, cwd=directory, timeout=300)
                self.assertEqual(planned.returncode, 0, planned.stderr)
                trained = run("train", config, "--run-dir", pathlib.Path(directory) / f"run{len(more)}", *more, "--set", "train.epochs=1", cwd=directory, timeout=300)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                self.assertIn("estimated memory: ", trained.stderr)


if __name__ == "__main__":
    unittest.main()
