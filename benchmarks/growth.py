#!/usr/bin/env python3
"""How a step's time and memory grow with the work: depth, width, batch, sequence and image size. A Markdown table and a picture.

  growth.py [--axes depth width batch sequence "image size"] [--rounds 3] [--threads N] [--only-draw] [--trainctl PATH]

Each axis multiplies one size of a GPT-2 (of ResNet-18 for images) and leaves the others. An exponent is the slope of a straight line
through the points, both axes as logarithms. That of theory is the same line through closed formulas: floating-point operations for the time;
for the memory the parameters with gradients and AdamW's averages, and what the backward pass needs of the forward pass.
The figures go to build/performance/growth.json, the picture to docs/growth.svg, and performance.py puts both on its page.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import tempfile

from compare_step import ROOT, run

FIGURES = ROOT / "build/performance/growth.json"
PICTURE = ROOT / "docs/growth.svg"
VOCABULARY = 4096
GPT = {"layers": 4, "hidden": 256, "batch": 4, "length": 128}
IMAGES = {"batch": 32, "side": 64}
# axis: (what it changes, its values)
AXES = {
    "depth": ("layers", [2, 4, 8, 16, 32]),
    "width": ("hidden", [128, 256, 512, 1024]),
    "batch": ("batch", [1, 2, 4, 8, 16, 32]),
    "sequence": ("length", [64, 128, 256, 512, 1024, 2048]),
    "image size": ("side", [64, 96, 128, 192, 256]),
}
EXPERIMENT = """\
name: growth
device: {{kind: cpu, num_threads: {threads}}}
dataset: {{{data}, num_eval_samples: 0, batch_size: {batch}}}
model: {model}
task: {{kind: {task}}}
optimizer: {{kind: adamw, lr: 1e-4, lr_scheduler: {{kind: constant}}}}
train: {{steps: 10, log_every: 1000}}
checkpoint: {{every: 0}}
tracking: {{tensorboard: false}}
"""


def experiment(axis, sizes, threads):
    if axis == "image size":
        data = "kind: synthetic_images, num_classes: 1000, num_samples: 256, height: {side}, width: {side}".format(**sizes)
        return EXPERIMENT.format(threads=threads, data=data, batch=sizes["batch"], model="{kind: resnet18}", task="classification")
    data = "kind: synthetic_tokens, num_samples: 512, seq_len: {length}, vocab_size: {vocabulary}".format(**sizes, vocabulary=VOCABULARY)
    model = ("{{kind: gpt2, hidden_size: {hidden}, num_layers: {layers}, num_heads: {heads}, max_position_embeddings: {length}, dropout: 0, "
             "attention_dropout: 0}}").format(**sizes, heads=sizes["hidden"] // 32)
    return EXPERIMENT.format(threads=threads, data=data, batch=sizes["batch"], model=model, task="causal_lm")


# ---- theory


def gpt_parameters(sizes):
    hidden = sizes["hidden"]
    return sizes["layers"] * (12 * hidden**2 + 13 * hidden) + (VOCABULARY + sizes["length"] + 2) * hidden


def gpt_flops(sizes):
    """Forward and twice that backward: products with the weights and the vocabulary, and attention, half of which causality leaves out."""
    tokens, hidden, layers = sizes["batch"] * sizes["length"], sizes["hidden"], sizes["layers"]
    return 3 * tokens * (2 * (12 * layers * hidden**2 + VOCABULARY * hidden) + 2 * layers * sizes["length"] * hidden)


def gpt_bytes(sizes):
    """A block keeps 16 rows of its width for each token: both norms' inputs and outputs, q, k, v, attention's output, and four each before and
    after GELU. The head has the logits, up to 128 MiB of them at once, and the gradients of its input and weight."""
    tokens, hidden = sizes["batch"] * sizes["length"], sizes["hidden"]
    logits = min(128 * 2**20, 4 * tokens * VOCABULARY)
    return 16 * gpt_parameters(sizes) + 4 * tokens * hidden * (16 * sizes["layers"] + 3) + logits


RESNET_PARAMETERS = 11_689_512
RESNET_FLOPS = 3.63e9  # forward, of an image of 224 x 224 pixels
RESNET_KEPT = 4 * (2 * 64 * 112**2 + 9 * (64 * 56**2 + 128 * 28**2 + 256 * 14**2 + 512 * 7**2))  # inputs of convolutions and norms


def theory(axis, sizes):
    """(floating-point operations, bytes) of a step."""
    if axis != "image size":
        return gpt_flops(sizes), gpt_bytes(sizes)
    images = sizes["batch"] * (sizes["side"] / 224) ** 2
    return 3 * RESNET_FLOPS * images, 16 * RESNET_PARAMETERS + RESNET_KEPT * images


def exponent(xs, ys):
    """The slope of the straight line through the logarithms, by least squares."""
    return statistics.linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope


# ---- measurement


def step(axis, sizes, options, directory):
    """(milliseconds, MiB of tensors at the peak) of a step."""
    config, run_dir = pathlib.Path(directory) / "config.yaml", tempfile.mkdtemp(dir=directory)
    config.write_text(experiment(axis, sizes, options.threads))
    run([options.trainctl, "train", config, "--run-dir", run_dir, "--resume", "never", "--no-progress", "--log-level", "warning"])
    summary = json.loads((pathlib.Path(run_dir) / "summary.json").read_text())
    return summary["median_step_ms"], summary["peak_memory_mib"]


def measure(options):
    found = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    with tempfile.TemporaryDirectory() as directory:
        for axis in options.axes:
            size, values = AXES[axis]
            sizes = [(IMAGES if axis == "image size" else GPT) | {size: value} for value in values]
            rounds = [[step(axis, one, options, directory) for one in sizes] for _ in range(options.rounds)]
            by_size = list(zip(*rounds))
            found[axis] = {"sizes": values, "ms": [statistics.median(ms for ms, _ in steps) for steps in by_size],
                           "mib": [statistics.median(mib for _, mib in steps) for steps in by_size],
                           "flops": [theory(axis, one)[0] for one in sizes], "bytes": [theory(axis, one)[1] for one in sizes]}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(found, indent=1) + "\n")


def table(found):
    lines = ["| axis | from | to | step, ms | exponent of the time | of its operations | memory, MiB | exponent of the memory | of its theory |",
             "| --- |" + " --- |" * 8]
    for axis, one in found.items():
        sizes = one["sizes"]
        slopes = [f"{exponent(sizes, one[key]):.2f}" for key in ("ms", "flops", "mib", "bytes")]
        lines.append(f"| {axis} | {sizes[0]} | {sizes[-1]} | {one['ms'][0]:.1f} to {one['ms'][-1]:.1f} | {slopes[0]} | {slopes[1]} | "
                     f"{one['mib'][0]:.0f} to {one['mib'][-1]:.0f} | {slopes[2]} | {slopes[3]} |")
    return "\n".join(lines) + "\n"


# ---- picture

WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 190, 150, 66, 40, 66, 62


def ticks(low, high):
    """Powers of ten within the range, or its ends."""
    powers = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return powers if len(powers) >= 2 else [low, high]


def panel(x, y, title, unit, sizes, measured, expected):
    """A log-log plot: points as measured, and a line of the theory through their geometric mean."""
    shift = statistics.mean(math.log(a / b) for a, b in zip(measured, expected))
    line = [value * math.exp(shift) for value in expected]
    low, high = min(measured + line) / 1.3, max(measured + line) * 1.3

    def at(size, value):
        across = 12 + (WIDTH - 24) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return x + across, y + HEIGHT * (1 - math.log(value / low) / math.log(high / low))

    parts = [f'<text class="title" x="{x}" y="{y - 10}">{title}</text>', f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>']
    for size in sizes:
        across, _ = at(size, low)
        parts.append(f'<line class="grid" x1="{across:.1f}" y1="{y}" x2="{across:.1f}" y2="{y + HEIGHT}"/>'
                     f'<text class="tick" text-anchor="middle" x="{across:.1f}" y="{y + HEIGHT + 14}">{size}</text>')
    for tick in ticks(low, high):
        _, down = at(sizes[0], tick)
        parts.append(f'<line class="grid" x1="{x}" y1="{down:.1f}" x2="{x + WIDTH}" y2="{down:.1f}"/>'
                     f'<text class="tick" text-anchor="end" x="{x - 5}" y="{down + 4:.1f}">{tick:,.0f} {unit}</text>')
    points = [at(size, value) for size, value in zip(sizes, line)]
    parts.append('<polyline class="theory" points="' + " ".join(f"{across:.1f},{down:.1f}" for across, down in points) + '"/>')
    parts += [f'<circle class="measured" cx="{across:.1f}" cy="{down:.1f}" r="4"/>' for across, down in (at(*pair) for pair in zip(sizes, measured))]
    slopes = exponent(sizes, measured), exponent(sizes, expected)
    parts.append(f'<text class="slope" x="{x + 8}" y="{y + 16}">slope {slopes[0]:.2f}, theory {slopes[1]:.2f}</text>')
    return "".join(parts)


def draw(found):
    width = LEFT + len(found) * (WIDTH + GAP_X) - GAP_X + 14
    height = TOP + 2 * (HEIGHT + GAP_Y) - GAP_Y + 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img" '
             'aria-label="Time and memory of a step over depth, width, batch, sequence and image size, with slopes">',
             "<style>.title{font-size:14px;font-weight:600}.tick{font-size:10.5px;fill:#555}.slope{font-size:12px}.frame{fill:none;stroke:#999}"
             ".grid{stroke:#e4e4e4}.theory{fill:none;stroke:#8a8a8a;stroke-width:1.5;stroke-dasharray:5 4}.measured{fill:#1f6fb4}</style>",
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for column, (axis, one) in enumerate(found.items()):
        x = LEFT + column * (WIDTH + GAP_X)
        parts.append(panel(x, TOP, f"{axis}: time", "ms", one["sizes"], one["ms"], one["flops"]))
        parts.append(panel(x, TOP + HEIGHT + GAP_Y, f"{axis}: memory", "MiB", one["sizes"], one["mib"], one["bytes"]))
    PICTURE.write_text("\n".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only-draw", action="store_true", help="from the figures that are there")
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    options = parser.parse_args()
    if not options.only_draw:
        measure(options)
    found = json.loads(FIGURES.read_text())
    draw(found)
    print(table(found))


if __name__ == "__main__":
    main()
