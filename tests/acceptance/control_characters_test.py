"""Names of strangers in a terminal: no command that prints names of files, columns, classes or runs sends their control characters."""
import shutil
import unittest

from trainctl_process import InScratch, grey_png, run, write_experiment

EVIL = "\x1b[31mred\x07"
REST = """
seed: 1
model: {kind: mlp, hidden: [4]}
train: {steps: 2, eval_every: 2, log_every: 1}
checkpoint: {every: 2}
device: {kind: cpu, num_threads: 1}
tracking: {tensorboard: false}
"""
TABLE = f"name: evil\ndataset: {{kind: table, train: rows.csv, eval: rows.csv, label: label, batch_size: 8, num_workers: 0}}{REST}"
PHOTOS = f"""name: photos
dataset: {{kind: image_folder, train: photos, batch_size: 2, num_workers: 0, cache_dir: cache, transforms: [{{kind: resize, size: 8, width: 8}}]}}{REST.replace("eval_every: 2, ", "")}"""


class ControlCharacters(InScratch):
    def assert_harmless(self, *arguments, code=0, says="x1b[31mred"):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stdout}{result.stderr}")
        for stream in (result.stdout, result.stderr):
            found = [c for c in stream if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"]
            self.assertEqual(found, [], f"{arguments}: {stream!r}")
        self.assertIn(says, result.stdout + result.stderr, arguments)

    def test_tables(self):
        (self.root / "rows.csv").write_text(f"a{EVIL},b,label\n" + "".join(f"{n % 7},{n % 5},{['yes' + EVIL, 'no'][n % 2]}\n" for n in range(60)))
        write_experiment(self.root, TABLE, "exp.yaml")
        run_directory = f"runs/run{EVIL}"
        self.assert_harmless("check", "exp.yaml", "--set", "dataset.features=[missing]", code=2)
        self.assert_harmless("data", "stats", "exp.yaml")
        self.assert_harmless("data", "preview", "exp.yaml")
        self.assert_harmless("config", "new", "--from", "rows.csv", "--output", f"new{EVIL}.yaml")
        self.assert_harmless("train", "exp.yaml", "--run-dir", run_directory, "--no-progress")
        self.assert_harmless("eval", run_directory)
        self.assert_harmless("runs", "runs")
        self.assert_harmless("runs", "runs", "clean", "--checkpoints", "newest", says="0 directories")
        self.assert_harmless("report", run_directory)
        shutil.copytree(self.root / run_directory, self.root / f"runs/other{EVIL}")
        self.assert_harmless("compare", run_directory, f"runs/other{EVIL}")
        self.assert_harmless("export", run_directory)
        self.assert_harmless("checkpoint", "verify", run_directory)
        self.assert_harmless("predict", run_directory, f"missing{EVIL}.csv", code=1)
        (self.root / "wrong.csv").write_text("x,y\n1,2\n")
        self.assert_harmless("predict", run_directory, "wrong.csv", code=1, says="u001b[31mred")  # JSON

    def test_photos(self):
        for name in (f"dark{EVIL}", "light"):
            (self.root / "photos" / name).mkdir(parents=True)
            for n in range(3):
                (self.root / "photos" / name / f"{n}{EVIL}.png").write_bytes(grey_png([[n * 20] * 16] * 16))
        (self.root / "photos/light" / f"broken{EVIL}.png").write_bytes(b"no image")
        write_experiment(self.root, PHOTOS, "exp.yaml")
        self.assert_harmless("data", "stats", "exp.yaml")
        self.assert_harmless("data", "verify", "exp.yaml", code=1)
        self.assert_harmless("config", "new", "--from", "photos", says="dark")
        self.assert_harmless("train", "exp.yaml", "--run-dir", "run", "--no-progress", "--set", "train.epochs=1", "--set", "train.steps=null", code=1)

    def test_command_lines(self):
        self.assert_harmless(f"train{EVIL}", code=2)
        self.assert_harmless("train", f"missing{EVIL}.yaml", code=2)
        (self.root / f"bad{EVIL}.yaml").write_text("name: [")
        self.assert_harmless("check", f"bad{EVIL}.yaml", code=2)
        self.assert_harmless("tokenize", "--tokenizer", f"missing{EVIL}", "x", code=1)

    def test_what_is_asked_for_as_data_stays_raw(self):
        (self.root / "text.txt").write_text(f"a {EVIL}\n")
        run("tokenize", "--train-bpe", "--vocab-size", "300", "--output", "bpe", "text.txt", cwd=self.root)
        ids = run("tokenize", "--tokenizer", "bpe/tokenizer.json", "text.txt", cwd=self.root).stdout
        (self.root / "ids.jsonl").write_text(ids)
        decoded = run("tokenize", "--tokenizer", "bpe/tokenizer.json", "--decode", "ids.jsonl", cwd=self.root)
        self.assertEqual(decoded.stdout, f"a {EVIL}\n", decoded.stderr)


if __name__ == "__main__":
    unittest.main()
