"""A machine that lacks something: the run works, or one line says what is missing."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from machine_limits import QEMU, in_memory_group, in_mount_namespace, may_mount, memory_group, without_libraries
from trainctl_process import ROOT, TRAINCTL, run, temporary_directory, write_experiment, write_images

EXPERIMENT = """
name: poor
seed: 1
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: cnn, channels: [4], hidden: 16}
optimizer: {kind: adamw}
train: {steps: 4}
checkpoint: {every: 2}
device: {kind: cpu}
"""
PHOTOS = """
name: photos
seed: 1
dataset: {kind: image_folder, train: ROOT/photos, eval_fraction: 0.25, cache_dir: ROOT/lists, batch_size: 8, num_workers: 1, image_cache: {size_mib: 8, shared: true},
  transforms: [{kind: center_crop, size: 32}], eval_transforms: [{kind: center_crop, size: 32}]}
model: {kind: cnn, channels: [4], hidden: 16}
optimizer: {kind: adamw}
train: {steps: 6}
checkpoint: {every: 2, in_memory: {every: 1}}
device: {kind: cpu}
"""
# A plan only warns of pairs, which are rarely as long as both limits allow, so that these run out of memory in their first step.
PAIRS = """
name: pairs
seed: 1
dataset:
  kind: text_seq2seq
  train: {files: [ROOT/pairs.jsonl], source: source, target: target}
  tokenizer: bytes
  max_source_length: 512
  max_target_length: 512
  batch_size: 64
  num_workers: 1
  cache_dir: ROOT/cache
model: {kind: t5, hidden_size: 32, num_layers: 1, num_heads: 4, intermediate_size: 64}
task: {kind: seq2seq_lm}
optimizer: {kind: adamw}
train: {steps: 4}
device: {kind: cpu}
"""


class PoorMachine(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root, EXPERIMENT)

    def train(self, *more):
        return [TRAINCTL, "train", self.config, "--run-dir", self.root / "run", "--no-progress", *more]

    def assertTrained(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.root / "run/summary.json").exists())

    def assertRefused(self, result, pattern):
        """One line of error, and one that says what to try."""
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, rf"\Atrainctl: [^\n]*{pattern}[^\n]*\n  try: [^\n]+\n\Z")

    def emulated(self, cpu, command):
        if QEMU is None:
            self.skipTest("no qemu-x86_64-static (Debian: qemu-user-static) emulates another CPU")
        return subprocess.run([QEMU, "-cpu", cpu, *map(str, command)], capture_output=True, text=True, timeout=800, cwd=ROOT,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_a_cpu_without_sse4_1_is_refused_before_libtorch_is_loaded(self):
        for cpu in ("qemu64", "Conroe"):
            result = self.emulated(cpu, self.train())
            self.assertRefused(result, r"this CPU \(.+\) lacks SSE4\.1, which LibTorch needs")

    def test_a_cpu_that_no_table_names_trains(self):
        self.assertTrained(self.emulated("Penryn,model-id=Nobody 1", self.train("--set", "train.steps=2")))

    def test_a_libtorch_of_another_version_is_refused_before_it_is_loaded(self):
        (self.root / "lib").mkdir()
        (self.root / "lib/libtorch_cpu.so").touch()
        header = self.root / "include/torch/headeronly/version.h"
        header.parent.mkdir(parents=True)
        header.write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 10\n#define TORCH_VERSION_PATCH 0\n")
        for environment in ({"TRAINCTL_LIBTORCH": str(self.root)}, {"LD_LIBRARY_PATH": str(self.root / "lib")}):
            result = run("train", self.config, "--run-dir", self.root / "run", env=environment)
            self.assertRefused(result, rf"LibTorch 2\.10 at {self.root}; this trainctl was built with \d+\.\d+")

    def test_a_missing_libgomp_is_named_with_its_package(self):
        loaded = pathlib.Path(json.loads(run("doctor", "--json").stdout)["libgomp"]["path"])
        system = pathlib.Path("/usr/lib/x86_64-linux-gnu")
        hide, can = without_libraries("libgomp*", sorted({loaded.parent, system} if system.is_dir() else {loaded.parent}))
        if not can:
            self.skipTest("this user may not hide a file behind an overlay")
        self.assertRefused(in_mount_namespace(hide, self.train()), r"libgomp[^ ]*: cannot open shared object file")
        found = in_mount_namespace(hide, [TRAINCTL, "doctor"])
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn("apt-get install libgomp1", found.stdout)

    def test_a_read_only_home_is_enough(self):
        if not may_mount():
            self.skipTest("this user may not mount file systems")
        home = self.root / "home"
        home.mkdir()
        setup = f"mount -t tmpfs -o ro tmpfs {home} && export HOME={home} && unset XDG_CACHE_HOME"
        self.assertTrained(in_mount_namespace(setup, self.train()))
        planned = in_mount_namespace(setup, [TRAINCTL, "plan", self.config])
        self.assertEqual(planned.returncode, 0, planned.stderr)

    def test_one_core_is_enough(self):
        if shutil.which("taskset") is None:
            self.skipTest("no taskset (Debian: util-linux) takes cores away")
        core = str(min(os.sched_getaffinity(0)))
        result = subprocess.run(["taskset", "-c", core, *map(str, self.train("--nproc", "2"))], capture_output=True, text=True, timeout=300, cwd=ROOT)
        self.assertTrained(result)

    def test_a_megabyte_of_shared_memory_is_enough_for_two_ranks(self):
        if not may_mount():
            self.skipTest("this user may not mount file systems")
        result = in_mount_namespace("mount -t tmpfs -o size=1m tmpfs /dev/shm", self.train("--nproc", "2"))
        self.assertTrained(result)

    def test_a_megabyte_of_shared_memory_ends_cache_and_snapshots_there(self):
        if not may_mount():
            self.skipTest("this user may not mount file systems")
        write_images(self.root / "photos", count=64, side=160)
        self.config = write_experiment(self.root, PHOTOS.replace("ROOT", str(self.root)), "photos.yaml")
        result = in_mount_namespace("mount -t tmpfs -o size=1m tmpfs /dev/shm", self.train("--nproc", "2"))
        self.assertTrained(result)
        self.assertIn("/dev/shm", result.stderr)

    def test_an_address_space_without_room_for_libtorch_is_named(self):
        limited = ["prlimit", f"--as={256 << 20}", *self.train()]
        if shutil.which("prlimit") is None:
            self.skipTest("no prlimit (Debian: util-linux) limits a process")
        result = subprocess.run(list(map(str, limited)), capture_output=True, text=True, timeout=300, cwd=ROOT)
        self.assertRefused(result, "256.0 MiB of address space, and LibTorch needs")
        self.assertIn("ulimit -v", result.stderr)

    def test_a_control_group_of_512_mib_is_enough_for_a_small_network(self):
        with memory_group(512 << 20) as group:
            if group is None:
                self.skipTest("no control group can be made below our own")
            self.assertTrained(in_memory_group(group, self.train()))

    def test_a_network_too_large_for_its_control_group_is_an_error_and_not_a_kill(self):
        with memory_group(512 << 20) as group:
            if group is None:
                self.skipTest("no control group can be made below our own")
            for hidden in (400_000, 1_000_000, 2_000_000):
                result = in_memory_group(group, self.train("--set", f"model.hidden={hidden}"))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"(?m)^trainctl: (the run won't fit: it needs .* but there are 512.0 MiB"
                                                r"|out of memory: cannot allocate .* of host memory: .* are in use"
                                                r"|the model has [\d,]+ parameters, which take .*; tensors may take .* here)")
                self.assertNotRegex(result.stderr, "frame #|please report it")

    def test_a_step_too_large_for_its_control_group_is_an_error_and_not_a_kill(self):
        pair = json.dumps({"source": "a" * 511, "target": "b" * 511})
        (self.root / "pairs.jsonl").write_text(f"{pair}\n" * 256)
        self.config = write_experiment(self.root, PAIRS.replace("ROOT", str(self.root)), "pairs.yaml")
        with memory_group(512 << 20) as group:
            if group is None:
                self.skipTest("no control group can be made below our own")
            result = in_memory_group(group, self.train())
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^trainctl: out of memory at step 1: cannot allocate .* of host memory: .* are in use")
        self.assertNotIn("frame #", result.stderr)


if __name__ == "__main__":
    unittest.main()
