"""Packages of PyTorch's AOTInductor, which a user brings: evaluated and asked as any exported file."""
import json
import pathlib
import subprocess
import sys
import unittest

from trainctl_process import ROOT, run, temporary_directory, write_experiment

EXPERIMENT = """
name: packaged
seed: 1
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 100, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 32, num_workers: 1}
model: {kind: mlp, hidden: [16]}
optimizer: {lr: 1e-2}
train: {steps: 20, eval_every: 20}
checkpoint: {every: 20}
device: {kind: cpu}
"""


class InductorPackage(unittest.TestCase):
    def test_eval_of_a_package_is_that_of_the_checkpoint_and_a_damaged_one_is_refused(self):
        with temporary_directory() as directory:
            root = pathlib.Path(directory)
            config = write_experiment(root, EXPERIMENT)
            for arguments in (("train", config, "--run-dir", root / "run", "--no-progress"),
                              ("export", config, "--checkpoint", root / "run", "--format", "safetensors", "--output", root / "weights")):
                result = run(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
            weights = next((root / "weights").glob("*.safetensors"))
            package = root / "model.pt2"
            # PyTorch's compiler doesn't quote the path of its libraries; a link's path holds no space.
            (root / "python").symlink_to(sys.prefix)
            made = subprocess.run([root / "python/bin/python3", ROOT / "tests/reference/inductor_package.py", weights, package], capture_output=True,
                                  text=True, timeout=900)
            self.assertEqual(made.returncode, 0, made.stderr[-3000:])

            # Batches of 32, and a last one of 4.
            metrics = []
            for checkpoint in (root / "run", package):
                result = run("eval", config, "--checkpoint", checkpoint, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                metrics.append(json.loads(result.stdout)["metrics"])
            for name, value in metrics[0].items():
                self.assertAlmostEqual(metrics[1][name], value, delta=1e-5)

            whole = package.read_bytes()
            damaged = root / "damaged.pt2"
            for content in (b"no package", whole[:len(whole) // 2], whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]):
                damaged.write_bytes(content)
                result = run("eval", config, "--checkpoint", damaged)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("damaged.pt2 is no AOTInductor package", result.stderr)


if __name__ == "__main__":
    unittest.main()
