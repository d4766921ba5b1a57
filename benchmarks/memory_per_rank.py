#!/usr/bin/env python3
"""What each rank's tensors take with every way of sharing the work, against formulas: GPT-2 (124 M parameters) in fp32 with adamw.

  memory_per_rank.py [--nproc 2 4] [--layouts ddp stage1 stage2 stage3 …] [--steps 3] [--length 64] [--layers 12] [--json FILE] [--set KEY=VALUE …]

`kept` is what lies in the allocator between two steps, `peak` the most that did up to the last step, the start included (memory_by_rank in
summary.json; the worst rank is shown). Fails where what is kept is more than 5 % from the formula or from the plan, or where the peak of stage 1 isn't below
that of ddp, stage 2's below stage 1's, and stage 3's below stage 2's. Two processes take 5 GB at most, four 10 GB.
"""
import argparse
import collections.abc
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20

WIDTH, VOCABULARY, POSITIONS = 768, 50257, 1024


@dataclasses.dataclass(frozen=True)
class Layout:
    """How it is asked for, the parts of each layer, the blocks of each stage, and the bytes kept per parameter where n ranks have the same part."""
    how: str
    bytes: collections.abc.Callable
    tensor: int = 1
    stages: collections.abc.Callable = lambda layers: [layers]

    def kept(self, num_ranks, layers):
        """Bytes on the rank that keeps most. The last stage borrows the embeddings of the first as its head: without gradients and state."""
        stages = self.stages(layers)
        same = num_ranks // self.tensor // len(stages)
        def of_stage(number):
            block = 12 * WIDTH**2 // self.tensor + 7 * WIDTH // self.tensor + 6 * WIDTH  # of which two biases and two norms are whole
            count = block * stages[number]
            count += (VOCABULARY // self.tensor + POSITIONS) * WIDTH if number == 0 else 0
            count += 2 * WIDTH if number == len(stages) - 1 else 0
            borrowed = 4 * VOCABULARY // self.tensor * WIDTH if 0 < number == len(stages) - 1 else 0
            return count * self.bytes(same) + borrowed
        return max(map(of_stage, range(len(stages))))


def evenly(parts):
    return lambda layers: [layers // parts] * parts


LAYOUTS = {
    "ddp": Layout("{kind: ddp}", lambda n: 16),
    "stage1": Layout("{kind: zero, stage: 1}", lambda n: 8 + 8 / n),
    "stage2": Layout("{kind: zero, stage: 2}", lambda n: 4 + 8 / n),
    "stage3": Layout("{kind: zero, stage: 3}", lambda n: 12 / n),
    "stage3+disk": Layout("{kind: zero, stage: 3, offload: {optimizer: disk, path: DIRECTORY}}", lambda n: 4 / n),
    "stage3+disk+parameters": Layout("{kind: zero, stage: 3, offload: {optimizer: disk, parameters: disk, path: DIRECTORY}}", lambda n: 0),
    # Of four ranks. A part that no other rank has keeps no gradients between two steps.
    "tensor4": Layout("{kind: ddp, tensor: 4}", lambda n: 12, tensor=4),
    "tensor4+tokens": Layout("{kind: ddp, tensor: 4, sequence_parallel: true}", lambda n: 12, tensor=4),
    "tensor2+ddp2": Layout("{kind: ddp, tensor: 2}", lambda n: 16, tensor=2),
    "tensor2+stage3": Layout("{kind: zero, stage: 3, tensor: 2}", lambda n: 12 / n, tensor=2),
    "pipeline4": Layout("{kind: ddp, pipeline: 4, pipeline_split: {kind: by_hand, blocks: STAGES}}", lambda n: 12, stages=evenly(4)),
    "tensor2+pipeline2": Layout("{kind: ddp, tensor: 2, pipeline: 2, pipeline_split: {kind: by_hand, blocks: STAGES}}", lambda n: 12, 2, evenly(2)),
    "pipeline2+stage1": Layout("{kind: zero, stage: 1, pipeline: 2, pipeline_split: {kind: by_hand, blocks: STAGES}}", lambda n: 8 + 8 / n,
                               stages=evenly(2)),
    "context4": Layout("{kind: ddp, context: 4}", lambda n: 16),
    "context2+stage2": Layout("{kind: zero, stage: 2, context: 2}", lambda n: 4 + 8 / n),
}
OF_FOUR = [name for name, layout in LAYOUTS.items() if re.search("tensor|pipeline|context", layout.how)]
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


def plan(options, config, how, nproc):
    """MiB that `trainctl plan` says are kept by the rank that keeps most; None for state on a disk, which it doesn't predict."""
    if "disk" in how:
        return None
    done = subprocess.run([options.trainctl, "plan", config, "--world", str(nproc), "--json", "--set", f"distributed={how}"],
                          check=True, capture_output=True, text=True)
    memory = json.loads(done.stdout)["memory"]
    return max(rank["kept_bytes"] for rank in memory["pipeline_ranks"] or [memory]) / MIB


def measure(options, layout, nproc):
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory) / "memory.yaml"
        config.write_text(CONFIG.format(length=options.length, layers=options.layers, steps=options.steps))
        stages = LAYOUTS[layout].stages(options.layers)
        blocks = [layers + (number == 0) + (number == len(stages) - 1) for number, layers in enumerate(stages)]  # with embeddings and head
        how = LAYOUTS[layout].how.replace("DIRECTORY", f"{directory}/offload").replace("STAGES", str(blocks))
        command = [options.trainctl, "train", config, "--nproc", str(nproc), "--run-dir", f"{directory}/run", "--no-progress", "--log-level", "warning",
                   "--set", f"distributed={how}"]
        for value in options.set:
            command += ["--set", value]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        planned = plan(options, config, how, nproc)
        summary = json.loads((pathlib.Path(directory) / "run/summary.json").read_text())
    ranks = summary["memory_by_rank"]
    assert len(ranks) == nproc
    return {"layout": layout, "ranks": nproc, "parameters": summary["num_parameters"], "allocated_mib": max(rank["allocated_mib"] for rank in ranks),
            "peak_mib": max(rank["peak_mib"] for rank in ranks), "planned_mib": planned, "formula_mib": LAYOUTS[layout].kept(nproc, options.layers) / MIB,
            "median_step_ms": summary["median_step_ms"]}


def problems_of(results):
    found = []
    for result in results:
        # What is held beside the state (samples, losses, buffers) counts where the formula says nothing is kept.
        if abs(result["allocated_mib"] - result["formula_mib"]) > max(0.05 * result["formula_mib"], 16):
            found.append(f"{result['layout']} on {result['ranks']} ranks keeps {result['allocated_mib']:.0f} MiB, not {result['formula_mib']:.0f}")
        if result["planned_mib"] is not None and abs(result["planned_mib"] - result["allocated_mib"]) > 0.05 * result["allocated_mib"]:
            found.append(f"{result['layout']} on {result['ranks']} ranks keeps {result['allocated_mib']:.0f} MiB, and the plan says {result['planned_mib']:.0f}")
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
    print("| ranks | layout | kept MiB | formula | plan | peak MiB | step ms |\n| --- | --- | --- | --- | --- | --- | --- |")
    for nproc in options.nproc:
        for layout in options.layouts:
            if layout in OF_FOUR and nproc != 4:
                continue
            results.append(measure(options, layout, nproc))
            print("| {ranks} | {layout} | {allocated_mib:.0f} | {formula_mib:.0f} | {plan} | {peak_mib:.0f} | {median_step_ms:.0f} |".format(
                plan="–" if results[-1]["planned_mib"] is None else f"{results[-1]['planned_mib']:.0f}", **results[-1]), flush=True)
    print(f"\n{results[0]['parameters'] / 1e6:.1f} M parameters")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    problems = problems_of(results)
    if problems:
        sys.exit("memory_per_rank: " + "; ".join(problems))


if __name__ == "__main__":
    main()
