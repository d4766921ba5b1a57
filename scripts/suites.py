#!/usr/bin/env python3
"""Runs the slow checks whose inputs changed since they last passed; exit 1 if one fails or is left out.

  scripts/suites.py                             every part that tests/suites.json does not record at its present inputs
  scripts/suites.py asan tsan/dataset tidy/src/core    those suites, parts or folders only
  --minutes N                                   stops after N minutes; a part that is left out is reported as not run
  --tolerate DAYS                               a part that is left out fails the call only if it last passed longer ago
  --record                                      writes the parts that pass to tests/suites.json, to be committed
  --list                                        shows the state and runs nothing
  --again                                       also the parts that are recorded

A suite is a way to build and check; a part is a folder of src/ with its tests, one source, or the whole program. The
inputs of a part are its files, those that they depend on, and the build files. CONTRIBUTING.md says who runs what when.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from check_layers import ROOT, TESTS_ALSO, closure, read_graph
from tidy import adapted, find_tool, sources_of
from timed_commands import OutOfTime, call, stop

CORES = len(os.sched_getaffinity(0))
LEDGER = ROOT / "tests/suites.json"
BUILD_FILES = ("CMakeLists.txt", "cmake/", "third_party/", "tests/CMakeLists.txt", "apps/trainctl/CMakeLists.txt")
# What every test may open, and what those of one folder do, beside the files of that folder.
TESTS_READ = ("tests/support/", "tests/reference/")
TEST_READS = {"experiment": ("configs/", "docs/glossary.md"), "pretrained": ("scripts/fetch_data.py",), "dataset": ("scripts/fetch_data.py",)}
THREADED = ("tracking", "checkpoint", "comm", "dataset")  # the folders that start threads of their own, for ThreadSanitizer
SANITIZER_OPTIONS = {
    "asan": {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1",
             "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
    "tsan": {"TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:suppressions={ROOT}/tests/support/tsan.txt", "OMP_NUM_THREADS": "1"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# The tests with CTest's label `slow`, and what each reads beside the whole program.
SLOW_READ = {"acceptance_hostile_config": ("tests/acceptance/",), "extension": ("tests/extension/", "CONTRIBUTING.md"),
             **dict.fromkeys(("platform_nehalem", "platform_haswell", "platform_epyc_rome"), ("tests/platforms/", "docs/platforms.md"))}
# A comment, or what may hold the beginning of one: a string, a character, and a number with its quotes.
COMMENT_OR_LITERAL = re.compile(r"""((?m:^[ \t]*)//[^\n]*\n|[ \t]*//[^\n]*|[ \t]*/\*.*?\*/)|R"(\w*)\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|\b\d[\w.']*|'(?:\\.|[^'\\\n])*'""", re.S)


@dataclasses.dataclass(frozen=True)
class Part:
    suite: str
    name: str
    inputs: str  # a hash of all that the part depends on
    seconds: float = 0  # that it took when it last passed

    def __str__(self):
        return f"{self.suite}/{self.name}"


# ---- inputs


def code_of(text):
    """C++ without its comments, which no suite reads; but clang-tidy reads NOLINT."""
    return COMMENT_OR_LITERAL.sub(lambda found: "" if found[1] and "NOLINT" not in found[1] else found[0], text)


@functools.cache
def code_ids(paths):
    """path -> a hash of the code of a source."""
    return {path: hashlib.sha256(code_of((ROOT / path).read_text()).encode()).hexdigest() for path in paths if path.endswith((".cpp", ".h"))}


@functools.cache
def blobs():
    """path -> an id of the content of the file as it is now, new files included and ignored ones not."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = sorted(path for path in listed.stdout.splitlines() if (ROOT / path).is_file())
    ids = subprocess.run(["git", "hash-object", "--stdin-paths"], cwd=ROOT, input="\n".join(paths), capture_output=True, text=True, check=True)
    return {**dict(zip(paths, ids.stdout.split())), **code_ids(tuple(paths))}


@functools.cache
def under(*prefixes):
    """The files in folders (with a slash at the end) and the files of those names."""
    return [path for path in blobs() if path in prefixes or path.startswith(tuple(p for p in prefixes if p.endswith("/")))]


@functools.cache
def included(path):
    """The files of the repository that a source includes, directly or not, and itself."""
    found, waiting = set(), [path]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for header in INCLUDE.findall((ROOT / path).read_text()):
            places = (f"src/{header}", f"tests/{header}", f"{os.path.dirname(path)}/{header}")
            waiting += [place for place in places if place in blobs()]
    return found


@functools.cache
def preset(suite):
    """What configures the suite's build, as text: the preset and those that it inherits."""
    presets = {p["name"]: p for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    chain = [presets[suite]]
    while parent := chain[-1].get("inherits"):
        chain.append(presets[parent])
    return json.dumps(chain, sort_keys=True)


@functools.cache
def library_lines(folders):
    """src/CMakeLists.txt without the libraries of other folders."""
    lines = (ROOT / "src/CMakeLists.txt").read_text().splitlines()
    return "\n".join(l for l in lines if not (m := re.match(r"trainctl_library\((\w+)", l)) or m[1] in folders)


def hashed(files, *texts):
    lines = [f"{path} {blobs()[path]}" for path in sorted(set(files)) if path not in ("third_party/README.md",)]
    return hashlib.sha256("\n".join([*lines, *texts]).encode()).hexdigest()[:12]


def folder_inputs(suite, folder):
    graph = read_graph()
    folders = {folder, *closure(graph, folder)}
    for other in TESTS_ALSO.get(folder, []):
        folders |= {other, *closure(graph, other)}
    files = under(*BUILD_FILES, *(f"src/{f}/" for f in folders), f"tests/{folder}/", *TESTS_READ, *TEST_READS.get(folder, ()))
    return hashed(files, preset(suite), library_lines(frozenset(folders)))


def source_inputs(source, *rules):
    return hashed([*included(source), *under("cmake/", "third_party/", *rules)], preset("dev"))


def all_parts(ledger):
    """Every part of every suite."""
    sources = [path for path in under("src/", "apps/", "tests/") if path.endswith(".cpp")]
    tested = [folder for folder in read_graph() if under(f"tests/{folder}/")]
    program = under("src/", "apps/", "configs/", *BUILD_FILES)
    inputs = {
        "slow": {test: hashed([*program, *under(*read)], preset("release")) for test, read in SLOW_READ.items()},
        "odr": {"trainctl": hashed(under("src/", "apps/", *BUILD_FILES), preset("odr"))},
        "dev": {source: source_inputs(source) for source in sources},
        "tsan": {folder: folder_inputs("tsan", folder) for folder in THREADED},
        "asan": {folder: folder_inputs("asan", folder) for folder in tested},
        "tidy": {source: source_inputs(source, ".clang-tidy") for source in sources if not source.startswith("tests/")},
    }
    for suite, parts in inputs.items():
        yield from (Part(suite, name, value, ledger.get(f"{suite}/{name}", [None, 0])[1]) for name, value in parts.items())


# ---- running


@functools.cache
def configured(suite):
    """Configures the suite's build; its compile commands by source."""
    run = subprocess.run(["cmake", "--preset", suite, "--log-level=WARNING"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"suites: cmake --preset {suite} failed:\n{run.stdout}{run.stderr}")
    entries = json.loads((ROOT / "build" / suite / "compile_commands.json").read_text())
    return {os.path.relpath(e["file"], ROOT): e for e in entries}


def build(suite, deadline, *targets):
    configured(suite)
    return call(["ninja", "-C", f"build/{suite}", "-k", "0", "-j", str(CORES), *targets], deadline)


def run_program(parts, deadline):
    """Builds the program and its engine; the link step is the check."""
    for part in parts:
        if part.seconds > deadline - time.monotonic():
            continue
        status, output = build(part.suite, deadline, "trainctl", "trainctl_engine")
        yield [part], status == 0, output


def run_slow(parts, deadline):
    """Runs tests of the release build. One that is skipped here was not run."""
    for part in sorted(parts, key=lambda part: part.seconds):
        if part.seconds > deadline - time.monotonic():
            continue
        status, output = build("release", deadline, "all")
        if status == 0:
            status, output = call(["ctest", "--preset", "release", "--no-tests=error", "-R", f"^{part.name}$"], deadline)
        if "***Skipped" not in output:
            yield [part], status == 0, output


def run_tests(parts, deadline):
    """Builds the test programs of folders with a sanitizer, and runs them."""
    for part in sorted(parts, key=lambda part: part.seconds):
        if part.seconds > deadline - time.monotonic():
            continue
        status, output = build(part.suite, deadline, f"test_{part.name}")
        if status == 0:
            # Without address randomization: ThreadSanitizer does not start on kernels that randomize more bits than it knows.
            status, output = call(["setarch", "-R", f"build/{part.suite}/bin/test_{part.name}"], deadline, **SANITIZER_OPTIONS[part.suite])
        yield [part], status == 0, output


def compiled(parts):
    """The parts that the dev build has a command for, with it; the others fail."""
    commands = configured("dev")
    return [(part, commands[part.name]) for part in parts if part.name in commands]


def uncompiled(parts):
    for part in parts:
        if part.name not in configured("dev"):
            yield [part], False, f"{part.name}: the dev build has no such source; what its library needs is not installed (scripts/setup.sh --tests)"


def run_dev(parts, deadline):
    """Compiles sources alone, in batches: ninja starts once for many."""
    yield from uncompiled(parts)
    parts, size = compiled(parts), 8 * CORES
    for first in range(0, len(parts), size):
        batch = {re.search(r" -o (\S+)", command["command"])[1]: part for part, command in parts[first:first + size]}
        status, output = build("dev", deadline, *batch)
        failed = set(re.findall(r"^FAILED: (\S+)", output, re.M))
        other = status != 0 and not failed & set(batch)  # a generated header, say: then nothing is known of the batch
        passed = [part for target, part in batch.items() if not other and target not in failed]
        yield passed, True, output
        yield [part for part in batch.values() if part not in passed], False, output


def tidy_jobs(parts):
    """(parts, build, file to check) of each run of clang-tidy. A source of a unity build is checked with the others of its folder
    if several are due: that takes a fifth of the time."""
    due = {ROOT / part.name: part for part in parts}
    for entry in configured("release").values():
        covered = [due[source] for source in sources_of(entry) if source in due]
        if len(covered) > 4:
            yield covered, "release", entry["file"]
            due = {source: part for source, part in due.items() if part not in covered}
    yield from (([part], "dev", str(source)) for source, part in due.items())


def write_database(suite):
    """Writes the compile commands as Clang takes them; the generated headers are those of the release build."""
    folder = ROOT / "build" / suite / "tidy" / "suite"
    folder.mkdir(exist_ok=True, parents=True)
    entries = json.dumps([adapted(entry, ROOT / "build" / suite) for entry in configured(suite).values()])
    (folder / "compile_commands.json").write_text(entries.replace(f"{ROOT}/build/{suite}/embedded", f"{ROOT}/build/release/embedded"))
    return str(folder)


def run_tidy(parts, deadline):
    yield from uncompiled(parts)
    jobs = list(tidy_jobs([part for part, _ in compiled(parts)]))
    tool, folders = find_tool(), {suite: write_database(suite) for suite in ("dev", "release")}
    build("release", deadline, *re.findall(r"^build (embedded/[^ :|]+)", (ROOT / "build/release/build.ninja").read_text(), re.M))
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        running = {pool.submit(call, [tool, "--quiet", "-p", folders[suite], file], deadline): covered for covered, suite, file in jobs}
        try:
            for future in concurrent.futures.as_completed(running):
                status, output = future.result()
                yield running[future], status == 0, output
        finally:
            pool.shutdown(cancel_futures=True)


# Each runner yields what it ran, whether that passed, and the output.
RUN = {"slow": run_slow, "odr": run_program, "dev": run_dev, "tsan": run_tests, "asan": run_tests, "tidy": run_tidy}


# ---- the ledger: "suite/part": [inputs at which it last passed, seconds that it took, date]


def read_ledger():
    return json.loads(LEDGER.read_text()) if LEDGER.exists() else {}


def record(part, seconds, existing):
    """Writes the part's entry beside those that another run may have written meanwhile; one per line, so that branches merge."""
    ledger = {name: entry for name, entry in read_ledger().items() if name in existing}
    ledger[str(part)] = [part.inputs, round(seconds), datetime.date.today().isoformat()]
    LEDGER.write_text("{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(ledger.items())) + "\n}\n")


def is_recorded(part, ledger):
    return ledger.get(str(part), [None])[0] == part.inputs


def is_overdue(part, ledger, days):
    """Whether the part last passed more than so many days before the last commit. A part that never passed is not."""
    entry = ledger.get(str(part))
    commit = subprocess.run(["git", "log", "-1", "--format=%cs"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return entry is not None and datetime.date.fromisoformat(commit) - datetime.date.fromisoformat(entry[2]) > datetime.timedelta(days)


def is_chosen(part, names):
    return not names or any(f"{part}/".startswith(f"{name}/") for name in names)


def show(parts, ledger):
    for suite in RUN:
        own = [part for part in parts if part.suite == suite]
        due = [part for part in own if not is_recorded(part, ledger)]
        print(f"{suite}: {len(own) - len(due)} of {len(own)} recorded; due: {summary(due) or 'none'}")


def summary(parts):
    """The names of folders, and how many sources of a folder."""
    counts = collections.Counter("/".join(part.name.split("/")[:2]) for part in parts)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())


def run_due(due, deadline, on_pass):
    """Runs the parts, suite by suite; (those that failed, those that were not run)."""
    failed, left = [], dict.fromkeys(due)
    for suite, runner in RUN.items():
        parts, before = [part for part in due if part.suite == suite], time.monotonic()
        try:
            for done, passed, output in runner(parts, deadline) if parts else ():
                seconds, before = time.monotonic() - before, time.monotonic()
                if done:
                    print(f"{suite}: {summary(done)} {'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
                for part in done:
                    del left[part]
                    on_pass(part, seconds / len(done)) if passed else failed.append(part)
                if done and not passed:
                    print("\n".join(output.splitlines()[-100:]), flush=True)
        except OutOfTime:
            pass
    return failed, list(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--tolerate", type=int, metavar="DAYS")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    deadline = time.monotonic() + 60 * options.minutes
    ledger = read_ledger()
    parts = list(all_parts(ledger))
    chosen = [part for part in parts if is_chosen(part, options.names)]
    if unknown := [name for name in options.names if not any(is_chosen(part, [name]) for part in parts)]:
        parser.error(f"no part of a suite has the name {', '.join(unknown)}")
    if options.list:
        return show(chosen, ledger)
    due = [part for part in chosen if options.again or not is_recorded(part, ledger)]
    existing = set(map(str, parts))
    failed, left = run_due(due, deadline, lambda part, seconds: options.record and record(part, seconds, existing))
    for suite in RUN:
        if missing := [part for part in left if part.suite == suite]:
            print(f"not run: {suite}: {summary(missing)}")
    done = len(due) - len(failed) - len(left)
    print(f"suites: {len(chosen) - len(due)} parts recorded, {done} passed, {len(failed)} failed, {len(left)} not run")
    if left:
        print("suites: run `scripts/suites.py --record` where there is time, and commit tests/suites.json")
    overdue = left if options.tolerate is None else [part for part in left if is_overdue(part, ledger, options.tolerate)]
    if overdue and options.tolerate is not None:
        print(f"suites: last passed more than {options.tolerate} days ago: {', '.join(map(str, overdue))}")
    sys.exit(bool(failed or overdue))


if __name__ == "__main__":
    main()
