"""A copy of the sources with additions, and the compiler's word on them. The commands are those of the build directory.

Only what an addition can break is compiled: the sources that include a changed file. Those of a program that is linked
become objects, without optimization; for the others the compiler checks the source and writes nothing."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_style import files_of_tree

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
FOLDERS = ("src", "apps", "tests")
JOBS = min(4, len(os.sched_getaffinity(0)))


@dataclasses.dataclass
class Unit:
    """What one run of the compiler reads: a source, or the sources of a unity build."""
    command: list
    directory: str
    output: str
    sources: list  # paths in the tree

    def library(self):
        return re.search(r"CMakeFiles/([^/]+)\.dir/", self.output).group(1)


class ExtendedTree:
    def __init__(self, directory, build):
        self.root = pathlib.Path(directory)
        self.build = pathlib.Path(build)
        self.objects = {}  # output in the build directory -> object here
        for path in files_of_tree():
            name = path.relative_to(ROOT)
            if name.parts[0] in (*FOLDERS, "CONTRIBUTING.md"):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.root / name)
        self.units = self._read_units()

    def _read_units(self):
        units = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            output = command[command.index("-o") + 1]
            file = pathlib.Path(entry["file"])
            texts = INCLUDE.findall(file.read_text()) if "/Unity/" in entry["file"] else [entry["file"]]
            sources = [os.path.relpath(text, ROOT) for text in texts if text.startswith(str(ROOT))]
            units[output] = Unit(command, entry["directory"], output, sources)
        return list(units.values())

    def write(self, steps):
        for path, edits in steps.items():
            file = self.root / path
            text = file.read_text() if file.exists() else None
            for edit in edits:
                text = edit.apply(text)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def includes(self, path, seen):
        """Adds the file and all that it includes to `seen`."""
        if path in seen:
            return
        seen.add(path)
        for name in INCLUDE.findall((self.root / path).read_text()):
            for candidate in ("src/" + name, "apps/trainctl/" + name, "tests/" + name, str(pathlib.PurePath(path).parent / name)):
                if (self.root / candidate).is_file():
                    self.includes(os.path.normpath(candidate), seen)
                    break

    def affected(self, steps):
        """Units of the libraries and programs that read a changed file, and one for each new or changed test."""
        found = []
        for unit in self.units:
            if not unit.sources or not all(source.startswith(("src/", "apps/")) for source in unit.sources):
                continue
            seen = set()
            for source in unit.sources:
                if (self.root / source).exists():
                    self.includes(source, seen)
            if seen & set(steps):
                found.append(unit)
        taken = {source for unit in found for source in unit.sources}
        return found + [self.alone(path) for path in steps if path.endswith(".cpp") and path not in taken]

    def alone(self, path):
        """The source as a unit of its own, with the flags of its neighbours."""
        folder = os.path.dirname(path)

        def likeness(unit):
            of_source = [(len(os.path.commonpath([path, source])), os.path.dirname(source) == folder) for source in unit.sources]
            return max(of_source, default=(-1, False))
        neighbour = max(self.units, key=likeness)
        output = neighbour.output.split(".dir/")[0] + ".dir/alone_" + path.replace("/", "_") + ".o"
        return Unit(neighbour.command, neighbour.directory, output, [path])

    def compile(self, unit, makes_object=False, before=None):
        """The compiler's messages; "" if it is content. Files of the folder `before` are taken before the tree's."""
        kept = []
        skip = 0
        for i, word in enumerate(unit.command):
            if skip:
                skip -= 1
            elif word in ("-o", "-c"):
                skip = 1
            elif word.startswith("-O"):
                pass
            elif makes_object and kept[-1:] == ["-include"]:
                kept.append(str(self.root / "precompiled" / pathlib.PurePath(word).name))
            elif word.startswith(tuple(f"-I{ROOT}/{folder}" for folder in FOLDERS)):
                kept += [word.replace(f"-I{ROOT}", f"-I{before}", 1)] if before else []
                kept.append(word.replace(f"-I{ROOT}", f"-I{self.root}", 1))
            elif i > 0 and word.startswith(f"-DTRAINCTL_SOURCE_DIR="):
                kept.append(f'-DTRAINCTL_SOURCE_DIR="{self.root}"')
            else:
                kept.append(word)
        source = (before or self.root) / "units" / (unit.output.replace("/", "_") + ".cpp")
        source.parent.mkdir(parents=True, exist_ok=True)
        paths = [before / one if before and (before / one).exists() else self.root / one for one in unit.sources]
        source.write_text("".join(f'#include "{path}"\n' for path in paths))
        # A program whose macros the precompiled header doesn't fit reads its text.
        how = ["-O0", "-Wno-invalid-pch", "-c", "-o", str(source) + ".o"] if makes_object else ["-O2", "-fsyntax-only"]
        done = subprocess.run([*kept, *how, str(source)], cwd=unit.directory, capture_output=True, text=True)
        if done.returncode == 0 and makes_object:
            self.objects[unit.output] = str(source) + ".o"
        return "" if done.returncode == 0 else done.stderr or f"exit {done.returncode}"

    def compile_changed(self, source, change, name):
        """The compiler's messages on the source, if one file is changed: (path, text that it has once, text instead)."""
        path, old, new = change
        text = (self.root / path).read_text()
        assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
        before = self.root / name
        if path.startswith("apps/"):  # these include each other by names in their own folder
            shutil.copytree(self.root / "apps", before / "apps")
        (before / path).parent.mkdir(parents=True, exist_ok=True)
        (before / path).write_text(text.replace(old, new))
        return self.compile(self.alone(source), before=before)

    @staticmethod
    def in_parallel(function, items):
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            return list(pool.map(function, items))

    def compile_all(self, units, makes_object):
        """The units that don't compile, with the compiler's messages."""
        self._precompile()
        texts = self.in_parallel(lambda unit: self.compile(unit, makes_object(unit)), units)
        return {", ".join(unit.sources)[:200]: text for unit, text in zip(units, texts) if text}

    def _precompile(self):
        """The build's precompiled header fits optimized sources. Those that become objects get one of their own."""
        for unit in self.units:
            if unit.output.endswith(".hxx.gch"):
                header = self.root / "precompiled" / pathlib.PurePath(unit.output).stem
                header.parent.mkdir(exist_ok=True)
                shutil.copyfile(self.build / unit.output.removesuffix(".gch"), header)
                command = [f"{header}.gch" if word == unit.output else word for word in unit.command if not word.startswith("-O")]
                subprocess.run([*command, "-O0"], cwd=unit.directory, check=True)

    @staticmethod
    def _file(program):
        """A program's file in the build directory. The engine is the library that trainctl loads."""
        return "lib/libtrainctl_engine.so" if program == "trainctl_engine" else f"bin/{program}"

    def _link_command(self, program):
        text = subprocess.run(["ninja", "-t", "commands", self._file(program)], cwd=self.build, check=True, capture_output=True, text=True).stdout
        return shlex.split(text.splitlines()[-1].replace(": && ", "", 1).replace(" && :", ""))

    def libraries(self, program):
        """CMake's targets whose objects are in the program."""
        return {pathlib.PurePath(word).name.removeprefix("lib").removesuffix(".a") for word in self._link_command(program)
                if word.endswith(".a") and not word.startswith("/")} | {program}

    def link(self, program, without=()):
        """(path of the program, messages). Changed objects take the place of those of the build; of a test program, they
        are its only tests."""
        of_library = {}
        for output in self.objects:
            of_library.setdefault(re.search(r"CMakeFiles/([^/]+)\.dir/", output).group(1), []).append(output)
        graph = (self.build / "build.ninja").read_text()
        words, target = [], self.root / self._file(program)
        target.parent.mkdir(exist_ok=True)
        beside = target.parent / "libtrainctl_tokenize.so"  # which the front loads before the engine
        if program == "trainctl_engine" and not beside.exists():
            beside.symlink_to(self.build / "lib/libtrainctl_tokenize.so")
        for word in self._link_command(program):
            name = pathlib.PurePath(word).name.removeprefix("lib").removesuffix(".a")
            if word == self._file(program):
                words.append(str(target))
            elif word.endswith(".a") and name in of_library:
                listed = re.search(rf"^build {re.escape(word)}: \S+ ([^|\n]*)", graph, re.M).group(1).split()
                words.append(self._archive(name, self._objects(listed, of_library[name], without)))
            elif word.endswith(".o") and program.startswith("test_"):
                words += self._objects([], of_library.pop(program, []), without)
            elif word.endswith(".o"):
                words += [path for path in self._objects([word], of_library.get(program, []), without) if path not in words]
            else:
                words.append(word)
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
        return target, "" if done.returncode == 0 else done.stdout + done.stderr

    def _archive(self, name, objects):
        """A library of which the linker takes what is needed, as it does of the build's."""
        path = self.root / "archives" / f"lib{name}.a"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        subprocess.run(["ar", "rcsT", path, *(self.build / one for one in objects)], check=True)
        return str(path)

    def _objects(self, listed, compiled, without):
        here = [self.objects[output] for output in compiled if output in listed or "/alone_" in output]
        here = [path for path in here if not any(source.replace("/", "_") in path for source in without)]
        return here + [output for output in listed if output not in compiled]
