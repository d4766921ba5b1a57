#!/usr/bin/env python3
"""Whether a split layer's sum over ranks is faster in chunks that overlap with the product; stock PyTorch.

  .deps/python/bin/python3 benchmarks/chunked_sum.py [--nproc 2] [--device cpu|cuda] [--rounds 12]

Each rank computes its part of a row-parallel linear layer and sums it with the others': at once, or in chunks of rows
of which one is summed while the next is computed. Prints the median time of each, in turn, as a share of the time at
once, and what of that time the product alone takes. docs/decisions/0040 has the figures.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

SHAPES = ((1024, 3072, 768), (2048, 8192, 2048))  # rows, inputs of all ranks, outputs: GPT-2 124M, Llama 1B
CHUNKS = (2, 4, 8)


def product_and_sum(x, weight, chunks):
    """Returns the sum over ranks of x @ weight."""
    parts, works = [], []
    for rows in x.chunk(chunks):
        parts.append(rows @ weight)
        works.append(dist.all_reduce(parts[-1], async_op=True))
    for work in works:
        work.wait()
    return torch.cat(parts) if chunks > 1 else parts[0]


def measure(rank, options, store):
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // options.nproc))
    device = torch.device(options.device, rank) if options.device == "cuda" else torch.device("cpu")
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo", init_method=store, rank=rank,
                            world_size=options.nproc, timeout=datetime.timedelta(minutes=5))
    for rows, inputs, outputs in SHAPES:
        x = torch.randn(rows, inputs // options.nproc, device=device)
        weight = torch.randn(inputs // options.nproc, outputs, device=device)
        ways = {"at once": lambda: product_and_sum(x, weight, 1), "product": lambda: x @ weight}
        ways |= {f"{n} chunks": lambda n=n: product_and_sum(x, weight, n) for n in CHUNKS}
        seconds = {name: [] for name in ways}
        for round_ in range(options.rounds + 3):
            for name, way in ways.items():
                dist.barrier()
                start = time.perf_counter()
                way()
                if options.device == "cuda":
                    torch.cuda.synchronize()
                if round_ >= 3:
                    seconds[name].append(time.perf_counter() - start)
        if rank == 0:
            medians = {name: statistics.median(times) for name, times in seconds.items()}
            shares = ", ".join(f"{name} {medians[name] / medians['at once']:.2f}" for name in ways if name != "at once")
            print(f"{rows} x {inputs} x {outputs} on {options.nproc} ranks: at once "
                  f"{1e3 * medians['at once']:.1f} ms; {shares}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{pathlib.Path(folder) / 'store'}"
        torch.multiprocessing.spawn(measure, (options, store), nprocs=options.nproc)


if __name__ == "__main__":
    main()
