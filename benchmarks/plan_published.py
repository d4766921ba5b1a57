#!/usr/bin/env python3
"""What the cluster simulator predicts of published training runs, against what they measured: tables by source.

  plan_published.py CSV [--rows] [--source TEXT] [--tables FILE …] [--program build/release/bin/plan_cases]

published_rows.py states the columns and reads them. Errors are those of the predicted throughput, per cent: a positive one is a prediction
that is too fast. Weak scaling and the choice of a layout are compared within the rows of one source. Rows that can't be read are listed and left out.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys

import published_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEAK_TFLOPS = {"a100_80": 312, "a100_40": 312, "h100": 989, "h100_500w": 989, "h200": 989, "b200": 2250, "b300": 2250, "gb200": 2500, "gb300": 2500}
Result = collections.namedtuple("Result", "number case measured predicted memory")


def percentile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            result[order[place]] = (first + last) / 2
        first = last + 1
    return result


def spearman(left, right):
    left, right = ranks(left), ranks(right)
    mean_left, mean_right = statistics.fmean(left), statistics.fmean(right)
    product = sum((a - mean_left) * (b - mean_right) for a, b in zip(left, right))
    size = math.sqrt(sum((a - mean_left) ** 2 for a in left) * sum((b - mean_right) ** 2 for b in right))
    return product / size if size else 1.0


def predict(cases, program, tables):
    lines = "".join(json.dumps(case.document()) + "\n" for case in cases)
    done = subprocess.run([program, *tables], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def readable_cases(rows):
    """(number, case, measured seconds) of the rows that can be read, and (number, reason) of the others."""
    cases, left_out = [], []
    for number, row in enumerate(rows):
        try:
            case = published_rows.case_of(row)
            measured = published_rows.measured_step(case, PEAK_TFLOPS)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            left_out.append((number, f"{type(problem).__name__}: {problem}"))
            continue
        if measured:
            cases.append((number, case, measured))
        else:
            left_out.append((number, f"unknown unit '{row['unit']}'"))
    return cases, left_out


def error(result):
    return 100 * (result.measured / result.predicted - 1)


def summary(errors):
    sizes = [abs(value) for value in errors]
    return f"{len(errors):5} {statistics.median(errors):+8.1f} {statistics.median(sizes):8.1f} {percentile(sizes, 0.9):8.1f}"


def print_sources(results, key, title):
    groups = collections.defaultdict(list)
    for result in results:
        groups[key(result)].append(error(result))
    print(f"{title:64} {'rows':>5} {'median':>8} {'|median|':>8} {'|p90|':>8}")
    for name, errors in groups.items():
        print(f"{name[:64]:64} {summary(errors)}")
    print(f"{'all':64} {summary([error(result) for result in results])}\n")


def print_rows(results):
    for result in results:
        layout, model = result.case.layout, result.case.model
        axes = " ".join(f"{key[0]}{layout[key]}" for key in ("tensor", "pipeline", "data", "context"))
        print(f"{result.number:4} {result.case.row['model'][:24]:24} {result.case.device:9} L{model['num_layers']} h{model['hidden_size']} {axes} "
              f"v{layout['stages_per_rank']} b{layout['micro_batch']}x{layout['num_micro_batches']} {layout['precision']} {layout['recomputation']} "
              f"measured {result.measured:.4g} s, predicted {result.predicted:.4g} s, {error(result):+.1f} %")
    print()


def print_memory(results):
    pairs = [(result.case.row["source"], 100 * (result.memory / measured - 1))
             for result in results if (measured := published_rows.measured_memory(result.case.row))]
    if not pairs:
        return
    groups = collections.defaultdict(list)
    for source, value in pairs:
        groups[source].append(value)
    print(f"{'memory of the fullest rank':64} {'rows':>5} {'median':>8} {'|median|':>8} {'|p90|':>8}")
    for source in sorted(groups):
        print(f"{source[:64]:64} {summary(groups[source])}")
    print(f"{'all':64} {summary([value for _, value in pairs])}\n")


def series_of(result):
    """Rows of one series differ in the number of data-parallel ranks alone."""
    case, layout = result.case, result.case.layout
    fixed = ("micro_batch", "tensor", "pipeline", "context", "precision", "quantization", "recomputation", "zero")
    micro_batches = layout["num_micro_batches"] if case.family == "mpt" else 0
    return (case.row["source"][:30], case.row["model"], case.model["sequence_length"], case.device, micro_batches,
            *(layout[key] for key in fixed), json.dumps(case.overrides, sort_keys=True))


def print_weak_scaling(results):
    groups = collections.defaultdict(list)
    for result in results:
        if "iter" not in result.case.row["unit"].lower():
            groups[series_of(result)].append(result)
    print("weak scaling: efficiency against the smallest run of the series")
    differences = []
    for key, group in groups.items():
        group.sort(key=lambda result: result.case.num_gpus)
        first = group[0]
        for result in group[1:]:
            if result.case.num_gpus == first.case.num_gpus:
                continue
            def rate(one, seconds):
                return one.case.global_batch / one.case.num_gpus / seconds
            measured = rate(result, result.measured) / rate(first, first.measured)
            predicted = rate(result, result.predicted) / rate(first, first.predicted)
            differences.append(100 * (predicted - measured))
            print(f"  {key[0][:24]:24} {key[1][:20]:20} {first.case.num_gpus:5} -> {result.case.num_gpus:5}  measured {measured:.3f}, predicted "
                  f"{predicted:.3f}, {differences[-1]:+.1f} points")
    if differences:
        sizes = [abs(value) for value in differences]
        print(f"  median {statistics.median(sizes):.1f}, p90 {percentile(sizes, 0.9):.1f}, most {max(sizes):.1f} points\n")


def print_choice(results):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for result in results:
        case, layout = result.case, result.case.layout
        model = tuple(case.model[key] for key in ("num_layers", "hidden_size", "num_heads", "sequence_length"))
        key = (case.row["source"], case.row["model"], case.num_gpus, case.device, layout["precision"], layout["quantization"], *model,
               round(case.global_batch / 64))  # layouts compare at one batch
        axes = ("micro_batch", "tensor", "pipeline", "data", "context", "stages_per_rank", "zero", "recomputation")
        groups[key][tuple(layout[axis] for axis in axes)].append((result.measured / case.global_batch, result.predicted / case.global_batch))
    print("choice of a layout: what the one predicted best loses against the one measured best (sources with three layouts or more)")
    correlations = []
    for key, layouts in groups.items():
        if len(layouts) < 3:
            continue
        measured = [min(pair[0] for pair in pairs) for pairs in layouts.values()]
        predicted = [pairs[0][1] for pairs in layouts.values()]
        loss = 100 * (measured[predicted.index(min(predicted))] / min(measured) - 1)
        correlations.append(spearman(measured, predicted))
        print(f"  {key[0][-32:]:32} {key[1][:24]:24} {key[2]:5} GPUs, {len(layouts):3} layouts: loses {loss:.1f} %, Spearman {correlations[-1]:.3f}")
    if correlations:
        print(f"  mean Spearman {statistics.fmean(correlations):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path)
    parser.add_argument("--rows", action="store_true", help="print each row")
    parser.add_argument("--source", default="", help="rows whose source contains this")
    parser.add_argument("--tables", nargs="*", default=[], help="files that replace entries of the built-in tables")
    parser.add_argument("--program", default=ROOT / "build/release/bin/plan_cases")
    arguments = parser.parse_args()
    with open(arguments.csv, newline="") as file:
        rows = [row for row in csv.DictReader(file) if arguments.source in row["source"]]
    cases, left_out = readable_cases(rows)
    results = []
    for (number, case, measured), prediction in zip(cases, predict([case for _, case, _ in cases], arguments.program, arguments.tables)):
        if "error" in prediction:
            left_out.append((number, prediction["error"]))
            continue
        results.append(Result(number, case, measured, case.step_seconds(prediction),
                              published_rows.predicted_memory(case.row, prediction)))
    if not results:
        sys.exit(f"{arguments.csv}: no row can be read")
    if arguments.rows:
        print_rows(results)
    print_sources(results, lambda result: result.case.row["source"], "throughput, by source")
    print_sources(results, lambda result: result.case.device, "throughput, by device")
    print_memory(results)
    print_weak_scaling(results)
    print_choice(results)
    for number, reason in sorted(left_out):
        print(f"left out: row {number}, {rows[number]['model']}: {reason}")


if __name__ == "__main__":
    main()
