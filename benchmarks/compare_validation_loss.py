#!/usr/bin/env python3
"""The validation loss of a small GPT trained by trainctl against the same one trained in stock PyTorch: a Markdown table.

  .deps/python/bin/python3 benchmarks/compare_validation_loss.py [--config configs/tiny/shakespeare_gpt.yaml] [--seeds 1 2 3] [--steps N]
                                                                 [--threads N] [--bar 0.01] [--trainctl PATH] [--json FILE]

Both sides have the same sizes, initial distribution, optimizer, schedule, batch, text, split and number of tokens; each draws its own
initial weights and order, which is why several seeds are averaged. The run fails where the means differ by more than the bar.
The config must be a gpt2 on `text_lm` with `tokenizer: bytes` and a cosine schedule.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import yaml

from compare_step import ROOT, run


def resolved(options):
    """The config as trainctl understands it, every default filled in."""
    shown = subprocess.run([options.trainctl, "config", "show", options.config], capture_output=True, text=True)
    if shown.returncode != 0:
        sys.exit(shown.stderr)
    return yaml.safe_load(shown.stdout)


def peer_experiment(shown, options):
    dataset, model, optimizer = shown["dataset"], shown["model"], shown["optimizer"]
    schedule = optimizer["lr_scheduler"]
    fits = (dataset["kind"] == "text_lm" and dataset["tokenizer"] == "bytes" and dataset.get("eval") is None and model["kind"] == "gpt2"
            and optimizer["kind"] == "adamw" and schedule["kind"] == "cosine" and shown["accumulation"]["steps"] == 1)
    if not fits or len(dataset["train"]["files"]) != 1:
        sys.exit("compare_validation_loss: the config must be a gpt2 on one file of text_lm with tokenizer bytes, adamw and a cosine schedule")
    return {
        "files": dataset["train"]["files"], "eval_fraction": dataset["eval_fraction"], "length": dataset["seq_len"], "batch_size": dataset["batch_size"],
        **{key: model[key] for key in ("hidden_size", "num_layers", "num_heads", "max_position_embeddings", "dropout", "attention_dropout")},
        **{key: float(optimizer[key] or 0) for key in ("lr", "beta1", "beta2", "eps", "weight_decay", "clip_norm")},
        "warmup": schedule["warmup"], "min_lr": float(schedule["min_lr"]), "steps": options.steps or shown["train"]["steps"], "threads": options.threads,
    }


def train_ours(experiment, seed, options, directory):
    run_dir = tempfile.mkdtemp(dir=directory)
    steps = experiment["steps"]
    run([options.trainctl, "train", options.config, "--run-dir", run_dir, "--resume", "never", "--no-progress", "--log-level", "warning",
         "--set", f"seed={seed}", "--set", f"train.steps={steps}", "--set", "train.eval_every=auto", "--set", f"device.num_threads={options.threads}"])
    summary = json.loads((pathlib.Path(run_dir) / "summary.json").read_text())
    return {"loss": summary["final_metrics"]["loss"], "num_parameters": summary["num_parameters"], "seconds": summary["wall_s"]}


def train_theirs(experiment, seed, options, directory):
    path = pathlib.Path(directory) / "peer.json"
    path.write_text(json.dumps({**experiment, "seed": seed}))
    text, _ = run([sys.executable, ROOT / "benchmarks/train_gpt.py", path])
    return json.loads(text.strip().splitlines()[-1])


def table(ours, theirs, options):
    lines = ["| seed | trainctl | PyTorch | trainctl / PyTorch |", "| --- | --- | --- | --- |"]
    lines += [f"| {seed} | {a['loss']:.4f} | {b['loss']:.4f} | {a['loss'] / b['loss']:.4f} |" for seed, a, b in zip(options.seeds, ours, theirs)]
    means = [statistics.mean(result["loss"] for result in side) for side in (ours, theirs)]
    lines.append(f"| mean | {means[0]:.4f} | {means[1]:.4f} | **{means[0] / means[1]:.4f}** |")
    if len(options.seeds) > 1:
        error = (sum(statistics.variance(result["loss"] for result in side) for side in (ours, theirs)) / len(options.seeds)) ** 0.5
        lines += ["", f"Difference of the means: {means[0] - means[1]:+.4f} ± {error:.4f} (standard error)."]
    return "\n".join(lines), means[0] / means[1]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "configs/tiny/shakespeare_gpt.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="instead of the config's")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--bar", type=float, default=0.01, help="largest relative difference of the means")
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--json", type=pathlib.Path, help="also write every seed's figures here")
    return parser.parse_args()


def main():
    options = read_options()
    os.chdir(ROOT)  # the configs' files are named from there
    subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "shakespeare"], check=True, stdout=subprocess.DEVNULL)
    experiment = peer_experiment(resolved(options), options)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as directory:
        for seed in options.seeds:
            ours.append(train_ours(experiment, seed, options, directory))
            theirs.append(train_theirs(experiment, seed, options, directory))
            print(f"seed {seed}: trainctl {ours[-1]['loss']:.4f}, PyTorch {theirs[-1]['loss']:.4f}", file=sys.stderr)
    if ours[0]["num_parameters"] != theirs[0]["num_parameters"]:
        sys.exit(f"compare_validation_loss: {ours[0]['num_parameters']} parameters here, {theirs[0]['num_parameters']} there")
    text, ratio = table(ours, theirs, options)
    print(f"{theirs[0]['num_parameters']:,} parameters, {theirs[0]['tokens']:,} tokens a run, validation loss in nats per byte\n\n{text}")
    if options.json:
        options.json.write_text(json.dumps({"ours": ours, "theirs": theirs}, indent=1) + "\n")
    sys.exit(0 if abs(ratio - 1) <= options.bar else 1)


if __name__ == "__main__":
    main()
