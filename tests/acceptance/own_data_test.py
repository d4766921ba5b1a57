"""A user's own data: config new writes an experiment for it, and the run directory alone is enough for all that follows, without the data."""
import json
import pathlib
import random
import shutil
import unittest

from trainctl_process import run, temporary_directory

SHORT = ["--set", "train.epochs=1", "--set", "train.early_stopping=null"]


class OwnData(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        random.seed(1)

    def call(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        return result

    def follow(self, data, *inputs, more=()):
        """config new, train, eval, then, with the data gone, predict and export."""
        self.call("config", "new", "--from", data, "--name", "mine", "--output", "mine.yaml")
        self.call("check", "mine.yaml")
        self.call("train", "mine.yaml", "--run-dir", "run", *SHORT, *more)
        metrics = json.loads(self.call("eval", "run", "--json").stdout)["metrics"]
        self.assertIn("loss", metrics)
        shutil.move(self.root / data, self.root / "moved")
        answers = [json.loads(line) for line in self.call("predict", "run", *inputs).stdout.splitlines()]
        self.call("export", "run", "--no-verify")
        self.assertTrue(any((self.root / "run/export").iterdir()))
        return answers

    def test_a_table(self):
        rows = [f"{random.randint(18, 80)},{random.choice(['Rome', 'Oslo', '?'])},{random.choice(['yes', 'no'])}" for _ in range(300)]
        (self.root / "people.csv").write_text("age,city,agrees\n" + "\n".join(rows) + "\n")
        (self.root / "new.csv").write_text("city,age\nRome,30\nParis,40\n")
        answers = self.follow("people.csv", "new.csv")
        self.assertEqual(len(answers), 2)
        self.assertTrue(all(answer["label"] in ("yes", "no") for answer in answers))
        csv = self.call("predict", "run", "new.csv", "--format", "csv", "--output", "answers.csv")
        self.assertEqual(csv.stdout, "")
        self.assertEqual((self.root / "answers.csv").read_text().splitlines()[0], "input,line,label,score,value,error")

    def test_a_table_of_values(self):
        rows = [f"{n % 90 + 30},{n % 5 + 1},{2.5 * (n % 90) + 7 * (n % 5) + 0.25}" for n in range(300)]
        (self.root / "houses.csv").write_text("area,rooms,price\n" + "\n".join(rows) + "\n")
        (self.root / "new.csv").write_text("area,rooms\n50,2\n")
        (answer,) = self.follow("houses.csv", "new.csv")
        self.assertIsInstance(answer["value"], float)

    def test_texts_with_labels(self):
        words = {"good": "a fine and happy story of two friends", "poor": "a dull and slow story of no one at all"}
        (self.root / "reviews.jsonl").write_text("".join(json.dumps({"text": f"{words[k]} {n}", "label": k}) + "\n" for n in range(60) for k in words))
        (self.root / "new.txt").write_text("a fine story\n")
        (answer,) = self.follow("reviews.jsonl", "new.txt")
        self.assertIn(answer["label"], words)

    def test_a_directory_as_the_hub_gives_it(self):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            self.skipTest("no pyarrow")
        words = {1: "a fine and happy story of two friends", 0: "a dull and slow story of no one at all"}
        for name, count in (("train-00000-of-00002", 40), ("train-00001-of-00002", 40), ("test-00000-of-00001", 20)):
            path = self.root / "reviews/plain_text" / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"text": f"{words[n % 2]} {n}", "label": n % 2} for n in range(count)]
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        (self.root / "reviews/README.md").write_text("---\nlicense: mit\n---\n")
        (self.root / "new.txt").write_text("a fine story\n")
        self.call("config", "new", "--from", "reviews", "--output", "wrong.yaml")
        written = (self.root / "wrong.yaml").read_text()
        self.assertIn('files: "reviews/plain_text/train-*.parquet"', written)
        self.assertIn("files: reviews/plain_text/test-00000-of-00001.parquet", written)
        (self.root / "wrong.yaml").write_text(written.replace("label: label", "label: stars"))
        result = run("check", "wrong.yaml", cwd=self.root)
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no column 'stars'; the columns are text and label", result.stderr)
        (answer,) = self.follow("reviews", "new.txt")
        self.assertIn(answer["label"], ("0", "1"))

    def test_a_text(self):
        (self.root / "plays.txt").write_text("To be, or not to be, that is the question.\n" * 400)
        small = ["--set", "model.hidden_size=16", "--set", "model.num_layers=1"]
        self.call("config", "new", "--from", "plays.txt", "--output", "mine.yaml")
        self.call("train", "mine.yaml", "--run-dir", "run", *SHORT, *small)
        self.assertTrue(self.call("generate", "run", "--prompt", "To be", "--max-tokens", "8").stdout.startswith("To be"))

    def test_photos(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow")
        for label, count in (("dark", 30), ("light", 6)):
            (self.root / "photos" / label).mkdir(parents=True)
            for n in range(count):
                value = n + (20 if label == "dark" else 200)
                Image.new("RGB", (36 + n % 3, 40), (value, value, n)).save(self.root / "photos" / label / f"{n}.png")
        (self.root / "photos/dark/torn.jpg").write_bytes(b"\xff\xd8\xff nothing more")
        self.call("config", "new", "--from", "photos", "--output", "photos.yaml")
        text = (self.root / "photos.yaml").read_text()
        self.assertIn("dark 31, light 6", text)
        self.assertIn("1 of 37 that were opened are damaged", text)
        self.assertIn("class_weighting: balanced", text)
        small = ["--set", "model=cnn", "--set", "dataset.batch_size=8"]
        self.call("train", "photos.yaml", "--run-dir", "run", *SHORT, *small)
        self.call("train", "photos.yaml", "--run-dir", "resnet", "--set", "train.epochs=1", "--set", "dataset.batch_size=8",
                  "--set", "train.early_stopping=null")
        exported = self.call("export", "resnet", "--no-verify")
        self.assertIn("timm and torchvision have no ResNet with the stem for small images", exported.stderr)
        self.assertTrue((self.root / "resnet/export/model.onnx").exists())
        shutil.copytree(self.root / "photos/light", self.root / "new")
        shutil.move(self.root / "photos", self.root / "moved")
        answers = [json.loads(line) for line in self.call("predict", "run", "new").stdout.splitlines()]
        self.assertEqual(len(answers), 6)

    def test_a_starter_is_written_to_the_output(self):
        written = self.call("config", "new", "--model", "gpt2", "--output", "first.yaml")
        self.assertEqual(written.stdout, "written to first.yaml; next: trainctl train first.yaml\n")
        self.assertEqual((self.root / "first.yaml").read_text(), self.call("config", "new", "--model", "gpt2").stdout)

    def test_what_is_no_run_is_refused(self):
        (self.root / "empty").mkdir()
        refused = run("eval", "empty", cwd=self.root)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("has no config.yaml", refused.stderr)
        (self.root / "x.yaml").write_text("name: x\n")
        refused = run("predict", "x.yaml", cwd=self.root)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected --checkpoint, or a run directory", refused.stderr)
        refused = run("config", "new", "--from", "absent", cwd=self.root)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("there is no file or directory absent", refused.stderr)


if __name__ == "__main__":
    unittest.main()
