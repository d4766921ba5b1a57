#!/usr/bin/env python3
"""Checks the prose rules of CONTRIBUTING that a program can check; prints each place that breaks one, and fails if there is any.

  check_prose.py [FILE...]         every header, source and page, or these
  check_prose.py --subject FILE    the message of a commit, for a hook (.pre-commit-config.yaml)

1. A doc comment is a full phrase: it does not begin with Of, As, The same, Those, And or Likewise.
2. A sentence of a page or a doc comment has at most 25 words.
5. The text of an error or a hint names its subject: it does not begin with "it" or "its". It says "cannot" once.
6. The subject of a commit is `area: imperative`, in at most 72 characters.
"""
import pathlib
import re
import sys

from check_style import files_of_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAGMENT = re.compile(r"(Of|As|The same|Those|And|Likewise)\b")
REPEATED = re.compile(r'\bsystem_error\(\s*"cannot\b')
SUBJECTLESS = re.compile(r'\b(Error|hint)\([^";]*"(its?\b[^"]*)"', re.I)
MAX_WORDS = 25
MAX_CHARACTERS = 72
SUBJECT = re.compile(r"[a-z_0-9]+(, [a-z_0-9]+)*: [a-z]")
GENERATED = {"docs/reference.md", "docs/kinds.md", "docs/equality.md"}


def doc_comments(text):
    """Line and text of each run of lines that begin with ///."""
    begin, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        if stripped.startswith("/// "):
            begin = begin or number
            words.append(stripped[4:])
        elif words:
            yield begin, " ".join(words)
            begin, words = 0, []


def paragraphs(text):
    """Line and text of each paragraph and list item of a page; no code, tables, titles or links' targets."""
    text = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), text, flags=re.S)
    begin, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        is_item = re.match(r"([-*]|\d+\.) ", stripped)
        if words and (is_item or not stripped or stripped[0] in "|#>"):
            yield begin, " ".join(words)
            begin, words = 0, []
        if stripped and stripped[0] not in "|#>":
            begin = begin or number
            words.append(re.sub(r"^([-*]|\d+\.) ", "", stripped))


def sentences(text):
    text = re.sub(r"`[^`]*`", "x", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"\b(e\.g|i\.e|etc|cf|vs)\.", r"\1", text)
    return re.split(r"(?<=[.!?])\s+", text)


def long_sentences(text):
    for sentence in sentences(text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > MAX_WORDS:
            yield len(words), sentence


def check_comments(name, paragraphs_of_file, is_page):
    for line, paragraph in paragraphs_of_file:
        if not is_page and FRAGMENT.match(paragraph):
            yield f"{name}:{line}: a fragment: {paragraph[:60]}"
        for count, sentence in long_sentences(paragraph):
            yield f"{name}:{line}: a sentence of {count} words: {sentence[:60]}…"


def check_errors(name, text):
    for found in SUBJECTLESS.finditer(text):
        line = text.count("\n", 0, found.start(2)) + 1
        yield f"{name}:{line}: an error without its subject: {found[2][:60]}"
    for found in REPEATED.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{name}:{line}: an error that says cannot twice: core::system_error puts the first"


def check_file(path):
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    text = path.read_text()
    is_page = path.suffix == ".md"
    yield from check_comments(name, (paragraphs if is_page else doc_comments)(text), is_page)
    if not is_page:
        yield from check_errors(name, text)


def check_subject(subject):
    if len(subject) > MAX_CHARACTERS:
        yield f"a subject of {len(subject)} characters: {subject}"
    if not SUBJECT.match(subject):
        yield f"no `area: imperative`: {subject}"


def pages_and_code():
    for path in files_of_tree():
        name = str(path.relative_to(ROOT))
        is_code = path.suffix in (".h", ".cpp") and name.startswith(("src/", "apps/"))
        if is_code or path.suffix == ".md" and name not in GENERATED:
            yield path


def main(arguments):
    if arguments[:1] == ["--subject"]:
        found = list(check_subject(pathlib.Path(arguments[1]).read_text().split("\n", 1)[0]))
    else:
        files = [pathlib.Path(name).resolve() for name in arguments] or pages_and_code()
        found = [problem for path in files for problem in check_file(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
