#!/usr/bin/env python3
"""Writes a small translation set: numbers in English words and in German ones, as pairs in JSON lines.

  number_pairs.py DIRECTORY [COUNT]    DIRECTORY/train.jsonl and eval.jsonl: the first COUNT numbers (2,000), a tenth of them in eval.jsonl

  {"translation": {"en": "one thousand two hundred forty-two", "de": "eintausendzweihundertzweiundvierzig"}}
"""
import json
import pathlib
import random
import sys

ENGLISH = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen").split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = ("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn").split()
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english(number):
    if number >= 100:
        unit, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
        rest = number % unit
        return f"{english(number // unit)} {name}" + (f" {english(rest)}" if rest else "")
    if number < 20:
        return ENGLISH[number]
    return ENGLISH_TENS[number // 10 - 2] + (f"-{ENGLISH[number % 10]}" if number % 10 else "")


def german(number):
    """At the end of a word, one is `eins`, and before another part `ein`."""
    def before(part):
        return german(part).removesuffix("s") if part % 100 == 1 else german(part)

    if number >= 100:
        unit, name = (1000, "tausend") if number >= 1000 else (100, "hundert")
        rest = number % unit
        return before(number // unit) + name + (german(rest) if rest else "")
    if number < 20:
        return GERMAN[number]
    return (before(number % 10) + "und" if number % 10 else "") + GERMAN_TENS[number // 10 - 2]


def main():
    directory = pathlib.Path(sys.argv[1])
    numbers = list(range(int(sys.argv[2]) if len(sys.argv) > 2 else 2000))
    random.Random(1).shuffle(numbers)
    directory.mkdir(parents=True, exist_ok=True)
    num_eval = max(1, len(numbers) // 10)
    for name, chosen in (("eval", numbers[:num_eval]), ("train", numbers[num_eval:])):
        lines = (json.dumps({"translation": {"en": english(number), "de": german(number)}}, ensure_ascii=False) + "\n" for number in chosen)
        (directory / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
