#!/usr/bin/env python3
"""A training step of GPT-2 124M beside llm.c's CPU program, interleaved in one run: a Markdown table.

  compare_llmc.py LLM_C [--rounds 3] [--steps 6] [--threads N] [--trainctl PATH] [--json FILE]

LLM_C is a checkout of https://github.com/karpathy/llm.c. Its train_gpt2.c is built by gcc with the Makefile's -Ofast, -march=native and OpenMP, and
-fno-finite-math-only. It runs as it is: 4 texts of 64 tokens, AdamW without decay, float32. Its weights and tokens are random: the time of a step doesn't depend on them. Its first step is left out.
performance.py takes the figures into its page from build/performance/llmc.json.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy

import compare_step
import performance

WARMUP = 3
LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, PADDED = 12, 12, 768, 1024, 50257, 50304
BATCH, TOKENS = 4, 64
FLAGS = ["-Ofast", "-march=native", "-fno-finite-math-only", "-fopenmp", "-DOMP", "-w"]
STEP = re.compile(r"step (\d+): train loss [-\d.nainf]+ \(took ([\d.]+) ms\)")

EXPERIMENT = f"""\
name: compare-llmc
device: {{{{kind: cpu, num_threads: {{threads}}}}}}
dataset: {{{{kind: synthetic_tokens, num_samples: 1024, num_eval_samples: 0, seq_len: {TOKENS}, vocab_size: {VOCABULARY}, batch_size: {BATCH}}}}}
model: {{{{kind: gpt2, hidden_size: {WIDTH}, num_layers: {LAYERS}, num_heads: {HEADS}, max_position_embeddings: {CONTEXT}, dropout: 0, attention_dropout: 0}}}}
task: causal_lm
optimizer: {{{{kind: adamw, lr: 1e-4, weight_decay: 0, lr_scheduler: {{{{kind: constant}}}}}}}}
train: {{{{steps: {{steps}}, log_every: 1000}}}}
tracking: {{{{tensorboard: false}}}}
"""


def write_header(file, *numbers):
    file.write(numpy.array([*numbers, *[0] * (256 - len(numbers))], dtype=numpy.int32).tobytes())


def write_weights(path):
    """As llm.c's write_model: a header, then tensor after tensor of all layers."""
    random = numpy.random.default_rng(0)
    layered = [(1, WIDTH), (0, WIDTH), (None, 3 * WIDTH * WIDTH), (0, 3 * WIDTH), (None, WIDTH * WIDTH), (0, WIDTH), (1, WIDTH), (0, WIDTH),
               (None, 4 * WIDTH * WIDTH), (0, 4 * WIDTH), (None, 4 * WIDTH * WIDTH), (0, WIDTH)]
    sizes = [(None, PADDED * WIDTH), (None, CONTEXT * WIDTH), *((value, LAYERS * size) for value, size in layered), (1, WIDTH), (0, WIDTH)]
    with path.open("wb") as file:
        write_header(file, 20240326, 3, CONTEXT, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED)
        for value, size in sizes:
            tensor = numpy.full(size, value, numpy.float32) if value is not None else random.normal(0, 0.02, size).astype(numpy.float32)
            file.write(tensor.tobytes())


def write_tokens(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = numpy.random.default_rng(1).integers(0, VOCABULARY, 1 << 15).astype(numpy.uint16)
    with path.open("wb") as file:
        write_header(file, 20240520, 1, len(tokens))
        file.write(tokens.tobytes())


def prepare_llmc(checkout, directory):
    program = directory / "train_gpt2"
    subprocess.run(["gcc", *FLAGS, checkout / "train_gpt2.c", "-o", program, "-lm"], check=True, cwd=checkout)
    write_weights(directory / "gpt2_124M.bin")
    for part in ("train", "val"):
        write_tokens(directory / f"dev/data/tinyshakespeare/tiny_shakespeare_{part}.bin")
    return program


def run_llmc(program, options):
    """Its first steps; it ends when they are done."""
    process = subprocess.Popen(["stdbuf", "-oL", program], cwd=program.parent, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    took, peak = [], 0
    for line in process.stdout:
        if (found := STEP.match(line)) is None:
            continue
        took.append(float(found[2]))
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10
        if len(took) == 1 + options.steps:
            break
    process.kill()
    process.wait()
    if len(took) < 1 + options.steps:
        sys.exit("compare_llmc: llm.c ended before its steps were done")
    return {"step_ms": statistics.median(took[1:]), "peak_rss_mib": peak}


def run_trainctl(options, directory):
    config = directory / "gpt2.yaml"
    config.write_text(EXPERIMENT.format(threads=options.threads, steps=WARMUP + options.steps))
    return compare_step.train(config, options.trainctl, directory)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llm_c", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    compare_step.add_program_options(parser)
    return parser.parse_args()


def main():
    options = read_options()
    results = {"trainctl": [], "llm.c": []}
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        program = prepare_llmc(options.llm_c.resolve(), directory)
        for round_ in range(options.rounds):
            sides = list(results) if round_ % 2 == 0 else list(results)[::-1]
            for side in sides:
                result = run_trainctl(options, directory) if side == "trainctl" else run_llmc(program, options)
                results[side].append(result)
                print(f"round {round_ + 1} {side}: {result['step_ms']:.1f} ms", file=sys.stderr)
    ours, theirs = (compare_step.median(results[side], "step_ms") for side in results)
    print("| program | step, ms (range) | peak MiB |\n| --- | --- | --- |")
    for side, rounds in results.items():
        print(f"| {side} | {compare_step.spread(rounds)} | {compare_step.median(rounds, 'peak_rss_mib'):.0f} |")
    print(f"\nllm.c / trainctl: {theirs / ours:.2f}×")
    if options.json:
        found = {"rounds": results, "machine": performance.machine(), "threads": options.threads, "commit": performance.commit(),
                 "date": datetime.date.today().isoformat()}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
