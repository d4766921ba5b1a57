#!/usr/bin/env python3
"""How long a resume takes in the middle of ten million samples, for each way in which samples may lie: a Markdown table.

  resume.py DIRECTORY [--samples 10000000] [--kinds idx image_folder tokenized webdataset] [--rounds 5] [--limit-ms 100]
            [--trainctl PATH] [--json FILE]

Makes the sets in DIRECTORY (2.5 GB) where they aren't there yet. Ten million images need not lie on the disk ten million times: the
class folders of image_folder are links to one of 10,000 hard links to one JPEG, the shards of webdataset are links to one of 10,000 samples.
opening: files, lists of samples, fingerprint. first batch: seeking, then a batch of 16 samples. Fails where a resume in the middle takes
the limit more than a start at the beginning.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile

import numpy
from PIL import Image

from compare_step import add_program_options

EACH = 10_000  # samples of a folder or shard
LENGTH = 32    # tokens
KINDS = ["idx", "image_folder", "tokenized", "webdataset"]


def once(directory, make):
    """Made beside its place and renamed, so that a part is never taken for the whole."""
    if not directory.exists():
        beside = directory.with_name(directory.name + ".part")
        beside.mkdir(parents=True)
        make(beside)
        beside.rename(directory)
    return directory


def write_idx(directory, samples):
    draw = numpy.random.default_rng(1)
    header = numpy.array([0x803, samples, 4, 4], ">u4").tobytes()
    (directory / "images").write_bytes(header + draw.integers(0, 256, samples * 16, numpy.uint8).tobytes())
    (directory / "labels").write_bytes(numpy.array([0x801, samples], ">u4").tobytes() + draw.integers(0, 10, samples, numpy.uint8).tobytes())


def write_tokens(directory, samples):
    draw = numpy.random.default_rng(1)
    for i in range(10):
        draw.integers(0, 50257, samples // 10 * LENGTH + 1, numpy.uint16).tofile(directory / f"tokens_{i}.bin")


def write_jpeg(path):
    Image.new("RGB", (32, 32), (90, 120, 60)).save(path)


def write_folders(directory, samples):
    target = directory.parent / "links"
    target.mkdir(exist_ok=True)
    write_jpeg(target / "image_0000000.jpg")
    for i in range(1, EACH):
        (target / f"image_{i:07}.jpg").hardlink_to(target / "image_0000000.jpg")
    for i in range(samples // EACH):
        (directory / f"class_{i:06}").symlink_to(target.resolve())


def write_shards(directory, samples):
    jpeg = directory / "image.jpg"
    label = directory / "label"
    write_jpeg(jpeg)
    label.write_text("3")
    first = directory / "shard_000000.tar"
    with tarfile.open(first, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(EACH):
            tar.add(jpeg, f"{i:07}.jpg")
            tar.add(label, f"{i:07}.cls")
    jpeg.unlink()
    label.unlink()
    for i in range(1, samples // EACH):
        (directory / f"shard_{i:06}.tar").hardlink_to(first)


def source(kind, root, samples):
    if kind == "idx":
        directory = once(root / "idx", lambda beside: write_idx(beside, samples))
        return {"kind": kind, "train": {"images": str(directory / "images"), "labels": str(directory / "labels")}}
    if kind == "tokenized":
        directory = once(root / "tokens", lambda beside: write_tokens(beside, samples))
        return {"kind": kind, "train": [str(directory)], "vocab_size": 50257, "seq_len": LENGTH}
    crop = {"cache_dir": str(root / "cache"), "transforms": [{"kind": "center_crop", "size": 32}]}
    if kind == "image_folder":
        return {"kind": kind, "train": str(once(root / "folders", lambda beside: write_folders(beside, samples))), **crop}
    return {"kind": kind, "train": [str(once(root / "shards", lambda beside: write_shards(beside, samples)))], "shuffle_buffer": 16384, **crop}


def measure(options, config, position):
    command = [options.trainctl, "data", "bench", config, "--from", str(position), "--seconds", "0.05", "--warmup", "0", "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return {key: result[key] for key in ("open_ms", "first_batch_ms", "peak_rss_mib")}


def compare(options, kind, directory):
    """Medians of starts at the beginning and in the middle, in turn."""
    dataset = {**source(kind, options.directory, options.samples), "batch_size": 16, "num_workers": 1}
    config = directory / f"{kind}.yaml"
    network = {"kind": "gpt2", "hidden_size": 8, "num_layers": 1, "num_heads": 1, "max_position_embeddings": LENGTH} if kind == "tokenized" else {"kind": "mlp"}
    task = "causal_lm" if kind == "tokenized" else "classification"
    config.write_text(json.dumps({"name": "resume", "dataset": dataset, "model": network, "task": {"kind": task}, "train": {"steps": 1}}))
    measure(options, config, 0)  # makes what is kept for later starts
    rounds = {"start": [], "middle": []}
    for _ in range(options.rounds):
        rounds["start"].append(measure(options, config, 0))
        rounds["middle"].append(measure(options, config, options.samples // 2))
    return {where: {key: statistics.median(result[key] for result in results) for key in results[0]} for where, results in rounds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-ms", type=float, default=100)
    add_program_options(parser)
    options = parser.parse_args()
    measured = {}
    print(f"{options.samples:,} samples, medians of {options.rounds} rounds\n")
    print("| kind | opening, ms | first batch at the start, ms | first batch in the middle, ms | peak MiB |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        for kind in options.kinds:
            measured[kind] = compare(options, kind, pathlib.Path(directory))
            start, middle = measured[kind]["start"], measured[kind]["middle"]
            print(f"| {kind} | {middle['open_ms']:.0f} | {start['first_batch_ms']:.1f} | {middle['first_batch_ms']:.1f} | {middle['peak_rss_mib']:.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    slow = [kind for kind, m in measured.items() if sum(m["middle"][key] - m["start"][key] for key in ("open_ms", "first_batch_ms")) > options.limit_ms]
    if slow:
        sys.exit(f"resume: over {options.limit_ms:g} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
