"""compare as a user meets it: strategies of an experiment, and runs."""
import json
import pathlib
import unittest

from browser import embedded_data, find_browser, rendered
from trainctl_process import run, temporary_directory, write_experiment

EXPERIMENT = """
name: small
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 0, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 32}
model: {kind: cnn, channels: [8, 16], hidden: 32}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
"""
QUICK = ("--steps", 3, "--warmup", 1, "--rounds", 2)


class Compare(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root, EXPERIMENT)

    def test_each_strategy_alone_all_and_all_but_each(self):
        page = self.root / "page.html"
        result = run("compare", self.config, "--ablate", "accumulation,workers,channels_last", *QUICK, "--html", page, "--json", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        variants = {variant["name"]: variant for variant in report["variants"]}
        self.assertEqual(list(variants), ["baseline", "accumulation", "workers", "channels_last", "all", "all but accumulation",
                                          "all but workers", "all but channels_last"])
        self.assertTrue(all(variant["step_ms"] > 0 and variant["peak_memory_mib"] > 0 for variant in variants.values()))
        self.assertLess(abs(variants["accumulation"]["loss_gap"]), 1e-3)
        self.assertEqual(variants["workers"]["loss_gap"], 0)
        self.assertIn(report["recommended"], variants)
        shown = embedded_data(page)
        self.assertEqual({key: shown[key] for key in report}, report)
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["exp.yaml", "page.html"], "runs leave nothing")

    def test_the_table_ends_with_lines_of_yaml(self):
        result = run("compare", self.config, "--ablate", "workers", *QUICK)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("recommended: ", result.stdout)
        self.assertIn("round 2 of 2, workers", result.stderr)

    def test_recommended_lines_can_be_put_into_a_file(self):
        report = json.loads(run("compare", self.config, "--ablate", "workers,channels_last,fused", "--json", *QUICK).stdout)
        for line in report["yaml"]:
            self.assertEqual(run("check", "--file-only", write_experiment(self.root, f"base: exp.yaml\n{line}\n", "pasted.yaml")).returncode, 0, line)
        alone = run("compare", self.config, "--ablate", "fused", "--steps", 3, "--warmup", 1, "--rounds", 1)
        self.assertIn("one round can't tell a gain from chance", alone.stdout)

    def test_what_cannot_be_compared_is_refused_with_the_reason(self):
        result = run("compare", self.config, "--ablate", "workrs", *QUICK)
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'workers'?", result.stderr)
        unnamed = run("compare", self.config, *QUICK)
        self.assertEqual(unnamed.returncode, 2)
        self.assertIn("--ablate", unnamed.stderr)
        failed = run("compare", self.config, "--ablate", "workers", *QUICK, "--set", "model.init_from=nowhere")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("baseline failed: ", failed.stderr)
        self.assertIn("nowhere", failed.stderr)


RUN = """
name: small
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 64, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 32}
model: {kind: cnn, channels: [8, 16], hidden: 32}
train: {steps: 24, log_every: 2, eval_every: 8}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
"""


class CompareRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = temporary_directory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.root = pathlib.Path(cls.temporary.name)
        config = write_experiment(cls.root, RUN)
        for name, learning_rate in (("slow", "1e-4"), ("fast", "1e-2")):
            trained = run("train", config, "--run-dir", cls.root / name, "--set", f"optimizer.lr={learning_rate}", cwd=cls.root)
            assert trained.returncode == 0, trained.stderr
        cls.killed = cls.root / "killed"
        cls.killed.mkdir()
        (cls.killed / "config.yaml").write_bytes((cls.root / "slow/config.yaml").read_bytes())
        (cls.killed / "metrics.jsonl").write_bytes((cls.root / "slow/metrics.jsonl").read_bytes()[:-20])

    def compare(self, *arguments, status=0):
        result = run("compare", *arguments, cwd=self.root)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def test_figures_are_those_of_the_summaries_and_only_differing_keys_are_shown(self):
        report = json.loads(self.compare("slow", "fast", "--json").stdout)
        self.assertEqual([one["name"] for one in report["runs"]], ["slow", "fast"])
        for one in report["runs"]:
            summary = json.loads((self.root / one["name"] / "summary.json").read_text())
            for key in ("steps", "final_metrics", "best_metrics", "median_step_ms", "samples_per_s", "peak_memory_mib", "wall_s"):
                self.assertEqual(one[key], summary[key], key)
            self.assertEqual(one["state"], "finished")
        (difference,) = report["config_differences"]
        self.assertEqual(difference["key"], "optimizer.lr")
        self.assertEqual([float(value) for value in difference["values"]], [1e-4, 1e-2])

    def test_a_run_that_was_killed_is_compared_by_its_records(self):
        result = self.compare("slow", "killed")
        self.assertIn("killed: unfinished (no summary.json", result.stdout)
        self.assertIn("ends within a line", result.stdout)
        self.assertIn("The configs that can be read are the same.", result.stdout)

    def test_a_start_that_failed_is_left_out_and_that_is_said(self):
        failed = run("train", self.root / "exp.yaml", "--run-dir", self.root / "failed", "--set", "model.init_from=missing.safetensors", cwd=self.root)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        result = self.compare("slow", "failed", "fast")
        self.assertIn("failed: this run stopped before its first step; skipped", result.stdout + result.stderr)
        self.assertIn("no run to compare: failed ended before the first record", self.compare("failed", status=1).stderr)

    def test_the_page_has_every_run_and_curve(self):
        page = self.root / "page.html"
        report = json.loads(self.compare("slow", "fast", "killed", "--html", page, "--json").stdout)
        data = embedded_data(page)
        self.assertEqual({key: data[key] for key in report}, report)
        loss = next(curve for curve in data["curves"] if curve["run"] == 1 and curve["name"] == "loss")
        recorded = [json.loads(line) for line in (self.root / "fast/metrics.jsonl").read_text().splitlines()]
        recorded = [(record["step"], record["loss"]) for record in recorded if record["event"] == "step"]
        self.assertEqual(loss["step"], [step for step, _ in recorded])
        for shown, (_, value) in zip(loss["value"], recorded):
            self.assertAlmostEqual(shown, value, delta=1e-5 * abs(value))
        if find_browser() is None:
            self.skipTest("no Chromium here (apt-get install chromium), so nobody looked at what the page draws")
        tables, _ = rendered(page)
        shown = {row[0][0]: [cell[0] for cell in row[1:]] for row in tables["figures"]}
        accuracies = [one["final_metrics"].get("accuracy") for one in report["runs"]]
        self.assertEqual([float(value) if value else None for value in shown["final accuracy"]], accuracies)
        self.assertEqual([float(value) for value in shown["median step"]], [one["median_step_ms"] for one in report["runs"]])
        self.assertEqual([row[0][0] for row in tables["config"]], ["optimizer.lr"])

    def test_what_is_no_run_is_refused_with_what_to_give_instead(self):
        self.assertIn("the directory holds runs: ", self.compare(".", status=1).stderr)
        self.assertIn("no such run directory", self.compare("slow", "slwo", status=2).stderr)
        self.assertIn("is for an experiment file", self.compare("slow", "--ablate", "workers", status=2).stderr)
        self.assertIn("is given twice", self.compare("slow", "slow/", status=1).stderr)
        self.assertEqual(run("compare", cwd=self.root).returncode, 2)


if __name__ == "__main__":
    unittest.main()
