"""Writes small tokenizers and weights in the formats of those that scripts/fetch_data.py gets."""
import array
import base64
import itertools
import json
import math
import pathlib
import random
import string
import struct

CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation
SPECIAL_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def pieces():
    """BERT's vocab.txt: single characters, at a word's start and within it."""
    return SPECIAL_PIECES + [*CHARACTERS] + [f"##{character}" for character in CHARACTERS]


def write_word_pieces(path):
    path = path if path.suffix == ".txt" else path / "vocab.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{piece}\n" for piece in pieces()))


def write_byte_pairs(directory):
    """GPT-2's encoder.json and vocab.bpe: a printable character stands for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    merges = [("t", "h"), ("i", "n"), ("a", "t")]
    tokens = characters + ["".join(merge) for merge in merges] + ["<|endoftext|>"]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "encoder.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (directory / "vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))


def write_ranks(path):
    """Llama 3's tokenizer.model: 128,000 tokens in base64 with their ranks."""
    single = [bytes([byte]) for byte in range(256)]
    triples = (bytes(triple) for triple in itertools.product(range(97, 149), repeat=3))
    tokens = itertools.islice(itertools.chain(single, triples), 128000)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))


def write_sentence_pieces(path):
    """SentencePiece's model, a protocol buffer (sentencepiece_model.proto): BPE over single characters."""
    normal, unknown, control = 1, 2, 3

    def nested(field, payload):
        return bytes([field << 3 | 2, len(payload)]) + payload

    def piece(text, score, kind):
        score_field = bytes([2 << 3 | 5]) + struct.pack("<f", score)
        return nested(1, nested(1, text.encode()) + score_field + bytes([3 << 3, kind]))

    model_type_is_bpe = nested(2, bytes([3 << 3, 2]))
    special = [piece("<unk>", 0, unknown), piece("<s>", 0, control), piece("</s>", 0, control)]
    characters = [piece(character, -i, normal) for i, character in enumerate("\u2581" + CHARACTERS)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([*special, *characters, model_type_is_bpe]))


TOKENIZERS = {  # by the set of scripts/fetch_data.py that they stand for
    "gpt2_vocabulary": write_byte_pairs,
    "llama3_vocabulary": write_ranks,
    "minilm": write_word_pieces,
    "mistral_vocabulary": write_sentence_pieces,
}


def set_of(path):
    """The name of the set that a path leads into: .deps/data/NAME/…"""
    return pathlib.PurePath(path).parts[2]


def write_tokenizer(root, path):
    if path != "bytes":
        TOKENIZERS[set_of(path)](root / path)


def bert_shapes(model, vocab_size):
    """The weights of a BERT without a head, by transformers' names."""
    width, inner = model["hidden_size"], model["intermediate_size"]

    def normed(name):
        return {f"{name}.weight": [width], f"{name}.bias": [width]}

    def linear(name, outputs, inputs):
        return {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}

    shapes = {"embeddings.word_embeddings.weight": [vocab_size, width],
              "embeddings.position_embeddings.weight": [model["max_position_embeddings"], width],
              "embeddings.token_type_embeddings.weight": [model["type_vocab_size"], width],
              **normed("embeddings.LayerNorm"), **linear("pooler.dense", width, width)}
    for i in range(model["num_layers"]):
        layer = f"encoder.layer.{i}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= linear(f"{layer}.{name}", width, width)
        shapes |= linear(f"{layer}.intermediate.dense", inner, width) | linear(f"{layer}.output.dense", width, inner)
        shapes |= normed(f"{layer}.attention.output.LayerNorm") | normed(f"{layer}.output.LayerNorm")
    return shapes


def write_weights(directory, model):
    """A BERT as transformers saves it: config.json and model.safetensors."""
    header, content, draw = {}, bytearray(), random.Random(1)
    for name, shape in bert_shapes(model, len(pieces())).items():
        mean = 1 if name.endswith("LayerNorm.weight") else 0
        begin = len(content)
        content += array.array("f", (draw.gauss(mean, 0.02) for _ in range(math.prod(shape)))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(content)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content)
    (directory / "config.json").write_text(json.dumps({
        "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12, "vocab_size": len(pieces()),
        "hidden_size": model["hidden_size"], "intermediate_size": model["intermediate_size"],
        "num_hidden_layers": model["num_layers"], "num_attention_heads": model["num_heads"],
        "max_position_embeddings": model["max_position_embeddings"], "type_vocab_size": model["type_vocab_size"]}))
