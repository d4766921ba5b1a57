#!/usr/bin/env python3
"""Makes what users install from one build: a wheel, a Debian package and an archive. Builds nothing itself.

  scripts/package.py [wheel] [deb] [tar]     all three by default
  --build DIR     the build to install from (default build/release)
  --output DIR    where the packages go (default build/packages)

The wheel asks pip for LibTorch. The Debian package and the archive carry the part of LibTorch that CPUs need. All three come from one
`cmake --install`. patchelf (Debian) points the libraries at each other by relative paths. docs/install.md says what each contains.
"""
import argparse
import base64
import dataclasses
import functools
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUMMARY = "Trains neural networks from one YAML file"
WHEEL_NAME = "trainctl-engine"  # the index has another trainctl: docs/decisions/0043-packages.md
WHEEL_DIRECTORY = "trainctl_engine"  # machine::library_directory looks for it
GLIBC = (2, 36)  # Debian 12's, and the wheel's tag
SYSTEM_LIBRARY = re.compile(r"^(lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)|ld-linux-x86-64)\.so")
# Debian packages whose code is compiled in: headers, static libraries, and the script of the pages.
COMPILED_IN = ("libyaml-cpp-dev", "libcli11-dev", "nlohmann-json3-dev", "libboost-dev", "libxxhash-dev", "libspdlog-dev", "libfmt-dev",
               "libprotozero-dev", "libminizip-dev", "node-d3")


class Failure(Exception):
    pass


def say(text):
    print(f"package: {text}", file=sys.stderr, flush=True)


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Failure(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# ---- shared libraries


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", library))


def set_search_path(library, *directories):
    run("patchelf", "--set-rpath", ":".join(directories), library)


def check_glibc(files):
    """Refuses a file that needs a newer C library than the wheel's tag says."""
    for file in files:
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-V", file))
        newest = max((tuple(map(int, version)) for version in versions), default=(0, 0))
        if newest > GLIBC:
            raise Failure(f"{file.name} needs glibc {newest[0]}.{newest[1]}, and packages are for {GLIBC[0]}.{GLIBC[1]} and newer; build on Debian 12")


def carried_libtorch(root):
    """The libraries that libtorch_cpu needs and no system has, by their places relative to the directory with torch/ in it."""
    directories = [root / "lib", *sorted(root.parent.glob("nvidia/*/lib"))]
    found, waiting = {}, ["libtorch_cpu.so"]
    while waiting:
        name = waiting.pop()
        if name in found or SYSTEM_LIBRARY.match(name):
            continue
        file = next((directory / name for directory in directories if (directory / name).exists()), None)
        if file is None:
            raise Failure(f"LibTorch at {root} needs {name}, which is neither there nor in the packages beside it")
        found[name] = file
        waiting += needed(file)
    return [(pathlib.Path("torch/lib" if file.parent == root / "lib" else file.parent.relative_to(root.parent)) / file.name, file)
            for file in found.values()]


# ---- the install tree


@dataclasses.dataclass
class Tree:
    """What `cmake --install` wrote, and what it was built with."""

    prefix: pathlib.Path
    libtorch: pathlib.Path
    version: str
    time: int  # of the commit: the files of a package bear it

    @property
    def libraries(self):
        return self.prefix / "lib/trainctl"

    def own(self):
        return sorted(self.libraries.glob("libtrainctl_*.so"))

    def arrow(self):
        return sorted([*self.libraries.glob("libarrow*"), *self.libraries.glob("libparquet*")])

    def from_system(self):
        """The copies of Debian's libraries. The loader looks for their sonames; other names of theirs are links."""
        rest = set(self.libraries.iterdir()) - {*self.own(), *self.arrow()}
        return sorted(file for file in rest if file.is_file() and not file.is_symlink())

    def copy(self, to):
        shutil.copytree(self.prefix, to, symlinks=True)
        return Tree(to, self.libtorch, self.version, self.time)

    def remove(self, *names):
        for name in names:
            (self.libraries / name).unlink(missing_ok=True)

    def remove_arrow(self):
        self.remove(*(file.name for file in self.arrow()))
        for text in self.prefix.glob("share/doc/trainctl/licenses/arrow-*"):
            text.unlink()


def cached(build, variable):
    found = re.search(rf"^{variable}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    if not found:
        raise Failure(f"{build} is no build of trainctl: its CMakeCache.txt has no {variable}")
    return found[1]


def keep_sonames(directory):
    """Leaves one file for each library, under the name that the loader looks for."""
    for file in [file for file in directory.iterdir() if file.is_symlink()]:
        file.unlink()
    for file in directory.iterdir():
        soname = re.search(r"\(SONAME\).*\[(.+)\]", run("readelf", "-d", file))
        if soname and soname[1] != file.name:
            file.rename(directory / soname[1])


def time_of_source():
    """The time of the last commit. An archive of the tree has no history: there every file bears that time."""
    return run("git", "log", "-1", "--format=%ct", cwd=ROOT) if (ROOT / ".git").exists() else (ROOT / "CHANGELOG.md").stat().st_mtime


def install(build, prefix):
    if not (build / "CMakeCache.txt").exists():
        raise Failure(f"{build} has no build; try: cmake --preset release && cmake --build --preset release")
    run("cmake", "--install", build, "--prefix", prefix)
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or time_of_source())
    version = run(prefix / "bin/trainctl", "--version").split()[1]
    tree = Tree(prefix, pathlib.Path(cached(build, "LIBTORCH_INCLUDE_DIR")).parent, version, time)
    keep_sonames(tree.libraries)
    add_licenses(tree)
    for library in tree.from_system():
        set_search_path(library, "$ORIGIN")
    check_glibc([prefix / "bin/trainctl", *tree.own(), *tree.from_system()])
    return tree


@functools.cache
def debian_package_of(file_name):
    """The installed Debian package that a library is of."""
    found = run("dpkg", "-S", f"*/{file_name}")
    return found.split(":")[0]


def add_licenses(tree):
    """Writes the terms of trainctl, and of each library that is copied or compiled in."""
    target = tree.prefix / "share/doc/trainctl"
    (target / "licenses").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", target)
    packages = {*COMPILED_IN, debian_package_of("libbacktrace.a"), *(debian_package_of(file.name) for file in tree.from_system())}
    for package in sorted(packages):
        shutil.copy(pathlib.Path("/usr/share/doc") / package / "copyright", target / "licenses" / f"{package}.txt")
    if tree.arrow():
        texts = sorted(tree.libtorch.parent.glob("pyarrow-*.dist-info/licenses/*.txt"))
        if not texts:
            raise Failure("the licence of Apache Arrow is not beside LibTorch; try: scripts/setup.sh --tests")
        for text in texts:
            shutil.copy(text, target / "licenses" / f"arrow-{text.name}")


# ---- LibTorch in the package: Debian, archive


def with_libtorch(tree, to):
    """A copy of the tree that carries LibTorch's libraries for CPUs."""
    tree = tree.copy(to)
    tree.remove("libtrainctl_cuda.so")
    for place, file in carried_libtorch(tree.libtorch):
        (tree.libraries / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tree.libraries / place)
    for name in ("version.py", "build-version"):
        if (tree.libtorch / name).exists():
            shutil.copy(tree.libtorch / name, tree.libraries / "torch")
    licenses = tree.prefix / "share/doc/trainctl/licenses"
    for text in [*tree.libtorch.parent.glob("torch-*.dist-info/licenses/*"), *tree.libtorch.parent.glob("nvidia_cuda_*.dist-info/licenses/*")]:
        shutil.copy(text, licenses / f"{text.parent.parent.name.split('-')[0]}-{text.name}")
    for library in tree.own():
        set_search_path(library, "$ORIGIN", "$ORIGIN/torch/lib")
    return tree


def set_times(directory, time):
    for path in sorted(directory.rglob("*"), reverse=True):
        os.utime(path, (time, time), follow_symlinks=False)


def make_tar(tree, output, scratch):
    name = f"trainctl-{tree.version}-linux-x86_64"
    tree = with_libtorch(tree, scratch / name)
    made = output / f"{name}.tar.gz"

    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = tree.time
        return member

    with tarfile.open(made, "w:gz", compresslevel=6) as archive:
        archive.add(tree.prefix, arcname=name, filter=plain)
    return made


def debian_depends(tree, *files):
    """What dpkg-shlibdeps says that the files need of Debian. LibTorch brings its own libgomp."""
    with tempfile.TemporaryDirectory() as directory:
        (pathlib.Path(directory) / "debian").mkdir()
        (pathlib.Path(directory) / "debian/control").write_text("Source: trainctl\n\nPackage: trainctl\nArchitecture: amd64\n")
        private = [f"-l{tree.libraries / place}" for place in (".", "torch/lib", "nvidia/cu13/lib")]
        found = run("dpkg-shlibdeps", "-O", "--ignore-missing-info", "-xlibgomp1", *private, *(f"-e{file}" for file in files), cwd=directory)
    return found.strip().removeprefix("shlibs:Depends=")


def make_deb(tree, output, scratch):
    package = scratch / "deb"
    tree = with_libtorch(tree, package / "usr")
    tree.remove(*(file.name for file in tree.from_system()))  # Debian's own, which Debian mends
    of_mpi = tree.libraries / "libtrainctl_mpi.so"
    depends = debian_depends(tree, tree.prefix / "bin/trainctl", *(file for file in tree.own() if file != of_mpi))
    suggests = ["dataset-fashion-mnist", *(["openmpi-bin"] if of_mpi.exists() else [])]
    (tree.prefix / "share/zsh/site-functions").rename(tree.prefix / "share/zsh/vendor-completions")  # where Debian's zsh looks
    for page in (tree.prefix / "share/man").rglob("*.1"):
        page.with_suffix(".1.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    shutil.copy(ROOT / "LICENSE", tree.prefix / "share/doc/trainctl/copyright")
    size = sum(file.lstat().st_size for file in package.rglob("*")) // 1024
    (package / "DEBIAN").mkdir()
    (package / "DEBIAN/control").write_text(
        f"Package: trainctl\nVersion: {tree.version}-1\nArchitecture: amd64\nMaintainer: trainctl <trainctl@localhost>\n"
        f"Installed-Size: {size}\nSection: science\nPriority: optional\nDepends: {depends}\nRecommends: libcurl4, libsqlite3-0\nSuggests: {', '.join(suggests)}\n"
        f"Description: {SUMMARY}\n A C++ program on LibTorch, whose libraries for CPUs are in this package.\n")
    set_times(package, tree.time)
    made = output / f"trainctl_{tree.version}-1_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z10", "--build", package, made, env={**os.environ, "SOURCE_DATE_EPOCH": str(tree.time)})
    return made


# ---- LibTorch beside the package: wheel


def wheel_search_path(library):
    beside = {"libtrainctl_parquet.so": ["$ORIGIN/../pyarrow"],
              "libtrainctl_cuda.so": [f"$ORIGIN/../nvidia/{part}/lib" for part in ("cu13", "nccl", "cudnn")]}
    return ["$ORIGIN", "$ORIGIN/../torch/lib", *beside.get(library.name, [])]


def requirements(tree):
    """Of the wheel: LibTorch of the very release, and Arrow as an extra, of the release whose soname the library asks for."""
    release = re.search(r"TORCH_VERSION_MAJOR (\d+)\n.*?MINOR (\d+)\n.*?PATCH (\d+)\n", (tree.libtorch / "include/torch/headeronly/version.h").read_text(), re.S)
    yield f"torch=={'.'.join(release.groups())}"
    parquet = tree.libraries / "libtrainctl_parquet.so"
    if parquet.exists():
        soname = next(name for name in needed(parquet) if name.startswith("libarrow.so."))
        number = int(soname.rsplit(".", 1)[1])
        yield f"pyarrow=={number // 100}.{number % 100}.*; extra == 'parquet'"


def metadata(tree):
    required = "".join(f"Requires-Dist: {one}\n" for one in requirements(tree))
    extra = "Provides-Extra: parquet\n" if "extra ==" in required else ""
    return (f"Metadata-Version: 2.1\nName: {WHEEL_NAME}\nVersion: {tree.version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\nRequires-Python: >=3.10\n"
            f"{required}{extra}Description-Content-Type: text/markdown\n\n"
            "The command `trainctl`: a C++ program on LibTorch, whose libraries this package finds in the package `torch`.\n")


class Wheel:
    """A wheel that is being written, with its list of files."""

    def __init__(self, path, tree):
        self.info = f"{WHEEL_DIRECTORY}-{tree.version}.dist-info"
        self.data = f"{WHEEL_DIRECTORY}-{tree.version}.data"
        self.zip, self.tree, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), tree, []

    def add(self, name, content, mode=0o644):
        entry = zipfile.ZipInfo(name, date_time=time.gmtime(self.tree.time)[:6])
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}\n")

    def add_tree(self, directory, name):
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                self.add(f"{name}/{file.relative_to(directory)}", file.read_bytes())

    def close(self):
        self.record.append(f"{self.info}/RECORD,,\n")
        self.zip.writestr(f"{self.info}/RECORD", "".join(self.record))
        self.zip.close()


def make_wheel(tree, output, scratch):
    tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
    tree = tree.copy(scratch / "wheel")
    tree.remove_arrow()
    for library in tree.own():
        set_search_path(library, *wheel_search_path(library))
    made = output / f"{WHEEL_DIRECTORY}-{tree.version}-{tag}.whl"
    wheel = Wheel(made, tree)
    for library in [*tree.own(), *tree.from_system()]:
        wheel.add(f"{WHEEL_DIRECTORY}/{library.name}", library.read_bytes(), 0o755)
    wheel.add(f"{wheel.data}/scripts/trainctl", (tree.prefix / "bin/trainctl").read_bytes(), 0o755)
    wheel.add(f"{wheel.info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    wheel.add_tree(tree.prefix / "share/doc/trainctl/licenses", f"{wheel.info}/licenses")
    shutil.rmtree(tree.prefix / "share/doc")
    wheel.add_tree(tree.prefix / "share", f"{wheel.data}/data/share")
    wheel.add(f"{wheel.info}/METADATA", metadata(tree).encode())
    wheel.add(f"{wheel.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: trainctl\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close()
    return made


MAKERS = {"wheel": make_wheel, "deb": make_deb, "tar": make_tar}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="wheel|deb|tar")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/packages")
    options = parser.parse_args()
    unknown = set(options.kinds) - set(MAKERS)
    if unknown:
        parser.error(f"unknown package {', '.join(sorted(unknown))}; expected wheel, deb or tar")
    return options


def main():
    options = read_options()
    tools = {"patchelf": "patchelf", "readelf": "binutils", "dpkg-deb": "dpkg", "dpkg-shlibdeps": "dpkg-dev"}
    missing = [package for tool, package in tools.items() if not shutil.which(tool)]
    if missing:
        raise Failure(f"tools are missing; try: apt-get install {' '.join(missing)}")
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="package-", dir=output) as directory:
        tree = install(options.build.resolve(), pathlib.Path(directory) / "tree")
        for kind in options.kinds or MAKERS:
            made = MAKERS[kind](tree, output, pathlib.Path(directory))
            say(f"{made.name}: {made.stat().st_size / 1e6:,.0f} MB")
            print(made)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        say(f"FAILED: {failure}")
        sys.exit(1)
