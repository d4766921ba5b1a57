"""Runs every <name>.ptl of a directory in Python's lite interpreter, at each of the sizes that <name>.<number>.safetensors hold."""
import pathlib
import sys

try:
    import torch
    from safetensors.torch import load_file
    from torch.jit.mobile import _load_for_lite_interpreter
except ImportError:
    sys.exit(77)

torch.set_num_threads(1)
root = pathlib.Path(sys.argv[-1])
paths = sorted(root.glob("*.ptl"))
assert paths
for path in paths:
    module = _load_for_lite_interpreter(str(path), torch.device("cpu"))
    batches = sorted(root.glob(f"{path.stem}.*.safetensors"))
    assert len(batches) >= 3, path.stem
    for batch in batches:
        tensors = load_file(batch)
        expected = tensors.pop("output")
        with torch.no_grad():
            output = module.forward(*[tensors[f"input{i}"] for i in range(len(tensors))])
        difference = (output - expected).abs().max() / expected.abs().max()
        assert difference < 1e-5, (batch.stem, difference)
