#!/usr/bin/env python3
"""Looks for each relative link of the Markdown files: the file, and the heading after '#'. Prints each broken one; exit 1 if any."""
import pathlib
import re
import sys

from check_style import files_of_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def anchors(text):
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path, text):
    plain = CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in LINK.finditer(plain):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = path.parent / target if target else path
        line = plain.count("\n", 0, match.start()) + 1
        if not there.exists():
            yield f"{path.relative_to(ROOT)}:{line}: there is no {match[1]}"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            yield f"{path.relative_to(ROOT)}:{line}: {target or path.name} has no heading #{anchor}"


def main():
    files = [path for path in files_of_tree() if path.suffix == ".md"]
    problems = [problem for path in files for problem in broken_links(path, path.read_text())]
    print("\n".join(problems) or f"the links of {len(files)} files lead somewhere")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
