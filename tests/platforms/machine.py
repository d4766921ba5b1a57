"""Runs programs on one CPU of the matrix, and the same on this machine's own CPU for comparison."""
import json
import os
import pathlib
import subprocess

from cpus import NATIVE
from networks import write_data

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINCTL = pathlib.Path(os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
LONGEST_S = 600  # of one process


class Failure(Exception):
    """What a command printed or left isn't what must hold."""


def expect(holds, problem):
    if not holds:
        raise Failure(problem)


class Skipped(Exception):
    """The command can't run on this CPU; the text is the reason."""


class Machine:
    """A CPU with a directory of its own for data, runs and caches."""

    def __init__(self, cpu, directory):
        self.cpu = cpu
        self.directory = pathlib.Path(directory)
        if not self.directory.exists():
            self.directory.mkdir(parents=True)
            write_data(self.directory)
        self.reference = Machine(NATIVE, self.directory / "reference") if cpu.is_emulated else None

    def program(self, path, *arguments, **settings):
        """Runs a program to its end, on one thread: emulated threads cost more than they give."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(self.directory / "cache_home"), **settings}
        return subprocess.run([*self.cpu.runner(), str(path), *map(str, arguments)], cwd=self.directory, env=environment, timeout=LONGEST_S,
                              capture_output=True, text=True)

    def unemulated(self):
        """This directory on this machine's own CPU."""
        return Machine(NATIVE, self.directory) if self.cpu.is_emulated else self

    def start_trainctl(self, *arguments):
        return self.program(TRAINCTL, *arguments)

    def trainctl(self, *arguments):
        """Runs trainctl; a failure carries its message."""
        result = self.start_trainctl(*arguments)
        if result.returncode != 0:
            raise Failure(f"{arguments[0]} on {self.cpu.name}: exit {result.returncode}: {message_of(result)}")
        return result

    def report(self, *arguments):
        """The document that a command prints with --json."""
        return json.loads(self.trainctl(*arguments, "--json").stdout)

    def records(self, run, event):
        """The records of one kind in a run's metrics.jsonl."""
        lines = (self.directory / run / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["event"] == event]


def message_of(result):
    """The error in a program's output, without what qemu says of features, stacks and this machine's paths."""
    lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip() and "TCG doesn't support" not in line and not line.startswith("frame #")]
    errors = [line for line in lines if line.startswith("trainctl:") or "FAILED" in line or "uncaught target signal" in line]
    return (errors or lines or ["no output"])[0].removeprefix("trainctl: ").replace(f"{ROOT}/", "")
