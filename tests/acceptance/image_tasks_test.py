"""Images with labels from a table, with several labels, and with a class for each pixel: every command, on sets that a small network learns."""
import csv
import io
import json
import pathlib
import random
import unittest
import zlib

from trainctl_process import metrics, png, run, temporary_directory

SIDE = 16
COMMON = """
train: {{steps: {steps}, eval_every: {steps}, log_every: 1}}
optimizer: {{kind: adamw, lr: 0.02}}
checkpoint: {{every: 10}}
device: {{kind: cpu}}
"""
LABELED = """
name: labeled
dataset:
  kind: image_folder
  train: {root}/photos
  eval_fraction: 0.25
  labels: {{train: {root}/labels.csv, {labels}}}
  batch_size: 16
  num_workers: 1
  transforms: [{{kind: resize, size: 16, width: 16}}, random_horizontal_flip, normalize]
model: {{kind: cnn, channels: [8], hidden: 16}}
""" + COMMON
SEGMENTED = """
name: segmented
dataset:
  kind: segmentation_folder
  train: {{images: {root}/images, masks: {root}/masks}}
  eval: {{images: {root}/images, masks: {root}/masks}}
  class_names: [ground, thing]
  batch_size: 8
  eval_batch_size: 5
  num_workers: 1
  transforms: [{{kind: random_resized_crop, size: 16, scale: [0.5, 1]}}, random_horizontal_flip, normalize]
  eval_transforms: [{{kind: resize, size: 16, width: 16}}, normalize]
model:
  kind: layers
  layers:
    - {{kind: conv2d, channels: 8}}
    - {{kind: relu, name: full}}
    - max_pool
    - {{kind: conv2d, channels: 8}}
    - relu
    - {{kind: conv_transpose2d, channels: 8}}
    - {{kind: concat, with: [full]}}
    - {{kind: conv2d, channels: auto, kernel_size: 1}}
""" + COMMON


def photo(colors):
    """An RGB image with the red channel in the upper half and the blue one in the lower half, as `colors` says."""
    return png([[255 if "red" in colors else 20, 40, 40] * SIDE if y < SIDE // 2 else [40, 40, 255 if "blue" in colors else 20] * SIDE
                for y in range(SIDE)], 2, 3)


def read_palette(path):
    """The indices of a PNG with a palette, whose rows have no filter or a filter that this reads."""
    data, offset, compressed = pathlib.Path(path).read_bytes(), 8, b""
    while offset < len(data):
        length, kind = int.from_bytes(data[offset:offset + 4], "big"), data[offset + 4:offset + 8]
        body = data[offset + 8:offset + 8 + length]
        if kind == b"IHDR":
            width, depth, color_type = int.from_bytes(body[:4], "big"), body[8], body[9]
        compressed += body if kind == b"IDAT" else b""
        offset += length + 12
    assert (depth, color_type) == (8, 3), "the mask has a palette of 8 bits"
    raw, rows = zlib.decompress(compressed), []
    for begin in range(0, len(raw), width + 1):
        assert raw[begin] == 0, "the rows have no filter"
        rows.append(list(raw[begin + 1:begin + 1 + width]))
    return rows


class ImageTasks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))

    def done(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def write(self, name, text, **values):
        path = self.root / f"{name}.yaml"
        path.write_text(text.format(root=self.root, **values))
        return path

    def write_photos(self, separator):
        draw = random.Random(1)
        (self.root / "photos").mkdir(exist_ok=True)
        rows = [["image", "colors"]]
        for i in range(64):
            colors = [color for color in ("red", "blue") if draw.random() < 0.5] if separator else [("red", "blue")[i % 2]]
            (self.root / f"photos/{i}.png").write_bytes(photo(colors))
            rows.append([f"{i}.png", (separator or "").join(colors)])
        with open(self.root / "labels.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)

    def write_segments(self):
        draw = random.Random(2)
        for folder in ("images", "masks"):
            (self.root / folder).mkdir(exist_ok=True)
        for i in range(24):
            top, left = draw.randrange(8), draw.randrange(8)
            inside = [[int(top <= y < top + 8 and left <= x < left + 8) for x in range(SIDE)] for y in range(SIDE)]
            (self.root / f"images/{i}.png").write_bytes(png([[level for cell in row for level in ([220, 200, 60] if cell else [30, 60, 90])]
                                                             for row in inside], 2, 3))
            inside[0] = [255] * SIDE
            (self.root / f"masks/{i}.png").write_bytes(png(inside, 0))

    def trained(self, config, name, *more):
        return json.loads(self.done("train", config, "--run-dir", self.root / name, "--json", *more).stdout)

    def check_resume(self, config):
        """20 steps are 10, a new start, and 10 more."""
        short = ("--set", "train.eval_every=0", "--set", "train.steps=20")
        names = [f"{config.stem}_whole", f"{config.stem}_parts"]
        self.trained(config, names[0], *short)
        self.trained(config, names[1], "--set", "train.eval_every=0", "--set", "train.steps=10")
        self.trained(config, names[1], *short)
        losses = [[record["loss"] for record in metrics(self.root / name) if record["event"] == "step"] for name in names]
        self.assertEqual(losses[0][-10:], losses[1][-10:])

    def check_export(self, config, name):
        """The exported file evaluates as the run does."""
        self.done("export", config, "--checkpoint", self.root / name, "--format", "onnx", "--output", self.root / f"{name}_onnx")
        return json.loads(self.done("eval", config, "--checkpoint", self.root / f"{name}_onnx/model.onnx", "--json").stdout)

    def test_a_table_of_labels_is_learned(self):
        self.write_photos(None)
        config = self.write("labeled", LABELED, labels="file: image, label: colors", steps=40)
        self.done("check", config)
        self.assertGreater(self.trained(config, "labeled")["final_metrics"]["accuracy"], 0.95)
        answers = [json.loads(line) for line in self.done("predict", config, "--checkpoint", self.root / "labeled", "photos/1.png").stdout.splitlines()]
        self.assertEqual(answers[0]["label"], "blue")
        (self.root / "labels.csv").write_text("image,colors\n0.png,red\nnone.png,blue\n")
        self.assertIn("labels.csv:3: there is no picture", run("check", config).stdout + run("check", config).stderr)

    def test_several_labels_are_learned(self):
        self.write_photos("|")
        config = self.write("several", LABELED, labels='file: image, label: colors, separator: "|"', steps=80)
        self.done("check", config)
        summary = self.trained(config, "several")
        self.assertEqual(set(summary["final_metrics"]), {"loss", "mean_average_precision", "f1_micro", "f1_macro", "exact_match"})
        self.assertGreater(summary["final_metrics"]["mean_average_precision"], 0.95)
        self.assertGreater(summary["final_metrics"]["exact_match"], 0.9)
        details = json.loads((self.root / "several/evaluation.json").read_text())["details"]
        self.assertEqual(details["class_names"], ["blue", "red"])
        (self.root / "both.png").write_bytes(photo(["red", "blue"]))
        (self.root / "none.png").write_bytes(photo([]))
        predict = ("predict", config, "--checkpoint", self.root / "several", "both.png", "none.png")
        both, none = (json.loads(line) for line in self.done(*predict).stdout.splitlines())
        self.assertEqual((sorted(both["labels"]), none["labels"]), (["blue", "red"], []))
        self.assertGreater(min(both["scores"].values()), 0.5)
        table = list(csv.DictReader(io.StringIO(self.done(*predict, "--format", "csv").stdout)))
        self.assertEqual([set(row["label"].split("|")) for row in table], [{"blue", "red"}, {""}])
        self.assertEqual(self.check_export(config, "several")["metrics"]["exact_match"], summary["final_metrics"]["exact_match"])
        ranks = self.trained(config, "ranks", "--nproc", "2", "--set", "dataset.batch_size=8")
        self.assertAlmostEqual(ranks["final_metrics"]["mean_average_precision"], summary["final_metrics"]["mean_average_precision"], 2)
        self.check_resume(config)
        self.assertRegex(self.done("data", "stats", config).stdout, r"2 classes\n    blue +\d+")
        self.assertRegex(self.done("data", "preview", config, "-n", "3").stdout, "sample 1: ")
        self.done("plan", config, "--set", "model.num_classes=2")
        wrong = run("check", config, "--set", "task.kind=classification")
        self.assertIn("expected multi_label_classification", wrong.stdout + wrong.stderr)

    def test_segments_are_learned(self):
        self.write_segments()
        config = self.write("segmented", SEGMENTED, steps=60)
        self.done("check", config)
        summary = self.trained(config, "segmented")
        self.assertGreater(summary["final_metrics"]["mean_iou"], 0.9)
        details = json.loads((self.root / "segmented/evaluation.json").read_text())["details"]
        self.assertEqual(details["num_pixels"], 24 * SIDE * (SIDE - 1))
        answer = json.loads(self.done("predict", config, "--checkpoint", self.root / "segmented", "images/3.png", "--masks", "out").stdout)
        self.assertEqual(set(answer["shares"]), {"ground", "thing"})
        predicted, true = read_palette(self.root / answer["mask"]), [[int(cell == 1) for cell in row] for row in self.mask_of(3)]
        wrong = sum(a != b for rows in list(zip(predicted, true))[1:] for a, b in zip(*rows))
        self.assertLess(wrong, 12)
        (self.root / "again").mkdir()
        (self.root / "again/3.png").write_bytes((self.root / "images/3.png").read_bytes())
        named = self.done("predict", config, "--checkpoint", self.root / "segmented", "images/3.png", "images/4.png", "again/3.png", "--masks", "batch").stdout
        answers = [json.loads(line) for line in named.splitlines()]
        self.assertEqual(["error" in one for one in answers], [False, False, True])
        self.assertIn("that of an earlier input with the same name", answers[2]["error"])
        images = {path: path.read_bytes() for path in (self.root / "images").iterdir()}
        refused = run("predict", config, "--checkpoint", self.root / "segmented", "images/3.png", "--masks", "images", cwd=self.root)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("would replace an input", json.loads(refused.stdout)["error"])
        self.assertEqual({path: path.read_bytes() for path in (self.root / "images").iterdir()}, images)
        self.assertAlmostEqual(self.check_export(config, "segmented")["metrics"]["mean_iou"], summary["final_metrics"]["mean_iou"], 5)
        self.check_resume(config)
        one = json.loads(self.done("eval", config, "--checkpoint", self.root / "segmented", "--json").stdout)["metrics"]
        two = self.trained(config, "two", "--nproc", "2", "--set", "dataset.batch_size=4")["final_metrics"]
        self.assertEqual(one["mean_iou"], summary["final_metrics"]["mean_iou"])
        self.assertAlmostEqual(two["mean_iou"], one["mean_iou"], 1)
        self.done("data", "verify", config)
        self.done("data", "stats", config)
        self.done("data", "preview", config, "-n", "2", "--html", "preview.html")
        self.assertIn("ground", (self.root / "preview.html").read_text())
        self.done("plan", config)
        self.done("profile", config)
        (self.root / "masks/7.png").write_bytes(png([[0, 3]], 0))
        spoiled = run("train", config, "--run-dir", self.root / "spoiled")
        self.assertEqual(spoiled.returncode, 1)
        self.assertIn("masks/7.png: the mask has 2×1 pixels, and its image 16×16", spoiled.stderr)

    def mask_of(self, number):
        data = (self.root / f"masks/{number}.png").read_bytes()
        begin = data.index(b"IDAT") + 4
        raw = zlib.decompressobj().decompress(data[begin:])
        return [list(raw[row * (SIDE + 1) + 1:(row + 1) * (SIDE + 1)]) for row in range(SIDE)]


if __name__ == "__main__":
    unittest.main()
