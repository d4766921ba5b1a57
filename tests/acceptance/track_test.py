"""Trackers as functions of a run directory: live, later, and whatever MLflow's server does."""
import csv
import json
import pathlib
import signal
import sqlite3
import unittest

from mlflow_server import MlflowServer
from trainctl_process import run, start, temporary_directory, write_experiment
from waits import ReservedPort, num_records, wait_for

EXPERIMENT = """
name: tracked
seed: 1
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 64, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [16]}
train: {steps: %d, log_every: %d, eval_every: %d}
device: {kind: cpu, num_threads: 1}
tracking: {%s}
"""
PATIENT = "flush_timeout_s: 120"  # that all is delivered live on a busy machine, too


def recorded(run_directory):
    """metrics.jsonl as curves: each name's values by step."""
    curves = {}
    for line in (run_directory / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        kind = "train" if record["event"] == "step" else record["event"]
        for key, value in record.items():
            if key not in ("event", "step", "time", "non_finite"):
                curves.setdefault(f"{kind}/{key}", {})[record["step"]] = value
    return curves


def of_table(path):
    curves = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if name not in ("step", "time") and value:
                    curves.setdefault(name, {})[int(row["step"])] = float(value)
    return curves


def of_trackio(path):
    curves = {}
    for step, metrics in sqlite3.connect(path).execute("SELECT step, metrics FROM metrics ORDER BY id"):
        for name, value in json.loads(metrics).items():
            curves.setdefault(name, {})[step] = value
    return curves


class Track(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        self.environment = {"TRACKIO_DIR": str(self.root / "trackio")}

    def serve(self, **options):
        server = MlflowServer(**options)
        self.addCleanup(server.stop)
        return server

    def experiment(self, tracking="", steps=40, log_every=2, eval_every=10):
        return write_experiment(self.root, EXPERIMENT % (steps, log_every, eval_every, tracking))

    def train(self, config, *arguments):
        result = run("train", config, "--run-dir", self.root / "run", *arguments, cwd=self.root, env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def track(self, *arguments):
        result = run("track", self.root / "run", *arguments, cwd=self.root, env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_each_tracker_has_the_numbers_live_and_later(self):
        server = self.serve()
        self.train(self.experiment(f"csv: true, wandb: {{}}, trackio: {{}}, mlflow: {{server: '{server.address}'}}, {PATIENT}"))
        expected = recorded(self.root / "run")
        params = dict(next(iter(server.runs.values()))["params"])
        for _ in ("live", "later"):
            self.assertEqual(of_table(self.root / "run/metrics.csv"), expected)
            self.assertEqual(server.curves(), expected)
            self.assertEqual(of_trackio(self.root / "trackio/tracked.db"), expected)
            (first,) = (self.root / "run/wandb").glob("offline-run-*/run-*.wandb")
            said = self.track("--to", "csv,wandb,mlflow,trackio,tensorboard", "--from-start")
            self.assertEqual(said.count("24 records,"), 5, said)
        (second,) = (self.root / "run/wandb").glob("offline-run-*/run-*.wandb")
        self.assertEqual(first, second)
        (mlflow,) = server.runs.values()
        self.assertEqual(mlflow["params"], params)
        self.assertEqual(mlflow["info"]["status"], "FINISHED")
        self.assertEqual(mlflow["params"]["dataset.batch_size"], "8")
        self.assertEqual(self.track("--to", "csv,mlflow").count("0 records,"), 2)

    def test_a_resumed_run_is_delivered_as_it_came_last(self):
        server = self.serve()
        tracking = f"csv: true, trackio: {{}}, mlflow: {{server: '{server.address}'}}, {PATIENT}"
        self.train(self.experiment(tracking, steps=20), "--set", "checkpoint.every=8", "--set", "checkpoint.keep_last=9")
        self.train(self.experiment(tracking, steps=30), "--resume", next((self.root / "run/checkpoints").glob("step_*8")))
        expected = recorded(self.root / "run")
        self.assertEqual(len(expected["train/loss"]), 15)
        self.assertEqual(of_table(self.root / "run/metrics.csv"), expected)
        self.assertEqual(of_trackio(self.root / "trackio/tracked.db"), expected)
        self.assertEqual(server.curves(), expected)

    def test_a_server_that_is_down_is_told_and_the_rest_is_delivered_later(self):
        port = self.enterContext(ReservedPort())
        told = self.train(self.experiment(f"mlflow: {{server: 'http://127.0.0.1:{port}'}}, flush_timeout_s: 0.5", steps=8))
        self.assertRegex(told, r"warning: tracking: 5 records are not delivered to mlflow; `trainctl track \S+ --to mlflow` delivers them")
        failed = run("track", self.root / "run", "--to", "mlflow", env=self.environment)
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, "trainctl: cannot reach http://127.0.0.1:[0-9]+/api/2.0/mlflow/experiments/get-by-name: .*refused|onnect")
        server = self.serve(port=port)
        self.track("--to", "mlflow")
        self.assertEqual(server.curves(), recorded(self.root / "run"))

    def test_a_server_that_hangs_holds_up_nothing(self):
        server = self.serve()
        server.hangs.set()
        told = self.train(self.experiment(f"mlflow: {{server: '{server.address}'}}, flush_timeout_s: 1", steps=8))
        self.assertTrue(server.hangs.is_set(), "the run has ended before the server answers")
        self.assertIn("records are not delivered to mlflow", told)
        server.hangs.clear()
        self.track("--to", "mlflow")
        self.assertEqual(server.curves(), recorded(self.root / "run"))
        self.assertEqual(len(server.runs), 1)

    def test_a_run_that_is_killed_is_delivered_by_its_tracking_process(self):
        server = self.serve()
        config = self.experiment(f"mlflow: {{server: '{server.address}'}}", steps=1_000_000, log_every=50, eval_every=0)
        process = start("train", config, "--run-dir", self.root / "run", cwd=self.root)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.root / "run") > 3, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        metrics_at_end = recorded(self.root / "run")
        wait_for(lambda: server.runs and server.curves() == metrics_at_end)

    def test_credentials_reach_the_server_and_nothing_else(self):
        server = self.serve()
        self.environment |= {"MLFLOW_TRACKING_USERNAME": "anne", "MLFLOW_TRACKING_PASSWORD": "geheim77"}
        self.train(self.experiment(f"mlflow: {{server: '{server.address}'}}, {PATIENT}", steps=4))
        self.assertEqual(server.authorization, {"Basic YW5uZTpnZWhlaW03Nw=="})
        self.environment |= {"MLFLOW_TRACKING_TOKEN": "geheim78"}
        server.refuses = True
        refused = run("track", self.root / "run", "--to", "mlflow", "--from-start", env=self.environment)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("PERMISSION_DENIED: Permission denied\n  try: set MLFLOW_TRACKING_TOKEN", refused.stderr)
        self.assertIn("Bearer geheim78", server.authorization)
        for path in [*(self.root / "run").rglob("*")]:
            if path.is_file():
                self.assertNotIn(b"geheim", path.read_bytes(), path)

    def test_wrong_uses_are_refused(self):
        for tracking, code, expected in (("mlflow: {}", 1, "no MLflow server is named"),
                                         ("mlflow: {server: mlruns}", 2, "tracking.mlflow.server: expected http:// or https://, got mlruns")):
            result = run("train", self.experiment(tracking), "--run-dir", self.root / "wrong", env=self.environment)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(expected, result.stderr)
        self.train(self.experiment(steps=4))
        result = run("track", self.root / "run", "--to", "mlflow", "--server", "http://anne:geheim@localhost")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no user and password in the address", result.stderr)
        self.assertNotIn("geheim", result.stderr)
        self.assertEqual(run("track", self.root, "--to", "csv").returncode, 2)
        self.assertEqual(run("track", self.root, "--to", "comet").returncode, 2)


if __name__ == "__main__":
    unittest.main()
