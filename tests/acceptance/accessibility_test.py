"""axe-core finds no serious fault in the pages that trainctl writes, light and dark, wide and narrow."""
import pathlib
import unittest

from browser import find_axe, find_browser, violations
from trainctl_process import run, temporary_directory, write_experiment

EXPERIMENT = """
name: pages
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 64, channels: 3, height: 16, width: 16, num_classes: 4, batch_size: 32}
model: {kind: cnn, channels: [8, 16], hidden: 32}
train: {steps: 12, log_every: 2, eval_every: 6}
profiler: {wait: 1, warmup: 1, active: 2}
device: {kind: cpu, num_threads: 1}
"""


class Accessibility(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if find_browser() is None:
            raise unittest.SkipTest("no Chromium here (apt-get install chromium), so nobody looked at the pages")
        if find_axe() is None:
            raise unittest.SkipTest("no axe-core here (pip install axe-playwright-python, or AXE=axe.min.js), so nobody checked the pages")
        cls.temporary = temporary_directory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.root = pathlib.Path(cls.temporary.name)
        cls.config = write_experiment(cls.root, EXPERIMENT)
        cls.trainctl("train", cls.config, "--run-dir", "run")

    @classmethod
    def trainctl(cls, *arguments):
        result = run(*arguments, cwd=cls.root)
        assert result.returncode == 0, result.stderr

    def check_page(self, name):
        for scheme, width in (("light", 1400), ("dark", 500)):
            with self.subTest(scheme=scheme, width=width):
                serious = [found for found in violations(self.root / name, scheme, width) if found[0] in ("serious", "critical")]
                self.assertEqual(serious, [])

    def test_report(self):
        self.check_page("run/report.html")

    def test_compared_runs(self):
        self.trainctl("train", self.config, "--run-dir", "other", "--set", "optimizer.lr=1e-4")
        self.trainctl("compare", "run", "other", "--html", "runs.html")
        self.check_page("runs.html")

    def test_ablation(self):
        self.trainctl("compare", self.config, "--ablate", "workers,fused", "--steps", 2, "--warmup", 1, "--rounds", 2, "--html", "ablation.html")
        self.check_page("ablation.html")

    def test_profile(self):
        self.trainctl("profile", self.config, "--run-dir", "profiled")
        self.check_page("profiled/profile/report.html")

    def test_quantization(self):
        self.trainctl("quantize", "run", "--method", "static", "--calibration-batches", 2, "--output", "int8")
        self.check_page("int8/report.html")

    def test_data(self):
        self.trainctl("data", "stats", self.config, "--html", "data.html")
        self.check_page("data.html")


if __name__ == "__main__":
    unittest.main()
