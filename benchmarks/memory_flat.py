#!/usr/bin/env python3
"""Whether a long run's memory stays flat: a small network on a tree of real photos, many epochs, many workers, its resident memory by epoch.

  memory_flat.py ROOT [--epochs 50] [--workers 16] [--kind image_folder|webdataset] [--tolerance 0.02] [--trainctl PATH] [--json FILE]
                 [--set KEY=VALUE ...]

ROOT is a tree of ROOT/class/image.jpg (photo_tree.py makes one); webdataset writes it as shards first. An epoch's figure is the median of
the process's resident memory within it. Fails where an epoch after the second differs from the second by more than the tolerance.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare_step import add_program_options

CONFIG = """name: memory
dataset:
  kind: {kind}
  train: {train}
  batch_size: 64
  num_workers: {workers}
  cache_dir: {directory}/cache
  transforms:
    - {{kind: random_resized_crop, size: 64}}
    - {{kind: random_horizontal_flip}}
    - {{kind: normalize}}
model: {{kind: cnn, channels: [8], hidden: 16}}
train: {{epochs: {epochs}, log_every: 1}}
"""


def resident_mib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:")), None)


class Log:
    """The epoch that a run's metrics.jsonl has come to; reads what is new alone."""

    def __init__(self, path):
        self.path, self.offset, self.epoch = path, 0, None

    def now(self):
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                lines = file.read()
            whole = lines[:lines.rfind(b"\n") + 1]
            self.offset += len(whole)
            for line in whole.splitlines():
                self.epoch = json.loads(line).get("epoch", self.epoch)
        return self.epoch


def resident_by_epoch(command, run_directory):
    """Lists of MiB by epoch, sampled while the command runs."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    log, samples = Log(run_directory / "metrics.jsonl"), {}
    while process.poll() is None:
        epoch, resident = log.now(), resident_mib(process.pid)
        if epoch is not None and resident is not None:
            samples.setdefault(epoch, []).append(resident)
        time.sleep(0.02)
    if process.returncode != 0:
        sys.exit("memory_flat: the run failed")
    return samples


def prepare(options, directory):
    """The experiment, whose set is the tree or shards of it."""
    config = directory / "memory.yaml"

    def write(kind, train):
        config.write_text(CONFIG.format(kind=kind, train=json.dumps(train), workers=options.workers, epochs=options.epochs, directory=directory))
    write("image_folder", str(options.root))
    if options.kind == "webdataset":
        subprocess.run([options.trainctl, "data", "shard", config, "--output", directory / "shards", "--shard-mib", "8"], check=True, stdout=subprocess.DEVNULL)
        write("webdataset", [str(directory / "shards")])
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--kind", choices=["image_folder", "webdataset"], default="image_folder")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--set", action="append", default=[])
    add_program_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        config = prepare(options, directory)
        command = [options.trainctl, "train", config, "--run-dir", directory / "run", "--no-progress", "--log-level", "warning"]
        for value in options.set:
            command += ["--set", value]
        samples = resident_by_epoch(command, directory / "run")
    medians = {epoch: statistics.median(values) for epoch, values in sorted(samples.items())}
    settled = {epoch: value for epoch, value in medians.items() if epoch >= 2}
    first = settled[min(settled)]
    worst = max(settled.values(), key=lambda value: abs(value - first))
    print(f"{options.kind}, {options.workers} workers, {options.epochs} epochs\n\n| epoch | resident MiB |\n| --- | --- |")
    for epoch, value in medians.items():
        if epoch <= 3 or epoch % 10 == 0 or epoch == max(medians):
            print(f"| {epoch + 1} | {value:.1f} |")
    drift, end = worst / first - 1, settled[max(settled)] / first - 1
    print(f"\nafter epoch 2: {first:.1f} MiB; at the end {end:+.2%}; furthest {drift:+.2%}")
    if options.json:
        options.json.write_text(json.dumps({"medians": medians, "end": end, "furthest": drift}, indent=1) + "\n")
    if abs(drift) > options.tolerance:
        sys.exit(f"memory_flat: more than ±{options.tolerance:.0%}")


if __name__ == "__main__":
    main()
