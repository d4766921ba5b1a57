"""scripts/tensorrt.sh: what it asks trtexec for, and what it refuses. TensorRT itself isn't here: a stand-in writes down its arguments."""
import json
import os
import pathlib
import subprocess
import unittest

from trainctl_process import ROOT, temporary_directory
from waits import PATIENCE_S

SCRIPT = ROOT / "scripts/tensorrt.sh"
IMAGES = {"inputs": [{"name": "images", "type": "float32", "shape": ["batch", 3, 32, 32]}]}
TEXTS = {"inputs": [{"name": "input_ids", "shape": ["batch", "sequence"]}, {"name": "attention_mask", "shape": ["batch", "sequence"]}], "max_length": 64}


class TensorRt(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))
        self.stand_in = self.root / "trtexec"
        self.write_stand_in(0)

    def write_stand_in(self, code, help_text="--stronglyTyped"):
        self.stand_in.write_text(f'#!/bin/sh\n[ "$1" = --help ] && echo "{help_text}" && exit 0\nprintf "%s\\n" "$@" >"{self.root}/arguments"\nexit {code}\n')
        self.stand_in.chmod(0o755)

    def model(self, card, name="model"):
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        (directory / "model.onnx").write_bytes(b"")
        (directory / "model.json").write_text(json.dumps(card))
        return directory

    def build(self, *arguments, trtexec=None):
        return subprocess.run(["bash", SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S,
                              env={**os.environ, "TRTEXEC": str(trtexec or self.stand_in)})

    def arguments(self):
        return (self.root / "arguments").read_text().splitlines()

    def test_it_parses_and_says_how_it_is_used(self):
        self.assertEqual(subprocess.run(["bash", "-n", SCRIPT]).returncode, 0)
        helped = self.build("--help")
        self.assertEqual(helped.returncode, 0)
        self.assertIn("MODEL ENGINE", helped.stdout)

    def test_batches_and_lengths_become_shapes(self):
        built = self.build(self.model(IMAGES), self.root / "a.engine", "--batch", "1,4,16", "--precision", "fp16", "--", "--verbose")
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertEqual(built.stdout.strip(), str(self.root / "a.engine"))
        told = self.arguments()
        for expected in (f"--onnx={self.root}/model/model.onnx", f"--saveEngine={self.root}/a.engine", "--minShapes=images:1x3x32x32",
                         "--optShapes=images:4x3x32x32", "--maxShapes=images:16x3x32x32", "--fp16", "--verbose"):
            self.assertIn(expected, told)
        self.assertNotIn("--int8", told)
        self.assertEqual(self.build(self.model(TEXTS) / "model.onnx", self.root / "b.engine").returncode, 0)
        self.assertIn("--maxShapes=input_ids:64x64,attention_mask:64x64", self.arguments())

    def test_a_quantized_model_has_its_precision_in_its_graph(self):
        model = self.model({**IMAGES, "quantization": "static, 8 bits, symmetric activations"})
        self.assertEqual(self.build(model, self.root / "c.engine").returncode, 0)
        self.assertIn("--stronglyTyped", self.arguments())
        self.write_stand_in(0, "an older one")
        self.assertEqual(self.build(model, self.root / "c.engine").returncode, 0)
        self.assertIn("--int8", self.arguments())

    def test_what_cannot_be_built_is_refused(self):
        model = self.model(IMAGES)
        for words, arguments, trtexec in [
            ("there is no trtexec here", [model, "e"], self.root / "absent"),
            ("expected MODEL and ENGINE", [model], None),
            ("there is no file", [self.root / "absent.onnx", "e"], None),
            ("unknown option", [model, "e", "--batches", "1"], None),
            ("three rising numbers", [model, "e", "--batch", "8,1,2"], None),
            ("fp32 or fp16", [model, "e", "--precision", "int8"], None),
            ("--activation-scheme symmetric", [self.model({**IMAGES, "quantization": "static, 8 bits, affine activations"}, "affine"), "e"], None),
            ("--activation-scheme symmetric", [self.model({**TEXTS, "quantization": "dynamic, 8 bits"}, "dynamic"), "e"], None),
            ("names no inputs", [self.model({}, "empty"), "e"], None),
        ]:
            refused = self.build(*arguments, trtexec=trtexec)
            self.assertEqual(refused.returncode, 2, (words, refused.stderr))
            self.assertIn(words, refused.stderr)
        self.write_stand_in(3)
        self.assertEqual(self.build(model, "e").returncode, 1)


if __name__ == "__main__":
    unittest.main()
