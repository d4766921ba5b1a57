"""`check` looks where training would: at the files, weights and layers that a config names."""
import json
import re
import unittest

from trainctl_process import InScratch, run, write_experiment, write_images

IMAGES = """
name: images
dataset:
  kind: image_folder
  train: images
  batch_size: 4
  transforms: [{kind: random_resized_crop, size: 8}]
model: {kind: vit, patch_size: 4, hidden_size: 16, num_layers: 1, num_heads: 2}
train: {steps: 2}
device: {kind: cpu, num_threads: 1}
"""
MIXTURE = """
name: mixture
dataset:
  kind: mixture
  sources:
    - {kind: tokenized, train: [here.bin], vocab_size: 50, seq_len: 8}
    - {kind: tokenized, train: [here.bin, "there-*.bin"], vocab_size: 50, seq_len: 8}
  batch_size: 4
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 8}
task: {kind: causal_lm}
train: {steps: 2}
"""
LAYERS = """
name: layers
dataset: {kind: synthetic_images, num_samples: 64, num_classes: 10, height: 32, width: 32, batch_size: 8}
model:
  kind: layers
  layers:
    - {kind: conv2d, channels: 8}
    # a branch
    - kind: residual
      layers: [{kind: conv2d, channels: 16}]
    - global_avg_pool
    - {kind: linear, features: 7}
task: classification
train: {steps: 2}
"""
COORDINATES = """
name: coordinates
dataset: {kind: synthetic_images, num_samples: 64, num_classes: 4, height: 8, width: 8, batch_size: 16}
model: {kind: mlp, hidden: [128, 128, 128], mup: {base_width: 32}}
optimizer: {kind: adam, lr: 0.003}
train: {steps: 2}
device: {kind: cpu, num_threads: 1}
"""
TABLE = """
name: table
dataset: {kind: table, train: [rows.csv], label: y, eval_fraction: 0.2, batch_size: 4}
model: {kind: mlp, hidden: [8]}
train: {epochs: 2}
device: {kind: cpu, num_threads: 1}
"""
TEXT = """
name: text
dataset: {kind: text_lm, train: {files: [text.txt]}, eval: {files: [eval.txt]}, tokenizer: tokenizers/gpt2, seq_len: 8}
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 8}
task: {kind: causal_lm}
train: {steps: 2}
"""


class Check(InScratch):
    def problems(self, text, *more):
        """[(place, message)] of a config that is refused; without looking further it is accepted."""
        config = write_experiment(self.root, text)
        result = run("check", config, "--json", *more, cwd=self.root)
        listed = json.loads(result.stdout)[0]["problems"]
        self.assertEqual(result.returncode, 2 if listed else 0, result.stderr)
        alone = run("check", config, "--file-only", *more, cwd=self.root)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        return [(problem["where"].removeprefix(str(config)), problem["path"], problem["message"]) for problem in listed]

    def test_a_directory_that_is_not_there_is_told_at_its_line(self):
        self.assertEqual(self.problems(IMAGES), [(":5:10", "dataset.train", f"there is no directory images, looked for from {self.root}")])
        (self.root / "images").mkdir()
        self.assertEqual([found[2] for found in self.problems(IMAGES)], ["images has no folder, where one for each class is expected"])
        write_images(self.root / "images")
        self.assertEqual(self.problems(IMAGES), [])

    def test_layers_that_do_not_fit_are_told_at_their_line_with_the_shapes_on_both_sides(self):
        config = write_experiment(self.root, LAYERS)
        result = run("check", config, cwd=self.root)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.splitlines()[0].removeprefix(str(config)),
                         ":9:13: model.layers[1].kind: the branch gives an image [16, 32, 32], and the shortcut an image [8, 32, 32]; "
                         "give it a `shortcut` that changes the shape")
        mended = LAYERS.replace("layers: [{kind: conv2d, channels: 16}]", "layers: [{kind: conv2d, channels: 8}]")
        result = run("check", write_experiment(self.root, mended), cwd=self.root)
        self.assertIn(":12:14: model.layers[3].kind: the last layer gives a row [7], and task classification needs a row [10]", result.stderr)

    def test_all_missing_files_are_told_at_once(self):
        (self.root / "here.bin").write_bytes(bytes(1000))
        self.assertEqual(self.problems(MIXTURE), [(":7:43", "dataset.sources[1].train[1]", "no file matches there-*.bin")])
        (self.root / "eval.txt").write_text("some words")
        self.assertEqual([(found[1], found[2].split(",")[0]) for found in self.problems(TEXT)],
                         [("dataset.train.files[0]", "there is no file text.txt"),
                          ("dataset.tokenizer", "there is no file or directory tokenizers/gpt2")])

    def test_weights_that_are_not_there_or_do_not_fit(self):
        write_images(self.root / "images")
        missing = self.problems(IMAGES, "--set", "model.init_from=weights.safetensors")
        self.assertEqual([(found[1], found[2]) for found in missing], [("model.init_from", "there is no file or directory weights.safetensors")])
        config = write_experiment(self.root, IMAGES)
        trained = run("train", config, "--run-dir", "run", cwd=self.root)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        weights = f"model.init_from={next(self.root.glob('run/checkpoints/step_*/model.safetensors'))}"
        self.assertEqual(self.problems(IMAGES, "--set", weights), [])
        other = self.problems(IMAGES, "--set", weights, "--set", "model.hidden_size=32")
        self.assertRegex(other[0][2], r"don't fit the model")

    def test_patterns_that_match_nothing(self):
        write_images(self.root / "images")
        for setting, words in (("model.lora={rank: 2, target_modules: [q_proj]}", "no linear layer is called `q_proj`"),
                               ("activation_checkpointing={kind: pattern, modules: [nothing.*]}", "no block that can be recomputed is called `nothing.*`"),
                               ("quantization={kind: qat, skip_modules: [nothing]}", "is called `nothing`")):
            with self.subTest(setting):
                self.assertIn(words, self.problems(IMAGES, "--set", setting)[0][2])

    def test_patterns_and_weights_are_checked_though_only_the_data_tells_sizes(self):
        (self.root / "rows.csv").write_text("a,b,y\n" + "1,2,no\n3,4,yes\n" * 20)
        self.assertEqual(self.problems(TABLE), [])
        (self.root / "weights.safetensors").write_bytes(b"not one")
        for setting, words in (("quantization={kind: qat, skip_modules: [nothing]}", "is called `nothing`"),
                               ("activation_checkpointing={kind: pattern, modules: [nothing.*]}", "no block that can be recomputed is called `nothing.*`"),
                               ("model.init_from=weights.safetensors", "not a valid safetensors file")):
            with self.subTest(setting):
                self.assertIn(words, self.problems(TABLE, "--set", setting)[0][2])

    def test_starter_files_are_accepted_for_every_model(self):
        schema = json.loads(run("config", "schema").stdout)
        kinds = {kind for kind in re.findall(r'"const": "(\w+)"', json.dumps(schema)) if run("config", "new", "--model", kind).returncode == 0}
        self.assertGreaterEqual(kinds, {"bert", "cnn", "gpt2", "llama", "lstm", "mlp", "resnet18", "resnet50", "vit", "wide_resnet"})
        for kind in kinds:
            with self.subTest(kind):
                config = write_experiment(self.root, run("config", "new", "--model", kind).stdout)
                for epochs in ("1", "100000"):
                    result = run("check", config, "--set", f"train.epochs={epochs}", cwd=self.root)
                    problems = [line for line in result.stderr.splitlines() if not re.search(r"^warning: |there is no file|no file matches", line)]
                    self.assertEqual(problems, [], kind)

    def test_a_base_that_is_not_there_is_told_where_it_is_named(self):
        config = write_experiment(self.root, "base: missing.yaml\nname: over\n")
        result = run("check", config, cwd=self.root)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"exp.yaml:1:7: base: cannot open \S*missing.yaml: No such file or directory")

    def test_coordinates(self):
        (self.root / "mup.yaml").write_text(COORDINATES)
        done = run("check", "mup.yaml", "--coordinates", cwd=self.root)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("every slope is within", done.stdout)
        done = run("check", "mup.yaml", "--coordinates", "--widths", "32,128,512", "--set", "model.mup=null", cwd=self.root)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the width changes the size of updates: the slope of head", done.stdout)
        self.assertIn("try: model.mup.base_width: 32", done.stdout)
        for widths, problem in (("48", "there is only 48"), ("32,33,0", "the network can't have width 0")):
            done = run("check", "mup.yaml", "--coordinates", "--widths", widths, cwd=self.root)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(problem, done.stderr)

if __name__ == "__main__":
    unittest.main()
