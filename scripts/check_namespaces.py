#!/usr/bin/env python3
"""Checks the walls between folders. Prints each violation as file:line: what; exit 1 if any.

- a file of src/<folder> opens namespace trainctl::<folder> (and what is in it), and no other folder's
- the front (apps/trainctl) is trainctl::cli, its engine trainctl::engine
- no two types have the same full name: the linker would merge them without a word
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([\w:]+))? \{", re.M)
END = re.compile(r"^\}.*?// namespace", re.M)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\(\w+\) )?([\w:]+)[^;{]*\{", re.M)
# Types that a folder gives a library's template: the name is the library's.
SPECIALIZATION = re.compile(r"^(?:struct|class) \w+<", re.M)


def namespace_of(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "src":
        return f"trainctl::{parts[1]}"
    return "trainctl::engine" if parts[2] == "engine" else "trainctl::cli"


def read(text):
    """(line, kind, full name) of each namespace that is opened and each type that is defined outside of unnamed namespaces."""
    found = sorted([(m.start(), "open", m[1] or "") for m in NAMESPACE.finditer(text)] + [(m.start(), "close", "") for m in END.finditer(text)] +
                   [(m.start(), "type", m[1]) for m in TYPE.finditer(text) if not SPECIALIZATION.match(text, m.start())])
    open_ones = []
    for start, kind, name in found:
        line = text.count("\n", 0, start) + 1
        if kind == "open":
            open_ones.append(name)
            yield line, kind, "" if "" in open_ones else "::".join(open_ones)
        elif kind == "close":
            open_ones and open_ones.pop()
        elif "" not in open_ones:
            yield line, kind, "::".join([*open_ones, name])


def check_file(path, text, types):
    own, where = namespace_of(path), path.relative_to(ROOT)
    for line, kind, name in read(text):
        if kind == "type":
            types.setdefault(name, []).append(f"{where}:{line}")
        elif name.startswith("trainctl") and name != own and not name.startswith(own + "::"):
            yield f"{where}:{line}: opens namespace {name}; this folder's is {own}"


def check_types(types):
    for name, places in sorted(types.items()):
        if len(places) > 1:
            yield f"{places[1]}: {name} is defined in {places[0]}, too"


def main():
    types, problems = {}, []
    files = sorted(p for p in [*(ROOT / "src").rglob("*"), *(ROOT / "apps").rglob("*")] if p.suffix in (".h", ".cpp", ".cu", ".cuh"))
    for path in files:
        problems += check_file(path, path.read_text(), types)
    problems += check_types(types)
    print("\n".join(problems) or f"{len(types)} types of {len(files)} files: no name twice, and each in its folder's namespace")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
