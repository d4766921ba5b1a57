#!/usr/bin/env python3
"""Tokens per second on one core: trainctl against Hugging Face's `tokenizers`, the same files and text, in turn.

  cmake --build --preset release --target tokenize_speed
  .deps/python/bin/python3 benchmarks/tokenize_compare.py [--megabytes 4] [--rounds 5]

Each round times both on the same pieces of real text (plays, news, code; and the mixture that the tests use). trainctl's
time is what benchmarks/tokenize_speed.cpp measures around encode() and append_ids(); the
package's is that of encode() and of encode_batch_fast(), its fastest, on one thread. Both ran over the text once before.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/reference"))

from tokenizers import Tokenizer, processors  # noqa: E402
from tokenizer_corpus import corpus, data, one, python_and_headers, text_of  # noqa: E402
from tokenizers_package import gpt2, llama3, write_corpus  # noqa: E402

PROGRAM = ROOT / "build/release/bin/tokenize_speed"


def english(megabytes):
    text = text_of(sorted((data("reuters") / "orangecontrib/text/datasets").glob("*.tab")))
    return lines(text, megabytes)


def code(megabytes):
    return lines(text_of(python_and_headers()), megabytes)


def lines(text, megabytes, size=4000):
    text = text[:int(megabytes * 1e6)]
    return [text[at:at + size] for at in range(0, len(text), size)]


def tokenizer_files(directory):
    minilm = one(data("minilm"), "tokenizer.json")
    yield "bert (minilm)", minilm
    files = {"gpt2": gpt2(data("gpt2_vocabulary")), "llama3": llama3(one(data("llama3_vocabulary"), "llama3/tokenizer.model"))}
    files["gpt2"].post_processor = processors.ByteLevel(trim_offsets=False)
    for name, tokenizer in files.items():
        path = directory / f"{name}.json"
        tokenizer.save(str(path))
        yield name, path


def package_seconds(tokenizer, chunks, what):
    begin = time.perf_counter()
    if what == "encode":
        for chunk in chunks:
            tokenizer.encode(chunk)
    else:
        tokenizer.encode_batch_fast(chunks, add_special_tokens=False)
    return time.perf_counter() - begin


def our_seconds(path, corpus_file, what):
    return float(subprocess.run([PROGRAM, path, corpus_file, what], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        print(f"{'tokenizer':14} {'text':8} {'what':7} {'trainctl MB/s':>14} {'tokenizers MB/s':>16} {'ratio':>6}")
        texts = {"english": english(options.megabytes), "code": code(options.megabytes), "mixed": corpus(options.megabytes)}
        for tokenizer_name, path in tokenizer_files(directory):
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            for text_name, chunks in texts.items():
                write_corpus(directory, chunks)
                size = sum(len(chunk.encode()) for chunk in chunks) / 1e6
                for what in ("encode", "ids"):
                    package_seconds(tokenizer, chunks, what)
                    rounds = [(our_seconds(path, directory / "corpus.bin", what), package_seconds(tokenizer, chunks, what))
                              for _ in range(options.rounds)]
                    ours, theirs = (statistics.median(times) for times in zip(*rounds))
                    ratio = statistics.median(b / a for a, b in rounds)
                    print(f"{tokenizer_name:14} {text_name:8} {what:7} {size / ours:14.1f} {size / theirs:16.1f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
