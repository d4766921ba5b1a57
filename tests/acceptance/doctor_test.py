"""`trainctl doctor` says what the machine offers, and ends with 0 whatever it finds."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from machine_limits import QEMU, in_mount_namespace, may_mount
from trainctl_process import ROOT, TRAINCTL, run, temporary_directory

KEYS = {
    "version": None,
    "cpu": {"model", "features"},
    "cores": {"logical", "affinity", "group_quota", "threads_of_a_run"},
    "memory": {"total_bytes", "available_bytes", "swap_bytes", "group_limit", "usable_bytes"},
    "shared_memory": {"total_bytes", "free_bytes"},
    "run_directory": {"path", "total_bytes", "free_bytes", "write_bytes_per_s"},
    "kernels": {"onednn", "bf16_is_fast", "fp16_is_fast", "image_resampling", "libtorch", "matrix_product", "byte_product", "vectors"},
    "libtorch": {"path", "version", "built_with", "named_by", "loads"},
    "libgomp": {"path"},
    "gpu": {"driver", "cuda", "devices", "why_not"},
    "cuda": {"version", "loads"},
    "nccl": {"version", "loads"},
    "mpi": {"version", "loads"},
    "arrow": {"version", "loads"},
    "problems": None,
}


FAKE_DRIVER = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return flags == 0 ? STATUS : 1; }
int cuDriverGetVersion(int* version) { *version = 13010; return 0; }
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetName(char* name, int size, int device) { strncpy(name, device == 0 ? "First" : "Second", size); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = (device + 1ul) << 30; return 0; }
"""


def compile_library(test, source, path):
    compiler = shutil.which("cc")
    if compiler is None:
        test.skipTest("no C compiler makes the library that stands in")
    path.parent.mkdir(exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-o", path, "-"], input=source, text=True, check=True)


def doctor(*arguments, **options):
    """The JSON document."""
    result = run("doctor", "--json", *arguments, **options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def problems(document):
    return {problem["what"]: problem for problem in document["problems"]}


class Doctor(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)

    def test_the_document_has_the_documented_keys(self):
        document = doctor("--run-dir", self.root)
        self.assertEqual(list(document), list(KEYS))
        for key, inner in KEYS.items():
            if inner is not None:
                self.assertEqual(set(document[key]), inner, key)
        self.assertTrue(all(isinstance(value, bool) for value in document["cpu"]["features"].values()))
        for problem in document["problems"]:
            self.assertEqual(set(problem), {"what", "problem", "try"})

    def test_what_it_says_is_so(self):
        document = doctor("--run-dir", self.root)
        self.assertEqual(document["cores"]["affinity"], len(os.sched_getaffinity(0)))
        self.assertEqual(document["cores"]["logical"], os.cpu_count())
        self.assertEqual(document["run_directory"]["path"], str(self.root.resolve()))
        self.assertGreater(document["run_directory"]["write_bytes_per_s"], 0)
        self.assertEqual(list(self.root.iterdir()), [], "the measurement left a file")
        libtorch = document["libtorch"]
        self.assertTrue(libtorch["loads"])
        self.assertTrue(libtorch["version"].startswith(libtorch["built_with"] + "."), libtorch)
        self.assertTrue(pathlib.Path(libtorch["path"]).exists())
        self.assertTrue(pathlib.Path(document["libgomp"]["path"]).exists())

    def test_the_table_names_every_subject(self):
        result = run("doctor", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        for subject in ("CPU", "Cores", "Memory", "/dev/shm", "Run directory", "Kernels", "LibTorch", "libgomp", "GPU", "CUDA", "NCCL", "MPI", "Arrow"):
            self.assertRegex(result.stdout, rf"(?m)^{subject} +\S")

    def test_a_variable_that_holds_kernels_back_shows(self):
        held = doctor("--run-dir", self.root, env={"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"})
        self.assertEqual(held["kernels"]["onednn"], "SSE41")
        self.assertEqual(held["kernels"]["libtorch"], "DEFAULT")
        self.assertFalse(held["kernels"]["bf16_is_fast"])

    def test_a_libtorch_that_is_missing_is_a_finding(self):
        document = doctor("--run-dir", self.root, env={"TRAINCTL_LIBTORCH": str(self.root / "none")})
        self.assertFalse(document["libtorch"]["loads"])
        self.assertIn("libc10.so", problems(document)["libtorch"]["problem"])
        self.assertIn("scripts/setup.sh", problems(document)["libtorch"]["try"])
        self.assertIsNone(document["kernels"]["libtorch"])

    def test_a_libtorch_of_another_version_is_a_finding(self):
        (self.root / "lib").mkdir()
        (self.root / "lib/libtorch_cpu.so").touch()
        (self.root / "build-version").write_text("2.10.0+cpu\n")
        document = doctor("--run-dir", self.root, env={"TRAINCTL_LIBTORCH": str(self.root)})
        self.assertFalse(document["libtorch"]["loads"])
        self.assertEqual(document["libtorch"]["version"], "2.10.0+cpu")
        self.assertRegex(problems(document)["libtorch"]["problem"], rf"LibTorch 2\.10 at {self.root}; this trainctl was built with \d+\.\d+")

    def test_a_libtorch_that_crashes_is_a_finding(self):
        for name in ("libc10.so", "libtorch_cpu.so"):
            compile_library(self, "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n", self.root / "lib" / name)
        document = doctor("--run-dir", self.root, env={"TRAINCTL_LIBTORCH": str(self.root)})
        self.assertIn("signal 4", problems(document)["libtorch"]["problem"])

    def test_a_driver_is_asked_for_its_gpus(self):
        compile_library(self, FAKE_DRIVER.replace("STATUS", "0"), self.root / "driver/libcuda.so.1")
        gpu = doctor("--run-dir", self.root, env={"LD_LIBRARY_PATH": str(self.root / "driver")})["gpu"]
        self.assertEqual(gpu["cuda"], "13.1")
        self.assertEqual(gpu["devices"], [{"name": "First", "memory_bytes": 1 << 30}, {"name": "Second", "memory_bytes": 2 << 30}])

    def test_a_driver_that_does_not_start_leaves_the_command_whole(self):
        compile_library(self, FAKE_DRIVER.replace("STATUS", "999"), self.root / "driver/libcuda.so.1")
        gpu = doctor("--run-dir", self.root, env={"LD_LIBRARY_PATH": str(self.root / "driver")})["gpu"]
        self.assertEqual(gpu["devices"], [])

    def test_a_full_and_a_read_only_disk_are_findings(self):
        if not may_mount():
            self.skipTest("this user may not mount file systems")
        disk = self.root / "disk"
        disk.mkdir()
        for option, said in (("size=1m", "No space left on device"), ("ro", "Read-only file system")):
            result = in_mount_namespace(f"mount -t tmpfs -o {option} tmpfs {disk}", [TRAINCTL, "doctor", "--json", "--run-dir", disk])
            self.assertEqual(result.returncode, 0, result.stderr)
            document = json.loads(result.stdout)
            self.assertIsNone(document["run_directory"]["write_bytes_per_s"])
            self.assertIn(said, problems(document)["run_directory"]["problem"])

    def test_a_cpu_that_is_too_old_for_libtorch_is_a_finding(self):
        if QEMU is None:
            self.skipTest("no qemu-x86_64-static (Debian: qemu-user-static) emulates another CPU")
        result = subprocess.run([QEMU, "-cpu", "Conroe", TRAINCTL, "doctor", "--json", "--run-dir", self.root], capture_output=True, text=True, timeout=300, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertFalse(document["cpu"]["features"]["sse4_1"])
        self.assertEqual(document["kernels"]["onednn"], "none")
        self.assertIn("lacks SSE4.1", problems(document)["libtorch"]["problem"])


if __name__ == "__main__":
    unittest.main()
