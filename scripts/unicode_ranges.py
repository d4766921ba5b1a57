#!/usr/bin/env python3
"""Writes src/tokenizer/unicode/unicode_ranges.cpp: the sets of characters that Hugging Face's `tokenizers` tells apart.

  .deps/python/bin/python3 scripts/unicode_ranges.py

The package freezes a different version of Unicode in each of its parts (16 in its regular expressions, 17 in its digits,
8 in its punctuation and controls, 12 in its normal forms), so no library's tables give the same answers. They are asked
for here, one character at a time, and written as ranges.
"""
import pathlib

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer/unicode/unicode_ranges.cpp"
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
STEP = 4096


def removed_by(splitter):
    """Characters that a pre-tokenizer takes out."""
    for first in range(0, len(CHARACTERS), STEP):
        some = CHARACTERS[first:first + STEP]
        left = set("".join(piece for piece, _ in splitter.pre_tokenize_str("".join(some))))
        yield from (c for c in some if c not in left)


def matching(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def digits():
    splitter = pre_tokenizers.Digits(individual_digits=True)
    for first in range(0, len(CHARACTERS), STEP):
        text = "".join("aa" + c for c in CHARACTERS[first:first + STEP]) + "aa"
        yield from (piece for piece, _ in splitter.pre_tokenize_str(text) if len(piece) == 1)


def words():
    splitter = pre_tokenizers.Whitespace()
    return (c for c in CHARACTERS if len(splitter.pre_tokenize_str("a" + c + "a")) == 1)


def dropped(normalizer):
    return (c for c in CHARACTERS if normalizer.normalize_str(c) == "")


def bert(**what):
    options = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**options, **what})


SETS = {
    "kLetters": ("\\p{L} of its regular expressions", matching(r"\p{L}")),
    "kNumbers": ("\\p{N} of its regular expressions", matching(r"\p{N}")),
    "kDecimals": ("\\d of its regular expressions", matching(r"\d")),
    "kRegexWords": ("\\w of its regular expressions", matching(r"\w")),
    "kWords": ("\\w of Whitespace and of single_word", words()),
    "kDigits": ("what Digits splits", digits()),
    "kPunctuation": ("what Punctuation and BertPreTokenizer split", removed_by(pre_tokenizers.Punctuation("removed"))),
    "kControls": ("what BertNormalizer's clean_text drops", dropped(bert(clean_text=True))),
    "kAccents": ("what BertNormalizer's strip_accents drops", dropped(bert(strip_accents=True))),
    "kMarks": ("what StripAccents drops", dropped(normalizers.StripAccents())),
}


def ranges(characters):
    """Gap since the last range and length of each range, in turn."""
    end, found = 0, []
    for code in map(ord, characters):
        if found and code == end:
            found[-1] += 1
        else:
            found += [code - end, 1]
        end = code + 1
    return found


def lines(numbers, width=118):
    line = " "
    for number in numbers:
        word = f" {number},"
        if len(line) + len(word) > width:
            yield line
            line = " "
        line += word
    yield line


def main():
    text = [f"// Written by scripts/unicode_ranges.py from tokenizers {tokenizers.__version__}: gap since the last range, length, ...",
            '#include "tokenizer/unicode/unicode_ranges.h"', "", "namespace trainctl::unicode_ranges {", "", "// clang-format off"]
    for name, (meaning, characters) in SETS.items():
        numbers = ranges(characters)
        text += [f"// {meaning}", f"const std::array<std::uint32_t, {len(numbers)}> {name}Data{{", *lines(numbers), "};", ""]
    text += ["// clang-format on", *(f"const std::span<const std::uint32_t> {name}{{{name}Data}};" for name in SETS)]
    text += ["", "}  // namespace trainctl::unicode_ranges", ""]
    OUTPUT.write_text("\n".join(text))


if __name__ == "__main__":
    main()
