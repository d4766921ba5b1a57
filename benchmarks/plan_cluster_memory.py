#!/usr/bin/env python3
"""Memory that `plan --nodes-of` says of the fullest rank, against the dry run of `plan` without it: a Markdown table.

  plan_cluster_memory.py [--most 25] [--trainctl PATH]

The dry run is the reference, because it executes the training code. 48 layouts of gpt2 and llama, on one to four ranks of an H200, take three
minutes. Fails where a difference is above --most per cent.
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
EXPERIMENT = """
name: memory
dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: SEQ, vocab_size: 32768, batch_size: 2}
model: MODEL
task: {kind: causal_lm}
amp: bf16
train: {steps: 10}
"""
MODELS = {
    "llama": (8192, "{kind: llama, hidden_size: 4096, num_layers: 8, num_heads: 32, num_key_value_heads: 8, intermediate_size: 14336, "
                    "max_position_embeddings: 8192}"),
    "gpt2": (2048, "{kind: gpt2, hidden_size: 4096, num_layers: 8, num_heads: 32, max_position_embeddings: 2048, dropout: 0, "
                   "attention_dropout: 0}"),
}
# name: (ranks, `distributed:`, micro-batches)
LAYOUTS = {
    "one rank": (1, "{kind: ddp, data: 1}", 1),
    "ddp 4": (4, "{kind: ddp, data: 4}", 1),
    "zero 1": (4, "{kind: zero, stage: 1}", 1),
    "zero 3": (4, "{kind: zero, stage: 3}", 1),
    "tensor 4": (4, "{kind: ddp, tensor: 4}", 1),
    "tensor 4, shared tokens": (4, "{kind: ddp, tensor: 4, sequence_parallel: true}", 1),
    "pipeline 4": (4, "{kind: ddp, pipeline: 4}", 8),
    "pipeline 2, tensor 2": (4, "{kind: ddp, pipeline: 2, tensor: 2}", 8),
}
# What the dry run adds for the context and the allocator is not in its peak.
OVERHEAD = 900 * 2**20 + 139 * 2**30 / 50


def planned(trainctl, config, world, *options):
    command = [trainctl, "plan", config, "--device", "h200", "--world", str(world), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=float, default=25)
    parser.add_argument("--trainctl", default=os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
    arguments = parser.parse_args()
    differences = []
    print("| model | layout | recomputation | dry run GiB | simulator GiB | difference |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "memory.yaml"
        for model, (length, text) in MODELS.items():
            for name, (world, distributed, steps) in LAYOUTS.items():
                for kind in ("none", "selective_op", "full"):
                    config.write_text(EXPERIMENT.replace("SEQ", str(length)).replace("MODEL", text) +
                                      f"distributed: {distributed}\naccumulation: {{steps: {steps}}}\nactivation_checkpointing: {kind}\n")
                    memory = planned(arguments.trainctl, config, world)["memory"]
                    dry = OVERHEAD + max([memory["peak_bytes"]] + [rank["peak_bytes"] for rank in memory["pipeline_ranks"]])
                    own = planned(arguments.trainctl, config, world, "--nodes-of", "8")["own"]["memory_bytes"]["total"]
                    differences.append(100 * (own / dry - 1))
                    print(f"| {model} | {name} | {kind} | {dry / 2**30:.1f} | {own / 2**30:.1f} | {differences[-1]:+.1f} % |", flush=True)
    sizes = [abs(value) for value in differences]
    print(f"\nmedian size {statistics.median(sizes):.1f} %, most {max(sizes):.1f} %, median {statistics.median(differences):+.1f} %")
    sys.exit(max(sizes) > arguments.most)


if __name__ == "__main__":
    main()
