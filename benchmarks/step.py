#!/usr/bin/env python3
"""The peer: one training step of stock PyTorch, on data that lies ready in memory. Prints one JSON line.

  step.py --workload resnet18 --batch 32 [--mode eager|compile] [--tuned] [--precision fp32|tf32|bf16|fp16]
          [--accumulate N] [--steps N] [--warmup N] [--threads N] [--device cpu|cuda]

Models are public reference implementations (torchvision's ResNets) or a plain torch.nn.Sequential; the optimizer is
torch.optim.AdamW(fused=True), images are channels_last: what PyTorch's own performance guide recommends.
--tuned (CPU): glibc keeps freed memory instead of returning it to the system, which saves stock PyTorch the page faults of
each step. It is the stronger peer; quote both.
"""
import argparse
import dataclasses
import json
import os
import resource
import statistics
import sys
import time
from typing import Callable

import torch
from torch import nn

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(256 << 20)}


def convolution(inputs, outputs, *, norm, pool):
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm)]
    layers += [nn.BatchNorm2d(outputs)] if norm else []
    layers += [nn.ReLU()]
    return layers + ([nn.MaxPool2d(2)] if pool else [])


def demo_cnn():
    return nn.Sequential(
        *convolution(1, 16, norm=False, pool=True), *convolution(16, 32, norm=False, pool=True),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def fmnist_cnn():
    return nn.Sequential(
        *convolution(1, 32, norm=True, pool=False), *convolution(32, 64, norm=True, pool=True), *convolution(64, 128, norm=True, pool=True),
        nn.Flatten(), nn.Linear(128 * 7 * 7, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))


def torchvision_model(name):
    import torchvision
    return getattr(torchvision.models, name)(num_classes=1000)


@dataclasses.dataclass(frozen=True)
class Workload:
    build: Callable[[], nn.Module]
    channels: int
    side: int
    classes: int


WORKLOADS = {
    "demo_cnn": Workload(demo_cnn, 1, 28, 10),
    "fmnist_cnn": Workload(fmnist_cnn, 1, 28, 10),
    "resnet18": Workload(lambda: torchvision_model("resnet18"), 3, 224, 1000),
    "resnet50": Workload(lambda: torchvision_model("resnet50"), 3, 224, 1000),
}


class Step:
    """One optimizer step of `accumulate` micro-batches."""

    def __init__(self, options):
        workload, device = WORKLOADS[options.workload], options.device
        self.device, self.accumulate = device, options.accumulate
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
        model = workload.build().to(device, memory_format=torch.channels_last).train()
        self.model = torch.compile(model) if options.mode == "compile" else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(device, enabled=options.precision == "fp16")
        images = torch.randn(options.batch, workload.channels, workload.side, workload.side, device=device)
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(workload.classes, (options.batch,), device=device)

    def __call__(self):
        total = 0.0
        for _ in range(self.accumulate):
            with torch.autocast(self.device, dtype=self.dtype, enabled=self.dtype is not None):
                loss = nn.functional.cross_entropy(self.model(self.images), self.labels) / self.accumulate
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return total


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def prepare(options):
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    tf32 = options.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def measure(step, options):
    """(seconds of each counted step, first loss, last loss)"""
    times, losses = [], []
    for i in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        if i >= options.warmup:
            times.append(time.perf_counter() - start)
            losses.append(float(loss))
    return times, losses[0], losses[-1]


def main():
    options = read_options()
    if options.tuned and "MALLOC_TOP_PAD_" not in os.environ:  # glibc reads them at start
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})
    prepare(options)
    times, first, last = measure(Step(options), options)
    median, samples = statistics.median(times), options.batch * options.accumulate
    print(json.dumps({
        "workload": options.workload, "mode": options.mode + (" tuned" if options.tuned else ""), "precision": options.precision,
        "batch": samples, "step_ms": round(median * 1e3, 3), "samples_per_s": round(samples / median, 1),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peak_cuda_mib": torch.cuda.max_memory_allocated() >> 20 if options.device == "cuda" else None,
        "loss_first": round(first, 4), "loss_last": round(last, 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
