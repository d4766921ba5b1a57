"""Starts trainctl as a user would. Every test gets the binary's path from TRAINCTL."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINCTL = os.environ.get("TRAINCTL", str(ROOT / "build/release/bin/trainctl"))
TIMING_KEYS = {"samples_per_s", "tokens_per_s", "mfu", "memory_mib", "data_wait_ms", "communication_ms",
               "exposed_communication_ms", "step_ms", "seconds", "time", "wall_s"}

EXPERIMENT = """
name: acceptance
seed: 3
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 128, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 32, num_workers: 1,
  transforms: [{kind: random_crop, padding: 2}, {kind: random_horizontal_flip}, {kind: normalize}, {kind: random_erasing}]}
model: {kind: cnn, channels: [8, 16], batch_norm: true, hidden: 32, dropout: 0.2}
task: {kind: classification, label_smoothing: 0.1, mixup: 0.2, cutmix: 1.0}
optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.01, clip_norm: 1.0, lr_scheduler: {kind: cosine, warmup: 20}, ema: {decay: 0.99}}
accumulation: {steps: 2}
train: {steps: 300, eval_every: 60, log_every: 5}
checkpoint: {every: 7, keep_last: 2, best: {metric: accuracy}}
device: {kind: cpu}
"""


def write_experiment(directory, text=EXPERIMENT, name="exp.yaml"):
    path = pathlib.Path(directory) / name
    path.write_text(text)
    return path


def run(*arguments, cwd=None, timeout=300, env=None):
    return subprocess.run([TRAINCTL, *map(str, arguments)], cwd=cwd, timeout=timeout, capture_output=True, text=True,
                          env={**os.environ, **(env or {})})


def start(*arguments, cwd=None, env=None):
    return subprocess.Popen([TRAINCTL, *map(str, arguments)], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})


def metrics(run_directory):
    """The records of metrics.jsonl without what a clock decides."""
    lines = (pathlib.Path(run_directory) / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMING_KEYS} for line in lines]


def newest_checkpoint(run_directory):
    return sorted(p for p in (pathlib.Path(run_directory) / "checkpoints").iterdir() if p.name.startswith("step_") and ".tmp" not in p.name)[-1]


def why_no_gpu():
    """Why trainctl can use no GPU here; None if it can."""
    return json.loads(run("doctor", "--json").stdout)["gpu"]["why_not"]


def fetched(*names):
    """Whether the sets of scripts/fetch_data.py are there."""
    return subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", *names], capture_output=True).returncode == 0


def train_and_export(config, directory):
    """A run in directory/run and its export for transformers in directory/hf: the run's summary."""
    trained = run("train", config, "--run-dir", directory / "run", "--json", cwd=ROOT)
    assert trained.returncode == 0, trained.stderr
    exported = run("export", config, "--checkpoint", directory / "run", "--format", "hf", "--output", directory / "hf", cwd=ROOT)
    assert exported.returncode == 0, exported.stderr
    return json.loads(trained.stdout)


def build_plugin(source, directory, *definitions):
    """Installs what TRAINCTL was built with in directory/prefix, builds the plug-in of a folder against that in directory/build, and returns both."""
    prefix, build = pathlib.Path(directory) / "prefix", pathlib.Path(directory) / "build"
    for command in (["cmake", "--install", pathlib.Path(TRAINCTL).resolve().parent.parent, "--prefix", prefix],
                    ["cmake", "-G", "Ninja", "-S", source, "-B", build, "-D", f"CMAKE_PREFIX_PATH={prefix}", *(option for each in definitions for option in ("-D", each))],
                    ["cmake", "--build", build, "-j", str(os.cpu_count())]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{command}:\n{done.stdout}\n{done.stderr}")
    return prefix, build


def preloaded(source, directory, **settings):
    """The environment of a program under tests/acceptance/SOURCE.c, with these settings of it; None where nothing compiles it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = pathlib.Path(directory) / f"{source}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, ROOT / f"tests/acceptance/{source}.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), **{f"{source}_{name}".upper(): str(value) for name, value in settings.items()}}


def png(rows, color_type, channels=1):
    """A PNG of rows of bytes: color type 0 is grey, 2 is RGB."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, color_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def grey_png(rows):
    return png(rows, 0)


def write_images(directory, count=64, side=8, num_classes=2):
    """Grey PNGs, in a directory for each class."""
    for i in range(count):
        folder = pathlib.Path(directory) / f"class_{i % num_classes}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:03}.png").write_bytes(grey_png([[(i * 7 + x * y) % 256 for x in range(side)] for y in range(side)]))


def temporary_directory():
    return tempfile.TemporaryDirectory(prefix="trainctl-acceptance-")


class InScratch(unittest.TestCase):
    """Tests with a directory, `root`, that is empty before each and gone after it."""

    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))


__all__ = ["ROOT", "TRAINCTL", "EXPERIMENT", "InScratch", "write_experiment", "run", "start", "metrics", "newest_checkpoint", "fetched", "train_and_export", "why_no_gpu",
           "build_plugin", "preloaded", "png", "grey_png", "write_images", "temporary_directory", "signal"]
