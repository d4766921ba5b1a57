"""quantize: what is written evaluates as the command said, damage is refused, training for eight bits goes on to an int8 model."""
import json
import pathlib
import unittest

from browser import embedded_data, find_browser, rendered
from trainctl_process import metrics, newest_checkpoint, run, temporary_directory, write_experiment

EXPERIMENT = """
name: quantize
seed: 3
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 256, channels: 3, height: 16, width: 16, num_classes: 4, batch_size: 32, num_workers: 1,
  transforms: [{kind: random_horizontal_flip}, {kind: normalize}]}
model: {kind: resnet18, stem: cifar}
task: {kind: classification}
optimizer: {kind: adamw, lr: 1e-3}
train: {steps: 12, log_every: 1}
checkpoint: {every: 6, keep_last: 3}
device: {kind: cpu}
"""
# An image's class is told by its colors and edges, so that a few steps train it.
LISTED = EXPERIMENT.replace("model: {kind: resnet18, stem: cifar}", """model:
  kind: layers
  layers:
    - {kind: conv2d, channels: 32, bias: false}
    - batch_norm
    - relu
    - kind: residual
      layers: [{kind: conv2d, channels: 64, stride: 2, bias: false}, batch_norm, relu, {kind: conv2d, channels: 64, bias: false}, batch_norm]
      shortcut: [{kind: conv2d, channels: 64, kernel_size: 1, stride: 2, bias: false}, batch_norm]
    - relu
    - {kind: conv2d, channels: 128, kernel_size: 1}
    - {kind: depthwise_conv2d, name: spread}
    - silu
    - kind: multiply
      branches: [[], [{kind: global_avg_pool, keep_dims: true}, {kind: conv2d, channels: 32, kernel_size: 1}, relu, {kind: conv2d, channels: 128, kernel_size: 1}, sigmoid]]
    - {kind: concat, branches: [[], [{kind: conv2d, channels: 64}, {kind: group_norm, groups: 8}, relu6]]}
    - {kind: conv2d, channels: 64, kernel_size: 1}
    - relu
    - global_avg_pool
    - {kind: linear, features: 32}
    - batch_norm
    - relu
    - linear""")
FOR_EIGHT_BITS = EXPERIMENT + "quantization: {kind: qat, start_step: 3, freeze_observers_step: 9, freeze_batch_norm_step: 10}\n"


class Quantize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.config = write_experiment(cls.root, EXPERIMENT)
        result = run("train", cls.config, "--run-dir", cls.root / "run", "--no-progress")
        assert result.returncode == 0, result.stderr

    def quantize(self, name, *arguments, config=None, checkpoint=None):
        output = self.root / name
        result = run("quantize", config or self.config, "--checkpoint", checkpoint or self.root / "run", "--output", output,
                     "--calibration-batches", "4", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return output, json.loads(result.stdout)

    def evaluate(self, checkpoint, config=None):
        result = run("eval", config or self.config, "--checkpoint", checkpoint, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["metrics"]

    def test_what_is_written_is_a_quarter_and_evaluates_as_the_command_said(self):
        for method in ("static", "dynamic", "weight_only"):
            output, report = self.quantize(method, "--method", method)
            self.assertEqual(self.evaluate(output), report["after"]["metrics"], method)
            self.assertEqual(json.loads((output / "report.json").read_text()), report)
            self.assertEqual(report["after"]["metrics"].keys(), report["before"]["metrics"].keys())
            if method == "static":
                self.assertLess(report["size_ratio"], 0.27)
                files = sum(path.stat().st_size for path in output.iterdir())
                self.assertLess(files / report["before"]["bytes"], 0.28)

    def test_a_sweep_measures_every_layer_and_some_stay_in_float(self):
        _, report = self.quantize("sweep", "--method", "static", "--sweep", "--skip-modules", "fc,layer1.0.conv1",
                                  "--observer", "min_max", "--backend", "x86")
        swept = [layer for layer in report["layers"] if "relative_error" in layer]
        self.assertEqual(len(swept), 19)
        self.assertTrue(all("accuracy" in layer["metrics"] for layer in swept))
        self.assertEqual(report["sweep"]["samples"], 4 * 32)
        self.assertEqual(report["sweep"]["float_metrics"].keys(), swept[0]["metrics"].keys())
        kept = {layer["name"]: (layer["kept_because"], layer["num_weights"]) for layer in report["layers"] if not layer["quantized"]}
        self.assertEqual(kept, {"fc": ("asked for", 512 * 4), "layer1.0.conv1": ("asked for", 64 * 64 * 9)})

    def test_page_and_card_say_what_the_report_says(self):
        output, report = self.quantize("told", "--method", "static", "--sweep", "--skip-modules", "fc")
        self.assertEqual(embedded_data(output / "report.html"), report)
        self.assertTrue((output / "README.md").read_text().startswith("---\nlibrary_name: trainctl\npipeline_tag: image-classification\n"))
        model = json.loads((output / "model.json").read_text())
        self.assertEqual(model["metrics"], report["after"]["metrics"])
        self.assertEqual(model["quantization"], "static, 8 bits, affine activations")
        self.assertEqual(model["data_fingerprint"], json.loads((self.root / "run/summary.json").read_text())["provenance"]["data_fingerprint"])
        alone = run("eval", output / "config.yaml", "--checkpoint", output, "--json")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(json.loads(alone.stdout)["metrics"], report["after"]["metrics"])
        if not find_browser():
            self.skipTest("no browser: what the page draws isn't looked at")
        tables, facts = rendered(output / "report.html")
        self.assertEqual([row[1][0] for row in tables["costs"][:2]], [str(report["before"]["bytes"]), str(report["before"]["latency"]["batch_1_ms"])])
        self.assertEqual(len(tables["costs"]), 3 + len(report["before"]["metrics"]))
        self.assertEqual({row[0][0] for row in tables["layers"]}, {layer["name"] for layer in report["layers"]})
        self.assertEqual(facts["method"], "static")

    def test_listed_layers_become_bytes_and_graphs_that_agree(self):
        qat = LISTED + "quantization: {kind: qat, start_step: 3}\n"
        for method, text in (("static", LISTED), ("qat", qat)):
            config = write_experiment(self.root, text, f"listed_{method}.yaml")
            trained = self.root / f"listed_{method}"
            result = run("train", config, "--run-dir", trained, "--no-progress")
            self.assertEqual(result.returncode, 0, result.stderr)
            output, report = self.quantize(f"listed_{method}_int8", "--method", method, config=config, checkpoint=trained)
            self.assertLess(report["size_ratio"], 0.3)
            self.assertLess(abs(report["after"]["metrics"]["accuracy"] - report["before"]["metrics"]["accuracy"]), 0.02)
            kept = {layer["name"]: layer["kept_because"] for layer in report["layers"] if not layer["quantized"]}
            self.assertEqual(set(kept), {"9.branches.1.1"})
            self.assertIn("group_norm", kept["9.branches.1.1"])
            self.assertEqual(self.evaluate(output, config), report["after"]["metrics"])
            graph = self.root / f"listed_{method}_onnx"
            result = run("export", config, "--checkpoint", output, "--format", "onnx", "--output", graph)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertAlmostEqual(self.evaluate(graph / "model.onnx", config)["loss"], report["after"]["metrics"]["loss"], delta=0.02)
        _, report = self.quantize("listed_dynamic", "--method", "dynamic", config=config, checkpoint=trained)
        kept = {layer["name"]: layer["kept_because"] for layer in report["layers"] if not layer["quantized"]}
        self.assertTrue(kept["0"].startswith("conv2d"), kept)

    def test_what_cannot_be_done_is_refused(self):
        for words, arguments in {
            "no layer that could be quantized": ["--method", "static", "--skip-modules", "layer9"],
            "weight_only": ["--method", "static", "--bits", "4"],
            "symmetric activations have 8 bits": ["--method", "static", "--activation-scheme", "symmetric", "--activation-bits", "7"],
            "qat": ["--method", "qat"],
        }.items():
            result = run("quantize", self.config, "--checkpoint", self.root / "run", "--output", self.root / "no", *arguments)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)

    def test_damage_is_refused_with_its_place(self):
        output, _ = self.quantize("damaged", "--method", "static")
        weights = output / "quantized.safetensors"
        whole = weights.read_bytes()
        for damaged in (whole[:-50], whole[:5000] + b"x" + whole[5001:], b""):
            weights.write_bytes(damaged)
            result = run("eval", self.config, "--checkpoint", output)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("quantized.safetensors is damaged", result.stderr)
        weights.write_bytes(whole)
        (output / "quantization.json").write_text("{")
        result = run("eval", self.config, "--checkpoint", output)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("quantization.json is damaged", result.stderr)

    def test_training_for_eight_bits_resumes_to_the_bit_and_becomes_int8(self):
        for step_size in ("observed", "learned"):
            text = FOR_EIGHT_BITS if step_size == "observed" else FOR_EIGHT_BITS.replace("freeze_observers_step: 9", "scale: learned")
            config = write_experiment(self.root, text, f"{step_size}.yaml")
            whole, half = self.root / f"{step_size}_whole", self.root / f"{step_size}_half"
            self.assertEqual(run("train", config, "--run-dir", whole, "--no-progress").returncode, 0)
            result = run("train", config, "--run-dir", half, "--no-progress", "--resume", whole / "checkpoints/step_00000006")
            self.assertEqual(result.returncode, 0, result.stderr)
            last = [[record["loss"] for record in metrics(directory) if record["event"] == "step"][-6:] for directory in (whole, half)]
            self.assertEqual(last[0], last[1])
            trained = self.evaluate(newest_checkpoint(whole), config)
            output, report = self.quantize(step_size, "--method", "qat", config=config, checkpoint=whole)
            self.assertEqual(report["before"]["metrics"].keys(), trained.keys())
            self.assertEqual(self.evaluate(output, config), report["after"]["metrics"])
            self.assertLess(report["size_ratio"], 0.27)


if __name__ == "__main__":
    unittest.main()
