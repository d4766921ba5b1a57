#!/usr/bin/env python3
"""Measures training steps beside stock PyTorch's, and writes docs/performance.md, or for another machine a page beside it.

  performance.py [--workload bert resnet18 …] [--rounds 3] [--peers eager tuned compile max-autotune trainer] [--precision bf16] [--threads N]
                 [--machine "Zen 4"] [--only-write]

With --machine "Zen 4" the page is docs/performance_zen4.md, and the figures of its machine lie in a folder of that name.
Each workload's figures, of limits.py in this run, go to build/performance/. The page has all workloads that are there: so a long measurement
may be made in parts, on one quiet machine. Each set of peers has files and tables of its own, with the same run's figures of trainctl. The
convolutions' table is what the program `winograd` prints, where it is built. The cost as work grows is what growth.py found last.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import compare_step
import growth
import limits

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "build/performance"
LLMC_FIGURES = FIGURES / "llmc.json"
FEATURES = ("sse4_2", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16")

TITLE = "# Performance"
ON_A_MACHINE = " on a machine with "
HEAD = """\
{title}

Training steps of trainctl and of stock PyTorch on the same networks, in turn on one machine. `.deps/python/bin/python3
benchmarks/performance.py` measures and writes this page. What the networks and sides are stands in `benchmarks/compare_step.py` and `step.py`: the same model, batch,
optimizer (AdamW), precision and threads. trainctl runs whole, with loader, log and metrics. PyTorch's batch lies ready in memory.

- `eager`: PyTorch as it is, with images in channels_last and the fused AdamW.
- `tuned`: the same, with glibc told to keep freed memory. It is the stronger peer on a CPU.
- `compile`: `torch.compile`, without the time of its compilation. `max-autotune`: the same in that mode, and tuned.
- `trainer`: transformers' Trainer, tuned, for the networks that are transformers' own. Clipping and its loader are in its step.
- bf16 is LibTorch's autocast for PyTorch. trainctl has the same products, and loops of its own between them. On a CPU without AMX, bf16 may
  take longer than fp32: compare the tables.
- The limit of a step is what its products, convolutions and the optimizer's traffic take, each by the fastest of the libraries that
  `benchmarks/limits.py` finds. Less arithmetic (Winograd) goes beyond it. Attention's products count, too.

"""

LLMC = """\
4 texts of 64 tokens, float32, AdamW without decay. llm.c's `train_gpt2.c` runs as it is, built by gcc with `-Ofast -march=native`, OpenMP and
`-fno-finite-math-only`. `benchmarks/compare_llmc.py` measures.

"""

GROWTH = """\
One size at a time is multiplied. The GPT-2 has 4 layers of 256, 4 texts of 128 tokens and a vocabulary of 4,096. ResNet-18 has 32 images of
64 × 64 pixels. `benchmarks/growth.py` measures them and has the formulas of the theory. Memory is that of all tensors at its peak. Time grows
more slowly than the operations where other work weighs: small products, and the optimizer's, which neither batch nor image size changes.

![Time and memory of a step over depth, width, batch, sequence and image size, with slopes](growth.svg)

"""


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    fields = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in info.splitlines() if ":" in line}
    flags = fields["flags"].split()
    return f"{fields['model name']}, {', '.join(flag for flag in FEATURES if flag in flags)}"


def commit():
    return subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def measure(options, figures):
    """A file for each network, set of peers and precision. Limits are found beside the tuned peer in fp32 alone."""
    figures.mkdir(parents=True, exist_ok=True)
    blas, rate = limits.load_blas(options.threads), limits.bandwidth(1)
    with_limits = "tuned" in options.peers and options.precision == "fp32"
    with tempfile.TemporaryDirectory() as directory:
        for workload in options.workload:
            found = limits.measure_workload(workload, options, blas, rate, directory) if with_limits else limits.only_steps(workload, options, directory)
            found |= {"machine": machine(), "threads": options.threads, "commit": commit(), "date": datetime.date.today().isoformat(),
                      "libraries": ["MKL", "oneDNN", *blas]}
            (figures / f"{workload}.{options.precision}.{'+'.join(options.peers)}.json").write_text(json.dumps(found, indent=1) + "\n")
    program = ROOT / "build/release/bin/winograd"
    if program.exists() and with_limits:
        table = subprocess.run([program, str(options.threads)], capture_output=True, text=True, check=True).stdout
        (figures / "winograd.txt").write_text(table)


class Group:
    """What was measured beside the same peers in one precision: workload -> figures."""

    def __init__(self, precision, peers):
        self.precision, self.peers, self.found = precision, peers, {}

    def title(self):
        return f"In {self.precision}, beside {', '.join(self.peers)}:"

    def place(self):
        return self.precision != "fp32", compare_step.PEERS.index(self.peers[0])


def measured(figures):
    groups = {}
    for workload in compare_step.WORKLOADS:
        for file in sorted(figures.glob(f"{workload}.*.json")):
            _, precision, peers, _ = file.name.split(".")
            group = groups.setdefault((precision, peers), Group(precision, peers.split("+")))
            group.found[workload] = json.loads(file.read_text())
    return sorted(groups.values(), key=Group.place)


def ratio(found, side):
    return found["steps"][side] / found["steps"]["trainctl"]


def memory(found, side):
    return statistics.median(one["peak_rss_mib"] for one in found["rounds"][side])


def rows(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def step_table(group):
    lines, peers = [], group.peers
    for workload, found in group.found.items():
        cells = [workload, str(compare_step.WORKLOADS[workload][0]), compare_step.spread(found["rounds"]["trainctl"])]
        cells += [compare_step.spread(found["rounds"][peer]) if peer in found["rounds"] else "" for peer in peers]
        lines.append(cells + [f"**{ratio(found, peer):.2f}×**" if peer in found["rounds"] else "" for peer in peers])
    return rows(["network", "batch", "trainctl, ms (range)", *(f"{peer}, ms (range)" for peer in peers), *(f"{peer} / trainctl" for peer in peers)], lines)


def limit_table(group):
    lines, peers = [], group.peers
    for workload, found in group.found.items():
        limit = found["arithmetic"] + found["optimizer"]
        shares = [f"{100 * limit / found['steps'][side]:.0f} %" if side in found["steps"] else "" for side in ("trainctl", *peers)]
        lines.append([workload, f"{found['gflop']:.1f}", f"{1e3 * limit:.1f}", *shares])
    return rows(["network", "GFLOP", "limit, ms", "trainctl's share", *(f"{peer}'s" for peer in peers)], lines)


def memory_table(group):
    lines, peers = [], group.peers
    for workload, found in group.found.items():
        ours = memory(found, "trainctl")
        theirs = [f"{memory(found, peer):.0f}" if peer in found["rounds"] else "" for peer in peers]
        share = [f"{ours / memory(found, 'tuned'):.2f}"] if "tuned" in peers else []
        lines.append([workload, f"{ours:.0f}", *theirs, *share])
    return rows(["network", "trainctl, MiB", *(f"{peer}, MiB" for peer in peers), *(["trainctl / tuned"] if "tuned" in peers else [])], lines)


def where_peers_win(groups):
    lost = [f"{workload} in {group.precision}: {peer} takes {ratio(found, peer):.2f} of trainctl's time." for group in groups
            for workload, found in group.found.items() for peer in group.peers if peer in found["rounds"] and ratio(found, peer) < 1]
    return "\n".join(f"- {line}" for line in lost) + "\n" if lost else "In none of these measurements.\n"


def llmc_section(found):
    lines = [[side, compare_step.spread(rounds), f"{compare_step.median(rounds, 'peak_rss_mib'):.0f}"] for side, rounds in found["rounds"].items()]
    return "\n## GPT-2 124M beside llm.c\n\n" + LLMC + rows(["program", "step, ms (range)", "peak MiB"], lines)


def page_of(machine_name):
    return ROOT / f"docs/performance{'_' if machine_name else ''}{as_in_paths(machine_name)}.md"


def as_in_paths(machine_name):
    return machine_name.lower().replace(" ", "")


def links_to_other_machines():
    """Of every page beside docs/performance.md, by the machine that its title names."""
    pages = sorted((ROOT / "docs").glob("performance_*.md"))
    links = [f"[{page.read_text().splitlines()[0].removeprefix(TITLE + ON_A_MACHINE)}]({page.name})" for page in pages]
    return f"\nOther machines: {', '.join(links)}.\n" if links else ""


def write_page(name, figures):
    groups = measured(figures)
    files = [found for group in groups for found in group.found.values()]
    llmc = json.loads(LLMC_FIGURES.read_text()) if not name and LLMC_FIGURES.exists() else None
    machines = {}
    for found in files + ([llmc] if llmc else []):
        machines.setdefault(f"{found['machine']}; {found['threads']} threads", set()).add(f"{found['commit']} ({found['date']})")
    rounds = sorted({len(found["rounds"]["trainctl"]) for found in files})
    libraries = sorted({", ".join(found["libraries"]) for found in files})
    text = HEAD.replace("{title}", TITLE + (ON_A_MACHINE + name if name else "")) + "Measured on:\n\n" + "".join(f"- {name}; commits {', '.join(sorted(commits))}\n" for name, commits in sorted(machines.items()))
    if not name:
        text += links_to_other_machines()
    text += f"\n{' or '.join(map(str, rounds))} interleaved rounds: medians of the rounds' median steps. Ratios are of one run each.\n"
    text += "\n## Time of a step\n" + "".join(f"\n{group.title()}\n\n" + step_table(group) for group in groups)
    text += "\n## Where a peer still wins\n\n" + where_peers_win(groups)
    for group in groups:
        if all("arithmetic" in found for found in group.found.values()):
            text += f"\n## Share of the machine's limit\n\nThe fastest of {'; '.join(libraries)} for each operator, in fp32.\n\n" + limit_table(group)
    text += "\n## Memory\n\nThe process's peak, with the program and its libraries.\n"
    text += "".join(f"\n{group.title()}\n\n" + memory_table(group) for group in groups)
    if llmc:
        text += llmc_section(llmc)
    if not name and growth.FIGURES.exists():
        text += "\n## Cost as work grows\n\n" + GROWTH + growth.table(json.loads(growth.FIGURES.read_text()))
    if (figures / "winograd.txt").exists():
        text += ("\n## Convolutions\n\nA layer of 3 × 3 pixels by Winograd's algorithm against LibTorch's operator (oneDNN), and the largest errors against\n"
                 "fp64, relative to the largest output. \"direct\" marks layers that `model.convolution_algorithm: auto` leaves to LibTorch.\n\n"
                 + (figures / "winograd.txt").read_text())
    page_of(name).write_text(text)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--machine", default="")
    parser.add_argument("--only-write", action="store_true")
    own, sys.argv[1:] = parser.parse_known_args()
    options, figures = limits.read_options(__doc__), FIGURES / as_in_paths(own.machine)
    if not own.only_write:
        measure(options, figures)
    write_page(own.machine, figures)


if __name__ == "__main__":
    main()
