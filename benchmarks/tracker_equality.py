#!/usr/bin/env python3
"""Trains once with every tracker, and compares what each tracker's own reader reads with metrics.jsonl, number for number.

  benchmarks/tracker_equality.py --peers DIR [--output FILE.json]

DIR keeps an environment for each line of third_party/pins/trackers.txt, which pip makes there at the first call. TensorBoard is that of .deps/python.
MLflow's server is a real one, over SQLite.
W&B's file is read by the last DataStore in Python, and by `wandb sync` of today, which sends it to wandb_server.py on this machine. A number is equal if its double is; TensorBoard holds floats, so there the double rounded to a float.
Exit code 1 if a number differs.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

from wandb_server import WandbServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINCTL = os.environ.get("TRAINCTL", str(ROOT / "build/release/bin/trainctl"))
PINS = ROOT / "third_party/pins/trackers.txt"
EXPERIMENT = """
name: equality
seed: 1
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 256, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [32]}
train: {steps: 600, log_every: 1, eval_every: 50}
device: {kind: cpu, num_threads: 1}
tracking: {csv: true, wandb: {}, trackio: {}, mlflow: {server: 'SERVER'}, flush_timeout_s: 300}
"""

# Each prints {"train/loss": {"10": 0.5}, ...}, or the like, as JSON.
READ_TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: {item.step: item.value for item in events.Scalars(tag)} for tag in events.Tags()["scalars"]}))
"""
READ_WANDB = """
import json, sys
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore
store, curves = DataStore(), {}
store.open_for_scan(sys.argv[1])
while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record.FromString(data)
    row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
    for name, value in row.items():
        if not name.startswith("_"):
            curves.setdefault(name, {})[row["_step"]] = value
print(json.dumps(curves))
"""
READ_MLFLOW = """
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
(run,) = client.search_runs([client.get_experiment_by_name("equality").experiment_id])
print(json.dumps({name: {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)} for name in run.data.metrics}))
"""
READ_TRACKIO = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("equality")
curves = {}
for log in SQLiteStorage.get_logs("equality", run.name, run_id=run.id):
    for name, value in log.items():
        if name not in ("timestamp", "step"):
            curves.setdefault(name, {})[log["step"]] = value
print(json.dumps(curves))
"""


def peers(directory):
    """The Python of each pinned peer, in an environment that is made if it is missing."""
    found = {}
    for line in PINS.read_text().splitlines():
        if line.startswith("#"):
            continue
        python = directory / line / "bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", directory / line], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", line], check=True)
        found[line] = python
    return found


def read(python, script, *arguments, **environment):
    result = subprocess.run([python, "-c", script, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment})
    if result.returncode != 0:
        sys.exit(f"{python} failed:\n{result.stderr}")
    return {name: {int(step): value for step, value in curve.items()} for name, curve in json.loads(result.stdout.splitlines()[-1]).items()}


def recorded(run):
    curves = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        kind = "train" if record["event"] == "step" else record["event"]
        for key, value in record.items():
            if key not in ("event", "step", "time", "non_finite"):
                curves.setdefault(f"{kind}/{key}", {})[record["step"]] = value
    return curves


def rounded_to_float(curves):
    return {name: {step: struct.unpack("f", struct.pack("f", value))[0] for step, value in curve.items()} for name, curve in curves.items()}


def differences(expected, got):
    """(name, step) of each number that differs or is only in one."""
    points = {(name, step) for curves in (expected, got) for name, curve in curves.items() for step in curve}
    return [(name, step) for name, step in sorted(points)
            if got.get(name, {}).get(step, math.nan) != expected.get(name, {}).get(step, math.nan)]


class MlflowServer:
    """A real server over SQLite."""

    def __init__(self, python, directory, port=None):
        if port is None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.log = open(directory / "mlflow.log", "wb")
        self.process = subprocess.Popen([python, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", "--backend-store-uri",
                                         f"sqlite:///{directory}/mlflow.db", "--default-artifact-root", directory / "artifacts"],
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        for _ in range(480):
            try:
                urllib.request.urlopen(self.address + "/health", timeout=1)
                return
            except OSError:
                time.sleep(0.5)
        sys.exit(f"MLflow's server does not start: {directory}/mlflow.log")

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def stop(self):
        if self.process.poll() is None:
            self.signal(9)
        self.process.wait()
        self.log.close()


def sync(wandb, folder, environment):
    """Sends a run with `wandb sync`, after a dry run of it, and returns the curves that the server got."""
    server = WandbServer()
    environment = {**os.environ, **environment, "WANDB_BASE_URL": server.address, "WANDB_API_KEY": 40 * "0"}
    for options in (["--dry-run"], []):
        result = subprocess.run([wandb, "sync", *options, folder.resolve()], capture_output=True, text=True, env=environment, cwd=folder.parent, timeout=300)
        print("".join(line for line in result.stderr.splitlines(keepends=True) if "ync" in line), end="")
        if result.returncode != 0:
            sys.exit(f"wandb sync failed:\n{result.stderr}")
    if not server.is_complete:
        sys.exit("wandb sync has not completed the run")
    return server.curves()


def compare(directory, pythons):
    server = MlflowServer(pythons["mlflow==3.17.2"], directory)
    try:
        config, run = directory / "equality.yaml", directory / "run"
        config.write_text(EXPERIMENT.replace("SERVER", server.address))
        environment = {"TRACKIO_DIR": str(directory / "trackio"), "HOME": str(directory)}
        subprocess.run([TRAINCTL, "train", config, "--run-dir", run, "--no-progress"], check=True, env={**os.environ, **environment})
        (log,) = run.glob("wandb/offline-run-*/run-*.wandb")
        synced = sync(pythons["wandb==0.31.0"].parent / "wandb", log.parent, environment)
        expected = recorded(run)
        results = {
            "tensorboard": (rounded_to_float(expected), read(ROOT / ".deps/python/bin/python3", READ_TENSORBOARD, run / "tensorboard")),
            "wandb 0.21.0's DataStore": (expected, read(pythons["wandb==0.21.0"], READ_WANDB, log)),
            "wandb 0.31.0's sync": (expected, synced),
            "mlflow": (expected, read(pythons["mlflow==3.17.2"], READ_MLFLOW, server.address)),
            "trackio": (expected, read(pythons["trackio==0.43.0"], READ_TRACKIO, **environment)),
        }
    finally:
        server.stop()
    report = {}
    for name, (wanted, got) in results.items():
        wrong = differences(wanted, got)
        report[name] = {"curves": len(got), "numbers": sum(map(len, got.values())), "differences": len(wrong)}
        print(f"{name}: {report[name]['curves']} curves, {report[name]['numbers']} numbers, {len(wrong)} differ {wrong[:3] or ''}")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="directory of the peers' environments")
    parser.add_argument("--output", type=pathlib.Path, help="file for the report as JSON")
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tracker-equality-"))
    try:
        report = compare(directory, peers(options.peers.resolve()))
    finally:
        shutil.rmtree(directory)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(any(entry["differences"] for entry in report.values()))


if __name__ == "__main__":
    main()
