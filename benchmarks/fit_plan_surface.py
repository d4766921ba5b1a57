#!/usr/bin/env python3
"""Fits the efficiency surface of src/cluster/kernels.yaml on measured single-node steps, and prints it as YAML.

  fit_plan_surface.py CSV [--steps 300] [--every 9] [--name a100] [--program build/release/bin/plan_cases]

CSV has a row for each step of Megatron-DeepSpeed in fp16 with full recomputation: `# layers`, `hidden size`, `attention heads`, `sequence
length`, `global batch`, `micro batch`, `tensor parallelism`, `pipeline parallelism`, `data parallelism`, `# GPUs`, `iteration time (ms)`.
Nelder-Mead minimizes the sum of |log error|^1.5 over every --every-th row, each constant within its bounds. The errors that it prints last
are those over all rows. Rows that are scored (plan_published.py) must not be among them.
"""
import argparse
import csv
import math
import pathlib
import statistics
import sys
import tempfile

import plan_published
import published_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: (first value, least, most)
CONSTANTS = {"clock_share": (1.0, 0.6, 1.02), "fixed_k": (40.0, 0.0, 400.0), "tile_128_efficiency": (0.85, 0.7, 1.0),
             "tile_64_efficiency": (0.6, 0.5, 1.0), "memory_efficiency": (0.85, 0.5, 0.92), "kernel_us": (5.0, 0.5, 10.0),
             "launch_us": (20.0, 1.0, 60.0), "optimizer_us": (1000.0, 0.0, 50000.0)}
FIXED = {"tile_32_efficiency": 0.5, "weight_gradient_efficiency": 0.93, "synchronization_us": 10.0}


def case_of(row):
    return published_rows.case_of({
        "source": "", "model": "GPT", "params": "", "layers": row["# layers"], "hidden": row["hidden size"], "heads": row["attention heads"],
        "seq": row["sequence length"], "global_batch": row["global batch"], "micro_batch": row["micro batch"], "tp": row["tensor parallelism"],
        "pp": row["pipeline parallelism"], "dp": row["data parallelism"], "cp": 1, "zero": 0, "recompute": "full", "gpu": "A100-80GB",
        "num_gpus": row["# GPUs"], "precision": "fp16", "tflops_per_gpu_or_tokens_per_s": row["iteration time (ms)"], "unit": "ms/iteration",
        "note": ""})


def surface_text(name, values):
    lines = [f"  - name: {name}"] + [f"    {key}: {value:.10g}" for key, value in {**values, **FIXED}.items()]
    return "\n".join(["surfaces:", *lines, "    source: fitted by benchmarks/fit_plan_surface.py", ""])


def errors_of(cases, measured, values, arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(surface_text(arguments.name, values))
        file.flush()
        predictions = plan_published.predict(cases, arguments.program, [file.name])
    return [prediction["step_s"] / seconds - 1 for prediction, seconds in zip(predictions, measured)]


def bounded(point):
    """The constants at a point whose coordinates are factors of the first values, and how far outside the bounds the point is."""
    values, outside = {}, 0.0
    for factor, (key, (first, least, most)) in zip(point, CONSTANTS.items()):
        values[key] = min(max(factor * first, least), most)
        outside += abs(factor * first - values[key]) / first
    return values, outside


def minimize(cost, size, steps):
    """Nelder and Mead, 1965, from factors of 1."""
    points = [[1.0] * size] + [[1.25 if j == i else 1.0 for j in range(size)] for i in range(size)]
    costs = [cost(point) for point in points]
    for _ in range(steps):
        order = sorted(range(size + 1), key=costs.__getitem__)
        points, costs = [points[i] for i in order], [costs[i] for i in order]
        center = [sum(point[j] for point in points[:-1]) / size for j in range(size)]
        def along(factor):
            point = [center[j] + factor * (points[-1][j] - center[j]) for j in range(size)]
            return point, cost(point)
        tried = along(-1)
        if tried[1] < costs[0]:
            tried = min(along(-2), tried, key=lambda pair: pair[1])
        elif tried[1] >= costs[-2]:
            tried = along(0.5)
        if tried[1] < costs[-1]:
            points[-1], costs[-1] = tried
            continue
        points = [points[0]] + [[(a + b) / 2 for a, b in zip(points[0], point)] for point in points[1:]]
        costs = [costs[0]] + [cost(point) for point in points[1:]]
    return points[costs.index(min(costs))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=9)
    parser.add_argument("--name", default="a100")
    parser.add_argument("--program", default=ROOT / "build/release/bin/plan_cases")
    arguments = parser.parse_args()
    with open(arguments.csv, newline="") as file:
        cases = [case_of(row) for row in csv.DictReader(file)]
    measured = [published_rows.measured_step(case, {}) for case in cases]
    few, few_measured = cases[::arguments.every], measured[::arguments.every]

    def cost(point):
        values, outside = bounded(point)
        errors = errors_of(few, few_measured, values, arguments)
        return statistics.fmean(min(abs(math.log1p(error)), 0.3) ** 1.5 for error in errors) + outside

    values, _ = bounded(minimize(cost, len(CONSTANTS), arguments.steps))
    errors = [100 * error for error in errors_of(cases, measured, values, arguments)]
    sizes = [abs(error) for error in errors]
    print(surface_text(arguments.name, values), end="")
    print(f"# {len(errors)} rows: median error {statistics.median(errors):+.1f} %, |median| {statistics.median(sizes):.1f} %, "
          f"|p90| {plan_published.percentile(sizes, 0.9):.1f} %", file=sys.stderr)


if __name__ == "__main__":
    main()
