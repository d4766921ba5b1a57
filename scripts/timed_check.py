"""A check in stages that share a time limit: gpu_check.py's programs, and what they showed."""
import os
import signal
import subprocess
import sys
import time
import traceback

SHORTEST_S = 10  # a program that has less time than this is not started


class TimeOver(Exception):
    """The time for all stages is over."""


class Check:
    """Where things are, how long is left, and what was found."""

    def __init__(self, options):
        self.bin = (options.directory / "bin").resolve()
        self.deadline = time.monotonic() + options.seconds
        self.device = "cpu" if options.rehearse else "cuda"
        self.failures = []
        self.unfinished = []  # stages that ran out of time
        self.text = []
        self.outputs = []  # the ends of what failed
        libtorch = os.environ.get("TRAINCTL_LIBTORCH", "")
        search = [str(self.bin.parent / "lib"), str(self.bin.parent / "lib/trainctl"), *([f"{libtorch}/lib"] if libtorch else []), os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, search))}

    def left(self):
        return self.deadline - time.monotonic()

    def need(self, seconds):
        """Ends the stage if less than this is left."""
        if self.left() < seconds:
            raise TimeOver

    def run(self, *command, limit=240):
        """The finished process. One that takes longer than its limit counts as failed; one that all stages' time cuts short raises TimeOver."""
        words = [str(word) for word in command]
        self.need(SHORTEST_S)
        left = self.left()
        try:
            process = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        except OSError as error:
            return subprocess.CompletedProcess(words, 127, "", str(error))
        try:
            output = process.communicate(timeout=min(limit, left))
            return subprocess.CompletedProcess(words, process.returncode, *output)
        except subprocess.TimeoutExpired:
            output = self.kill(process)
        except BaseException:  # an interrupt, which the process in its own session does not get
            self.kill(process)
            raise
        if left < limit:
            raise TimeOver
        return subprocess.CompletedProcess(words, 124, output[0], output[1] + f"stopped after {limit:.0f} s")

    @staticmethod
    def kill(process):
        """Ends the process with its children, and returns their output."""
        os.killpg(process.pid, signal.SIGKILL)
        try:
            return process.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # a process that waits in the driver
            return "", ""

    def stage(self, check, *arguments):
        """Runs one stage, whatever it raises."""
        try:
            check(self, *arguments)
        except TimeOver:
            self.unfinished.append(check.__name__.removeprefix("check_"))
            self.text.append("\nNot run, or not to its end: the time was over.")
        except Exception:  # of this script's own reading: the next stages don't depend on it
            self.failures.append(check.__name__.removeprefix("check_"))
            self.text.append("\n**FAIL**: the stage ended early.")
            self.keep_output(check.__name__, traceback.format_exc())

    def keep_output(self, name, output):
        self.outputs.append((name, output[-2000:]))
        print(f"--- {name}\n{output[-4000:]}", file=sys.stderr, flush=True)

    def train(self, directory, config, **overrides):
        sets = [word for key, value in overrides.items() if key != "resume" for word in ("--set", f"{key.replace('__', '.')}={value}")]
        return self.run(self.bin / "trainctl", "train", config, "--run-dir", directory, "--no-progress",
                        "--resume", overrides.get("resume", "never"), *sets)

    def heading(self, title):
        print(f"gpu_check: {title}", file=sys.stderr, flush=True)
        self.text.append(f"\n## {title}\n")

    def row(self, *cells):
        self.text.append("| " + " | ".join(str(cell) for cell in cells) + " |")

    def table(self, *head):
        self.row(*head)
        self.row(*("---" for _ in head))

    def outcome(self, name, passed, process=None):
        if not passed:
            self.failures.append(name)
            if process is not None:
                self.keep_output(name, process.stdout[-2000:] + process.stderr[-2000:])
        return "pass" if passed else "**FAIL**"
