"""Predictions from checkpoints and exported files: a JSON line for each input, in order; what can't be used is told and passed over."""
import json
import os
import pathlib
import subprocess
import unittest

from trainctl_process import ROOT, TRAINCTL, run, temporary_directory, write_experiment
from waits import PATIENCE_S

TEXT = """
name: predicted text
dataset: {kind: text_classification, train: {files: [ROOT/train.jsonl]}, eval: {files: [ROOT/train.jsonl]}, tokenizer: bytes, max_length: 32, batch_size: 4, num_workers: 1,
  cache_dir: ROOT/cache}
model: {kind: KIND}
optimizer: {lr: 5e-3}
train: {steps: 30, eval_every: 30}
checkpoint: {every: 30}
device: {kind: cpu}
"""
BERT = "bert, hidden_size: 32, num_layers: 1, num_heads: 4, intermediate_size: 48, max_position_embeddings: 32, dropout: 0"
LANGUAGE = """
name: predicted tokens
dataset: {kind: text_lm, train: {files: [ROOT/lm.txt]}, eval_fraction: 0.1, tokenizer: bytes, seq_len: 16, batch_size: 4, num_workers: 1, cache_dir: ROOT/cache}
model: {kind: gpt2, hidden_size: 32, num_layers: 1, num_heads: 4, max_position_embeddings: 32, dropout: 0}
task: {kind: causal_lm}
optimizer: {lr: 1e-2}
train: {steps: 40, eval_every: 40}
checkpoint: {every: 40}
device: {kind: cpu}
"""
TAGS = """
name: predicted tags
dataset: {kind: text_token_classification, train: {files: [ROOT/tags.txt]}, eval: {files: [ROOT/tags.txt]}, tokenizer: bytes, max_length: 32, batch_size: 4,
  num_workers: 1, cache_dir: ROOT/cache}
model: {kind: bert, head: token_classification, hidden_size: 32, num_layers: 1, num_heads: 4, intermediate_size: 48, max_position_embeddings: 32, dropout: 0}
task: {kind: token_classification}
optimizer: {lr: 1e-2}
train: {steps: 60, eval_every: 60}
checkpoint: {every: 60}
device: {kind: cpu}
"""
TABLE = """
name: predicted rows
dataset: {kind: table, train: [ROOT/train.csv], eval_fraction: 0.2, label: kind, missing_values: mean, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [8]}
optimizer: {lr: 2e-2}
train: {steps: 60, eval_every: 60}
checkpoint: {every: 60}
device: {kind: cpu}
"""
IMAGES = """
name: predicted images
dataset: {kind: image_folder, train: ROOT/images, eval: ROOT/images, batch_size: 4, num_workers: 1, cache_dir: ROOT/lists,
  transforms: [{kind: resize, size: 16}, {kind: center_crop, size: 16}, {kind: normalize}]}
model: {kind: cnn, channels: [8], hidden: 16}
optimizer: {lr: 1e-2}
train: {steps: 20, eval_every: 20}
checkpoint: {every: 20}
device: {kind: cpu}
"""


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))

    def trained(self, text, name):
        config = write_experiment(self.root, text.replace("ROOT", str(self.root)), f"{name}.yaml")
        result = run("train", config, "--run-dir", self.root / name, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return config

    def predict(self, config, *arguments, checkpoint=None, stdin=""):
        return subprocess.run([TRAINCTL, "predict", config, "--checkpoint", checkpoint or self.root / config.stem, *map(str, arguments)],
                              input=stdin if isinstance(stdin, bytes) else stdin.encode(), capture_output=True, cwd=ROOT, timeout=PATIENCE_S)

    def exported(self, config, form):
        path = self.root / f"{config.stem}.{'onnx' if form == 'onnx' else 'pt'}"
        result = run("export", config, "--checkpoint", self.root / config.stem, "--format", form, "--output", path, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path

    def check_the_same(self, config, answers, *arguments, stdin=""):
        """Exported files give what the checkpoint gives."""
        for form in ("torchscript", "onnx"):
            result = self.predict(config, *arguments, checkpoint=self.exported(config, form), stdin=stdin)
            self.assertEqual(result.returncode, 0, result.stderr)
            for ours, theirs in zip(answers, lines(result), strict=True):
                self.assertEqual(ours.keys(), theirs.keys())
                self.assertEqual(ours.get("label"), theirs.get("label"))
                if "score" in ours:
                    self.assertAlmostEqual(ours["score"], theirs["score"], delta=1e-5)

    def test_texts_a_line_each_or_by_member_or_by_column(self):
        (self.root / "train.jsonl").write_text("".join(json.dumps({"text": f"{word} {n}", "label": word}) + "\n" for n in range(16) for word in ("good", "poor")))
        for kind in (BERT, "fasttext, num_buckets: 64", "lstm, hidden_size: 16, num_layers: 1, bidirectional: true"):
            config = self.trained(TEXT.replace("KIND", kind), kind.split(",")[0])
            texts = "good 3\n\npoor 5\ngood 70\n"
            result = self.predict(config, stdin=texts)
            self.assertEqual(result.returncode, 0, result.stderr)
            answers = lines(result)
            self.assertEqual([(a["input"], a["line"], a["label"]) for a in answers], [("-", 1, "good"), ("-", 3, "poor"), ("-", 4, "good")])
            self.assertAlmostEqual(sum(answers[0]["scores"].values()), 1, delta=1e-5)
            self.check_the_same(config, answers, stdin=texts)
        (self.root / "in.jsonl").write_text('{"text": "poor 1"}\n{"label": "x"}\nnot json\n{"text": "good 2"}\n')
        (self.root / "in.csv").write_text('id,text\n1,"good, 1"\n2\n3,poor 9\n')
        result = self.predict(config, "--input", self.root / "in.jsonl", self.root / "in.csv", self.root / "absent.txt")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("1 of the named files could not be opened", result.stderr.decode())
        answers = lines(result)
        self.assertEqual([a.get("label") for a in answers], ["poor", None, None, "good", "good", None, "poor", None])
        self.assertEqual([a.get("line") for a in answers], [1, 2, 3, 4, 2, 3, 4, None])
        self.assertTrue(all(("error" in a) == ("label" not in a) for a in answers))

    def test_what_comes_next_and_how_likely_a_text_is(self):
        (self.root / "lm.txt").write_text("abcdefgh" * 200)
        config = self.trained(LANGUAGE, "language")
        texts = "abcdabcd\nefghabc\nhgfedcba\n"
        result = self.predict(config, "--top", "2", stdin=texts)
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = lines(result)
        self.assertEqual(answers[1]["next"][0]["token"], "d")
        self.assertEqual([len(a["next"]) for a in answers], [2, 2, 2])
        self.assertLess(answers[1]["perplexity"], answers[2]["perplexity"])
        self.check_the_same(config, answers, "--top", "2", stdin=texts)

    def test_a_tag_for_each_word(self):
        (self.root / "tags.txt").write_text("".join(f"{word} {tag}\n" + ("\n" if n % 3 == 2 else "") for n, (word, tag) in
                                                    enumerate([("Rome", "PLACE"), ("has", "O"), ("é", "O"), ("is", "O"), ("Oslo", "PLACE"), ("big", "O")] * 12)))
        config = self.trained(TAGS, "tags")
        result = self.predict(config, stdin="é is Rome\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        (answer,) = lines(result)
        self.assertEqual([(t["word"], t["begin"], t["end"]) for t in answer["tags"]], [("é", 0, 1), ("is", 2, 4), ("Rome", 5, 9)])
        self.assertEqual(answer["tags"][2]["tag"], "PLACE")
        self.check_the_same(config, [answer], stdin="é is Rome\n")

    def test_a_word_without_pieces_has_no_tag(self):
        (self.root / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "king", "of", "france"]) + "\n")
        (self.root / "tags.txt").write_text("the O\nking PERSON\nof O\nfrance PLACE\n\n" * 12)
        config = self.trained(TAGS.replace("tokenizer: bytes", "tokenizer: ROOT/vocab.txt"), "pieces")
        # BERT's normalizer removes U+200B and U+00AD.
        result = self.predict(config, stdin="the king of france\nthe king \u200b of france\n\u200b\u00ad the king of france \u200b\nthe\u200bking of\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        right = [("the", "O"), ("king", "PERSON"), ("of", "O"), ("france", "PLACE")]
        answers = [[(t["word"], t["tag"]) for t in answer["tags"]] for answer in lines(result)]
        self.assertEqual(answers[:3], [right] * 3)
        self.assertEqual([word for word, _ in answers[3]], ["the\u200bking", "of"])

    def test_rows_of_a_table(self):
        rows = [(x, y, "left" if x < 0 else "right") for x in (-3, -2, -1, 1, 2, 3) for y in range(8)]
        (self.root / "train.csv").write_text("x,y,kind\n" + "".join(f"{x},{y},{k}\n" for x, y, k in rows))
        config = self.trained(TABLE, "table")
        table = "y,name,x\n3,a,-2\n1,b,oops\n2,c,2.5\n,d,3\n4,e\n"
        result = self.predict(config, stdin=table)
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = lines(result)
        self.assertEqual([a.get("label") for a in answers], ["left", None, "right", "right", None])
        self.assertIn("oops", answers[1]["error"])
        self.check_the_same(config, answers, stdin=table)
        self.assertEqual(self.predict(config, stdin="y,name\n1,2\n").returncode, 1)
        self.check_output_replaces_no_input(config)
        directory = os.open(self.root, os.O_RDONLY)
        self.addCleanup(os.close, directory)
        unreadable = subprocess.run([TRAINCTL, "predict", config, "--checkpoint", self.root / "table"], stdin=directory, capture_output=True, cwd=ROOT, timeout=PATIENCE_S)
        self.assertEqual(unreadable.returncode, 1)
        self.assertIn("Is a directory", unreadable.stdout.decode())

    def check_output_replaces_no_input(self, config):
        folder = self.root / "new_rows"
        folder.mkdir()
        rows = folder / "rows.csv"
        rows.write_text("x,y\n-2,1\n2,1\n")
        (self.root / "link.csv").symlink_to(rows)
        for output in (rows, self.root / "link.csv"):
            refused = self.predict(config, "--input", folder, "--output", output, "--format", "csv")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("is one of the inputs", refused.stderr.decode())
            self.assertEqual(rows.read_text(), "x,y\n-2,1\n2,1\n")
        # The output of a call is no input of the same call, and a call that fails leaves the former output.
        answers = folder / "answers.csv"
        self.assertEqual(self.predict(config, "--input", folder, "--output", answers, "--format", "csv").returncode, 0)
        self.assertEqual([line.split(",")[:3] for line in answers.read_text().splitlines()[1:]], [[str(rows), "2", "left"], [str(rows), "3", "right"]])
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["answers.csv", "rows.csv"])
        self.assertEqual(self.predict(config, "--input", rows, "--output", "/dev/null").returncode, 0)

    def test_images_by_path_and_as_bytes(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow")
        for colour, value in (("dark", 20), ("light", 220)):
            (self.root / "images" / colour).mkdir(parents=True)
            for n in range(8):
                Image.new("RGB", (20 + n, 24), (value, value, value + n)).save(self.root / "images" / colour / f"{n}.png")
        config = self.trained(IMAGES, "pictures")
        paths = [self.root / "images/dark/1.png", self.root / "images/light/2.png", self.root / "pictures.yaml", self.root / "no.png"]
        result = self.predict(config, "--input", *paths, "--batch-size", "2")
        self.assertEqual(result.returncode, 1, result.stderr)
        answers = lines(result)
        self.assertEqual([a.get("label") for a in answers], ["dark", "light", None, None])
        self.assertEqual([a["input"] for a in answers], [str(p) for p in paths])
        self.check_the_same(config, answers[:3], "--input", *paths[:3])
        listed = self.predict(config, stdin="\n".join(map(str, paths)))
        self.assertEqual([a.get("label") for a in lines(listed)], ["dark", "light", None, None])
        single = self.predict(config, stdin=paths[1].read_bytes())
        self.assertEqual([a["label"] for a in lines(single)], ["light"])


if __name__ == "__main__":
    unittest.main()
