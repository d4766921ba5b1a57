"""trainctl tokenize: text to ids and back, a vocabulary learnt from text, and what it says about wrong input."""
import contextlib
import json
import os
import pathlib
import subprocess
import unittest

from trainctl_process import TRAINCTL, run, temporary_directory

TEXT = "the cat sat on the mat\nthe dog and the cat\n\nna\u00efve \U0001f642 caf\u00e9\n" * 20


@contextlib.contextmanager
def open_directory(path):
    """A descriptor of a directory, which reads refuse."""
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


class Tokenize(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.text = self.root / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def learn(self):
        result = run("tokenize", "--train-bpe", "--vocab-size", 300, "--output", self.root / "bpe", self.text)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.root / "bpe"

    def test_what_is_learnt_encodes_and_decodes_every_line(self):
        learnt = self.learn()
        encoded = run("tokenize", "--tokenizer", learnt, "--tokens", self.text)
        lines = [json.loads(line) for line in encoded.stdout.splitlines()]
        self.assertEqual(len(lines), TEXT.count("\n"))
        self.assertEqual(lines[0]["tokens"][0], "the")
        self.assertEqual(lines[0]["offsets"][0], [0, 3])
        self.assertEqual(len(lines[0]["ids"]), len(lines[0]["offsets"]))
        self.assertEqual(lines[2]["ids"], [])
        decoded = subprocess.run([TRAINCTL, "tokenize", "--decode", "--tokenizer", str(learnt)], input=encoded.stdout, capture_output=True, text=True)
        self.assertEqual(decoded.stdout, TEXT)

    def test_the_tokenizers_package_reads_what_is_learnt(self):
        try:
            import tokenizers
        except ImportError:
            self.skipTest("no tokenizers package")
        learnt = self.learn()
        theirs = tokenizers.Tokenizer.from_file(str(learnt / "tokenizer.json"))
        ours = run("tokenize", "--tokenizer", learnt, self.text).stdout.splitlines()
        for line, text in zip(ours, TEXT.splitlines()):
            self.assertEqual(json.loads(line)["ids"], theirs.encode(text).ids)

    def test_wrong_use_and_wrong_input_say_what_is_wrong(self):
        self.assertEqual(run("tokenize").returncode, 2)
        self.assertEqual(run("tokenize", "--train-bpe").returncode, 2)
        missing = run("tokenize", "--tokenizer", self.root / "absent.json")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("absent.json", missing.stderr)
        bad = run("tokenize", "--decode", "--tokenizer", self.learn(), self.text)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("text.txt:1", bad.stderr)
        with open_directory(self.root) as directory:
            unreadable = subprocess.run([TRAINCTL, "tokenize", "--tokenizer", str(self.root / "bpe")], stdin=directory, capture_output=True, text=True)
        self.assertEqual(unreadable.returncode, 1)
        self.assertIn("cannot read standard input: Is a directory", unreadable.stderr)


if __name__ == "__main__":
    unittest.main()
