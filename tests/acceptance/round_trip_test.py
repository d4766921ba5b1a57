"""docs/serving.md, run as it is written: train, quantize, export, serve, ask; the live model, ONNX Runtime and TorchServe answer alike."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from trainctl_process import ROOT, TRAINCTL, fetched, run, temporary_directory

DOCUMENT = ROOT / "docs/serving.md"
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
NEEDED = ["torch", "onnxruntime", "tokenizers", "PIL", "ts"]


def shell_blocks(heading):
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    return re.findall(r"^```sh\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class RoundTrip(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
        if missing or not shutil.which("java"):
            raise unittest.SkipTest(f"no {', '.join(missing) or 'java'}: scripts/setup.sh --tests")
        cls.top = pathlib.Path(cls.enterClassContext(temporary_directory()))
        for name in ("configs", "scripts", ".deps"):
            (cls.top / name).symlink_to(ROOT / name)
        path = os.pathsep.join([str(pathlib.Path(TRAINCTL).parent), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        cls.environment = {**os.environ, "PATH": path, "TMPDIR": str(cls.top)}

    def shell(self, script, timeout=600):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.top, env=self.environment, capture_output=True, text=True, timeout=timeout)

    def follow(self, heading):
        blocks = shell_blocks(heading)
        self.assertGreater(len(blocks), 1)
        told = ""
        for block in blocks:
            result = self.shell(block)
            self.assertEqual(result.returncode, 0, f"{block}\n{result.stdout[-2000:]}\n{result.stderr[:3000]}")
            told += result.stderr
        return told

    def check_answers(self, directory, classes):
        """TorchServe gives the float network's scores by our labels; eight bits change few labels, and ONNX Runtime none that is clear."""
        predicted, served, rounded, consumed = (lines(directory / f"{name}.jsonl") for name in ("predicted", "served", "int8", "onnxruntime"))
        self.assertGreaterEqual(len(predicted), 250)
        same = 0
        for ours, theirs, eight, other in zip(predicted, served, rounded, consumed, strict=True):
            self.assertEqual((ours["input"], ours.get("line")), (theirs["input"], theirs.get("line")))
            self.assertEqual(ours["scores"].keys(), theirs["scores"].keys())
            self.assertLessEqual(set(theirs["scores"]), classes)
            for label, score in {**ours["scores"], ours["label"]: ours["score"]}.items():
                self.assertAlmostEqual(theirs["scores"][label], score, delta=1e-4)
            self.assertAlmostEqual(theirs["score"], ours["score"], delta=1e-4)
            self.assertAlmostEqual(eight["scores"].get(other["label"], 0), eight["score"], delta=0.05)
            same += ours["label"] == eight["label"]
        self.assertGreater(same / len(predicted), 0.9)

    def check_nothing_is_left(self, told):
        self.assertIn("1,000 requests, no error", told)
        import psutil
        left = [process.info["pid"] for process in psutil.process_iter(["pid", "cmdline"]) if str(self.top) in " ".join(process.info["cmdline"] or [])]
        self.assertEqual(left, [])

    def test_images(self):
        if not FASHION.is_dir():
            self.skipTest("no Fashion-MNIST: apt-get install dataset-fashion-mnist")
        self.check_nothing_is_left(self.follow("Images"))
        fashion = self.top / "fashion"
        self.check_answers(fashion, {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"})
        self.check_what_is_wrong(fashion)

    def check_what_is_wrong(self, fashion):
        """An input that can't be used gets its answer, and the others theirs."""
        (fashion / "broken.png").write_bytes(b"no image")
        inputs = "fashion/images/0000.png fashion/broken.png fashion/images/0001.png"
        result = self.shell(f"scripts/serve_torchserve.py fashion/store/fashion-mnist.mar --clients 1 --input {inputs}")
        self.assertEqual(result.returncode, 1, result.stderr)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([("label" in answer, "error" in answer) for answer in answers], [(True, False), (False, True), (True, False)])
        self.assertIn("3 requests, 1 error;", result.stderr)
        result = self.shell("scripts/serve_torchserve.py fashion/broken.png")
        self.assertEqual(result.returncode, 1)
        self.assertIn("is no TorchServe archive", result.stderr)

    def test_texts(self):
        if not fetched("reuters", "minilm"):
            self.skipTest("texts or weights can't be fetched")
        told = self.follow("Texts")
        self.check_nothing_is_left(told)
        classes = set(json.loads((self.top / "reuters/onnx/model.json").read_text())["classes"])
        self.assertIn("earn", classes)
        self.check_answers(self.top / "reuters", classes)


if __name__ == "__main__":
    unittest.main()
