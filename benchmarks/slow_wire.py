#!/usr/bin/env python3
"""How much of the communication DDP hides behind the backward pass: two nodes (network namespaces, a rank each, one thread) over a
wire that a token bucket makes slow. Needs root. Prints a Markdown table; exit 1 where a step takes over 1.15 x max(compute, communication).

  slow_wire.py [--rates 350 700 1400] [--rounds 3] [--steps 8] [--bucket-mib 2] [--trainctl PATH] [--json FILE]

Each round runs, for every rate, four jobs in turn and takes the median of their steps:
  compute        the ranks train without each other (distributed.kind: none), at the same time
  communication  the same gradients, of a hundredth of the samples' tokens
  no overlap     one bucket: all gradients are sent when the backward pass is done
  ddp            buckets, sent while the backward pass goes on
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests/acceptance"))
from nodes import Nodes, may_make_namespaces  # noqa: E402

BOUND = 1.15
EXPERIMENT = """\
name: slow-wire
device: {{kind: cpu, num_threads: 1}}
dataset: {{kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: {length}, vocab_size: 256, batch_size: {batch}}}
model: {{kind: gpt2, hidden_size: 384, num_layers: 6, num_heads: 6, max_position_embeddings: 128, dropout: 0, attention_dropout: 0}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 1e-4, lr_scheduler: {{kind: constant}}}}
train: {{steps: {steps}, log_every: 1}}
distributed: {distributed}
checkpoint: {{every: 100000}}
"""
JOBS = {
    "compute": dict(length=128, batch=8, distributed="{{kind: none}}"),
    "communication": dict(length=8, batch=1, distributed="{{kind: ddp, bucket_mib: {bucket}}}"),
    "no overlap": dict(length=128, batch=8, distributed="{{kind: ddp, bucket_mib: 100000}}"),
    "ddp": dict(length=128, batch=8, distributed="{{kind: ddp, bucket_mib: {bucket}}}"),
}


def run_job(nodes, options, job, directory):
    """Milliseconds of a step, and rank 0's last record."""
    settings = dict(JOBS[job])
    settings["distributed"] = settings["distributed"].format(bucket=options.bucket_mib)
    config = pathlib.Path(directory) / "experiment.yaml"
    config.write_text(EXPERIMENT.format(**settings, steps=options.steps + 3))
    run_directory = tempfile.mkdtemp(dir=directory)
    processes = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.98.76.1",
               "MASTER_PORT": "29513", "OMP_NUM_THREADS": "1"}
        own = pathlib.Path(run_directory) / (str(rank) if job == "compute" else "")
        processes.append(nodes.start(rank, ["taskset", "-c", rank % os.cpu_count(), options.trainctl, "train", config, "--run-dir", own,
                                            "--no-progress", "--resume", "never"], env))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{job} failed:\n" + "\n".join(outputs))
    records = (pathlib.Path(run_directory) / ("0" if job == "compute" else "") / "metrics.jsonl").read_text().splitlines()
    steps = [record for record in map(json.loads, records) if record["event"] == "step"][3:]
    middle = {key: statistics.median(step[key] for step in steps) for key in ("step_ms", "communication_ms", "exposed_communication_ms")
              if key in steps[0]}
    return middle


def measure(options):
    """rate -> job -> list of results."""
    results = {rate: {job: [] for job in JOBS} for rate in options.rates}
    with tempfile.TemporaryDirectory() as directory, Nodes() as nodes:
        for round_ in range(options.rounds):
            for rate in options.rates:
                nodes.limit_rate(rate)
                for job in JOBS:
                    result = run_job(nodes, options, job, directory)
                    results[rate][job].append(result)
                    print(f"round {round_ + 1}, {rate} Mbit/s, {job}: {result['step_ms']:.0f} ms", file=sys.stderr)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[350, 700, 1400], help="Mbit/s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--bucket-mib", type=float, default=2)
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not may_make_namespaces():
        sys.exit("slow_wire.py makes network namespaces: it needs root and iproute2")
    results = measure(options)
    print("| wire, Mbit/s | compute ms | communication ms | no overlap ms | ddp ms | ddp / max(compute, communication) | hidden |\n|" + " --- |" * 7)
    worst = 0
    for rate, jobs in results.items():
        ms = {job: statistics.median(r["step_ms"] for r in rounds) for job, rounds in jobs.items()}
        ratio = ms["ddp"] / max(ms["compute"], ms["communication"])
        worst = max(worst, ratio)
        busy, exposed = (statistics.median(r[key] for r in jobs["ddp"]) for key in ("communication_ms", "exposed_communication_ms"))
        print(f"| {rate} | {ms['compute']:.0f} | {ms['communication']:.0f} | {ms['no overlap']:.0f} | {ms['ddp']:.0f} | **{ratio:.2f}** | "
              f"{100 * (1 - exposed / busy):.0f} % of {busy:.0f} ms |")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(worst > BOUND)


if __name__ == "__main__":
    main()
