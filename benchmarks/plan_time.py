#!/usr/bin/env python3
"""What `trainctl plan` says a step takes against what a step of `trainctl train` took, over runs of many kinds: a Markdown table.

  plan_time.py [--runs cnn resnet18 …] [--rounds 1] [--seconds 4] [--json FILE] [--trainctl PATH]

Rates of the machine are measured first (plan --calibrate), as on a machine that never planned. A run takes as many steps as fill --seconds;
its time is summary.json's median step, the median over rounds. The error is the prediction's against that. Fails where the median of the
errors is above 20 %. Honest only while nobody else computes; about six minutes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL_IMAGES = "kind: synthetic_images, channels: 1, height: 28, width: 28, num_classes: 10, num_samples: 16384"
CIFAR_IMAGES = "kind: synthetic_images, channels: 3, height: 32, width: 32, num_classes: 10, num_samples: 8192"
PHOTOS = "kind: synthetic_images, height: 112, width: 112, num_samples: 512"
TOKENS = "kind: synthetic_tokens, num_samples: 4096, vocab_size: 8192, seq_len: "
CNN = "{kind: cnn, channels: [16, 32], hidden: 128}"
DEEP_CNN = "{kind: cnn, channels: [32, 64, 128], num_pools: 2, batch_norm: true, hidden: 256, dropout: 0.3}"
VIT = "{kind: vit, patch_size: 4, hidden_size: 192, num_layers: 6, num_heads: 3, intermediate_size: 768}"
BERT = "{kind: bert, head: masked_lm, hidden_size: 256, num_layers: 4, num_heads: 4, intermediate_size: 1024}"
GPT2 = "{kind: gpt2, hidden_size: 256, num_layers: 4, num_heads: 4, max_position_embeddings: 1024}"
LLAMA = "{kind: llama, hidden_size: 256, num_layers: 4, num_heads: 4, num_key_value_heads: 2, intermediate_size: 768}"
LSTM = "{kind: lstm, hidden_size: 256, num_layers: 2, dropout: 0}"

# name: (data, batch, model, task, further settings)
RUNS = {
    "cnn b32": (SMALL_IMAGES, 32, CNN, "classification", {}),
    "cnn b256": (SMALL_IMAGES, 256, CNN, "classification", {}),
    "cnn batch norm b128": (SMALL_IMAGES, 128, DEEP_CNN, "classification", {}),
    "cnn sgd accumulation 4": (SMALL_IMAGES, 64, CNN, "classification", {"optimizer": "{kind: sgd, lr: 0.01}", "accumulation.steps": 4}),
    "resnet18 b16": (PHOTOS, 16, "{kind: resnet18}", "classification", {}),
    "resnet18 b4": (PHOTOS, 4, "{kind: resnet18}", "classification", {}),
    "resnet18 sgd b16": (PHOTOS, 16, "{kind: resnet18}", "classification", {"optimizer": "{kind: sgd, lr: 0.01}"}),
    "resnet50 b8": (PHOTOS, 8, "{kind: resnet50}", "classification", {}),
    "resnet50 checkpointing b8": (PHOTOS, 8, "{kind: resnet50}", "classification", {"activation_checkpointing": "{kind: full}"}),
    "vit b32": (CIFAR_IMAGES, 32, VIT, "classification", {}),
    "vit b128": (CIFAR_IMAGES, 128, VIT, "classification", {}),
    "vit sgd b64": (CIFAR_IMAGES, 64, VIT, "classification", {"optimizer": "{kind: sgd, lr: 0.01}"}),
    "bert 128 b8": (TOKENS + "128, mask_probability: 0.15", 8, BERT, "masked_lm", {}),
    "bert 512 b4": (TOKENS + "512, mask_probability: 0.15", 4, BERT, "masked_lm", {}),
    "bert 128 b32": (TOKENS + "128, mask_probability: 0.15", 32, BERT, "masked_lm", {}),
    "bert lamb 64 b16": (TOKENS + "64, mask_probability: 0.15", 16, BERT, "masked_lm", {"optimizer": "{kind: lamb, lr: 1e-3}"}),
    "gpt2 128 b8": (TOKENS + "128", 8, GPT2, "causal_lm", {}),
    "gpt2 512 b4": (TOKENS + "512", 4, GPT2, "causal_lm", {}),
    "gpt2 checkpointing 256 b8": (TOKENS + "256", 8, GPT2, "causal_lm", {"activation_checkpointing": "{kind: full}"}),
    "gpt2 accumulation 4": (TOKENS + "128", 4, GPT2, "causal_lm", {"accumulation.steps": 4}),
    "gpt2 1024 b1": (TOKENS + "1024", 1, GPT2, "causal_lm", {}),
    "llama 128 b8": (TOKENS + "128", 8, LLAMA, "causal_lm", {}),
    "llama 512 b4": (TOKENS + "512", 4, LLAMA, "causal_lm", {}),
    "llama checkpointing 256 b8": (TOKENS + "256", 8, LLAMA, "causal_lm", {"activation_checkpointing": "{kind: sqrt}"}),
    "llama adafactor 128 b4": (TOKENS + "128", 4, LLAMA, "causal_lm", {"optimizer": "{kind: adafactor, lr: 1e-3}"}),
    "lstm 64 b16": (TOKENS + "64", 16, LSTM, "causal_lm", {}),
    "lstm 128 b32": (TOKENS + "128", 32, LSTM, "causal_lm", {}),
    "lstm sgd 32 b64": (TOKENS + "32", 64, LSTM, "causal_lm", {"optimizer": "{kind: sgd, lr: 0.01}"}),
}

EXPERIMENT = """\
name: plan-time
device: {{kind: cpu}}
dataset: {{{data}, num_eval_samples: 0, batch_size: {batch}}}
model: {model}
task: {{kind: {task}}}
optimizer: {{kind: adamw, lr: 1e-4}}
train: {{steps: 100000, log_every: 1000}}
checkpoint: {{every: 0}}
tracking: {{tensorboard: false}}
"""


def write_config(directory, name):
    data, batch, model, task, settings = RUNS[name]
    path = pathlib.Path(directory) / (name.replace(" ", "_") + ".yaml")
    path.write_text(EXPERIMENT.format(data=data, batch=batch, model=model, task=task))
    return path, [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def called(options, *words):
    process = subprocess.run([str(options.trainctl), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode != 0:
        sys.exit(f"trainctl {' '.join(map(str, words))}\nfailed with {process.returncode}:\n{process.stderr[-3000:]}")
    return process.stdout


def measured_ms(options, directory, config, settings, steps, tag):
    run = pathlib.Path(directory) / "runs" / tag
    called(options, "train", config, "--run-dir", run, "--no-progress", "--log-level", "warning", "--resume", "never", *settings, "--set",
           f"train.steps={steps}")
    return json.loads((run / "summary.json").read_text())["median_step_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", help="those whose name begins so")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--trainctl", type=pathlib.Path, default=os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
    options = parser.parse_args()
    names = [name for name in RUNS if options.runs is None or any(name.startswith(start) for start in options.runs)]
    results = []
    print("| run | predicted ms | measured ms | error |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as directory:
        for i, name in enumerate(names):
            config, settings = write_config(directory, name)
            plan = json.loads(called(options, "plan", config, "--json", *settings, *(["--calibrate"] if i == 0 else [])))
            predicted = plan["time"]["step_ms"]
            steps = max(6, min(400, int(options.seconds * 1e3 / predicted)))
            measured = statistics.median(measured_ms(options, directory, config, settings, steps, f"{i}-{turn}") for turn in range(options.rounds))
            results.append({"run": name, "predicted_ms": predicted, "measured_ms": measured, "error": predicted / measured - 1})
            print("| {run} | {predicted_ms:.1f} | {measured_ms:.1f} | {error:+.0%} |".format(**results[-1]), flush=True)
    errors = [abs(result["error"]) for result in results]
    print(f"\n{len(errors)} runs: median error {statistics.median(errors):.0%}, largest {max(errors):.0%}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if statistics.median(errors) > 0.20:
        sys.exit("plan_time: the median error is above 20 %")


if __name__ == "__main__":
    main()
