#!/usr/bin/env python3
"""The peer of compare_loader.py: torchvision's ImageFolder behind torch's DataLoader, as one writes it. Prints one JSON line.

  load.py ROOT [--workers 2] [--batch 256] [--decoder torchvision|pil] [--seconds 10] [--warmup 3]

The transform is ImageNet's for training: RandomResizedCrop(224), horizontal flip, normalise. Peak memory is the sum over the
process and its workers of what each holds for itself (PSS), sampled while it runs.
"""
import argparse
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


def make_loader(options):
    normalise = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    if options.decoder == "pil":
        load, first = torchvision.datasets.folder.pil_loader, [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage()]
    else:
        def load(path):
            return torchvision.io.decode_image(path, mode=torchvision.io.ImageReadMode.RGB)
        first = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    data = torchvision.datasets.ImageFolder(options.root, transform=v2.Compose([*first, *normalise]), loader=load)
    return torch.utils.data.DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=options.workers,
                                       persistent_workers=options.workers > 0, prefetch_factor=4 if options.workers else None)


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
    parser.add_argument("--decoder", choices=["torchvision", "pil"], default="torchvision")
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
    print(json.dumps({"images": images, "images_per_s": images / wall, "cpu_s_per_1k": 1000 * (cpu_seconds() - cpu) / images,
                      "peak_mib": memory.peak}))
    memory.done.set()


if __name__ == "__main__":
    main()
