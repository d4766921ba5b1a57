"""Text as data: trainctl data prepare, and training on what it made; tagged words with a small bert."""
import json
import pathlib
import unittest

from trainctl_process import InScratch, run, write_experiment

# In the form of CoNLL-2003 (https://aclanthology.org/W03-0419); the sentences are our own.
SENTENCES = [
    "EU/NNP/B-NP/B-ORG rejects/VBZ/B-VP/O German/JJ/B-NP/B-MISC call/NN/I-NP/O to/TO/B-VP/O boycott/VB/I-VP/O British/JJ/B-NP/B-MISC lamb/NN/I-NP/O ././O/O",
    "Peter/NNP/B-NP/B-PER Blackburn/NNP/I-NP/I-PER",
    "BRUSSELS/NNP/B-NP/B-LOC 1996-08-22/CD/I-NP/O",
    "The/DT/B-NP/O European/NNP/I-NP/B-ORG Commission/NNP/I-NP/I-ORG said/VBD/B-VP/O on/IN/B-PP/O Thursday/NNP/B-NP/O it/PRP/B-NP/O disagreed/VBD/B-VP/O ././O/O",
    "Germany/NNP/B-NP/B-LOC imported/VBD/B-VP/O 47,600/CD/B-NP/O sheep/NN/I-NP/O from/IN/B-PP/O Britain/NNP/B-NP/B-LOC last/JJ/B-NP/O year/NN/I-NP/O ././O/O",
]


def conll(repeats):
    text = "-DOCSTART- -X- -X- O\n\n"
    for sentence in SENTENCES * repeats:
        text += "".join(" ".join(word.rsplit("/", 3)) + "\n" for word in sentence.split(" ")) + "\n"
    return text


def vocabulary():
    words = {word.rsplit("/", 3)[0].lower() for sentence in SENTENCES for word in sentence.split(" ")}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(c) for c in range(33, 127)), *("##" + chr(c) for c in range(97, 123))]
    return "\n".join([*pieces, *sorted(words - set(pieces) - {"brussels", "imported", "rejects"})]) + "\n"


TAGGED = """
name: tagged
device: cpu
dataset:
  kind: text_token_classification
  train: {files: [train.conll]}
  eval: {files: [eval.conll]}
  tokenizer: vocab.txt
  max_length: 48
  batch_size: 8
  length_group_batches: 4
model: {kind: bert, head: token_classification, hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64, max_position_embeddings: 64}
task: {kind: token_classification}
optimizer: {kind: adamw, lr: 3e-3}
train: {steps: 60, eval_every: 60, log_every: 20}
"""

LANGUAGE = """
name: language
device: cpu
dataset: {kind: text_lm, train: {files: [text.txt]}, tokenizer: bytes, seq_len: 32, batch_size: 4}
model: {kind: gpt2, hidden_size: 32, num_layers: 1, num_heads: 2, max_position_embeddings: 32}
task: causal_lm
train: {steps: 2}
"""


class TextData(InScratch):
    def write_tagged(self):
        (self.root / "train.conll").write_text(conll(20), encoding="utf-8")
        (self.root / "eval.conll").write_text(conll(1), encoding="utf-8")
        (self.root / "vocab.txt").write_text(vocabulary(), encoding="utf-8")
        return write_experiment(self.root, TAGGED)

    def test_a_small_bert_learns_tags_from_what_was_prepared(self):
        config = self.write_tagged()
        prepared = run("data", "prepare", config, "--json", cwd=self.root)
        self.assertEqual(prepared.returncode, 0, prepared.stderr)
        train, evaluation = json.loads(prepared.stdout)
        self.assertEqual((train["part"], train["outcome"], train["documents"]), ("train", "made", 100))
        self.assertEqual((evaluation["part"], evaluation["documents"]), ("eval", 5))
        self.assertGreater(train["tokens"], 100 * 5)
        self.assertGreater(train["mb_per_s"], 0)
        self.assertTrue((self.root / train["directory"] / "index.json").exists())
        trained = run("train", config, "--run-dir", "run", "--json", cwd=self.root)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertNotIn("tokenising", trained.stderr)
        metrics = json.loads(trained.stdout)["final_metrics"]
        self.assertGreater(metrics["span_f1"], 0.9)
        self.assertGreater(metrics["accuracy"], 0.9)

    def test_preparing_again_finds_verifies_and_mends(self):
        (self.root / "text.txt").write_text("some words and more words\n" * 200, encoding="utf-8")
        config = write_experiment(self.root, LANGUAGE)
        first = run("data", "prepare", config, cwd=self.root)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"train: made in \.cache/trainctl/[0-9a-f]{16}\n  5,201 tokens, 1 documents")
        again = run("data", "prepare", config, "--json", cwd=self.root)
        (found,) = json.loads(again.stdout)
        self.assertEqual(found["outcome"], "found")
        shard = self.root / found["directory"] / "shard_00000.tokens"
        shard.write_bytes(shard.read_bytes()[:-2])
        mended = run("data", "prepare", config, "--verify", "--json", cwd=self.root)
        self.assertEqual(json.loads(mended.stdout)[0]["outcome"], "remade")
        self.assertIn("shard_00000.tokens has 10,400 bytes instead of 10,402; it is made anew", mended.stderr)

    def test_a_glob_of_files_is_prepared_as_training_reads_it(self):
        (self.root / "texts").mkdir()
        for name in ("a", "b"):
            (self.root / f"texts/{name}.txt").write_text("some words and more words\n" * 20, encoding="utf-8")
        config = write_experiment(self.root, LANGUAGE.replace("text.txt", "'texts/*.txt'"))
        prepared = run("data", "prepare", config, "--json", cwd=self.root)
        self.assertEqual(prepared.returncode, 0, prepared.stderr)
        (made,) = json.loads(prepared.stdout)
        self.assertEqual((made["outcome"], made["documents"]), ("made", 2))
        trained = run("train", config, "--run-dir", "run", cwd=self.root)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertNotIn("tokenising", trained.stderr)
        stores = [path.name for path in (self.root / ".cache/trainctl").iterdir() if path.name != "sources"]
        self.assertEqual(stores, [pathlib.Path(made["directory"]).name])

    def test_what_has_no_text_is_refused_with_its_place(self):
        config = write_experiment(self.root, "name: a\ndataset: {kind: synthetic_images}\nmodel: mlp\ntrain: {steps: 1}\n")
        result = run("data", "prepare", config.name, cwd=self.root)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "exp.yaml:2:17: dataset.kind: synthetic_images has no text to tokenize: nothing to prepare\n")
        self.assertEqual(run("data").returncode, 2)
        self.assertIn("prepare", run("data", "--help").stdout)

    def test_bad_text_is_an_error_with_its_place(self):
        config = write_experiment(self.root, LANGUAGE)
        (self.root / "text.txt").write_bytes(b"fine\nnot \xff fine\n")
        result = run("data", "prepare", config, cwd=self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("text.txt:2: byte 5 of the line, 0xff, is not UTF-8", result.stderr)
        self.assertIn("try: ", result.stderr)
        self.assertEqual([path.name for path in (self.root / ".cache/trainctl").iterdir() if path.name != "sources"], [])


if __name__ == "__main__":
    unittest.main()
