"""What chaos.py does to a job, and what the job's ranks must say of it."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from chaos_job import PATIENCE, TIMEOUT_S

KILL_LIMIT_S = 1.0 * PATIENCE
HANG_SLACK_S = 1.5 * PATIENCE
FAILURE = re.compile(r"^trainctl: (?P<who>rank .*?),? (?:each )?(?:is gone \(killed\?\)|hangs: [a-z' ]+) since step (?P<step>\d+)", re.M)
CULPRIT = re.compile(r"rank (\d+) on (\S+)")


class Fault(Exception):
    """The job did not do what it must."""


class Watch:
    """What is said from now on: the logs of a job, from their present ends."""

    def __init__(self, job):
        self.job = job
        self.begin = {path: path.stat().st_size for path in job.logs()}
        self.last_step = job.last_step()

    def said(self, path):
        try:
            with path.open("rb") as file:
                file.seek(self.begin.get(path, 0))
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def all_said(self):
        return "\n".join(self.said(path) for path in self.job.logs())

    def wait_for(self, text, limit_s, what):
        deadline = time.monotonic() + limit_s
        while text not in self.all_said():
            if time.monotonic() > deadline:
                raise Fault(f"{what}: nobody said '{text}' within {limit_s:.0f} s")
            time.sleep(0.02)

    def seconds_to_failures(self, victims, survivors, since, limit_s):
        """Until each survivor's last words named a victim, its host and its step: the longest time."""
        log_of = {rank: self.job.log(agent) if rank == 0 else self.job.run_directory / f"logs/rank_{rank}.log"
                  for rank, (_, agent) in survivors.items()}
        seconds = {}
        while len(seconds) < len(survivors) and time.monotonic() < since + limit_s + 10:
            for rank in survivors.keys() - seconds.keys():
                if match := FAILURE.search(self.said(log_of[rank])):
                    seconds[rank] = time.monotonic() - since
                    self.check(match, victims)
            time.sleep(0.01)
        if missing := sorted(survivors.keys() - seconds.keys()):
            raise Fault(f"ranks {missing} named nobody; {sorted(victims)} went")
        if max(seconds.values(), default=0) > limit_s:
            raise Fault(f"named only after {max(seconds.values()):.2f} s")
        return max(seconds.values(), default=None)

    def check(self, match, victims):
        named = [(int(rank), host) for rank, host in CULPRIT.findall(match["who"])]
        if not {rank for rank, _ in named} <= victims.keys() or {host.rstrip(",") for _, host in named} != {socket.gethostname()}:
            raise Fault(f"'{match[0]}', but {sorted(victims)} went")
        if not self.last_step - 5 <= int(match["step"]) <= self.last_step + 30:
            raise Fault(f"'{match[0]}', but it was at step {self.last_step}")


def take_down(job, victims, agents, sign, limit_s):
    """Signals ranks, and agents before them; waits for the others' words."""
    survivors = {rank: place for rank, place in job.ranks().items() if rank not in victims and place[1] not in agents}
    watch = Watch(job)
    begin = time.monotonic()
    for process in [job.agents[agent].pid for agent in agents] + [pid for pid, _ in victims.values()]:
        os.kill(process, sign)
    return watch.seconds_to_failures(victims, survivors, begin, limit_s)


def one_rank(job, draw):
    ranks = job.ranks()
    rank = draw.choice(sorted(ranks))
    return {rank: ranks[rank]}


def kill(job, draw):
    return take_down(job, one_rank(job, draw), [], signal.SIGKILL, KILL_LIMIT_S)


def hang(job, draw):
    if len(job.ranks()) == 1:  # nobody would notice
        return kill(job, draw)
    seconds = take_down(job, one_rank(job, draw), [], signal.SIGSTOP, TIMEOUT_S + HANG_SLACK_S)
    if seconds is not None and seconds < TIMEOUT_S - 0.5:
        raise Fault(f"called a hang after {seconds:.2f} s, with a timeout of {TIMEOUT_S} s")
    return seconds


def lose(job, draw):
    ranks = job.ranks()
    agents = sorted({agent for _, agent in ranks.values()})
    if len(agents) == 1:
        return kill(job, draw)
    agent = draw.choice(agents)
    return take_down(job, {r: p for r, p in ranks.items() if p[1] == agent}, [agent], signal.SIGKILL, KILL_LIMIT_S)


def add(job, draw):
    before = len(job.ranks())
    watch = Watch(job)
    job.add_node(draw.choice([1, 2]))
    deadline = time.monotonic() + 60 * PATIENCE
    while len(job.ranks()) <= before:
        if job.has_finished() or time.monotonic() > deadline:
            raise Fault("the added node never took part")
        time.sleep(0.05)
    if match := FAILURE.search(watch.all_said()):
        raise Fault(f"a node was added, and was told of as a failure: {match[0]}")


def fill_disk(job, draw):
    watch = Watch(job)
    ranks = job.ranks()
    filler = job.run_directory / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 12))
            except OSError:
                pass
        watch.wait_for("No space left on device while saving the checkpoint", 20 * PATIENCE, "a full disk")
        time.sleep(draw.uniform(0, 1))
    finally:
        filler.unlink()
    if job.ranks() != ranks and not job.has_finished():
        raise Fault("a full disk ended ranks")


def corrupt(job, draw):
    """The newest checkpoint is damaged, and a rank killed: the one before it must be taken, and that be said."""
    checkpoints = job.checkpoints()
    if len(checkpoints) < 2:
        return kill(job, draw)
    path = draw.choice(sorted(p for p in checkpoints[-1].iterdir() if p.is_file() and p.stat().st_size > 0))
    watch = Watch(job)
    if draw.random() < 0.5:
        os.truncate(path, draw.randrange(path.stat().st_size))
    else:
        with path.open("r+b") as file:
            file.seek(draw.randrange(path.stat().st_size))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x55]))
    seconds = kill(job, draw)
    if job.checkpoints()[-1] == path.parent:  # else a newer one was under way
        watch.wait_for("is damaged", 60, f"damage in {path}")
    return seconds


FAULTS = {"kill": kill, "hang": hang, "lose": lose, "add": add, "full": fill_disk, "corrupt": corrupt}


class SmallDisk:
    """A file system of a few megabytes as a run directory."""

    def __init__(self, path, mebibytes):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(self.path)], check=True)

    def close(self):
        subprocess.run(["umount", "--lazy", str(self.path)], check=False)
