#!/usr/bin/env python3
"""What MLflow's server costs a training: healthy, slow, refusing, hung and killed, against no delivery at all.

  tracker_step_time.py --peers DIR [--minutes 5] [--period 2] [--delay 2] [--json FILE]

One training runs all the time, with MLflow behind a proxy. Every period the state changes, in a new order each cycle:
  none      the tracking process is stopped (SIGSTOP), so nothing is delivered
  healthy   the server answers
  slow      the proxy holds each packet for --delay seconds
  refusing  the proxy closes each connection at once, as a dead server's machine does
  hung      the server is stopped (SIGSTOP)
After half of the time the server is killed and started again. A step's time in a state is the first decile of its records: other programs on the machine
only add time. The table has its ratio to that of `none`, with the 95 % interval by bootstrap over cycles. At the end `trainctl track` delivers the rest.
Exit code 1 if a number is lost. DIR is as in tracker_equality.py.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from tracker_equality import READ_MLFLOW, TRAINCTL, MlflowServer, differences, peers, read, recorded

EXPERIMENT = """
name: equality
seed: 1
dataset: {{kind: synthetic_images, num_samples: 4096, num_eval_samples: 0, channels: 1, height: 16, width: 16, num_classes: 10, batch_size: 32, num_workers: 1}}
model: {{kind: mlp, hidden: [128]}}
train: {{steps: 100000000, log_every: {log_every}}}
device: {{kind: cpu, num_threads: 1}}
tracking: {{mlflow: {{server: '{server}'}}, flush_timeout_s: 2}}
"""
STATES = ("none", "healthy", "slow", "refusing", "hung")
LOG_EVERY = 25
SETTLING_S = 0.2  # after a change of state, left out


class Proxy:
    """Passes connections on to a server; `state` says how."""

    def __init__(self, port, delay_s):
        self.target, self.delay_s, self.state = ("127.0.0.1", port), delay_s, "healthy"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                if self.state == "refusing":
                    raise OSError("refused")
                server = socket.create_connection(self.target, timeout=30)
            except OSError:
                client.close()
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                time.sleep(self.delay_s if self.state == "slow" else 0)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                end.close()


def tracking_process(training):
    """The id of the training's child, once it has started it."""
    children = pathlib.Path(f"/proc/{training.pid}/task/{training.pid}/children")
    for _ in range(600):
        for child in children.read_text().split():
            if b"--follow" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.1)
    sys.exit("the training has started no tracking process")


class Switch:
    """Changes the state, and remembers when."""

    def __init__(self, child, proxy, server):
        self.child, self.proxy, self.server = child, proxy, server
        self.periods = []  # (cycle, state, begin, end)

    def hold(self, cycle, state, seconds):
        self.proxy.state = state if state in ("slow", "refusing") else "healthy"
        if state == "none":
            os.kill(self.child, signal.SIGSTOP)
        if state == "hung":
            self.server.signal(signal.SIGSTOP)
        begin = time.time()
        time.sleep(seconds)
        self.periods.append((cycle, state, begin + SETTLING_S, time.time()))
        if state == "none":
            os.kill(self.child, signal.SIGCONT)
        if state == "hung":
            self.server.signal(signal.SIGCONT)
        self.proxy.state = "healthy"


def run(directory, python, options):
    """Returns the periods, the run directory, and the numbers that are lost."""
    server = MlflowServer(python, directory)
    proxy = Proxy(server.port, options.delay)
    config, run_directory = directory / "steps.yaml", directory / "run"
    config.write_text(EXPERIMENT.format(server=proxy.address, log_every=LOG_EVERY))
    training = subprocess.Popen([TRAINCTL, "train", config, "--run-dir", run_directory, "--log-level", "warning"], stderr=subprocess.DEVNULL, cwd=directory)
    try:
        switch = Switch(tracking_process(training), proxy, server)
        end = time.monotonic() + 60 * options.minutes
        kill_at = time.monotonic() + 30 * options.minutes
        cycle = 0
        while time.monotonic() < end:
            for state in random.sample(STATES, len(STATES)):
                switch.hold(cycle, state, options.period)
            cycle += 1
            if kill_at is not None and time.monotonic() > kill_at:
                server.stop()
                server = switch.server = MlflowServer(python, directory, server.port)
                kill_at = None
        training.send_signal(signal.SIGINT)
        training.wait(60)
        subprocess.run([TRAINCTL, "track", run_directory, "--to", "mlflow"], check=True, stdout=subprocess.DEVNULL)
        expected = recorded(run_directory)
        lost = differences(expected, read(python, READ_MLFLOW, server.address))
        return switch.periods, run_directory, len(lost), sum(map(len, expected.values()))
    finally:
        training.kill()
        server.stop()


def steps_by_cycle(periods, run_directory):
    """Of each state: for each cycle, the steps' times of the records that lie within its period."""
    records = [json.loads(line) for line in (run_directory / "metrics.jsonl").read_text().splitlines()]
    steps = {state: {} for state in STATES}
    for cycle, state, begin, end in periods:
        steps[state][cycle] = [record["step_ms"] for record in records
                               if begin + record["step_ms"] * LOG_EVERY / 1e3 < record["time"] < end]
    return steps


def first_decile(cycles, chosen):
    return statistics.quantiles([step for cycle in chosen for step in cycles[cycle]], n=10)[0]


def ratio(steps, state):
    """Of first deciles, with the 95 % interval by bootstrap over cycles."""
    cycles = sorted(steps[state])

    def of(chosen):
        return first_decile(steps[state], chosen) / first_decile(steps["none"], chosen)

    resampled = sorted(of(random.choices(cycles, k=len(cycles))) for _ in range(1000))
    return of(cycles), resampled[25], resampled[974]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--period", type=float, default=2, help="seconds of a state")
    parser.add_argument("--delay", type=float, default=2, help="seconds that the slow proxy holds a packet")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    python = peers(options.peers.resolve())["mlflow==3.17.2"]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tracker-step-time-"))
    try:
        periods, run_directory, num_lost, num_numbers = run(directory, python, options)
        steps = steps_by_cycle(periods, run_directory)
    finally:
        shutil.rmtree(directory)
    print("| server | step ms | step / step without delivery | 95 % interval | records |\n|---|---|---|---|---|")
    for state in STATES:
        middle, low, high = ratio(steps, state)
        count = sum(map(len, steps[state].values()))
        print(f"| {state} | {first_decile(steps[state], steps[state]):.4f} | {middle:.4f} | {low:.4f} to {high:.4f} | {count} |")
    print(f"\n{num_lost} of {num_numbers} numbers lost")
    if options.json:
        options.json.write_text(json.dumps({"steps_ms": steps, "lost": num_lost, "numbers": num_numbers}, indent=1) + "\n")
    sys.exit(num_lost > 0)


if __name__ == "__main__":
    main()
