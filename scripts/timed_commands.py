"""Commands that end at a deadline or a signal, with all that they started (suites.py)."""
import os
import signal
import subprocess
import time

from check_layers import ROOT


class OutOfTime(Exception):
    """The deadline came while a part was running."""


def call(command, deadline, **environment):
    """(exit status, output). A command that reaches the deadline is ended with all that it started."""
    if time.monotonic() >= deadline:
        raise OutOfTime
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, env={**os.environ, **environment})
    running_commands.add(process)
    try:
        output, _ = process.communicate(timeout=deadline - time.monotonic())
        return process.returncode, output
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
        running_commands.discard(process)


running_commands = set()


def stop(number, _):
    """Ends the running commands with all that they started, then this program, as the signal would have."""
    for process in running_commands:
        os.killpg(process.pid, signal.SIGTERM)
    os._exit(128 + number)
