#!/usr/bin/env python3
"""What saving and restoring a large state cost, beside what the disk itself does: a Markdown table.

  checkpoint_speed.py [--directory DIR] [--rounds 5] [--restores 4] [--rest 4] [--every 32] [--ranks 1 2] [--vocabulary 107000] [--trainctl PATH] [--json FILE]

A GPT-2 of 167 M parameters in fp32 with adamw, whose state is 2 GB, trained through `trainctl train` on short sequences, which makes steps
short and so the share of saving large. In turn, each round: a run without checkpoints, one that saves every `--every` steps, the disk's
own sequential write (16 MiB blocks and fsync; past the page cache and through it, the faster counts), a run that goes on from the
checkpoint when it isn't in the page cache, and reading the same files one after another, likewise (a shared disk's rate
varies twofold from one second to the next and is lower after much was read, so these go several times, either first, with a rest before
each). Step: the medians' difference over
an interval, from the step of the second save to that of the third: the first takes the copy's memory from the system, once. Fails where a save costs over 5 % of an interval, or
is slower than 80 % of the disk, either way.
"""
import argparse
import json
import mmap
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare_step import add_program_options

EXPERIMENT = """\
name: checkpoint-speed
dataset: {{kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: {length}, vocab_size: {vocabulary}, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 768, num_layers: 12, num_heads: 12, max_position_embeddings: {length}, dropout: 0, attention_dropout: 0}}
task: causal_lm
optimizer: {{kind: adamw, lr: 1e-4}}
train: {{steps: {steps}, log_every: 1}}
checkpoint: {{every: {every}, keep_last: 1}}
tracking: {{tensorboard: false}}
"""
BLOCK = 16 << 20


def drop_from_cache(paths):
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def write_rate(directory, size, flags):
    """GB/s of one writer, with what was written on the disk at the end."""
    path = directory / "raw"
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    begin = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o644)
    for _ in range(size // BLOCK):
        os.write(descriptor, block)
    os.fsync(descriptor)
    os.close(descriptor)
    seconds = time.perf_counter() - begin
    path.unlink()
    return size // BLOCK * BLOCK / seconds / 1e9


def read_rate(paths):
    drop_from_cache(paths)
    block = bytearray(BLOCK)
    total, begin = 0, time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while got := file.readinto(block):
                total += got
    return total / (time.perf_counter() - begin) / 1e9


def train(options, config, run_dir, ranks, resume="never"):
    """When each line of a run's log came: [(seconds, line)]."""
    command = [options.trainctl, "train", config, "--run-dir", run_dir, "--resume", resume, "--no-progress"]
    command += ["--nproc", ranks] if ranks > 1 else []
    lines = []
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        for line in process.stderr:
            lines.append((time.perf_counter(), line.rstrip()))
    if process.wait() != 0:
        sys.exit("\n".join(line for _, line in lines[-20:]))
    return lines


def restore_rate(options, config, run_dir, ranks, paths, size):
    drop_from_cache(paths)
    lines = train(options, config, run_dir, ranks, resume="auto")
    return size / max(seconds_of(line.rsplit(" in ", 1)[1]) for _, line in lines if "restored" in line) / 1e9


def step_times(lines):
    """{step: when its log line came}"""
    found = {}
    for when, line in lines:
        match = re.search(r"\bstep\s+([\d,]+)", line)
        if match and "loss" in line:
            found[int(match[1].replace(",", ""))] = when
    return found


def seconds_of(text):
    value, unit = re.search(r"([\d.]+) (ms|s|min)", text).groups()
    return float(value) * {"ms": 1e-3, "s": 1, "min": 60}[unit]


def measure(options, directory, ranks):
    every = options.every
    names = ["interval_plain_s", "interval_saving_s", "save_gbps", "disk_write_gbps", "restore_gbps", "disk_read_gbps"]
    figures = {name: [] for name in names}
    for _ in range(options.rounds):
        for saves in (False, True):
            config = directory / f"saves_{saves}.yaml"
            config.write_text(EXPERIMENT.format(steps=3 * every + 2, every=every if saves else 0, vocabulary=options.vocabulary,
                                                length=options.length, batch=options.batch))
            run_dir = directory / f"run_{saves}"
            shutil.rmtree(run_dir, ignore_errors=True)
            lines = train(options, config, run_dir, ranks)
            when = step_times(lines)
            figures["interval_saving_s" if saves else "interval_plain_s"].append(when[3 * every] - when[2 * every])
            if saves:
                step = run_dir / "checkpoints" / f"step_{3 * every + 2:08d}"
                size = sum(path.stat().st_size for path in step.iterdir())
                took = [seconds_of(line.rsplit("(", 1)[1]) for _, line in lines if "checkpoint of step" in line]
                figures["save_gbps"].append(size / statistics.median(took) / 1e9)
            else:
                shutil.rmtree(run_dir)
        figures["disk_write_gbps"].append(max(write_rate(directory, size, flags) for flags in (os.O_DIRECT, 0)))
        paths = sorted(step.iterdir())
        for restore in range(options.restores):
            for what in ("restore_gbps", "disk_read_gbps")[:: 1 if restore % 2 == 0 else -1]:
                time.sleep(options.rest)
                figures[what].append(read_rate(paths) if what == "disk_read_gbps" else restore_rate(options, config, run_dir, ranks, paths, size))
        print(f"{ranks} ranks: " + ", ".join(f"{name} {values[-1]:.3f}" for name, values in figures.items()), file=sys.stderr, flush=True)
    return {name: statistics.median(values) for name, values in figures.items()} | {"gb": size / 1e9}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, help="on the disk to measure (default: that for temporary files)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--restores", type=int, default=4, help="in each round, in turn with the disk's own reads, either first")
    parser.add_argument("--rest", type=float, default=4, help="seconds before each: a disk with an allowance for bursts gets it back")
    parser.add_argument("--every", type=int, default=32, help="steps between saves: about half a minute on two cores")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--vocabulary", type=int, default=107000)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2)
    add_program_options(parser)
    options = parser.parse_args()
    results, failed = {}, False
    print("| ranks | state | an interval | with a save | costs | save | disk writes | restore | disk reads |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            one = results[ranks] = measure(options, pathlib.Path(directory), ranks)
        cost = one["interval_saving_s"] / one["interval_plain_s"] - 1
        save, restore = one["save_gbps"] / one["disk_write_gbps"], one["restore_gbps"] / one["disk_read_gbps"]
        failed |= cost > 0.05 or save < 0.8 or restore < 0.8
        print(f"| {ranks} | {one['gb']:.2f} GB | {options.every} steps, {one['interval_plain_s']:.1f} s | {one['interval_saving_s']:.1f} s | {cost:.1%} "
              f"| {one['save_gbps']:.2f} GB/s ({save:.0%}) | {one['disk_write_gbps']:.2f} GB/s "
              f"| {one['restore_gbps']:.2f} GB/s ({restore:.0%}) | {one['disk_read_gbps']:.2f} GB/s |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
