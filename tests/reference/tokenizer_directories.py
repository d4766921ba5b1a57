#!/usr/bin/env python3
"""Directories of tokenizers as strangers publish them, and the ids that AutoTokenizer gives, for tests/tokenizer/directories_test.cpp.

  tokenizer_directories.py DIRECTORY COUNT

Writes into DIRECTORY: COUNT directories, each with a vocabulary in one of the forms that AutoTokenizer reads and files beside it that are drawn
by chance, some of which disagree; and cases.json: for each {name, form, files, error} or {name, form, files, texts: [{text, ids, alone}], roles}.
`ids` are with the tokens that are put around a text, `alone` without.
"""
import base64
import json
import pathlib
import pkgutil
import random
import re
import sys
import warnings

try:
    import sentencepiece
    import tokenizers
    import transformers
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers.convert_slow_tokenizer import bytes_to_unicode
except ImportError:
    sys.exit(77)

transformers.logging.set_verbosity_error()
warnings.simplefilter("ignore")
CORPUS = ["the quick brown fox jumps over the lazy dog", "The Year 2024 has 12345 days, naïve café", "a an and are as at be by for from", "in is it of on or that the to with"]
TEXTS = ["the quick brown fox", "  The YEAR 2024, naïve  café ", "a<s>b</s> the <unk>", "[CLS] the [SEP] [MASK]fox", "one<|end|> two <|end|>three", "the<new> quick <new>",
         "x<|endoftext|>y", "12345\n\nthe\tdog", "<pad>the", "", "dogfox", "日本 the 🙂 …", "the <extra_id_0> of", "the<extra_id_99> ｆ<new> x", "A<|im_start|>user\nthe<|im_end|>", ".......", "a.....a......"]
EXTRA = ["<|end|>", "<new>", "<|im_start|>", "<|im_end|>", "quick"]


class Drawn:
    def __init__(self, random_, directory):
        self.random, self.directory = random_, directory

    def chance(self, share):
        return self.random.random() < share

    def write(self, name, content):
        (self.directory / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def trained_bpe(special):
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(CORPUS * 3, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(made.to_str())["model"]


def words():
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(CORPUS * 3, trainers.WordPieceTrainer(vocab_size=180, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    return made


def sentence_piece(kind, root):
    path = root / f"{kind}.model"
    if not path.exists():
        corpus = root / "corpus.txt"
        corpus.write_text("\n".join(CORPUS * 20))
        more = {"unigram": {}, "bpe": {"byte_fallback": True}, "t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}}[kind]
        sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(root / kind), vocab_size=340 if kind == "bpe" else 90, hard_vocab_limit=False,
                                                 model_type="bpe" if kind == "bpe" else "unigram", character_coverage=1.0, minloglevel=2, **more)
    return path.read_bytes()


def special(drawn, content, flags=True):
    """A token as a text, or as the object that transformers saves."""
    if not flags or drawn.chance(0.6):
        return content
    return {"__type": "AddedToken", "content": content, "lstrip": drawn.chance(0.2), "rstrip": drawn.chance(0.2), "normalized": drawn.chance(0.2), "single_word": drawn.chance(0.1)}


def side_files(drawn, size, classes, model_type, known):
    """tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json, each with a share of what it may have."""
    chance = drawn.chance
    config = {}
    if chance(0.75):
        config["tokenizer_class"] = drawn.random.choice(classes)
    roles = {"eos_token": [*known[:3], "<|end|>"], "bos_token": [*known[:2], "<|im_start|>"], "pad_token": [*known[:3], "<new>"], "unk_token": known[:3]}
    for role, contents in roles.items():
        if chance(0.3):
            config[role] = special(drawn, drawn.random.choice(contents))
    for key, values in {"add_bos_token": (True, False), "add_eos_token": (True, False), "add_prefix_space": (True, False), "do_lower_case": (True, False),
                        "strip_accents": (True, False, None), "tokenize_chinese_chars": (True, False), "legacy": (True, False), "clean_up_tokenization_spaces": (True, False),
                        "split_special_tokens": (False,), "model_max_length": (512,), "use_fast": (True,), "extra_ids": (0, 5)}.items():
        if chance(0.15):
            config[key] = drawn.random.choice(values)
    if chance(0.3):
        config[drawn.random.choice(["additional_special_tokens", "extra_special_tokens"])] = [special(drawn, one) for one in drawn.random.sample(EXTRA, 2)]
    if chance(0.35):
        config["added_tokens_decoder"] = {str(size + i): {"content": one, "lstrip": chance(0.2), "rstrip": chance(0.2), "normalized": chance(0.4), "single_word": chance(0.1),
                                                          "special": chance(0.6)} for i, one in enumerate(drawn.random.sample(EXTRA, drawn.random.randint(1, 3)))}
    if config or chance(0.5):
        drawn.write("tokenizer_config.json", config)
    if chance(0.3):
        drawn.write("special_tokens_map.json", {role: special(drawn, drawn.random.choice(contents)) for role, contents in roles.items() if chance(0.5)}
                    | ({"additional_special_tokens": drawn.random.sample(EXTRA, 1)} if chance(0.4) else {}))
    if chance(0.3):
        drawn.write("added_tokens.json", {one: size + i for i, one in enumerate(drawn.random.sample(EXTRA, 2))})
    if not config.get("tokenizer_class") or chance(0.3):
        drawn.write("config.json", {"model_type": model_type, "vocab_size": size + 110})


def byte_level_json(drawn):
    model = trained_bpe(["<|endoftext|>", "<s>", "</s>"] if drawn.chance(0.7) else [])
    made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "model": model,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": drawn.chance(0.3), "trim_offsets": True, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}
    contents = [one for one in ("<|endoftext|>", "<s>", "</s>") if one in model["vocab"]]
    size = len(model["vocab"])
    for i, content in enumerate(contents + drawn.random.sample(EXTRA, drawn.random.randint(0, 2))):
        made["added_tokens"].append({"id": model["vocab"].get(content, size + i - len(contents)), "content": content, "single_word": drawn.chance(0.1), "lstrip": drawn.chance(0.1),
                                     "rstrip": drawn.chance(0.1), "normalized": drawn.chance(0.2), "special": drawn.chance(0.7)})
    if contents and drawn.chance(0.4):
        made["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                  "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                  "special_tokens": {"<s>": {"id": "<s>", "ids": [model["vocab"]["<s>"]], "tokens": ["<s>"]}}}
    drawn.write("tokenizer.json", made)
    size += len([one for one in made["added_tokens"] if one["id"] >= size])
    side_files(drawn, size, ["PreTrainedTokenizerFast", "GPT2TokenizerFast", "GPT2Tokenizer", "Qwen2Tokenizer", "LlamaTokenizerFast", "TokenizersBackend", "CodeGenTokenizer"], "gpt2",
               ["<|endoftext|>", "</s>", "<s>"])


def word_piece_json(drawn):
    made = words()
    made.normalizer = normalizers.BertNormalizer(lowercase=drawn.chance(0.6), strip_accents=drawn.random.choice([None, True, False]))
    if drawn.chance(0.7):
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.decoder = decoders.WordPiece()
    size = made.get_vocab_size()
    made.save(str(drawn.directory / "tokenizer.json"))
    if drawn.chance(0.4):
        drawn.write("vocab.txt", "\n".join(made.id_to_token(i) for i in range(size)) + "\n")
    side_files(drawn, size, ["BertTokenizerFast", "BertTokenizer", "DistilBertTokenizer", "PreTrainedTokenizerFast", "ElectraTokenizerFast"], "bert", ["[SEP]", "[CLS]", "[PAD]"])


def unigram_json(drawn):
    proto = sentencepiece_model_pb2.ModelProto.FromString(sentence_piece("t5", drawn.directory.parent))
    made = tokenizers.Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in proto.pieces], unk_id=2))
    if drawn.chance(0.7):
        made.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    if drawn.chance(0.8):
        made.add_special_tokens([f"<extra_id_{i}>" for i in reversed(range(100))])
    made.save(str(drawn.directory / "tokenizer.json"))
    if drawn.chance(0.5):
        (drawn.directory / "spiece.model").write_bytes(sentence_piece("t5", drawn.directory.parent))
    side_files(drawn, made.get_vocab_size(), ["T5Tokenizer", "T5TokenizerFast", "PreTrainedTokenizerFast"], "t5", ["</s>", "<pad>", "<unk>"])


def vocab_txt(drawn):
    made = words()
    size = made.get_vocab_size()
    drawn.write("vocab.txt", ("\r\n" if drawn.chance(0.2) else "\n").join(made.id_to_token(i) for i in range(size)) + ("\n" if drawn.chance(0.8) else ""))
    side_files(drawn, size, ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizer", "PreTrainedTokenizerFast"], "bert", ["[SEP]", "[CLS]", "[PAD]"])


def vocab_and_merges(drawn):
    model = trained_bpe(["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>"])
    drawn.write("vocab.json", model["vocab"])
    drawn.write("merges.txt", "".join([*(["#version: 0.2\n"] if drawn.chance(0.8) else []), *(" ".join(merge) + "\n" for merge in model["merges"])]))
    classes = ["GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "RobertaTokenizer", "RobertaTokenizerFast", "CodeGenTokenizer", "CLIPTokenizer"]
    side_files(drawn, len(model["vocab"]), classes, drawn.random.choice(["gpt2", "qwen2", "roberta", "opt"]), ["<|endoftext|>", "</s>", "<s>"])


def sentence_piece_model(drawn):
    kind = drawn.random.choice(["unigram", "bpe", "t5"])
    name = {"unigram": drawn.random.choice(["tokenizer.model", "sentencepiece.bpe.model", "spiece.model"]), "bpe": "tokenizer.model", "t5": "spiece.model"}[kind]
    (drawn.directory / name).write_bytes(sentence_piece(kind, drawn.directory.parent))
    size = sentencepiece.SentencePieceProcessor(model_file=str(drawn.directory / name)).get_piece_size()
    classes = {"unigram": ["XLMRobertaTokenizer", "LlamaTokenizer", "AlbertTokenizer", "CamembertTokenizer", "XLNetTokenizer"], "bpe": ["LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer"],
               "t5": ["T5Tokenizer", "T5TokenizerFast"]}[kind]
    side_files(drawn, size, classes, {"unigram": "xlm-roberta", "bpe": "llama", "t5": "t5"}[kind], ["</s>", "<unk>", "<pad>" if kind == "t5" else "<s>"])


def tiktoken(drawn):
    vocabulary = trained_bpe([])["vocab"]
    back = {char: byte for byte, char in bytes_to_unicode().items()}
    ranks = sorted((rank, bytes(back[char] for char in token)) for token, rank in vocabulary.items())
    drawn.write("tokenizer.model", "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in ranks))
    side_files(drawn, len(ranks), ["PreTrainedTokenizerFast", "LlamaTokenizer", "TikTokenTokenizer"], "llama", ["<|endoftext|>", "</s>", "<s>"])


def tied_unigram(drawn):
    """Pieces of which several paths have the same sum of scores."""
    model = sentencepiece_model_pb2.ModelProto()
    for content, score, kind in (("<pad>", 0, 3), ("</s>", 0, 3), ("<unk>", 0, 2), ("\u2581", -2.0, 1), ("..", -3.1, 1), ("...", -4.3, 1), (".", -2.7, 1), ("a", -3.3, 1)):
        piece = model.pieces.add()
        piece.piece, piece.score, piece.type = content, score, kind
    model.trainer_spec.model_type, model.trainer_spec.pad_id, model.trainer_spec.eos_id, model.trainer_spec.unk_id, model.trainer_spec.bos_id = 1, 0, 1, 2, -1
    model.normalizer_spec.name, model.normalizer_spec.add_dummy_prefix = "identity", True
    (drawn.directory / "spiece.model").write_bytes(model.SerializeToString())
    drawn.write("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"})


def classes_of_transformers():
    """The names of all classes that transformers reads a tokenizer.json with."""
    found = set()
    for module in pkgutil.iter_modules(transformers.models.__path__):
        directory = pathlib.Path(transformers.models.__path__[0]) / module.name
        for file in directory.glob("tokenization_*.py"):
            found |= set(re.findall(r"^class (\w+Tokenizer)\(TokenizersBackend\)", file.read_text(encoding="utf-8"), re.M))
    return sorted(found)


def of_class(name, form):
    """A directory whose tokenizer.json is drawn by chance, and is of the class by its name."""
    def write(drawn):
        form(drawn)
        for path in drawn.directory.iterdir():
            if path.name != "tokenizer.json":
                path.unlink()
        drawn.write("tokenizer_config.json", {"tokenizer_class": name})
    write.__name__ = "of_any_class"
    return write


FORMS = [byte_level_json, word_piece_json, unigram_json, vocab_txt, vocab_and_merges, sentence_piece_model, tiktoken]


def case(number, root, form=None):
    directory = root / f"{number:03d}"
    directory.mkdir()
    drawn = Drawn(random.Random(number), directory)
    form = form or FORMS[number % len(FORMS)]
    form(drawn)
    one = {"name": directory.name, "form": form.__name__, "files": sorted(path.name for path in directory.iterdir())}
    try:
        made = transformers.AutoTokenizer.from_pretrained(directory)
        one["texts"] = [{"text": text, "ids": made(text)["input_ids"], "alone": made(text, add_special_tokens=False)["input_ids"]} for text in TEXTS]
        one["roles"] = {role: getattr(made, role + "_token_id", None) for role in ("bos", "eos", "pad", "unk")}
        one["class"] = type(made).__name__
    except Exception as error:  # whatever a file can cause
        one["error"] = f"{type(error).__name__}: {error}"[:300]
    return one


def main():
    root = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2])
    cases = [*(case(number, root) for number in range(count)), case(count, root, tied_unigram)]
    for name in classes_of_transformers():
        cases += [case(len(cases) + i, root, of_class(name, form)) for i, form in enumerate((byte_level_json, word_piece_json, byte_level_json))]
    (root / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main()
