#!/usr/bin/env python3
"""What Pillow and torchvision make of images, for tests/dataset/image_*_test.cpp. Written with torchvision 0.26.0, Pillow 13.0.0.

images.py PART FILE
  decode     image files ("NAME.file", bytes) and Pillow's convert("RGB") of each ("NAME.pixels", [H, W, 3])
  broken     damaged and odd image files ("NAME.file"), and Pillow's convert("RGB") of those that it reads ("NAME.pixels")
  corpus     the images of Pillow's own tests, as 'broken', and "NAME.orientation" of JPEG files
  resize     "NAME.image", "NAME.plan" (top left height width, rows columns) and torchvision's crop and antialiased resize
  augment    "image", and what torchvision's operations make of it ("OP/MAGNITUDE" or "jitter/KIND/AMOUNT")
  spaces     for each of RandAugment, TrivialAugmentWide and AutoAugment: "CLASS/OP", all magnitudes that it may have
"""
import io
import json
import os
import pathlib
import random
import struct
import sys
import warnings
import zlib

try:
    import numpy
    import torch
    from PIL import Image, PngImagePlugin
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_corpus import data, one  # noqa: E402

DTYPES = {"uint8": "U8", "float32": "F32", "float64": "F64", "int64": "I64"}


def write_safetensors(path, arrays):
    header, offset = {}, 0
    arrays = {name: numpy.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        header[name] = {"dtype": DTYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def photos():
    """Two real photos of 640×427."""
    directory = data("photos") / "sklearn/datasets/images"
    return {name: Image.open(directory / f"{name}.jpg").convert("RGB") for name in ("china", "flower")}


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def rgb16_png(pixels):
    """16 bits a channel, which Pillow doesn't write."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)) +
            png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def interlaced_png(pixels):
    """Adam7, which Pillow doesn't write."""
    height, width, _ = pixels.shape
    rows = b""
    for top, left, down, across in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        part = pixels[top::down, left::across]
        if part.size:
            rows += b"".join(b"\0" + row.tobytes() for row in part)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)) +
            png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def decode_cases():
    china, flower = photos().values()
    part = flower.crop((100, 80, 100 + 203, 80 + 157))
    alpha = part.copy()
    alpha.putalpha(part.convert("L"))
    palette = part.quantize(64)
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "jpeg_444": saved(part, "JPEG", quality=90, subsampling=0),
        "jpeg_422": saved(part, "JPEG", quality=90, subsampling=1),
        "jpeg_420": saved(part, "JPEG", quality=90, subsampling=2),
        "jpeg_large": saved(china, "JPEG", quality=85),
        "jpeg_progressive": saved(part, "JPEG", quality=80, progressive=True),
        "jpeg_restarts": saved(part, "JPEG", quality=90, restart_marker_blocks=4),
        "jpeg_grey": saved(part.convert("L"), "JPEG", quality=90),
        "jpeg_cmyk": saved(part.convert("CMYK"), "JPEG", quality=95),
        "jpeg_rotated": saved(part, "JPEG", quality=90, exif=exif),
        "jpeg_one_pixel": saved(part.crop((0, 0, 1, 1)), "JPEG"),
        "png_rgb": saved(part, "PNG"),
        "png_rgba": saved(alpha, "PNG"),
        "png_grey": saved(part.convert("L"), "PNG"),
        "png_grey_alpha": saved(alpha.convert("LA"), "PNG"),
        "png_palette": saved(palette, "PNG"),
        "png_palette_clear": saved(palette, "PNG", transparency=3),
        "png_palette_4": saved(part.quantize(16), "PNG", bits=4),
        "png_one_bit": saved(part.convert("1"), "PNG"),
        "png_interlaced": interlaced_png(numpy.array(part)),
        "png_animated": saved(part, "PNG", save_all=True, append_images=[part.transpose(Image.Transpose.ROTATE_180)]),
        "webp_lossy": saved(part, "WEBP", quality=90),
        "webp_lossless": saved(part, "WEBP", lossless=True),
        "webp_alpha": saved(alpha, "WEBP", lossless=True),
    }
    arrays = {}
    for name, file in files.items():
        arrays[name + ".file"] = numpy.frombuffer(file, numpy.uint8)
        arrays[name + ".pixels"] = numpy.array(Image.open(io.BytesIO(file)).convert("RGB"))
    # The upper 8 of 16 bits, as torchvision's to_dtype(uint8, scale=True); Pillow cuts grey at 255 instead.
    deep = numpy.array(part).astype(numpy.uint16) * 256 + 77
    for name, file, pixels in (("png_rgb_16", rgb16_png(deep), deep // 256),
                               ("png_grey_16", saved(Image.fromarray(deep[:, :, 0]), "PNG"), (deep[:, :, :1] // 256).repeat(3, 2))):
        arrays[name + ".file"] = numpy.frombuffer(file, numpy.uint8)
        arrays[name + ".pixels"] = pixels.astype(numpy.uint8)
    refused = {
        "gif": saved(palette, "GIF"),
        "bmp": saved(part, "BMP"),
        "tiff": saved(part, "TIFF"),
        "webp_animated": saved(part, "WEBP", save_all=True, append_images=[part.transpose(Image.Transpose.ROTATE_180)]),
    }
    for name, file in refused.items():
        arrays[name + ".refused"] = numpy.frombuffer(file, numpy.uint8)
    return arrays


def whole_files():
    """A file of each kind, {name: (bytes, where its compressed data begin)}."""
    part = photos()["flower"].crop((100, 80, 100 + 90, 80 + 70))
    alpha = part.copy()
    alpha.putalpha(part.convert("L"))
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "jpeg": saved(part, "JPEG", quality=90),
        "jpeg_progressive": saved(part, "JPEG", quality=80, progressive=True),
        "jpeg_restarts": saved(part, "JPEG", quality=90, restart_marker_blocks=4),
        "jpeg_grey": saved(part.convert("L"), "JPEG", quality=90),
        "jpeg_cmyk": saved(part.convert("CMYK"), "JPEG", quality=90),
        "jpeg_exif": saved(part, "JPEG", quality=90, exif=exif, comment=b"a comment"),
        "jpeg_mpo": saved(part, "MPO", save_all=True, append_images=[part.transpose(Image.Transpose.ROTATE_180)]),
        "png": saved(part, "PNG"),
        "png_alpha": saved(alpha, "PNG"),
        "png_palette": saved(part.quantize(64), "PNG"),
        "png_interlaced": interlaced_png(numpy.array(part)),
        "webp": saved(part, "WEBP", quality=90),
        "webp_lossless": saved(part, "WEBP", lossless=True),
        "webp_alpha": saved(alpha, "WEBP", quality=80),
        "gif": saved(part.quantize(64), "GIF"),
        "bmp": saved(part, "BMP"),
    }
    starts = {"jpeg": b"\xff\xda", "png": b"IDAT", "webp": b"VP8", "gif": b"\x2c", "bmp": b"BM"}
    return {name: (file, file.index(starts[name.split("_")[0]])) for name, file in files.items()}


def broken(name, file, data, random, others):
    """{what was done: the file after it}."""
    size, cases = len(file), {}

    def place(first=data):
        return random.randrange(first, size)

    def flipped(at):
        changed = bytearray(file)
        changed[at] ^= 1 << random.randrange(8)
        return bytes(changed)

    for i in range(10):
        cases[f"cut_{i}"] = file[:place(4 if i < 2 else data)]
    for i in range(1, 5):
        cases[f"cut_at_end_{i}"] = file[:-i]
    for i in range(5):
        cases[f"spliced_{i}"] = file[:place()] + file
        cases[f"spliced_other_{i}"] = file[:place()] + others[i % len(others)]
        at = place()
        cases[f"inserted_{i}"] = file[:at] + random.randbytes(1 + 3 * i) + file[at:]
        cases[f"left_out_{i}"] = file[:at] + file[at + 1 + 5 * i:]
        cases[f"zeros_{i}"] = file[:at] + bytes(16) + file[at + 16:]
    for i in range(14):
        cases[f"flipped_{i}"] = flipped(place(4 if i < 7 else data))
    cases["garbage_behind"] = file + random.randbytes(99)
    cases["itself_behind"] = file + file
    cases["zeros_behind"] = file + bytes(3)
    if name.startswith("jpeg"):
        for marker, text in {"start": b"\xff\xd8", "end": b"\xff\xd9", "restart": b"\xff\xd3", "unknown": b"\xff\x02", "fill": b"\xff\xff\xff",
                             "comment": b"\xff\xfe\0\6abcd", "no_table": b"\xff\xc4\0\7abcde", "no_app": b"\xff\xe1\xff\xff"}.items():
            at = place(data + 40)
            cases[f"marker_{marker}"] = file[:at] + text + file[at:]
            cases[f"marker_before_end_{marker}"] = file[:-2] + text + file[-2:]
        sof = max(file.find(b"\xff\xc0"), file.find(b"\xff\xc2"))
        segment = file[sof:sof + 2 + int.from_bytes(file[sof + 2:sof + 4], "big")]
        at = place(data + 40)
        cases["two_frames"] = file[:at] + segment + file[at + len(segment):]
        cases["spliced_quarter"] = file[:data + (size - data) // 4] + file
    return cases


def broken_cases():
    arrays = {}
    files = whole_files()
    for name, (file, data) in files.items():
        others = [other for kind, (other, _) in files.items() if kind != name]
        for what, changed in broken(name, file, data, random.Random(name), others).items():
            arrays[f"{name}/{what}.file"] = numpy.frombuffer(changed, numpy.uint8)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", Image.DecompressionBombWarning)
                    arrays[f"{name}/{what}.pixels"] = numpy.array(Image.open(io.BytesIO(changed)).convert("RGB"))
            except Exception:  # whatever Pillow raises, it refuses the file
                pass
    return arrays


def eight_bits(image):
    """Pillow's convert("RGB"); of 16 bits the upper ones, where Pillow cuts at 255."""
    if image.mode.startswith("I;16"):
        return (numpy.array(image)[:, :, None] >> 8).astype(numpy.uint8).repeat(3, 2)
    return numpy.array(image.convert("RGB"))


def corpus_cases():
    PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = 1 << 30  # texts aren't read here, whatever their size
    arrays = {}
    folders = [one(data("pillow_images"), "Tests") / "images"]
    if folder := os.environ.get("TRAINCTL_CORPORA"):
        folders.append(pathlib.Path(folder) / "images")
    for path in (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()):
        file = path.read_bytes()
        name = str(path)
        arrays[name + ".file"] = numpy.frombuffer(file, numpy.uint8)
        if not file.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")) and file[8:12] != b"WEBP":
            arrays[name + ".file"] = arrays[name + ".file"][:10_000]  # other formats are refused
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                image = Image.open(path)
                image.load()
                arrays[name + ".pixels"] = eight_bits(image)
                if image.format == "JPEG":
                    arrays[name + ".orientation"] = numpy.array([image.getexif().get(0x0112, 1)])
        except Exception:  # whatever Pillow raises, it refuses the file
            arrays.pop(name + ".pixels", None)
    return arrays


def resize_cases():
    arrays = {}
    plans = {
        "whole": (0, 0, 427, 640, 224, 224), "half": (0, 0, 427, 640, 256, 384), "crop": (31, 77, 250, 301, 224, 224),
        "grow": (100, 200, 60, 45, 224, 224), "wide": (5, 0, 90, 640, 224, 224), "tall": (0, 301, 427, 33, 128, 96),
        "tiny": (10, 10, 200, 300, 3, 5), "row": (17, 20, 1, 333, 8, 50), "same": (3, 4, 64, 80, 64, 80),
        "slight": (0, 0, 226, 225, 224, 224), "point": (50, 60, 1, 1, 7, 9),
    }
    for photo, image in photos().items():
        pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)
        arrays[f"{photo}.image"] = numpy.array(image)
        for name, (top, left, height, width, rows, columns) in plans.items():
            resized = F.resized_crop(pixels, top, left, height, width, [rows, columns], antialias=True)
            arrays[f"{photo}/{name}.plan"] = numpy.array([top, left, height, width, rows, columns])
            arrays[f"{photo}/{name}.pixels"] = resized.permute(1, 2, 0).numpy()
    return arrays


def augment_cases():
    image = photos()["flower"].crop((100, 50, 100 + 160, 50 + 160))
    pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()
    arrays = {"image": numpy.array(image)}

    def add(name, result):
        arrays[name] = result.permute(1, 2, 0).numpy()

    magnitudes = {
        "shear_x": (0.3, -0.11), "shear_y": (0.25, -0.99), "translate_x": (32.9, -7.5), "translate_y": (70, -13.2), "rotate": (30, -9, 90, 135),
        "brightness": (0.9, -0.4), "color": (0.9, -0.6), "contrast": (0.5, -0.99), "sharpness": (0.9, -0.3), "posterize": (3, 8, 1),
        "solarize": (0.4, 1.0, 0.0), "auto_contrast": (0,), "equalize": (0,), "identity": (0,), "invert": (0,),
    }
    for interpolation in ("nearest", "bilinear"):
        for fill in (None, 60.0):
            base = v2.RandAugment(interpolation=v2.InterpolationMode(interpolation), fill=fill)
            for op, values in magnitudes.items():
                torch_name = "".join(word.capitalize() for word in op.split("_"))
                for value in values:
                    result = base._apply_image_or_video_transform(pixels, torch_name, value, base.interpolation, base._fill)
                    add(f"{interpolation}/{int(fill or 0)}/{op}/{value}", result)
    for kind, adjust, amounts in (("brightness", F.adjust_brightness, (0.5, 1.7)), ("contrast", F.adjust_contrast, (0.3, 1.5)),
                                  ("saturation", F.adjust_saturation, (0.0, 1.9)), ("hue", F.adjust_hue, (0.3, -0.5, 0.07))):
        for amount in amounts:
            add(f"jitter/{kind}/{amount}", adjust(pixels, amount))
    return arrays


def spaces():
    arrays = {}
    height, width = 160, 240
    for name, cls, bins in (("rand", v2.RandAugment, 31), ("trivial", v2.TrivialAugmentWide, 31), ("auto", v2.AutoAugment, 10)):
        for op, (magnitudes, signed) in cls._AUGMENTATION_SPACE.items():
            values = magnitudes(bins, height, width)
            values = numpy.array([0.0]) if values is None else values.to(torch.float64).numpy()
            snake = "".join("_" + c.lower() if c.isupper() else c for c in op)[1:]
            arrays[f"{name}/{snake}"] = numpy.concatenate([values, -values]) if signed else values
    return arrays


if __name__ == "__main__":
    parts = {"decode": decode_cases, "broken": broken_cases, "corpus": corpus_cases, "resize": resize_cases, "augment": augment_cases, "spaces": spaces}
    write_safetensors(sys.argv[2], parts[sys.argv[1]]())
