#!/usr/bin/env python3
"""Photos of unequal classes: trainctl's class weights and balanced sampling against a PyTorch script's: a Markdown table.

  benchmarks/compare_imbalance.py [--seeds 1 2 3 4 5] [--epochs 8] [--bar 0.01] [--trainctl PATH]

The photos are Fashion-MNIST as PNG files in a folder for each class: 1,000 of each of five classes, 50 of each of the other five. Both
sides train the same network (two convolutions, 32 and 64 channels, a hidden layer of 128) with AdamW at 1e-3 and batches of 64, and
take the last weights. PyTorch uses CrossEntropyLoss(weight=…) with scikit-learn's balanced weights, and WeightedRandomSampler with
replacement. The metric is the macro F1 on the 10,000 test images. The run fails if the means over the seeds differ by more than the
bar and by more than two standard errors of their difference.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
NUM_FREQUENT, NUM_RARE = 1000, 50
BATCH = 64
WAYS = {"no remedy": [], "class weights": ["--set", "task.class_weighting=balanced"], "balanced sampling": ["--set", "dataset.balanced_sampling=true"]}
EXPERIMENT = """\
name: imbalance
device: {{kind: cpu, num_threads: 1}}
dataset:
  kind: image_folder
  train: {data}/train
  eval: {data}/test
  batch_size: {batch}
  eval_batch_size: 500
  num_workers: 1
  transforms: [{{kind: center_crop, size: 28}}, {{kind: normalize, mean: [0.286, 0.286, 0.286], std: [0.353, 0.353, 0.353]}}]
model: {{kind: cnn, channels: [32, 64], hidden: 128}}
optimizer: {{kind: adamw, lr: 1e-3, weight_decay: 0.01}}
train: {{epochs: {epochs}, eval_every: 0, log_every: 100}}
tracking: {{tensorboard: false}}
"""


def read_idx(name):
    content = gzip.decompress((DATA / name).read_bytes())
    shape = struct.unpack(f">{content[3]}I", content[4:4 + 4 * content[3]])
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=4 + 4 * content[3]).reshape(shape)


def chosen_rows(labels):
    """The first rows of each class, as many as the class has here."""
    return torch.cat([torch.nonzero(labels == label).flatten()[:NUM_FREQUENT if label < 5 else NUM_RARE] for label in range(10)]).sort().values


def write_photos(directory, images, labels):
    for i, (image, label) in enumerate(zip(images, labels.tolist())):
        path = directory / str(label) / f"{i:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("L", (28, 28), bytes(image.flatten().tolist())).save(path)


def macro_f1(predicted, labels):
    scores = []
    for label in range(10):
        hits = int(torch.sum((predicted == label) & (labels == label)))
        scores.append(2 * hits / max(1, int(torch.sum(predicted == label) + torch.sum(labels == label))))
    return statistics.mean(scores)


def trainctl_f1(options, directory, way, seed):
    config = directory / "photos.yaml"
    config.write_text(EXPERIMENT.format(data=directory, batch=BATCH, epochs=options.epochs))
    run = directory / f"{way.replace(' ', '_')}_{seed}"
    for command in (["train", config, "--run-dir", run, "--set", f"seed={seed}", *WAYS[way]], ["eval", run, "--json"]):
        result = subprocess.run([options.trainctl, *map(str, command)], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"compare_imbalance: {result.stderr}")
    return json.loads(result.stdout)["metrics"]["f1_macro"]


def network():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def as_input(images):
    pixels = (images.float() / 255 - 0.286) / 0.353
    return pixels.unsqueeze(1).expand(-1, 3, -1, -1).contiguous()


def pytorch_f1(options, train, test, way, seed):
    torch.manual_seed(seed)
    images, labels = as_input(train[0]), train[1].long()
    counts = torch.bincount(labels).double()
    balanced = len(labels) / (10 * counts)  # scikit-learn's compute_class_weight
    sampler = torch.utils.data.WeightedRandomSampler(balanced[labels], len(labels)) if way == "balanced sampling" else torch.utils.data.RandomSampler(labels)
    loss = torch.nn.CrossEntropyLoss(weight=balanced.float() if way == "class weights" else None)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for _ in range(options.epochs):
        for rows in torch.utils.data.BatchSampler(sampler, BATCH, drop_last=False):
            optimizer.zero_grad()
            loss(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = torch.cat([model(part).argmax(1) for part in as_input(test[0]).split(500)])
    return macro_f1(predicted, test[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--bar", type=float, default=0.01)
    parser.add_argument("--trainctl", default=str(ROOT / "build/release/bin/trainctl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    images, labels = read_idx("train-images-idx3-ubyte.gz"), read_idx("train-labels-idx1-ubyte.gz")
    rows = chosen_rows(labels)
    train = images[rows], labels[rows]
    test = read_idx("t10k-images-idx3-ubyte.gz"), read_idx("t10k-labels-idx1-ubyte.gz")
    failed = False
    print("| remedy | trainctl, macro F1 | PyTorch, macro F1 | difference |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        write_photos(directory / "train", *train)
        write_photos(directory / "test", *test)
        for way in WAYS:
            ours = [trainctl_f1(options, directory, way, seed) for seed in options.seeds]
            theirs = [pytorch_f1(options, train, test, way, seed) for seed in options.seeds]
            difference = statistics.mean(ours) - statistics.mean(theirs)
            error = ((statistics.variance(ours) + statistics.variance(theirs)) / len(options.seeds)) ** 0.5
            failed |= abs(difference) > options.bar and abs(difference) > 2 * error
            spread = [f"{statistics.mean(f):.4f} ({min(f):.4f} to {max(f):.4f})" for f in (ours, theirs)]
            print(f"| {way} | {spread[0]} | {spread[1]} | {difference:+.4f} ± {2 * error:.4f} |", flush=True)
    if failed:
        sys.exit("compare_imbalance: a difference is above the bar")


if __name__ == "__main__":
    main()
