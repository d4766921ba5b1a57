"""Training that waits for data says why, in a warning and in summary.json; training that doesn't says nothing."""
import json
import os
import pathlib
import tempfile
import unittest

from trainctl_process import fetched, preloaded, run

try:
    from PIL import Image
except ImportError:
    Image = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
CONFIG = """name: wait
device: cpu
dataset:
  kind: {kind}
  train: {train}
  batch_size: 16
  num_workers: {workers}
  cache_dir: {cache}
  transforms: [{transforms}]
model: {model}
optimizer: {{kind: sgd, lr: 0.001}}
train: {{steps: {steps}, log_every: 2}}
checkpoint: {{every: 0}}
"""
SMALL_MODEL = "{kind: mlp, hidden: [8]}"
CROP = "{kind: random_resized_crop, size: 16}"


def write_photos(directory, photo, count, size, ending):
    """Parts of a real photo, as large as `size`."""
    for i in range(count):
        folder = directory / f"class_{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        photo.resize(size, Image.Resampling.BILINEAR, (i, i, photo.width - 20, photo.height - 20)).save(folder / f"{i:03}.{ending}")


@unittest.skipIf(Image is None, "no Pillow to make images with (scripts/setup.sh --tests)")
class DataWait(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not fetched("photos"):
            raise unittest.SkipTest("the photos can't be fetched")
        temporary = tempfile.TemporaryDirectory(prefix="trainctl-acceptance-")
        cls.addClassCleanup(temporary.cleanup)
        cls.root = pathlib.Path(temporary.name)
        photo = Image.open(next((ROOT / ".deps/data/photos").rglob("flower.jpg"))).convert("RGB")
        write_photos(cls.root / "large", photo, 16, (800, 600), "png")
        write_photos(cls.root / "small", photo, 64, (60, 45), "jpg")

    def train(self, name, *, train="small", kind="image_folder", workers=CORES, transforms=CROP, model=SMALL_MODEL, steps=10, env=None):
        """The warnings about data, and the summary."""
        config = self.root / f"{name}.yaml"
        place = self.root / train
        config.write_text(CONFIG.format(kind=kind, train=[str(place)] if kind == "webdataset" else place, workers=workers, transforms=transforms, model=model, steps=steps, cache=self.root / "cache"))
        result = run("train", config, "--run-dir", self.root / name, "--json", env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        warnings = [line for line in result.stderr.splitlines() if "waiting for data" in line]
        summary = json.loads((self.root / name / "summary.json").read_text())
        self.assertEqual(summary, json.loads(result.stdout))
        return warnings, summary

    def assert_told(self, told, cause, *words):
        warnings, summary = told
        self.assertEqual(summary["data_wait_cause"], cause, warnings)
        of_cause = [warning for warning in warnings if words[0] in warning]
        self.assertEqual(len(of_cause), 1, warnings)
        for word in words:
            self.assertIn(word, of_cause[0])

    def slow_disk(self, path):
        """The environment in which reads of paths with `path` in them take 20 ms more."""
        environment = preloaded("slow_reads", self.root, path=path, us=20000)
        if environment is None:
            self.skipTest("no C compiler")
        return environment

    def test_a_slow_disk_is_named(self):
        told = self.train("disk", env=self.slow_disk(self.root / "small"))
        self.assert_told(told, "disk", "reading from the disk", "dataset.num_workers", "trainctl data shard")

    def test_a_slow_disk_is_named_where_samples_lie_in_shards(self):
        config = self.root / "shards.yaml"
        config.write_text(CONFIG.format(kind="image_folder", train=self.root / "small", workers=1, transforms=CROP, model=SMALL_MODEL, steps=1, cache=self.root / "cache"))
        sharded = run("data", "shard", config, "--output", self.root / "shards")
        self.assertEqual(sharded.returncode, 0, sharded.stderr)
        told = self.train("disk_of_shards", kind="webdataset", train="shards", env=self.slow_disk(self.root / "shards"))
        self.assert_told(told, "disk", "reading from the disk")

    def test_one_slow_disk_and_one_worker_are_still_the_disk(self):
        told = self.train("disk_alone", workers=1, steps=10, env=self.slow_disk(self.root / "small"))
        self.assert_told(told, "disk", "reading from the disk", "dataset.num_workers")

    def test_costly_decoding_is_named(self):
        told = self.train("decode", train="large", transforms="{kind: resize, size: 16, width: 16}", steps=12)
        self.assert_told(told, "decode", "decoding images", "--max-side")

    def test_a_costly_transform_is_named(self):
        told = self.train("transform", train="large", transforms="{kind: rand_augment, num_ops: 16, magnitude: 15}, " + CROP, steps=4)
        self.assert_told(told, "transform", "transforming samples", "dataset.transforms")

    @unittest.skipIf(CORES < 2, "with one core, one worker is not too few")
    def test_one_worker_too_few_is_named(self):
        told = self.train("workers", train="large", transforms="{kind: resize, size: 16, width: 16}", workers=1, steps=12)
        self.assert_told(told, "too few workers", "too few workers", "dataset.num_workers to 2 or more", f"1 now, {CORES} cores")

    def test_a_fast_source_is_not_warned_of(self):
        # A step takes a hundred times as long as its batch, so that a busy machine makes no difference.
        warnings, summary = self.train("fast", transforms="{kind: resize, size: 64, width: 64}", model="{kind: cnn, channels: [256, 512, 512], hidden: 64}", steps=4)
        self.assertEqual(warnings, [])
        self.assertEqual(summary["data_wait_cause"], "none")


if __name__ == "__main__":
    unittest.main()
