"""Jobs under torchrun that lose a rank, a node and a checkpoint go on with every sample once; benchmarks/chaos.py does fifty."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from trainctl_process import ROOT, TRAINCTL

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")


class Chaos(unittest.TestCase):
    def test_disturbed_runs_end_as_undisturbed_ones(self):
        python = ROOT / ".deps/python/bin/python3"
        if not IMAGES.exists() or not python.exists():
            self.skipTest("needs Debian's dataset-fashion-mnist, and PyTorch in .deps/python (scripts/setup.sh --tests)")
        with tempfile.TemporaryDirectory(prefix="trainctl-acceptance-") as directory:
            result = subprocess.run([sys.executable, ROOT / "benchmarks/chaos.py", "--runs", "2", "--kinds", "lose", "corrupt", "--seed", "4", "--trainctl", TRAINCTL,
                                     "--python", python, "--keep", directory], capture_output=True, text=True, env={**os.environ, "CHAOS_PATIENCE": "60"})
        print(result.stderr, result.stdout, file=sys.stderr)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
