"""dataset.label_scaling: the network learns standardized labels; metrics, predictions and exported graphs have the labels' own units."""
import csv
import json
import pathlib
import statistics
import unittest

from trainctl_process import metrics, run, temporary_directory

EXPERIMENT = """
name: values
seed: 1
dataset: {kind: table, train: rows.csv, eval: rows.csv, label: y, label_type: value, label_scaling: standard, batch_size: 32, num_workers: 0}
model: {kind: mlp, hidden: [16]}
task: {kind: regression, metrics: [r2, mae, mse, rmse]}
optimizer: {kind: adamw, lr: 1e-2, weight_decay: 0}
train: {steps: 400, eval_every: 400}
checkpoint: {every: 200}
device: {kind: cpu, num_threads: 1}
tracking: {tensorboard: false, report: false}
"""
# (name, label of a): sizes, and offsets that are far larger than the spread
LABELS = {"prices": lambda a: 500000 * a + 100000, "small": lambda a: 1e-6 * a, "large": lambda a: 1e9 * (a - 3), "offset": lambda a: 1e9 + a}


class LabelScaling(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))

    def call(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stdout}{result.stderr}")
        return result.stdout

    def write(self, label, count=400):
        rows = [(n % 97 / 10, label(n % 97 / 10)) for n in range(count)]
        with open(self.root / "rows.csv", "w", newline="") as file:
            csv.writer(file).writerows([("a", "y"), *((a, repr(y)) for a, y in rows)])
        return rows

    def train(self, *more):
        (self.root / "exp.yaml").write_text(EXPERIMENT)
        return self.call("train", "exp.yaml", "--run-dir", "run", *more)

    def predictions(self, *arguments):
        return [json.loads(line)["value"] for line in self.call("predict", "run", "rows.csv", *arguments).splitlines()]

    def test_config_new_learns_labels_of_any_size(self):
        for name, label in LABELS.items():
            with self.subTest(name), temporary_directory() as directory:
                self.root = pathlib.Path(directory)
                rows = self.write(label)
                self.call("config", "new", "--from", "rows.csv", "--label", "y", "--output", "new.yaml")
                self.assertIn("label_scaling: standard", (self.root / "new.yaml").read_text())
                self.call("train", "new.yaml", "--run-dir", "run", "--set", "device.num_threads=1", "--set", "tracking.report=false")
                told = json.loads(self.call("eval", "run", "--json"))["metrics"]
                self.assertGreater(told["r2"], 0.99)
                errors = [abs(p - y) for p, (_, y) in zip(self.predictions(), rows)]
                self.assertLess(statistics.mean(errors), 0.1 * statistics.pstdev(y for _, y in rows))

    def test_metrics_are_in_the_units_of_the_labels(self):
        rows = self.write(LABELS["offset"])
        self.train()
        told = json.loads(self.call("eval", "run", "--json"))["metrics"]
        errors = [p - y for p, (_, y) in zip(self.predictions(), rows)]
        mse = statistics.mean(e * e for e in errors)
        self.assertAlmostEqual(told["mae"], statistics.mean(map(abs, errors)), delta=1e-4)
        self.assertAlmostEqual(told["mse"], mse, delta=1e-4)
        self.assertAlmostEqual(told["r2"], 1 - mse / statistics.pvariance(y for _, y in rows), delta=1e-4)
        self.assertAlmostEqual(told["loss"], mse / statistics.pvariance(y for _, y in rows), delta=1e-4)

    def test_a_constant_label_is_predicted(self):
        self.write(lambda a: 7e8)
        self.train()
        for value in self.predictions():
            self.assertAlmostEqual(value, 7e8, delta=1)

    def test_a_resumed_run_is_one_that_was_not_stopped(self):
        self.write(LABELS["prices"])
        self.train()
        self.call("train", "exp.yaml", "--run-dir", "half", "--set", "train.steps=200")
        self.call("train", "exp.yaml", "--run-dir", "half")
        whole, resumed = (metrics(self.root / name)[-1] for name in ("run", "half"))
        self.assertEqual({key: whole[key] for key in ("loss", "r2", "mae")}, {key: resumed[key] for key in ("loss", "r2", "mae")})

    def test_rows_that_were_added_leave_the_scale_of_training(self):
        rows = self.write(LABELS["prices"])
        self.train()
        before = self.predictions()
        with open(self.root / "rows.csv", "a", newline="") as file:
            csv.writer(file).writerows((100 + n, repr(1e9 * n)) for n in range(100))
        result = run("train", "exp.yaml", "--run-dir", "run", "--set", "train.steps=450", "--set", "optimizer.lr=1e-9", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("scale", result.stdout + result.stderr)
        for old, new in zip(before, self.predictions()[:len(rows)], strict=True):
            self.assertLess(abs(old - new), 1e-3 * abs(old) + 1)

    def test_exports_and_quantized_networks_give_the_labels_units(self):
        rows = self.write(LABELS["offset"])
        self.train()
        expected = self.predictions()
        for form, name in (("onnx", "model.onnx"), ("torchscript", "model.pt")):
            self.call("export", "run", "--format", form, "--output", name)
            for one, other in zip(expected, self.predictions("--checkpoint", name)):
                self.assertAlmostEqual(one, other, delta=1e-4)
            self.assertAlmostEqual(json.loads(self.call("eval", "run", "--checkpoint", name, "--json"))["metrics"]["r2"], 1, delta=0.01)
        self.call("quantize", "run", "--method", "dynamic", "--output", "int8")
        for one, other in zip(expected, self.predictions("--checkpoint", "int8")):
            self.assertAlmostEqual(one, other, delta=0.5)
        self.call("export", "run", "--output", "chosen")  # no layout of weights has a place for mean and deviation
        self.assertTrue((self.root / "chosen/model.onnx").is_file())
        refused = run("export", "run", "--format", "safetensors", "--output", "weights", cwd=self.root)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("label_scaling", refused.stderr)
        try:
            import numpy
            import onnxruntime
        except ImportError:
            self.skipTest("no onnxruntime")
        values = numpy.array([a for a, _ in rows])
        features = ((values - values.mean()) / values.std()).astype(numpy.float32)[:, None]
        (output,) = onnxruntime.InferenceSession(str(self.root / "model.onnx")).run(None, {"features": features})
        numpy.testing.assert_allclose(output[:, 0], expected, rtol=0, atol=1e-4)

    def test_texts_with_values(self):
        words = ["awful", "bad", "poor", "weak", "fair", "decent", "fine", "good", "superb"]
        rows = [json.dumps({"text": f"{words[n % 9]}, said guest {n}", "label": 1e6 * (n % 9)}) for n in range(600)]
        (self.root / "texts.jsonl").write_text("\n".join(rows) + "\n")
        self.call("config", "new", "--from", "texts.jsonl", "--text", "text", "--label", "label", "--output", "new.yaml")
        self.call("train", "new.yaml", "--run-dir", "run", "--set", "device.num_threads=1", "--set", "tracking.report=false")
        self.assertGreater(json.loads(self.call("eval", "run", "--json"))["metrics"]["r2"], 0.9)
        (self.root / "new.txt").write_text("superb, said guest 1000\n")
        (answer,) = self.call("predict", "run", "new.txt").splitlines()
        self.assertAlmostEqual(json.loads(answer)["value"], 8e6, delta=2e6)

    def test_classes_are_not_scaled(self):
        self.write(LABELS["prices"])
        (self.root / "exp.yaml").write_text(EXPERIMENT)
        refused = run("check", "exp.yaml", "--set", "dataset.label_type=class", cwd=self.root)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("dataset.label_scaling", refused.stderr)
