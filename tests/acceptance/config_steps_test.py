"""Every file in configs/ trains for two steps, with its own combination of keys, on small stand-ins of what it reads.

Its sizes are cut to CAPS, so that a run takes seconds on two CPU cores. A new file needs an entry only for a new size.
"""
import json
import math
import re
import unittest

import yaml

import stand_in_models
import stand_ins
from trainctl_process import ROOT, InScratch, metrics, run

CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
STEPS = 2

# The largest value that a key has here; [] is any element of a list. What a file says stands where it is no larger.
CAPS = {
    "accumulation.steps": 2,
    "checkpoint.every": 2,
    "dataset.batch_size": 16,
    "dataset.eval_transforms[].size": 64,
    "dataset.height": 64,
    "dataset.max_length": 32,
    "dataset.seq_len": 32,
    "dataset.sources[].seq_len": 32,
    "dataset.transforms[].size": 64,
    "dataset.width": 64,
    "distributed.pipeline": 2,
    "distributed.pipeline_schedule.stages_per_rank": 2,
    "distributed.tensor": 2,
    "model.depth": 10,
    "model.hidden_size": 32,
    "model.intermediate_size": 64,
    "model.num_classes": stand_ins.NUM_CLASSES,
    "model.num_heads": 4,
    "model.num_key_value_heads": 2,
    "model.num_layers": 2,
    "model.widen_factor": 2,
    "optimizer.lr_scheduler.warmup": 1,
    "train.eval_every": 2,
    "train.log_every": 1,
}
# Warnings about this machine's CPU, about how a step's time was spent, and about a schedule that two steps are too short
# for: none of them is a fault of the file.
WARNINGS_OF_RUN = re.compile(
    r"\bthis (CPU|machine)\b|\bof the time goes into\b|\bthey wait for it\b|\bno step for\b"
    r"|\bwarmup takes 1, and the run has 1 epochs\b"
    r"|\boptimizer\.lr_scheduler(\.milestones go up to| changes nothing: the rate would change behind the last step)\b"
)


def shown(path, settings=()):
    """The experiment of a file under these settings, with every default."""
    result = run("config", "show", path, *options(settings))
    assert result.returncode == 0, f"{path}: {result.stderr}"
    return yaml.safe_load(result.stdout)


def options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def leaves(value, key=""):
    """The values that are no mapping and no list, each with its key as --set takes it."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for i, element in enumerate(value):
            yield from leaves(element, f"{key}[{i}]")
    else:
        yield key, value


def entry_of(key):
    """How CAPS writes the key."""
    return re.sub(r"\[\d+\]", "[]", key)


def cut_keys(experiment):
    """The keys whose values are above their caps."""
    caps = ((key, value, CAPS.get(entry_of(key), math.inf)) for key, value in leaves(experiment))
    return [key for key, value, cap in caps if isinstance(value, int) and value > cap]


def settings_of(experiment, root):
    """What cuts the experiment's sizes and its length, and leads its absolute paths below `root`."""
    cuts = [f"{key}={CAPS[entry_of(key)]}" for key in cut_keys(experiment)]
    absolute = [f"{key}={root}{value}" for key, value in leaves(experiment) if str(value).startswith("/")]
    return [*cuts, *absolute, "train.epochs=null", f"train.steps={STEPS}"]


def is_finite(loss):
    """False of None, too: the run writes null for NaN, and nothing where no sample has a target."""
    return loss is not None and math.isfinite(loss)


def num_ranks(experiment):
    """More than one for a file that says how ranks share the work: as many as have parts of the model, or two."""
    distributed = experiment["distributed"]
    parts = math.prod(distributed[axis] for axis in ("tensor", "context", "pipeline"))
    return 1 if distributed["kind"] == "auto" else max(2, parts)


class ConfigSteps(InScratch):
    def train(self, path):
        """A run on the CPU. Relative paths lead into the scratch directory, because it starts there."""
        settings = settings_of(shown(path), self.root)
        experiment = shown(path, settings)
        stand_ins.write(self.root, experiment)
        arguments = ["--nproc", num_ranks(experiment), "--run-dir", self.root / "run", "--json", *options(settings)]
        result = run("train", path, *arguments, cwd=self.root, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def take_two_steps(self, path):
        result = self.train(path)
        records = metrics(self.root / "run")
        self.assertEqual([record["step"] for record in records if record["event"] == "step"], [1, 2])
        self.assertEqual([record for record in records if not is_finite(record.get("loss"))], [])
        summary = json.loads(result.stdout)
        self.assertEqual((summary["steps"], summary["skipped_steps"]), (STEPS, 0))
        warnings = [line for line in result.stderr.splitlines() if "warning: " in line]
        self.assertEqual([line for line in warnings if not WARNINGS_OF_RUN.search(line)], [])


class Tables(unittest.TestCase):
    def test_every_entry_is_used_by_a_file(self):
        experiments = [shown(path) for path in CONFIGS]
        self.assertEqual({entry_of(key) for experiment in experiments for key in cut_keys(experiment)}, CAPS.keys())
        datasets = [experiment["dataset"] for experiment in experiments]
        datasets += [source for dataset in datasets for source in dataset.get("sources", [])]
        self.assertEqual({dataset["kind"] for dataset in datasets}, stand_ins.DATASETS.keys())
        tokenizers = {dataset.get("tokenizer", "bytes") for dataset in datasets} - {"bytes"}
        self.assertEqual({stand_in_models.set_of(path) for path in tokenizers}, stand_in_models.TOKENIZERS.keys())


def add_test(path):
    name = path.relative_to(ROOT / "configs").with_suffix("").as_posix()  # with its folder: no name hides another
    setattr(ConfigSteps, f"test_{name}_takes_two_steps", lambda self: self.take_two_steps(path))


for config in CONFIGS:
    add_test(config)

if __name__ == "__main__":
    unittest.main()
