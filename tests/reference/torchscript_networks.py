#!/usr/bin/env python3
"""Scripted modules, and what they give and learn, for tests/model/torchscript_test.cpp. Written with torch 2.11.0,
torchvision 0.26.0 and timm 1.0.31.

torchscript_networks.py write DIRECTORY    writes NAME.pt of each module, and recorded.safetensors (recorded_model.py)
torchscript_networks.py check DIRECTORY    reads ours.safetensors there: NAME/weights/… load into the Python module by
                                           load_state_dict, which then gives NAME/output for NAME/images or NAME/ids
"""
import pathlib
import sys
from typing import Dict, List, Tuple

try:
    import timm
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
    from torch import nn

    from recorded_model import record, shake
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)


class Tags(nn.Module):
    """Reads ids and the mask of what is no padding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor):
        hidden = self.lstm(self.embedding(ids))[0] * attention_mask.unsqueeze(2)
        return {"logits": self.head(hidden.sum(1) / attention_mask.sum(1, keepdim=True))}


def without_dropout(module):
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    return module


MODULES = {
    "mobilenet_v3": lambda: without_dropout(torchvision.models.mobilenet_v3_small(num_classes=10)),
    "convnext": lambda: timm.create_model("convnext_atto", num_classes=10),
    "tags": Tags,
}


def forward(model, inputs):
    return model(inputs["ids"], inputs["key_mask"])["logits"] if "ids" in inputs else model(inputs["images"])


def samples(name):
    if name == "tags":
        mask = torch.ones(4, 12, dtype=torch.int64)
        mask[1, 7:] = 0
        return {"ids": torch.randint(50, (4, 12)), "key_mask": mask}, torch.randint(5, (4,))
    return {"images": torch.randn(4, 3, 64, 64)}, torch.randint(10, (4,))


def build(name):
    torch.manual_seed(7)
    model = MODULES[name]().train()
    shake(model)
    return model


class MapsFile(nn.Module):
    """Makes a file, as a part of a network."""

    def forward(self, x):
        return x + torch.from_file("made_by_a_network", True, 4)


class Modes(nn.Module):
    """Has layers that differ between training and evaluation."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout()

    def forward(self, x):
        return self.dropout(self.norm(self.linear(x)))


class Counts(nn.Module):
    """Changes the attribute `state` in forward()."""

    def __init__(self, state):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.state = state


class CountsInNumber(Counts):
    def forward(self, x):
        self.state += 1
        return self.linear(x) * self.state


class CountsInList(Counts):
    def forward(self, x):
        self.state.append(1)
        return self.linear(x) * len(self.state)


class CountsInTensor(Counts):
    def forward(self, x):
        self.state[0].add_(1)
        return self.linear(x) * self.state


class CountsInBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(1))
        self.register_buffer("changed", torch.zeros(1))

    def forward(self, x):
        self.state = self.state + 1
        self.changed[0].add_(1)
        seen = [x]
        seen.append(x)
        return self.linear(seen[1]) * self.state


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class CallsInterface(nn.Module):
    """Calls a layer whose class only the run knows."""

    layer: Layer

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.layer = MapsFile()

    def forward(self, x):
        return self.layer.forward(self.linear(x))


class Keeps(nn.Module):
    """Has the layer's weight in another place, too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


class KeepsInTuple(Keeps):
    kept: Tuple[torch.Tensor, int]

    def __init__(self):
        super().__init__()
        self.kept = (self.linear.weight, 1)

    def forward(self, x):
        return nn.functional.linear(x, self.kept[0])


class KeepsInDict(Keeps):
    kept: Dict[str, torch.Tensor]

    def __init__(self):
        super().__init__()
        self.kept = {"weight": self.linear.weight}

    def forward(self, x):
        return nn.functional.linear(x, self.kept["weight"])


class KeepsInList(Keeps):
    kept: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.kept = [self.linear.weight.t()]

    def forward(self, x):
        return x @ self.kept[0]


class KeepsInView(Keeps):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", self.linear.weight.detach().t())

    def forward(self, x):
        return self.linear(x) @ self.kept


class KeepsInParameter(Keeps):
    def __init__(self):
        super().__init__()
        self.kept = nn.Parameter(self.linear.weight.data)

    def forward(self, x):
        return self.linear(x) @ self.kept


class Choices(nn.Module):
    """Has integers among its parameters, which are too large for floats, and a norm without statistics."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4, affine=False, track_running_stats=False)
        self.choice = nn.Parameter(torch.tensor([2**24 + 1, 0, 3, 2]), requires_grad=False)

    def forward(self, x):
        return self.linear(self.norm(x)[:, self.choice % 4])


class Turns(Keeps):
    """Has a tensor that no checkpoint holds."""

    def __init__(self, turn):
        super().__init__()
        self.register_buffer("turn", turn)

    def forward(self, x):
        return self.linear(x)


class Becomes(Keeps):
    """Replaces a buffer by one of another kind."""

    def __init__(self, state):
        super().__init__()
        self.register_buffer("state", state)

    def forward(self, x):
        self.state = self.state + torch.full([4], 0.5)
        return self.linear(x) + self.state


def write(directory):
    tensors = {}
    for name in MODULES:
        model = build(name)
        torch.jit.script(model).save(directory / f"{name}.pt")
        tensors |= {f"{name}/{key}": value for key, value in record(model, forward, *samples(name)).items()}
    torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval(), torch.zeros(1, 4)).save(directory / "traced.pt")
    torch.jit.freeze(torch.jit.script(nn.Linear(4, 4).eval())).save(directory / "frozen.pt")
    torch.jit.script(nn.Sequential(nn.Linear(4, 4), MapsFile())).save(directory / "maps_file.pt")
    torch.jit.script(CallsInterface()).save(directory / "interface_maps_file.pt")
    counts = {"number": CountsInNumber(0), "list": CountsInList([1]), "tensor": CountsInTensor(torch.zeros(1)), "buffer": CountsInBuffer()}
    for name, module in counts.items():
        torch.jit.script(module).save(directory / f"counts_in_{name}.pt")
    keeps = {"tuple": KeepsInTuple(), "dict": KeepsInDict(), "list": KeepsInList(), "view": KeepsInView(), "parameter": KeepsInParameter()}
    for name, module in keeps.items():
        torch.jit.script(module).save(directory / f"keeps_in_{name}.pt")
    for name, turn in {"complex": torch.ones(4, dtype=torch.complex64), "sparse": torch.eye(4).to_sparse()}.items():
        torch.jit.script(Turns(turn)).save(directory / f"{name}.pt")
    for name, state in {"type": torch.zeros(4, dtype=torch.int64), "shape": torch.zeros(1)}.items():
        torch.jit.script(Becomes(state)).save(directory / f"other_{name}.pt")
    choices = Choices()
    torch.jit.script(choices).save(directory / "choices.pt")
    rows = torch.linspace(-1, 1, 32).sin().view(8, 4)
    tensors |= {"choices/rows": rows, "choices/output": choices(rows).detach()}
    save_file(tensors, directory / "recorded.safetensors")
    modes = Modes()
    modes.norm.eval()
    torch.jit.script(modes).save(directory / "frozen_norm.pt")
    modes.eval()
    modes.dropout.train()
    torch.jit.script(modes).save(directory / "evaluation_but_dropout.pt")
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.zeros(1, 4),)), directory / "exported.pt2")
    torch.save(nn.Linear(4, 4).state_dict(), directory / "weights.pt")


def check(directory):
    tensors = load_file(directory / "ours.safetensors")
    for name in MODULES:
        model = build(name)
        prefix = f"{name}/weights/"
        model.load_state_dict({key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)})
        inputs = {key: tensors[f"{name}/{key}"] for key in ("images", "ids", "key_mask") if f"{name}/{key}" in tensors}
        with torch.no_grad():
            output = forward(model.eval(), inputs)
        worst = ((tensors[f"{name}/output"] - output).abs().max() / output.abs().max()).item()
        print(f"{name}: largest relative difference of the output {worst:.2e}", file=sys.stderr)
        if not worst <= 1e-5:
            sys.exit(f"{name}: outputs differ")


torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
(write if sys.argv[1] == "write" else check)(pathlib.Path(sys.argv[2]))
