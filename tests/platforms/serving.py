"""Commands of the matrix: quantizing, exporting and predicting; what engines of this CPU compute against what runtimes make of the files."""
import dataclasses
import json
import os
import sys

import numpy
from PIL import Image

from machine import ROOT, expect, message_of
from networks import NUM_PHOTOS

BATCHES = ("--calibration-batches", "2")


@dataclasses.dataclass(frozen=True)
class Served:
    """A trained network and how it is quantized before it is exported."""
    network: str
    method: tuple = ()
    tolerance: float = 1e-4  # of a probability


SERVED = {
    "cnn": Served("cnn"),
    "cnn static": Served("cnn", ("--method", "static", *BATCHES)),
    "cnn symmetric": Served("cnn", ("--method", "static", "--activation-scheme", "symmetric", "--backend", "qnnpack", *BATCHES)),
    # Rounded to each batch's own range: docs/export.md allows a hundredth of the largest output.
    "bert dynamic": Served("bert", ("--method", "dynamic"), tolerance=5e-3),
}


def files_of(name):
    """Where the quantized or trained network lies, and its exported file."""
    stem = name.replace(" ", "_")
    return (stem if SERVED[name].method else trained(SERVED[name].network)), f"{stem}.onnx"


def trained(network):
    """The checkpoint of a run that may be going on in another thread."""
    return f"{network}/checkpoints/step_00000002"


def quantize(machine, name):
    served = SERVED[name]
    report = machine.report("quantize", f"{served.network}.yaml", "--checkpoint", trained(served.network), *served.method, "--output", files_of(name)[0])
    expect(report["size_ratio"] < 0.5, f"eight bits take {report['size_ratio']:.2f} of the size")
    before, after = (report[when]["metrics"]["loss"] for when in ("before", "after"))
    expect(abs(after - before) < 0.05, f"the loss is {before} before, {after} after")


def export_onnx(machine, name):
    """Export compares the file with the live network itself, and fails where they differ."""
    checkpoint, file = files_of(name)
    machine.trainctl("export", f"{SERVED[name].network}.yaml", "--checkpoint", checkpoint, "--format", "onnx", "--output", file)
    expect((machine.directory / file).stat().st_size > 0, f"{file} is empty")


def probabilities(machine, network, checkpoint, inputs):
    """A row for each input, its columns in the order of the classes' names."""
    result = machine.trainctl("predict", f"{network}.yaml", "--checkpoint", checkpoint, "--input", *inputs)
    return numpy.array([[score for _, score in sorted(json.loads(line)["scores"].items())] for line in result.stdout.splitlines()])


def by_onnx_runtime(machine, name, photos):
    """The same from the exported file by ONNX Runtime on the machine's CPU; photos are normalized as networks.PHOTOS says."""
    pixels = [numpy.asarray(Image.open(machine.directory / photo), dtype=numpy.float32) for photo in photos]
    images = (numpy.stack(pixels).transpose(0, 3, 1, 2) / 255 - 0.5) / 0.25
    file = machine.directory / files_of(name)[1]
    inputs, output = file.with_suffix(".npz"), file.with_suffix(".npy")
    numpy.savez(inputs, images=images.astype(numpy.float32))
    # A virtual environment's Python is a link, which an emulator follows: the packages have to be named.
    result = machine.program(os.path.realpath(sys.executable), ROOT / "tests/platforms/onnx_scores.py", file, inputs, output, PYTHONPATH=":".join(sys.path))
    expect(result.returncode == 0, f"ONNX Runtime: {message_of(result)}")
    return numpy.load(output)


def inputs_of(machine, network):
    if network == "cnn":
        photos = sorted(str(path.relative_to(machine.directory)) for path in (machine.directory / "photos").rglob("*.png"))
        expect(len(photos) == NUM_PHOTOS // 3, f"there are {len(photos)} photos")
        return photos
    (machine.directory / "texts.txt").write_text("good 3\npoor 5\ngood 70\n")
    return ["texts.txt"]


def expect_near(name, found, wanted, whose):
    furthest = float(numpy.abs(found - wanted).max())
    expect(furthest <= SERVED[name].tolerance, f"probabilities are up to {furthest:.2g} from {whose}, {SERVED[name].tolerance:g} allowed")


def predict(machine, name):
    """A checkpoint's predictions on this CPU, and those of its exported file where nothing is emulated."""
    network = SERVED[name].network
    checkpoint, file = files_of(name)
    inputs = inputs_of(machine, network)
    found = probabilities(machine, network, checkpoint, inputs)
    elsewhere = machine.unemulated()
    wanted = (by_onnx_runtime(elsewhere, name, inputs) if network == "cnn" else probabilities(elsewhere, network, file, inputs))
    expect_near(name, found, wanted, "the exported file's")


def run_onnx_runtime(machine, name):
    """The exported file's predictions by ONNX Runtime on this CPU, and the checkpoint's."""
    inputs = inputs_of(machine, SERVED[name].network)
    expect_near(name, by_onnx_runtime(machine, name, inputs), probabilities(machine, SERVED[name].network, files_of(name)[0], inputs), "the checkpoint's")


def predict_from_archive(machine, name):
    """What TorchServe's handler would load: the quantized network as TorchScript."""
    served = SERVED[name]
    checkpoint, _ = files_of(name)
    file = f"{checkpoint}.pt"
    machine.trainctl("export", f"{served.network}.yaml", "--checkpoint", checkpoint, "--format", "torchscript", "--output", file)
    inputs = inputs_of(machine, served.network)
    first, second = (probabilities(machine, served.network, source, inputs) for source in (checkpoint, file))
    expect_near(name, first, second, "the archive's")
