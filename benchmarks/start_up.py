#!/usr/bin/env python3
"""How long a one-step run takes from start to exit: trainctl and stock PyTorch in turn, then trainctl alone.

  start_up.py [--rounds 9] [--trainctl PATH] [--python PATH] [--json FILE]

Both train one step of the same small CNN on made-up images. In turn, each side finds the caches as the other left them.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare_step import EXPERIMENT, HERE, WORKLOADS, add_program_options

WORKLOAD = "demo_cnn"


def seconds(command):
    begin = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def describe(name, values):
    return f"| {name} | {statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    add_program_options(parser)
    options = parser.parse_args()
    batch, _, data, model, task = WORKLOADS[WORKLOAD]
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "one_step.yaml"
        config.write_text(EXPERIMENT.format(device="cpu", threads=2, data=data, batch=batch, model=model, task=task, precision="fp32", steps=1))
        runs = iter(range(1000))
        ours = lambda: seconds([options.trainctl, "train", config, "--run-dir", pathlib.Path(directory) / str(next(runs)), "--no-progress"])
        peer = lambda: seconds([options.python, HERE / "step.py", "--workload", WORKLOAD, "--batch", batch, "--steps", 1, "--warmup", 0])
        measured = {"trainctl, in turn": [], "stock PyTorch, in turn": [], "trainctl, alone": []}
        for _ in range(options.rounds):
            measured["trainctl, in turn"].append(ours())
            measured["stock PyTorch, in turn"].append(peer())
        for _ in range(options.rounds):
            measured["trainctl, alone"].append(ours())
    print("| one step, start to exit | median s | least | most |\n| --- | --- | --- | --- |")
    for name, values in measured.items():
        print(describe(name, values))
    ratio = statistics.median(measured["stock PyTorch, in turn"]) / statistics.median(measured["trainctl, in turn"])
    print(f"\nstock PyTorch / trainctl, in turn: {ratio:.1f}")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
