"""What Hugging Face's `tokenizers` and Google's `sentencepiece` make of mixed text, for tests/tokenizer.

  tokenizers_package.py DIRECTORY MEGABYTES

Writes into DIRECTORY: corpus.bin (chunks: length, bytes); for each tokenizer NAME a line "NAME SHARE PATH" in list.txt and
NAME.bin (of every SHAREth chunk: number of tokens, their ids, begins, ends, words; all little-endian int32); cases.json
(pairs, truncation, decoding); train.txt and trained.json (what BpeTrainer learns from it).
"""
import array
import itertools
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_corpus import corpus, data, one  # noqa: E402

try:
    import sentencepiece
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def write(path, numbers):
    path.write_bytes(numbers.tobytes())


def write_corpus(directory, chunks):
    with open(directory / "corpus.bin", "wb") as file:
        for chunk in chunks:
            encoded = chunk.encode()
            file.write(len(encoded).to_bytes(4, "little") + encoded)


class Reference:
    def __init__(self, directory, chunks):
        self.directory, self.chunks = directory, chunks
        self.cases = []

    def add(self, name, path, tokenizer, share=1):
        """Encodes every `share`th chunk."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        numbers = array.array("i")
        chosen = self.chunks[::share]
        for chunk in chosen:
            encoded = tokenizer.encode(chunk)
            offsets = encoded.offsets
            words = [-1 if word is None else word for word in encoded.word_ids]
            numbers.extend([len(offsets), *encoded.ids, *(b for b, _ in offsets), *(e for _, e in offsets), *words])
        self.finish(name, path, numbers, share)
        if path.suffix == ".json" and path.name != "encoder.json":
            self.add_cases(path, tokenizer)

    def add_cases(self, path, tokenizer):
        """Pairs of texts cut to a length, and texts put together again."""
        rng = random.Random(len(self.cases))
        short = [chunk for chunk in self.chunks if 0 < len(chunk) <= 300]
        for number in range(12):
            first, second = rng.sample(short, 2)
            second = None if number % 3 == 0 else second
            special = number % 2 == 0
            length = None if number < 4 else rng.choice([6, 9, 20, 51])
            if length is None:
                tokenizer.no_truncation()
            else:
                tokenizer.enable_truncation(length)
            got = tokenizer.encode(first, second, add_special_tokens=special)
            ids = got.ids + ([rng.randrange(300)] if number == 5 else [])
            self.cases.append({
                "path": str(path), "first": first, "second": second, "max_length": length, "special": special, "ids": got.ids,
                "type_ids": got.type_ids, "offsets": got.offsets, "words": [-1 if w is None else w for w in got.word_ids],
                "is_special": got.special_tokens_mask, "decode": ids, "with_special": tokenizer.decode(ids, skip_special_tokens=False),
                "without_special": tokenizer.decode(ids, skip_special_tokens=True)})
        tokenizer.no_truncation()

    def add_json(self, name, tokenizer, share=1):
        path = self.directory / f"{name}.json"
        tokenizer.save(str(path))
        self.add(name, path, tokenizer, share)

    def finish(self, name, path, numbers, share):
        write(self.directory / f"{name}.bin", numbers)
        with open(self.directory / "list.txt", "a") as file:
            file.write(f"{name} {share} {path}\n")


def bert_from_vocab(path):
    tokenizer = Tokenizer(models.WordPiece.from_file(str(path), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    ids = {token: tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", list(ids.items()))
    return tokenizer


def gpt2(directory, add_prefix_space=False):
    tokenizer = Tokenizer(models.BPE.from_file(str(one(directory, "encoder.json")), str(one(directory, "vocab.bpe"))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def byte_chars():
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + n) for n, byte in enumerate(rest)}}


def llama3(path):
    """As transformers converts tiktoken's ranks."""
    import base64
    chars = byte_chars()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in path.read_bytes().splitlines())}
    text = {token: "".join(map(chars.__getitem__, token)) for token in ranks}
    merges = []
    for token in ranks:
        cuts = ((token[:i], token[i:]) for i in range(1, len(token)))
        merges += sorted(((left, right) for left, right in cuts if left in ranks and right in ranks),
                         key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    vocab = {text[token]: rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocab, [(text[a], text[b]) for a, b in merges], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    template = processors.TemplateProcessing("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", [begin])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def llama2(path):
    """A SentencePiece BPE as transformers converts it: no pre-tokenizer, spaces as ▁, bytes for what is not there."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for i, piece in enumerate(pieces):
        if model.is_control(i) or model.is_byte(i) or model.is_unknown(i):
            continue
        cuts = [(piece[:c], piece[c:]) for c in range(1, len(piece))]
        merges += [(-model.get_score(i), ids[a], ids[b], a, b) for a, b in cuts if a in ids and b in ids]
    merges = [(a, b) for *_, a, b in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def small_bpe(**options):
    """Some letters and pairs, so that pieces show; everything else is unknown, nothing, or bytes."""
    alphabet = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:!?'▁ ĠĊ", "é", "ü", "的", "世"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("a", "n"), ("an", "d"), ("i", "n"), ("e", "r"), ("Ġ", "t")]
    tokens = [*alphabet, *("".join(pair) for pair in merges)]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)] if options.get("byte_fallback") else []
    vocab = {token: i for i, token in enumerate(["<unk>", *dict.fromkeys(tokens)])}
    return Tokenizer(models.BPE(vocab, merges, **{"unk_token": "<unk>", **options}))


def pipelines():
    """Combinations that no published tokenizer has, so that each component is seen at work."""
    n, p = normalizers, pre_tokenizers
    yield "nfc_whitespace", n.NFC(), p.Whitespace(), {}
    yield "nfd_split", n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), p.WhitespaceSplit(), {}
    yield "nfkc_digits", n.NFKC(), p.Sequence([p.Digits(individual_digits=True), p.Punctuation("merged_with_previous")]), {"fuse_unk": True}
    yield "nfkd_metaspace", n.Sequence([n.Strip(), n.NFKD()]), p.Metaspace(prepend_scheme="first"), {"byte_fallback": True}
    yield "replace_regex", n.Sequence([n.Replace(Regex(r"\s+"), " "), n.Replace("e", "ee"), n.Prepend("the ")]), p.Split(Regex(r"[a-z]+|\d"), "merged_with_next"), {}
    yield "cased_bert", n.BertNormalizer(clean_text=False, lowercase=False, strip_accents=False), p.Sequence([p.BertPreTokenizer(), p.Digits()]), {}
    yield "accented_bert", n.BertNormalizer(lowercase=True, strip_accents=False), p.Split(" ", "contiguous"), {"fuse_unk": True}
    yield "lower_bytes", n.Lowercase(), p.ByteLevel(add_prefix_space=True), {}
    yield "bytes_first", n.ByteLevel(), p.Sequence([p.CharDelimiterSplit("Ġ"), p.Punctuation("isolated")]), {}
    yield "nothing", None, None, {"byte_fallback": True}
    yield "metaspace_never", n.Nmt(), p.Metaspace(prepend_scheme="never", split=False), {"unk_token": None}
    yield "metaspace_bytes", None, p.Sequence([p.Metaspace(), p.ByteLevel(add_prefix_space=False, use_regex=True)]), {}
    yield "inverted", None, p.Split(Regex(r"\w+"), "removed", invert=True), {}


DECODERS = {
    "nfc_whitespace": decoders.WordPiece(prefix="t", cleanup=True),
    "nfkd_metaspace": decoders.Metaspace(prepend_scheme="first"),
    "metaspace_never": decoders.Metaspace(prepend_scheme="never"),
    "lower_bytes": decoders.ByteLevel(),
    "nothing": decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip("t", 2, 0)]),
    "cased_bert": decoders.BPEDecoder(suffix="e"),
    "inverted": decoders.CTC(pad_token="<unk>", word_delimiter_token="a"),
    "replace_regex": decoders.Sequence([decoders.Replace(Regex("[aeiou]"), "#"), decoders.Replace("th", "")]),
}


def trained(directory, chunks):
    """On one text, as trainctl's training takes a file."""
    text = "".join(chunks)[:400_000]
    (directory / "train.txt").write_bytes(text.encode())
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, min_frequency=2, show_progress=False, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(directory / "trained.json"))


def added_tokens(tokenizer):
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False), "[SEP]"])
    tokenizer.add_tokens([AddedToken("Word", normalized=True, single_word=True), AddedToken("don't", rstrip=True), "1234567", "123", "é"])


def sentence_piece(reference, name, path, share):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    numbers = array.array("i")
    for chunk in reference.chunks[::share]:
        pieces = model.encode(chunk, return_type="proto").pieces
        before = [0, *itertools.accumulate(byte & 0xC0 != 0x80 for byte in chunk.encode())]  # characters before each byte
        numbers.extend([len(pieces), *(p.id for p in pieces), *(before[p.begin] for p in pieces), *(before[p.end] for p in pieces)])
        numbers.extend([0] * len(pieces))
    reference.finish(name, path, numbers, share)


def main():
    directory, megabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    chunks = corpus(megabytes)
    write_corpus(directory, chunks)
    reference = Reference(directory, chunks)
    minilm, gpt2_files = data("minilm"), data("gpt2_vocabulary")
    reference.add("minilm", one(minilm, "tokenizer.json"), Tokenizer.from_file(str(one(minilm, "tokenizer.json"))))
    reference.add("vocab_txt", one(minilm, "vocab.txt"), bert_from_vocab(one(minilm, "vocab.txt")), 4)
    reference.add("gpt2_files", one(gpt2_files, "encoder.json"), gpt2(gpt2_files))
    trimmed = gpt2(gpt2_files, add_prefix_space=True)
    trimmed.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
    reference.add_json("gpt2_trimmed", trimmed, 4)
    roberta = gpt2(gpt2_files)
    roberta.post_processor = processors.RobertaProcessing(("<|endoftext|>", 50256), ("!", 0))
    reference.add_json("roberta", roberta, 8)
    bert = bert_from_vocab(one(minilm, "vocab.txt"))
    bert.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    reference.add_json("bert_processing", bert, 16)
    ranks = one(data("llama3_vocabulary"), "llama3/tokenizer.model")
    reference.add_json("llama3", llama3(ranks))
    reference.add("llama3_ranks", ranks, llama3(ranks), 4)
    mistral = one(data("mistral_vocabulary"), "tokenizer.model.v1")
    reference.add_json("llama2", llama2(mistral), 2)
    for name, normalizer, pre_tokenizer, options in pipelines():
        tokenizer = small_bpe(**options)
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        if name in DECODERS:
            tokenizer.decoder = DECODERS[name]
        added_tokens(tokenizer)
        reference.add_json(name, tokenizer, 8)
    for path in sorted(data("sentencepiece_models").rglob("*.model")):
        # Over 20,000 letters without a blank, SentencePiece's sums in float take "3", "41" and the sums in double of tokenizers, as ours, "34", "1".
        if path.stem != "kyoto_ja_unigram_8000":
            sentence_piece(reference, f"sentencepiece_{path.stem}", path, 4)
    sentence_piece(reference, "sentencepiece", mistral, 4)
    (directory / "cases.json").write_text(json.dumps(reference.cases))
    trained(directory, chunks)


if __name__ == "__main__":
    main()
