"""report.html of `profile`: it holds summary.json, and what it shows are that file's numbers."""
import json
import pathlib
import unittest

from browser import embedded_data, find_browser, rendered
from trainctl_process import run, temporary_directory, write_experiment

IMAGES = """
name: images
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 0, channels: 3, height: 32, width: 32, num_classes: 4, batch_size: 16}
model: {kind: resnet18, num_classes: 4, stem: cifar}
train: {steps: 20}
profiler: {wait: 1, warmup: 1, active: 2}
device: {kind: cpu, num_threads: 1}
"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = temporary_directory()
        cls.addClassCleanup(cls.temporary.cleanup)
        root = pathlib.Path(cls.temporary.name)
        result = run("profile", write_experiment(root, IMAGES), "--run-dir", root / "run", cwd=root)
        assert result.returncode == 0, result.stderr
        cls.page = root / "run/profile/report.html"
        cls.summary = json.loads((root / "run/profile/summary.json").read_text())

    def test_the_page_holds_the_summary_and_is_small(self):
        self.assertEqual(embedded_data(self.page), self.summary)
        self.assertLess(self.page.stat().st_size, 5_000_000)

    def same(self, shown, expected, what):
        if expected is None:
            self.assertIn(shown, (None, ""), what)
        else:
            self.assertAlmostEqual(float(shown), expected, delta=1e-12 * abs(expected), msg=what)

    def check_table(self, rows, records, keys):
        """The first cell is the record's name; the others its keys, in the table's order."""
        self.assertEqual(len(rows), len(records))
        for cells, record in zip(rows, records):
            self.assertEqual(cells[0][0], record["name"])
            for cell, key in zip(cells[1:], keys):
                self.same(cell[0], record[key], f"{record['name']}: {key}")

    def test_what_is_drawn_are_the_numbers_of_the_summary(self):
        if find_browser() is None:
            self.skipTest("no Chromium here (apt-get install chromium), so nobody looked at what the page draws")
        tables, facts = rendered(self.page)
        summary = self.summary
        for fact, value in {"step": summary["steps"]["mean_ms"], "samples/s": summary["steps"]["samples_per_s"],
                            "of the peak FLOP/s": summary["steps"]["mfu"], "device busy": summary["steps"]["device_utilization"]}.items():
            self.same(facts[fact], value, fact)
        self.check_table(tables["split"], summary["steps"]["split"], ("mean_ms", "share", "std_ms", "min_ms", "max_ms"))
        self.check_table(tables["operators"], summary["operators"], ("self_ms", "share", "calls", "flops_per_s", "bytes_per_s", "roofline_efficiency"))
        self.check_table(tables["modules"], summary["modules"], ())
        for cells, module in zip(tables["modules"], summary["modules"]):
            for cell, key in zip(cells[2:], ("forward_ms", "backward_ms", "calls", "flops", "parameters_mib", "activations_mib", "peak_mib")):
                self.same(cell[0], module[key], f"{module['name']}: {key}")
        if summary["memory"]["peak"]:
            self.check_table(tables["peak_by_module"], summary["memory"]["peak"]["by_module"], ("mib",))
        milliseconds = f"{summary['steps']['split'][2]['mean_ms']:.2f}"
        if 1 <= summary["steps"]["split"][2]["mean_ms"] < 100:
            self.assertEqual(tables["split"][2][1][1], milliseconds, "rounded, not otherwise changed")


if __name__ == "__main__":
    unittest.main()
