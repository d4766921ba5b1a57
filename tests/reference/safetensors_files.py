"""The official safetensors package (0.8) on the other side of checkpoint/'s files.

`safetensors_files.py write FILE` writes tensors of every dtype; `check FILE` reads what the C++ test wrote and compares.
Exit code 77: the package, or PyTorch, can't be imported.
"""

import sys

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:
    print(f"safetensors can't be imported: {error}", file=sys.stderr)
    sys.exit(77)

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


def tensors():
    made = {}
    for name in DTYPES:
        values = torch.arange(12).reshape(3, 4)
        made[name] = (values % 2 if name == "bool" else values).to(getattr(torch, name))
    made["image"] = torch.arange(120).reshape(2, 3, 4, 5).to(torch.float32)
    made["scalar"] = torch.tensor(1.5)
    made["empty"] = torch.zeros(0, 4)
    return made


def check(path):
    expected = tensors()
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}, file.metadata()
        assert sorted(file.keys()) == sorted(expected), file.keys()
        for name, tensor in expected.items():
            read = file.get_tensor(name)
            assert read.dtype == tensor.dtype and read.shape == tensor.shape, name
            assert torch.equal(read.contiguous().view(torch.uint8) if read.dim() else read,
                               tensor.view(torch.uint8) if tensor.dim() else tensor), name


if __name__ == "__main__":
    if sys.argv[1] == "write":
        save_file(tensors(), sys.argv[2], metadata={"format": "pt"})
    else:
        check(sys.argv[2])
