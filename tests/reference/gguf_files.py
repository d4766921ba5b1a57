#!/usr/bin/env python3
"""GGUF files of ours, read by the gguf package and by transformers, for tests/exporters/gguf_test.cpp.

gguf_files.py ROOT    each directory of ROOT has {f32,f16,q8_0,q4_0}.gguf of one network, and reference.safetensors with inputs and logits.
                      Any byte that gguf's own quantizer stores in another way, and logits off by more than 1e-5 of the largest, is a failure.
                      A directory with tokenizer.json.expected has f32.gguf alone, whose vocabulary gives these ids
"""
import json
import pathlib
import sys

try:
    import gguf
    import numpy
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

TYPES = {"f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def tensors_of(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def expected_type(tensor, wanted):
    if len(tensor.shape) < 2:
        return gguf.GGMLQuantizationType.F32
    return gguf.GGMLQuantizationType.F16 if wanted.name.startswith("Q") and tensor.shape[0] % 32 else wanted


def check_values(directory):
    plain = tensors_of(directory / "f32.gguf")
    for name, wanted in TYPES.items():
        stored = tensors_of(directory / f"{name}.gguf")
        assert stored.keys() == plain.keys(), f"{directory.name}: {sorted(stored.keys() ^ plain.keys())}"
        worst = 0
        for key, tensor in stored.items():
            values = numpy.array(plain[key].data)
            kind = expected_type(plain[key], wanted)
            assert tensor.tensor_type == kind, f"{directory.name}: {key} of {name} is {tensor.tensor_type}"
            assert list(tensor.shape) == list(plain[key].shape)
            assert numpy.array(tensor.data).tobytes() == gguf.quants.quantize(values, kind).tobytes(), f"{directory.name}: {key} of {name} differs"
            restored = gguf.quants.dequantize(numpy.array(tensor.data), kind).reshape(values.shape)
            worst = max(worst, float(numpy.abs(restored - values).max() / numpy.abs(values).max()))
        print(f"{directory.name}: {name}, largest difference of a weight {worst:.2e} of the largest", file=sys.stderr)


def check_logits(directory):
    reference = safetensors.torch.load_file(directory / "reference.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, gguf_file="f32.gguf", dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(reference["inputs"]).logits
    off = ((logits - reference["logits"]).abs().max() / reference["logits"].abs().max()).item()
    print(f"{directory.name}: transformers' logits differ by {off:.2e}", file=sys.stderr)
    return off < 1e-5


def check_vocabulary(directory, expected):
    fields = gguf.GGUFReader(directory / "f32.gguf").fields
    assert fields["tokenizer.chat_template"].contents() == expected["template"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory, gguf_file="f32.gguf")
    assert tokenizer(expected["text"])["input_ids"] == expected["ids"], f"{directory.name}: {tokenizer(expected['text'])}"


def main():
    failed = []
    for directory in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        expected = directory / "tokenizer.json.expected"
        if expected.exists():
            check_vocabulary(directory, json.loads(expected.read_text()))
            continue
        check_values(directory)
        if not check_logits(directory):
            failed.append(directory.name)
    sys.exit(f"logits differ: {failed}" if failed else 0)


main()
