"""Completion in the shells themselves, the words behind it, manual pages, and the examples that help and pages show."""
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
import unittest

from trainctl_process import TRAINCTL, InScratch, run, write_experiment
from waits import PATIENCE_S

START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'bind "set show-all-if-ambiguous on"; source <(trainctl completion bash)'),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source <(trainctl completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "trainctl completion fish | source"),
}
RUN = "runs/digits/20261126T101500Z-1"
# What is typed before Tab, and what the terminal then shows.
TYPED = {
    "trainctl comple": "completion",
    "trainctl train --no-pr": "--no-progress",
    "trainctl train exp.yaml --set optimizer.lr_sc": "lr_scheduler.",
    "trainctl train exp.yaml --set model.kind=resnet1": "resnet152",
    "trainctl train exp.yaml --set amp.mode=bf": "amp.mode=bf16",
    "trainctl train e": "exp.yaml",
    "trainctl eval exp.yaml --checkpoint ru": RUN,
    f"trainctl eval exp.yaml --checkpoint {RUN}/che": f"{RUN}/checkpoints/step_00000060",
    "trainctl export exp.yaml --format torc": "torchscript",
}


def complete(*words, cwd=None):
    """The candidates with their help, and what files the shell adds."""
    lines = run("__complete", *words, cwd=cwd).stdout.splitlines()
    return dict(line.split("\t", 1) for line in lines[:-1]), lines[-1]


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, shell, directory):
        arguments, self.set_up = START[shell]
        path = f"{pathlib.Path(TRAINCTL).resolve().parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "TERM": "dumb" if shell != "fish" else "xterm", "HOME": str(directory), "LC_ALL": "C.UTF-8",
                       "COLUMNS": "200", "PS1": "> "}
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(directory)
            os.execvpe(arguments[0], arguments, environment)
        self.output = ""

    def __enter__(self):
        self.type(f"{self.set_up}; echo is'-'ready\n")
        if not self.shows("is-ready"):
            raise AssertionError(f"the shell does not start: {self.output}")
        return self

    def __exit__(self, *_):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)

    def type(self, text):
        self.output = ""
        os.write(self.terminal, text.encode())

    def shows(self, text):
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.output and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.output += os.read(self.terminal, 65536).decode(errors="replace")
        return text in self.output


class Completion(InScratch):
    def setUp(self):
        super().setUp()
        write_experiment(self.root)
        (self.root / RUN / "checkpoints/step_00000060").mkdir(parents=True)
        (self.root / "named/a/$(touch RAN)").mkdir(parents=True)
        (self.root / "named/a/$(touch RAN)/metrics.jsonl").touch()

    def in_shell(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        with Terminal(shell, self.root) as terminal:
            for typed, shown in TYPED.items():
                with self.subTest(typed):
                    terminal.type("\x15" + typed + "\t")  # Ctrl-U empties the line
                    self.assertTrue(terminal.shows(shown), terminal.output)
            terminal.type("\x15trainctl report named/a/\t")
            self.assertTrue(terminal.shows("touch"), terminal.output)
            terminal.type("\necho is'-'over\n")
            self.assertTrue(terminal.shows("is-over"), terminal.output)
            self.assertFalse((self.root / "RAN").exists(), "a name was run")

    def test_bash_completes(self):
        self.in_shell("bash")

    def test_zsh_completes(self):
        self.in_shell("zsh")

    def test_fish_completes(self):
        self.in_shell("fish")

    def test_keys_follow_the_file_and_the_values_before(self):
        file_keys, _ = complete("train", "exp.yaml", "--set", "model.", cwd=self.root)
        self.assertIn("model.channels=", file_keys)
        self.assertNotIn("model.num_heads=", file_keys)
        set_keys, _ = complete("train", "exp.yaml", "--set", "model.kind=vit", "--set", "model.", cwd=self.root)
        self.assertNotIn("model.channels=", set_keys)
        self.assertIn("model.num_heads=", complete("train", "--set", "model.")[0])
        self.assertEqual(list(complete("train", "exp.yaml", "--set", "optimizer.lr=", cwd=self.root)[0]), ["optimizer.lr=0.002"])

    def test_values_follow_their_option(self):
        self.assertEqual(complete("train", "x", "--log-level", ""), ({"info": "", "warning": ""}, ":none"))
        self.assertEqual(complete("train", "x", "--log-level=w"), ({"--log-level=warning": ""}, ":none"))
        self.assertIn("amp,workers", complete("compare", "x", "--ablate", "amp,")[0])
        self.assertEqual(complete("train", "")[1], ":experiments")
        self.assertEqual(complete("data", "shard", "x", "--output", "")[1], ":directories")
        self.assertEqual(complete("nonsense", "--no-such"), ({}, ":none"))
        self.assertEqual(complete("data", "prep"), ({"prepare": "tokenize the dataset's text once, on all cores, for later runs"}, ":none"))


def commands(words=()):
    """The words of each command and sub-command."""
    subs = [sub for sub in complete(*words, "")[0] if not sub.startswith("-")] if not words or words[0] in ("data", "config", "checkpoint") else []
    if len(words) == 2 or not subs:
        return [words]
    return [command for sub in subs for command in commands((*words, sub))]


def examples(text):
    return re.findall(r"^  (trainctl .*)\n      (.*)$", text, re.M)


class Help(InScratch):
    def check_example(self, words, line):
        """Each option and each choice of an example is one that the command has."""
        typed = shlex.split(line.split(">")[0])[1:]
        self.assertEqual(tuple(typed[:len(words)]), words)
        for before, word in zip(typed, typed[1:]):
            if word.startswith("--"):
                self.assertIn(word, complete(*words, word)[0], line)
            elif before == "--set":
                self.assertIn(word.split("=")[0] + "=", complete(*words, "--set", word.split("=")[0])[0], line)
            elif before.startswith("--") and (choices := complete(*words, before, "")[0]):
                self.assertLessEqual(set(word.split(",")), set(choices), line)

    def test_every_command_has_examples_that_it_takes(self):
        found = [*commands(), ("runs", "clean")]  # `runs` works without its sub-command
        self.assertGreater(len(found), 18)
        for words in found:
            with self.subTest(" ".join(words)):
                shown = examples(run(*words, "--help").stdout)
                self.assertGreaterEqual(len(shown), 2 if len(complete(*words, "--")[0]) > 1 else 1)
                for line, _ in shown:
                    self.check_example(words, line)

    def test_the_program_alone_lists_the_commands(self):
        for words, listed in (((), ("train", "doctor")), (("data",), ("prepare", "shard")), (("config",), ("schema",))):
            result = run(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(" ".join(["Usage: trainctl", *words]), result.stderr)
            for word in listed:
                self.assertRegex(result.stderr, rf"(?m)^  {word} ")

    def test_manual_pages_have_options_and_examples(self):
        pages = self.root / "man1"
        run("__manual", pages)
        self.assertEqual({page.name for page in pages.iterdir()}, {"trainctl.1", *(f"trainctl-{words[0]}.1" for words in commands())})
        for page in pages.iterdir():
            text = page.read_text()
            for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"):
                self.assertIn(f".SH {part}\n", text)
        page = (pages / "trainctl-train.1").read_text()
        self.assertIn(r"\fB\-\-nproc\fR N (default 1)", page)
        self.assertIn(r"\fBtrainctl train exp.yaml \-\-nproc 4\fR", page)
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for page in pages.iterdir():
            formatted = subprocess.run(["groff", "-ww", "-Kutf8", "-man", "-Tutf8", page], capture_output=True, text=True, check=True)
            self.assertEqual(formatted.stderr, "")


if __name__ == "__main__":
    unittest.main()
