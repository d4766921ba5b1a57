#!/usr/bin/env python3
"""Checks trainctl on a GPU and writes what it saw; see gpu_check.sh, which starts this.

Stages, dearest last: tests tagged [gpu]; fused operators against LibTorch's; the demo's network in each precision against the CPU's losses; resume on the GPU; layouts
of several GPUs over NCCL against one, where there are several; the demo itself where Fashion-MNIST is installed; steps recorded as a CUDA graph; memory as `plan` predicts it; what `profile` sees and costs; what was trained here
exported, quantized and asked on the CPU; the step against stock PyTorch; what strategies are worth on ResNet-50 and BERT.

The report is written again after each stage. A stage that fails by itself leaves its traceback there, and the next stage begins. What no longer
fits into --seconds is reported as not run.
"""
import argparse
import datetime
import json
import math
import pathlib
import sys
import tempfile
import time

from gpu_layouts import check_layouts, losses
from timed_check import Check

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_GPU = 3
STEPS = 30

EXPERIMENT = """\
name: gpu-check
seed: 1
dataset: {kind: synthetic_images, channels: 1, height: 28, width: 28, num_classes: 10, num_samples: 8192, num_eval_samples: 512, batch_size: 128}
model: {kind: cnn, channels: [16, 32], hidden: 128}
optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.01, clip_norm: 1.0, lr_scheduler: {kind: one_cycle}}
train: {steps: 30, log_every: 1}
checkpoint: {every: 10, keep_last: 5}
tracking: {tensorboard: false}
"""

# Largest relative difference from the CPU's fp32 loss over the first steps of training that counts as the same.
TOLERANCE = {"fp32": 2e-3, "tf32": 1e-2, "bf16": 5e-2, "fp16": 2e-2, "fp8": 1e-1}

RESNET50 = """\
name: resnet50
dataset: {{kind: synthetic_images, num_samples: 512, num_eval_samples: 0, height: {size}, width: {size}, batch_size: {batch}}}
model: {{kind: resnet50}}
train: {{steps: 100}}
"""
BERT = """\
name: bert
dataset: {{kind: synthetic_tokens, num_samples: 1024, num_eval_samples: 0, seq_len: {length}, vocab_size: 30522, mask_probability: 0.15, batch_size: {batch}}}
model: {{kind: bert, head: masked_lm, num_layers: {layers}}}
task: masked_lm
train: {{steps: 100}}
"""
GPT2 = """\
name: gpt2
dataset: {kind: synthetic_tokens, num_samples: 1024, num_eval_samples: 0, seq_len: 128, vocab_size: 8192, batch_size: 8}
model: {kind: gpt2, hidden_size: 384, num_layers: 6, num_heads: 12, dropout: 0, attention_dropout: 0}
task: causal_lm
optimizer: {kind: adamw, lr: 3e-4, clip_norm: 1.0}
train: {steps: 60, log_every: 1}
tracking: {tensorboard: false}
"""


def gpu_name(check):
    """The first GPU as the driver and PyTorch see it, or None."""
    smi = check.run("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader", limit=60)
    if smi.returncode != 0 or not smi.stdout.strip():
        return None
    usable = check.run(sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())", limit=120)
    return smi.stdout.strip().splitlines()[0] if usable.returncode == 0 else None


def check_tests(check):
    check.heading("Tests tagged [gpu]")
    check.table("tests", "cases", "result", "last line")
    rows = len(check.text)
    for test in sorted(check.bin.glob("test_*")):
        listed = check.run(test, "--list-test-names-only", "[gpu]", limit=60)  # exits with their number
        names = listed.stdout.splitlines()
        if listed.returncode == 0 and not names:
            continue
        if not names:
            check.row(test.name, "", check.outcome(test.name, False, listed), "lists no cases")
            continue
        result = check.run(test, "[gpu]", limit=max(60, 15 * len(names)))
        last = (result.stdout.strip().splitlines() or [result.stderr.strip() or "no output"])[-1]
        check.row(test.name, len(names), check.outcome(test.name, result.returncode == 0, result), last)
    if len(check.text) == rows:
        check.text.append(f"\nNot one in {check.bin}.")


def check_precisions(check, scratch, config):
    check.heading(f"{STEPS} steps of the demo's network: losses on the GPU against the CPU's in fp32")
    check.table("device", "precision", "first loss", "last loss", "largest relative difference", "allowed", "median step ms", "result")
    reference = check.train(scratch / "cpu", config, device__kind="cpu")
    check.outcome("cpu fp32", reference.returncode == 0, reference)
    if reference.returncode != 0:
        return
    want = losses(scratch / "cpu")
    for precision, allowed in TOLERANCE.items():
        if precision == "tf32" and check.device == "cpu":
            continue
        run_directory = scratch / precision
        process = check.train(run_directory, config, device__kind=check.device, amp__mode=precision)
        if process.returncode != 0:
            check.row(check.device, precision, "", "", "", allowed, "", check.outcome(f"{check.device} {precision}", False, process))
            continue
        have = losses(run_directory)
        worst = max(abs(have.get(step, math.inf) - loss) / loss for step, loss in want.items())
        summary = json.loads((run_directory / "summary.json").read_text())
        check.row(check.device, precision, f"{have[1]:.5f}", f"{have[STEPS]:.5f}", f"{worst:.1e}", allowed,
                  f"{summary['median_step_ms']:.3f}", check.outcome(f"{check.device} {precision}", worst <= allowed, process))


def check_resume(check, scratch, config):
    check.heading(f"Resume on the GPU: {STEPS} steps against {STEPS // 2}, a new process, {STEPS // 2}")
    check.table("precision", "largest relative difference after resuming", "bit-equal losses", "result")
    for precision in ("fp32", "fp16"):
        common = {"device__kind": check.device, "device__deterministic": "true", "amp__mode": precision, "optimizer__lr_scheduler__kind": "constant"}
        whole = check.train(scratch / f"whole-{precision}", config, **common)
        halves = scratch / f"halves-{precision}"
        first = check.train(halves, config, **common, train__steps=STEPS // 2)
        second = check.train(halves, config, **common, resume=halves)
        if any(process.returncode for process in (whole, first, second)):
            failed = next(process for process in (whole, first, second) if process.returncode)
            check.row(precision, "", "", check.outcome(f"resume {precision}", False, failed))
            continue
        want, have = losses(scratch / f"whole-{precision}"), losses(halves)
        later = range(STEPS // 2 + 1, STEPS + 1)
        worst = max(abs(have.get(step, math.inf) - want[step]) / want[step] for step in later)
        check.row(precision, f"{worst:.1e}", "yes" if worst == 0 else "no", check.outcome(f"resume {precision}", worst <= 1e-4))


def check_demo(check, scratch):
    check.heading("The demo on the GPU")
    if check.device == "cpu":
        check.text.append("Not run in a rehearsal: it takes minutes.")
        return
    if not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir():
        check.text.append("Not run: Debian's dataset-fashion-mnist is not installed on this machine.")
        return
    process = check.train(scratch / "demo", ROOT / "configs/fashion_mnist.yaml", device__kind=check.device)
    if check.outcome("demo", process.returncode == 0, process) != "pass":
        check.text.append("**FAIL**")
        return
    summary = json.loads((scratch / "demo/summary.json").read_text())
    check.text.append(f"Final metrics {json.dumps(summary['final_metrics'])}, {summary['wall_s']:.1f} s, {summary['samples_per_s']:.0f} samples/s.")


def check_kernels(check):
    check.heading("Fused operators against LibTorch's one after another (benchmarks/fused_kernels.cpp)")
    process = check.run(check.bin / "fused_kernels", *(["--gpu"] if check.device == "cuda" else []), limit=60)
    check.outcome("fused operators", process.returncode == 0, process)
    check.text.append(process.stdout if process.returncode == 0 else "**FAIL**\n")


def check_recorded(check, scratch, config):
    check.heading("A step recorded once (train.graph: whole_step)")
    check.table("network", "started, ms", "recorded, ms", "times as fast", "largest relative difference of losses", "result")
    gpt2 = scratch / "gpt2.yaml"
    gpt2.write_text(GPT2)
    for name, file in {"small CNN": config, "GPT-2, 6 layers of 384": gpt2}.items():
        runs, found = {}, {}
        for graph in ("none", "whole_step"):
            directory = scratch / f"{file.stem}-{graph}"
            runs[graph] = check.train(directory, file, device__kind=check.device, train__steps=60, train__graph=graph)
            if runs[graph].returncode == 0:
                found[graph] = json.loads((directory / "summary.json").read_text())["median_step_ms"], losses(directory)
        if check.device == "cpu":
            refused = runs["whole_step"].returncode == 2 and "device is cpu" in runs["whole_step"].stderr
            check.row(name, "", "", "", "refused on a CPU", check.outcome(f"graph {name}", refused, runs["whole_step"]))
            continue
        if len(found) < 2:
            check.row(name, *[""] * 4, check.outcome(f"graph {name}", False, runs["whole_step"]))
            continue
        (started, want), (recorded, have) = found["none"], found["whole_step"]
        worst = max(abs(have[step] - want[step]) / want[step] for step in range(1, 31))
        check.row(name, f"{started:.2f}", f"{recorded:.2f}", f"{started / recorded:.2f}", f"{worst:.1e}", check.outcome(f"graph {name}", worst <= 2e-3))


def check_speed(check, scratch):
    check.heading("The training step against stock PyTorch (benchmarks/compare_step.py)")
    gpu_runs = (("tf32", ["fmnist_cnn", "resnet50"]), ("bf16", ["resnet50"]))
    for precision, workloads in gpu_runs if check.device == "cuda" else (("fp32", ["demo_cnn"]),):
        check.need(60)
        process = check.run(sys.executable, ROOT / "benchmarks/compare_step.py", "--device", check.device, "--precision", precision, "--rounds", "3",
                            "--scale", "5" if check.device == "cuda" else "0.1", "--warmup", "20", "--peers", "eager", "--trainctl", check.bin / "trainctl",
                            "--python", sys.executable, "--workload", *workloads, limit=180)
        check.outcome(f"speed {precision}", process.returncode == 0, process)
        check.text.append(process.stdout if process.returncode == 0 else f"{precision}: **FAIL**\n")


def check_strategies(check, scratch):
    check.heading("What strategies are worth (trainctl compare --ablate)")
    small = check.device == "cpu"
    jobs = {
        "ResNet-50, 224²": (RESNET50.format(batch=2 if small else 64, size=32 if small else 224), "amp,channels_last,activation_checkpointing"),
        "BERT-base pretraining, 512 tokens": (BERT.format(batch=2 if small else 16, layers=2 if small else 12, length=32 if small else 512),
                                              "amp,accumulation,activation_checkpointing"),
    }
    for name, (text, strategies) in jobs.items():
        check.need(60)
        config = scratch / "strategies.yaml"
        config.write_text(text + f"device: {{kind: {check.device}}}\n")
        process = check.run(check.bin / "trainctl", "compare", config, "--ablate", strategies, "--steps", 2 if small else 15, "--warmup", 1 if small else 8,
                            "--rounds", 2, limit=150)
        check.outcome(name, process.returncode == 0, process)
        check.text.append(f"{name}:\n\n```\n{process.stdout}```\n" if process.returncode == 0 else f"{name}: **FAIL**\n")


def check_plan(check, scratch):
    check.heading("Peak memory: predicted by `trainctl plan`, measured by `trainctl train`")
    check.table("run", "predicted MiB", "measured MiB", "error", "allowed", "result")
    small = check.device == "cpu"
    jobs = {
        "ResNet-50": RESNET50.format(batch=2 if small else 64, size=32 if small else 224),
        "ResNet-50, bf16": RESNET50.format(batch=2 if small else 64, size=32 if small else 224) + "amp: {mode: bf16}\n",
        "BERT-base": BERT.format(batch=2 if small else 16, layers=2 if small else 12, length=32 if small else 512),
        "BERT-base, every block": BERT.format(batch=2 if small else 16, layers=2 if small else 12, length=32 if small else 512)
        + "activation_checkpointing: {kind: full}\n",
    }
    for name, text in jobs.items():
        config, directory = scratch / "plan.yaml", scratch / name.replace(" ", "-")
        config.write_text(text + f"device: {{kind: {check.device}}}\n")
        plan = check.run(check.bin / "trainctl", "plan", config, "--json", *(["--memory", "8"] if small else []))
        process = check.train(directory, config, train__steps=4)
        if plan.returncode or process.returncode:
            check.row(name, "", "", "", "", check.outcome(f"plan {name}", False, plan if plan.returncode else process))
            continue
        predicted = json.loads(plan.stdout)["memory"]["peak_bytes"] / 2**20
        measured = json.loads((directory / "summary.json").read_text())["memory_by_rank"][0]["peak_mib"]  # up to the last step: before the save
        error = predicted / measured - 1
        check.row(name, f"{predicted:.0f}", f"{measured:.0f}", f"{error:+.1%}", "15 %", check.outcome(f"plan {name}", abs(error) <= 0.15))


def check_profile(check, scratch):
    check.heading("What `trainctl profile` sees and costs")
    check.table("run", "step ms", "in named spans", "recording costs", "kernels", "trace MB", "report MB", "first finding", "result")
    small = check.device == "cpu"
    for precision in ("fp32", "bf16"):
        config, directory = scratch / "profile.yaml", scratch / f"profile-{precision}"
        config.write_text(RESNET50.format(batch=2 if small else 64, size=32 if small else 224)
                          + f"amp: {{mode: {precision}}}\ndevice: {{kind: {check.device}}}\nprofiler: {{wait: 8, warmup: 2, active: 8}}\n")
        process = check.run(check.bin / "trainctl", "profile", config, "--run-dir", directory, "--json", "--no-progress")
        if process.returncode:
            check.row(precision, *[""] * 7, check.outcome(f"profile {precision}", False, process))
            continue
        seen = json.loads(process.stdout)
        named = 1 - next((part["share"] for part in seen["steps"]["split"] if part["name"] == "other"), 0)
        cost = seen["overhead"]["share"] or 0
        pages = sum(page.stat().st_size for page in directory.rglob("report.html")) / 1e6
        good = named > 0.98 and 0 < pages < 5 and (small or (cost < 0.10 and len(seen["kernels"]) > 0))
        check.row(precision, f"{seen['steps']['median_ms']:.2f}", f"{named:.1%}", f"{cost:.1%}", len(seen["kernels"]),
                  f"{sum(trace['bytes'] for trace in seen['traces']) / 1e6:.1f}", f"{pages:.2f}",
                  seen["findings"][0]["what"] if seen["findings"] else "none", check.outcome(f"profile {precision}", good, process))


def check_hand_over(check, scratch, config):
    check.heading("Trained here, then exported and quantized")
    check.table("what", "result", "last line")
    run = scratch / "handed-over"
    steps = {
        "train": ("train", config, "--run-dir", run, "--no-progress", "--resume", "never", "--set", f"device.kind={check.device}"),
        "export torchscript": ("export", config, "--checkpoint", run, "--format", "torchscript", "--output", scratch / "model.pt", "--set", f"device.kind={check.device}"),
        "export onnx": ("export", config, "--checkpoint", run, "--format", "onnx", "--output", scratch / "model.onnx"),
        "quantize": ("quantize", config, "--checkpoint", run, "--method", "static", "--output", scratch / "int8", "--set", "device.kind=cpu"),
        "eval of the checkpoint": ("eval", config, "--checkpoint", run, "--set", f"device.kind={check.device}"),
        "eval of torchscript": ("eval", config, "--checkpoint", scratch / "model.pt", "--set", "device.kind=cpu"),
        "eval of onnx": ("eval", config, "--checkpoint", scratch / "model.onnx", "--set", "device.kind=cpu"),
        "eval of int8": ("eval", config, "--checkpoint", scratch / "int8", "--set", "device.kind=cpu"),
    }
    for name, command in steps.items():
        process = check.run(check.bin / "trainctl", *command)
        last = (process.stdout.strip() or process.stderr.strip() or "no output").splitlines()[-1]
        check.row(name, check.outcome(name, process.returncode == 0, process), last.replace("|", "\\|"))


def software(check):
    """The versions, as lines of the report."""
    torch = check.run(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())").stdout.split()
    version = check.run(check.bin / "trainctl", "--version").stdout.strip()
    return [f"- {version}, LibTorch {' / CUDA '.join(torch[:2])}, cuDNN {torch[-1] if torch else 'unknown'}"]


def report(check, about, seconds):
    result = f"**failed: {', '.join(check.failures)}**" if check.failures else "everything that ran passed" if check.unfinished else "everything passed"
    if check.unfinished:
        result += f"; not run, time over: {', '.join(check.unfinished)}"
    head = ["# What was seen on a GPU", "", "Written by scripts/gpu_check.sh; do not edit.", "", *about, f"- {seconds:.0f} s; {result}"]
    outputs = ["\n## The ends of what failed", *(f"\n{name}:\n\n```\n{output.strip()}\n```" for name, output in check.outputs)] if check.outputs else []
    return "\n".join(head + check.text + outputs) + "\n"


def stages(scratch):
    """The stages with their arguments, dearest last."""
    config = scratch / "check.yaml"
    config.write_text(EXPERIMENT)
    return ((check_tests,), (check_kernels,), (check_precisions, scratch, config), (check_resume, scratch, config), (check_layouts, scratch), (check_demo, scratch),
            (check_recorded, scratch, config), (check_plan, scratch), (check_profile, scratch), (check_hand_over, scratch, config), (check_speed, scratch),
            (check_strategies, scratch))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--output", type=pathlib.Path, help="a file, or a directory for gpu-results.md (default docs/)")
    parser.add_argument("--rehearse", action="store_true", help="every stage on the CPU, to see that this script works; writes only what --output names")
    options = parser.parse_args()
    check, start = Check(options), time.monotonic()
    if not (check.bin / "trainctl").exists():
        sys.exit(f"gpu_check: there is no {check.bin}/trainctl; build first, or name an installed prefix")
    gpu = "no GPU, a rehearsal" if options.rehearse else gpu_name(check)
    if gpu is None:
        print("gpu_check: NO USABLE GPU HERE: nothing was checked and nothing was written.", file=sys.stderr)
        sys.exit(NO_GPU)
    about = [f"- {datetime.date.today()}, {gpu} (name, driver, memory)", *software(check)]
    output = options.output or (None if options.rehearse else ROOT / "docs")
    if output is not None and output.suffix != ".md":
        output.mkdir(parents=True, exist_ok=True)
        output /= "gpu-results.md"
    with tempfile.TemporaryDirectory() as directory:
        for stage, *arguments in stages(pathlib.Path(directory)):
            check.stage(stage, *arguments)
            text = report(check, about, time.monotonic() - start)
            if output is not None:
                output.with_suffix(".new").write_text(text)
                output.with_suffix(".new").replace(output)
    print(text)
    sys.exit(bool(check.failures))


if __name__ == "__main__":
    main()
