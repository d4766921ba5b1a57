"""A small training under torchrun whose nodes are agents on this machine, to be killed, stopped, lost and added (chaos.py)."""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
# How many times as long all may take as on a machine of its own: the acceptance test, beside others, asks who is named, and not how soon.
PATIENCE = float(os.environ.get("CHAOS_PATIENCE", "1"))
TIMEOUT_S = 6 * PATIENCE  # of a collective
STEPS = 420
# SGD at a low learning rate, so that rounding stays rounding: under AdamW at 2e-3, runs of the same samples whose sums round
# differently part by up to 2.5e-3 after 420 steps; under this rule by less than 1e-6, on every instruction set.
RULE = "kind: sgd, momentum: 0.9, lr: 5e-3"
GLOBAL_BATCH = 48
SAMPLES = 10_000  # of an epoch
EXPERIMENT = f"""
name: chaos
seed: 11
dataset:
  kind: idx
  train: {{images: {DATA}/t10k-images-idx3-ubyte.gz, labels: {DATA}/t10k-labels-idx1-ubyte.gz}}
  eval: {{images: {DATA}/t10k-images-idx3-ubyte.gz, labels: {DATA}/t10k-labels-idx1-ubyte.gz}}
  num_workers: 1
  transforms: [{{kind: random_crop, padding: 2}}, {{kind: normalize}}]
model: {{kind: cnn, channels: [8], hidden: 32, dropout: 0.1}}
task: {{kind: classification}}
optimizer: {{{RULE}, clip_norm: 1.0, lr_scheduler: {{kind: cosine, warmup: 20}}}}
train: {{steps: {STEPS}, eval_every: {STEPS}, log_every: 1}}
checkpoint: {{every: 25, keep_last: 3}}
tracking: {{log_sample_ids: true}}
device: {{kind: cpu, num_threads: 1}}
distributed: {{timeout_s: {TIMEOUT_S}}}
"""
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def clean_environment():
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCHERS and not k.startswith(("SLURM_", "OMPI_", "PMI", "TORCHELASTIC"))}
    return {**kept, "OMP_NUM_THREADS": "1"}


def end(process):
    """Of its whole session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Rendezvous:
    """Where the agents of all runs meet: it outlives every node."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, ROOT / "scripts/launch/rendezvous_store.py", "0"], stdout=subprocess.PIPE,
                                        text=True, start_new_session=True, env=clean_environment())
        self.port = int(self.process.stdout.readline().split()[-1])

    def close(self):
        end(self.process)
        self.process.stdout.close()


class Job:
    """One run. Agents are its nodes; `log(agent)` is what a node's terminal showed, rank 0's words among it."""

    def __init__(self, options, rendezvous, directory, nodes, *, most_nodes=0, settings=()):
        """`nodes`: how many ranks each begins with; up to `most_nodes` may be there later."""
        self.options = options
        self.rendezvous = rendezvous
        self.directory = directory
        self.run_directory = directory / "run"
        self.most_nodes = max(most_nodes, len(nodes))
        self.settings = [f"dataset.batch_size={GLOBAL_BATCH // sum(nodes)}", *settings]
        self.agents = []
        self.config = directory / "chaos.yaml"
        self.config.write_text(EXPERIMENT)
        for ranks in nodes:
            self.add_node(ranks)

    def add_node(self, ranks):
        log = (self.directory / f"agent_{len(self.agents)}.log").open("w")
        env = {**clean_environment(), "TRAINCTL": str(self.options.trainctl), "TORCHRUN": f"{shlex.quote(str(self.options.python))} -m torch.distributed.run",
               "NNODES": f"1:{self.most_nodes}", "NPROC": str(ranks), "RESTARTS": "20", "JOB": f"chaos-{self.directory.name}",
               "RENDEZVOUS": f"127.0.0.1:{self.rendezvous.port}",
               "RENDEZVOUS_CONF": f"is_host=0,last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt={round(3 * min(PATIENCE, 5))}"}
        self.agents.append(subprocess.Popen(
            [ROOT / "scripts/launch/torchrun.sh", self.config, "--run-dir", self.run_directory, "--no-progress", *self.options_of_trainctl()],
            env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))
        log.close()

    def options_of_trainctl(self):
        return [word for setting in self.settings for word in ("--set", setting)]

    def log(self, agent):
        return self.directory / f"agent_{agent}.log"

    def logs(self):
        return [self.log(i) for i in range(len(self.agents))] + sorted((self.run_directory / "logs").glob("rank_*.log"))

    def living_agents(self):
        return [i for i, agent in enumerate(self.agents) if agent.poll() is None]

    def ranks(self):
        """rank -> (process id, agent) of those that run now."""
        found = {}
        for i, agent in enumerate(self.agents):
            try:
                children = pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
            except FileNotFoundError:  # it has ended
                continue
            for child in children:
                try:
                    is_rank = b"train\0" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                    variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0") if is_rank else []
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found.update({int(v[5:]): (int(child), i) for v in variables if v.startswith(b"RANK=")})
        return found

    def records(self, event="step"):
        try:
            lines = (self.run_directory / "metrics.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:  # being written
                continue
        return [r for r in found if r["event"] == event]

    def last_step(self):
        try:
            with (self.run_directory / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
                steps = re.findall(rb'"event":"step","step":(\d+)', file.read())
        except FileNotFoundError:
            return 0
        return int(steps[-1]) if steps else 0

    def has_finished(self):
        try:
            return json.loads((self.run_directory / "summary.json").read_text())["outcome"] == "finished"
        except (FileNotFoundError, json.JSONDecodeError):
            return False

    def checkpoints(self):
        """Complete ones, oldest first."""
        return sorted(p for p in (self.run_directory / "checkpoints").glob("step_*") if ".tmp" not in p.name)

    def wait_for_training(self, step, limit_s=90 * PATIENCE):
        """Until it is at `step` or further, and the same ranks have made several steps of late; False where it ends before."""
        deadline = time.monotonic() + limit_s
        ranks, at, since = {}, 0, 0.0
        while time.monotonic() < deadline and not self.has_finished() and self.living_agents():
            now, last = self.ranks(), self.last_step()
            if not now or now != ranks or last < at:
                ranks, at, since = now, last, time.monotonic()
            if ranks and last >= max(step, at + 5) and time.monotonic() - since > 0.5:
                return True
            time.sleep(0.05)
        return False

    def wait_for_end(self, limit_s):
        """Whether it finished and a node knows that."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if any(agent.poll() == 0 for agent in self.agents) and self.has_finished():
                return True
            if not self.living_agents():
                return False
            time.sleep(0.05)
        return False

    def close(self):
        for agent in self.agents:
            end(agent)
