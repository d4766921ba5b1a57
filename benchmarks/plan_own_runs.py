#!/usr/bin/env python3
"""What `trainctl plan --device here` predicts of layouts on a slow network, against runs of them. Nodes are network namespaces;
a token bucket limits what each sends. A rank has a core of its own, or a half of one where there are four. Needs root. Prints a
Markdown table; exit 1 where a step differs by over 10 %, or bubble or exposed communication by over 3 points of the step.

  plan_own_runs.py [--rates 400] [--rounds 3] [--steps 6] [--cases NAME …] [--trainctl PATH] [--json FILE]

Runs give the step's time and rank 0's exposed communication (metrics.jsonl); of a pipeline, `trainctl profile` splits what ranks wait
into bubble and transfers. The prediction is made beside as many others as there are ranks, so that they share the machine alike.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/acceptance"))
from nodes import Nodes, may_make_namespaces  # noqa: E402

STEP_BOUND, SHARE_BOUND = 0.10, 0.03
WARMUP = 3
EXPERIMENT = """\
name: own-run
device: {{kind: cpu, num_threads: 1}}
dataset: {{kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 128, vocab_size: 256, batch_size: 4}}
model: {{kind: gpt2, hidden_size: 384, num_layers: 6, num_heads: 6, max_position_embeddings: 128, dropout: 0, attention_dropout: 0}}
task: {{kind: causal_lm}}
optimizer: {{kind: adamw, lr: 1e-4, lr_scheduler: {{kind: constant}}}}
accumulation: {{steps: {accumulation}}}
train: {{steps: {steps}, log_every: 1}}
distributed: {{{distributed}}}
profiler: {{wait: 1, warmup: 2, active: 6}}
checkpoint: {{every: 100000}}
"""
NETWORK = """\
networks:
  - {{name: wire, domain: 8, link_gbs: {sums}, port_gbs: {sums}, gather_gbs: {gathers}, port_efficiency: 1, multiprocessor_share: {share}, source: measured}}
latencies: {{base_us: 0, step_within_us: {step}, step_between_us: {step}, tree_level_us: {step}, straggler_sigma: 0}}
"""
# name -> distributed section, micro-batches, ranks, ranks of a node
CASES = {
    "ddp": ("kind: ddp, bucket_mib: 2", 1, 2, 1),
    "ddp, one bucket": ("kind: ddp, bucket_mib: 1000", 1, 2, 1),
    "ddp, accumulation 4": ("kind: ddp, bucket_mib: 2", 4, 2, 1),
    "zero 1": ("kind: zero, stage: 1", 1, 2, 1),
    "zero 2": ("kind: zero, stage: 2", 1, 2, 1),
    "zero 3": ("kind: zero, stage: 3", 1, 2, 1),
    "context 2": ("kind: ddp, context: 2", 1, 2, 1),
    "tensor 2": ("kind: ddp, tensor: 2", 1, 2, 2),
    "tensor 2, sequence parallel": ("kind: ddp, tensor: 2, sequence_parallel: true", 1, 2, 2),
    "pipeline 2, gpipe": ("kind: ddp, pipeline: 2, pipeline_schedule: {kind: gpipe}", 4, 2, 1),
    "pipeline 2, 1f1b": ("kind: ddp, pipeline: 2", 8, 2, 1),
    "pipeline 2, interleaved": ("kind: ddp, pipeline: 2, pipeline_schedule: {kind: interleaved_1f1b}", 4, 2, 1),
    "pipeline 2, zbv": ("kind: ddp, pipeline: 2, pipeline_schedule: {kind: zbv}", 4, 2, 1),
    "ddp, 4 ranks": ("kind: ddp, bucket_mib: 2", 1, 4, 1),
    "zero 3, 4 ranks": ("kind: zero, stage: 3", 1, 4, 1),
    "data 2, pipeline 2": ("kind: ddp, pipeline: 2", 8, 4, 1),
    "pipeline 4": ("kind: ddp, pipeline: 4", 8, 4, 1),
}


# Collectives by Gloo: bytes per second of each rank in sums and in gathers, the share of products that a sum beside them costs, and the
# seconds of a sum of one number.
COLLECTIVES = """
import os, time, torch, torch.distributed as distributed
torch.set_num_threads(1)
distributed.init_process_group("gloo")
ranks = distributed.get_world_size()
large, small, part, square = torch.ones(2 << 20), torch.ones(1), torch.ones((2 << 20) // ranks), torch.ones(256, 256)
def seconds(call, times):
    call()
    distributed.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times
def products_per_second(is_done):
    begin, count = time.perf_counter(), 0
    while not is_done():
        square @ square
        count += 1
    return count / (time.perf_counter() - begin)
sent = 4 * large.numel() * (ranks - 1) / ranks
sums = seconds(lambda: distributed.all_reduce(large), 5)
gathers = seconds(lambda: distributed.all_gather_into_tensor(large, part), 5)
latency = seconds(lambda: distributed.all_reduce(small), 50)
shares = []
for _ in range(5):
    distributed.barrier()
    end = time.perf_counter() + sums
    alone = products_per_second(lambda: time.perf_counter() > end)
    distributed.barrier()
    shares.append(1 - products_per_second(distributed.all_reduce(large, async_op=True).is_completed) / alone)
print(2 * sent / sums, sent / gathers, sorted(shares)[2], latency, flush=True)
distributed.barrier()
os._exit(0)
"""


class CoreShare:
    """A share of a core that a process can't exceed: a cgroup."""

    def __init__(self, name, percent):
        places = [pathlib.Path("/sys/fs/cgroup/cpu") / name, pathlib.Path("/sys/fs/cgroup") / name]
        self.place = next((place for place in places if (place.parent / "cgroup.procs").exists()), None)
        self.percent = percent

    def __enter__(self):
        if self.place is None:
            sys.exit("plan_own_runs.py limits ranks by cgroups, and there are none at /sys/fs/cgroup")
        self.place.mkdir()
        period, quota = 10_000, 100 * self.percent
        if (self.place / "cpu.max").exists():
            (self.place / "cpu.max").write_text(f"{quota} {period}")
        else:
            (self.place / "cpu.cfs_period_us").write_text(str(period))
            (self.place / "cpu.cfs_quota_us").write_text(str(quota))
        return self

    def __exit__(self, *_):
        self.place.rmdir()

    def add_this_process(self):
        (self.place / "cgroup.procs").write_text(str(os.getpid()))


class Machine:
    """Starts a process for each rank on its node and its share of a core."""

    def __init__(self, nodes, ranks, per_node, shares):
        self.nodes, self.ranks, self.per_node, self.shares = nodes, ranks, per_node, shares

    def run(self, command, port):
        """The output of each rank; without a port, of processes that are none."""
        processes = []
        for rank in range(self.ranks):
            node, local = divmod(rank, self.per_node)
            env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo" if self.per_node == self.ranks else self.nodes.interfaces[node]}
            if port is not None:
                env |= {"RANK": str(rank), "WORLD_SIZE": str(self.ranks), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(self.per_node),
                        "MASTER_ADDR": "10.98.76.1", "MASTER_PORT": str(port)}
            share = self.shares[rank] if self.shares else None
            processes.append(subprocess.Popen(
                ["ip", "netns", "exec", self.nodes.names[node], "taskset", "-c", str(rank % os.cpu_count()), *map(str, command)], env=env,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=share.add_this_process if share else None))
        outputs = [process.communicate() for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(f"{' '.join(map(str, command))} failed:\n" + "\n".join(error for _, error in outputs))
        return [output for output, _ in outputs]


def measured(machine, options, config, directory):
    """Of a run: milliseconds of a step, and the shares of it that are exposed (with the bubble) and, of a pipeline, the bubble."""
    run_directory = tempfile.mkdtemp(dir=directory)
    machine.run([options.trainctl, "train", config, "--run-dir", run_directory, "--no-progress", "--resume", "never"], 29513)
    records = map(json.loads, (pathlib.Path(run_directory) / "metrics.jsonl").read_text().splitlines())
    steps = [record for record in records if record["event"] == "step"][WARMUP:]
    step_ms = statistics.median(step["step_ms"] for step in steps)
    waiting = statistics.median(step["exposed_communication_ms"] for step in steps)
    result = {"step_ms": step_ms, "waiting": waiting / step_ms}
    if "pipeline" in config.read_text():
        output = machine.run([options.trainctl, "profile", config, "--run-dir", tempfile.mkdtemp(dir=directory), "--json", "--no-progress"], 29514)[0]
        distributed = json.loads(output)["distributed"]
        ranks, step = distributed["pipeline"]["ranks"], statistics.mean(rank["step_ms"] for rank in distributed["ranks"])
        result["bubble"] = statistics.mean(rank["bubble_ms"] for rank in ranks) / step
    return result


def predicted(machine, options, config, network):
    outputs = machine.run([options.trainctl, "plan", config, "--world", machine.ranks, "--nodes-of", machine.per_node, "--device", "here",
                           "--network", network, "--json"], None)
    documents = [json.loads(output) for output in outputs]
    mean = lambda value: statistics.mean(map(value, documents))  # noqa: E731
    return {"step_ms": mean(lambda plan: plan["step_ms"]),
            "waiting": mean(lambda plan: (plan["ranks"][0]["bubble_ms"] + plan["ranks"][0]["exposed_ms"]) / plan["step_ms"]),
            "bubble": mean(lambda plan: statistics.mean(rank["bubble_ms"] for rank in plan["ranks"]) / plan["step_ms"])}


def measured_network(machine, per_node):
    """The entry of a network file, by stock PyTorch's collectives between the same places."""
    outputs = machine.run([ROOT / ".deps/python/bin/python3", "-W", "ignore", "-c", COLLECTIVES], 29517)
    sums, gathers, share, latency = (statistics.median(map(float, values)) for values in zip(*(output.split() for output in outputs)))
    steps = 2 * (machine.ranks - 1) if per_node > 1 else 2 * machine.ranks  # of a ring, as the simulator counts them
    return NETWORK.format(sums=sums / 1e9, gathers=gathers / 1e9, share=min(0.9, max(0, share)), step=1e6 * latency / steps)


def compare(options, name, rate):
    distributed, accumulation, ranks, per_node = CASES[name]
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nodes = stack.enter_context(Nodes(max(2, ranks // per_node)))
        nodes.limit_rate(rate, burst="80kb", loopback=True)
        nodes.acknowledge_at_once()
        shares = [stack.enter_context(CoreShare(f"trainctl-{os.getpid()}-{rank}", 50)) for rank in range(ranks)] if ranks > os.cpu_count() else []
        machine = Machine(nodes, ranks, per_node, shares)
        config, network = directory / "experiment.yaml", directory / "network.yaml"
        config.write_text(EXPERIMENT.format(distributed=distributed, accumulation=accumulation, steps=options.steps + WARMUP))
        rounds = []
        for _ in range(options.rounds):
            network.write_text(measured_network(machine, per_node))
            rounds.append((predicted(machine, options, config, network), measured(machine, options, config, directory)))
        return {"case": name, "rate": rate, "rounds": rounds, "predicted": medians([one for one, _ in rounds]),
                "measured": medians([one for _, one in rounds])}


def medians(documents):
    return {key: statistics.median(document[key] for document in documents) for key in documents[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[400], help="Mbit/s")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3, help="of predicting and running in turn, of which the medians count")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not may_make_namespaces():
        sys.exit("plan_own_runs.py makes network namespaces: it needs root and iproute2")
    print("| layout | wire, Mbit/s | predicted ms | measured ms | error | waiting, predicted | measured | bubble, predicted | measured |\n|" + " --- |" * 9)
    results = []
    for rate in options.rates:
        for name in options.cases:
            results.append(compare(options, name, rate))
            print(row(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(is_beyond(result) for result in results))


def error_of(result):
    return result["predicted"]["step_ms"] / result["measured"]["step_ms"] - 1


def is_beyond(result):
    shares = [key for key in ("waiting", "bubble") if key in result["measured"]]
    return abs(error_of(result)) > STEP_BOUND or any(abs(result["predicted"][key] - result["measured"][key]) > SHARE_BOUND for key in shares)


def row(result):
    predicted_, measured_ = result["predicted"], result["measured"]
    bubble = f"{100 * predicted_['bubble']:.1f} % | {100 * measured_['bubble']:.1f} %" if "bubble" in measured_ else "- | -"
    mark = "**" if is_beyond(result) else ""
    return (f"| {mark}{result['case']}{mark} | {result['rate']} | {predicted_['step_ms']:.0f} | {measured_['step_ms']:.0f} | {100 * error_of(result):+.1f} % | "
            f"{100 * predicted_['waiting']:.1f} % | {100 * measured_['waiting']:.1f} % | {bubble} |")


if __name__ == "__main__":
    main()
