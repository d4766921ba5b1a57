"""Files of torch.save for tests/pretrained/torch_file_test.cpp.

`torch_files.py good DIRECTORY` writes NAME.pth and, beside it, what stock PyTorch's weights_only loader reads of it as
NAME.safetensors. `torch_files.py large DIRECTORY` writes one of over 4 GiB, with a hole in it. `torch_files.py bad DIRECTORY`
writes files that must be refused, and refused.json: a part of each one's error. Exit code 77: PyTorch, numpy or safetensors can't be imported.
"""

import io
import json
import os
import pathlib
import struct
import sys
import zipfile

try:
    import numpy
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"PyTorch, numpy or safetensors can't be imported: {error}", file=sys.stderr)
    sys.exit(77)

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
NEW_DTYPES = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 5))


def layouts():
    base = torch.arange(24.0)
    return {"transposed": base.view(4, 6).t(), "slice": base[5:17:3], "expanded": torch.ones(3).expand(1, 3), "scalar": torch.tensor(2.5),
            "empty": torch.zeros(0, 3), "parameter": torch.nn.Parameter(base[2:6].view(2, 2)), "shared": base, "again": base}


def numbers(dtypes):
    return {name: (torch.arange(6) % 2 if name == "bool" else torch.arange(6)).to(getattr(torch, name)) for name in dtypes}


def write_good(directory):
    model = network()
    weights = model.state_dict()
    mixed = {**numbers(DTYPES), **layouts()}
    training = {"epoch": 3, "best_acc1": torch.tensor(76.1), "lrs": (0.1, 2**70, -5, b"x", None, {1, 2}), "rng": torch.get_rng_state(),
                "optimizer": torch.optim.AdamW(model.parameters()).state_dict()}
    wrapped = {"module." + name: tensor for name, tensor in weights.items()}
    cases = {"state_dict": (weights, weights, {}), "mixed": ({**mixed, **numbers(NEW_DTYPES)}, None, {}),
             "legacy": (mixed, None, {"_use_new_zipfile_serialization": False}),
             "data_parallel": ({**training, "state_dict": wrapped}, weights, {}), "model_key": ({**training, "model": weights}, weights, {}),
             "averaged": ({**training, "state_dict": weights, "state_dict_ema": wrapped}, weights, {}),
             "compiled": ({"_orig_mod." + name: tensor for name, tensor in wrapped.items()}, weights, {})}
    cases |= {f"protocol{number}": (weights, weights, {"pickle_protocol": number}) for number in (3, 4, 5)}
    for name, (content, expected, options) in cases.items():
        path = directory / f"{name}.pth"
        torch.save(content, path, **options)
        loaded = torch.load(path, weights_only=True) if not name.startswith("protocol") else content
        expected = expected if expected is not None else loaded
        save_file({key: value.detach().clone().contiguous() for key, value in expected.items()}, directory / f"{name}.safetensors")


class Call:
    """What unpickling would call."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(offset=b"K\x00", sizes=b"K\x04\x85", strides=b"K\x01\x85", count=b"K\x04", last=b"ccollections\nOrderedDict\n)R"):
    storage = b"((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + count + b"tQ"
    return b"}" + text("a") + b"ctorch._utils\n_rebuild_tensor_v2\n" + storage + offset + sizes + strides + b"\x89" + last + b"tRs."


def integer(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def archive(path, pickle, data=struct.pack("<4f", 0, 1, 2, 3), compression=zipfile.ZIP_STORED, more=()):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x/data.pkl", pickle if pickle.startswith(b"\x80") else b"\x80\x02" + pickle)
        for name, content in (("x/data/0", data), ("x/byteorder", b"little"), ("x/version", b"3\n"), *more):
            if content is not None:
                file.writestr(name, content)


def python_objects(directory, refused):
    model = network()
    torch.save({"a": Call(os.system, f"touch {directory}/ran")}, directory / "system.pth")
    torch.save({"a": Call(eval, f"open('{directory}/ran', 'w')")}, directory / "eval.pth")
    torch.save({"a": Call(os.system, f"touch {directory}/ran")}, directory / "legacy_system.pth", _use_new_zipfile_serialization=False)
    torch.save(model, directory / "module.pth")
    torch.save([1, 2], directory / "list.pth")
    torch.save(torch.ones(3), directory / "tensor.pth")
    torch.save({"a": torch.eye(3).to_sparse()}, directory / "sparse.pth")
    torch.save({"a": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}, directory / "quantized.pth")
    torch.jit.save(torch.jit.script(model), directory / "script.pth")
    refused |= {"system": "the Python object 'posix.system'", "eval": "the Python object '__builtin__.eval'",
                "legacy_system": "the Python object 'posix.system'", "module": "'torch.nn.modules.container.Sequential'",
                "list": "no state dict", "tensor": "no state dict", "sparse": "_rebuild_sparse_tensor", "quantized": "_rebuild_qtensor",
                "script": "a TorchScript program"}
    archive(directory / "builtin.pth", b"c__builtin__\nexec\n" + text("1") + b"\x85R.")
    archive(directory / "long_name.pth", b"cos\n" + b"x" * 5000 + b"\n.")
    archive(directory / "control.pth", b"cos\n\x1b[31mred\n.")
    refused |= {"builtin": "'__builtin__.exec'", "long_name": "a name without an end", "control": "'os.?[31mred'"}


def wrong_tensors(directory, refused):
    cases = {
        "reaches_out": (tensor(sizes=b"J\x80\xf0\xfa\x02\x85"), "of a storage; the storage has 4"),
        "offset_out": (tensor(offset=integer(1)), "the storage has 4"),
        "negative_offset": (tensor(offset=integer(-4)), "make no tensor"),
        "negative_size": (tensor(sizes=integer(-4) + b"\x85"), "make no tensor"),
        "negative_stride": (tensor(strides=integer(-1) + b"\x85"), "negative or too large"),
        "huge_stride": (tensor(strides=integer(2**62) + b"\x85"), "negative or too large"),
        "wrapping_size": (tensor(sizes=integer(2**32) + integer(2**32) + b"\x86", strides=b"K\x00K\x00\x86"), "make no tensor"),
        "repeated": (tensor(sizes=integer(2**40) + b"\x85", strides=b"K\x00\x85"), "the storage has 4"),
        "other_dims": (tensor(strides=b")"), "make no tensor"),
        "many_dims": (tensor(sizes=b"(" + b"K\x01" * 65 + b"t", strides=b"(" + b"K\x01" * 65 + b"t"), "at most 64"),
        "real_size": (tensor(sizes=b"G" + struct.pack(">d", 4.0) + b"\x85"), "no number"),
        "more_elements": (tensor(count=integer(2**33)), "takes 16 bytes in the file"),
        "uncountable": (tensor(count=integer(2**62)), "negative or too large"),
        "conjugated": (tensor(last=b"ccollections\nOrderedDict\n)R}" + text("conj") + b"\x88s"), "conjugated or negated"),
    }
    for name, (pickle, problem) in cases.items():
        archive(directory / f"{name}.pth", pickle)
        refused[name] = problem
    archive(directory / "bools.pth", tensor(count=b"K\x10", sizes=b"K\x10\x85").replace(b"FloatStorage", b"BoolStorage"), data=bytes(range(16)))
    archive(directory / "no_storage.pth", tensor(), data=None)
    archive(directory / "compressed.pth", tensor(), compression=zipfile.ZIP_DEFLATED)
    archive(directory / "two_pickles.pth", tensor(), more=[("x/y/data.pkl", b"\x80\x02}.")])
    archive(directory / "two_directories.pth", tensor(), more=[("y/data.pkl", b"\x80\x02}.")])
    archive(directory / "no_pickle.pth", tensor())
    content = (directory / "no_pickle.pth").read_bytes()
    (directory / "no_pickle.pth").write_bytes(content.replace(b"data.pkl", b"data.txt"))
    (directory / "big_endian.pth").write_bytes(content.replace(b"x/byteorderlittle", b"x/byteorderbig!!!"))
    refused |= {"bools": "neither true nor false", "no_storage": "storage 0 isn't in the file", "compressed": "compressed or encrypted",
                "two_pickles": "two data.pkl", "two_directories": "not in the archive's directory `x/`",
                "no_pickle": "without data.pkl", "big_endian": "big-endian"}


def bombs(directory, refused):
    deep = 2_000_000
    cases = {
        "deep_tuples": (b")" + b"\x85" * deep + b".", "no state dict"),
        "deep_marks": (b"(" * deep + b".", "nothing on the stack"),
        "deep_lists": (b"]" * deep + b"a" * (deep - 1) + b".", "no state dict"),
        "cycle": (b"]q\x00h\x00a.", "no state dict"),
        "many_values": (b"}" * 5_000_000 + b".", "over 4,000,000 values"),
        "no_end": (b"}0" * 40_000_000, "the pickle is damaged"),
        "copies": (b"](" + b"K\x00K\x00\x86" * 100_000 + b"eq\x000" + b"ccollections\nOrderedDict\nq\x010" + b"h\x01h\x00\x85R0" * 100_000 + b".",
                   "items that are copied"),
        "long_text": (b"X\xff\xff\xff\xff" + b"a" * 100, "cut off"),
        "longer_text": (b"\x8d" + struct.pack("<Q", 2**63) + b"a", "cut off"),
        "memo": (b"j\xff\xff\xff\xff.", "memo 4294967295 is not set"),
        "protocol_0": (b"\x80\x00I1\n.", "protocol 0"),
        "protocol_9": (b"\x80\x09N.", "protocol 9"),
        "nothing": (b"", "cut off"),
    }
    for name, (pickle, problem) in cases.items():
        archive(directory / f"{name}.pth", pickle)
        refused[name] = problem


def damaged(directory, refused):
    buffer = io.BytesIO()
    torch.save(network().state_dict(), buffer)
    whole = buffer.getvalue()
    for share in (1, 30, 60, 90, 99):
        (directory / f"cut_{share}.pth").write_bytes(whole[:len(whole) * share // 100])
        refused[f"cut_{share}"] = "the file is cut off"
    central = whole.rindex(b"PK\x01\x02")
    lying = bytearray(whole)
    struct.pack_into("<II", lying, central + 20, 2**31, 2**31)  # sizes of the last record
    (directory / "lying_size.pth").write_bytes(lying)
    lying = bytearray(whole)
    struct.pack_into("<I", lying, central + 42, len(whole) - 10)  # where the last record is
    (directory / "lying_offset.pth").write_bytes(lying)
    refused |= {"lying_size": "archive", "lying_offset": "is damaged"}
    buffer = io.BytesIO()
    torch.save(network().state_dict(), buffer, _use_new_zipfile_serialization=False)
    # Storages lie in the order of their addresses. Four bytes are missing of any of them; ten might be of the next one's size.
    (directory / "legacy_cut.pth").write_bytes(buffer.getvalue()[:-4])
    refused["legacy_cut"] = "left"


class Sparse(io.FileIO):
    """A file whose zeros are holes."""

    def write(self, part):
        if len(part) > 1 << 20 and not numpy.frombuffer(part, numpy.uint8).any():
            self.seek(len(part), os.SEEK_CUR)
            return len(part)
        return super().write(part)


def write_large(path):
    """The first record needs zip64 for its size, and the second for its place."""
    with Sparse(path, "w") as out:
        torch.save({"large": torch.zeros((1 << 30) + 4), "behind": torch.arange(6).reshape(2, 3)}, out)


def main():
    part, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    if part == "good":
        write_good(directory)
        return
    if part == "large":
        write_large(directory / "large.pth")
        return
    refused = {}
    for write in (python_objects, wrong_tensors, bombs, damaged):
        write(directory, refused)
    (directory / "refused.json").write_text(json.dumps(refused))


main()
