"""compare --ablate as a user meets it."""
import json
import pathlib
import unittest

from trainctl_process import run, temporary_directory, write_experiment

EXPERIMENT = """
name: small
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 0, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 32}
model: {kind: cnn, channels: [8, 16], hidden: 32}
train: {steps: 100}
device: {kind: cpu, threads: 1}
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
        self.assertIn("all but workers", page.read_text())
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["exp.yaml", "page.html"], "runs leave nothing")

    def test_the_table_ends_with_lines_of_yaml(self):
        result = run("compare", self.config, "--ablate", "workers", *QUICK)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("recommended: ", result.stdout)
        self.assertIn("round 2 of 2, workers", result.stderr)

    def test_what_cannot_be_compared_is_refused_with_the_reason(self):
        result = run("compare", self.config, "--ablate", "workrs", *QUICK)
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'workers'?", result.stderr)
        self.assertEqual(run("compare", self.config, *QUICK).returncode, 2)
        failed = run("compare", self.config, "--ablate", "workers", *QUICK, "--set", "model.init_from=nowhere")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("baseline failed: ", failed.stderr)
        self.assertIn("nowhere", failed.stderr)


if __name__ == "__main__":
    unittest.main()
