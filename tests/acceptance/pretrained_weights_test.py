"""Weights to start from: a directory that describes the network, files of torch.save, hostile ones, and names of a hub."""
import json
import os
import shutil
import unittest

from trainctl_process import ROOT, InScratch, run, write_experiment

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError:
    torch = None

IMAGES = """
name: images
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 32, channels: 3, height: 16, width: 16, num_classes: 4, batch_size: 16,
  num_workers: 0}
model: MODEL
optimizer: {kind: adamw, lr: 1e-3}
train: {steps: 4, eval_every: 4}
device: {kind: cpu, num_threads: 1}
"""
VIT = "{kind: vit, patch_size: 4, hidden_size: 24, num_layers: 2, num_heads: 2, intermediate_size: 40}"


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@unittest.skipIf(torch is None, "no PyTorch for Python")
class PretrainedWeights(InScratch):
    def config(self, model, name="exp.yaml"):
        return write_experiment(self.root, IMAGES.replace("MODEL", model), name)

    def passes(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refused(self, *arguments):
        result = run(*arguments, cwd=self.root)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def evaluated(self, config, checkpoint):
        return json.loads(self.passes("eval", config, "--checkpoint", checkpoint, "--json").stdout)["metrics"]

    def test_a_run_starts_from_a_directory_alone_and_from_files_of_torch_save(self):
        first = self.config(VIT)
        self.passes("train", first, "--run-dir", "run")
        self.passes("export", first, "--checkpoint", "run", "--format", "hf", "--output", "published")
        published = self.root / "published"
        weights = load_file(published / "model.safetensors")
        torch.save(weights, published / "pytorch_model.bin")
        (published / "model.safetensors").unlink()

        alone = self.config("{init_from: published, freeze: ['*', '!head', '!norm']}", "alone.yaml")
        shown = self.passes("config", "show", alone).stdout
        self.assertRegex(shown, r"hidden_size: 24  # published/config.json:\d+")
        self.passes("check", alone)
        trained = self.passes("train", alone, "--run-dir", "tuned")
        self.assertIn("weights from published", trained.stderr)
        step = next((self.root / "tuned" / "checkpoints").glob("step_*4"))
        tuned, original = load_file(step / "model.safetensors"), load_file(self.root / "run/checkpoints" / step.name / "model.safetensors")
        changed = {name for name in tuned if not torch.equal(tuned[name], original[name])}
        self.assertEqual(changed, {"head.weight", "head.bias", "norm.weight", "norm.bias"})
        state = load_file(step / "state.safetensors")
        slots = {name.removeprefix("optimizer.exp_avg.") for name in state if name.startswith("optimizer.exp_avg.")}
        self.assertEqual(slots, changed)

        torch.save({"epoch": 1, "state_dict": {"module." + name: tensor for name, tensor in original.items()}}, self.root / "vit.pth")
        self.assertEqual(self.evaluated(first, "vit.pth"), self.evaluated(first, "run"))
        shutil.rmtree(published)
        self.passes("eval", self.root / "tuned/config.yaml", "--checkpoint", "tuned")

    def test_adapters_of_a_run_leave_apart_and_start_another_run(self):
        self.passes("train", self.config(VIT), "--run-dir", "run")
        self.passes("export", "run", "--output", "published")
        adapted = self.config("{init_from: published, lora: {rank: 2, target_modules: [qkv, mlp.fc2]}}", "adapted.yaml")
        self.passes("train", adapted, "--run-dir", "adapted")
        told = json.loads(self.passes("export", "adapted", "--format", "peft", "--output", "adapters", "--json").stdout)
        self.assertLess(told["largest_difference"]["relative"], 1e-5)
        published = json.loads((self.root / "adapters/adapter_config.json").read_text())
        self.assertEqual(published["target_modules"], ["fc2", "k_proj", "q_proj", "v_proj"])
        self.assertEqual((published["r"], published["modules_to_save"]), (2, ["classifier"]))
        self.assertEqual(published["base_model_name_or_path"], str(self.root / "published"))

        again = self.config("{init_from: published, lora: {init_from: adapters}}", "again.yaml")
        shown = self.passes("config", "show", again).stdout
        self.assertRegex(shown, r"rank: 6  # adapters/adapter_config.json:\d+")  # query, key and value are one matrix here
        trained = self.passes("train", again, "--run-dir", "again", "--set", "optimizer.lr=1e-15")
        self.assertIn("weights from published, with adapters from adapters", trained.stderr)
        first, second = self.evaluated(adapted, "adapted"), self.evaluated(again, "again")
        for metric, value in first.items():
            self.assertAlmostEqual(second[metric], value, places=5, msg=metric)
        self.assertIn("has adapters without the weights that they adapt", self.refused("check", self.config("{init_from: adapters}", "alone.yaml")))
        shutil.rmtree(self.root / "adapters")
        self.assertIn("adapters", self.refused("check", again))

    def test_a_list_of_layers_starts_from_a_file_of_timm(self):
        try:
            import timm
        except ImportError:
            self.skipTest("no timm for Python")
        text = (ROOT / "configs/layers/mobilenet_v3_small.yaml").read_text()
        listed = text[text.index("  kind: layers"):text.index("task:")]
        save_file(timm.create_model("mobilenetv3_small_100", num_classes=4).state_dict(), self.root / "timm.safetensors")
        config = self.config("\n" + listed + "  init_from: timm.safetensors\n  init_policy: strict")
        trained = self.passes("train", config, "--run-dir", "run", "--set", "train.steps=1")
        self.assertIn("weights from timm.safetensors", trained.stderr)
        self.assertNotIn("newly initialized", trained.stderr)

    def test_image_processors_of_others_give_the_same_answers(self):
        try:
            import timm
            import transformers
            from PIL import Image
        except ImportError as error:
            self.skipTest(str(error))
        for label in ("a", "b"):
            (self.root / "photos" / label).mkdir(parents=True)
        photos = []
        for n, size in enumerate([(40, 25), (21, 48), (30, 30), (64, 20)]):
            photos.append(self.root / "photos" / "ab"[n % 2] / f"{n}.png")
            Image.effect_noise(size, 90).convert("RGB").resize((size[0] * 2, size[1] * 2), Image.Resampling.BICUBIC).save(photos[-1])
        (self.root / "labels.csv").write_text("file,labels\n" + "".join(f"{photo.relative_to(self.root / 'photos')},{'a;b' if n else 'a'}\n" for n, photo in enumerate(photos)))
        several = "labels: {train: labels.csv, label: labels, file: file, separator: ';'}, "

        def experiment(name, transforms, more=""):
            text = IMAGES[IMAGES.index("model:"):].replace("MODEL", VIT).replace(", eval_every: 4", "")
            data = f"dataset: {{kind: image_folder, train: photos, {more}batch_size: 4, num_workers: 0, transforms: [{{kind: resize, size: 16, width: 16}}], eval_transforms: [{transforms}]}}"
            return write_experiment(self.root, f"name: {name}\n{data}\n" + text + ("task: {kind: multi_label_classification}\n" if more else ""), name + ".yaml")

        normalized = "{kind: normalize, mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.25]}"
        # Of a margin of 3, 7, 11 … pixels, transformers leaves one fewer than torchvision at the top or left.
        for name, transforms, more in [("cropped", "{kind: resize, size: 20}, {kind: center_crop, size: 16}, " + normalized, ""),
                                       ("stretched", "{kind: resize, size: 16, width: 16}", ""),
                                       ("labels", "{kind: resize, size: 28}, {kind: center_crop, size: 16}, " + normalized, several)]:
            config = experiment(name, transforms, more)
            self.passes("train", config, "--run-dir", name)
            answers = [json.loads(line)["scores"] for line in self.passes("predict", name, "--input", *photos).stdout.splitlines()]
            for layout in ("transformers", "timm"):
                self.passes("export", name, "--format", "hf", "--naming", layout, "--output", f"{name}_{layout}")
            processor = transformers.AutoImageProcessor.from_pretrained(self.root / f"{name}_transformers")
            network = transformers.AutoModelForImageClassification.from_pretrained(self.root / f"{name}_transformers").eval()
            classify = transformers.pipeline("image-classification", model=network, image_processor=processor)
            timms = timm.create_model(f"local-dir:{self.root / f'{name}_timm'}", pretrained=True).eval()
            transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=timms))
            for photo, ours in zip(photos, answers, strict=True):
                image = Image.open(photo)
                theirs = {answer["label"]: answer["score"] for answer in classify(image)}
                with torch.no_grad():
                    logits = timms(transform(image)[None])[0]
                scores = logits.sigmoid() if more else logits.softmax(0)
                for place, label in enumerate("ab"):
                    self.assertAlmostEqual(theirs[label], ours[label], delta=1e-3, msg=f"{name}: transformers")
                    self.assertAlmostEqual(scores[place].item(), ours[label], delta=1e-3, msg=f"{name}: timm")
        wide = experiment("wide", "{kind: center_crop, size: 16}")
        self.passes("train", wide, "--run-dir", "wide")
        self.assertIn("timm's transform of evaluation has no center_crop without a resize", self.refused("export", "wide", "--format", "hf", "--naming", "timm", "--output", "no"))

    def test_a_hostile_file_is_refused_and_does_not_run(self):
        torch.save({"state_dict": {"head.weight": Evil(self.root / "ran")}}, self.root / "evil.pth")
        config = self.config(VIT[:-1] + ", init_from: evil.pth}")
        for command in (("check", config), ("train", config, "--run-dir", "run"), ("eval", config, "--checkpoint", "evil.pth")):
            self.assertIn("the file holds the Python object 'posix.system'", self.refused(*command))
        self.assertFalse((self.root / "ran").exists())

    def test_a_name_of_the_hub_is_explained(self):
        hint = "`hf download bert-base-uncased --local-dir bert-base-uncased`"
        self.assertIn(hint, self.refused("check", self.config("{init_from: bert-base-uncased}")))
        self.assertIn(hint, self.refused("check", self.config(VIT[:-1] + ", init_from: bert-base-uncased}")))
        self.assertIn(hint, self.refused("train", self.config(VIT[:-1] + ", init_from: bert-base-uncased}")))

    def test_adapters_that_train_one_use_of_a_shared_matrix_are_refused(self):
        try:
            import peft
            import transformers
        except ImportError:
            self.skipTest("no peft for Python")
        (self.root / "text.txt").write_text("abcdefgh" * 100)
        network = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=257, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, max_position_embeddings=64, tie_word_embeddings=True))
        network.save_pretrained(self.root / "base")
        adapted = peft.get_peft_model(network, peft.LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"], task_type="CAUSAL_LM"))
        adapted.save_pretrained(self.root / "adapter")
        config = write_experiment(self.root, f"""
name: adapters
dataset: {{kind: text_lm, train: {self.root}/text.txt, tokenizer: bytes, seq_len: 16, batch_size: 2, cache_dir: {self.root}/cache}}
model: {{init_from: {self.root}/base, lora: {{init_from: {self.root}/adapter}}}}
train: {{steps: 1, eval_every: 0}}
device: {{kind: cpu}}
""", "adapters.yaml")
        told = run("train", config, "--run-dir", self.root / "run", cwd=self.root)
        self.assertEqual(told.returncode, 1, told.stderr)
        self.assertIn('adapter_config.json: modules_to_save ["embed_tokens"]: model.embed_tokens.weight is the output layer, too', told.stderr)


if __name__ == "__main__":
    unittest.main()
