#!/usr/bin/env python3
"""Whether training by Winograd's convolutions ends where training by direct ones does: a Markdown table.

  benchmarks/compare_kernels.py [--seeds 1 2 3 4 5] [--epochs 2] [--threads N] [--trainctl PATH]

The network of configs/fashion_mnist_best.yaml learns Fashion-MNIST with `model.convolution_algorithm` auto and direct. Runs of one seed have
the same first values and order of data. The table has the curves' means over the seeds. The run fails if the mean difference over all epochs
is more than two standard errors, or that of a single epoch more than four. A quarter of an hour on two cores.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from compare_resnet20 import CURVES, ROOT, compare


def curves(options, directory, algorithm, seed):
    config = yaml.safe_load((ROOT / "configs/fashion_mnist_best.yaml").read_text())
    steps = 60000 // config["dataset"]["batch_size"]
    config["train"] = {"epochs": options.epochs, "eval_every": steps, "log_every": steps}
    config |= {"checkpoint": {"every": 0}, "tracking": {"tensorboard": False}, "device": {"kind": "cpu", "num_threads": options.threads}}
    file, run = directory / "config.yaml", directory / f"{algorithm}{seed}"
    file.write_text(yaml.safe_dump(config))
    result = subprocess.run([options.trainctl, "train", str(file), "--run-dir", str(run), "--no-progress", "--set", f"seed={seed}",
                             "--set", f"model.convolution_algorithm={algorithm}"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"compare_kernels: {result.stderr}")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [record for record in records if record["event"] == "eval"]
    return {"training loss": [record["loss"] for record in records if record["event"] == "step"][:options.epochs],
            "test loss": [record["loss"] for record in evaluations], "test accuracy": [record["accuracy"] for record in evaluations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        both = {algorithm: [curves(options, pathlib.Path(directory), algorithm, seed) for seed in options.seeds] for algorithm in ("auto", "direct")}
    print("| curve | epoch | Winograd | direct | difference ± standard error |\n| --- | --- | --- | --- | --- |")
    agree = [compare(name, *([run[name] for run in both[algorithm]] for algorithm in ("auto", "direct"))) for name in CURVES]
    sys.exit(0 if all(agree) else 1)


if __name__ == "__main__":
    main()
