"""A network that trainctl trained, compiled by stock PyTorch's AOTInductor for any batch size.

    inductor_package.py WEIGHTS.safetensors OUT.pt2      an mlp whose layers grow narrower
"""
import sys

import torch
from safetensors.torch import load_file


def main():
    weights = load_file(sys.argv[1])
    layers = []
    for name in sorted((name for name in weights if name.endswith(".weight")), key=lambda name: -weights[name].shape[1]):
        layer = torch.nn.Linear(*reversed(weights[name].shape))
        layer.load_state_dict({"weight": weights[name], "bias": weights[name.replace(".weight", ".bias")]})
        layers += [layer, torch.nn.ReLU()]
    network = torch.nn.Sequential(torch.nn.Flatten(), *layers[:-1]).eval()
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(network, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2])


if __name__ == "__main__":
    main()
