"""Each command once, in seconds: what a change breaks for every user is seen here. tests/acceptance has the rest.

CMake makes a test of each case, so that they run beside one another: a case trains what it needs.
"""
import json
import subprocess
import unittest

from trainctl_process import EXPERIMENT, ROOT, InScratch, build_plugin, metrics, newest_checkpoint, run, start, write_experiment
from waits import num_records, wait_for

SHORT = EXPERIMENT.replace("steps: 300, eval_every: 60", "steps: 12, eval_every: 6").replace("warmup: 20", "warmup: 2")
TEXT = """
name: text
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 16, seq_len: 16, vocab_size: 50, batch_size: 8}
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 32}
task: {kind: causal_lm}
train: {steps: 4, log_every: 1}
device: {kind: cpu}
"""
BYTES = TEXT.replace("kind: synthetic_tokens, num_samples: 64, num_eval_samples: 16, seq_len: 16, vocab_size: 50",
                     "kind: text_lm, train: {files: [text.txt]}, eval_fraction: 0.1, tokenizer: bytes, seq_len: 16")
PLUGIN = """
cmake_minimum_required(VERSION 3.25)
project(metric LANGUAGES CXX)
find_package(trainctl REQUIRED)
add_library(metric MODULE plugin.cpp)
target_link_libraries(metric PRIVATE trainctl::plugin)
"""


class Smoke(InScratch):
    def done(self, *arguments, code=0, **options):
        result = run(*arguments, cwd=self.root, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def told(self, *arguments, **options):
        return json.loads(self.done(*arguments, "--json", **options).stdout)

    def trained(self, text=SHORT):
        config = write_experiment(self.root, text)
        return config, self.told("train", config, "--run-dir", self.root / "run")

    def test_train_learns_and_records(self):
        _, summary = self.trained(EXPERIMENT.replace("steps: 300, eval_every: 60", "steps: 60, eval_every: 30"))
        self.assertEqual((summary["outcome"], summary["steps"]), ("finished", 60))
        records = metrics(self.root / "run")
        losses = [record["loss"] for record in records if record["event"] == "step"]
        self.assertEqual(len(losses), 12)
        self.assertLess(sum(losses[-4:]), sum(losses[:4]))
        self.assertEqual([record["step"] for record in records if record["event"] == "eval"], [30, 60])
        for name in ("config.yaml", "summary.json", "evaluation.json", "predictions.json", "report.html", "provenance.json"):
            self.assertTrue((self.root / "run" / name).exists(), name)

    def test_a_killed_run_resumes_bit_for_bit(self):
        config = write_experiment(self.root, EXPERIMENT.replace("steps: 300, eval_every: 60", "steps: 60, eval_every: 20"))
        self.done("train", config, "--run-dir", self.root / "whole")
        process = start("train", config, "--run-dir", self.root / "killed", cwd=self.root)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.root / "killed") >= 3, process)
        process.kill()
        process.wait()
        self.done("train", config, "--run-dir", self.root / "killed")
        self.assertEqual(metrics(self.root / "killed"), metrics(self.root / "whole"))
        ends = [newest_checkpoint(self.root / name) for name in ("whole", "killed")]
        for name in ("model.safetensors", "state.safetensors"):
            self.assertEqual((ends[0] / name).read_bytes(), (ends[1] / name).read_bytes(), name)

    def test_two_ranks_take_the_steps_of_one(self):
        config = write_experiment(self.root, TEXT)
        ranks = ["--nproc", 2, "--set", "dataset.batch_size=4"]
        for name, options in (("one", []), ("ddp", [*ranks, "--set", "distributed=ddp"]), ("zero", [*ranks, "--set", "distributed={kind: zero, stage: 3}"])):
            self.done("train", config, "--run-dir", self.root / name, "--no-progress", *options)
        losses = {name: [record["loss"] for record in metrics(self.root / name) if record["event"] == "step"] for name in ("one", "ddp", "zero")}
        self.assertEqual(len(losses["one"]), 4)
        for name in ("ddp", "zero"):
            for ours, theirs in zip(losses[name], losses["one"], strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5, msg=name)

    def test_eval_gives_what_training_said(self):
        _, summary = self.trained()
        self.assertEqual(self.told("eval", self.root / "run")["metrics"], summary["best_metrics"])

    def test_predict_answers_each_row(self):
        rows = [f"{i % 10},{i * 7 % 5},{'high' if i % 10 > 4 else 'low'}" for i in range(60)]
        (self.root / "rows.csv").write_text("\n".join(["a,b,level", *rows]) + "\n")
        self.trained("name: table\ndataset: {kind: table, train: [rows.csv], label: level, eval_fraction: 0.2, batch_size: 8}\n"
                     "model: {kind: mlp, hidden: [16]}\noptimizer: {kind: adamw, lr: 0.02}\ntrain: {epochs: 20}\ndevice: {kind: cpu}\n")
        (self.root / "new.csv").write_text("a,b\n9,1\n0,2\n")
        answers = [json.loads(line) for line in self.done("predict", self.root / "run", "new.csv").stdout.splitlines()]
        self.assertEqual([answer["label"] for answer in answers], ["high", "low"], answers)

    def test_generate_continues_a_prompt(self):
        (self.root / "text.txt").write_text("the cat sat on the mat. " * 100)
        self.trained(BYTES)
        arguments = ("generate", self.root / "run", "--prompt", "the cat", "--max-tokens", 8, "--seed", 3)
        self.assertEqual(self.done(*arguments).stdout, self.done(*arguments).stdout)
        self.assertGreater(len(self.done(*arguments).stdout), 1)

    def test_generate_goes_on_where_the_length_scales_positions(self):
        (self.root / "text.txt").write_text("the cat sat on the mat. " * 100)
        self.trained(BYTES.replace("kind: gpt2", "kind: llama, rope_scaling: {kind: dynamic, factor: 2}"))
        sample = self.told("generate", self.root / "run", "--prompt", "the cat", "--max-tokens", 40, "--greedy")["samples"][0]
        self.assertNotEqual(sample["ended_by"], "max_position_embeddings")

    def test_export_to_onnx_equals_the_live_model(self):
        self.trained()
        told = self.told("export", self.root / "run", "--format", "onnx", "--output", self.root / "onnx")
        self.assertLess(told["largest_difference"]["relative"], 1e-4)
        self.assertTrue((self.root / "onnx/model.onnx").stat().st_size > 1000)

    def test_quantize_keeps_the_answers(self):
        self.trained()
        told = self.told("quantize", self.root / "run", "--method", "dynamic", "--output", self.root / "int8")
        self.assertLess(told["size_ratio"], 0.6)
        self.assertLess(abs(told["after"]["metrics"]["accuracy"] - told["before"]["metrics"]["accuracy"]), 0.1)

    def test_plan_predicts_memory(self):
        told = self.told("plan", write_experiment(self.root, SHORT))
        self.assertGreater(told["memory"]["peak_bytes"], 0)

    def test_profile_names_the_bottleneck(self):
        self.done("profile", write_experiment(self.root, SHORT), "--run-dir", self.root / "run")
        self.assertTrue(list((self.root / "run").rglob("*.html")), "no report")

    def test_compare_shows_where_two_runs_differ(self):
        config = write_experiment(self.root, SHORT)
        for lr in ("1e-3", "2e-3"):
            self.done("train", config, "--run-dir", self.root / lr, "--set", f"optimizer.lr={lr}")
        shown = self.done("compare", self.root / "1e-3", self.root / "2e-3").stdout
        self.assertIn("optimizer.lr", shown)
        self.assertNotIn("optimizer.weight_decay", shown)

    def test_a_wrong_file_is_refused_at_its_places(self):
        config = write_experiment(self.root, SHORT.replace("batch_size", "batch_sise").replace("dropout: 0.2", "dropout: 1.5"), "wrong.yaml")
        for command in ("check", "train"):
            refused = self.done(command, "wrong.yaml", code=2)
            self.assertRegex(refused.stderr + refused.stdout, r"wrong\.yaml:4:\d+: dataset\.batch_sise: unknown key; did you mean 'batch_size'\?")
            self.assertRegex(refused.stderr + refused.stdout, r"wrong\.yaml:6:\d+: model\.dropout: expected a number of at least 0 and below 1, got 1\.5")
        self.assertEqual(list(self.root.iterdir()), [config])

    def test_a_plug_in_adds_a_metric(self):
        source = self.root / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PLUGIN)
        (source / "plugin.cpp").write_text(f'#include "{ROOT}/examples/plugin/metric.cpp"\n'
                                           "void trainctl_plugin(trainctl::plugin::Registry& registry) { example::add_metric(registry); }\n")
        prefix, build = build_plugin(source, self.root, "CMAKE_CXX_FLAGS=-O0")
        config = write_experiment(self.root, f"{SHORT}plugins: ['{build}/libmetric.so']\nmetrics: [cohen_kappa]\n")
        summary = json.loads(subprocess.run([prefix / "bin/trainctl", "train", config, "--run-dir", self.root / "run", "--json"],
                                            capture_output=True, text=True, check=True).stdout)
        self.assertIn("cohen_kappa", summary["final_metrics"])


if __name__ == "__main__":
    unittest.main()
