"""Machines that lack something: other CPUs, mounts and control groups, for the life of one command."""
import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess

from trainctl_process import ROOT

QEMU = shutil.which("qemu-x86_64-static")


def in_mount_namespace(setup, command, env=None):
    """Runs `command` after the shell line `setup` in a mount namespace of its own."""
    line = f"{setup} && exec {shlex.join(map(str, command))}"
    return subprocess.run(["unshare", "--mount", "bash", "-c", line], capture_output=True, text=True, timeout=300, cwd=ROOT,
                          env={**os.environ, **(env or {})})


def may_mount():
    return shutil.which("unshare") is not None and subprocess.run(
        ["unshare", "--mount", "bash", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode == 0


def without_libraries(pattern, directories):
    """The shell line that hides files from these directories, and whether this system can run it."""
    parts = ["mount -t tmpfs tmpfs /mnt"]
    for i, directory in enumerate(directories):
        parts += [f"mkdir /mnt/upper{i} /mnt/work{i}",
                  f"mount -t overlay overlay -o lowerdir={directory},upperdir=/mnt/upper{i},workdir=/mnt/work{i} {directory}",
                  f"rm -f {directory}/{pattern}"]
    line = " && ".join(parts)
    can = shutil.which("unshare") is not None and subprocess.run(["unshare", "--mount", "bash", "-c", line], capture_output=True).returncode == 0
    return line, can


def own_memory_group():
    """The directory of this process's group in the hierarchy that limits memory, and the name of its limit's file."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
    return pathlib.Path("/sys/fs/cgroup" + path), "memory.max"


@contextlib.contextmanager
def memory_group(limit_bytes):
    """A control group with this limit below our own; None where none can be made."""
    parent, limit_file = own_memory_group()
    group = parent / f"trainctl_test_{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        try:
            (group / limit_file).write_text(str(limit_bytes))
        except OSError:
            yield None
            return
        yield group
    finally:
        group.rmdir()


def in_memory_group(group, command):
    line = f"echo $$ > {group}/cgroup.procs && exec {shlex.join(map(str, command))}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=300, cwd=ROOT)
