#!/usr/bin/env python3
"""Prints how large the C++ of a folder is: files, lines, functions and the lengths of functions, as a Markdown table.

  mass.py                                  # every folder of src/, and apps/
  mass.py src/train src/checkpoint         # these folders
  mass.py --at COMMIT src/train            # as they were at that commit
  mass.py --short src/train                # lists the functions of fewer than six lines

A function's length counts the lines from its first to its closing brace.
"""
import argparse
import pathlib
import re
import statistics
import subprocess

from check_style import CPP, ROOT

SHORT = 6

# What a brace belongs to, told by the text before it.
SCOPE = re.compile(r"^\s*(inline\s+)?namespace\b|^\s*extern\s+\"|\b(class|struct|union|enum)\b[^()=]*$|\bconcept\b|=\s*$|^\s*requires\b[^()]*$")
CONTROL = re.compile(r"^\s*(else\s+)?(if|for|while|switch|do|else|try|catch)\b")


def blank_out(text):
    """The text with the insides of comments, strings and preprocessor lines blanked, line by line as long as before."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
        re.S | re.M)
    return pattern.sub(lambda m: '""' + "\n" * m[0].count("\n") if m[0][0] in "\"'R" else "\n" * m[0].count("\n"), text)


def functions(text):
    """(first line, number of lines) of each outermost function body; lambdas and local classes count with their function."""
    text = blank_out(text)
    depth, inside, first, head, line, head_line = 0, None, 0, "", 1, 1
    for c in text:
        if inside is None and not head.strip() and not c.isspace():
            head_line = line
        if c == "{":
            depth += 1
            if inside is None and "(" in head and not SCOPE.search(head) and not CONTROL.search(head):
                inside, first = depth, head_line
            head = ""
        elif c == "}":
            if inside == depth:
                yield first, line - first + 1
                inside = None
            depth -= 1
            head = ""
        elif c == ";" or (c == ":" and head.strip() in ("public", "protected", "private")):
            head = ""
        elif inside is None:
            head += c
        line += c == "\n"


def sources(folder, commit):
    """(name, text) of each C++ file below the folder."""
    if commit is None:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CPP:
                yield str(path.relative_to(ROOT)), path.read_text()
        return
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit, "--", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if pathlib.PurePath(name).suffix in CPP:
            yield name, subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def row(title, files):
    lengths = [length for _, text in files for _, length in functions(text)]
    lines = sum(text.count("\n") for _, text in files)
    median = statistics.median(lengths) if lengths else 0
    short = sum(length < SHORT for length in lengths)
    return f"| {title} | {len(files)} | {lines:,} | {len(lengths):,} | {median:g} | {max(lengths, default=0)} | {100 * short // max(1, len(lengths))} % |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--at", metavar="COMMIT")
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    folders = args.folders or sorted(f"src/{path.name}" for path in (ROOT / "src").iterdir() if path.is_dir()) + ["apps"]
    every = {folder: list(sources(folder, args.at)) for folder in folders}
    if args.short:
        for name, text in (file for files in every.values() for file in files):
            lines = text.splitlines()
            for first, length in functions(text):
                if length < SHORT:
                    print(f"{name}:{first}: {lines[first - 1].strip()}")
        return
    print(f"| folder | files | lines | functions | median length | longest | under {SHORT} lines |\n| --- | --- | --- | --- | --- | --- | --- |")
    for folder, files in every.items():
        print(row(f"`{folder}`", files))
    if len(every) > 1:
        print(row("all", [file for files in every.values() for file in files]))


if __name__ == "__main__":
    main()
