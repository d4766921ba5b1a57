"""A user's plug-in: examples/plugin, built with find_package(trainctl) against an installed prefix, in every command."""
import json
import pathlib
import sys
import unittest

from trainctl_process import ROOT, build_plugin, metrics, run, temporary_directory, why_no_gpu

EXPERIMENT = """
name: shapes
plugins: [{plugin}]
seed: 1
dataset: {{kind: drawn_shapes, num_samples: 600, num_eval_samples: 120, size: 16, batch_size: 32, num_workers: 1,
          transforms: [{{kind: salt_and_pepper, amount: 0.02}}, normalize]}}
model: {model}
task: {{kind: poly1_classification, epsilon: 1}}
metrics: [brier_score, cohen_kappa]
optimizer: {{kind: signum, lr: 1e-3}}
train: {{steps: {steps}, eval_every: 20, log_every: 1}}
checkpoint: {{every: 10, best: {{metric: cohen_kappa, mode: max}}}}
tracking: {{tensorboard: false}}
device: {{kind: cpu}}
"""
MAXOUT = "{kind: maxout, hidden: [32], pieces: 2}"
LAYERS = """
  kind: layers
  layers:
    - {kind: conv2d, channels: 8, stride: 2}
    - {kind: squared_relu, scale: 0.5, name: square}
    - {kind: conv2d, channels: 16, stride: 2}
    - squared_relu
    - flatten
    - linear
"""


class PlugIn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.prefix, cls.build = build_plugin(ROOT / "examples/plugin", cls.root, "CMAKE_BUILD_TYPE=Release")
        cls.plugin = cls.build / "libexample.so"

    def done(self, *arguments, code=0, **options):
        result = run(*arguments, cwd=self.root, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def write(self, name, model=MAXOUT, steps=20, change=lambda text: text):
        path = self.root / f"{name}.yaml"
        path.write_text(change(EXPERIMENT.format(plugin=self.plugin, model=model, steps=steps)))
        return path

    def train(self, config, name, *more):
        self.done("train", config, "--run-dir", self.root / name, "--no-progress", *more)
        return {record["step"]: record["loss"] for record in metrics(self.root / name) if record["event"] == "step"}

    def test_every_kind_trains_and_each_command_takes_the_run(self):
        losses = self.train(self.write("learns", steps=120), "learns")
        self.assertLess(losses[120], 0.7 * losses[1])
        evaluated = json.loads(self.done("eval", self.root / "learns", "--json").stdout)["metrics"]
        self.assertEqual(list(evaluated), ["loss", "accuracy", "brier_score", "cohen_kappa"])
        self.assertGreater(evaluated["cohen_kappa"], 0.3)
        self.assertLess(evaluated["brier_score"], 0.66)
        resolved = (self.root / "learns/config.yaml").read_text()
        self.assertIn(str(self.plugin), resolved)
        self.assertIn("pieces: 2", resolved)

    def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(self):
        config = self.write("whole", model=LAYERS)
        whole = self.train(config, "whole")
        self.train(config, "cut", "--set", "train.steps=10")
        rest = self.train(config, "cut")
        self.assertEqual({step: whole[step] for step in range(11, 21)}, {step: rest[step] for step in range(11, 21)})

    def test_two_ranks_and_zero_train_as_one_does(self):
        one = self.train(self.write("one"), "one")
        for name, kind in (("ddp", "ddp"), ("zero", "{kind: zero, stage: 3}")):
            config = self.write(name, change=lambda text, kind=kind: text + f"distributed: {kind}\n")
            many = self.train(config, name, "--set", "dataset.batch_size=16", "--nproc", "2")
            for step in one:
                self.assertAlmostEqual(many[step], one[step], delta=2e-4 * one[step], msg=f"{name}, step {step}")

    def test_the_planner_the_profiler_and_onnx_know_the_operator(self):
        config = self.write("operator", model=LAYERS)
        planned = self.done("plan", config).stdout
        self.assertNotIn("example::squared_relu", planned)  # among what it can't predict
        self.train(config, "operator")
        exported = self.root / "model.onnx"
        self.done("export", self.root / "operator", "--format", "onnx", "--output", exported)  # compared with ONNX Runtime
        self.done("profile", config, "--run-dir", self.root / "profiled")
        whole = self.train(config, "in_fp32")
        half = self.train(self.write("half", model=LAYERS, change=lambda text: text + "amp: bf16\n"), "half")
        for step in whole:
            self.assertAlmostEqual(half[step], whole[step], delta=5e-2 * whole[step], msg=f"step {step}")

    def test_the_kernel_for_gpus_computes_what_the_reference_does(self):
        if problem := why_no_gpu():
            self.skipTest("no GPU: " + problem)
        config = self.write("gpu", model=LAYERS)
        host = self.train(config, "host")
        device = self.train(config, "device", "--set", "device.kind=cuda")
        for step in host:
            self.assertAlmostEqual(device[step], host[step], delta=2e-3 * host[step], msg=f"step {step}")

    def test_keys_are_checked_described_and_listed_as_our_own(self):
        wrong = self.write("wrong", model="{kind: maxout, hidden: [32], peices: 3, pieces: 1}")
        problems = self.done("check", wrong, code=2).stderr
        self.assertIn("did you mean 'pieces'?", problems)
        self.assertIn("wrong.yaml:7:", problems)
        self.assertIn("model.pieces", problems)
        problems = self.done("check", self.write("unknown", model="{kind: maxuot}"), code=2).stderr
        self.assertIn("maxout", problems)
        given = {"TRAINCTL_PLUGINS": str(self.plugin)}
        reference = self.done("config", "reference", env=given).stdout
        for text in ("`maxout`", "`squared_relu`", "`drawn_shapes`", "`salt_and_pepper`", "`poly1_classification`", "`signum`", "`cohen_kappa`",
                     "Linear functions whose largest value a unit gives."):
            self.assertIn(text, reference)
        schema = self.done("config", "schema", env=given).stdout
        json.loads(schema)
        self.assertIn('"maxout"', schema)
        self.assertNotIn("maxout", self.done("config", "schema").stdout)

    def test_a_command_has_checked_options_and_help(self):
        given = {"TRAINCTL_PLUGINS": str(self.plugin)}
        self.assertIn("the number of parameters of a maxout network", self.done("--help", env=given).stdout)
        self.assertIn("Linear functions of a unit.", self.done("parameters", "--help", env=given).stdout)
        printed = self.done("parameters", "--inputs", "784", "--hidden", "[64]", "--pieces", "2", env=given).stdout
        self.assertEqual(int(printed), 785 * 128 + 65 * 10)
        self.assertIn("--set pieces=1", self.done("parameters", "--pieces", "1", env=given, code=2).stderr)
        self.assertIn("unknown command 'parameters'", self.done("parameters", code=2).stderr)

    def test_what_is_no_plug_in_of_this_build_is_one_clear_line(self):
        mark = b"headers "
        other = self.root / "libother.so"
        content = self.plugin.read_bytes()
        at = content.index(mark, content.index(b"@trainctl-plugin-abi@")) + len(mark)
        other.write_bytes(content[:at] + b"0123456789ab" + content[at + 12:])
        cases = {str(other): "was built for trainctl", str(self.root / "none.so"): "there is no plug-in", str(ROOT / "README.md"): "is no plug-in of trainctl"}
        for path, expected in cases.items():
            config = self.write("other", change=lambda text: text.replace(str(self.plugin), path))
            stderr = self.done("check", config, code=2).stderr
            self.assertIn(expected, stderr)
            self.assertIn("other.yaml:3:11", stderr)
        twice = self.write("twice", change=lambda text: text.replace(f"[{self.plugin}]", f"[{self.plugin}, {self.plugin}]"))
        self.done("check", twice)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
