#!/usr/bin/env python3
"""House rules that a program can see. Prints each violation as file:line: what; exit 1 if any.

- files of at most 400 lines, functions of at most 60 (tests' cases too)
- no folder or file named utils, common, misc or helper
- headers begin with a comment and #pragma once; a source includes its own header first
- no source opens a library's namespace: what it declares there has no public header
- no unfinished work (words below), no paths of one machine
- C++ is formatted as .clang-format says
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE = 400
MAX_FUNCTION = 60
CPP = {".h", ".cpp", ".cu", ".cuh"}
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".yaml", ".json"}
SAYS_NOTHING = re.compile(r"^(utils?|common|misc|helpers?)(_.*)?$")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|not imple" r"mented|unimple" r"mented)\b")
ONE_MACHINE = re.compile(r"(?<![\w.$}/-])/(home|root|Users|work)/\w")
LIBRARY_NAMESPACE = re.compile(r"^\s*(inline\s+)?namespace\s+(at|c10|c10d|caffe2|dnnl|fbgemm|ideep|torch)\b")
GENERATED = {"configs/schema.json", "docs/reference.md", "docs/kinds.md"}

# What a brace belongs to, told by the text before it.
SCOPE = re.compile(r"^\s*(inline\s+)?namespace\b|^\s*extern\s+\"|\b(class|struct|union|enum)\b[^()=]*$|\bconcept\b|=\s*$|^\s*requires\b[^()]*$")
CONTROL = re.compile(r"^\s*(else\s+)?(if|for|while|switch|do|else|try|catch)\b")


def tracked():
    """Files of the tree as git sees them, new ones included."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for path in (ROOT / line for line in listed.stdout.splitlines()) if path.is_file())


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


def check_lengths(path, name, text):
    lines = text.count("\n")
    if path.suffix in CPP | {".py", ".sh", ".cmake"} and lines > MAX_FILE:
        yield f"{name}:1: {lines} lines; split it by meaning (at most {MAX_FILE})"
    if path.suffix in CPP:
        for first, length in functions(text):
            if length > MAX_FUNCTION:
                yield f"{name}:{first}: a function of {length} lines; split it by meaning (at most {MAX_FUNCTION})"


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
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix not in TEXT and path.parent.name != "scripts" or name in GENERATED or name.startswith("tests/golden/"):
            continue
        text = path.read_text()
        problems += [*check_lengths(path, name, text), *check_words(name, text), *check_namespaces(path, name, text)]
        if path.suffix in CPP:
            problems += check_header(path, name, text)
            formatted.append(name)
    problems += check_format(formatted)
    print("\n".join(problems) or f"{len(formatted)} C++ files follow the house rules")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
