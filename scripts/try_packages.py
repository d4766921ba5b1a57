#!/usr/bin/env python3
"""Installs each package in a bare Debian 12 and trains there as a user without root rights; prints a table of seconds. Needs root.

  scripts/try_packages.py [wheel] [deb] [tar] [docker] [docker-gpu] [apptainer]     all by default, each in a root of its own
  --packages DIR    what scripts/package.py wrote (default build/packages)
  --roots DIR       for the bare system, made once by debootstrap, and for copies of it (default build/roots)
  --keep            leaves the copies for a look
  --guides [NAME…]  also walks docs/guides from own data to an exported network, at the guides' full size: the four commands of each.
                    All of photos, texts, table and text by default

Each root gets the package and the dependencies that docs/install.md states, and nothing else. The wheel's come from the package index;
they are 3 GB. The last three run the commands of packaging/Dockerfile and packaging/trainctl.def in such a root, without images.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = "user"
LIMIT_S = 3600
CONFIGS = "$(dirname $(readlink -f $(command -v trainctl)))/../share/trainctl/configs"
GPT = f"{CONFIGS}/tiny/shakespeare_gpt.yaml --set dataset.train.files=[/usr/share/common-licenses/GPL-3] --set train.steps=20 " \
      "--set optimizer.lr_scheduler.warmup=5 --set train.eval_every=20 --set checkpoint.every=20"
CNN = f"{CONFIGS}/synthetic_cnn.yaml --set train.epochs=1"


class Failure(Exception):
    pass


def say(text):
    print(f"try_packages: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Package:
    pattern: str
    as_root: str  # what installs it, or what it needs; FILE is the package
    as_user: str = ""
    path: str = ""  # where the program is, beside the usual places


def docker_commands(stage):
    """What the stage of the Dockerfile runs, on one line."""
    text = (ROOT / "packaging/Dockerfile").read_text().split(f" AS {stage}\n")[1].split("\nFROM ")[0].replace("\\\n", " ")
    return " && ".join(re.sub(r"^--mount=\S+ ", "", command) for command in re.findall(r"^RUN (.*)$", text, re.M))


def apptainer_commands():
    """What the recipe runs after its files are copied."""
    return (ROOT / "packaging/trainctl.def").read_text().split("%post\n")[1].split("\n\n")[0].replace("\n    ", " && ").strip()


# What docs/install.md says.
PACKAGES = {
    "wheel": Package("trainctl_engine-*.whl", "apt-get update && apt-get install -y --no-install-recommends pipx",
                     "pipx install 'FILE[parquet]'", f"/home/{USER}/.local/bin"),
    "docker": Package("trainctl_*.deb", docker_commands("cpu")),
    "docker-gpu": Package("trainctl_engine-*.whl", docker_commands("gpu")),
    "apptainer": Package("trainctl_*.deb", apptainer_commands()),
    "deb": Package("trainctl_*.deb", "apt-get update && apt-get install -y --no-install-recommends FILE"),
    "tar": Package("trainctl-*.tar.gz", "", "tar -xzf FILE && ln -s trainctl-*-linux-x86_64 trainctl", f"/home/{USER}/trainctl/bin"),
}
# What a user does next: the name of the column, and the command.
STEPS = {
    "--version": "trainctl --version",
    "completion": "test $(trainctl __complete train x.yaml --set optimizer. | wc -l) -gt 10",
    "doctor": "trainctl doctor",
    "tokenize": "trainctl tokenize --train-bpe --vocab-size 400 --output tokenizer /usr/share/common-licenses/GPL-3",
    "config new": "trainctl config new --model gpt2 > exp.yaml && trainctl check exp.yaml",
    "check": f"trainctl check {GPT}",
    "train": f"trainctl train {GPT} --run-dir run && test -e run/summary.json",
    "generate": f"trainctl generate {GPT} --checkpoint run --prompt 'This License' --max-tokens 20",
    "export": f"trainctl export {GPT} --checkpoint run --format hf --output exported && test -e exported/model.safetensors",
    "train images": f"trainctl train {CNN} --run-dir images && test -e images/summary.json",
    "export images": f"trainctl export {CNN} --checkpoint images --format onnx --output images.onnx && test -e images.onnx",
}


# The four commands of each guide on own data: arguments of scripts/guide_data.py, as the guide has them, and what the user types.
GUIDES = {
    "photos": ("clothing --share 10", "config new --from clothing --name clothing --output clothing.yaml", "train clothing.yaml --run-dir runs/clothing",
               "export runs/clothing", "predict runs/clothing new_photos --format csv --output photos.csv"),
    "texts": ("news.csv --share 6", "config new --from news.csv --name news --output news.yaml", "train news.yaml --run-dir runs/news",
              "export runs/news", "predict runs/news incoming.txt --format csv --output texts.csv"),
    "table": ("adult.data", "config new --from adult.data --name adult --output adult.yaml", "train adult.yaml --run-dir runs/adult",
              "export runs/adult", "predict runs/adult people.csv --format csv --output rows.csv"),
    "text": ("plays.txt --share 6", "config new --from plays.txt --name plays --output plays.yaml", "train plays.yaml --run-dir runs/plays",
             "export runs/plays", "generate runs/plays --prompt 'HAMLET. ' --max-tokens 100"),
}


class BareSystem:
    """A copy of a Debian 12 without anything, in which commands run as its root or its user."""

    def __init__(self, roots, name):
        self.base, self.path, self.environment = roots / "bookworm", roots / name, ""
        if not self.base.exists():
            self.make_base()
        self.remove()
        subprocess.run(["cp", "-a", "--reflink=auto", self.base, self.path], check=True)
        self.run(f"useradd --create-home --shell /bin/bash {USER}")
        certificates = os.environ.get("PIP_CERT")
        if certificates:  # a network with an authority of its own
            (self.path / "etc/ssl").mkdir(parents=True, exist_ok=True)
            shutil.copy(certificates, self.path / "etc/ssl/pip.crt")
            self.environment = "export PIP_CERT=/etc/ssl/pip.crt; "

    def make_base(self):
        if not shutil.which("debootstrap"):
            raise Failure("there is no debootstrap; try: apt-get install debootstrap")
        say("making a bare Debian 12")
        unfinished = self.base.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", unfinished], check=True, stdout=sys.stderr)
        unfinished.rename(self.base)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, command, user="root"):
        """The mounts are in a namespace of the command's own, and so end with it. Returns seconds and output."""
        inside = ["chroot", str(self.path), "su", "-", user, "-c", self.environment + command]
        mount = f"mount --make-rprivate / && mount -t proc proc {self.path}/proc && mount --rbind /dev {self.path}/dev && " \
                f"cp /etc/resolv.conf {self.path}/etc && exec \"$@\""
        begin = time.monotonic()
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mount, "sh", *inside], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            raise Failure(f"in {self.path}, as {user}: {command}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
        return seconds, done.stdout

    def mebibytes(self):
        return int(subprocess.run(["du", "-sm", self.path], capture_output=True, text=True, check=True).stdout.split()[0])


def package_file(kind, directory):
    found = sorted(directory.glob(PACKAGES[kind].pattern), key=lambda file: file.stat().st_mtime)
    if not found:
        raise Failure(f"{directory} has no {PACKAGES[kind].pattern}; try: scripts/package.py {kind}")
    return found[-1]


def try_package(kind, options):
    """Installs the package and does the steps. Returns the cells of the table."""
    package, file = PACKAGES[kind], package_file(kind, options.packages)
    system = BareSystem(options.roots, kind)
    bare = system.mebibytes() + file.stat().st_size // 2**20  # the package lies in the root, too
    (system.path / "packages").mkdir()
    shutil.copy(file, system.path / "packages")
    seconds = 0
    for command, user in ((package.as_root, "root"), (package.as_user, USER)):
        if command:
            seconds += system.run(command.replace("FILE", f"/packages/{file.name}"), user)[0]
    say(f"{kind}: installed in {seconds:.0f} s")
    cells = {"package": f"{file.stat().st_size / 1e6:,.0f} MB", "on the disk": f"{(system.mebibytes() - bare) / 1024:.1f} GiB", "install": seconds}
    for name, command in STEPS.items():
        path = f"export PATH={package.path}:$PATH; " if package.path else ""
        cells[name], output = system.run(path + command, USER)
        say(f"{kind}: {name}: {cells[name]:.1f} s\n{output.rstrip()[-1500:]}")
    for name in options.guides:
        cells |= walk_guide(system, kind, name)
    if not options.keep:
        system.remove()
    return cells


def walk_guide(system, kind, name):
    """Does what the guide says, with its data alone. Returns the seconds of each command."""
    data, *commands = GUIDES[name]
    home = system.path / "home" / USER
    subprocess.run([sys.executable, ROOT / "scripts/guide_data.py", home, *data.split()], check=True)
    system.run(f"chown -R {USER}: /home/{USER}")
    path = PACKAGES[kind].path
    cells = {}
    for command in commands:
        seconds, output = system.run((f"export PATH={path}:$PATH; " if path else "") + "trainctl " + command, USER)
        cells[f"{name}: {' '.join(command.split()[:2 if command.startswith('config') else 1])}"] = seconds
        say(f"{kind}: {name}: {command}: {seconds:.1f} s\n{output.rstrip()[-1500:]}")
    run = home / command.split()[1]
    for made in ("report.html", "evaluation.json", "export"):
        if not (run / made).exists():
            raise Failure(f"the guide on {name} left no {made} in {run}")
    return cells


def print_table(rows):
    print("| | " + " | ".join(rows) + " |\n| --- |" + " --- |" * len(rows))
    for name in next(iter(rows.values())):
        cells = [cells[name] if isinstance(cells[name], str) else f"{cells[name]:.1f} s" for cells in rows.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="PACKAGE")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "build/packages")
    parser.add_argument("--roots", type=pathlib.Path, default=ROOT / "build/roots")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--guides", nargs="*", default=(), metavar="NAME", choices=GUIDES)
    options = parser.parse_args()
    if options.guides == []:
        options.guides = list(GUIDES)
    if set(options.kinds) - set(PACKAGES):
        parser.error(f"expected {', '.join(PACKAGES)}")
    return options


def main():
    options = read_options()
    if os.geteuid() != 0:
        raise Failure("debootstrap and chroot need root")
    options.roots = options.roots.resolve()
    print_table({kind: try_package(kind, options) for kind in options.kinds or PACKAGES})


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        say(f"FAILED: {failure}")
        sys.exit(1)
