#!/usr/bin/env python3
"""trainctl's training step against stock PyTorch's, interleaved in one run (A B C A B C ...): a Markdown table.

  compare_step.py [--workload demo_cnn fmnist_cnn resnet18 resnet50 cifar_resnet18 vit lstm bert gpt2 llama] [--rounds 5] [--threads N] [--peers eager tuned compile max-autotune trainer]
                  [--device cpu|cuda] [--precision fp32|tf32|bf16|fp16] [--trainctl PATH] [--python PATH] [--json FILE]

Each side runs as a process of its own, with the same model, batch, optimizer, precision and threads. trainctl runs whole:
its loader, log and metrics are in the figure; the peer's batch lies ready in memory. max-autotune and trainer (transformers' Trainer, of its own
models alone) keep freed memory, as tuned does. Milliseconds are the median over rounds
of each round's median step; a ratio over 1 says that trainctl is faster. Peak memory is the process's peak RSS.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CNN_DATA = "kind: synthetic_images, channels: 1, height: 28, width: 28, num_classes: 10, num_samples: 16384"
CIFAR_DATA = "kind: synthetic_images, height: 32, width: 32, num_classes: 10, num_samples: 4096"
PHOTO_DATA = "kind: synthetic_images, num_samples: 512"
TOKEN_DATA = "kind: synthetic_tokens, num_samples: 4096, seq_len: 128, vocab_size: 30522"
TRANSFORMER = "hidden_size: 384, num_layers: 6, num_heads: 12"
NO_DROPOUT = "dropout: 0, attention_dropout: 0"

# workload: (batch, steps, dataset, model, task)
WORKLOADS = {
    "demo_cnn": (128, 150, CNN_DATA, "{kind: cnn, channels: [16, 32], hidden: 128, dropout: 0.2}", "classification"),
    "fmnist_cnn": (128, 25, CNN_DATA, "{kind: cnn, channels: [32, 64, 128], num_pools: 2, batch_norm: true, hidden: 256, dropout: 0.3}", "classification"),
    "resnet18": (32, 8, PHOTO_DATA, "{kind: resnet18}", "classification"),
    "resnet50": (16, 6, PHOTO_DATA, "{kind: resnet50}", "classification"),
    "cifar_resnet18": (64, 8, CIFAR_DATA, "{kind: resnet18, stem: cifar}", "classification"),
    "vit": (16, 10, PHOTO_DATA, "{kind: vit, " + TRANSFORMER + ", intermediate_size: 1536}", "classification"),
    "lstm": (8, 12, TOKEN_DATA, "{kind: lstm, hidden_size: 384, num_layers: 2, dropout: 0}", "causal_lm"),
    "bert": (8, 12, TOKEN_DATA + ", mask_probability: 0.15", "{kind: bert, head: masked_lm, " + TRANSFORMER + ", intermediate_size: 1536}", "masked_lm"),
    "gpt2": (8, 12, TOKEN_DATA, "{kind: gpt2, " + TRANSFORMER + ", " + NO_DROPOUT + "}", "causal_lm"),
    "llama": (8, 12, TOKEN_DATA, "{kind: llama, " + TRANSFORMER + ", intermediate_size: 1024}", "causal_lm"),
}
PEERS = ["eager", "tuned", "compile", "max-autotune", "trainer"]
TRAINER_WORKLOADS = ("vit", "bert", "gpt2", "llama")

EXPERIMENT = """\
name: compare-step
device: {{kind: {device}, num_threads: {threads}}}
dataset: {{{data}, num_eval_samples: 0, batch_size: {batch}}}
model: {model}
task: {{kind: {task}}}
optimizer: {{kind: adamw, lr: 1e-4, weight_decay: 0.01, lr_scheduler: {{kind: constant}}}}
amp: {{mode: {precision}}}
train: {{steps: {steps}, log_every: 1000}}
tracking: {{tensorboard: false}}
"""


def run(command, environment=None):
    """(standard output, peak RSS in MiB) of a process. The environment is our own without another."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0), errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\nfailed with {process.returncode}:\n{errors.read().decode()[-3000:]}")
        return output.read().decode(), usage.ru_maxrss // 1024


def train(config, trainctl, directory, sets=(), environment=None):
    """What a run says of its steps and memory."""
    run_dir = tempfile.mkdtemp(dir=directory)
    _, rss = run([trainctl, "train", config, "--run-dir", run_dir, "--resume", "never", "--no-progress", "--log-level", "warning",
                  *(word for key in sets for word in ("--set", key))], environment)
    summary = json.loads((pathlib.Path(run_dir) / "summary.json").read_text())
    return {"step_ms": summary["median_step_ms"], "peak_rss_mib": rss, "peak_device_mib": summary["peak_memory_mib"],
            "data_wait_share": summary["data_wait_share"]}


def run_trainctl(workload, options, directory, sets=(), environment=None):
    batch, steps, data, model, task = WORKLOADS[workload]
    config = pathlib.Path(directory) / f"{workload}.yaml"
    config.write_text(EXPERIMENT.format(
        device=options.device, threads=options.threads, data=data, batch=batch, model=model, task=task, precision=options.precision,
        steps=max(2, round(steps * options.scale)) + options.warmup))
    return train(config, options.trainctl, directory, sets, environment)


def run_peer(workload, peer, options):
    batch, steps, *_ = WORKLOADS[workload]
    mode = {"eager": [], "tuned": ["--tuned"], "compile": ["--mode", "compile"]}.get(peer, ["--mode", peer, "--tuned"])
    text, rss = run([options.python, HERE / "step.py", "--workload", workload, "--batch", batch, "--device", options.device,
                     "--steps", max(2, round(steps * options.scale)), "--warmup", options.warmup, "--precision", options.precision,
                     "--threads", options.threads, *mode])
    result = json.loads(text.strip().splitlines()[-1])
    return {"step_ms": result["step_ms"], "peak_rss_mib": rss, "peak_device_mib": result["peak_cuda_mib"]}


def measure(workload, options, directory):
    """side -> list of results, one a round; the order turns by one side each round."""
    sides = ["trainctl", *(peer for peer in options.peers if peer != "trainer" or workload in TRAINER_WORKLOADS)]
    results = {side: [] for side in sides}
    for round_ in range(options.rounds):
        turn = round_ % len(sides)
        for side in sides[turn:] + sides[:turn]:
            result = run_trainctl(workload, options, directory) if side == "trainctl" else run_peer(workload, side, options)
            results[side].append(result)
            print(f"{workload} round {round_ + 1} {side}: {result['step_ms']:.2f} ms", file=sys.stderr)
    return results


def median(results, key):
    return statistics.median(result[key] for result in results)


def spread(results):
    values = [result["step_ms"] for result in results]
    digits = 2 if min(values) < 100 else 0
    return f"{median(results, 'step_ms'):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(measured, options):
    """One row a workload."""
    memory = "peak_device_mib" if options.device == "cuda" else "peak_rss_mib"
    head = ["workload", "batch", "trainctl ms (range)", *(f"{p} ms (range)" for p in options.peers), *(f"{p} / trainctl" for p in options.peers),
            "peak MiB: trainctl", *(p for p in options.peers), "data wait"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for workload, results in measured.items():
        ours = results["trainctl"]
        cells = [workload, str(WORKLOADS[workload][0]), spread(ours), *(spread(results[p]) if p in results else "" for p in options.peers),
                 *(f"**{median(results[p], 'step_ms') / median(ours, 'step_ms'):.2f}×**" if p in results else "" for p in options.peers),
                 f"{median(ours, memory):.0f}", *(f"{median(results[p], memory):.0f}" if p in results else "" for p in options.peers),
                 f"{100 * median(ours, 'data_wait_share'):.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def first_existing(*paths):
    return next((path for path in paths if path.exists()), paths[-1])


def add_program_options(parser):
    """What all comparisons let one choose of the two programs, and of where the figures go."""
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--python", type=pathlib.Path, default=first_existing(ROOT / ".deps/python/bin/python3", pathlib.Path(sys.executable)))
    parser.add_argument("--json", type=pathlib.Path, help="also write every round's figures here")


def options_of_rounds(description, workloads):
    """The options of a comparison in interleaved rounds, beginning with these workloads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), default=workloads)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1, help="multiplies the steps of each round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser


def read_options():
    parser = options_of_rounds(__doc__, ["demo_cnn", "fmnist_cnn", "resnet18"])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=["eager", "tuned"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    add_program_options(parser)
    return parser.parse_args()


def main():
    options = read_options()
    with tempfile.TemporaryDirectory() as directory:
        measured = {workload: measure(workload, options, directory) for workload in options.workload}
    print(f"{options.device}, {options.precision}, {options.threads} threads, {options.rounds} interleaved rounds\n")
    print(table(measured, options))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
