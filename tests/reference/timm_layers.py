#!/usr/bin/env python3
"""Networks of timm that configs/layers lists, for tests/pretrained/timm_layers_test.cpp. Written with timm 1.0.31.

timm_layers.py record FILE    see recorded_model.py; in double precision, ConvNeXt with an eighth of its channels
timm_layers.py shapes FILE    for each network and every entry of its state_dict: its shape, as NETWORK/ENTRY
"""
import sys

try:
    import timm
    import torch
    from safetensors.torch import save_file

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

NETWORKS = {"mobilenet_v3_small": "mobilenetv3_small_100", "efficientnet_b0": "efficientnet_b0", "convnext_tiny": "convnext_tiny"}


def build(part):
    sizes = {"dims": (12, 24, 48, 96), "ls_init_value": 0.5} if part == "convnext_tiny" else {}
    return timm.create_model(NETWORKS[part], num_classes=10, **sizes).double().train()


def forward(model, inputs):
    return model(inputs["images"])


def samples(part):
    return {"images": torch.randn(4, 3, 64, 64, dtype=torch.float64)}, torch.randint(10, (4,))


def shapes(path):
    with torch.device("meta"):
        states = {part: timm.create_model(name, num_classes=10).state_dict() for part, name in NETWORKS.items()}
    save_file({f"{part}/{name}": torch.tensor(value.shape, dtype=torch.int64) for part, state in states.items()
               for name, value in state.items()}, path)


if sys.argv[1] == "shapes":
    shapes(sys.argv[2])
else:
    run(NETWORKS, build, samples, forward)
