"""What activation checkpointing costs and saves: the same steps with each kind in turn, several rounds, best of each.

  python3 benchmarks/compare_checkpointing.py CONFIG [--steps 6] [--rounds 3] [--set KEY=VALUE …]
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("none", "full", "{kind: every_n, n: 2}", "selective_op", "sqrt", "{kind: none, storage_dtype: bf16}", "{kind: full, storage_dtype: bf16}")


def measure(config, kind, steps, settings):
    with tempfile.TemporaryDirectory() as directory:
        arguments = [os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"), "train", config, "--run-dir", f"{directory}/run", "--json"]
        for setting in (f"activation_checkpointing={kind}", f"train={{steps: {steps}, log_every: 1}}", "checkpoint={every: 0}", *settings):
            arguments += ["--set", setting]
        result = subprocess.run(arguments, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(result.stderr)
        return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    best = {}
    for _ in range(options.rounds):
        for kind in KINDS:
            summary = measure(options.config, kind, options.steps, options.set)
            before = best.get(kind, (1e30, 0))
            best[kind] = (min(before[0], summary["median_step_ms"]), summary["peak_memory_mib"])
    print(f"{'kind':40} {'step ms':>9} {'time':>7} {'peak MiB':>9}")
    for kind, (milliseconds, memory) in best.items():
        print(f"{kind:40} {milliseconds:9.1f} {milliseconds / best['none'][0]:6.2f}x {memory:9.0f}")


if __name__ == "__main__":
    main()
