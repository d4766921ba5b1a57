#!/usr/bin/env python3
"""Stock PyTorch's LSTM, for tests/model/lstm_reference_test.cpp. Written with torch 2.11.0.

torch_lstm.py record|check FILE    see recorded_model.py; the classifiers' rows are padded
"""
import sys

try:
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

VOCAB, BATCH, LENGTH, SIZE, CLASSES = 97, 4, 24, 16, 5


class Network(torch.nn.Module):
    """word_language_model of pytorch/examples, or a classifier by the last states."""

    def __init__(self, part):
        super().__init__()
        self.encoder = torch.nn.Embedding(VOCAB, 16 if part == "tied" else 12)
        self.rnn = torch.nn.LSTM(self.encoder.embedding_dim, SIZE, num_layers=2, batch_first=True, bidirectional=part == "bidirectional")
        if part in ("language-model", "tied"):
            self.decoder = torch.nn.Linear(SIZE, VOCAB)
            if part == "tied":
                self.decoder.weight = self.encoder.weight
        else:
            self.classifier = torch.nn.Linear(SIZE * (2 if part == "bidirectional" else 1), CLASSES)

    def forward(self, ids, mask):
        embedded = self.encoder(ids)
        if hasattr(self, "decoder"):
            return self.decoder(self.rnn(embedded)[0])
        packed = pack_padded_sequence(embedded, mask.sum(1), batch_first=True, enforce_sorted=False)
        hidden = self.rnn(packed)[1][0]  # [layers directions, B, H]
        return self.classifier(torch.cat([hidden[-2], hidden[-1]], 1) if self.rnn.bidirectional else hidden[-1])


def forward(model, inputs):
    return model(inputs["ids"], inputs.get("key_mask"))


def samples(part):
    inputs = {"ids": torch.randint(VOCAB, (BATCH, LENGTH))}
    if part in ("language-model", "tied"):
        return inputs, torch.randint(VOCAB, (BATCH, LENGTH))
    inputs["key_mask"] = (torch.arange(LENGTH) < torch.tensor([9, LENGTH, 1, 17]).unsqueeze(1)).long()
    return inputs, torch.randint(CLASSES, (BATCH,))


run(("language-model", "tied", "classification", "bidirectional"), Network, samples, forward)
