"""How tests wait and keep apart: for a condition and not for a time, on ports and run directories that no other test can take."""
import os
import pathlib
import re
import socket
import time

PATIENCE_S = 240  # how long a test waits at most; only a failure takes so long


def wait_for(what, process=None, patience_s=PATIENCE_S):
    """Returns what `what` gives once that is true. Fails if the process has ended without it, or the patience is over."""
    deadline = time.monotonic() + patience_s
    while True:
        has_ended = process is not None and process.poll() is not None  # asked first: what it did at its end counts
        if found := what():
            return found
        if has_ended:
            errors = "" if process.stderr is None or process.stderr.closed else process.stderr.read()
            raise AssertionError(f"the process ended with {process.returncode} before what the test waits for: {errors}")
        if time.monotonic() > deadline:
            raise AssertionError(f"what the test waits for didn't come within {patience_s} s")
        time.sleep(0.02)


def num_records(run_directory, event="step"):
    """The complete records of one kind in the run's metrics.jsonl."""
    try:
        lines = (pathlib.Path(run_directory) / "metrics.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    return sum(f'"event":"{event}"' in line for line in lines if line.endswith("\n"))


def is_running(pid):
    """Whether the process is there, and not only its exit code for its parent."""
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def catches(pid, number):
    """Whether the process has a handler of its own for the signal."""
    try:
        status = (pathlib.Path("/proc") / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1)


def computed_s(process):
    """The CPU time of a process and its children, which says how far they are on a machine of any load."""
    pids = [process.pid, *children_of(process.pid)]
    ticks = 0
    for pid in pids:
        try:
            ticks += sum(map(int, (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid):
    try:
        return [int(child) for child in (pathlib.Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class ReservedPort:
    """A port of the loopback that no other program is given meanwhile. Nothing listens there before a program that is told its number does:
    a server may share a port (SO_REUSEADDR) with a socket that doesn't listen."""

    def __enter__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        return self.socket.getsockname()[1]

    def __exit__(self, *_):
        self.socket.close()
