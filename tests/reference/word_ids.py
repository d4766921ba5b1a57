"""Ids and labels of a CoNLL file's sentences as transformers' run_ner.py makes them: word_ids of pre-tokenized input.
Usage: word_ids.py VOCAB CONLL OUTPUT. Exit 77: tokenizers isn't there."""
import json
import pathlib
import sys

try:
    from tokenizers import BertWordPieceTokenizer
except ImportError:
    sys.exit(77)

LABELS = ["O", "ORG", "B-MISC", "LOC"]

vocab, conll, output = sys.argv[1:]
tokenizer = BertWordPieceTokenizer(vocab, lowercase=True)
sentences = []
for block in pathlib.Path(conll).read_text(encoding="utf-8").strip().split("\n\n"):
    words, tags = zip(*(line.split(" ") for line in block.split("\n")))
    encoding = tokenizer.encode(list(words), is_pretokenized=True)
    labels, previous = [], None
    for word in encoding.word_ids:
        labels.append(-100 if word is None or word == previous else LABELS.index(tags[word]))
        previous = word
    sentences.append({"ids": encoding.ids, "labels": labels})
pathlib.Path(output).write_text(json.dumps(sentences))
