"""Paths that can't be read or written, by a user who isn't root: every command names the path in its own words, and waits for nobody."""
import os
import pathlib
import shutil
import socket
import subprocess
import unittest

from trainctl_process import TRAINCTL, temporary_directory

EXPERIMENT = """
name: odd
seed: 1
dataset: {kind: table, train: rows.csv, eval_fraction: 0.2, label: label, batch_size: 8, num_workers: 0}
model: {kind: mlp, hidden: [4]}
train: {steps: 2, eval_every: 2}
checkpoint: {every: 2}
device: {kind: cpu, num_threads: 1}
tracking: {tensorboard: false, report: false}
"""
READ = ["missing", "directory", "fifo", "unreadable", "loop", "dangling", "garbage", "empty", "socket", "closed/x", "file/x"]
FILES = [name for name in READ if name != "fifo"]
WRITTEN = ["readonly/x", "file/x", "closed/x", "loop", "loop/x"]
PATH = "PATH"
COMMANDS = [
    (READ, ("train", PATH)), (READ, ("check", PATH)), (READ, ("eval", PATH)), (FILES, ("eval", "run", "--checkpoint", PATH)), (READ, ("predict", "run", PATH)),
    (READ, ("compare", PATH, "run")), (READ, ("report", PATH)), (READ, ("track", PATH, "--to", "csv")), (READ, ("data", "stats", PATH)),
    (READ, ("tokenize", "--tokenizer", PATH, "rows.csv")), (FILES, ("tokenize", "--tokenizer", "bpe/tokenizer.json", PATH)), (READ, ("checkpoint", "verify", PATH)),
    (READ, ("train", "exp.yaml", "--run-dir", "new", "--set", f"dataset.train={PATH}")), (READ, ("check", "exp.yaml", "--set", f"base={PATH}")),
    (READ, ("train", "exp.yaml", "--run-dir", "new", "--set", f"model={{kind: torchscript, path: {PATH}}}")),
    (WRITTEN, ("train", "exp.yaml", "--run-dir", PATH)), (WRITTEN, ("predict", "run", "rows.csv", "--output", PATH)), (WRITTEN, ("export", "run", "--output", PATH)),
    (WRITTEN, ("quantize", "run", "--method", "dynamic", "--output", PATH)), (WRITTEN, ("config", "new", "--from", "rows.csv", "--output", PATH)),
    (WRITTEN, ("report", "run", "--output", PATH)), (WRITTEN, ("data", "stats", "exp.yaml", "--html", PATH)),
    (WRITTEN, ("checkpoint", "consolidate", "run", "--output", PATH)), (WRITTEN, ("tokenize", "--train-bpe", "--vocab-size", "300", "--output", PATH, "rows.csv")),
]
LIBRARY_WORDS = ("report it", "filesystem error", "std::", "c10::", "basic_", "[json", "bug at", "terminate")


class OddPaths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            raise unittest.SkipTest("root may read everything, and there is no setpriv")
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.root.chmod(0o777)
        (cls.root / "exp.yaml").write_text(EXPERIMENT)
        (cls.root / "rows.csv").write_text("a,b,label\n" + "".join(f"{n % 7},{n % 5},{'yn'[n % 2]}\n" for n in range(80)))
        trained = cls.call("train", "exp.yaml", "--run-dir", "run")
        assert trained.returncode == 0, trained.stderr
        cls.call("tokenize", "--train-bpe", "--vocab-size", "300", "--output", "bpe", "rows.csv")
        odd = cls.root / "odd"
        (odd / "directory").mkdir(parents=True)
        (odd / "directory/x").write_text("x")
        for name, content in (("file", b"hello\n"), ("empty", b""), ("garbage", bytes(range(1, 256)) * 8), ("unreadable", b"x")):
            (odd / name).write_bytes(content)
        os.mkfifo(odd / "fifo")
        (odd / "loop").symlink_to("loop")
        (odd / "dangling").symlink_to("nowhere")
        (odd / "closed").mkdir()
        (odd / "readonly").mkdir()
        cls.socket = cls.enterClassContext(socket.socket(socket.AF_UNIX))
        cls.socket.bind(str(odd / "socket"))
        for name, mode in (("unreadable", 0), ("closed", 0), ("readonly", 0o555)):
            (odd / name).chmod(mode)
            cls.addClassCleanup((odd / name).chmod, 0o755)

    @classmethod
    def call(cls, *arguments):
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        return subprocess.run([*user, TRAINCTL, *arguments], cwd=cls.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=100,
                              env={**os.environ, "HOME": str(cls.root)})

    def test_every_command_names_the_path(self):
        for names, command in COMMANDS:
            for name in names:
                path = f"odd/{name}"
                arguments = [word.replace(PATH, path) for word in command]
                with self.subTest(" ".join(arguments)):
                    result = self.call(*arguments)
                    told = result.stdout + result.stderr
                    self.assertIn(result.returncode, (0, 1, 2), told)
                    for words in LIBRARY_WORDS:
                        self.assertNotIn(words, told)
                    if result.returncode != 0:
                        self.assertIn(name.split("/")[0], told)
                shutil.rmtree(self.root / "new", ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
