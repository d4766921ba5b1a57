#!/usr/bin/env python3
"""trainctl's loader against torch's DataLoader, interleaved in one run: a Markdown table. About eight minutes on two cores.

  compare_loader.py [--data small large idx] [--rounds 3] [--seconds 8] [--workers N] [--prefetch 2]
                    [--trainctl PATH] [--floor PATH] [--python PATH] [--json FILE]

small, large: JPEGs of about 400×500 and 2600×3900 (photo_tree.py makes them once, out of real photos; --photos DIR keeps them), made
into 224×224 floats by random resized crop, flip and normalise. The peers are torchvision's ImageFolder with torchvision's own
decoder, and with PIL. floor is what libjpeg-turbo and a resize cost by themselves: whole images decoded on as many threads, the
crop resized, nothing else (decode_floor). idx: Fashion-MNIST, of Debian's dataset-fashion-mnist; the peer is a DataLoader over a
TensorDataset of images that were normalised beforehand, at the better of 0 and 2 workers. Both sides have as many workers, and as
many batches ready for each. Memory is what a side's processes hold together, pages that they share counted once.
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

PHOTOS = """
  kind: image_folder
  train: {root}
  cache_dir: {directory}
  transforms:
    - {{kind: random_resized_crop, size: 224}}
    - {{kind: random_horizontal_flip}}
    - {{kind: normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}"""
IDX = """
  kind: idx
  train: {{images: {root}/train-images-idx3-ubyte.gz, labels: {root}/train-labels-idx1-ubyte.gz}}
  transforms: [{{kind: normalize, mean: [0.286], std: [0.353]}}]"""
CONFIG = """name: loader
dataset:
  batch_size: {batch}
  num_workers: {workers}
  prefetch_factor: {prefetch}{dataset}
model: mlp
train: {{steps: 1}}
"""
# Batches are small where an image takes long, so that a round ends in time.
WORKLOADS = {"small": (PHOTOS, 256, ["trainctl", "torchvision", "pil", "floor"]),
             "large": (PHOTOS, 8, ["trainctl", "torchvision", "pil", "floor"]),
             "idx": (IDX, 128, ["trainctl", "torch, 0 workers", "torch, 2 workers"])}
PHOTO_COUNTS = {"small": 3000, "large": 120}
SPEED_BARS = {"torchvision": 2, "pil": 3, "floor": 0.85, "torch": 10}
MEMORY_BAR = 0.5


def held_mib(pid):
    """Proportional set size: pages that processes share count once."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def run(command):
    """The JSON that a command prints; beside it, the peak of what it holds."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
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


def find_root(name, options):
    """Where a workload's files are; photos are made where there are none yet."""
    if name == "idx":
        return options.idx
    root = options.photos / name
    if not root.is_dir():
        made = root.with_name(name + ".new")
        subprocess.run([options.python, ROOT / "benchmarks/photo_tree.py", made, "--size", name, "--count", str(PHOTO_COUNTS[name])], check=True)
        made.rename(root)
    return root


def measure(side, name, root, options, directory):
    dataset, batch, _ = WORKLOADS[name]
    times = ["--seconds", options.seconds, "--warmup", options.warmup]
    if side == "floor":
        result, peak = run([options.floor, root, options.workers, options.seconds])
    elif side == "trainctl":
        config = pathlib.Path(directory) / f"{name}.yaml"
        config.write_text(CONFIG.format(dataset=dataset.format(root=root, directory=directory), batch=batch,
                                        workers=options.workers, prefetch=options.prefetch))
        result, peak = run([options.trainctl, "data", "bench", config, *times, "--json"])
    else:
        kind, workers = ("idx", side.split()[1]) if name == "idx" else (side, options.workers)
        result = run([options.python, ROOT / "benchmarks/load.py", root, "--kind", kind, "--workers", workers, "--batch", batch,
                      "--prefetch", options.prefetch, *times])[0]
        peak = result["peak_mib"]
    return {"samples_per_s": result["samples_per_s"], "cpu_s_per_1k": result["cpu_s_per_1k"], "peak_mib": peak}


def compare(name, options, directory):
    root, sides = find_root(name, options), WORKLOADS[name][2]
    results = {side: [] for side in sides}
    for round_ in range(options.rounds):
        turn = round_ % len(sides)
        for side in sides[turn:] + sides[:turn]:
            result = measure(side, name, root, options, directory)
            results[side].append(result)
            print(f"{name} round {round_ + 1} {side}: {result['samples_per_s']:.0f} samples/s", file=sys.stderr)
            time.sleep(0.5)
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def against(ratio, bar, is_met):
    return f"{ratio:.2f}× ({bar}: {'met' if is_met else 'MISSED'})"


def row(name, side, results):
    """Speed and memory of a side, and how trainctl's compare with them."""
    rounds = results[side]
    speeds = [result["samples_per_s"] for result in rounds]
    speed = memory = ""
    if side != "trainctl":
        ratio, bar = median(results["trainctl"], "samples_per_s") / statistics.median(speeds), SPEED_BARS[side.split(",")[0]]
        speed = against(ratio, f"≥ {bar}", ratio >= bar)
    if side not in ("trainctl", "floor"):
        ratio = median(results["trainctl"], "peak_mib") / median(rounds, "peak_mib")
        memory = against(ratio, f"≤ {MEMORY_BAR}", ratio <= MEMORY_BAR)
    return (f"| {name} | {side} | {statistics.median(speeds):,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f}) | {speed} | "
            f"{median(rounds, 'cpu_s_per_1k'):.3f} | {median(rounds, 'peak_mib'):.0f} | {memory} |")


def table(measured):
    lines = ["| data | side | samples/s (range) | trainctl's / side's | CPU s per 1,000 | peak MiB | trainctl's / side's |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [row(name, side, results) for name, results in measured.items() for side in results])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--warmup", type=float, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / ".deps/loader_photos")
    parser.add_argument("--idx", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--floor", type=pathlib.Path, default=ROOT / "build/release/bin/decode_floor")
    add_program_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = {name: compare(name, options, directory) for name in options.data}
    print(f"{options.workers} workers, {options.prefetch} batches ahead for each, {options.rounds} interleaved rounds of {options.seconds:g} s\n")
    print(table(measured))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
