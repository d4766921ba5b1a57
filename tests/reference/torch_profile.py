#!/usr/bin/env python3
"""Stock PyTorch under torch.profiler: one JSON line with the operators' self times, milliseconds a step, and calls a step.

  torch_profile.py --model resnet18 --batch 8 --size 64 --classes 10 --steps 3 [--warmup 3] [--threads N] [--repeat N] [--contiguous]

The model is torchvision's, channels_last unless told otherwise, with cross-entropy and torch.optim.AdamW(fused=True): what `trainctl profile`
runs of the same name. "step_ms": without the profiler, the median; "profiled_step_ms": with it.
"""
import argparse
import json
import statistics
import time

import torch
import torchvision
from torch.profiler import ProfilerActivity, profile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--contiguous", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    layout = torch.contiguous_format if options.contiguous else torch.channels_last
    model = getattr(torchvision.models, options.model)(num_classes=options.classes).to(memory_format=layout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    images = torch.randn(options.batch, 3, options.size, options.size).to(memory_format=layout)
    labels = torch.randint(0, options.classes, (options.batch,))

    def step():
        begin = time.perf_counter()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return (time.perf_counter() - begin) * 1e3

    plain, profiled, operators = [], [], {}
    for _ in range(options.warmup):
        step()
    for _ in range(options.repeat):
        plain += [step() for _ in range(options.steps)]
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as recording:
            profiled += [step() for _ in range(options.steps)]
        for event in recording.key_averages():
            entry = operators.setdefault(event.key, {"self_ms": [], "calls": event.count / options.steps})
            entry["self_ms"].append(event.self_cpu_time_total / 1e3 / options.steps)
    print(json.dumps({"step_ms": statistics.median(plain), "profiled_step_ms": statistics.median(profiled),
                      "operators": {name: {"self_ms": statistics.median(entry["self_ms"]), "calls": entry["calls"]}
                                    for name, entry in operators.items()}}))


if __name__ == "__main__":
    main()
