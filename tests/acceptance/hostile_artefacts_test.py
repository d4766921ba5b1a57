"""Artefacts that are damaged, cut off or made to do harm, given to predict and eval: a reason and exit code 1 or 2, never a crash, a hang, or a
file written elsewhere. Weights without checksums (ONNX, safetensors) may change unseen; what has checksums may not."""
import os
import pathlib
import random
import shutil
import subprocess
import unittest
import zipfile

from trainctl_process import ROOT, TRAINCTL, newest_checkpoint, run, temporary_directory, write_experiment
from waits import PATIENCE_S

TABLE = """
name: hostile
dataset: {kind: table, train: [ROOT/train.csv], eval_fraction: 0.2, label: kind, missing_values: mean, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [8]}
train: {steps: 4, eval_every: 4}
checkpoint: {every: 4}
device: {kind: cpu}
"""
IMAGES = """
name: images
dataset: {kind: synthetic_images, num_samples: 32, num_eval_samples: 0, channels: 1, height: 16, width: 16, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [8]}
train: {steps: 2}
device: {kind: cpu}
"""
ROWS = "x,y\n1,2\n-3,4\n"


class HostileArtefacts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        (cls.root / "train.csv").write_text("x,y,kind\n" + "".join(f"{x},{y},{'left' if x < 0 else 'right'}\n" for x in (-2, -1, 1, 2) for y in range(8)))
        cls.config = write_experiment(cls.root, TABLE.replace("ROOT", str(cls.root)))
        cls.command("train", cls.config, "--run-dir", cls.root / "run")
        cls.export("onnx", "model.onnx")
        cls.export("torchscript", "model.pt")
        cls.export("torchscript", "model.ptl", "--mobile")
        cls.export("safetensors", "weights")
        cls.command("quantize", cls.config, "--checkpoint", cls.root / "run", "--method", "static", "--output", cls.root / "int8")

    @classmethod
    def command(cls, *arguments):
        result = run(*arguments, cwd=ROOT)
        assert result.returncode == 0, (arguments, result.stderr)

    @classmethod
    def export(cls, form, name, *more):
        cls.command("export", cls.config, "--checkpoint", cls.root / "run", "--format", form, "--output", cls.root / name, *more)

    def use(self, checkpoint, command="predict"):
        arguments = [TRAINCTL, command, self.config, "--checkpoint", str(checkpoint)]
        return subprocess.run(arguments, input=ROWS if command == "predict" else "", capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, cwd=ROOT)

    def check_refused(self, checkpoint, words="", command="predict", may_pass=False):
        result = self.use(checkpoint, command)
        self.assertIn(result.returncode, (0, 1, 2) if may_pass else (1, 2), (checkpoint, command, result.stderr))
        if result.returncode != 0:
            self.assertTrue(result.stderr.strip(), checkpoint)
            self.assertIn(words, result.stderr)
        return result.returncode

    def damaged(self, whole, chance):
        """Cut off, or some bytes of it others."""
        if chance.random() < 0.4:
            return whole[: chance.randrange(len(whole))]
        bytes_ = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            bytes_[chance.randrange(len(bytes_))] ^= 1 << chance.randrange(8)
        return bytes(bytes_)

    def test_every_kind_survives_damage_at_random_places(self):
        self.assertEqual(self.use(self.root / "model.onnx").returncode, 0)
        chance = random.Random(1)
        step = newest_checkpoint(self.root / "run")
        weights = next(path.name for path in step.iterdir() if path.suffix == ".safetensors")
        kinds = [("model.onnx", None, True), ("model.pt", None, True), ("model.ptl", None, True), ("weights", "model.safetensors", True),
                 ("int8", "quantized.safetensors", False), ("int8", "quantization.json", True), (step, weights, True)]
        refused = 0
        for turn in range(56):
            artefact, file, may_pass = kinds[turn % len(kinds)]
            source = self.root / artefact
            copy = self.root / "damaged" / f"{turn}{source.suffix if file is None else ''}"
            copy.parent.mkdir(exist_ok=True)
            shutil.copytree(source, copy) if file else shutil.copy(source, copy)
            place = copy / file if file else copy
            whole = place.read_bytes()
            broken = self.damaged(whole, chance)
            place.write_bytes(broken)
            # A byte of padding, or of a weight that nothing sums up, may go unseen; what is missing may not.
            unseen = may_pass and len(broken) == len(whole)
            refused += self.check_refused(copy, command="eval" if turn % 3 == 0 else "predict", may_pass=unseen) != 0
        self.assertGreater(refused, 30)

    def test_archives_that_lead_elsewhere_are_refused(self):
        with zipfile.ZipFile(self.root / "model.pt") as archive:
            entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        before = sorted(path for path in self.root.rglob("*"))
        for name, word in [("../escaped.txt", "leads out"), ("/tmp/escaped.txt", "leads out"), ("a/../../escaped.txt", "leads out"), ("..\\escaped.txt", "leads out")]:
            for suffix in (".pt", ".mar"):
                path = self.root / f"out{suffix}"
                with zipfile.ZipFile(path, "w") as archive:
                    for entry, content in entries:
                        archive.writestr(entry, content)
                    archive.writestr(name, b"escaped")
                self.check_refused(path, word)
                path.unlink()
        self.assertEqual(before, sorted(path for path in self.root.rglob("*")))
        with zipfile.ZipFile(self.root / "served.mar", "w") as archive:
            archive.write(self.root / "model.pt", "model.pt")
        self.check_refused(self.root / "served.mar", "served.mar is no TorchScript file")

    def test_a_pickle_that_claims_too_much_neither_hangs_nor_crashes(self):
        """A text in an archive is said to be longer than the archive: one of LibTorch's readers reads on for ever."""
        path = self.root / "endless.pt"
        with zipfile.ZipFile(self.root / "model.pt") as archive, zipfile.ZipFile(path, "w") as out:
            for entry in archive.infolist():
                content = archive.read(entry)
                if entry.filename.endswith("/data.pkl"):
                    place = content.index(b"X") + 1  # BINUNICODE, and four bytes of length
                    content = content[:place] + b"\xa7\xd4\xed\xdb" + content[place + 4:]
                out.writestr(entry.filename, content)
        self.check_refused(path, "endless.pt is")

    def with_code(self, network, name, change):
        """An exported network with other code of its `forward`."""
        path = self.root / name
        with zipfile.ZipFile(network) as archive, zipfile.ZipFile(path, "w") as out:
            for entry in archive.infolist():
                content = archive.read(entry)
                if b"def forward" in content:
                    content = change(content.decode()).encode()
                out.writestr(entry.filename, content)
        return path

    def test_code_that_crashes_loops_or_takes_all_memory_ends_with_a_reason(self):
        def before_return(line):
            return lambda code: code.replace("    return ", f"    {line}\n    return ", 1)
        endless = "    {}\n    while True:\n      {}\n    return "
        cases = {
            "deep.pt": (before_return(f"y = {'(' * 200_000}1{')' * 200_000}"), "ends its process by signal 11"),
            "signs.pt": (before_return(f"y = {'-' * 200_000}1"), "ends its process by signal 11"),
            "loop.pt": (lambda code: code.replace("    return ", endless.format("i = 0", "i = torch.add(i, 0)"), 1), "does it loop without end?"),
            "list.pt": (lambda code: code.replace("    return ", endless.format("a = annotate(List[int], [])", "_9 = torch.append(a, 0)"), 1),
                        "MiB of memory|loop without end"),
        }
        images = write_experiment(self.root, IMAGES, "images.yaml")
        self.command("train", images, "--run-dir", self.root / "images")
        self.command("export", images, "--checkpoint", self.root / "images", "--format", "torchscript", "--output", self.root / "images.pt")
        for name, (change, words) in cases.items():
            if "signal" in words:  # LibTorch leaves a loop out that gives nothing, where it may rewrite the code
                used = self.use(self.with_code(self.root / "model.pt", name, change))
                self.assertEqual(used.returncode, 1, (name, used.stderr))
                self.assertRegex(used.stderr, words)
            network = self.with_code(self.root / "images.pt", f"own_{name}", change)
            for command in ("plan", "train"):
                result = run(command, images, "--set", f"model={{kind: torchscript, path: {network}}}", cwd=self.root)
                self.assertEqual(result.returncode, 1, (name, command, result.stderr))
                self.assertRegex(result.stderr, words)

    def test_an_entry_that_becomes_a_thousand_times_as_large_is_refused(self):
        path = self.root / "bomb.pt"
        with zipfile.ZipFile(self.root / "model.pt") as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            for entry in archive.infolist():
                out.writestr(entry.filename, bytes(200 << 20) if entry.filename.endswith("data/0") else archive.read(entry))
        self.check_refused(path, "which become 200.0 MiB")

    def test_external_data_stays_beside_the_model(self):
        try:
            import onnx
        except ImportError:
            self.skipTest("no onnx")
        directory = self.root / "external"
        directory.mkdir()
        model = onnx.load(self.root / "model.onnx")
        onnx.save_model(model, directory / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
        self.assertEqual(self.use(directory / "model.onnx").returncode, 0)
        (directory / "link.data").symlink_to("/etc/passwd")
        os.mkfifo(directory / "pipe.data")
        whole = onnx.load(directory / "model.onnx", load_external_data=False)
        for location in ("../../etc/passwd", "/etc/passwd", "../model.onnx", "link.data", "pipe.data", ".", ""):
            hostile = onnx.ModelProto()
            hostile.CopyFrom(whole)
            for entry in hostile.graph.initializer[0].external_data:
                if entry.key == "location":
                    entry.value = location
            (directory / "hostile.onnx").write_bytes(hostile.SerializeToString())
            self.check_refused(directory / "hostile.onnx", "no file beside the model")
        for offset, length, words in [("-1", "4", "no place"), ("99999999999", "4", "behind the end"), ("0", "99999999999999999999", "no place"), ("0", "3", "wrong number of bytes")]:
            hostile = onnx.ModelProto()
            hostile.CopyFrom(whole)
            for entry in hostile.graph.initializer[0].external_data:
                entry.value = {"offset": offset, "length": length}.get(entry.key, entry.value)
            (directory / "hostile.onnx").write_bytes(hostile.SerializeToString())
            self.check_refused(directory / "hostile.onnx", words)
        data = (directory / "model.data").read_bytes()
        (directory / "model.data").write_bytes(data[: len(data) // 2])
        self.check_refused(directory / "model.onnx", "behind the end")
        (directory / "model.data").unlink()
        self.check_refused(directory / "model.onnx", "model.data", command="eval")

    def test_safetensors_whose_header_lies_are_refused(self):
        weights = self.root / "weights/model.safetensors"
        whole = weights.read_bytes()
        for name, bytes_ in {"huge": b"\xff" * 8 + whole[8:], "empty": b"", "short": whole[:7], "deep": (4096).to_bytes(8, "little") + b"[" * 4096,
                             "text": b"no safetensors at all, but long enough to be read as one"}.items():
            path = self.root / f"{name}.safetensors"
            path.write_bytes(bytes_)
            self.check_refused(path, path.name)


if __name__ == "__main__":
    unittest.main()
