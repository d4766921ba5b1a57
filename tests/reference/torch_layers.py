#!/usr/bin/env python3
"""Networks that configs/layers lists, as a PyTorch user writes them, for tests/model/layer_list_reference_test.cpp.
MobileNetV2 is torchvision's. Written with torch 2.11.0 and torchvision 0.26.0.

torch_layers.py record|check FILE    see recorded_model.py; in double precision
"""
import pathlib
import sys

try:
    import torch
    import torchvision
    import yaml
    from torch import nn
    from torch.nn import functional as F

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "layers"
# The entries of a layer's state that are parameters, in the order in which PyTorch declares them.
PARAMETERS = {
    "conv2d": ("weight", "bias"), "depthwise_conv2d": ("weight", "bias"), "conv_transpose2d": ("weight", "bias"),
    "linear": ("weight", "bias"), "batch_norm": ("weight", "bias"), "layer_norm": ("weight", "bias"),
    "group_norm": ("weight", "bias"), "rms_norm": ("weight",), "layer_scale": ("",), "embedding": ("weight",),
    "position_embedding": ("weight",), "attention": ("qkv.weight", "qkv.bias", "proj.weight", "proj.bias"),
}


def names_of(layers, prefix=""):
    """The names that the list gives its parameters, in order."""
    for number, layer in enumerate(layers):
        layer = {"kind": layer} if isinstance(layer, str) else layer
        name = f"{prefix}{layer.get('name', number)}"
        kind = layer["kind"]
        if kind == "repeat":
            for i in range(layer["times"]):
                yield from names_of(layer["layers"], f"{name}.{i}.")
        elif kind == "sequence":
            yield from names_of(layer["layers"], f"{name}.")
        elif kind == "residual":
            yield from names_of(layer["layers"], f"{name}.layers.")
            yield from names_of(layer.get("shortcut", []), f"{name}.shortcut.")
        for i, branch in enumerate(layer.get("branches", [])):
            yield from names_of(branch, f"{name}.branches.{i}.")
        for entry in PARAMETERS.get(kind, ()):
            if not (entry.endswith("bias") and layer.get("bias") is False):
                yield f"{name}.{entry}" if entry else name


class AsListed(nn.Module):
    """A module whose parameters have the names of a list of layers."""

    def __init__(self, module, layers):
        super().__init__()
        self.module = module
        self.names = list(names_of(layers))
        assert len(self.names) == len(list(module.parameters())), (len(self.names), len(list(module.parameters())))

    def named_parameters(self, *args, **kwargs):
        return zip(self.names, self.module.parameters())

    def forward(self, x):
        return self.module(x)


def listed(name):
    return yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())["model"]["layers"]


def conv_norm(inputs, outputs, kernel=3, stride=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.branch = nn.Sequential(*conv_norm(inputs, outputs, stride=stride), nn.ReLU(), *conv_norm(outputs, outputs))
        self.shortcut = nn.Sequential(*(conv_norm(inputs, outputs, 1, stride) if stride > 1 else []))

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x))


def resnet20():
    blocks = [BasicBlock(inputs, outputs, stride) for inputs, outputs, stride in
              [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2]
    return nn.Sequential(*conv_norm(3, 16), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        def stage(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.fine, self.middle, self.deep = stage(3, 32), stage(32, 64), stage(64, 128)
        self.up_middle, self.join_middle = nn.ConvTranspose2d(128, 64, 2, stride=2), stage(128, 64)
        self.narrow, self.join_fine = nn.Conv2d(64, 32, 1), stage(64, 32)
        self.classes = nn.Conv2d(32, 10, 1)

    def forward(self, x):
        fine = self.fine(x)
        middle = self.middle(F.max_pool2d(fine, 2))
        deep = self.deep(F.max_pool2d(middle, 2))
        joined = self.join_middle(torch.cat([self.up_middle(deep), middle], 1))
        up = self.narrow(F.interpolate(joined, scale_factor=2, mode="bilinear", align_corners=False))
        return self.classes(self.join_fine(torch.cat([up, fine], 1))).mean((2, 3))


class DenseLayer(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 48, 1, bias=False), nn.BatchNorm2d(48),
                         nn.ReLU(), nn.Conv2d(48, 12, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, super().forward(x)], 1)


def densenet():
    first = [DenseLayer(24 + 12 * i) for i in range(6)]
    second = [DenseLayer(48 + 12 * i) for i in range(6)]
    return nn.Sequential(nn.Conv2d(3, 24, 3, padding=1, bias=False), *first, nn.BatchNorm2d(96), nn.ReLU(),
                         nn.Conv2d(96, 48, 1, bias=False), nn.AvgPool2d(2), *second, nn.BatchNorm2d(120), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(120, 10))


class Attention(nn.Module):
    """nn.MultiheadAttention of one input."""

    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1)) if self.causal else None
        return self.inner(x, x, x, need_weights=False, attn_mask=mask, is_causal=self.causal)[0]


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, x):
        return x + self.weight


class Patches(nn.Conv2d):
    def forward(self, x):
        return super().forward(x).flatten(2).transpose(1, 2)


class MeanOfTokens(nn.Module):
    def forward(self, x):
        return x.mean(1)


def transformer_blocks(width, inner, heads, count, causal=False):
    for _ in range(count):
        yield Residual(nn.LayerNorm(width), Attention(width, heads, causal))
        yield Residual(nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


def image_transformer():
    return nn.Sequential(Patches(3, 128, 4, 4), Positions(64, 128), *transformer_blocks(128, 512, 4, 6),
                         nn.LayerNorm(128), MeanOfTokens(), nn.Linear(128, 10))


def mobilenet_v2():
    return torchvision.models.mobilenet_v2(num_classes=10, dropout=0)


# Every layer that no file of configs/layers has, as layer_list_reference_test.cpp writes it.
LANGUAGE_MODEL = [{"kind": "embedding"}, {"kind": "position_embedding"},
                  {"kind": "repeat", "times": 2, "layers": [
                      {"kind": "residual", "layers": [{"kind": "layer_norm"}, {"kind": "attention"}]},
                      {"kind": "residual", "layers": [{"kind": "layer_norm"}, {"kind": "linear"}, {"kind": "gelu"},
                                                      {"kind": "linear"}]}]},
                  {"kind": "layer_norm"}, {"kind": "linear"}]
SQUEEZE = [{"kind": "multiply", "branches": [[], [{"kind": "global_avg_pool"}, {"kind": "conv2d"}, {"kind": "silu"},
                                                  {"kind": "conv2d"}, {"kind": "hardsigmoid"}]]}]
OTHERS = [{"kind": "conv2d"}, {"kind": "group_norm"}, {"kind": "mish"}, {"kind": "conv2d"}, {"kind": "layer_norm"},
          {"kind": "layer_scale"}, {"kind": "hardswish"}, *SQUEEZE, {"kind": "avg_pool"}, {"kind": "conv_transpose2d"}, {"kind": "leaky_relu"},
          {"kind": "rms_norm"},
          {"kind": "add", "branches": [[{"kind": "conv2d"}], [{"kind": "conv2d", "bias": False}, {"kind": "elu"}]]},
          {"kind": "upsample"}, {"kind": "max_pool"}, {"kind": "softplus"}, {"kind": "flatten"}, {"kind": "linear"},
          {"kind": "rms_norm"}, {"kind": "sigmoid"}, {"kind": "linear", "bias": False}, {"kind": "batch_norm"}, {"kind": "tanh"},
          {"kind": "linear"}]


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class PixelNorm(nn.Module):
    """A norm of each pixel over its channels."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LayerScale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x):
        return x * self.gamma[:, None, None]


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1, bias=False)

    def forward(self, x):
        return self.first(x) + F.elu(self.second(x))


def others():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.GroupNorm(4, 16), nn.Mish(), nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4),
        PixelNorm(nn.LayerNorm(16)), LayerScale(16), nn.Hardswish(), Squeeze(16), nn.AvgPool2d(3, 2, 1), nn.ConvTranspose2d(16, 8, 3, 2, 1, 1),
        nn.LeakyReLU(0.1), PixelNorm(nn.RMSNorm(8, eps=1e-6)), TwoBranches(), nn.Upsample(scale_factor=2), nn.MaxPool2d(3, 2, 1), nn.Softplus(),
        nn.Flatten(), nn.Linear(8 * 16 * 16, 32), nn.RMSNorm(32, eps=1e-6), nn.Sigmoid(), nn.Linear(32, 24, bias=False),
        nn.BatchNorm1d(24), nn.Tanh(), nn.Linear(24, 10))


def language_model():
    return nn.Sequential(nn.Embedding(50, 32), Positions(16, 32), *transformer_blocks(32, 64, 4, 2, causal=True),
                         nn.LayerNorm(32), nn.Linear(32, 50))


PARTS = {"resnet20": resnet20, "unet": UNet, "densenet": densenet, "image_transformer": image_transformer,
         "mobilenet_v2": mobilenet_v2, "others": others, "language_model": language_model}
LISTS = {"others": OTHERS, "language_model": LANGUAGE_MODEL}


def build(part):
    return AsListed(PARTS[part](), LISTS[part] if part in LISTS else listed(part)).train()


def forward(model, inputs):
    return model(inputs["ids"] if "ids" in inputs else inputs["images"])


def samples(part):
    if part == "language_model":
        return {"ids": torch.randint(50, (3, 16))}, torch.randint(50, (3, 16))
    side = 64 if part == "mobilenet_v2" else 32
    return {"images": torch.randn(8, 3, side, side)}, torch.randint(10, (8,))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    run(PARTS, build, samples, forward)
