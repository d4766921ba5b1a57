#!/usr/bin/env python3
"""timm's VisionTransformer, for tests/model/vit_reference_test.cpp. Written with timm 1.0.31.

timm_vit.py record|check FILE    see recorded_model.py
timm_vit.py shapes FILE          for vit_base_patch16_224 and every entry of its state_dict: its shape
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


def build(part):
    return timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, in_chans=3, num_classes=10, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2,
        global_pool="token" if part == "token" else "avg", class_token=part != "avg-without-class-token").train()


def forward(model, inputs):
    return model(inputs["images"])


def samples(part):
    return {"images": torch.randn(4, 3, 32, 32)}, torch.randint(10, (4,))


def shapes(path):
    with torch.device("meta"):
        state = timm.create_model("vit_base_patch16_224").state_dict()
    save_file({name: torch.tensor(value.shape) for name, value in state.items()}, path)


if sys.argv[1] == "shapes":
    shapes(sys.argv[2])
else:
    run(("token", "avg", "avg-without-class-token"), build, samples, forward)
