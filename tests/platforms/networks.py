"""One small experiment for each kind of network, so large that products of every path of src/kernels/matrix_product.cpp are in them.

That file leaves products below 2^21 multiplications to the plain path. Two hidden layers of 256 on 16 images of 768 values, and 128 tokens
through 64 x 256, are above; vocabularies of 5,000 are wider than four of its panels, and their heads are tied to the embeddings.
"""
import dataclasses
import random

import torch
from PIL import Image

COMMON = """
name: {name}
seed: 1
dataset: {dataset}
model: {model}
task: {{kind: {task}}}
optimizer: {optimizer}
train: {{steps: 2, eval_every: 2, log_every: 1}}
checkpoint: {{every: {checkpoint_every}}}
tracking: {{tensorboard: false}}
device: {{kind: cpu, num_threads: 1}}
"""

IMAGES = "{kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 3, height: 16, width: 16, num_classes: 4, batch_size: 16, num_workers: 1}"
FEW_SMALL_IMAGES = "{kind: synthetic_images, num_samples: 16, num_eval_samples: 4, channels: 3, height: 8, width: 8, num_classes: 4, batch_size: 4, num_workers: 1}"
PHOTOS = ("{kind: image_folder, train: photos, eval: photos, batch_size: 16, num_workers: 1, cache_dir: cache, "
          "transforms: [{kind: center_crop, size: 16}, {kind: normalize, mean: [0.5], std: [0.25]}]}")
TEXTS = ("{kind: text_classification, train: {files: [texts.jsonl]}, eval: {files: [texts.jsonl]}, tokenizer: bytes, max_length: 32, batch_size: 8, num_workers: 1, "
         "cache_dir: cache}")
PAIRS = ("{kind: text_seq2seq, train: {files: [texts.jsonl], source: text, target: label}, eval: {files: [texts.jsonl], source: text, target: label}, "
         "tokenizer: bytes, max_source_length: 32, max_target_length: 5, batch_size: 8, num_workers: 1, cache_dir: cache}")
TOKENS = "{kind: synthetic_tokens, num_samples: 16, num_eval_samples: 4, seq_len: 32, vocab_size: VOCABULARY, batch_size: 4, num_workers: 1}"
# BatchNorm over four values, as in the last stage of a ResNet on images of 8 pixels, makes rounding errors of an update large.
SHORT_STEPS = "{kind: sgd, lr: 1e-5, clip_norm: 1.0}"
TRANSFORMER = "hidden_size: 64, num_layers: 1, num_heads: 4, max_position_embeddings: 32"


@dataclasses.dataclass(frozen=True)
class Network:
    model: str
    dataset: str
    task: str = "classification"
    optimizer: str = "{kind: adamw, lr: 1e-3, clip_norm: 1.0}"
    is_large: bool = False  # of millions of parameters: not saved, not resumed
    same_blocks_as: str | None = None  # a smaller network that is emulated in its place

    def experiment(self, name):
        return COMMON.format(name=name, dataset=self.dataset, model=self.model, task=self.task, checkpoint_every=0 if self.is_large else 2,
                             optimizer=self.optimizer)


def tokens(vocabulary):
    return TOKENS.replace("VOCABULARY", str(vocabulary))


def residual(kind, same_blocks_as=None):
    return Network(f"{{kind: {kind}, stem: cifar}}", FEW_SMALL_IMAGES, optimizer=SHORT_STEPS, is_large=True, same_blocks_as=same_blocks_as)


LAYERS = ("{kind: conv2d, channels: 8, bias: false}, batch_norm, hardswish, {kind: depthwise_conv2d, stride: 2}, {kind: group_norm, groups: 2}, "
          "{kind: residual, layers: [{kind: conv2d, channels: 8}, mish]}, {kind: conv_transpose2d, channels: 8}, {kind: dropout, p: 0.1}, "
          "global_avg_pool, linear")
NETWORKS = {
    "mlp": Network("{kind: mlp, hidden: [256, 256]}", IMAGES),
    "cnn": Network("{kind: cnn, channels: [8, 16], hidden: 512, batch_norm: true, dropout: 0.1, num_classes: 2}", PHOTOS),
    "resnet18": residual("resnet18"),
    "resnet34": residual("resnet34", same_blocks_as="resnet18"),
    "resnet50": residual("resnet50"),
    "resnet101": residual("resnet101", same_blocks_as="resnet50"),
    "resnet152": residual("resnet152", same_blocks_as="resnet50"),
    "wide_resnet": Network("{kind: wide_resnet, depth: 10, widen_factor: 1}", IMAGES),
    "vit": Network("{kind: vit, hidden_size: 64, num_layers: 1, num_heads: 4, intermediate_size: 256, patch_size: 4}", IMAGES),
    "gpt2": Network(f"{{kind: gpt2, {TRANSFORMER}}}", tokens(5000), "causal_lm"),
    "llama": Network(f"{{kind: llama, num_key_value_heads: 2, intermediate_size: 256, {TRANSFORMER}}}", tokens(600), "causal_lm"),
    "bert": Network(f"{{kind: bert, num_classes: 2, intermediate_size: 256, {TRANSFORMER}}}", TEXTS),
    "lstm": Network("{kind: lstm, hidden_size: 64, num_layers: 2, tie_embeddings: true}", tokens(600), "causal_lm"),
    "t5": Network("{kind: t5, hidden_size: 64, num_layers: 1, num_heads: 4, intermediate_size: 256}", PAIRS, "seq2seq_lm"),
    "fasttext": Network("{kind: fasttext, embedding_size: 32, num_buckets: 5000, num_classes: 2}", TEXTS),
    "torchscript": Network("{kind: torchscript, path: net.pt}", IMAGES),
    "layers": Network(f"{{kind: layers, layers: [{LAYERS}]}}", IMAGES),
}
NUM_PHOTOS = 48
FORMATS = ["jpg", "png", "webp"]


def write_data(directory):
    """Photos of two classes in three formats, and texts of two classes, as the experiments name them."""
    draw = random.Random(1)
    for i in range(NUM_PHOTOS):
        folder = directory / "photos" / f"class_{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        shade = draw.randrange(64)
        pixels = [((x * 13 + shade) % 256, (y * 17 * (1 + i % 2)) % 256, (x * y + shade) % 256) for y in range(16) for x in range(16)]
        image = Image.new("RGB", (16, 16))
        image.putdata(pixels)
        image.save(folder / f"{i:02}.{FORMATS[i // 2 % 3]}", quality=90)
    lines = (f'{{"text": "{word} {number}, which is one of its kind", "label": "{word}"}}\n' for number in range(24) for word in ("good", "poor"))
    (directory / "texts.jsonl").write_text("".join(lines))
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                                 torch.nn.Dropout(0.1), torch.nn.Linear(8 * 16 * 16, 4))
    torch.jit.script(module).save(directory / "net.pt")
    for name, network in NETWORKS.items():
        (directory / f"{name}.yaml").write_text(network.experiment(name))
