"""Writes what an experiment reads, where it looks for it: small files of the real formats with random content."""
import array
import csv
import gzip
import json
import math
import pathlib
import random
import struct
import tarfile
import tempfile

import stand_in_models
from trainctl_process import grey_png, write_images

NUM_CLASSES = 2
IMAGE_SIDE = 72


def create(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def expand(pattern):
    """One of the paths that a glob stands for."""
    return pattern.replace("*", "0")


def write_idx(root, dataset, draw):
    for part in (dataset["train"], dataset["eval"]):
        count, side = 64, 28
        with gzip.open(create(root / part["images"]), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, side, side) + draw.randbytes(count * side * side))
        with gzip.open(create(root / part["labels"]), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))


def write_cifar(names, num_classes, num_labels):
    """What writes CIFAR's binary files: records of labels and three planes of 32×32 bytes."""
    def write(root, dataset, draw):
        for name in names:
            with open(create(root / dataset["path"] / name), "wb") as file:
                for _ in range(32):
                    file.write(bytes(draw.randrange(num_classes) for _ in range(num_labels)))
                    file.write(draw.randbytes(3 * 32 * 32))
    return write


def write_image_folder(root, dataset, draw):
    for part in filter(dataset.get, ("train", "eval")):
        write_images(root / dataset[part], side=IMAGE_SIDE, num_classes=NUM_CLASSES)
        if dataset.get("labels"):
            write_labels_of_images(root, dataset, part)


def write_labels_of_images(root, dataset, part):
    """A table with one or two labels for each image."""
    labels, directory = dataset["labels"], root / dataset[part]
    rows = [f"{image.relative_to(directory)},{image.parent.name}{labels['separator']}every" for image in sorted(directory.rglob("*.png"))]
    create(root / labels[part]).write_text("\n".join([f"{labels['file']},{labels['label']}", *rows, ""]))


def write_segmentation(root, dataset, draw):
    """Grey images that are their masks: class numbers, and the number without a class, in stripes."""
    numbers = [*range(len(dataset["class_names"])), dataset["ignore_index"]]
    for part in filter(dataset.get, ("train", "eval")):
        for directory in dataset[part].values():
            for i in range(64):
                rows = [[numbers[(x // 9 + i) % len(numbers)] for x in range(IMAGE_SIDE)]] * IMAGE_SIDE
                create(root / directory / f"{i}.png").write_bytes(grey_png(rows))


def write_webdataset(root, dataset, draw):
    for pattern in dataset["train"] + dataset["eval"]:
        with tempfile.TemporaryDirectory() as images, tarfile.open(create(root / expand(pattern)), "w") as shard:
            write_images(images, side=IMAGE_SIDE, num_classes=NUM_CLASSES)
            for image in sorted(pathlib.Path(images).rglob("*.png"), key=lambda path: path.name):
                label = image.with_suffix(".cls")
                label.write_text(image.parent.name.removeprefix("class_"))
                shard.add(image, image.name)
                shard.add(label, label.name)


def words(draw, count):
    return " ".join("".join(draw.choices("abcdefghijklmnopqrst", k=draw.randint(1, 6))) for _ in range(count))


def write_texts(root, dataset, draw):
    """Documents: members of JSON objects, a line each, or paragraphs."""
    for part in filter(None, (dataset["train"], dataset["eval"])):
        for name in part["files"]:
            path = create(root / expand(name))
            form, end = ('{{"text": "{}"}}', "\n") if path.suffix == ".jsonl" else ("{}", "\n\n")
            path.write_text("".join(form.format(words(draw, 60)) + end for _ in range(12)))
    stand_in_models.write_tokenizer(root, dataset["tokenizer"])


def write_labelled_texts(root, dataset, draw):
    for part in (dataset["train"], dataset["eval"]):
        header = [[part["label"], part["text"]]] + [["", ""]] * (part["header_lines"] - 1)
        rows = header + [["odd" if i % 2 else "even", words(draw, 20)] for i in range(64)]
        for name in part["files"]:
            create(root / name).write_text("".join("\t".join(row) + "\n" for row in rows))
    stand_in_models.write_tokenizer(root, dataset["tokenizer"])


def write_pairs(root, dataset, draw):
    """Pairs of texts, whose members may be in objects of other members."""
    def placed(name, value):
        for part in reversed(name.split(".")):
            value = {part: value}
        return value

    for part in (dataset["train"], dataset["eval"]):
        for name in part["files"]:
            with open(create(root / name), "w") as file:
                for _ in range(64):
                    (outer, source), = placed(part["source"], words(draw, 8)).items()
                    (other, target), = placed(part["target"], words(draw, 5)).items()
                    pair = {outer: source | target} if outer == other else {outer: source, other: target}
                    file.write(json.dumps(pair) + "\n")
    stand_in_models.write_tokenizer(root, dataset["tokenizer"])


def write_tokens(root, dataset, draw):
    """Ids without a header, in a file of a directory; of a file that is split, enough for an evaluation set."""
    letter = {"uint16": "H", "uint32": "I"}[dataset["token_dtype"]]
    num_sequences = 32 if dataset["eval_fraction"] == 0 else math.ceil(2 / dataset["eval_fraction"])
    for directory in dataset["train"] + dataset["eval"]:
        ids = array.array(letter, draw.choices(range(dataset["vocab_size"]), k=num_sequences * dataset["seq_len"] + 1))
        create(root / directory / "tokens.bin").write_bytes(ids.tobytes())


def write_table(root, dataset, draw):
    for name in dataset["train"] + dataset["eval"]:
        with open(create(root / name), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*dataset["features"], dataset["label"]])
            for _ in range(400):
                row = [draw.randrange(100) for _ in dataset["features"]]
                writer.writerow([*row, sum(row)])


def write_mixture(root, dataset, draw):
    for source in dataset["sources"]:
        DATASETS[source["kind"]](root, source, draw)


def write_nothing(root, dataset, draw):
    """For a dataset without files."""


DATASETS = {
    "cifar10": write_cifar([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"], 10, 1),
    "cifar100": write_cifar(["train.bin", "test.bin"], 20, 2),
    "idx": write_idx,
    "image_folder": write_image_folder,
    "mixture": write_mixture,
    "segmentation_folder": write_segmentation,
    "synthetic_images": write_nothing,
    "synthetic_tokens": write_nothing,
    "table": write_table,
    "text_classification": write_labelled_texts,
    "text_lm": write_texts,
    "text_mlm": write_texts,
    "text_seq2seq": write_pairs,
    "tokenized": write_tokens,
    "webdataset": write_webdataset,
}


def write(root, experiment):
    """Writes the experiment's data, tokenizer and first weights, relative paths below `root`."""
    dataset, model = experiment["dataset"], experiment["model"]
    DATASETS[dataset["kind"]](root, dataset, random.Random(1))
    if model.get("init_from"):
        stand_in_models.write_weights(root / model["init_from"], model)
