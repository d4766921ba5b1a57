#!/usr/bin/env python3
"""Makes a tree of JPEGs (ROOT/class/n.jpg) out of real photos, for compare_loader.py.

  photo_tree.py ROOT [--count 2000] [--size small|large] [--classes 20] [--photos FILE...]

small: about 400×500; large: about 2600×3900. Without --photos: Debian's plasma-workspace-wallpapers (photos of up to 5120×2880)
where they are installed, else the two photos of scripts/fetch_data.py photos. Crops, scales and mirrors differ; the seed is fixed.
"""
import argparse
import pathlib
import random
import subprocess
import sys

from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"small": (400, 500), "large": (2600, 3900)}
WALLPAPERS = pathlib.Path("/usr/share/wallpapers")


def find_photos():
    found = sorted(p for p in WALLPAPERS.glob("*/contents/images/*") if p.suffix in (".jpg", ".jpeg", ".png")) if WALLPAPERS.is_dir() else []
    largest = {}
    for path in found:
        with Image.open(path) as image:
            pixels = image.width * image.height
        if pixels > largest.get(path.parent, (0, None))[0]:
            largest[path.parent] = (pixels, path)
    if largest:
        return [path for _, path in largest.values()]
    fetched = subprocess.run([sys.executable, str(ROOT / "scripts/fetch_data.py"), "photos"], capture_output=True, text=True, check=True)
    return sorted((pathlib.Path(fetched.stdout.strip()) / "sklearn/datasets/images").glob("*.jpg"))


def cut(photo, size, draw):
    """A random part of the photo, about `size`, sometimes upright, sometimes mirrored."""
    short, long = (round(side * draw.uniform(0.85, 1.15)) for side in size)
    width, height = (long, short) if draw.random() < 0.75 else (short, long)
    scale = draw.uniform(1.0, 2.0) * max(width / photo.width, height / photo.height)
    region = (round(width / scale), round(height / scale))
    left, top = draw.randint(0, photo.width - region[0]), draw.randint(0, photo.height - region[1])
    part = photo.resize((width, height), Image.Resampling.LANCZOS, (left, top, left + region[0], top + region[1]))
    return ImageOps.mirror(part) if draw.random() < 0.5 else part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--photos", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    photos = [Image.open(path).convert("RGB") for path in options.photos or find_photos()]
    draw = random.Random(1)
    for i in range(options.count):
        directory = options.root / f"class_{i % options.classes:03}"
        directory.mkdir(parents=True, exist_ok=True)
        cut(photos[i % len(photos)], SIZES[options.size], draw).save(directory / f"{i:06}.jpg", quality=draw.choice((85, 90, 95)))


if __name__ == "__main__":
    main()
