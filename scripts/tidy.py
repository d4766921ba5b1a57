#!/usr/bin/env python3
"""Runs clang-tidy (the short list in .clang-tidy) over sources; exit 1 if it finds anything.

  scripts/tidy.py                      the sources that see no LibTorch: two minutes, run as a test
  scripts/tidy.py optimizer train      those folders of src/: a minute or two each
  scripts/tidy.py --all                everything
  --build DIR                          where compile_commands.json is (build/release)
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from check_layers import ROOT, read_graph


def adapted(entry, build):
    """A compile command as Clang takes it: no compiler cache, no GCC precompiled header (its text is included instead),
    no OpenMP, whose header is GCC's."""
    command = re.sub(r"^.*?(?=\S*(g\+\+|c\+\+|clang\+\+)\S* )", "", entry["command"])
    command = re.sub(r"-Winvalid-pch|-fpch-preprocess|-fopenmp|-Wno-subobject-linkage|-Werror", "", command)
    if header := re.search(r"-include (\S+/cmake_pch\.hxx)", command):
        text = build / "tidy" / "precompiled.h"
        text.write_text(pathlib.Path(header[1]).read_text())
        command = command.replace(header[1], str(text))
    return {**entry, "command": command}


def find_tool():
    return shutil.which("clang-tidy-16") or shutil.which("clang-tidy") or sys.exit("clang-tidy is not installed (scripts/setup.sh installs it)")


def sources_of(entry):
    """The file that is compiled, or those that a unity build reads as one: they are checked as one too, five times faster than alone."""
    if "/Unity/" not in entry["file"]:
        return [pathlib.Path(entry["file"])]
    unity = pathlib.Path(entry["file"])
    return [pathlib.Path(source) for source in re.findall(r'#include "(\S+)"', unity.read_text())] if unity.exists() else []


def wanted(path, chosen, torch_free):
    """Whether a source belongs to the chosen folders; without a choice, to what sees no LibTorch."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "src":
        return parts[1] in (chosen or torch_free)
    return parts[0] == "apps" and ("apps" in chosen if chosen else "engine" not in parts)


def inside(path):
    return path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "apps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()

    tool = find_tool()
    graph = read_graph()
    chosen = [*graph, "apps"] if options.all else options.folders
    torch_free = [folder for folder, (_, torch) in graph.items() if not torch]
    (options.build / "tidy").mkdir(exist_ok=True)
    entries = [e for e in json.loads((options.build / "compile_commands.json").read_text())
               if any(inside(source) and wanted(source, chosen, torch_free) for source in sources_of(e))]
    database = options.build / "tidy" / "compile_commands.json"
    database.write_text(json.dumps([adapted(e, options.build) for e in entries], indent=1))

    def tidy(path):
        run = subprocess.run([tool, "--quiet", "-p", database.parent, path], cwd=ROOT, capture_output=True, text=True)
        return run.returncode, run.stdout

    files = sorted({e["file"] for e in entries if pathlib.Path(e["file"]).exists()})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tidy, files))
    findings = [text for code, text in results if code != 0]
    print("\n".join(findings) or f"clang-tidy finds nothing in {sum(len(sources_of(e)) for e in entries)} files")
    sys.exit(bool(findings) or not files)


if __name__ == "__main__":
    main()
