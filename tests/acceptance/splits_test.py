"""Sets beside the training set: eval --split, a test set that training never reads, folds, and the average of checkpoints."""
import json
import pathlib
import random
import shutil
import signal
import statistics
import unittest

from trainctl_process import run, start, temporary_directory
from waits import PATIENCE_S, wait_for

EXPERIMENT = """name: people
dataset: {kind: table, train: [people.csv], label: label, batch_size: 16, num_workers: 0}
model: {kind: mlp, hidden: [8]}
task: {metrics: [accuracy, auroc]}
train: {epochs: 2}
checkpoint: {every: 5, keep_last: 3}
"""


class Splits(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        random.seed(5)
        (self.root / "people.csv").write_text("a,b,label\n" + self.rows(203))
        (self.root / "p.yaml").write_text(EXPERIMENT)

    @staticmethod
    def rows(count):
        values = [(random.gauss(0, 1), random.gauss(0, 1)) for _ in range(count)]
        return "".join(f"{a:.4f},{b:.4f},{'yes' if a + b + random.gauss(0, 1) > 0.8 else 'no'}\n" for a, b in values)

    def call(self, *arguments, code=0):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stderr}")
        return result

    def samples(self, *arguments):
        return json.loads(self.call("eval", *arguments, "--json").stdout)["details"]["num_samples"]

    def test_each_set_is_evaluated_apart(self):
        self.call("train", "p.yaml", "--run-dir", "run", "--set", "dataset.eval_fraction=0.2", "--set", "dataset.test_fraction=0.2")
        sizes = [self.samples("run", "--split", split) for split in ("train", "eval", "test")]
        self.assertEqual(sum(sizes), 203)
        self.assertTrue(all(20 < size < 60 for size in sizes[1:]), sizes)
        self.assertEqual(self.samples("run", "--split", "validation"), sizes[1])
        self.assertEqual(self.samples("run"), sizes[1])
        self.assertIn("test set, ", self.call("eval", "run", "--split", "test").stdout)

    def test_a_test_set_of_its_own_is_not_read_in_training(self):
        self.call("train", "p.yaml", "--run-dir", "run", "--set", "dataset.test=[absent.csv]")
        self.assertIn("absent.csv", self.call("check", "p.yaml", "--set", "dataset.test=[absent.csv]", code=2).stderr)
        (self.root / "absent.csv").write_text("a,b,label\n" + self.rows(12))
        self.assertEqual(self.samples("run", "--split", "test"), 12)
        self.call("train", "p.yaml", "--run-dir", "other")
        refusal = self.call("eval", "other", "--split", "test", code=1).stderr
        self.assertIn("the experiment names no test set", refusal)
        self.assertIn("dataset.test", refusal)

    def test_folds_give_a_run_its_evaluation_set(self):
        evaluates = ("--set", "train.eval_every=4", "--set", "checkpoint.best={metric: accuracy}")
        self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds", *evaluates)
        kept = ("--set", "train.early_stopping={patience: 2}", "--set", "dataset.eval_fraction=0.1")
        self.assertNotIn("no evaluation set", self.call("train", "p.yaml", "--folds", "2", *evaluates, *kept, code=2).stderr)

    def test_folds_give_mean_and_sample_deviation(self):
        document = json.loads(self.call("train", "p.yaml", "--folds", "4", "--run-dir", "folds", "--json").stdout)
        self.assertEqual(document["outcome"], "finished")
        self.assertEqual(list(document["final_metrics"]), ["loss", "accuracy", "auroc"])
        for name, metric in document["final_metrics"].items():
            values = [json.loads((self.root / f"folds/fold_{i}/summary.json").read_text())["final_metrics"][name] for i in range(4)]
            self.assertEqual(metric["values"], values)
            self.assertAlmostEqual(metric["mean"], statistics.mean(values), delta=1e-12)
            self.assertAlmostEqual(metric["std"], statistics.stdev(values), delta=1e-12)
        confusion = [json.loads((self.root / f"folds/fold_{i}/evaluation.json").read_text())["details"]["confusion"] for i in range(4)]
        for label in (0, 1):
            counts = [sum(rows[label]) for rows in confusion]
            self.assertLessEqual(max(counts) - min(counts), 1)
        self.assertEqual(sum(sum(map(sum, rows)) for rows in confusion), 203)
        # Each fold is a run like any other.
        fold = json.loads(self.call("eval", "folds/fold_2", "--json").stdout)["metrics"]
        self.assertAlmostEqual(fold["auroc"], document["final_metrics"]["auroc"]["values"][2], delta=1e-9)
        again = self.call("train", "p.yaml", "--folds", "4", "--run-dir", "folds")
        self.assertEqual(again.stderr.count("has finished already"), 4)
        self.assertIn("4 folds in folds, last evaluation of each:", again.stdout)
        self.assertRegex(again.stdout, r"accuracy +0\.\d+ +0\.\d+")
        self.call("train", "p.yaml", "--folds", "3", "--run-dir", "folds", code=1)
        self.call("train", "p.yaml", "--folds", "3", "--set", "dataset.eval_fraction=0.1", code=2)
        (self.root / "share.yaml").write_text(EXPERIMENT.replace("num_workers: 0", "num_workers: 0, eval_fraction: 0.1"))
        share = self.call("train", "share.yaml", "--folds", "2", "--run-dir", "shared")
        self.assertIn("the folds take the place of dataset.eval_fraction", share.stderr)

    def test_other_runs_are_no_folds(self):
        self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds")
        record = (self.root / "folds/folds.json").read_text()
        # A finished run of another experiment in the place of a fold.
        shutil.rmtree(self.root / "folds/fold_1")
        self.call("train", "p.yaml", "--run-dir", "folds/fold_1", "--set", "train.epochs=1", "--set", "dataset.eval_fraction=0.2")
        self.assertIn("fold_1 holds a run of another experiment", self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds", code=1).stderr)
        (self.root / "folds/folds.json").write_text(record[:20])
        self.assertIn("folds.json is damaged", self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds", code=1).stderr)
        (self.root / "folds/folds.json").unlink()
        self.assertIn("folds.json, which describes the folds, is missing", self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds", code=1).stderr)

    def test_folds_of_other_data_are_refused(self):
        self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds")
        table = self.root / "people.csv"
        rows = table.read_text()
        # More rows, and the same number of rows of which one is another.
        for changed in (rows + self.rows(10), rows.replace(",yes", ",no", 1)):
            table.write_text(changed)
            shutil.rmtree(self.root / "folds/fold_1", ignore_errors=True)
            refused = self.call("train", "p.yaml", "--folds", "2", "--run-dir", "folds", code=1).stderr
            self.assertIn("fold_1 divides other samples than folds/fold_0: the data changed between the folds", refused)

    def test_stopped_folds_go_on(self):
        long = ["--set", "train.epochs=4000", "--set", "train.early_stopping=null"]
        process = start("train", "p.yaml", "--folds", "2", *long, cwd=self.root)
        self.addCleanup(process.kill)
        wait_for(lambda: list(self.root.glob("runs/people/*/fold_0/checkpoints/latest")), process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertIn("fold 1 of 2 was stopped; the same command goes on with it", stderr)
        (parent,) = self.root.glob("runs/people/*")
        self.assertEqual(json.loads((parent / "folds.json").read_text())["outcome"], "unfinished")
        damaged = self.root / "runs/people/damaged"
        damaged.mkdir()
        (damaged / "folds.json").write_text("{")
        records = parent / "fold_0/metrics.jsonl"
        before = records.stat().st_size
        process = start("train", "p.yaml", "--folds", "2", *long, cwd=self.root)
        self.addCleanup(process.kill)
        wait_for(lambda: records.stat().st_size != before, process)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 143, stderr)
        self.assertEqual(set(self.root.glob("runs/people/*")), {parent, damaged})
        self.assertIn("resuming", stderr)
        self.assertIn("damaged/folds.json is damaged", stderr)

    def test_an_average_replaces_no_checkpoint_of_a_run(self):
        self.call("train", "p.yaml", "--run-dir", "run")
        newest = max((self.root / "run/checkpoints").glob("step_*"))
        before = (newest / "manifest.json").read_bytes()
        for output in (newest, newest.parent / "latest", newest.parent / "step_00000001"):
            self.assertIn("choose another --output", self.call("checkpoint", "average", "run", "--last", "2", "--output", output, code=1).stderr)
        self.assertEqual((newest / "manifest.json").read_bytes(), before)

    def test_an_average_of_checkpoints_is_torchs(self):
        try:
            from safetensors.torch import load_file
            import torch
        except ImportError:
            self.skipTest("no safetensors or torch in this Python")
        self.call("train", "p.yaml", "--run-dir", "run", "--set", "dataset.eval_fraction=0.2")
        self.call("checkpoint", "average", "run", "--last", "9", code=1)
        said = self.call("checkpoint", "average", "run", "--last", "3").stdout
        self.assertIn("written to run/checkpoints/average", said)
        sources = [load_file(p / "model.safetensors") for p in self.root.glob("run/checkpoints/step_*")]
        self.assertEqual(len(sources), 3)
        for name, tensor in load_file(self.root / "run/checkpoints/average/model.safetensors").items():
            mean = torch.stack([source[name].double() for source in sources]).mean(0).float()
            torch.testing.assert_close(tensor, mean, rtol=1e-7, atol=0)
        for more in (["eval"], ["export", "--format", "safetensors", "--output", str(self.root / "e.safetensors")]):
            self.call(more[0], "run", "--checkpoint", "run/checkpoints/average", *more[1:])
