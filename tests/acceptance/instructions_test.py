"""The program's own instructions, counted by valgrind's callgrind: they don't grow unnoticed.

    instructions_test.py [--record]

Instructions repeat where seconds don't. What counts is the code of the program and its engine, by the namespace of the function. LibTorch's
and the C library's are left out, since they are not ours, and choose their code by the CPU. Valgrind's CPU has AVX2 and no AVX-512 wherever
the real one has AVX2. The counts to compare with are in instructions.json. A count may be MARGIN above it. After a change that lowers one,
or that is worth more instructions, --record writes the new counts.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from trainctl_process import TRAINCTL, temporary_directory, write_experiment

COUNTS = pathlib.Path(__file__).with_name("instructions.json")
MARGIN = 0.05
EXPERIMENT = """
name: instructions
seed: 1
device: {kind: cpu, num_threads: 1}
dataset: {kind: synthetic_images, channels: 3, height: 16, width: 16, num_classes: 10, num_samples: 512, num_eval_samples: 0, batch_size: 8, num_workers: 0,
  transforms: [{kind: random_crop, padding: 2}, {kind: random_horizontal_flip}, {kind: normalize}]}
model: {kind: cnn, channels: [32, 32, 32], num_pools: 2, batch_norm: true, hidden: 64, dropout: 0.2}
task: {kind: classification, label_smoothing: 0.1}
optimizer: {kind: adamw, lr: 1e-3, clip_norm: 1.0, ema: {decay: 0.99}}
train: {steps: 10, log_every: 1000}
checkpoint: {every: 0}
tracking: {tensorboard: false}
"""
FEW, MANY = 10, 30  # steps


def compiler():
    """What GCC writes into a program."""
    text = pathlib.Path(TRAINCTL).read_bytes()
    found = re.search(rb"GCC: \([^)]*\) [0-9.]+", text)
    return found.group().decode() if found else "unknown"


def own_instructions(path):
    """Namespace below trainctl:: ("" for all others) -> instructions in the program's own code."""
    names, counts, own, function, is_call = {}, collections.Counter(), False, "", False
    with open(path) as file:
        for line in file:
            place, _, text = line.rstrip("\n").partition("=")
            if place in ("ob", "fn", "cob", "cfn"):
                kind = place[-2:]
                number, _, name = text.partition(" ")
                name = names.setdefault((kind, number), name)
                if place == "ob":
                    own = "trainctl" in pathlib.Path(name).name
                elif place == "fn":
                    function = name
            elif place == "calls":
                is_call = True  # the next line has the cost of what was called
            elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
                if own and not is_call:
                    namespace = re.search(r"trainctl::(\w+)::", function)
                    counts[namespace.group(1) if namespace else ""] += int(line.split()[1])
                is_call = False
    return counts


def count(directory, *arguments):
    out = pathlib.Path(directory) / "callgrind.out"
    result = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", TRAINCTL, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.returncode}\n{result.stderr[-2000:]}")
    return own_instructions(out)


def measured_counts():
    """What is compared -> instructions."""
    with temporary_directory() as directory:
        config = write_experiment(directory, EXPERIMENT)
        check = count(directory, "check", "--file-only", config)
        few, many = (count(directory, "train", config, "--run-dir", f"{directory}/run{steps}", "--no-progress", "--set", f"train.steps={steps}")
                     for steps in (FEW, MANY))
    each = {name: (many[name] - few[name]) / (MANY - FEW) for name in many}
    step = {"loader": each.pop("dataset"), "kernels": each.pop("kernels"), "step": sum(each.values())}
    return {"reading and checking a config": sum(check.values()), "start and end of a run": round(sum(few.values()) - FEW * sum(step.values())),
            "a step: the loader": round(step["loader"]), "a step: kernels": round(step["kernels"]), "a step: all else": round(step["step"])}


class Instructions(unittest.TestCase):
    def test_no_count_grows_by_more_than_the_margin(self):
        if shutil.which("valgrind") is None:
            self.skipTest("valgrind is missing")
        flags = pathlib.Path("/proc/cpuinfo").read_text()
        if not re.search(r"\bavx2\b", flags):
            self.skipTest("this CPU has no AVX2, so that other code runs")
        recorded = json.loads(COUNTS.read_text())
        if recorded["compiler"] != compiler():
            self.skipTest(f"recorded with {recorded['compiler']}, built with {compiler()}")
        measured = measured_counts()
        self.assertEqual(set(measured), set(recorded["instructions"]))
        for what, instructions in measured.items():
            before = recorded["instructions"][what]
            print(f"{what}: {instructions:,}, recorded {before:,} ({instructions / before - 1:+.2%})", flush=True)
        for what, instructions in measured.items():
            with self.subTest(what=what):
                self.assertLessEqual(instructions, recorded["instructions"][what] * (1 + MARGIN))


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    COUNTS.write_text(json.dumps({"compiler": compiler(), "instructions": measured_counts()}, indent=1) + "\n")
