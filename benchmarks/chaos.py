#!/usr/bin/env python3
"""Trainings under torchrun that are disturbed at random moments: a Markdown table of what became of them; exit 1 where one fails.

  chaos.py [--runs 50] [--seed 1] [--kinds kill hang lose add full corrupt] [--core N] [--keep DIRECTORY]

Nodes are agents on this machine. Each run is a small CNN on Fashion-MNIST's 10,000 test images, of 420 steps of 48 samples, begun on one to
three nodes with one or two ranks. kill: SIGKILL of a rank. hang: SIGSTOP of a rank. lose: SIGKILL of a node's agent and its ranks. add: one
more node. full: the run directory's file system full for a while (needs root). corrupt: the newest checkpoint damaged, then a rank killed.
Every third run has a second fault; about half of them keep snapshots beside checkpoints. A run has passed when it finished; each sample of each epoch was trained once, in order, as the ranks'
own records say; its losses are those of the undisturbed run but for rounding; every complete checkpoint loads; and the last words of every
surviving rank named who went, where and when, in time.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from chaos_faults import FAULTS, KILL_LIMIT_S, HANG_SLACK_S, Fault, SmallDisk
from chaos_job import GLOBAL_BATCH, PATIENCE, ROOT, SAMPLES, STEPS, TIMEOUT_S, Job, Rendezvous
from compare_step import first_existing

NODES = [[1, 1], [2], [1, 2], [1, 1, 1], [2, 1], [2, 2]]
END_LIMIT_S = 180 * PATIENCE
# Undisturbed runs on one to four ranks differ by 4e-8 among themselves (--noise): they add up in other orders.
LOSS_BOUND = 1e-5


def check_samples(job):
    taken = collections.defaultdict(list)
    for path in (job.run_directory / "logs").glob("samples_rank_*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            taken[record["step"]].append((record["epoch"], record["first"], record["count"]))
    if sorted(taken) != list(range(1, STEPS + 1)):
        raise Fault(f"steps without a record: {sorted(set(range(1, STEPS + 1)) - taken.keys())}, beyond the last: {sorted(taken)[STEPS:]}")
    epoch, sample, total = 0, 0, 0
    for step in range(1, STEPS + 1):
        for run in sorted(taken[step]):
            if sample == SAMPLES:
                epoch, sample = epoch + 1, 0
            if run[:2] != (epoch, sample):
                raise Fault(f"step {step} took sample {run[1]} of epoch {run[0]} where {sample} of epoch {epoch} was next")
            sample += run[2]
            total += run[2]
        if sum(count for _, _, count in taken[step]) != GLOBAL_BATCH and sample != SAMPLES:
            raise Fault(f"step {step} has {sum(count for _, _, count in taken[step])} samples instead of {GLOBAL_BATCH}")
    return total


def losses(job):
    found = {r["step"]: r["loss"] for r in job.records()}
    if sorted(found) != list(range(1, STEPS + 1)):
        raise Fault(f"metrics.jsonl has {len(found)} of {STEPS} steps")
    return [found[step] for step in range(1, STEPS + 1)] + [job.records("eval")[-1]["loss"]]


def difference(ours, theirs):
    """The largest between the means of 20 steps, and between the evaluations at the end."""
    means = [[statistics.fmean(run[i:i + 20]) for i in range(0, STEPS, 20)] + run[-1:] for run in (ours, theirs)]
    return max(abs(a - b) for a, b in zip(*means))


def check_checkpoints(job, options):
    """How many load; damaged ones must be told from them."""
    whole = 0
    for path in job.checkpoints():
        result = subprocess.run([options.trainctl, "eval", job.config, "--checkpoint", path, *job.options_of_trainctl()],
                                capture_output=True, text=True)
        if result.returncode == 0:
            whole += 1
        elif not re.search("is damaged|never completed", result.stderr):
            raise Fault(f"{path.name} can't be read: {result.stderr.strip()}")
    if whole == 0:
        raise Fault("no checkpoint is left")
    return whole


def disturb(job, faults, draw):
    """fault -> seconds until all had named the culprit."""
    seconds = {}
    for fault, step in faults:
        if not job.wait_for_training(step):
            break  # it finished before
        time.sleep(draw.uniform(0, 0.05))
        seconds[fault] = FAULTS[fault](job, draw)
    return seconds


def plan(number, options, draw):
    """Nodes and faults, each with the step from which on it comes."""
    kinds = options.kinds
    faults = [kinds[number % len(kinds)]]
    if number % 3 == 2:
        faults.append(draw.choice(["kill", "hang", "lose", "corrupt"]))
    steps = sorted(draw.randrange(5, int(STEPS * 0.55)) for _ in faults)
    if "add" in faults:
        steps[0] = 5  # a node takes seconds to come
    nodes = draw.choice([n for n in NODES if len(n) > 1 or "lose" not in faults])
    if "add" in faults and len(nodes) == 3:
        nodes = nodes[:2]
    if sum(nodes) == 0 or GLOBAL_BATCH % sum(nodes):
        raise ValueError(nodes)
    return nodes, list(zip(faults, steps))


def run_once(number, options, rendezvous, reference, directory):
    draw = random.Random(f"{options.seed} {number}")
    nodes, faults = plan(number, options, draw)
    snapshots = all(fault != "corrupt" for fault, _ in faults) and draw.random() < 0.5
    adds = sum(fault == "add" for fault, _ in faults)
    with contextlib.ExitStack() as stack:
        if any(fault == "full" for fault, _ in faults):
            stack.callback(SmallDisk(directory / "run", 16).close)
        settings = ["checkpoint.in_memory={every: 5}"] if snapshots else []
        job = Job(options, rendezvous, directory, nodes, most_nodes=len(nodes) + adds, settings=settings)
        stack.callback(job.close)
        record = {"run": number, "nodes": nodes, "faults": faults, "snapshots": snapshots, "problem": None, "difference": None}
        begin = time.monotonic()
        try:
            record["seconds"] = disturb(job, faults, draw)
            if not job.wait_for_end(END_LIMIT_S):
                raise Fault(f"not finished after {time.monotonic() - begin:.0f} s, at step {job.last_step()}")
            record["took_s"] = time.monotonic() - begin
            record["samples"] = check_samples(job)
            record["checkpoints"] = check_checkpoints(job, options)
            record["losses"] = losses(job)
            if reference:
                record["difference"] = difference(record["losses"], reference)
                if record["difference"] > LOSS_BOUND:
                    raise Fault(f"its losses differ by {record['difference']:.1e} from the undisturbed run's")
        except Fault as fault:
            record["problem"] = str(fault)
            if (directory / "run").is_mount():
                shutil.copytree(directory / "run", directory / "run_copy", dirs_exist_ok=True, symlinks=True)
    return record


def undisturbed(options, rendezvous, root):
    """Losses of a run on two nodes; and what such runs on other nodes differ by."""
    runs = []
    for i, nodes in enumerate([[1, 1]] + options.noise * [[1], [1, 1, 1], [2, 2]]):
        directory = root / f"undisturbed_{i}"
        directory.mkdir()
        job = Job(options, rendezvous, directory, nodes)
        try:
            if not job.wait_for_end(END_LIMIT_S):
                raise SystemExit(f"the undisturbed run doesn't finish: see {job.log(0)}")
            check_samples(job)
            runs.append(losses(job))
        finally:
            job.close()
    return runs[0], max((difference(a, b) for a in runs for b in runs), default=0)


def format_seconds(values):
    return f"{statistics.median(values):.2f} / {max(values):.2f}" if values else ""


def table(records, options):
    lines = ["| fault | runs | finished, each sample once | checkpoints read | named after, s: median / worst | largest difference of losses |",
             "| --- | --- | --- | --- | --- | --- |"]
    for kind in options.kinds:
        of_kind = [r for r in records if any(fault == kind for fault, _ in r["faults"])]
        named = [r["seconds"][kind] for r in of_kind if r.get("seconds", {}).get(kind) is not None]
        differences = [r["difference"] for r in of_kind if r["difference"] is not None]
        lines.append(f"| {kind} | {len(of_kind)} | {sum(r['problem'] is None for r in of_kind)} | {sum(r.get('checkpoints', 0) for r in of_kind)} | "
                     f"{format_seconds(named)} | {max(differences, default=0):.1e} |")
    return "\n".join(lines)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first run: a run depends on the seed and its number alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--core", type=int, help="run everything on this core")
    parser.add_argument("--noise", action="store_true", help="also measure what undisturbed runs differ by")
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the runs, which stay there; else only failed ones are kept")
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--python", type=pathlib.Path, default=first_existing(ROOT / ".deps/python/bin/python3", pathlib.Path(sys.executable)))
    parser.add_argument("--json", type=pathlib.Path, help="also write every run's figures here")
    options = parser.parse_args()
    if os.geteuid() != 0 and "full" in options.kinds:
        print("SKIPPED: full disks need root", file=sys.stderr)
        options.kinds.remove("full")
    return options


def main():
    options = read_options()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the jobs too
    root = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="trainctl-chaos-"))
    root.mkdir(parents=True, exist_ok=True)
    rendezvous = Rendezvous(options.python)
    records = []
    try:
        reference, noise = undisturbed(options, rendezvous, root)
        if options.noise:
            print(f"undisturbed runs on other nodes differ by {noise:.1e}", flush=True)
        for number in range(options.first, options.first + options.runs):
            directory = root / f"run_{number}"
            directory.mkdir()
            record = run_once(number, options, rendezvous, reference, directory)
            records.append(record)
            print(f"run {number}: nodes {record['nodes']}{', snapshots' * record['snapshots']}, {record['faults']}: {record['problem'] or 'passed'}; {record.get('seconds')}, "
                  f"{record['difference']}, {record.get('took_s', 0):.0f} s", file=sys.stderr, flush=True)
            if record["problem"] is None and not options.keep:
                shutil.rmtree(directory)
            if options.json:
                options.json.write_text(json.dumps(records, indent=1) + "\n")
    finally:
        rendezvous.close()
    print(f"{len(records)} runs, seed {options.seed}; to be named within {KILL_LIMIT_S} s, hangs within {TIMEOUT_S} + {HANG_SLACK_S} s; "
          f"losses within {LOSS_BOUND}\n\n{table(records, options)}")
    failed = [r["run"] for r in records if r["problem"]]
    if failed:
        raise SystemExit(f"failed: runs {failed}; their logs are in {root}")
    if not options.keep:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
