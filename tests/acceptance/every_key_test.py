"""Every key of an experiment, one at a time, away from its default: it changes what the run leaves, or is refused.

Keys whose effect a run's records can't show are listed with the reason.
"""
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from schema_numbers import least, resolved
from trainctl_process import TRAINCTL, metrics, run, temporary_directory, write_experiment

LONGEST_RUN_S = 120
COMMON = """
seed: 1
train: {steps: 4, log_every: 1, eval_every: 2}
checkpoint: {every: 2, keep_last: 3}
tracking: {tensorboard: false, report: false}
device: {kind: cpu, num_threads: 1}
"""
IMAGES = "kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1"
# Name: (experiment, sections whose every kind is tried).
EXPERIMENTS = {
    "layers": (f"""
dataset: {{{IMAGES}}}
model: {{kind: layers, layers: [{{kind: conv2d, channels: 4}}, batch_norm, relu, global_avg_pool, linear]}}
optimizer: {{kind: sgd, lr: 0.1}}
""", {"quantization"}),
    "scripted": (f"""
dataset: {{{IMAGES}}}
model: {{kind: torchscript, path: net.pt}}
optimizer: {{kind: sgd, lr: 0.1}}
""", {"quantization"}),
    "table": ("""
dataset: {kind: table, train: [table.csv], eval: [table.csv], label: kind, batch_size: 8}
model: {kind: mlp, hidden: [8]}
optimizer: {kind: adamw, lr: 1e-3}
""", {"dataset", "task"}),
    "regression": ("""
dataset: {kind: table, train: [numbers.csv], eval: [numbers.csv], label: y, label_type: value, batch_size: 8}
model: {kind: mlp, hidden: [8], num_classes: 1}
task: {kind: regression}
optimizer: {kind: adamw, lr: 1e-3}
""", {"dataset", "task"}),
}

# Keys that may leave no trace in what a run leaves, and why.
UNSEEN = {
    r"dataset\S*\.(num_workers|prefetch_factor|persistent_workers|pin_memory|normalize_on)": "decides how fast samples come",
    r"dataset\S*\.(eval_batch_size|length_group_batches)": "decides how fast samples come",
    r"dataset\S*\.drop_last": "the samples fill their batches",
    r"dataset\S*\.on_bad_sample": "no sample is bad",
    r"dataset\S*\.test\S*": "`trainctl eval --split test` reads it",
    r"dataset\S*\.cache_dir": "decides where tokens are kept",
    r"dataset\S*\.(format|max_line_bytes|encoding_errors|encoding|separator|decimal|header_lines|missing_values)": "the files are as it is found by default",
    r"device\S*\.(num_threads|caching_allocator|expandable_segments|deterministic|memory_limit_mib)": "decides on speed and memory",
    r"model\S*\.memory_format": "the layout in memory",
    r"optimizer\S*\.fused": "the same update in another pass",
    r"optimizer\S*\.lr_scheduler\{constant\}\.interval": "a constant rate has no intervals",
    r"task\S*\.loss_chunk_size": "the same loss in other pieces",
    r"activation_checkpointing(\{\w+\}(\.n)?)?": "decides on memory",
    r"distributed\{auto\}\.\S*": "one process has no ranks",
    r"train\.on_non_finite": "no loss is infinite",
    r"train\.watchdog\.\S*": "no step hangs",
    r"checkpoint\.async": "decides when a checkpoint is written",
    r"profiler\.\S*": "`trainctl profile` reads it",
    r"quantization\{none\}\S*": "`trainctl quantize` reads it",
    r"quantization\{qat\}\.(observer|engine_workarounds)": "`trainctl quantize` reads it",
    r"quantization\{qat\}\.activation_(bits|scheme)": "numbers from 0 up have the same levels",
    r"model\{layers\}\.convolution_algorithm": "the images are too small for Winograd's algorithm",
    r"device": "the CPU is what is there",
    r"dataset\{table\}\.num_bins": "no column is in bins",
    r"model\S*\.num_classes": "auto is the same number",
    r"accumulation\.batch_norm_update": "a step is one micro-batch",
    r"activation_checkpointing\{none\}\.storage_dtype": "small tensors are kept as they are",
    r"model_card\.\S*": "`trainctl export` writes it",
}


def write_data(directory):
    """What the experiments read."""
    import torch
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten(), torch.nn.Linear(4, 4))
    torch.jit.script(net).save(directory / "net.pt")
    rows = [(i % 7 / 7, (i * i) % 11 - 5, "red blue".split()[i % 3 == 0]) for i in range(64)]
    (directory / "table.csv").write_text("a,b,color,kind\n" + "".join(f"{a},{b},{c},{'yes' if a > 0.4 else 'no'}\n" for a, b, c in rows))
    (directory / "numbers.csv").write_text("a,b,color,y\n" + "".join(f"{a},{b},{c},{3 * a - b}\n" for a, b, c in rows))


def options_of(node, schema):
    node = resolved(node, schema)
    return [inner for option in node["anyOf"] for inner in options_of(option, schema)] if "anyOf" in node else [node]


def key_of(option):
    return option.get("properties", {}).get("kind", {}).get("const")


def scalars(option, current):
    """Values that the schema takes here beside the present one."""
    if "const" in option:
        return [option["const"]]
    if "enum" in option:
        return option["enum"]
    if option["type"] == "boolean":
        return [False, True]
    if option["type"] == "null":
        return [None]
    if option["type"] == "string":
        return ["x"]
    is_number = isinstance(current, (int, float)) and not isinstance(current, bool)
    values = [current * 2, current / 2, current + 1, current - 1] if is_number else []
    values += [option.get("minimum", 0), 2, 1, 0.5, 0.1, 3]
    if option["type"] == "integer":
        values = [int(value) for value in values if value == int(value)]
    return [value for value in values if option.get("minimum", value) <= value <= option.get("maximum", value)]


def variations(node, schema, current, every_kind, depth=0):
    """(key, value before, values after) of a place: None before stands for what the experiment says. `current` is the resolved value."""
    for option in options_of(node, schema):
        if option.get("type") == "object" and "properties" in option:
            is_current = isinstance(current, dict) and current.get("kind") == key_of(option)
            if not is_current and (not every_kind or depth > 2):
                continue
            chosen = current if is_current else least(option, schema)
            if key_of(option) is not None and not is_current:
                chosen = {"kind": key_of(option), **chosen}
            name = f"{{{key_of(option)}}}" if key_of(option) else ""
            if not is_current:
                yield name, None, [chosen]
            for key, child in option["properties"].items():
                if key == "kind":
                    continue
                default = resolved(child, schema).get("default")
                for path, before, after in variations(child, schema, chosen.get(key, default), every_kind, depth + 1):
                    kept = {} if is_current else chosen
                    yield (f"{name}.{key}{path}", {**kept, **({} if before is None else {key: before})} or None,
                           [{**kept, key: value} for value in after])
        elif option.get("type") == "array":
            if depth > 2:
                continue
            items = list(options_of(option["items"], schema))
            yield "[]", None, [*([[]] if current else []), *([least(item, schema)] for item in items)]
            if not every_kind:
                continue
            for item in items:
                if item.get("type") == "object":
                    for path, before, after in variations(item, schema, None, True, depth + 1):
                        yield f"[]{path}", None if before is None else [before], [[value] for value in after]
    values = [value for option in options_of(node, schema) if option.get("type") not in ("object", "array") for value in scalars(option, current)]
    present = current.get("kind") if isinstance(current, dict) else current  # a kind may be given by its name alone
    values = [value for i, value in enumerate(values) if value != present and value not in values[:i]]
    if values:
        yield "", None, values


def merged(there, change):
    """The document with a change: keys of the same kind are laid over each other."""
    if isinstance(there, dict) and isinstance(change, dict) and change.get("kind", there.get("kind")) == there.get("kind"):
        return {**there, **{key: merged(there.get(key), value) for key, value in change.items()}}
    return change


def left_by(directory):
    """What a run leaves: its records, files, weights, and what it says, without what a clock decides."""
    files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    content = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.rglob("*.safetensors"))]
    for name in ("predictions.json", "README.md"):
        if (directory / name).exists():
            content.append((directory / name).read_text())
    notices = [json.loads(line) for line in (directory / "notices.jsonl").read_text().splitlines()]
    said = [re.sub(r"[\d.,]+", "#", notice["text"]) for notice in notices if notice["level"] != "info"]
    return [re.sub(r"\d{6,}\.\w+", "#", name) for name in files], content, metrics(directory), said


class EveryKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        write_data(cls.root)
        cls.schema = json.loads(run("config", "schema").stdout)
        cls.results = {}

    def train(self, experiment):
        """(exit code, what it leaves or the error). The same experiment isn't trained again."""
        text = yaml.safe_dump(experiment, sort_keys=False)
        if text not in self.results:
            directory = pathlib.Path(tempfile.mkdtemp(dir=self.root))
            config = write_experiment(self.root, text, f"{directory.name}.yaml")
            result = subprocess.run([TRAINCTL, "train", config, "--run-dir", directory / "run", "--no-progress"],
                                    capture_output=True, text=True, errors="replace", cwd=self.root, timeout=LONGEST_RUN_S)
            self.results[text] = result.returncode, left_by(directory / "run") if result.returncode == 0 else result.stderr
            shutil.rmtree(directory)
        return self.results[text]

    def outcome(self, base, section, path, before, after):
        """How a key's values show: 'effect', 'refused', 'failed' or 'none'."""
        key = re.findall(r"\w+", path)[-1]
        start = base if before is None else {**base, section: merged(base.get(section), before)}
        code, plain = self.train(start)
        if code != 0:
            return f"base {code}", plain.strip()[-300:]
        codes = []
        for value in after:
            code, left = self.train({**start, section: merged(start.get(section), value)})
            codes.append(code)
            if code == 0 and (left[:3] != plain[:3] or any(key in line for line in left[3] if line not in plain[3])):
                return "effect", None
            if code not in (0, 1, 2):
                return f"exit code {code}", left[-300:]
        return ("none", [value for value, code in zip(after, codes) if code == 0]) if 0 in codes else ("refused", left.strip()[-200:])

    def check(self, name):
        text, kinds = EXPERIMENTS[name]
        base = merged(yaml.safe_load(COMMON), {"name": name, **yaml.safe_load(text)})
        config = write_experiment(self.root, yaml.safe_dump(base), f"{name}.yaml")
        shown = run("config", "show", config, cwd=self.root)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        current = yaml.safe_load(shown.stdout)
        cases = []
        for section, node in self.schema["$defs"]["whole"]["properties"].items():
            if section in ("name", "plugins", "distillation"):
                continue
            every_kind = section in kinds
            if section in ("model", "dataset"):  # its own kind, whose parts may be of every kind
                node = next(option for option in options_of(node, self.schema) if key_of(option) == current[section]["kind"])
            cases += [(section, section + path, before, after) for path, before, after in variations(node, self.schema, current.get(section), every_kind)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda case: self.outcome(base, *case), cases))
        counts = collections.Counter(outcome for outcome, _ in outcomes)
        print(f"{name}: {len(cases)} keys: {dict(counts)}", file=sys.stderr)
        for (section, path, _, _), (outcome, detail) in zip(cases, outcomes):
            with self.subTest(experiment=name, key=path):
                self.assertNotIn("exit code", outcome, detail)
                if outcome == "none":
                    self.assertTrue(any(re.fullmatch(pattern, path) for pattern in UNSEEN), f"{detail} are taken, and change nothing")
        self.assertGreater(counts["effect"], 40)


for name in EXPERIMENTS:
    setattr(EveryKey, f"test_{name}", lambda self, name=name: self.check(name))

if __name__ == "__main__":
    unittest.main()
