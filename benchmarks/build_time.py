#!/usr/bin/env python3
"""Where the time of a cold build goes: builds the targets anew without a compiler cache, and prints wall and CPU time, the largest
compiler process, and the time by library.

  build_time.py [TARGET...] [--parallel N] [--preset release]      (default: what scripts/demo.sh builds)

The build lies in a temporary directory and is removed. CPU seconds are of compilers and linkers; MiB are the peak of one process.
"""
import argparse
import collections
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Runs a compiler and adds a line to a log: CPU seconds, peak KiB, output file.
LAUNCHER = """#!{python}
import os, resource, sys
status = os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
output = sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else "?"
with open("{log}", "a") as log:
    log.write(f"{{usage.ru_utime + usage.ru_stime:.2f}}\\t{{usage.ru_maxrss}}\\t{{output}}\\n")
sys.exit(status)
"""


def library_of(output):
    match = re.search(r"(?:^|/)trainctl_(\w+)\.dir/", output) or re.search(r"(\w+)\.dir/", output)
    return match[1] if match else output


def run(command, **options):
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT, stdout=sys.stderr, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["trainctl", "trainctl_engine"])
    parser.add_argument("--parallel", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--preset", default="release")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        log, launcher, build = directory / "log", directory / "launcher", directory / "build"
        launcher.write_text(LAUNCHER.format(python=sys.executable, log=log))
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        run(["cmake", "--preset", options.preset, "-B", build, "-DTRAINCTL_CCACHE=OFF", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"])
        begin = time.monotonic()
        run(["cmake", "--build", build, "--parallel", options.parallel, "--target", *options.targets])
        wall = time.monotonic() - begin
        rows = [line.split("\t") for line in log.read_text().splitlines()]
    cpu, largest = sum(float(row[0]) for row in rows), max(int(row[1]) for row in rows)
    print(f"{' '.join(options.targets)}: {wall:.0f} s on {options.parallel} cores, {cpu:.0f} CPU s, largest compiler {largest / 1024:.0f} MiB\n")
    seconds, peaks = collections.Counter(), collections.Counter()
    for used, peak, output in rows:
        name = library_of(output)
        seconds[name] += float(used)
        peaks[name] = max(peaks[name], int(peak))
    print("| part | CPU s | largest compiler MiB |\n| --- | --- | --- |")
    for name, used in seconds.most_common():
        print(f"| {name} | {used:.1f} | {peaks[name] / 1024:.0f} |")


if __name__ == "__main__":
    main()
