#!/usr/bin/env python3
"""The loss curve of ResNet-20 as a list of layers against a PyTorch script's, on folders of small JPEGs: a Markdown table.

  .deps/python/bin/python3 benchmarks/compare_resnet20.py [--seeds 1 2 3] [--epochs 8] [--train 4000] [--test 2000] [--trainctl PATH]

The images are Fashion-MNIST as colour JPEGs of 32 × 32 pixels, in a folder for each class. Both sides take the network and the recipe of
configs/layers/resnet20.yaml: padded crops, flips, SGD with momentum, the rate a tenth after ⅝ and ⅞ of the run. Each draws its own
first weights, order and crops, so that curves are compared as means over the seeds. The run fails if the mean difference over all epochs
is more than two standard errors, or that of a single epoch more than four. Half an hour on two quiet cores.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
import torchvision
import yaml
from PIL import Image

from compare_imbalance import ROOT, read_idx

sys.path.insert(0, str(ROOT / "tests/reference"))
import torch_layers  # noqa: E402

BATCH = 128
MEAN, STD = [0.286] * 3, [0.353] * 3
CURVES = ("training loss", "test loss", "test accuracy")


def write_photos(directory, images, labels, count):
    for i, (image, label) in enumerate(zip(images[:count], labels[:count].tolist())):
        path = directory / str(label) / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = Image.frombytes("L", (28, 28), bytes(image.flatten().tolist()))
        small.convert("RGB").resize((32, 32), Image.Resampling.BICUBIC).save(path, quality=92)


def experiment(options, data):
    given = yaml.safe_load((ROOT / "configs/layers/resnet20.yaml").read_text())
    steps = options.train // BATCH
    size, normalize = {"kind": "center_crop", "size": 32}, {"kind": "normalize", "mean": MEAN, "std": STD}
    given["dataset"] = {"kind": "image_folder", "train": str(data / "train"), "eval": str(data / "test"), "batch_size": BATCH, "eval_batch_size": 500,
                        "drop_last": True, "num_workers": 1, "transforms": [size, {"kind": "random_crop", "padding": 4}, "random_horizontal_flip",
                                                                            normalize], "eval_transforms": [size, normalize]}
    given["optimizer"]["lr_scheduler"]["milestones"] = milestones(options, steps)
    given |= {"train": {"epochs": options.epochs, "eval_every": steps, "log_every": steps}, "checkpoint": {"every": 0}, "tracking": {"tensorboard": False},
              "device": {"kind": "cpu", "num_threads": options.threads}}
    return given


def milestones(options, steps):
    return [options.epochs * steps * 5 // 8, options.epochs * steps * 7 // 8]


def trainctl_curves(options, directory, data, seed):
    config = directory / "resnet20.yaml"
    config.write_text(yaml.safe_dump(experiment(options, data)))
    run = directory / f"run{seed}"
    result = subprocess.run([options.trainctl, "train", str(config), "--run-dir", str(run), "--set", f"seed={seed}", "--no-progress"],
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"compare_resnet20: {result.stderr}")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [record for record in records if record["event"] == "eval"]
    return {"training loss": [record["loss"] for record in records if record["event"] == "step"],
            "test loss": [record["loss"] for record in evaluations], "test accuracy": [record["accuracy"] for record in evaluations]}


def network():
    """ResNet-20 with the paper's first values; PyTorch's elsewhere."""
    net = torch_layers.resnet20()
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


def evaluate(net, loader):
    net.eval()
    loss = hits = count = 0
    with torch.no_grad():
        for images, labels in loader:
            logits = net(images)
            loss += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            hits += (logits.argmax(1) == labels).sum().item()
            count += len(labels)
    net.train()
    return loss / count, hits / count


def pytorch_curves(options, data, seed):
    torch.manual_seed(seed)
    transforms = torchvision.transforms
    ends = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    folders = {"train": transforms.Compose([transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip(), *ends]), "test": transforms.Compose(ends)}
    sets = {name: torchvision.datasets.ImageFolder(data / name, transform) for name, transform in folders.items()}
    train = torch.utils.data.DataLoader(sets["train"], BATCH, shuffle=True, drop_last=True, num_workers=1)
    test = torch.utils.data.DataLoader(sets["test"], 500, num_workers=1)
    net = network()
    # As in trainctl, biases and norms have no weight decay.
    decayed, exempt = ([p for p in net.parameters() if (p.dim() > 1) == matrix] for matrix in (True, False))
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 1e-4}, {"params": exempt}], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones(options, len(train)), gamma=0.1)
    curves = {name: [] for name in CURVES}
    for _ in range(options.epochs):
        total = 0
        for images, labels in train:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        curves["training loss"].append(total / len(train))
        for name, value in zip(CURVES[1:], evaluate(net, test)):
            curves[name].append(value)
    return curves


def compare(name, ours, theirs):
    """Prints the rows of one curve. Returns whether the sides agree."""
    agree = True
    seeds = len(ours)
    for epoch, (a, b) in enumerate(zip(zip(*ours), zip(*theirs)), 1):
        difference = statistics.mean(a) - statistics.mean(b)
        error = ((statistics.variance(a) + statistics.variance(b)) / seeds) ** 0.5
        agree &= abs(difference) <= 4 * error
        print(f"| {name} | {epoch} | {statistics.mean(a):.4f} | {statistics.mean(b):.4f} | {difference:+.4f} ± {error:.4f} |")
    means = [[statistics.mean(curve) for curve in side] for side in (ours, theirs)]
    difference = statistics.mean(means[0]) - statistics.mean(means[1])
    error = (sum(statistics.variance(side) for side in means) / seeds) ** 0.5
    print(f"| {name} | mean | {statistics.mean(means[0]):.4f} | {statistics.mean(means[1]):.4f} | {difference:+.4f} ± {error:.4f} |", flush=True)
    return agree and abs(difference) <= 2 * error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train", type=int, default=4000, help="training images")
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trainctl", default=str(ROOT / "build/release/bin/trainctl"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        for name, files, count in (("train", "train", options.train), ("test", "t10k", options.test)):
            write_photos(directory / name, read_idx(f"{files}-images-idx3-ubyte.gz"), read_idx(f"{files}-labels-idx1-ubyte.gz"), count)
        ours, theirs = [], []
        for seed in options.seeds:  # in turn, so that both sides have the same machine
            ours.append(trainctl_curves(options, directory, directory, seed))
            theirs.append(pytorch_curves(options, directory, seed))
            print(f"seed {seed}: done", file=sys.stderr)
    print("| curve | epoch | trainctl | PyTorch | difference ± standard error |\n| --- | --- | --- | --- | --- |")
    agree = [compare(name, [curves[name] for curves in ours], [curves[name] for curves in theirs]) for name in CURVES]
    if not all(agree):
        sys.exit("compare_resnet20: the curves differ by more than the seeds explain")


if __name__ == "__main__":
    main()
