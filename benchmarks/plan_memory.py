#!/usr/bin/env python3
"""The peak memory that `trainctl plan` predicts against the one that training has, by the allocator's own accounting, on the CPU.

  plan_memory.py [--only NAME …] [--steps 3] [--json FILE] [--set KEY=VALUE …]

Each row is a run of three steps: what metrics.jsonl's last step says (memory_mib: the most that lay in tensors since the process began)
beside the plan of the same file. Fails where the median error is above 5 %, or any above 15 %.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
MOST_MEDIAN = 0.05
MOST = 0.15

IMAGES = "{{kind: synthetic_images, num_samples: 4096, num_eval_samples: 0, channels: {channels}, height: {size}, width: {size}, num_classes: 100, batch_size: {batch}}}"
TOKENS = "{{kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: {length}, vocab_size: {vocabulary}, mask_probability: {masked}, batch_size: {batch}}}"


def images(size, batch, channels=3):
    return IMAGES.format(size=size, batch=batch, channels=channels)


def tokens(length, batch, vocabulary=8000, masked=0):
    return TOKENS.format(length=length, batch=batch, vocabulary=vocabulary, masked=masked)


def listed(name):
    """Returns the model of configs/layers/NAME.yaml."""
    text = (ROOT / "configs/layers" / f"{name}.yaml").read_text()
    return "\n" + re.search(r"(?ms)^model:\n(.*?)^(?=\S)", text)[1].rstrip()


# Rows of a table that compare() writes beside the config; padding is masked.
TEXTS = ("{kind: text_classification, train: {files: [texts.csv], text: text, label: label}, tokenizer: bytes, max_length: 96, batch_size: 16, num_workers: 1}")
# Most of the pairs that compare() writes are cut to the longest.
PAIRS = "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes, max_source_length: 96, max_target_length: 64, batch_size: 16, num_workers: 1}"
T5 = "{kind: t5, hidden_size: 256, num_layers: 4, num_heads: 4, intermediate_size: 1024, feed_forward_proj: gated_gelu}"
RESNET18 = "{kind: resnet18, stem: cifar}"
RESNET50 = "{kind: resnet50}"
VIT = "{kind: vit, hidden_size: 192, num_layers: 8, num_heads: 3, intermediate_size: 768, patch_size: 16}"
BERT = "{kind: bert, hidden_size: 256, num_layers: 6, num_heads: 4, intermediate_size: 1024}"
GPT2 = "{kind: gpt2, hidden_size: 256, num_layers: 6, num_heads: 4, max_position_embeddings: 1024}"
GPT2_PLAIN = "{kind: gpt2, hidden_size: 256, num_layers: 6, num_heads: 4, max_position_embeddings: 1024, dropout: 0, attention_dropout: 0}"
LLAMA = "{kind: llama, hidden_size: 256, num_layers: 6, num_heads: 8, num_key_value_heads: 4, max_position_embeddings: 2048}"
LSTM = "{kind: lstm, hidden_size: 256, num_layers: 2}"
ADAMW = {"optimizer": "{kind: adamw, lr: 1e-4, clip_norm: 1.0}"}
SGD = {"optimizer": "{kind: sgd, lr: 1e-3, momentum: 0.9}"}

# name: dataset, model, task, what else
RUNS = {
    "cnn": (images(32, 256), "{kind: cnn, channels: [32, 64]}", "classification", ADAMW),
    "cnn batch 1024": (images(28, 1024, channels=1), "{kind: cnn}", "classification", SGD),
    "cnn batch norm, accumulation": (images(32, 256), "{kind: cnn, channels: [32, 64], batch_norm: true, dropout: 0.2}", "classification", {**SGD, "accumulation": "{steps: 4}"}),
    "cnn bf16": (images(16, 64), "{kind: cnn, channels: [8, 16]}", "classification", {**ADAMW, "amp": "{mode: bf16}"}),
    "resnet18": (images(32, 64), RESNET18, "classification", SGD),
    "resnet18 batch 128 adamw": (images(32, 128), RESNET18, "classification", ADAMW),
    "resnet18 full": (images(32, 128), RESNET18, "classification", {**SGD, "activation_checkpointing": "{kind: full}"}),
    "resnet18 for eight bits": (images(32, 64), RESNET18, "classification", {**SGD, "quantization": "{kind: qat, start_step: 1}"}),
    "resnet18 for eight bits, learned": (images(32, 64), RESNET18, "classification", {**SGD, "quantization": "{kind: qat, scale: learned}"}),
    "resnet18 imagenet stem": (images(128, 16), "{kind: resnet18}", "classification", SGD),
    "resnet50": (images(64, 16), RESNET50, "classification", SGD),
    "resnet50 224": (images(224, 8), RESNET50, "classification", SGD),
    "resnet50 selective": (images(128, 16), RESNET50, "classification", {**SGD, "activation_checkpointing": "{kind: selective_op}"}),
    "resnet50 ema": (images(64, 16), RESNET50, "classification", {"optimizer": "{kind: adamw, lr: 1e-4, ema: {decay: 0.99}}"}),
    "mobilenet_v3_small": (images(96, 16), listed("mobilenet_v3_small"), "classification", SGD),
    "efficientnet_b0": (images(96, 16), listed("efficientnet_b0"), "classification", SGD),
    "vit": (images(224, 8), VIT, "classification", ADAMW),
    "vit batch 24 sqrt": (images(224, 24), VIT, "classification", {**ADAMW, "activation_checkpointing": "{kind: sqrt}"}),
    "vit dropout, accumulation": (images(224, 8), VIT.replace("}", ", dropout: 0.1, attention_dropout: 0.1}"), "classification", {**ADAMW, "accumulation": "{steps: 2}"}),
    "bert": (tokens(128, 16, masked=0.15), BERT, "masked_lm", ADAMW),
    "bert length 512": (tokens(512, 4, masked=0.15), BERT, "masked_lm", ADAMW),
    "bert full": (tokens(128, 32, masked=0.15), BERT, "masked_lm", {**ADAMW, "activation_checkpointing": "{kind: full}"}),
    "bert lamb": (tokens(128, 16, masked=0.15), BERT, "masked_lm", {"optimizer": "{kind: lamb, lr: 1e-4}"}),
    "bert texts": (TEXTS, BERT.replace("}", ", head: classification, num_classes: 4}"), "classification", ADAMW),
    "bert texts for eight bits": (TEXTS, BERT.replace("}", ", head: classification, num_classes: 4}"), "classification", {**ADAMW, "quantization": "{kind: qat}"}),
    "gpt2": (tokens(256, 8), GPT2, "causal_lm", ADAMW),
    "gpt2 length 1024": (tokens(1024, 2), GPT2_PLAIN, "causal_lm", ADAMW),
    "gpt2 accumulation": (tokens(256, 4, vocabulary=32000), GPT2_PLAIN, "causal_lm", {**ADAMW, "accumulation": "{steps: 4}"}),
    "gpt2 selective": (tokens(256, 16), GPT2_PLAIN, "causal_lm", {**ADAMW, "activation_checkpointing": "{kind: selective_op}"}),
    "gpt2 bf16": (tokens(64, 4, vocabulary=1000), "{kind: gpt2, hidden_size: 64, num_layers: 2, num_heads: 2, max_position_embeddings: 64}", "causal_lm", {**ADAMW, "amp": "{mode: bf16}"}),
    "llama": (tokens(256, 8, vocabulary=32000), LLAMA, "causal_lm", ADAMW),
    "llama length 1024": (tokens(1024, 2), LLAMA, "causal_lm", ADAMW),
    "llama full": (tokens(512, 8), LLAMA, "causal_lm", {**ADAMW, "activation_checkpointing": "{kind: full}"}),
    "llama lora": (tokens(256, 8), LLAMA.replace("}", ", lora: {rank: 8, target_modules: [q_proj, v_proj]}}"), "causal_lm", ADAMW),
    "llama adafactor": (tokens(256, 8), LLAMA, "causal_lm", {"optimizer": "{kind: adafactor, lr: 1e-3}"}),
    "t5": (PAIRS, T5, "seq2seq_lm", ADAMW),
    "t5 full": (PAIRS, T5, "seq2seq_lm", {**ADAMW, "activation_checkpointing": "{kind: full}"}),
    "lstm": (tokens(64, 16), LSTM, "causal_lm", ADAMW),
    "lstm length 256": (tokens(256, 16), LSTM, "causal_lm", SGD),
    "lstm without dropout": (tokens(64, 64), LSTM.replace("}", ", dropout: 0}"), "causal_lm", ADAMW),
}


def config_of(name, steps):
    dataset, model, task, more = RUNS[name]
    sections = {"name": "plan-memory", "device": "{kind: cpu}", "dataset": dataset, "model": model, "task": f"{{kind: {task}}}",
                "train": f"{{steps: {steps}, log_every: 1}}", "checkpoint": "{every: 0}", "tracking": "{tensorboard: false}", **more}
    return "".join(f"{key}: {value}\n" for key, value in sections.items())


def compare(trainctl, name, steps=3, sets=()):
    """Predicted and measured peak of one of RUNS, in MiB."""
    more = [argument for value in sets for argument in ("--set", value)]
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "run.yaml"
        config.write_text(config_of(name, steps))
        rows = (f"{'word ' * (18 + row % 12)},{row % 4}\n" for row in range(256))
        (pathlib.Path(directory) / "texts.csv").write_text("text,label\n" + "".join(rows))
        pairs = (json.dumps({"source": "word " * (18 + row % 12), "target": "mot " * (14 + row % 9)}) + "\n" for row in range(256))
        (pathlib.Path(directory) / "pairs.jsonl").write_text("".join(pairs))
        plan = json.loads(subprocess.run([trainctl, "plan", config, "--json", *more], check=True, capture_output=True, text=True, cwd=directory).stdout)
        subprocess.run([trainctl, "train", config, "--run-dir", f"{directory}/run", "--no-progress", "--log-level", "warning", *more], check=True,
                       stdout=subprocess.DEVNULL, cwd=directory)
        records = [json.loads(line) for line in (pathlib.Path(directory) / "run/metrics.jsonl").read_text().splitlines()]
    measured = [record["memory_mib"] for record in records if record["event"] == "step"][-1]
    predicted = plan["memory"]["peak_bytes"] / MIB
    return {"run": name, "predicted_mib": predicted, "measured_mib": measured, "error": predicted / measured - 1, "peak": plan["memory"]["peak_phase"],
            "by_purpose_mib": {purpose: held / MIB for purpose, held in plan["memory"]["peak_by_purpose"].items()}}


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--trainctl", default=os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()

    print(f"{'run':32}{'predicted':>12}{'measured':>12}{'error':>9}  peak in")
    results = []
    for name in options.only:
        result = compare(options.trainctl, name, options.steps, options.set)
        results.append(result)
        print(f"{name:32}{result['predicted_mib']:>8.1f} MiB{result['measured_mib']:>8.1f} MiB{100 * result['error']:>8.1f} %  {result['peak']}", flush=True)
    errors = [abs(result["error"]) for result in results]
    print(f"{len(results)} runs: median error {100 * median(errors):.1f} %, worst {100 * max(errors):.1f} %")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if median(errors) > MOST_MEDIAN or max(errors) > MOST:
        sys.exit("the prediction is off by more than it may be")


if __name__ == "__main__":
    main()
