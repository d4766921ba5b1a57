"""The wheel of scripts/package.py, installed by pip in an environment whose torch is the reference's: it finds engine and LibTorch there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from trainctl_process import ROOT, TRAINCTL, InScratch, temporary_directory, write_experiment

BUILD = pathlib.Path(TRAINCTL).resolve().parent.parent
NEVER = re.compile(r"^(lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)|ld-linux-x86-64)\.so")


def dynamic(file):
    """What a library needs, and where it looks."""
    text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    path = re.search(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text), path[1].split(":") if path else []


class Wheel(InScratch):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("patchelf"):
            raise unittest.SkipTest("patchelf is not installed")
        directory = cls.enterClassContext(temporary_directory())
        made = subprocess.run([sys.executable, ROOT / "scripts/package.py", "wheel", "--build", BUILD, "--output", directory],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        cls.wheel = pathlib.Path(made.stdout.strip())

    def install(self):
        """An environment with the wheel, and with links in the place of what pip would get for it."""
        environment = self.root / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        subprocess.run([sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet", "--no-deps", self.wheel], check=True)
        packages = next(environment.glob("lib/python3*/site-packages"))
        reference = next((ROOT / ".deps/python/lib").glob("python3*/site-packages"))
        for name in ("torch", "nvidia", "pyarrow"):
            if (reference / name).exists():
                (packages / name).symlink_to(reference / name)
        return environment, packages

    def test_it_trains_where_pip_installs_it(self):
        environment, packages = self.install()
        write_experiment(self.root)
        program = environment / "bin/trainctl"
        clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "TRAINCTL_LIBTORCH")}
        link = self.root / "elsewhere/trainctl"  # as pipx makes one
        link.parent.mkdir()
        link.symlink_to(program)
        trained = subprocess.run([link, "train", "exp.yaml", "--set", "train.steps=2", "--set", "optimizer.lr_scheduler.warmup=0", "--run-dir", "run"], cwd=self.root, env=clean,
                                 capture_output=True, text=True)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertTrue((self.root / "run/summary.json").exists())
        doctor = subprocess.run([program, "doctor", "--json"], cwd=self.root, env=clean, capture_output=True, text=True, check=True).stdout
        libtorch = json.loads(doctor)["libtorch"]
        self.assertEqual(os.path.normpath(libtorch["path"]), str(packages / "torch/lib/libtorch_cpu.so"))
        self.assertEqual(libtorch["named_by"], "the package")
        self.assertTrue((environment / "share/man/man1/trainctl-train.1").exists())

    def test_every_library_is_carried_or_required(self):
        directory = self.root / "unpacked"
        with zipfile.ZipFile(self.wheel) as opened:
            opened.extractall(directory)
            names = opened.namelist()
        libraries = {file.name: file for file in (directory / "trainctl_engine").iterdir()}
        needed, path = dynamic(next(directory.glob("*.data/scripts/trainctl")))
        self.assertTrue(all(map(NEVER.match, needed)), f"trainctl in bin/ finds no library of the wheel, but needs {needed}")
        self.assertEqual(path, [])
        for name, file in libraries.items():
            needed, path = dynamic(file)
            self.assertTrue(all(place.startswith("$ORIGIN") for place in path), f"{name}: {path}")
            for library in needed:
                elsewhere = re.match(r"lib(torch|c10|gomp|cudart|arrow|parquet|mpi)", library)
                self.assertTrue(library in libraries or NEVER.match(library) or elsewhere, f"{name} needs {library}")
        metadata = next(directory.glob("*.dist-info/METADATA")).read_text()
        self.assertIn("Requires-Dist: torch==2.11.0\n", metadata)
        record = next(directory.glob("*.dist-info/RECORD")).read_text()
        self.assertEqual({line.split(",")[0] for line in record.splitlines()}, set(names))
        for package in ("libicu72", "libyaml-cpp-dev", "libsentencepiece0"):
            self.assertTrue(list(directory.glob(f"*.dist-info/licenses/{package}.txt")), package)


if __name__ == "__main__":
    unittest.main()
