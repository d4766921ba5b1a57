"""A language model with weights of eight and four bits: it generates what the same values as floats generate."""
import json
import pathlib
import shutil
import unittest

from trainctl_process import ROOT, run, temporary_directory, write_experiment

EXPERIMENT = """
name: quantized text
seed: 5
dataset: {kind: text_lm, train: {files: [ROOT/text.txt]}, eval_fraction: 0.1, tokenizer: bytes, seq_len: 32, batch_size: 8, num_workers: 1, cache_dir: ROOT/cache}
model: {kind: llama, hidden_size: 64, num_layers: 2, num_heads: 4, num_key_value_heads: 2, intermediate_size: 96, max_position_embeddings: 128, tie_embeddings: TIED}
task: {kind: causal_lm}
optimizer: {lr: 1e-2}
train: {steps: 60, eval_every: 60}
checkpoint: {every: 60}
device: {kind: cpu}
"""
TEXT = "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. "


def floats_of(tensors):
    """The file's tensors as docs/quantization.md says what they mean."""
    import numpy

    values = {}
    for name, levels in tensors.items():
        scale = tensors.get(f"{name}_scale")
        if name.endswith(("_scale", "_offset")):
            continue
        if scale is None:
            values[name] = levels
        elif levels.dtype == numpy.int8 and levels.ndim == 3:  # [groups, out, size]
            values[name] = (levels * scale[:, :, None]).transpose(1, 0, 2).reshape(levels.shape[1], -1)
        elif levels.dtype == numpy.int8:
            values[name] = levels * scale[:, None]
        else:  # two in a byte, the first in the lower half
            pairs = numpy.stack([levels & 15, levels >> 4], axis=2).reshape(levels.shape[0], scale.shape[1], -1)
            values[name] = ((pairs.astype("float32") - 8) * scale[:, :, None] + tensors[f"{name}_offset"][:, :, None]).reshape(levels.shape[0], -1)
    return {name: numpy.ascontiguousarray(value, dtype="float32") for name, value in values.items()}


class QuantizedText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        (cls.root / "text.txt").write_text(TEXT * 40)

    def command(self, *arguments):
        result = run(*arguments, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def generated(self, config, checkpoint, *more):
        told = self.command("generate", config, "--checkpoint", checkpoint, "--prompt", "the quick", "--max-tokens", "40", "--json", *more)
        return [sample["tokens"] for sample in json.loads(told)["samples"]]

    def test_it_generates_what_the_same_values_as_floats_generate(self):
        try:
            from safetensors.numpy import load_file, save_file
        except ImportError:
            self.skipTest("no safetensors")
        for tied, formats in (("true", [("8", "0"), ("4", "32")]), ("false", [("8", "32")])):
            config = write_experiment(self.root, EXPERIMENT.replace("ROOT", str(self.root)).replace("TIED", tied), f"{tied}.yaml")
            self.command("train", config, "--run-dir", self.root / f"run_{tied}")
            floats = self.root / f"floats_{tied}"
            self.command("export", config, "--checkpoint", self.root / f"run_{tied}", "--format", "hf", "--output", floats)
            for bits, group in formats:
                with self.subTest(tied=tied, bits=bits, group=group):
                    quantized, same = (self.root / f"{kind}_{tied}_{bits}_{group}" for kind in ("quantized", "same"))
                    told = self.command("quantize", config, "--checkpoint", self.root / f"run_{tied}", "--method", "weight_only", "--bits", bits,
                                        "--group-size", group, "--output", quantized, "--json")
                    self.assertLess(json.loads(told)["size_ratio"], 0.4)
                    shutil.copytree(floats, same)
                    values = floats_of(load_file(quantized / "quantized.safetensors"))
                    save_file({name: values[name] for name in load_file(floats / "model.safetensors")}, same / "model.safetensors", {"format": "pt"})
                    self.assertEqual(self.generated(config, quantized, "--greedy"), self.generated(config, same, "--greedy"))
                    drawn = [self.generated(config, each, "--num-samples", "2", "--seed", "3", "--temperature", "0.7") for each in (quantized, same)]
                    self.assertEqual(drawn[0], drawn[1])


if __name__ == "__main__":
    unittest.main()
