#!/usr/bin/env python3
"""What each rank's tensors take with every way of sharing the work, against ZeRO's formulas: GPT-2 (124 M parameters) in fp32 with adamw.

  memory_per_rank.py [--nproc 2 4] [--layouts ddp stage1 stage2 stage3 …] [--steps 3] [--length 64] [--layers 12] [--json FILE] [--set KEY=VALUE …]

`kept` is what lies in the allocator between two steps, `peak` the most that did up to the last step, the start included (memory_by_rank in
summary.json; the worst rank is shown). Fails where what is kept is more than 5 % from the formula, or where the peak of stage 1 isn't below
that of ddp, stage 2's below stage 1's, and stage 3's below stage 2's. Two processes take 5 GB at most, four 10 GB.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20

# How a layout is asked for, and bytes kept for each parameter on each of n ranks.
LAYOUTS = {
    "ddp": ("{kind: ddp}", lambda n: 16),
    "stage1": ("{kind: zero, stage: 1}", lambda n: 8 + 8 / n),
    "stage2": ("{kind: zero, stage: 2}", lambda n: 4 + 8 / n),
    "stage3": ("{kind: zero, stage: 3}", lambda n: 12 / n),
    "stage3+disk": ("{kind: zero, stage: 3, offload: {optimizer: disk, path: DIRECTORY}}", lambda n: 4 / n),
    "stage3+disk+parameters": ("{kind: zero, stage: 3, offload: {optimizer: disk, parameters: disk, path: DIRECTORY}}", lambda n: 0),
}
ORDER = ("ddp", "stage1", "stage2", "stage3")

CONFIG = """name: memory
device: {{kind: cpu}}
dataset: {{kind: synthetic_tokens, num_samples: 256, num_eval_samples: 0, seq_len: {length}, vocab_size: 50257, batch_size: 1}}
model: {{kind: gpt2, hidden_size: 768, num_layers: {layers}, num_heads: 12, max_position_embeddings: 1024}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 1e-4, clip_norm: 1.0}}
train: {{steps: {steps}, log_every: 1}}
checkpoint: {{every: 0}}
"""


def measure(options, layout, nproc):
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "memory.yaml"
        config.write_text(CONFIG.format(length=options.length, layers=options.layers, steps=options.steps))
        how = LAYOUTS[layout][0].replace("DIRECTORY", f"{directory}/offload")
        command = [options.trainctl, "train", config, "--nproc", str(nproc), "--run-dir", f"{directory}/run", "--no-progress", "--log-level", "warning",
                   "--set", f"distributed={how}"]
        for value in options.set:
            command += ["--set", value]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((pathlib.Path(directory) / "run/summary.json").read_text())
    ranks = summary["memory_by_rank"]
    assert len(ranks) == nproc
    return {"layout": layout, "ranks": nproc, "parameters": summary["num_parameters"], "allocated_mib": max(rank["allocated_mib"] for rank in ranks),
            "peak_mib": max(rank["peak_mib"] for rank in ranks), "formula_mib": LAYOUTS[layout][1](nproc) * summary["num_parameters"] / MIB,
            "median_step_ms": summary["median_step_ms"]}


def problems_of(results):
    found = []
    for result in results:
        # What is held beside the state (samples, losses, buffers) counts where the formula says nothing is kept.
        if abs(result["allocated_mib"] - result["formula_mib"]) > max(0.05 * result["formula_mib"], 16):
            found.append(f"{result['layout']} on {result['ranks']} ranks keeps {result['allocated_mib']:.0f} MiB, not {result['formula_mib']:.0f}")
    for nproc in {result["ranks"] for result in results}:
        peaks = {result["layout"]: result["peak_mib"] for result in results if result["ranks"] == nproc}
        stages = [layout for layout in ORDER if layout in peaks]
        for more, less in zip(stages, stages[1:]):
            if peaks[less] >= peaks[more]:
                found.append(f"on {nproc} ranks {less} peaks at {peaks[less]:.0f} MiB, not below {more}'s {peaks[more]:.0f}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--trainctl", default=os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
    options = parser.parse_args()
    results = []
    print("| ranks | layout | kept MiB | formula | peak MiB | step ms |\n| --- | --- | --- | --- | --- | --- |")
    for nproc in options.nproc:
        for layout in options.layouts:
            results.append(measure(options, layout, nproc))
            print("| {ranks} | {layout} | {allocated_mib:.0f} | {formula_mib:.0f} | {peak_mib:.0f} | {median_step_ms:.0f} |".format(**results[-1]), flush=True)
    print(f"\n{results[0]['parameters'] / 1e6:.1f} M parameters")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    problems = problems_of(results)
    if problems:
        sys.exit("memory_per_rank: " + "; ".join(problems))


if __name__ == "__main__":
    main()
