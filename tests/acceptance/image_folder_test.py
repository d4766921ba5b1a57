"""Folders of image files: a run learns from them, lists the bad ones, and the loader can be measured alone."""
import json
import pathlib
import random
import re
import unittest

from trainctl_process import run, temporary_directory

try:
    from PIL import Image
except ImportError:
    Image = None

CONFIG = """name: folder
dataset:
  kind: image_folder
  train: {root}/photos
  eval_fraction: 0.2
  batch_size: 16
  cache_dir: {root}/cache
  transforms:
    - {{kind: random_resized_crop, size: 32, scale: [0.5, 1]}}
    - {{kind: random_horizontal_flip}}
    - {{kind: color_jitter, brightness: 0.1}}
    - {{kind: normalize}}
model: {{kind: cnn, channels: [8], hidden: 16}}
optimizer: {{kind: adamw, lr: 0.01}}
train: {{epochs: 6, eval_every: 1000, log_every: 5}}
"""


def make_photos(root, count=150):
    """Two classes that differ in colour, as JPEG and PNG of many sizes."""
    draw = random.Random(1)
    for i in range(count):
        name = ("sea", "wood")[i % 2]
        directory = root / "photos" / name / f"part{i % 3}"
        directory.mkdir(parents=True, exist_ok=True)
        colour = (draw.randrange(60), draw.randrange(90), 160 + draw.randrange(90)) if name == "sea" else (120, 60 + draw.randrange(90), draw.randrange(60))
        image = Image.new("RGB", (draw.randrange(40, 90), draw.randrange(40, 90)), colour)
        image.save(directory / (f"{i}.jpg" if i % 5 else f"{i}.png"))


@unittest.skipIf(Image is None, "no Pillow to make images with (scripts/setup.sh --tests)")
class ImageFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        make_photos(self.root)
        self.config = self.root / "folder.yaml"
        self.config.write_text(CONFIG.format(root=self.root))

    def spoil(self):
        whole = self.root / "photos/sea/part0/6.jpg"
        whole.write_bytes(whole.read_bytes()[:-40])
        (self.root / "photos/wood/part1/1.jpg").write_bytes(b"no image at all")
        return 2

    def test_a_run_learns_from_a_folder(self):
        result = run("train", self.config, "--run-dir", self.root / "run", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["final_metrics"]["accuracy"], 0.95)
        self.assertFalse((self.root / "run/bad_samples.jsonl").exists())

    def test_bad_samples_stop_a_run_or_are_listed(self):
        bad = self.spoil()
        result = run("train", self.config, "--run-dir", self.root / "fail")
        self.assertEqual(result.returncode, 1)
        self.assertIn("on_bad_sample", result.stderr)
        for policy in ("skip", "replace"):
            result = run("train", self.config, "--run-dir", self.root / policy, "--set", f"dataset.on_bad_sample={policy}")
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = [json.loads(line) for line in (self.root / policy / "bad_samples.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), bad)
            self.assertEqual({"6.jpg", "1.jpg"}, {line["problem"].split(":")[0].rsplit("/", 1)[1] for line in lines})
            bad_of = {}
            for split, count in (("train", 115), ("eval", 35)):
                result = run("eval", self.root / policy, "--split", split)
                self.assertEqual(result.returncode, 0, result.stderr)
                bad_of[split] = sum(name in result.stderr for name in ("/6.jpg", "/1.jpg"))
                left_out = bad_of[split] if policy == "skip" else 0
                self.assertIn(f"{split} set, {count - left_out}{f' of {count}' if left_out else ''} samples", result.stdout)
            self.assertEqual(sum(bad_of.values()), bad)
        result = run("train", self.config, "--run-dir", self.root / "many", "--set", "dataset.on_bad_sample=skip", "--set", "dataset.max_bad_samples=1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("dataset.max_bad_samples", result.stderr)

    def test_statistics_say_in_how_many_samples_classes_were_counted(self):
        whole = run("data", "stats", self.config)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertRegex(whole.stdout, r"train: 115 samples, 115 read, [^\n]*\n(?: .*\n)*?  2 classes\n    sea +\d+ +\d+\.\d %\n    wood ")
        some = run("data", "stats", self.config, "--max-samples", "40")
        self.assertEqual(some.returncode, 0, some.stderr)
        found = re.search(r"train: 115 samples, 40 read.*\n(?: .*\n)*?  2 classes, counted in the 40 samples read\n"
                          r"    sea +(\d+) +([\d.]+) %\n    wood +(\d+) +([\d.]+) %\n", some.stdout)
        self.assertIsNotNone(found, some.stdout)
        counts = int(found[1]), int(found[3])
        self.assertEqual(sum(counts), 40)
        self.assertEqual((float(found[2]), float(found[4])), tuple(round(count / 0.4, 1) for count in counts))

    def test_images_that_are_stored_turned_are_told(self):
        exif = Image.Exif()
        exif[0x0112] = 6
        for name in ("sea", "wood"):
            path = next((self.root / f"photos/{name}").rglob("*.jpg"))
            Image.open(path).save(path, exif=exif)
        for command in ("stats", "verify"):
            told = run("data", command, self.config)
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertRegex(told.stdout, r"images? (is|are) stored turned or mirrored \(EXIF orientation\)")
            document = json.loads(run("data", command, self.config, "--json").stdout)
            self.assertEqual(sum(part["turned"] for part in (document["sets"] if command == "stats" else [document])), 2)

    def test_the_loader_is_measured_alone(self):
        result = run("data", "bench", self.config, "--seconds", "0.5", "--warmup", "0.2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        measured = json.loads(result.stdout)
        self.assertGreater(measured["samples_per_s"], 0)
        self.assertGreater(measured["decode_ms"], 0)
        self.assertEqual(measured["bad_samples"], 0)


if __name__ == "__main__":
    unittest.main()
