#!/usr/bin/env python3
"""House rules that a program can see. Prints each violation as file:line: what; exit 1 if any.

- no folder or file named utils, common, misc or helper
- headers begin with a comment and #pragma once; a source includes its own header first
- no source opens a library's namespace: what it declares there has no public header
- no unfinished work (words below), no paths of one machine
- C++ is formatted as .clang-format says
"""
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = {".h", ".cpp", ".cu", ".cuh"}
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".yaml", ".json"}
SAYS_NOTHING = re.compile(r"^(utils?|common|misc|helpers?)(_.*)?$")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|not imple" r"mented|unimple" r"mented)\b")
ONE_MACHINE = re.compile(r"(?<![\w.$}/-])/(home|root|Users|work)/\w")
LIBRARY_NAMESPACE = re.compile(r"^\s*(inline\s+)?namespace\s+(at|c10|c10d|caffe2|dnnl|fbgemm|ideep|torch)\b")
GENERATED = {"configs/schema.json", "docs/reference.md", "docs/kinds.md"}

def is_ignored(name, patterns):
    """Whether .gitignore names the path, of which `name` is relative to the tree; a pattern with a slash in front is of the tree's root."""
    return any(fnmatch.fnmatch(f"/{name}", pattern) if pattern.startswith("/") else fnmatch.fnmatch(pathlib.PurePath(name).name, pattern) for pattern in patterns)


def files_of_tree():
    """The files that belong to the tree, new ones included. Read without git, so that the checks work in an archive of the tree."""
    patterns = ["/.git", *(line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split())]
    for directory, folders, names in os.walk(ROOT):
        inside = pathlib.Path(directory).relative_to(ROOT)
        folders[:] = sorted(name for name in folders if not is_ignored(inside / name, patterns))
        yield from (ROOT / inside / name for name in sorted(names) if not is_ignored(inside / name, patterns))


def check_words(name, text):
    for part in pathlib.PurePath(name).parts:
        if SAYS_NOTHING.match(part.split(".")[0]):
            yield f"{name}:1: the name '{part}' says nothing; name it for what it holds"
    for number, line in enumerate(text.splitlines(), 1):
        if match := UNFINISHED.search(line):
            yield f"{name}:{number}: unfinished: {match[0]}"
        if match := ONE_MACHINE.search(line):
            yield f"{name}:{number}: a path of one machine"


def check_header(path, name, text):
    includes = re.findall(r'^#include\s*[<"]([^">]+)[">]', text, re.M)
    if path.suffix in (".h", ".cuh"):
        if not text.startswith("//"):
            yield f"{name}:1: a header begins by saying what it is for and its contract"
        if "#pragma once" not in text:
            yield f"{name}:1: no #pragma once"
    elif path.with_suffix(".h").exists() and includes:
        own = path.with_suffix(".h")
        if (ROOT / "src" / includes[0]) != own and pathlib.PurePath(includes[0]).name != own.name:
            yield f"{name}:1: includes {includes[0]} before its own header"


def check_namespaces(path, name, text):
    """A declaration in a library's namespace calls a symbol that no header promises."""
    if path.suffix in CPP and not name.startswith("third_party/"):
        for number, line in enumerate(text.splitlines(), 1):
            if match := LIBRARY_NAMESPACE.match(line):
                yield f"{name}:{number}: opens namespace {match[2]}; call what a public header of that library declares"


def check_format(paths):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield "clang-format: not installed (scripts/setup.sh installs it)"
        return
    run = subprocess.run([tool, "--dry-run", "-Werror", *paths], cwd=ROOT, capture_output=True, text=True)
    seen = set()
    for where in re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, re.M):
        if where not in seen:
            seen.add(where)
            yield f"{where}: not formatted; {tool} -i {where}"
    if run.returncode != 0 and not seen:
        yield f"clang-format: {run.stderr.strip()}"


def main():
    problems, formatted = [], []
    for path in files_of_tree():
        name = str(path.relative_to(ROOT))
        if not path.is_file() or path.suffix not in TEXT and path.parent.name != "scripts" or name in GENERATED or name.startswith("tests/golden/"):
            continue
        text = path.read_text()
        problems += [*check_words(name, text), *check_namespaces(path, name, text)]
        if path.suffix in CPP:
            problems += check_header(path, name, text)
            formatted.append(name)
    problems += check_format(formatted)
    print("\n".join(problems) or f"{len(formatted)} C++ files follow the house rules")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
