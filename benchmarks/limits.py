#!/usr/bin/env python3
"""How near a training step comes to what this machine's products, convolutions and memory allow: Markdown tables.

  limits.py [--workload demo_cnn resnet18 bert …] [--threads N] [--rounds 3] [--seconds 0.3] [--peers tuned] [--json FILE]

The shapes of each workload's products and convolutions are those that stock PyTorch's profiler sees in one step. Each is computed by
every library that is here: MKL and oneDNN of LibTorch, and OpenBLAS and BLIS where Debian's libopenblas0-pthread and libblis4-pthread are
installed. Convolutions are oneDNN's, in both layouts of memory. Fused attention is LibTorch's operator, or its products alone. The limit of
a step is the sum of the fastest times and the time in which the optimizer's bytes pass the memory; all else is free. Activations, norms,
losses and launches so lie beyond the limit, as does any algorithm with less arithmetic. The share of the limit is limit / step. The steps
are those of compare_step.py, in the same run.
"""
import collections
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

import torch

import compare_step
import step as peer_step

ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112
PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
CONVOLUTIONS = {"aten::mkldnn_convolution": "forward", "aten::convolution_backward": "backward"}
FUSED_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
ATTENTION = {f"aten::{FUSED_ATTENTION}": "forward", f"aten::{FUSED_ATTENTION}_backward": "backward"}
# Libraries of Debian, by the name of their file and of the function that sets their threads.
BLAS = {"OpenBLAS": ("libopenblas.so.0", "openblas_set_num_threads"), "BLIS": ("libblis.so.4", "bli_thread_set_num_threads")}
# Bytes of a parameter that AdamW reads and writes: value, gradient, two averages; value and averages again.
ADAMW_BYTES = 7 * 4


def seconds_of(work, least):
    """The lower quartile of the runs within `least` seconds, five at the least."""
    work()
    times, end = [], time.perf_counter() + least
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 4]


def load_blas(threads):
    """Library -> cblas_sgemm, of those that are installed."""
    found = {}
    for name, (file, set_threads) in BLAS.items():
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        getattr(library, set_threads)(threads)
        sgemm = library.cblas_sgemm
        sgemm.argtypes = [ctypes.c_int] * 6 + [ctypes.c_float, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_int]
        found[name] = sgemm
    return found


# ---- what a step computes


def operators_of(workload, threads):
    """((operator, shapes, strides of the first two, arguments) -> calls in a step, number of parameters)."""
    batch = compare_step.WORKLOADS[workload][0]
    options = types.SimpleNamespace(workload=workload, batch=batch, seq=128, device="cpu", accumulate=1, precision="fp32", mode="eager", threads=threads)
    peer_step.prepare(options)
    one = peer_step.Step(options)
    one()
    with torch.profiler.profile(record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        one()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
    calls = collections.Counter()
    for event in events:
        name, given = event.get("name"), event.get("args", {})
        if name in PRODUCTS or name in CONVOLUTIONS or name in ATTENTION:
            concrete = tuple(given["Concrete Inputs"])
            calls[name, tuple(tuple(dims) for dims in given["Input Dims"]), tuple(tuple(strides) for strides in given["Input Strides"]), concrete] += 1
    return calls, sum(parameter.numel() for parameter in one.model.parameters())


def is_transposed(strides):
    return len(strides) >= 2 and strides[-1] != 1


def product_flops(left, right):
    return 2 * torch.Size(left).numel() * right[-1]


# ---- libraries


def matrix(shape, transposed):
    return torch.randn(*shape[:-2], shape[-1], shape[-2]).mT if transposed else torch.randn(*shape)


def product_times(left_shape, right_shape, transposed, blas, least):
    """Library -> seconds of left · right."""
    left, right = matrix(left_shape, transposed[0]), matrix(right_shape, transposed[1])
    # Without the pages of a new result, which a step takes from an allocator that keeps them.
    product = torch.empty(*left_shape[:-1], right_shape[-1])
    times = {"MKL": seconds_of(lambda: torch.matmul(left, right, out=product), least)}
    if left.dim() != 2:
        return times
    weight = right.t()
    times["oneDNN"] = seconds_of(lambda: torch.ops.mkldnn._linear_pointwise(left, weight, None, "none", [], ""), least)
    (m, k), n = left.shape, right.shape[1]
    for name, sgemm in blas.items():
        arguments = (ROW_MAJOR, TRANSPOSED if transposed[0] else AS_IT_IS, TRANSPOSED if transposed[1] else AS_IT_IS, m, n, k, 1.0,
                     left.data_ptr(), m if transposed[0] else k, right.data_ptr(), k if transposed[1] else n, 0.0, product.data_ptr(), n)
        times[name] = seconds_of(lambda call=sgemm, given=arguments: call(*given), least)
    return times


def convolution_times(name, dims, concrete, least):
    """Layout -> seconds of a convolution, and its FLOPs."""
    backward = CONVOLUTIONS[name] == "backward"
    shift = 1 if backward else 0
    input_shape, weight_shape = dims[shift], dims[shift + 1]
    if backward:
        stride, padding, dilation = (json.loads(concrete[i]) for i in (4, 5, 6))
        groups, mask = int(concrete[9]), json.loads(concrete[10].lower())
    else:
        padding, stride, dilation = (json.loads(concrete[i]) for i in (3, 4, 5))
        groups = int(concrete[6])
    times = {}
    for layout, memory in (("contiguous", torch.contiguous_format), ("channels_last", torch.channels_last)):
        x = torch.randn(*input_shape).to(memory_format=memory)
        weight = torch.randn(*weight_shape).to(memory_format=memory)
        y = torch.convolution(x, weight, None, stride, padding, dilation, False, [0, 0], groups)
        if backward:
            gradient = torch.randn_like(y)
            times[layout] = seconds_of(lambda: torch.ops.aten.convolution_backward(  # noqa: B023
                gradient, x, weight, None, stride, padding, dilation, False, [0, 0], groups, mask[:2] + [False]), least)
        else:
            times[layout] = seconds_of(lambda: torch.convolution(x, weight, None, stride, padding, dilation, False, [0, 0], groups), least)  # noqa: B023
    flops = 2 * y.numel() * torch.Size(weight_shape[1:]).numel() * (sum(mask[:2]) if backward else 1)
    return times, flops


def attention_times(name, dims, concrete, least):
    """Way -> seconds of attention, and its FLOPs: LibTorch's operator as a whole, or MKL's products alone. Causal attention needs half of
    each product."""
    backward = ATTENTION[name] == "backward"
    shift = 1 if backward else 0
    q, k, v = (torch.randn(*shape) for shape in dims[shift:shift + 3])
    is_causal = concrete[7 if backward else 4] == "True"
    operator, gradients = getattr(torch.ops.aten, FUSED_ATTENTION), getattr(torch.ops.aten, FUSED_ATTENTION + "_backward")
    output, log_sums = operator(q, k, v, 0.0, is_causal)
    (batch, heads, rows, size), columns = q.shape, k.shape[2]
    count = batch * heads
    scores = (count, rows, size), (count, size, columns), (False, True)  # Q Kᵀ, and the gradient times Vᵀ
    sums = (count, rows, columns), (count, columns, size), (False, False)  # P V, and the gradient of Q
    turned = (count, columns, rows), (count, rows, size), (True, False)  # the gradients of K and V
    products = [scores, sums, turned, turned] if backward else [scores, sums]
    part = 0.5 if is_causal else 1
    whole = (lambda: gradients(output, q, k, v, output, log_sums, 0.0, is_causal)) if backward else (lambda: operator(q, k, v, 0.0, is_causal))
    times = {"MKL's products": part * sum(product_times(*product, {}, least)["MKL"] for product in products), "LibTorch": seconds_of(whole, least)}
    return times, part * sum(product_flops(left, right) for left, right, _ in products)


def bandwidth(least):
    """Bytes a second of a large copy: each is read and written."""
    source = torch.randn(64 << 20)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / seconds_of(lambda: target.copy_(source), least)


def launch_seconds(least):
    """An operator on one number."""
    one = torch.ones(1)
    return seconds_of(lambda: one.add_(1), least)


def measured_operators(calls, blas, options):
    """Rows: (label, calls, FLOPs of one, way -> seconds)."""
    rows = []
    for (name, dims, strides, concrete), count in calls.items():
        if name in CONVOLUTIONS:
            times, flops = convolution_times(name, dims, concrete, options.seconds)
            shift = 1 if CONVOLUTIONS[name] == "backward" else 0
            label = f"convolution {CONVOLUTIONS[name]} {list(dims[shift])} {list(dims[shift + 1])}"
        elif name in ATTENTION:
            times, flops = attention_times(name, dims, concrete, options.seconds)
            label = f"attention {ATTENTION[name]} {list(dims[0])}"
        else:
            first = 1 if name in ("aten::addmm", "aten::baddbmm") else 0
            left, right = dims[first], dims[first + 1]
            transposed = is_transposed(strides[first]), is_transposed(strides[first + 1])
            times, flops = product_times(left, right, transposed, blas, options.seconds), product_flops(left, right)
            label = f"product {list(left)}{'ᵀ' if transposed[0] else ''} {list(right)}{'ᵀ' if transposed[1] else ''}"
        rows.append((label, count, flops, times))
    return sorted(rows, key=lambda row: -row[1] * min(row[3].values()))


# ---- tables


def print_operators(workload, rows, most):
    print(f"\n{workload}: the dearest products and convolutions\n")
    print("| operator | calls | GFLOP | fastest | GFLOP/s | milliseconds of the others |\n| --- | --- | --- | --- | --- | --- |")
    for label, count, flops, times in rows[:most]:
        best = min(times, key=times.get)
        others = ", ".join(f"{way} {1e3 * seconds:.2f}" for way, seconds in times.items() if way != best)
        print(f"| {label} | {count} | {flops / 1e9:.2f} | {best} {1e3 * times[best]:.2f} ms | {flops / times[best] / 1e9:.0f} | {others} |")


def measured_steps(workload, options, directory):
    """What compare_step.measure() returns. Measured by another process, since a child's peak of memory begins with that of its parent."""
    file = pathlib.Path(directory) / f"{workload}.json"
    words = [sys.executable, compare_step.__file__, "--workload", workload, "--rounds", options.rounds, "--warmup", options.warmup, "--scale", options.scale,
             "--threads", options.threads, "--precision", options.precision, "--peers", *options.peers, "--trainctl", options.trainctl, "--python", options.python, "--json", file]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.read_text())[workload]


def only_steps(workload, options, directory):
    """The steps of measure_workload(), without limits."""
    steps = measured_steps(workload, options, directory)
    return {"steps": {side: compare_step.median(results, "step_ms") / 1e3 for side, results in steps.items()}, "rounds": steps}


def measure_workload(workload, options, blas, rate, directory):
    calls, parameters = operators_of(workload, options.threads)
    rows = measured_operators(calls, blas, options)
    arithmetic = sum(count * min(times.values()) for _, count, _, times in rows)
    optimizer = parameters * ADAMW_BYTES / rate
    steps = only_steps(workload, options, directory)
    print_operators(workload, rows, options.operators)
    return {"arithmetic": arithmetic, "optimizer": optimizer, "gflop": sum(count * flops for _, count, flops, _ in rows) / 1e9, **steps}


def print_shares(found):
    sides = list(next(iter(found.values()))["steps"])
    print("\n| workload | GFLOP | products and convolutions | optimizer's bytes | limit | " + " | ".join(f"{side}: step, share" for side in sides) + " |")
    print("| --- |" + " --- |" * (4 + len(sides)))
    for workload, one in found.items():
        limit = one["arithmetic"] + one["optimizer"]
        cells = [f"{1e3 * seconds:.1f} ms, {100 * limit / seconds:.0f} %" for seconds in one["steps"].values()]
        print(f"| {workload} | {one['gflop']:.1f} | {1e3 * one['arithmetic']:.1f} ms | {1e3 * one['optimizer']:.1f} ms | {1e3 * limit:.1f} ms | " + " | ".join(cells) + " |")


def read_options(description):
    parser = compare_step.options_of_rounds(description, list(compare_step.WORKLOADS))
    parser.set_defaults(rounds=3)
    parser.add_argument("--peers", nargs="+", choices=compare_step.PEERS, default=["tuned"])
    parser.add_argument("--seconds", type=float, default=0.3, help="for each operator and library")
    parser.add_argument("--operators", type=int, default=8, help="rows of each workload's table")
    compare_step.add_program_options(parser)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of the steps; limits are of fp32")
    options = parser.parse_args()
    options.device = "cpu"
    torch.set_num_threads(options.threads)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    return options


def main():
    options = read_options(__doc__)
    blas, rate = load_blas(options.threads), bandwidth(1)
    print(f"{torch.backends.cpu.get_cpu_capability()}, {options.threads} threads; MKL, oneDNN" + "".join(f", {name}" for name in blas))
    print(f"memory: {rate / 1e9:.1f} GB/s of reading and writing; an operator on one number: {1e6 * launch_seconds(0.3):.1f} µs")
    with tempfile.TemporaryDirectory() as directory:
        found = {workload: measure_workload(workload, options, blas, rate, directory) for workload in options.workload}
    print_shares(found)
    print(f"\nmedian share: {statistics.median((one['arithmetic'] + one['optimizer']) / one['steps']['trainctl'] for one in found.values()):.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
