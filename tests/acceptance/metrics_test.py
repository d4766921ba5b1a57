"""task.metrics: chosen metrics are computed over the whole set, on one rank and on two, and equal their plain formulas."""
import json
import math
import pathlib
import random
import unittest

from trainctl_process import run, temporary_directory

EXPERIMENT = """name: m
dataset: {kind: table, train: [train.csv], eval: [eval.csv], label: label, batch_size: 32}
model: {kind: mlp, hidden: [8]}
task: {metrics: [auroc, average_precision, calibration_error, mae]}
checkpoint: {best: {metric: recall, mode: max}}
train: {epochs: 2}
"""


def auroc(scores, labels):
    """By the definition: all pairs."""
    positive = [s for s, l in zip(scores, labels) if l]
    negative = [s for s, l in zip(scores, labels) if not l]
    return sum((p > n) + (p == n) / 2 for p in positive for n in negative) / len(positive) / len(negative)


def average_precision(scores, labels):
    total, before = 0, 0
    for threshold in sorted(set(scores), reverse=True):
        taken = [l for s, l in zip(scores, labels) if s >= threshold]
        recall = sum(taken) / sum(labels)
        total += (recall - before) * sum(taken) / len(taken)
        before = recall
    return total


class Metrics(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        random.seed(3)
        for name, size in (("train", 200), ("eval", 75)):
            rows = [(random.gauss(0, 1), random.gauss(0, 1)) for _ in range(size)]
            lines = [f"{a:.3f},{b:.3f},{'yes' if a - b + random.gauss(0, 1) > 0.6 else 'no'}" for a, b in rows]
            (self.root / f"{name}.csv").write_text("a,b,label\n" + "\n".join(lines) + "\n")

    def call(self, *arguments, code=0):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stderr}")
        return result

    def test_a_metric_of_another_task_is_refused_with_its_place(self):
        (self.root / "m.yaml").write_text(EXPERIMENT)
        refusal = self.call("check", "m.yaml", code=2).stderr
        self.assertIn("m.yaml:4:63: task.metrics[3]: expected one of accuracy, ", refusal)
        (self.root / "m.yaml").write_text(EXPERIMENT.replace("mae", "f1_marco"))
        self.assertIn("did you mean 'f1_macro'?", self.call("check", "m.yaml", code=2).stderr)

    def test_two_ranks_evaluate_as_one(self):
        (self.root / "m.yaml").write_text(EXPERIMENT.replace(", mae", ""))
        self.call("train", "m.yaml", "--run-dir", "run", "--nproc", "2", "--set", "distributed.kind=ddp")
        two = json.loads((self.root / "run/summary.json").read_text())["final_metrics"]
        self.assertEqual(list(two), ["loss", "auroc", "average_precision", "calibration_error", "recall"])
        one = json.loads(self.call("eval", "run", "--checkpoint", "run/checkpoints/latest", "--json").stdout)["metrics"]
        self.assertEqual(list(one), list(two))
        for name in one:
            self.assertAlmostEqual(one[name], two[name], delta=1e-6, msg=name)
        answers = self.call("predict", "run", "eval.csv", "--checkpoint", "run/checkpoints/latest").stdout
        scores = [json.loads(line)["scores"]["yes"] for line in answers.splitlines()]
        labels = [line.endswith("yes") for line in (self.root / "eval.csv").read_text().splitlines()[1:]]
        self.assertAlmostEqual(one["auroc"], auroc(scores, labels), delta=1e-6)
        self.assertAlmostEqual(one["average_precision"], average_precision(scores, labels), delta=1e-6)
        self.assertAlmostEqual(one["recall"], sum(s > 0.5 for s, l in zip(scores, labels) if l) / sum(labels), delta=1e-6)
        self.assertAlmostEqual(one["loss"], -sum(math.log(s if l else 1 - s) for s, l in zip(scores, labels)) / len(labels), delta=1e-4)

    def test_numbers_have_their_own_metrics(self):
        (self.root / "m.yaml").write_text(
            "name: m\ndataset: {kind: table, train: [train.csv], eval: [eval.csv], label: b, label_type: value, features: [a]}\n"
            "model: {kind: mlp, hidden: [8], num_classes: 1}\ntask: {metrics: [mae, rmse, r2]}\ntrain: {epochs: 1}\n"
        )
        self.call("train", "m.yaml", "--run-dir", "run")
        metrics = json.loads(self.call("eval", "run", "--json").stdout)["metrics"]
        self.assertEqual(list(metrics), ["loss", "mae", "rmse", "r2"])
        self.assertAlmostEqual(metrics["rmse"], math.sqrt(metrics["loss"]), delta=1e-9)
