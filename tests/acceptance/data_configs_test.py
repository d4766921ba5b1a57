"""The example experiments on folders, shards, tables and mixtures: their twins for two cores train, on real photos, flights and texts."""
import json
import math
import pathlib
import subprocess
import sys
import unittest

from trainctl_process import ROOT, fetched, metrics, run, temporary_directory

TINY = ROOT / "configs/tiny"


class DataConfigs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))

    def photos(self):
        """A small tree, as the config's comment makes it."""
        if not fetched("photos"):
            self.skipTest("the photos can't be fetched")
        tree = self.root / "photos"
        if not tree.exists():
            photos = sorted((ROOT / ".deps/data/photos/sklearn/datasets/images").glob("*.jpg"))
            made = subprocess.run([sys.executable, ROOT / "benchmarks/photo_tree.py", tree, "--count", "80", "--classes", "2", "--photos", *photos])
            if made.returncode != 0:
                self.skipTest("no Pillow to make photos with")
        return tree

    def call(self, *arguments):
        result = run(*arguments, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def train(self, name, *settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        return json.loads(self.call("train", TINY / f"{name}.yaml", "--run-dir", self.root / name, "--json", *arguments).stdout)

    def test_photos_in_folders(self):
        summary = self.train("imagenet_resnet50_v2", f"dataset.train={self.photos()}", f"dataset.cache_dir={self.root}/cache", "train.epochs=3", "train.log_every=2")
        self.assertGreaterEqual(summary["steps"], 9)
        self.assertTrue(math.isfinite(summary["final_metrics"]["loss"]))

    def test_photos_in_shards(self):
        shards, cache = self.root / "shards", f"dataset.cache_dir={self.root}/cache"
        self.call("data", "shard", TINY / "imagenet_resnet50_v2.yaml", "--set", f"dataset.train={self.photos()}", "--set", cache,
                  "--output", shards, "--shard-mib", "1", "--max-side", "128")
        summary = self.train("imagenet_webdataset", f"dataset.train=[{shards}/train-*.tar]", f"dataset.eval=[{shards}/eval-*.tar]", cache, "train.epochs=3")
        self.assertGreaterEqual(summary["steps"], 9)
        self.assertTrue(math.isfinite(summary["final_metrics"]["loss"]))

    def test_flights_from_a_table(self):
        if not fetched("flights"):
            self.skipTest("the flights can't be fetched")
        summary = self.train("flights_mlp")
        self.assertGreater(summary["final_metrics"]["pearson"], 0.8)

    def test_texts_in_a_mixture(self):
        if not fetched("shakespeare", "gpt2_vocabulary"):
            self.skipTest("the texts can't be fetched")
        self.train("gpt2_mixture", "train.steps=6", "optimizer.lr_scheduler.warmup=1", "train.log_every=1", *(f"dataset.sources[{i}].cache_dir={self.root}/cache" for i in range(2)))
        losses = [record["loss"] for record in metrics(self.root / "gpt2_mixture") if record["event"] == "step"]
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
