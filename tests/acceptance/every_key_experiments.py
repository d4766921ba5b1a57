"""Experiments of every kind, as small as they go, with what they read: their keys are tried one at a time (every_key_test.py)."""
import json
import random
import shutil
import tarfile
from typing import NamedTuple

import torch

import stand_ins
from trainctl_process import grey_png, run, write_experiment, write_images


class Tried(NamedTuple):
    """An experiment whose keys are tried."""
    text: str
    sections: frozenset | None = None  # None: all.
    every_kind: frozenset = frozenset()  # Sections of which every kind is tried, beside the experiment's own.
    ranks: int = 1


def tried(text, sections=None, every_kind="", ranks=1):
    return Tried(text, None if sections is None else frozenset(sections.split()), frozenset(every_kind.split()), ranks)


COMMON = """
seed: 1
train: {steps: 4, log_every: 1, eval_every: 1}
checkpoint: {every: 2, keep_last: 3}
tracking: {tensorboard: false, report: false}
device: {kind: cpu, num_threads: 1}
"""
SYNTHETIC = "kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: CHANNELS, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1"
IMAGES = SYNTHETIC.replace("CHANNELS", "1").replace("num_samples: 64", "num_samples: 28")
COLORS = SYNTHETIC.replace("CHANNELS", "3")
RESIZED = "batch_size: 8, num_workers: 1, transforms: [{kind: resize, size: 8, width: 8}, normalize]"
TOKENS = "kind: synthetic_tokens, num_samples: 32, num_eval_samples: 8, seq_len: 12, vocab_size: 24, batch_size: 4, num_workers: 1"
TEXTS = "tokenizer: bytes, cache_dir: cache, batch_size: 4, num_workers: 1"
GPT2 = "kind: gpt2, hidden_size: 16, num_layers: 2, num_heads: 2, max_position_embeddings: 64"
LLAMA = "kind: llama, hidden_size: 16, num_layers: 2, num_heads: 2, num_key_value_heads: 1, intermediate_size: 24, max_position_embeddings: 64, sliding_window: 6"
BERT = "kind: bert, hidden_size: 16, num_layers: 2, num_heads: 2, intermediate_size: 24, max_position_embeddings: 64"
T5 = "kind: t5, hidden_size: 16, num_layers: 2, num_heads: 2, intermediate_size: 24, relative_attention_num_buckets: 8, relative_attention_max_distance: 12"
ADAMW = "optimizer: {kind: adamw, lr: 1e-2}"
SGD = "optimizer: {kind: sgd, lr: 0.1}"
MLP = "model: {kind: mlp, hidden: [8]}"

EXPERIMENTS = {
    "layers": tried(f"""
dataset: {{{IMAGES}}}
model: {{kind: layers, layers: [{{kind: conv2d, channels: 4, name: x}}, batch_norm, relu, global_avg_pool, linear]}}
{SGD}
""", every_kind="quantization model"),
    "scripted": tried(f"""
dataset: {{{IMAGES}}}
model: {{kind: torchscript, path: net.pt}}
{SGD}
""", every_kind="quantization"),
    "table": tried(f"""
dataset: {{kind: table, train: [table.csv], eval: [table.csv], label: kind, batch_size: 8}}
{MLP}
{ADAMW}
""", every_kind="dataset task"),
    "regression": tried(f"""
dataset: {{kind: table, train: [numbers.csv], eval: [numbers.csv], label: y, label_type: value, batch_size: 8}}
model: {{kind: mlp, hidden: [8], num_classes: 1}}
task: {{kind: regression}}
{ADAMW}
""", every_kind="dataset"),
    "cnn": tried(f"""
dataset: {{{COLORS.replace("num_samples: 64", "num_samples: 60")}}}
model: {{kind: cnn, channels: [4], hidden: 8, batch_norm: true}}
{ADAMW}
train: {{steps: 8, eval_every: 1}}
""", every_kind="dataset task optimizer amp accumulation activation_checkpointing train checkpoint tracking metrics model quantization"),
    "resnet": tried(f"""
dataset: {{{COLORS}}}
model: {{kind: resnet18}}
{SGD}
train: {{steps: 2}}
""", "model"),
    "wide_resnet": tried(f"""
dataset: {{{COLORS}}}
model: {{kind: wide_resnet, depth: 10, widen_factor: 1}}
{SGD}
accumulation: {{steps: 2}}
""", "model accumulation quantization"),
    "vit": tried(f"""
dataset: {{{COLORS}}}
model: {{kind: vit, hidden_size: 16, num_layers: 2, num_heads: 2, intermediate_size: 24, patch_size: 4}}
{ADAMW}
""", "model activation_checkpointing amp quantization", "model activation_checkpointing quantization"),
    "gpt2": tried(f"""
dataset: {{kind: text_lm, train: {{files: [train.txt], document: paragraph}}, eval: {{files: [eval.txt]}}, seq_len: 16, {TEXTS}}}
model: {{{GPT2}}}
{ADAMW}
""", "dataset model task activation_checkpointing quantization amp metrics", "task activation_checkpointing"),
    "llama": tried(f"""
dataset: {{{TOKENS}}}
model: {{{LLAMA}}}
{ADAMW}
""", "dataset model task", "model"),
    "tokenized": tried(f"""
dataset: {{kind: tokenized, train: [tokens.bin], eval: [tokens.bin], vocab_size: 24, seq_len: 12, batch_size: 4, num_workers: 1}}
model: {{kind: lstm, hidden_size: 8, num_layers: 2}}
{ADAMW}
""", "dataset model task"),
    "mixture": tried(f"""
dataset: {{kind: mixture, batch_size: 4, num_workers: 1, sources: [
  {{weight: 1, kind: tokenized, train: [tokens.bin], eval: [tokens.bin], vocab_size: 24, seq_len: 12}},
  {{weight: 2, kind: synthetic_tokens, num_samples: 32, num_eval_samples: 8, seq_len: 12, vocab_size: 24}}]}}
model: {{{GPT2}}}
{ADAMW}
""", "dataset"),
    "t5": tried(f"""
dataset: {{kind: text_seq2seq, train: {{files: [pairs.jsonl]}}, eval: {{files: [pairs.jsonl]}}, max_source_length: 24, max_target_length: 16, {TEXTS}}}
model: {{{T5}}}
task: {{kind: seq2seq_lm}}
{ADAMW}
""", "dataset model task activation_checkpointing"),
    "bert": tried(f"""
dataset: {{kind: text_mlm, train: {{files: [train.txt]}}, eval: {{files: [eval.txt]}}, seq_len: 16, tokenizer: pieces.txt, cache_dir: cache, batch_size: 4, num_workers: 1}}
model: {{{BERT}}}
task: {{kind: masked_lm}}
{ADAMW}
""", "dataset model task activation_checkpointing"),
    "texts": tried(f"""
dataset: {{kind: text_classification, train: {{files: [classes.csv]}}, eval: {{files: [classes.csv]}}, max_length: 24, tokenizer: pieces.txt, cache_dir: cache,
  batch_size: 4, num_workers: 1}}
model: {{{BERT}}}
{ADAMW}
""", "dataset model task"),
    "text_values": tried(f"""
dataset: {{kind: text_classification, label_type: value, train: {{files: [values.csv]}}, eval: {{files: [values.csv]}}, max_length: 24, {TEXTS}}}
model: {{kind: lstm, hidden_size: 16, num_layers: 1, head: classification}}
task: {{kind: regression}}
{ADAMW}
""", "dataset model task"),
    "fasttext": tried(f"""
dataset: {{kind: text_classification, train: {{files: [classes.csv]}}, eval: {{files: [classes.csv]}}, max_length: 24, {TEXTS}}}
model: {{kind: fasttext, num_buckets: 64, embedding_size: 8}}
{SGD}
""", "model"),
    "token_layers": tried(f"""
dataset: {{kind: text_classification, train: {{files: [classes.csv]}}, eval: {{files: [classes.csv]}}, max_length: 24, {TEXTS}}}
model: {{kind: layers, layers: [{{kind: embedding, features: 8, name: x}}, {{kind: attention, num_heads: 1}}, layer_norm, mean_of_tokens, linear]}}
{ADAMW}
""", "model", "model"),
    "tags": tried(f"""
dataset: {{kind: text_token_classification, train: {{files: [tags.conll]}}, eval: {{files: [tags.conll]}}, max_length: 24, {TEXTS}}}
model: {{{BERT}, head: token_classification}}
task: {{kind: token_classification}}
{ADAMW}
""", "dataset model task"),
    "chat": tried(f"""
dataset: {{kind: chat, train: chat.jsonl, eval_fraction: 0.2, chat_template: chatml, seq_len: 64, {TEXTS}}}
model: {{{LLAMA}}}
{ADAMW}
""", "dataset task"),
    "preference": tried(f"""
dataset: {{kind: preference, train: preferences.jsonl, eval_fraction: 0.2, chat_template: chatml, seq_len: 256, {TEXTS}}}
model: {{init_from: teacher_of_text}}
task: {{kind: dpo}}
{ADAMW}
""", "dataset model task"),
    "distilled": tried(f"""
dataset: {{{COLORS}}}
{MLP}
{ADAMW}
distillation: {{teacher: {{init_from: teacher}}}}
""", "distillation task"),
    "adapters": tried(f"""
dataset: {{kind: text_lm, train: {{files: [train.txt]}}, eval: {{files: [eval.txt]}}, seq_len: 16, {TEXTS}}}
model: {{init_from: teacher_of_text, lora: {{target_modules: [c_attn, c_fc], rank: 2}}}}
{ADAMW}
""", "model"),
    "image_folder": tried(f"""
dataset: {{kind: image_folder, train: photos, eval: photos, cache_dir: cache, {RESIZED}}}
model: {{kind: cnn, channels: [4], hidden: 8}}
{ADAMW}
""", "dataset task"),
    "labels": tried(f"""
dataset: {{kind: image_folder, train: photos, eval: photos, labels: {{train: labels.csv, eval: labels.csv, separator: " "}}, {RESIZED}}}
model: {{kind: cnn, channels: [4], hidden: 8}}
task: {{kind: multi_label_classification}}
{ADAMW}
""", "dataset task"),
    "segmentation": tried(f"""
dataset: {{kind: segmentation_folder, train: {{images: images, masks: masks}}, eval: {{images: images, masks: masks}}, class_names: [a, b], {RESIZED}}}
model: {{kind: layers, layers: [{{kind: conv2d, channels: 4}}, relu, {{kind: conv2d, channels: auto, kernel_size: 1}}]}}
task: {{kind: semantic_segmentation}}
{ADAMW}
""", "dataset task"),
    "webdataset": tried(f"""
dataset: {{kind: webdataset, train: [shard-0.tar, shard-1.tar], eval: [shard-0.tar], shuffle_buffer: 8, cache_dir: cache, {RESIZED}}}
model: {{kind: cnn, channels: [4], hidden: 8}}
{ADAMW}
""", "dataset"),
    "idx": tried(f"""
dataset: {{kind: idx, train: {{images: i.gz, labels: l.gz}}, eval: {{images: i.gz, labels: l.gz}}, batch_size: 8, num_workers: 1}}
{MLP}
{ADAMW}
""", "dataset"),
    "cifar10": tried(f"""
dataset: {{kind: cifar10, path: cifar10, batch_size: 8, num_workers: 1}}
{MLP}
{ADAMW}
""", "dataset"),
    "cifar100": tried(f"""
dataset: {{kind: cifar100, path: cifar100, batch_size: 8, num_workers: 1}}
{MLP}
{ADAMW}
""", "dataset"),
    "ranks": tried(f"""
dataset: {{{COLORS}}}
model: {{kind: cnn, channels: [4], hidden: 8, batch_norm: true}}
{ADAMW}
accumulation: {{steps: 2}}
distributed: {{kind: ddp}}
""", "distributed", "distributed", ranks=2),
    "ranks_of_text": tried(f"""
dataset: {{{TOKENS}}}
model: {{{GPT2}}}
{ADAMW}
accumulation: {{steps: 2}}
distributed: {{kind: zero}}
""", "distributed", ranks=2),
    "pipeline": tried(f"""
dataset: {{{TOKENS}}}
model: {{kind: gpt2, hidden_size: 16, num_layers: 4, num_heads: 2, max_position_embeddings: 64, vocab_size: 512}}
{ADAMW}
accumulation: {{steps: 4}}
distributed: {{pipeline: 2}}
""", "distributed", ranks=2),
    "tensor": tried(f"""
dataset: {{{TOKENS}}}
model: {{{GPT2}}}
{ADAMW}
distributed: {{tensor: 2}}
""", "distributed", ranks=2),
    "replicas": tried(f"""
dataset: {{{COLORS}}}
model: {{kind: cnn, channels: [4], hidden: 8, batch_norm: true}}
{ADAMW}
distributed: {{kind: local_replicas, devices: 2}}
""", "distributed"),
}

# What a kind has beside the key that is tried, so that the key shows, by the kind's place.
STARTS = {
    r"optimizer\S*\.lr_scheduler\{step\}": {"step_size": 2},
    r"optimizer\S*\.lr_scheduler\{warmup_stable_decay\}": {"decay_ratio": 0.8},
    r"optimizer\S*\.lr_scheduler\{reduce_on_plateau\}": {"patience": 0, "threshold": 1},
    r"optimizer\{adamw_schedule_free\}": {"lr_scheduler": {"warmup": 3}},
    r"optimizer\S*\.param_groups\[\]": {"params": "*", "lr_scale": 0.5},
    r"train\.early_stopping": {"patience": 2, "min_delta": 9},
    r"checkpoint\.best": {"metric": "loss", "mode": "min"},
    r"dataset\S*\.transforms\[\]\{(resize|random_resized_crop|center_crop)\}": {"size": 6},
    r"dataset\S*\.eval_transforms\[\]\{(resize|center_crop)\}": {"size": 8},
    r"dataset\S*transforms\[\]\{color_jitter\}": {"brightness": 0.5},
    r"activation_checkpointing\{every_n\}": {"n": 1},
    r"activation_checkpointing\{pattern\}": {"modules": ["*"]},
    r"model\S*\.lora": {"target_modules": ["*"], "modules_to_save": []},
    r"dataset\S*\.fold": {"count": 4},
    r"model\S*\.rope_scaling\{linear\}": {"factor": 2},
    r"model\S*\.rope_scaling\{yarn\}": {"factor": 4, "mscale": 0.7, "mscale_all_dim": 0.9},
    r"model\S*\.rope_scaling\{longrope\}": {"short_factor": [1, 2, 2, 2], "long_factor": [1, 3, 3, 3], "original_max_position_embeddings": 8},
    r"model\S*\.mup": {"base_width": 4},
    r"model\S*\.rope_scaling\{llama3\}": {"original_max_position_embeddings": 8},
}

# Keys that may leave no trace in what a run leaves, and why: in each experiment, or in one whose name is before a colon.
UNSEEN = {
    r"dataset\S*\.(num_workers|prefetch_factor|persistent_workers|pin_memory)": "decides how fast samples come",
    r"dataset\S*\.eval_batch_size": "decides how fast samples come",
    r"(?!(layers|scripted|cnn):)\w+:dataset\S*\.drop_last": "the run has no batch that the samples don't fill",
    r"dataset\{(image_folder|webdataset|segmentation_folder)\}\.on_bad_sample": "no sample is bad",
    r"dataset\{(image_folder|webdataset|segmentation_folder|synthetic_images|idx|cifar10|cifar100)\}\.normalize_on": "decides where pixels become floats",
    r"dataset\S*\.test\S*": "`trainctl eval --split test` reads it",
    r"dataset\S*\.cache_dir": "decides where tokens are kept",
    r"dataset\S*\.(format|quoting|max_line_bytes|encoding_errors|encoding|separator|decimal|header_lines|missing_values)": "the files are as it is found by default",
    r"dataset\S*\.image_cache\.size_mib": "decides how fast samples come",
    r"dataset\S*\.eval_transforms\[\]\{(resize|center_crop)\}": "the images have this size",
    r"labels:dataset\{image_folder\}\.extensions\[\]": "a table may name each image",
    r"distillation\.teacher\S*\.dropout": "the teacher computes without dropout",
    r"dataset\{webdataset\}\.image\[\]": "no member has this ending",
    r"device\.(num_threads|caching_allocator|memory_limit_mib)": "decides on speed and memory",
    r"device\.deterministic": "the CPU's operators are deterministic",
    r"model\S*\.memory_format": "the layout in memory",
    r"optimizer\S*\.fused": "the same update in another pass",
    r"task\S*\.loss_chunk_size": "the same loss in other pieces",
    r"activation_checkpointing(\{\w+\}(\.n)?)?": "decides on memory",
    r"distributed\S*\.(backend|timeout_s|network_interface)": "decides how ranks talk",
    r"distributed\{\w+\}\.(bucket_mib|reshard_after_forward)": "decides on speed and memory",
    r"distributed\{ddp\}\.find_unused_parameters": "each parameter is used",
    r"ranks:distributed\{auto\}": "auto is ddp on several ranks",
    r"distributed\S*\.data": "auto is the same number",
    r"train\.on_non_finite": "no loss is infinite",
    r"train\.watchdog\.\S*": "no step hangs",
    r"checkpoint\.async": "decides when a checkpoint is written",
    r"checkpoint\.in_memory\S*": "a run whose processes are killed reads it",
    r"profiler\.(?!start_step)\S*": "`trainctl profile` reads it",
    r"(?!cnn:)\w+:profiler\.start_step": "the run is shorter than the profile",
    r"quantization\{none\}\S*": "`trainctl quantize` reads it",
    r"quantization\{qat\}\.(observer|engine_workarounds)": "`trainctl quantize` reads it",
    r"model\S*\.convolution_algorithm": "the images are too small for Winograd's algorithm",
    r"device": "the CPU is what is there",
    r"model\S*\.num_classes": "auto is the same number",
    r"model\{layers\}\.layers\[\d\]\{linear\}\.features": "auto is the same number",
    r"model\{llama\}\.(max_position_embeddings|rope_scaling(\{dynamic\}(\.factor)?)?)": "no sequence is that long",
    r"model\{llama\}\.rope_scaling\{longrope\}\.short_factor(\[\])?": "no sequence is that short",
    r"model\{llama\}\.layer_types(\[\])?": "each layer slides already",
    r"model\{llama\}\.fused_projections": "`trainctl export` reads it",
    r"(bert|tags):model\{bert\}\.pooler": "`trainctl export` knows ELECTRA by it",
    r"dataset\{text_mlm\}\.(train|eval)\.document": "the tokenizer puts no token between documents",
    r"model\S*\.head": "auto is the same head",
    r"model\{(gpt2|llama|lstm|t5)\}\.lora\.modules_to_save": "null is the classification head, which these have not",
    r"bert:model\{bert\}\.lora\.modules_to_save": "null is the classification head, which a network for masked_lm has not",
    r"model\S*\.init_policy": "all weights are in the file",
    r"(layers|cnn):accumulation\.batch_norm_update": "a step is one micro-batch, after which both update",
    r"activation_checkpointing\{none\}\.storage_dtype": "small tensors are kept as they are",
    r"model_card\.\S*": "`trainctl export` writes it",
}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tables(root):
    rows = [(i % 7 / 7, (i * i) % 11 - 5, "red blue".split()[i % 3 == 0]) for i in range(64)]
    (root / "table.csv").write_text("a,b,color,kind\n" + "".join(f"{a},{b},{c},{'yes' if a > 0.4 else 'no'}\n" for a, b, c in rows))
    (root / "numbers.csv").write_text("a,b,color,y\n" + "".join(f"{a},{b},{c},{3 * a - b}\n" for a, b, c in rows))


def write_texts(root, draw):
    for name in ("train", "eval"):
        (root / f"{name}.txt").write_text("".join(stand_ins.words(draw, 12) + "\n\n" for _ in range(24)))
    stand_ins.stand_in_models.write_word_pieces(root / "pieces.txt")
    texts = [stand_ins.words(draw, 2 + i % 5) for i in range(40)]
    (root / "classes.csv").write_text("text,label\n" + "".join(f'"{text}",' + f"{'few' if len(text) % 3 == 0 else 'many'}\n" for text in texts))
    (root / "values.csv").write_text("text,label\n" + "".join(f"{text},{len(text)}\n" for text in texts))
    (root / "tags.conll").write_text("".join("".join(f"{word} {'B-X' if len(word) > 3 else 'O'}\n" for word in text.split()) + "x O\n\n" for text in texts))
    write_rows(root / "pairs.jsonl", [{"source": text, "target": text[::-1]} for text in texts])
    chats = [[{"role": "user", "content": text[:6]}, {"role": "assistant", "content": text[:8]}] for text in texts]
    write_rows(root / "chat.jsonl", [{"messages": turns} for turns in [*chats, chats[0] * 4]])
    pairs = [{"prompt": text[:4], "chosen": text[:8], "rejected": text[:8][::-1] + "."} for text in texts]
    write_rows(root / "preferences.jsonl", [*pairs, {"prompt": "a", "chosen": "b" * 200, "rejected": "c"}])


def write_pictures(root, draw):
    write_images(root / "photos", count=32)
    images = sorted((root / "photos").rglob("*.png"))
    names = [image.relative_to(root / "photos") for image in images]
    rows = [f"{name.with_suffix('')},{name.parent}{' every' if i % 3 else ''}\n" for i, name in enumerate(names)]
    (root / "labels.csv").write_text("file_name,label\n" + "".join(rows))
    (root / "photos/class_0/inner").mkdir()
    for i, image in enumerate(images[:8]):
        shutil.copy(image, root / f"photos/class_0/inner/more{i}.{'x' if i % 2 else 'png'}")
    for directory in ("images", "masks"):
        (root / directory).mkdir()
        for i in range(32):
            (root / directory / f"{i}.{'x' if i % 4 == 0 and directory == 'images' else 'png'}").write_bytes(grey_png([[(x + i) // 3 % 2 for x in range(8)]] * 8))
    for shard in range(2):
        with tarfile.open(root / f"shard-{shard}.tar", "w") as file:
            for image in images[shard::2]:
                label = root / f"{image.stem}.cls"
                label.write_text(image.parent.name.removeprefix("class_"))
                file.add(image, image.name)
                file.add(label, label.name)
    parts = {"images": "i.gz", "labels": "l.gz"}
    stand_ins.write_idx(root, {"train": parts, "eval": parts}, draw)
    for kind in ("cifar10", "cifar100"):
        stand_ins.DATASETS[kind](root, {"path": kind}, draw)


def write_networks(root):
    """A scripted network, and runs whose networks teach or are tuned."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten(), torch.nn.Linear(4, 4))
    torch.jit.script(net).save(root / "net.pt")
    texts = f"dataset: {{kind: text_lm, train: {{files: [train.txt]}}, eval: {{files: [eval.txt]}}, seq_len: 16, {TEXTS}}}\nmodel: {{{GPT2}}}".replace("embeddings: 64", "embeddings: 256")
    for name, text in {"teacher": f"dataset: {{{COLORS}}}\n{MLP}", "teacher_of_text": texts}.items():
        trained = run("train", write_experiment(root, f"name: {name}\n{text}\n{COMMON}", f"{name}.yaml"), "--run-dir", name, cwd=root)
        assert trained.returncode == 0, trained.stderr


def write_data(root):
    """What the experiments read."""
    draw = random.Random(1)
    write_tables(root)
    write_texts(root, draw)
    write_pictures(root, draw)
    ids = {"token_dtype": "uint16", "eval_fraction": 0, "vocab_size": 24, "seq_len": 12, "train": ["."], "eval": []}
    stand_ins.write_tokens(root, ids, draw)
    write_networks(root)
