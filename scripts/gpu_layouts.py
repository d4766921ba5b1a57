"""gpu_check.py's stage of several ranks: each layout's losses against those of one process."""
import json
import math

LAYOUTS_EXPERIMENT = """\
name: layouts
seed: 1
dataset: {{kind: synthetic_tokens, num_samples: 512, num_eval_samples: 0, seq_len: 64, vocab_size: 512, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 128, num_layers: 6, num_heads: 8}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 1e-3, clip_norm: 1.0}}
accumulation: {{steps: 4}}
train: {{steps: 10, log_every: 1}}
tracking: {{tensorboard: false}}
distributed: {distributed}
"""
# Ranks, those of them with different samples, and the layout.
LAYOUTS = (
    (2, 2, "{kind: ddp}"),
    (2, 2, "{kind: zero, stage: 3}"),
    (2, 1, "{kind: ddp, tensor: 2}"),
    (2, 1, "{kind: ddp, tensor: 2, sequence_parallel: true}"),
    (2, 1, "{kind: ddp, context: 2}"),
    (2, 1, "{kind: ddp, pipeline: 2}"),
    (2, 1, "{kind: ddp, pipeline: 2, pipeline_schedule: interleaved_1f1b}"),
    (2, 1, "{kind: ddp, pipeline: 2, pipeline_schedule: zbv}"),
    (4, 1, "{kind: ddp, tensor: 2, pipeline: 2}"),
    (8, 2, "{kind: zero, stage: 1, tensor: 2, pipeline: 2}"),
)


def losses(run_directory):
    records = [json.loads(line) for line in (run_directory / "metrics.jsonl").read_text().splitlines()]
    return {record["step"]: record["loss"] for record in records if record["event"] == "step"}


def num_gpus(check):
    listed = check.run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", limit=60)
    return len(listed.stdout.strip().splitlines()) if listed.returncode == 0 else 0


def check_layouts(check, scratch):
    have = 4 if check.device == "cpu" else num_gpus(check)
    check.heading(f"Layouts of several ranks over {'Gloo' if check.device == 'cpu' else 'NCCL'} against one process, in fp32")
    if have < 2:
        check.text.append("Not run: there is one GPU, and two ranks of NCCL can't share it.")
        return

    def train(name, batch, distributed, *options):
        config = scratch / f"{name}.yaml"
        config.write_text(LAYOUTS_EXPERIMENT.format(batch=batch, distributed=distributed) + f"device: {{kind: {check.device}}}\n")
        return check.run(check.bin / "trainctl", "train", config, "--run-dir", scratch / name, "--no-progress", *options)

    reference = train("layout-alone", 8, "{kind: none}")
    if check.outcome("layouts: one process", reference.returncode == 0, reference) != "pass":
        return
    want = losses(scratch / "layout-alone")

    def compare(ranks, layout, name, process):
        found = losses(scratch / name) if process.returncode == 0 else {}
        worst = max(abs(found.get(step, math.inf) - loss) / loss for step, loss in want.items())
        check.row(ranks, f"`{layout}`", f"{worst:.1e}", 1e-4, check.outcome(f"layout {layout}", worst <= 1e-4, process))

    check.table("ranks", "distributed", "largest relative difference", "allowed", "result")
    for number, (ranks, copies, distributed) in enumerate(LAYOUTS):
        if ranks > have:
            check.row(ranks, f"`{distributed}`", "", "", f"not run: {have} GPUs")
            continue
        compare(ranks, distributed, f"layout-{number}", train(f"layout-{number}", 8 // copies, distributed, "--nproc", ranks))
    by_hand = "model.placement=[{layers: mlp, device: 1}]"
    compare(1, by_hand, "layout-by-hand", train("layout-by-hand", 8, "{kind: none}", "--set", by_hand))
