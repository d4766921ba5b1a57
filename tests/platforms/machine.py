"""Runs programs on one CPU of the matrix, and the same on this machine's own CPU for comparison."""
import json
import os
import pathlib
import subprocess

from cpus import NATIVE
from networks import write_data

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINCTL = pathlib.Path(os.environ.get("TRAINCTL", ROOT / "build/release/bin/trainctl"))
LONGEST_S = 1200  # of one process; emulated on a busy machine, some take ten minutes


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
        words = [*self.cpu.runner(), *map(str, (path, *arguments))]
        with subprocess.Popen(words, cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                out, err = process.communicate(timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                try:
                    threads = threads_of(process.pid)
                finally:
                    process.kill()
                out, err = process.communicate()
                last = (without_warnings(out + err) or ["none"])[-1]
                raise Failure(f"not done after {LONGEST_S} s: {' '.join(words)}; last line: {last}; threads: {threads}") from None
        return subprocess.CompletedProcess(words, process.returncode, out, err)

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


def threads_of(process):
    """What each thread of a process waits for, and the CPU time that it has taken."""
    found = []
    for thread in sorted(pathlib.Path(f"/proc/{process}/task").iterdir()):
        name, place = (thread / "comm").read_text().strip(), (thread / "wchan").read_text()
        state, *fields = (thread / "stat").read_text().rpartition(")")[2].split()
        seconds = sum(map(int, fields[10:12])) / os.sysconf("SC_CLK_TCK")
        found.append(f"{name} {state} in {place} ({seconds:.1f} s)")
    return ", ".join(found)


def without_warnings(output):
    """The lines of a program's output, without what qemu says of features, and without stacks."""
    return [line for line in output.splitlines() if line.strip() and "TCG doesn't support" not in line and not line.startswith("frame #")]


def message_of(result):
    """The error in a program's output, without this machine's paths."""
    lines = without_warnings(result.stderr + result.stdout)
    errors = [line for line in lines if line.startswith("trainctl:") or "FAILED" in line or "uncaught target signal" in line]
    return (errors or lines or ["no output"])[0].removeprefix("trainctl: ").replace(f"{ROOT}/", "")
