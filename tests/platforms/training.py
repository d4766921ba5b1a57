"""Commands of the matrix: checking, training, resuming, planning and reading data."""
import json
import math
import re

import emulator_faults
from machine import Skipped, expect
from networks import NETWORKS

# Relative, against this machine's own CPU after two steps: kernels add in another order.
LOSS_TOLERANCE = 2e-3
BF16_LOSS_TOLERANCE = 2e-2
# benchmarks/plan_memory.py's bound, and what small networks differ by besides.
PLAN_TOLERANCE = 0.15
PLAN_TOLERANCE_MIB = 0.5


def check(machine):
    """Each kind of network has an experiment here; all are right, and a wrong one is refused at its line."""
    networks = json.loads(machine.trainctl("config", "schema").stdout)["$defs"]["whole.model"]["anyOf"]
    kinds = {network["properties"]["kind"]["const"] for network in networks if "kind" in network.get("properties", {})}
    expect(kinds == set(NETWORKS), f"the kinds of networks are {sorted(kinds)}")
    machine.trainctl("check", "--file-only", *(f"{name}.yaml" for name in NETWORKS))
    (machine.directory / "wrong.yaml").write_text("name: wrong\nmodel: {kind: transformer}\n")
    result = machine.start_trainctl("check", "wrong.yaml")
    expect(result.returncode == 2 and "wrong.yaml:2:" in result.stdout + result.stderr, f"a wrong file gives exit code {result.returncode}")


def losses(machine, run):
    return [record["loss"] for event in ("step", "eval") for record in machine.records(run, event)]


def expect_the_references_losses(machine, name, tolerance, repeat):
    """All losses of the run are finite, and near those of the same run without emulation."""
    found = losses(machine, name)
    expect(all(map(math.isfinite, found)), f"losses are {found}")
    if fault := emulator_faults.in_losses(machine.cpu, name):
        return f"runs; {fault}"
    if machine.reference:
        repeat(machine.reference)
        wanted = losses(machine.reference, name)
        furthest = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
        expect(furthest <= tolerance, f"losses are {found}, without emulation {wanted}")
    return None


def train(machine, name):
    network = NETWORKS[name]
    if machine.cpu.is_emulated and network.same_blocks_as:
        raise Skipped(f"the blocks of {network.same_blocks_as}, for minutes")

    def run(where):
        result = where.trainctl("train", f"{name}.yaml", "--run-dir", name, "--no-progress", "--resume", "never")
        (where.directory / f"{name}.log").write_text(result.stderr)
        expect(len(losses(where, name)) == 3, "two steps and an evaluation were asked for, and metrics.jsonl has other records")
        expect(network.is_large or (where.directory / name / "checkpoints/step_00000002").is_dir(), "there is no checkpoint of step 2")

    run(machine)
    return expect_the_references_losses(machine, name, LOSS_TOLERANCE, run)


def resume_in_bf16(machine, name):
    def run(where):
        where.trainctl("train", f"{name}.yaml", "--run-dir", name, "--no-progress", "--resume", f"{name}/checkpoints/step_00000002",
                       "--set", "train.steps=4", "--set", "amp.mode=bf16")
        steps = [record["step"] for record in where.records(name, "step")]
        expect(steps == [1, 2, 3, 4], f"the steps on record are {steps}")

    run(machine)
    return expect_the_references_losses(machine, name, BF16_LOSS_TOLERANCE, run)


def resume_to_the_bit(machine):
    """Four steps are two and two, from a checkpoint that a third run left."""
    for run, resume in [("whole", "never"), ("resumed", "mlp/checkpoints/step_00000002")]:
        machine.trainctl("train", "mlp.yaml", "--run-dir", run, "--no-progress", "--resume", resume, "--set", "train.steps=4")
    whole, resumed = ([(record["step"], record["loss"]) for record in machine.records(run, "step")][-2:] for run in ("whole", "resumed"))
    expect(whole == resumed, f"steps and losses are {whole} in one run, {resumed} resumed")


def plan(machine):
    """Memory and time of a step, with rates measured on this CPU."""
    document = machine.report("plan", "cnn.yaml")
    expect(document["memory"]["peak_bytes"] > 0, "the plan has no memory")
    expect(document["time"]["step_ms"] > 0, "the plan has no time")


def planned_peak(machine, name):
    """What train predicts before its first step, and what the allocator counts until its second."""
    if machine.cpu.is_emulated and NETWORKS[name].same_blocks_as:
        raise Skipped("not trained")
    said = re.search(r"estimated memory: ([\d.,]+) ([KMG]iB)", (machine.directory / f"{name}.log").read_text())
    expect(said is not None, "train predicts nothing")
    predicted = float(said[1].replace(",", "")) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[said[2]]
    measured = machine.records(name, "step")[1]["memory_mib"]
    expect(abs(predicted - measured) <= PLAN_TOLERANCE * measured + PLAN_TOLERANCE_MIB, f"{predicted:.1f} MiB planned, {measured:.1f} MiB measured")
    return f"{predicted:.1f} / {measured:.1f} MiB"


def data_bench(machine):
    found = machine.report("data", "bench", "cnn.yaml", "--seconds", "1", "--warmup", "0")
    expect(found["samples"] > 0 and found["bad_samples"] == 0, f"{found['samples']} samples, {found['bad_samples']} bad ones")
