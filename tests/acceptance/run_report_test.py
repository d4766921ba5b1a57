"""The page about a run, what it is made of, and the list of runs."""
import json
import pathlib
import shutil
import unittest

from browser import embedded_data, find_browser, rendered
from trainctl_process import run, temporary_directory, write_experiment

IMAGES = """
name: images
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 64, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 32,
  transforms: [{kind: normalize}]}
model: {kind: cnn, channels: [8, 16], hidden: 32}
train: {steps: 12, log_every: 2, eval_every: 6}
checkpoint: {every: 6, keep_last: 5, best: accuracy}
tracking: {sample_predictions: 5}
device: {kind: cpu, num_threads: 1}
"""
TABLE = """
name: table
dataset: {kind: table, train: [rows.csv], eval: [rows.csv], label: kind, batch_size: 8}
model: {kind: mlp, hidden: [8]}
train: {steps: 4, log_every: 2}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
"""
LANGUAGE = """
name: language
dataset: {kind: text_lm, tokenizer: bytes, seq_len: 16, batch_size: 4, train: [text.txt], eval: [text.txt]}
model: {kind: gpt2, num_layers: 1, num_heads: 2, hidden_size: 16}
train: {steps: 4, log_every: 2}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
"""


class RunReport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = temporary_directory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.root = pathlib.Path(cls.temporary.name)
        cls.config = write_experiment(cls.root, IMAGES)
        (cls.root / ".git/refs/heads").mkdir(parents=True)
        (cls.root / ".git/HEAD").write_text("ref: refs/heads/trial\n")
        (cls.root / ".git/refs/heads/trial").write_text("0123456789abcdef0123456789abcdef01234567\n")
        cls.train("images")
        cls.run_directory = cls.root / "runs/images"

    @classmethod
    def train(cls, name, *arguments, config=None, status=0):
        result = run("train", config or cls.config, "--run-dir", cls.root / "runs" / name, *arguments, cwd=cls.root)
        assert result.returncode == status, result.stderr
        return result

    def test_training_ends_with_a_page_of_what_it_recorded(self):
        page = embedded_data(self.run_directory / "report.html")
        self.assertEqual(page["state"], "finished")
        self.assertEqual(page["watched"], "accuracy")
        self.assertEqual(page["evaluation"]["step"], 12)
        self.assertEqual(len(page["evaluation"]["confusion"]), 4)
        self.assertEqual(sum(map(sum, page["evaluation"]["confusion"])), 64)
        self.assertEqual([sample["sample"] for sample in page["predictions"]["first"]], [0, 1, 2, 3, 4])
        losses = [sample["loss"] for sample in page["predictions"]["worst"]]
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertEqual(len(losses), 5)
        self.assertTrue(page["predictions"]["first"][0]["picture"].startswith("data:image/png;base64,"))
        origins = {entry["key"]: entry["origin"] for entry in page["config"]}
        self.assertTrue(origins["train.steps"].endswith("exp.yaml:6:16"), origins["train.steps"])
        self.assertEqual(origins["optimizer.lr"], "default")
        self.assertEqual(page["environment"]["git"], {"commit": "0123456789abcdef0123456789abcdef01234567", "branch": "trial"})
        self.assertEqual(page["environment"]["command"][1], "train")
        self.assertEqual(page["environment"]["steps_per_epoch"], 8)
        self.assertLess((self.run_directory / "report.html").stat().st_size, 1_000_000)

    def test_the_command_writes_the_same_page(self):
        written = (self.run_directory / "report.html").read_text()
        again = run("report", self.run_directory, "--output", self.root / "again.html", cwd=self.root)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.root / "again.html").read_text(), written)

    def test_what_is_drawn_are_the_run_s_numbers(self):
        if find_browser() is None:
            self.skipTest("no Chromium here (apt-get install chromium), so nobody looked at what the page draws")
        tables, facts = rendered(self.run_directory / "report.html")
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertAlmostEqual(float(facts["best accuracy"]), summary["best_metrics"]["accuracy"])
        self.assertEqual(facts["steps"], "12")
        self.assertEqual(len(tables["classes"]), 4)
        self.assertEqual(sum(int(cell[0]) for row in tables["confusion"] for cell in row if cell[0]), 64)
        self.assertIn("train.steps", [row[0][0] for row in tables["config"]])

    def test_rows_and_sequences_are_shown(self):
        (self.root / "rows.csv").write_text("age,city,kind\n" + "".join(f"{20 + i},{'Bonn' if i % 2 else 'Ulm'},{'b' if i % 3 else 'a'}\n" for i in range(24)))
        self.train("table", config=write_experiment(self.root, TABLE, "table.yaml"))
        first = embedded_data(self.root / "runs/table/report.html")["predictions"]["first"]
        self.assertEqual([first[3]["row"], first[3]["label"]], [{"age": "23", "city": "Bonn"}, "a"])
        (self.root / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
        self.train("language", config=write_experiment(self.root, LANGUAGE, "language.yaml"))
        tokens = embedded_data(self.root / "runs/language/report.html")["predictions"]["first"][0]["tokens"]
        self.assertEqual("".join(text for text, _ in tokens), "the quick brown ")
        self.assertIsNone(tokens[0][1])
        self.assertTrue(all(0 < loss < 20 for _, loss in tokens[1:]))

    def test_a_failed_run_has_a_page_with_its_error(self):
        self.train("failed", "--set", "optimizer.lr=1e30", "--set", "optimizer.kind=sgd", status=1)
        page = embedded_data(self.root / "runs/failed/report.html")
        self.assertEqual(page["state"], "failed")
        self.assertIn("not finite", page["error"])

    def test_a_run_of_two_ranks_has_a_page(self):
        self.train("ranks", "--nproc", 2, "--set", "distributed.kind=ddp")
        page = embedded_data(self.root / "runs/ranks/report.html")
        self.assertEqual(page["environment"]["ranks"], 2)
        self.assertEqual([sample["sample"] for sample in page["predictions"]["first"]], [0, 1, 2, 3, 4])

    def test_a_page_that_cannot_be_written_is_a_warning(self):
        (self.root / "runs/blocked/report.html/x").mkdir(parents=True)
        result = self.train("blocked")
        self.assertIn("warning: the page about the run is not written", result.stderr)
        self.assertIn("`trainctl report", result.stderr)

    def test_a_user_can_do_without(self):
        self.train("without", "--set", "tracking.report=false", "--set", "tracking.sample_predictions=0")
        self.assertFalse((self.root / "runs/without/report.html").exists())
        self.assertFalse((self.root / "runs/without/predictions.json").exists())

    def test_runs_are_listed_and_cleaned(self):
        self.train("kept")
        self.train("no-step", "--set", "model.init_from=missing.safetensors", status=1)
        listed = {pathlib.Path(entry["path"]).name: entry for entry in json.loads(run("runs", "--json", cwd=self.root).stdout)["runs"]}
        self.assertEqual(listed["kept"]["state"], "finished")
        self.assertEqual(listed["kept"]["name"], "images")
        self.assertEqual(listed["kept"]["best"]["metric"], "accuracy")
        self.assertEqual(listed["no-step"]["state"], "no_step")
        self.assertIn("no-step", run("runs", cwd=self.root).stdout)
        rule = ("runs", "clean", "--failed-starts", "--checkpoints", "newest")
        shown = run(*rule, cwd=self.root)
        self.assertIn("nothing is removed yet", shown.stdout)
        self.assertTrue((self.root / "runs/no-step").exists())
        removed = run(*rule, "--yes", cwd=self.root)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertFalse((self.root / "runs/no-step").exists())
        steps = [path.name for path in (self.root / "runs/kept/checkpoints").iterdir() if path.name.startswith("step_")]
        self.assertEqual(steps, ["step_00000012"])
        self.assertEqual(run("eval", "runs/kept", cwd=self.root).returncode, 0)
        self.assertEqual(run("runs", "clean", cwd=self.root).returncode, 2)

    def test_a_clean_that_keeps_a_damaged_checkpoint_keeps_a_sound_one_too(self):
        self.train("damaged")
        self.addCleanup(shutil.rmtree, self.root / "runs/damaged")
        checkpoints = self.root / "runs/damaged/checkpoints"
        names = sorted(path.name for path in checkpoints.iterdir() if path.name.startswith("step_"))
        weights = checkpoints / names[-1] / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        rule = ("runs", "clean", "--name", "images", "--checkpoints", "newest", "--yes")
        self.assertCleaned(rule, f"{names[-1]}/model.safetensors is damaged", checkpoints, names[-2:])
        (checkpoints / names[-1] / "manifest.json").unlink()
        self.assertCleaned(rule, f"{names[-1]} has no manifest.json", checkpoints, names[-2:])

    def assertCleaned(self, rule, warning, checkpoints, kept):
        result = run(*rule, cwd=self.root)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(warning, result.stderr)
        self.assertEqual(sorted(path.name for path in checkpoints.iterdir() if path.name.startswith("step_")), kept)


if __name__ == "__main__":
    unittest.main()
