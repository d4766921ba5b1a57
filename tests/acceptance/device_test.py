"""What a user sees of a GPU that cannot be used. A library that the test compiles stands in for the driver (libcuda.so.1)."""
import json
import pathlib
import shutil
import subprocess
import unittest

from trainctl_process import InScratch, run

EXPERIMENT = """
name: device
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 0, channels: 1, height: 8, width: 8, num_classes: 2, batch_size: 32}
model: {kind: mlp, hidden: [8]}
train: {steps: 2}
"""
EMPTY_DRIVER = "\n"
OLD_DRIVER = """
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { *version = 11040; return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
"""
CPU_HINT = "--set device.kind=cpu"


class Device(InScratch):
    def setUp(self):
        super().setUp()
        self.config = self.root / "device.yaml"
        self.config.write_text(EXPERIMENT)

    def compile(self, source, path):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler makes the library that stands in for a driver")
        path.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-o", path, "-"], input=source, text=True, check=True)

    def with_driver(self, source=EMPTY_DRIVER):
        """The environment in which the library of this source is the driver."""
        self.compile(source, self.root / "driver/libcuda.so.1")
        return {"LD_LIBRARY_PATH": str(self.root / "driver"), "CUDA_VISIBLE_DEVICES": "0"}

    def train(self, kind, env):
        return run("train", self.config, "--run-dir", self.root / kind, "--no-progress", "--set", f"device.kind={kind}", env=env)

    def reason(self, env):
        """The reason that doctor gives for using no GPU."""
        document = json.loads(run("doctor", "--json", "--run-dir", self.root, env=env).stdout)
        reason = document["gpu"]["why_not"]
        self.assertTrue(reason)
        problems = {problem["what"]: problem["problem"] for problem in document["problems"]}
        self.assertIn(reason, problems.get("gpu", problems.get("cuda", "")), problems)
        return reason

    def notices(self, kind):
        lines = (self.root / kind / "notices.jsonl").read_text().splitlines()
        return [notice["text"] for notice in map(json.loads, lines) if notice["level"] == "warning"]

    def check_runs(self, env):
        """`auto` trains with a warning, `cuda` fails, and both give doctor's reason, which is returned."""
        reason = self.reason(env)
        trained = self.train("auto", env)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertRegex(trained.stderr, r"fp32 on .*core")
        self.assertIn("warning: no usable GPU: " + reason, trained.stderr)
        self.assertTrue(any(reason in text for text in self.notices("auto")))
        self.assertTrue((self.root / "auto/summary.json").exists())
        failed = self.train("cuda", env)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("no usable GPU: " + reason, failed.stderr)
        self.assertIn(CPU_HINT, failed.stderr)
        return reason

    def test_a_driver_that_does_not_work_is_a_warning_for_auto_and_an_error_for_cuda(self):
        self.check_runs(self.with_driver())

    def test_a_driver_that_is_too_old_is_named(self):
        reason = self.check_runs(self.with_driver(OLD_DRIVER))
        if "too old" not in reason:
            self.assertRegex(reason, "cannot load|this build has no")
            self.skipTest("LibTorch's CUDA library does not load here: " + reason)
        self.assertIn("found version 11040", reason)

    def test_a_library_that_cannot_be_loaded_is_named(self):
        loaded = pathlib.Path(json.loads(run("doctor", "--json", "--run-dir", self.root).stdout)["libtorch"]["path"])
        env = {**self.with_driver(), "TRAINCTL_LIBTORCH": str(self.libtorch_without_cuda(loaded.parent.parent))}
        self.assertRegex(self.check_runs(env), "^cannot load .*libtorch_cuda.so: .*No such file|this build has no")

    def libtorch_without_cuda(self, whole):
        """A copy of LibTorch, of links, that has no CUDA library."""
        root = self.root / "packages/torch"
        (root / "lib").mkdir(parents=True)
        for file in (whole / "lib").iterdir():
            if not file.name.startswith("libtorch_cuda"):
                (root / "lib" / file.name).symlink_to(file)
        for file in [*whole.glob("*version*"), whole / "include", whole.parent / "nvidia"]:
            if file.exists():
                (root.parent if file.name == "nvidia" else root).joinpath(file.name).symlink_to(file)
        return root

    def test_the_cpu_is_taken_without_a_warning_where_it_is_asked_for_or_the_gpu_is_hidden(self):
        env = self.with_driver()
        for kind, changes, num_gpus in (("cpu", {}, None), ("auto", {"CUDA_VISIBLE_DEVICES": ""}, 0)):
            trained = self.train(kind, {**env, **changes})
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertNotIn("GPU", trained.stderr)
            self.assertEqual(json.loads((self.root / kind / "provenance.json").read_text())["num_gpus"], num_gpus)


if __name__ == "__main__":
    unittest.main()
