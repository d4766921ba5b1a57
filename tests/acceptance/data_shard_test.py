"""trainctl data shard, killed at random moments and begun again: the same bytes as in one go; data that changed is told at a resume."""
import json
import os
import pathlib
import random
import shutil
import signal
import time
import unittest

from trainctl_process import run, start, temporary_directory

try:
    from PIL import Image
except ImportError:
    Image = None

CONFIG = """name: shards
device: cpu
dataset:
  kind: {kind}
  train: {train}
  batch_size: 16
  num_workers: 1
  cache_dir: {root}/cache
  transforms: [{{kind: random_resized_crop, size: 16}}]
model: {{kind: mlp, hidden: [8]}}
train: {{steps: {steps}}}
checkpoint: {{every: 2}}
"""
OPTIONS = ("--shard-mib", "1", "--max-side", "300", "--quality", "90")


def make_photos(root, count=120):
    """Noise compresses badly, so that shards take their time."""
    draw = random.Random(1)
    for i in range(count):
        directory = root / "photos" / ("even", "odd")[i % 2]
        directory.mkdir(parents=True, exist_ok=True)
        size = (draw.randrange(300, 400), draw.randrange(300, 400))
        Image.frombytes("RGB", size, draw.randbytes(3 * size[0] * size[1])).save(directory / f"{i}.jpg", quality=80)


def shard_bytes(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.startswith(".")}


@unittest.skipIf(Image is None, "no Pillow to make images with (scripts/setup.sh --tests)")
class DataShard(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        make_photos(self.root)

    def config(self, name="photos", kind="image_folder", steps=2):
        path = self.root / f"{kind}.yaml"
        place = str(self.root / name)
        path.write_text(CONFIG.format(root=self.root, kind=kind, steps=steps, train=[place] if kind == "webdataset" else place))
        return path

    def shard(self, output):
        result = run("data", "shard", self.config(), "--output", self.root / output, *OPTIONS, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def kill_while_writing(self, output):
        """Kills a process once it has shards more than there were, or is in the middle of one; whether it lived until then."""
        directory = self.root / output
        had = len(list(directory.glob("train-*.tar"))) if directory.exists() else 0
        process = start("data", "shard", self.config(), "--output", directory, *OPTIONS)
        while process.poll() is None and not (directory.exists() and (len(list(directory.glob("train-*.tar"))) > had or list(directory.glob(".*.part")))):
            time.sleep(0.001)
        time.sleep(random.Random(had).uniform(0, 0.05))  # anywhere in a shard
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL

    def test_killed_and_begun_again_it_writes_what_it_writes_in_one_go(self):
        whole = self.shard("whole")
        self.assertGreater(whole["shards"], 4)
        kills = 0
        for _ in range(50):  # on a busy machine some end before they are killed
            if self.kill_while_writing("killed"):
                kills += 1
            elif kills == 0:
                shutil.rmtree(self.root / "killed")
            if kills == 3:
                break
        self.assertGreater(kills, 0)
        left = {path.name: path.stat().st_mtime_ns for path in (self.root / "killed").glob("train-*.tar")}
        again = self.shard("killed")
        self.assertEqual(again["samples"], 120)
        self.assertEqual(shard_bytes(self.root / "killed"), shard_bytes(self.root / "whole"))
        self.assertEqual(list((self.root / "killed").glob("*.part")) + list((self.root / "killed").glob(".*.part")), [])
        self.assertLessEqual(again["kept"], len(left))
        verified = run("data", "verify", self.config("killed", "webdataset"))
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_other_data_is_not_mixed_into_shards_that_were_begun(self):
        while not self.kill_while_writing("killed"):
            shutil.rmtree(self.root / "killed")
        Image.new("RGB", (50, 50)).save(self.root / "photos/even/0.jpg")
        result = run("data", "shard", self.config(), "--output", self.root / "killed", *OPTIONS)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("has shards of other data", result.stderr)

    def resume_after(self, change, *train):
        """What a run that goes on after the change says."""
        first = run("train", self.config(*train), "--run-dir", self.root / "run")
        self.assertEqual(first.returncode, 0, first.stderr)
        change()
        resumed = run("train", self.config(*train, steps=4), "--run-dir", self.root / "run")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        return resumed.stderr

    def test_images_changed_in_place_are_told_at_a_resume(self):
        told = "the training data is not what the checkpoint was trained on"
        self.assertNotIn(told, self.resume_after(lambda: None))
        shutil.rmtree(self.root / "run")

        def change():
            path = self.root / "photos/odd/7.jpg"
            image = path.read_bytes()
            with open(path, "r+b") as file:
                file.write(image[:-20] + bytes(18) + image[-2:])
            os.utime(path)
        self.assertIn(told, self.resume_after(change))

    def test_a_shard_changed_in_place_is_told_at_a_resume(self):
        self.shard("shards")

        def change():
            path = self.root / "shards/train-000000.tar"
            with open(path, "r+b") as file:
                file.seek(600)
                file.write(b"other")
            (self.root / "shards/index.json").unlink()
        self.assertIn("the training data is not what the checkpoint was trained on", self.resume_after(change, "shards", "webdataset"))


if __name__ == "__main__":
    unittest.main()
