#!/usr/bin/env python3
"""torchvision's ResNets, for tests/model/resnet_reference_test.cpp. Written with torch 2.11.0, torchvision 0.26.0.

torchvision_resnet.py PART FILE
  shapes                  writes for each of the five depths and every entry of its state_dict: [place, *shape]
  resnetN[-double|-channels-last]
                          writes weights, an input, and what torchvision makes of them: outputs while training (and the
                          buffers after it) and evaluating, gradients of all parameters of (output * cotangent).sum()
  check FILE              reads weights, input and outputs that we wrote; exits 1 where torchvision disagrees
"""
import json
import struct
import sys

try:
    import numpy
    import torch
    import torchvision
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

DTYPES = {numpy.dtype("float32"): "F32", numpy.dtype("float64"): "F64", numpy.dtype("int64"): "I64"}
DEPTHS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def write_safetensors(path, tensors):
    header, offset = {}, 0
    arrays = {name: numpy.ascontiguousarray(tensor.detach().numpy()).reshape(tuple(tensor.shape)) for name, tensor in tensors.items()}
    for name, array in arrays.items():
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    names = {dtype: array for array, dtype in DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], dtype=names[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def shapes():
    tensors = {}
    for depth in DEPTHS:
        with torch.device("meta"):
            state = getattr(torchvision.models, depth)().state_dict()
        for place, (name, value) in enumerate(state.items()):
            tensors[f"{depth}/{name}"] = torch.tensor([place, *value.shape])
    return tensors


def outputs(depth, dtype, layout=torch.contiguous_format):
    torch.manual_seed(7)
    model = getattr(torchvision.models, depth)()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.add_(torch.randn_like(module.weight), alpha=0.1)
                module.bias.add_(torch.randn_like(module.bias), alpha=0.1)
                module.running_mean.add_(torch.randn_like(module.running_mean), alpha=0.1)
                module.running_var.add_(torch.rand_like(module.running_var))
                module.num_batches_tracked.fill_(3)
    model = model.to(dtype)
    tensors = {f"weights/{name}": value.clone() for name, value in model.state_dict().items()}
    model = model.to(memory_format=layout)
    image = tensors["input"] = torch.randn(4, 3, 64, 64, dtype=dtype)
    image = image.contiguous(memory_format=layout)
    cotangent = tensors["cotangent"] = torch.randn(4, 1000, dtype=dtype)
    with torch.no_grad():
        tensors["eval_output"] = model.eval()(image)
    tensors["train_output"] = model.train()(image)
    (tensors["train_output"] * cotangent).sum().backward()
    tensors |= {f"gradients/{name}": parameter.grad for name, parameter in model.named_parameters()}
    tensors |= {f"buffers/{name}": value for name, value in model.named_buffers()}
    if dtype == torch.float32:
        exact = getattr(torchvision.models, depth)()
        exact.load_state_dict({name.removeprefix("weights/"): value for name, value in tensors.items() if name.startswith("weights/")})
        exact = exact.double()
        (exact(image.double()) * cotangent.double()).sum().backward()
        tensors |= {f"exact_gradients/{name}": parameter.grad for name, parameter in exact.named_parameters()}
    return tensors


def check(tensors):
    model = torchvision.models.resnet18()
    weights = {name.removeprefix("weights/"): value for name, value in tensors.items() if name.startswith("weights/")}
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        evaluated = model.eval()(tensors["input"])
        trained = model.train()(tensors["input"])
    worst = 0.0
    for ours, theirs in ((tensors["eval_output"], evaluated), (tensors["train_output"], trained)):
        worst = max(worst, ((ours - theirs).abs().max() / theirs.abs().max()).item())
    print(f"resnet18, our weights in torchvision: largest relative difference {worst:.2e}", file=sys.stderr)
    return worst <= 1e-5


def main():
    part, path = sys.argv[1:3]
    if part == "check":
        sys.exit(0 if check(read_safetensors(path)) else 1)
    if part == "shapes":
        write_safetensors(path, shapes())
    else:
        depth, _, kind = part.partition("-")
        layout = torch.channels_last if kind == "channels-last" else torch.contiguous_format
        write_safetensors(path, outputs(depth, torch.float64 if kind == "double" else torch.float32, layout))


main()
