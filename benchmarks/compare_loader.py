#!/usr/bin/env python3
"""trainctl's loader against torchvision's on a tree of JPEGs, interleaved in one run: a Markdown table.

  compare_loader.py ROOT... [--rounds 3] [--seconds 10] [--workers N] [--batch 256] [--sides trainctl torchvision pil floor]
                    [--trainctl PATH] [--floor PATH] [--python PATH] [--json FILE]

Each ROOT is ROOT/class/image.jpg (photo_tree.py makes one). All make batches of 224×224 floats: random resized crop, flip,
normalise. floor is what libjpeg-turbo and a resize cost by themselves: whole images decoded on as many threads, the crop resized,
nothing else (decode_floor). Memory is what a side's processes hold together, pages that they share counted once.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from compare_step import ROOT, add_program_options

CONFIG = """name: loader
dataset:
  kind: image_folder
  train: {root}
  batch_size: {batch}
  workers: {workers}
  cache_dir: {cache}
  transforms:
    - {{kind: random_resized_crop, size: 224}}
    - {{kind: random_horizontal_flip}}
    - {{kind: normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}
model: resnet18
train: {{steps: 1}}
"""


def held_mib(pid):
    """Proportional set size: pages that processes share count once."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def run(command):
    """The JSON that a command prints; beside it, the peak of what it holds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak, done = [0.0], threading.Event()

    def watch():
        while not done.wait(0.25):
            peak[0] = max(peak[0], held_mib(process.pid))
    watcher = threading.Thread(target=watch)
    watcher.start()
    output = process.communicate()[0]
    done.set()
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"compare_loader: {' '.join(map(str, command))} failed")
    return json.loads(output), peak[0]


def measure(side, root, options, directory):
    times = ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
    if side == "trainctl":
        config = pathlib.Path(directory) / "loader.yaml"
        config.write_text(CONFIG.format(root=root, batch=options.batch, workers=options.workers, cache=directory))
        result, peak = run([options.trainctl, "data", "bench", config, *times, "--json"])
        return {"images_per_s": result["samples_per_s"], "cpu_s_per_1k": result["cpu_s_per_1k"], "peak_mib": peak}
    if side == "floor":
        result, peak = run([options.floor, root, str(options.workers), str(options.seconds)])
        return {"images_per_s": result["images_per_s"], "cpu_s_per_1k": result["cpu_s_per_1k"], "peak_mib": peak}
    peer = [options.python, ROOT / "benchmarks/load.py", root, "--decoder", side, "--workers", str(options.workers), "--batch", str(options.batch)]
    return run([*peer, *times])[0]


def compare(root, options, directory):
    results = {side: [] for side in options.sides}
    for round_ in range(options.rounds):
        turn = round_ % len(options.sides)
        for side in options.sides[turn:] + options.sides[:turn]:
            result = measure(side, root, options, directory)
            results[side].append(result)
            print(f"{root} round {round_ + 1} {side}: {result['images_per_s']:.0f} images/s", file=sys.stderr)
            time.sleep(1)
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def table(measured):
    lines = ["| photos | side | images/s (range) | trainctl / side | CPU s per 1,000 | peak MiB |", "| --- | --- | --- | --- | --- | --- |"]
    for root, results in measured.items():
        ours = median(results["trainctl"], "images_per_s") if "trainctl" in results else None
        for side, rounds in results.items():
            speeds = [result["images_per_s"] for result in rounds]
            ratio = f"{ours / median(rounds, 'images_per_s'):.2f}×" if ours and side != "trainctl" else ""
            lines.append(f"| {pathlib.Path(root).name} | {side} | {median(rounds, 'images_per_s'):.0f} ({min(speeds):.0f}–{max(speeds):.0f}) | "
                         f"{ratio} | {median(rounds, 'cpu_s_per_1k'):.2f} | {median(rounds, 'peak_mib'):.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="+", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warmup", type=float, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--sides", nargs="+", choices=["trainctl", "torchvision", "pil", "floor"], default=["trainctl", "torchvision", "pil", "floor"])
    parser.add_argument("--floor", type=pathlib.Path, default=ROOT / "build/release/bin/decode_floor")
    add_program_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = {root: compare(root, options, directory) for root in options.roots}
    print(f"{options.workers} workers, batches of {options.batch}, {options.rounds} interleaved rounds of {options.seconds:g} s\n")
    print(table(measured))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
