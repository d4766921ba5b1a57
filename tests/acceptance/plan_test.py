"""What `plan` predicts against what training then holds."""
import pathlib
import sys
import unittest

from trainctl_process import TRAINCTL

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import plan_memory  # noqa: E402

RUNS = ["cnn", "gpt2 bf16", "resnet50", "bert", "lstm"]


class PlanTest(unittest.TestCase):
    def test_predicted_peaks_are_near_the_measured_ones(self):
        for name in RUNS:
            with self.subTest(name):
                result = plan_memory.compare(TRAINCTL, name)
                self.assertLessEqual(abs(result["error"]), plan_memory.MOST, result)


if __name__ == "__main__":
    unittest.main()
