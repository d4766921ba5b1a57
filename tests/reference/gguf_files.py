#!/usr/bin/env python3
"""GGUF files of ours, read by the gguf package and by transformers, for tests/exporters/gguf_test.cpp.

gguf_files.py ROOT    each directory of ROOT has {f32,f16,q8_0,q4_0,q4_k}.gguf of one network, and reference.safetensors with inputs and logits.
                      Any byte that gguf's own quantizer stores in another way, and logits off by more than 1e-5 of the largest, is a failure.
                      The package can't quantize to q4_k: it restores the values, which must be nearer to the weights than simple rounding is
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

TYPES = {"f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
         "q4_k": gguf.GGMLQuantizationType.Q4_K}


def tensors_of(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def expected_type(tensor, wanted):
    if len(tensor.shape) < 2:
        return gguf.GGMLQuantizationType.F32
    if wanted.name.startswith("Q") and tensor.shape[0] % 32:
        return gguf.GGMLQuantizationType.F16
    return gguf.GGMLQuantizationType.Q5_0 if wanted.name == "Q4_K" and tensor.shape[0] % 256 else wanted


def simply_rounded(values):
    """Rounds each 32 values to 16 levels from the smallest (or 0) to the largest, without rounding scale and offset."""
    blocks = values.reshape(-1, 32).astype(numpy.float64)
    low = numpy.minimum(blocks.min(axis=1, keepdims=True), 0)
    step = numpy.maximum((blocks.max(axis=1, keepdims=True) - low) / 15, 1e-300)
    return (numpy.round((blocks - low) / step) * step + low).reshape(values.shape)


def check_q4_k(values, restored, what):
    """Compares the errors with those of simple rounding, and of 4 bits without an offset. Scale and offset have 6 bits: 63rds of the block's largest."""
    def root_mean_square(differences):
        return float(numpy.sqrt(numpy.mean(numpy.square(differences, dtype=numpy.float64))))

    error, simple = root_mean_square(restored - values), root_mean_square(simply_rounded(values) - values)
    q4_0 = gguf.GGMLQuantizationType.Q4_0
    without_offset = root_mean_square(gguf.quants.dequantize(gguf.quants.quantize(values, q4_0), q4_0).reshape(values.shape) - values)
    print(f"{what}: error {error:.3e}, of simple rounding {simple:.3e}, of q4_0 {without_offset:.3e}", file=sys.stderr)
    assert error < simple and error < 0.9 * without_offset, what
    blocks = values.reshape(-1, 8, 32)
    ranges = blocks.max(axis=2) - numpy.minimum(blocks.min(axis=2), 0)
    # Half a step, a 126th of the largest scale for each of 15 levels and of the largest offset, and room for fitted scales.
    bound = ranges / 15 + (15 / 15 / 126 + 1 / 126) * ranges.max(axis=1, keepdims=True)
    assert (numpy.abs(restored - values).reshape(blocks.shape).max(axis=2) <= bound).all(), what


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
            what = f"{directory.name}: {key} of {name}"
            is_known = kind != gguf.GGMLQuantizationType.Q4_K
            assert not is_known or numpy.array(tensor.data).tobytes() == gguf.quants.quantize(values, kind).tobytes(), f"{what} differs"
            restored = gguf.quants.dequantize(numpy.array(tensor.data), kind).reshape(values.shape)
            if not is_known:
                check_q4_k(values, restored, what)
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
