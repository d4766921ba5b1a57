#!/usr/bin/env python3
"""trainctl's host allocator against those that others keep, interleaved in one run on a CPU: a Markdown table.

  compare_allocators.py [--workload demo_cnn fmnist_cnn resnet18 resnet50 bert gpt2 llama] [--sides own system mallopt mimalloc]
                        [--rounds 5] [--scale 1] [--threads N] [--trainctl PATH] [--json FILE]

own: the caching allocator (device.caching_allocator: true). The other sides turn it off: system is glibc as it is; mallopt is
glibc told by two variables (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD) to keep freed memory; mimalloc is Debian's libmimalloc2.0 in
LD_PRELOAD. The workloads, and the meaning of the figures, are those of compare_step.py; a ratio over 1 says that own is faster.
"""
import ctypes.util
import json
import os
import pathlib
import sys
import tempfile

from compare_step import WORKLOADS, add_program_options, median, options_of_rounds, run_trainctl, spread

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
SIDES = ["own", "system", "mallopt", "mimalloc"]


def environment_of(side):
    """What the side's process sees beside our own variables."""
    if side == "mallopt":
        return KEEP_MEMORY
    if side == "mimalloc":
        library = ctypes.util.find_library("mimalloc")
        if library is None:
            sys.exit("libmimalloc is not here: apt-get install libmimalloc2.0, or leave it out of --sides")
        return {"LD_PRELOAD": library}
    return {}


def measure(workload, options, directory):
    """side -> list of results, one a round; the order turns by one side each round."""
    results = {side: [] for side in options.sides}
    for round_ in range(options.rounds):
        turn = round_ % len(options.sides)
        for side in options.sides[turn:] + options.sides[:turn]:
            result = run_trainctl(workload, options, directory, sets=[f"device.caching_allocator={'true' if side == 'own' else 'false'}"],
                                  environment={**os.environ, **environment_of(side)})
            results[side].append(result)
            print(f"{workload} round {round_ + 1} {side}: {result['step_ms']:.2f} ms", file=sys.stderr)
    return results


def table(measured, sides):
    """One row a workload."""
    others = [side for side in sides if side != "own"]
    head = ["workload", "batch", *(f"{side} ms (range)" for side in sides), *(f"{side} / own" for side in others if "own" in sides),
            "peak MiB: " + ", ".join(sides)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for workload, results in measured.items():
        cells = [workload, str(WORKLOADS[workload][0]), *(spread(results[side]) for side in sides),
                 *(f"**{median(results[side], 'step_ms') / median(results['own'], 'step_ms'):.2f}×**" for side in others if "own" in sides),
                 ", ".join(f"{median(results[side], 'peak_rss_mib'):.0f}" for side in sides)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read_options():
    parser = options_of_rounds(__doc__, list(WORKLOADS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.set_defaults(device="cpu", precision="fp32")
    add_program_options(parser)
    return parser.parse_args()


def main():
    options = read_options()
    with tempfile.TemporaryDirectory() as directory:
        measured = {workload: measure(workload, options, directory) for workload in options.workload}
    print(f"{options.threads} threads, {options.rounds} interleaved rounds\n")
    print(table(measured, options.sides))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
