#!/usr/bin/env python3
"""Says whether the LibTorch beside this Python is the pinned one and works: versions, headers, and that the library loads.

PREFIX/bin/python3 verify_libtorch.py PINS
"""
import ctypes
import importlib.metadata
import pathlib
import re
import sys
import sysconfig


def installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "nothing"


def header_version(root):
    text = (root / "include/torch/headeronly/version.h").read_text()
    return ".".join(re.search(rf"define TORCH_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def main():
    root = pathlib.Path(sysconfig.get_paths()["platlib"]) / "torch"
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", pathlib.Path(sys.argv[1]).read_text(), re.M))
    problems = [f"{name} {want} is pinned, {installed(name)} is installed" for name, want in pins.items() if installed(name) != want]
    try:
        if header_version(root) != pins["torch"]:
            problems.append(f"{root}/include is of version {header_version(root)}")
        ctypes.CDLL(str(root / "lib/libtorch_cpu.so"))
    except OSError as error:
        problems.append(str(error))
    print("\n".join(problems) or f"setup: LibTorch {pins['torch']} loads")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
