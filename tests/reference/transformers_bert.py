#!/usr/bin/env python3
"""BERT of transformers, for tests/model/bert_reference_test.cpp. Written with transformers 5.17.0.

transformers_bert.py record|check FILE    see recorded_model.py
transformers_bert.py minilm FILE          ids, token_types, key_mask, hidden (last hidden states) and pooled of the published all-MiniLM-L6-v2
"""
import pathlib
import subprocess
import sys

try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from tokenizers import Tokenizer

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLASSES = {
    "masked-lm": (transformers.BertForMaskedLM, 2),
    "classification": (transformers.BertForSequenceClassification, 5),
    "regression": (transformers.BertForSequenceClassification, 1),
    "token-classification": (transformers.BertForTokenClassification, 5),
}
VOCAB, BATCH, LENGTH = 97, 3, 24


def build(part):
    kind, labels = CLASSES[part]
    config = transformers.BertConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32,
                                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=labels, attn_implementation="sdpa")
    return kind(config).train()


def forward(model, inputs):
    return model(input_ids=inputs["ids"], token_type_ids=inputs["token_types"], attention_mask=inputs["key_mask"]).logits


def labels_of(part, mask):
    if part == "classification":
        return torch.randint(5, (BATCH,))
    if part == "regression":
        return torch.randn(BATCH)
    labels = torch.randint(VOCAB if part == "masked-lm" else 5, (BATCH, LENGTH))
    return labels.masked_fill((torch.rand(BATCH, LENGTH) > 0.4) | (mask == 0), -100)


def samples(part):
    ids = torch.randint(1, VOCAB, (BATCH, LENGTH))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    for row, length in enumerate((LENGTH, 17, 9)):
        mask[row, length:] = 0
        ids[row, length:] = 0
        types[row, length // 2:length] = 1
    return {"ids": ids, "token_types": types, "key_mask": mask}, labels_of(part, mask)


SENTENCES = [
    "The cat sat on the mat.",
    "Shares of the company fell 3.5% on Tuesday after it cut its full-year forecast, citing weak demand in Europe and higher raw-material costs.",
    "Is this a question?",
    "Naïve café owners in Zürich paid ¥4,000 for the résumé of an émigré.",
    "a",
]


def minilm(path):
    fetched = subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "minilm"], check=True, capture_output=True, text=True).stdout.strip()
    directory = next(pathlib.Path(fetched).glob("*/model"))
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(SENTENCES)
    ids = torch.tensor([e.ids for e in encoded])
    mask = torch.tensor([e.attention_mask for e in encoded])
    types = torch.tensor([e.type_ids for e in encoded])
    model = transformers.BertModel.from_pretrained(directory).eval()
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=mask, token_type_ids=types)
    save_file({"ids": ids, "key_mask": mask, "token_types": types, "hidden": result.last_hidden_state, "pooled": result.pooler_output}, path)


def main():
    if sys.argv[1] == "minilm":
        minilm(sys.argv[2])
    else:
        run(CLASSES, build, samples, forward)


main()
