#!/usr/bin/env python3
"""The peer of compare_loader.py: torch's DataLoader, as one writes it. Prints one JSON line.

  load.py ROOT [--kind torchvision|pil|idx] [--workers 2] [--prefetch 2] [--batch 256] [--seconds 10] [--warmup 3]

torchvision, pil: torchvision's ImageFolder with that decoder, and ImageNet's transform for training: RandomResizedCrop(224),
horizontal flip, normalise. idx: a TensorDataset of Fashion-MNIST's images, normalised beforehand. Peak memory is the sum over the
process and its workers of what each holds for itself (PSS), sampled while it runs.
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import threading
import time

import torch
import torchvision
from torchvision.transforms import v2

from compare_loader import held_mib


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


class PeakMemory(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.done = 0, threading.Event()

    def run(self):
        while not self.done.wait(0.25):
            pids = [os.getpid(), *children(os.getpid())]
            self.peak = max(self.peak, sum(held_mib(pid) for pid in pids))


def cpu_seconds():
    """Of this process and its workers, who are still running."""
    tick = os.sysconf("SC_CLK_TCK")
    total = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for pid in children(os.getpid()):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def photos(options):
    normalise = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    if options.kind == "pil":
        load, first = torchvision.datasets.folder.pil_loader, [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage()]
    else:
        def load(path):
            return torchvision.io.decode_image(path, mode=torchvision.io.ImageReadMode.RGB)
        first = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    return torchvision.datasets.ImageFolder(options.root, transform=v2.Compose([*first, *normalise]), loader=load)


def idx_images(options):
    """Nothing is left to do for a sample but to be picked and stacked."""
    def read(name, header, shape):
        with gzip.open(pathlib.Path(options.root) / name) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8).reshape(shape)
    images = read("train-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28))
    labels = read("train-labels-idx1-ubyte.gz", 8, (-1,)).long()
    return torch.utils.data.TensorDataset((images.float() / 255 - 0.286) / 0.353, labels)


def make_loader(options):
    data = idx_images(options) if options.kind == "idx" else photos(options)
    return torch.utils.data.DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=options.workers,
                                       persistent_workers=options.workers > 0, prefetch_factor=options.prefetch if options.workers else None)


def take(loader, seconds):
    """Images of whole epochs' batches, until the time is over."""
    begin, images = time.perf_counter(), 0
    while True:
        for inputs, _ in loader:
            images += len(inputs)
            if time.perf_counter() - begin >= seconds:
                return images


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--kind", choices=["torchvision", "pil", "idx"], default="torchvision")
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warmup", type=float, default=3)
    options = parser.parse_args()
    memory = PeakMemory()
    memory.start()
    loader = make_loader(options)
    take(loader, options.warmup)
    # One epoch from its first batch on: what workers prepared ahead during the warm-up is thrown away with its iterator.
    cpu, begin = cpu_seconds(), time.perf_counter()
    images = take(loader, options.seconds)
    wall = time.perf_counter() - begin
    print(json.dumps({"samples": images, "samples_per_s": images / wall, "cpu_s_per_1k": 1000 * (cpu_seconds() - cpu) / images,
                      "peak_mib": memory.peak}))
    memory.done.set()


if __name__ == "__main__":
    main()
