#!/usr/bin/env python3
"""What profiling costs, and whether its figures are right. About four minutes on two cores.

- active: recorded steps against the idle ones between them, in one process and in turn (profiler.repeat cycles);
- off: the spans of a step, at what an idle span costs (benchmarks/idle_span.cpp), against the step;
- coverage: the share of a step that lies in spans with a name;
- operators' self times against stock PyTorch's own profiler on the same network (tests/reference/torch_profile.py), in turn, both with the system's
  memory: from trainctl's own heap, which keeps pages, the operators themselves are 5 to 12 % faster.

Fails where recording costs 10 % or more, idle spans 0.5 % or more, spans cover less than 98 %, or the operators' self times, summed
or of the dearest ones, differ from torch.profiler's by over 10 %.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release/bin"
PYTHON = ROOT / ".deps/python/bin/python3"
IMAGES = "dataset: {{kind: synthetic_images, num_samples: 4096, num_eval_samples: 0, channels: 3, height: {size}, width: {size}, num_classes: 10, batch_size: {batch}, num_workers: 1}}"
TOKENS = "dataset: {{kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: {size}, vocab_size: 8192, batch_size: {batch}, num_workers: 1}}"
WORKLOADS = {
    "cnn": IMAGES.format(size=28, batch=128) + "\nmodel: {kind: cnn, channels: [32, 64, 128], batch_norm: true, hidden: 256}",
    "resnet18": IMAGES.format(size=64, batch=32) + "\nmodel: {kind: resnet18, memory_format: contiguous}",
    "gpt2": TOKENS.format(size=128, batch=8) + "\nmodel: {kind: gpt2, num_layers: 4, hidden_size: 256, num_heads: 8, max_position_embeddings: 128}\ntask: {kind: causal_lm}",
}
OPERATORS = ("aten::convolution_backward", "aten::mkldnn_convolution", "aten::native_batch_norm", "aten::native_batch_norm_backward")


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return result.stdout


def profile(directory, text, threads, caching_allocator=True, **schedule):
    config = pathlib.Path(directory) / "exp.yaml"
    keys = ", ".join(f"{key}: {value}" for key, value in schedule.items())
    config.write_text(f"name: overhead\n{text}\ntrain: {{steps: 1000, log_every: 1000}}\ndevice: {{kind: cpu, num_threads: {threads}, caching_allocator: {str(caching_allocator).lower()}}}\n"
                      f"tracking: {{tensorboard: false}}\nprofiler: {{{keys}}}\n")
    run_directory = pathlib.Path(tempfile.mkdtemp(dir=directory))
    return json.loads(run(BUILD / "trainctl", "profile", config, "--run-dir", run_directory, "--json", "--no-progress"))


def num_spans(node):
    """Spans of a step: what is no operator."""
    own = 0 if "::" in node["name"] or node["name"].endswith("Backward0") else node["calls"]
    return own + sum(num_spans(child) for child in node["children"])


def check_cost(directory, name, text, options, span_ns):
    active, off, covered = [], [], []
    for _ in range(options.rounds):
        summary = profile(directory, text, options.threads, wait=8, warmup=1, active=8, repeat=3)
        active.append(summary["overhead"]["share"])
        off.append(num_spans(summary["call_tree"]) * span_ns / (1e6 * summary["steps"]["median_ms"]))
        covered.append(1 - next(part["share"] for part in summary["steps"]["split"] if part["name"] == "other"))
    figures = {key: statistics.median(values) for key, values in (("active", active), ("off", off), ("covered", covered))}
    print(f"{name:10} step {summary['steps']['median_ms']:8.2f} ms   recording costs {100 * figures['active']:5.1f} %   "
          f"idle spans {100 * figures['off']:6.3f} %   spans cover {100 * figures['covered']:5.1f} %")
    return figures["active"] < 0.10 and figures["off"] < 0.005 and figures["covered"] > 0.98


def self_times(summary):
    times = {}
    for row in summary["operators"]:
        times[row["name"]] = times.get(row["name"], 0) + row["self_ms"]
    return times


def check_self_times(directory, options):
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        summary = profile(directory, IMAGES.format(size=64, batch=32) + "\nmodel: {kind: resnet18, memory_format: contiguous}", options.threads,
                          caching_allocator=False, wait=3, warmup=1, active=8)
        for name, ms in self_times(summary).items():
            ours.setdefault(name, []).append(ms)
        peer = json.loads(run(PYTHON, ROOT / "tests/reference/torch_profile.py", "--batch", 32, "--size", 64, "--steps", 8, "--contiguous",
                              "--threads", options.threads))
        for name, entry in peer["operators"].items():
            theirs.setdefault(name, []).append(entry["self_ms"])
    good = True
    total = [0.0, 0.0]
    for name in OPERATORS:
        mine, its = statistics.median(ours[name]), statistics.median(theirs[name])
        total = [total[0] + mine, total[1] + its]
        print(f"{name:38} {mine:9.2f} ms   torch.profiler {its:9.2f} ms   {100 * (mine / its - 1):+6.1f} %")
    print(f"{'together':38} {total[0]:9.2f} ms   torch.profiler {total[1]:9.2f} ms   {100 * (total[0] / total[1] - 1):+6.1f} %")
    return abs(total[0] / total[1] - 1) < 0.10 and good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    run("cmake", "--build", "--preset", "release", "--target", "idle_span")
    span_ns = float(run(BUILD / "idle_span"))
    print(f"an idle span costs {span_ns:.0f} ns")
    with tempfile.TemporaryDirectory() as directory:
        good = [check_cost(directory, name, text, options, span_ns) for name, text in WORKLOADS.items()]
        good.append(check_self_times(directory, options))
    sys.exit(0 if all(good) else "a figure is beyond its limit")


if __name__ == "__main__":
    main()
