#!/usr/bin/env python3
"""Stock PyTorch's EmbeddingBag over hashed n-grams, for tests/model/fasttext_test.cpp. Written with torch 2.11.0.

torch_fasttext.py record|check FILE    see recorded_model.py; the rows are padded
"""
import sys

try:
    import torch

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

VOCAB, LENGTH, SIZE, BUCKETS, CLASSES = 97, 24, 16, 53, 5
LENGTHS = (9, LENGTH, 1, 17)  # the third row has no n-gram of two tokens
NGRAMS = {"words": (1, 2), "characters": (2, 4)}


def bucket(tokens):
    """The hash of src/model/fasttext.cpp, in Python's unbounded integers."""
    value = tokens[0]
    for token in tokens[1:]:
        value = (value * 16777619 + token + 1) % 2147483647
    return (value + len(tokens)) % BUCKETS


class Network(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.shortest, self.longest = NGRAMS[part]
        self.ngrams = torch.nn.Module()
        self.ngrams.embedding = torch.nn.Embedding(BUCKETS, SIZE)
        self.classifier = torch.nn.Linear(SIZE, CLASSES)

    def forward(self, ids, mask):
        bags = []
        for row, length in zip(ids.tolist(), mask.sum(1).tolist()):
            lengths = range(self.shortest, self.longest + 1)
            bags.append([bucket(row[i:i + n]) for n in lengths for i in range(length - n + 1)])
        offsets = torch.tensor([0] + [len(bag) for bag in bags[:-1]]).cumsum(0)
        all_buckets = torch.tensor([one for bag in bags for one in bag])
        return self.classifier(torch.nn.functional.embedding_bag(all_buckets, self.ngrams.embedding.weight, offsets, mode="mean"))


def forward(model, inputs):
    return model(inputs["ids"], inputs["key_mask"])


def samples(part):
    mask = (torch.arange(LENGTH) < torch.tensor(LENGTHS).unsqueeze(1)).long()
    return {"ids": torch.randint(VOCAB, (len(LENGTHS), LENGTH)), "key_mask": mask}, torch.randint(CLASSES, (len(LENGTHS),))


run(tuple(NGRAMS), Network, samples, forward)
