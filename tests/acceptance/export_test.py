"""What a run leaves for others: graphs and weights, each compared with the live model, with its card; damaged files are refused."""
import importlib.util
import itertools
import json
import pathlib
import shutil
import types
import unittest
import zipfile

from trainctl_process import ROOT, newest_checkpoint, png, run, temporary_directory, write_experiment

IMAGES = """
name: exported images
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 24, channels: 3, height: 16, width: 16, num_classes: 4, batch_size: 16, num_workers: 1,
  transforms: [{kind: normalize, mean: [0.5, 0.4, 0.3], std: [0.2, 0.3, 0.4]}]}
model: {kind: cnn, channels: [8, 8], batch_norm: true, hidden: 16, dropout: 0.1}
train: {steps: 4, eval_every: 4}
checkpoint: {every: 4}
device: {kind: cpu}
model_card: {license: apache-2.0, description: "For tests.", tags: [tiny]}
"""
TEXT = """
name: exported text
dataset: {kind: synthetic_tokens, num_samples: 32, num_eval_samples: 8, seq_len: 24, vocab_size: 50, batch_size: 8, num_workers: 1}
model: {kind: llama, hidden_size: 32, num_layers: 2, num_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}
task: {kind: causal_lm}
train: {steps: 2, eval_every: 2}
checkpoint: {every: 2}
device: {kind: cpu}
"""
TOKENS = """
name: exported tokens
dataset: {{kind: text_lm, train: {{files: [{directory}/lines.txt]}}, tokenizer: {directory}, seq_len: 8, batch_size: 2, num_workers: 1, cache_dir: {directory}/cache}}
model: {{kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 16, vocab_size: 8}}
task: {{kind: causal_lm}}
train: {{steps: 1}}
device: {{kind: cpu}}
"""


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.images = write_experiment(cls.root, IMAGES, "images.yaml")
        cls.text = write_experiment(cls.root, TEXT, "text.yaml")
        for config in (cls.images, cls.text):
            trained = run("train", config, "--run-dir", cls.root / config.stem, cwd=ROOT)
            assert trained.returncode == 0, trained.stderr

    def export(self, config, form, output, *more):
        result = run("export", config, "--checkpoint", self.root / config.stem, "--format", form, "--output", self.root / output, *more, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_each_export_tells_its_largest_difference_from_the_live_model(self):
        for config in (self.images, self.text):
            for form, more in [("torchscript", []), ("torchscript", ["--mobile"]), ("onnx", []), ("safetensors", [])]:
                told = json.loads(self.export(config, form, f"{config.stem}_{form}{len(more)}", *more, "--json"))
                self.assertLess(told["largest_difference"]["relative"], 1e-5, (config, form))
                self.assertGreater(told["largest_difference"]["samples"], 8)
        self.assertIn("largest difference from the live model", self.export(self.images, "onnx", "plain"))
        for form in ("onnx", "mar", "triton"):  # which needs no samples
            self.assertNotIn("difference", self.export(self.images, form, f"unverified_{form}", "--no-verify"))

    def test_the_card_goes_with_a_directory_and_inside_a_file(self):
        self.export(self.images, "onnx", "card")
        readme = (self.root / "card/README.md").read_text()
        self.assertTrue(readme.startswith('---\nlicense: "apache-2.0"\nlibrary_name: onnx\npipeline_tag: image-classification\n'), readme)
        self.assertIn("For tests.", readme)
        self.assertIn("model-index:", readme)
        model = json.loads((self.root / "card/model.json").read_text())
        self.assertEqual(model["license"], "apache-2.0")
        self.assertEqual(model["inputs"], [{"name": "images", "type": "float32", "shape": ["batch", 3, 16, 16]}])
        self.assertEqual(model["metrics"], json.loads((self.root / "images/evaluation.json").read_text())["metrics"])
        # Recorded metrics are those of the run's own checkpoint under its own config, and of no average of the same step.
        recorded = (self.root / "images/evaluation.json").read_text()
        self.addCleanup((self.root / "images/evaluation.json").write_text, recorded)
        (self.root / "images/evaluation.json").write_text(json.dumps({"step": json.loads(recorded)["step"], "metrics": {"accuracy": -1}}))
        for name, *more in [("sampled", "--set", "train.eval_steps=1"), ("other_set", "--set", "dataset.batch_size=7")]:
            self.export(self.images, "onnx", name, *more)
            self.assertGreaterEqual(json.loads((self.root / name / "model.json").read_text())["metrics"]["accuracy"], 0)
        step = newest_checkpoint(self.root / "images")
        shutil.copytree(step, step.parent / "average")
        self.addCleanup(shutil.rmtree, step.parent / "average")
        done = run("export", self.images, "--checkpoint", step.parent / "average", "--format", "onnx", "--output", self.root / "averaged", cwd=ROOT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads((self.root / "averaged/model.json").read_text())["metrics"]["accuracy"], 0)
        self.assertEqual(model["data_fingerprint"], json.loads((self.root / "images/summary.json").read_text())["provenance"]["data_fingerprint"])
        checked = run("check", self.root / "card/config.yaml")
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_card_is_yaml_that_hubs_read(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no PyYAML")
        self.export(self.images, "torchscript", "yaml")
        matter = yaml.safe_load((self.root / "yaml/README.md").read_text().split("---\n")[1])
        self.assertEqual(matter["license"], "apache-2.0")
        self.assertIn("tiny", matter["tags"])
        self.assertEqual({m["type"] for m in matter["model-index"][0]["results"][0]["metrics"]} & {"loss", "accuracy"}, {"loss", "accuracy"})

    def test_onnx_runtime_and_pytorch_run_the_files_as_the_readme_says(self):
        try:
            import numpy
            import onnxruntime
            import torch
        except ImportError:
            self.skipTest("no onnxruntime or torch")
        self.export(self.images, "onnx", "model.onnx")
        self.export(self.images, "torchscript", "model.pt")
        images = numpy.random.default_rng(0).standard_normal((5, 3, 16, 16)).astype("float32")
        session = onnxruntime.InferenceSession(str(self.root / "model.onnx"))
        (logits,) = session.run(["logits"], {"images": images})
        self.assertIn("README.md", session.get_modelmeta().custom_metadata_map)
        files = {"README.md": "", "model.json": "", "config.yaml": ""}
        module = torch.jit.load(self.root / "model.pt", _extra_files=files)
        self.assertIn("apache-2.0", files["README.md"].decode() if isinstance(files["README.md"], bytes) else files["README.md"])
        with torch.no_grad():
            self.assertLess(float((module(torch.from_numpy(images)) - torch.from_numpy(logits)).abs().max()), 1e-4)

    def test_evaluating_the_files_gives_the_checkpoints_metrics(self):
        expected = json.loads((self.root / "images/evaluation.json").read_text())["metrics"]
        for form, name in [("onnx", "eval.onnx"), ("torchscript", "eval.pt")]:
            self.export(self.images, form, name)
            result = run("eval", self.images, "--checkpoint", self.root / name, "--json", cwd=ROOT)
            self.assertEqual(result.returncode, 0, result.stderr)
            for metric, value in expected.items():
                self.assertAlmostEqual(json.loads(result.stdout)["metrics"][metric], value, delta=1e-5)

    def test_files_are_not_used_with_other_classes_than_those_that_they_list(self):
        directory = self.root / "classes"
        files = {"onnx": "m.onnx", "torchscript": "m.pt", "safetensors": "weights"}
        for name in "abc":
            (directory / name).mkdir(parents=True)
            (directory / name / "0.png").write_bytes(png([bytes([99] * 24)] * 8, 2, 3))
        config = write_experiment(self.root, f"""
name: three classes
dataset: {{kind: image_folder, train: {directory}, eval: {directory}, batch_size: 3, transforms: [{{kind: resize, size: 4, width: 4}}, normalize]}}
model: {{kind: mlp, hidden: [4]}}
train: {{steps: 1}}
device: {{kind: cpu}}
""", "three_classes.yaml")
        trained = run("train", config, "--run-dir", self.root / "three_classes", cwd=ROOT)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        for form, name in files.items():
            self.export(config, form, name)
        shutil.rmtree(directory / "a")
        for others in ("bc", "bcd"):
            for other in others[1:]:
                shutil.copytree(directory / "b", directory / other, dirs_exist_ok=True)
            for name, command in itertools.product(files.values(), (("eval",), ("predict", "--input", directory / "b/0.png"))):
                with self.subTest(others=others, name=name, command=command[0]):
                    refused = run(command[0], config, "--checkpoint", self.root / name, *command[1:], cwd=ROOT)
                    self.assertEqual(refused.returncode, 1, refused.stdout)
                    self.assertIn("classes", refused.stderr)
        own = run("predict", self.root / "three_classes", "--checkpoint", self.root / "m.onnx", "--input", directory / "b/0.png", cwd=ROOT)
        self.assertEqual(set(json.loads(own.stdout)["scores"]), set("abc"), own.stderr)

    def test_exported_weights_are_evaluated_as_they_are_under_any_optimizer(self):
        """A schedule-free optimizer evaluates the average of its two sequences; exported weights are that average."""
        schedule_free = ("--set", "optimizer={kind: adamw_schedule_free, lr: 0.02, lr_scheduler: {warmup: 2}}", "--set", "train.steps=20")
        trained = run("train", self.images, *schedule_free, "--run-dir", self.root / "free", cwd=ROOT)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        exported = run("export", self.root / "free", "--format", "safetensors", "--output", self.root / "free_weights", cwd=ROOT)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        losses = []
        for arguments in ((self.root / "free",), (self.images, "--checkpoint", self.root / "free_weights"),
                          (self.images, "--checkpoint", self.root / "free_weights", *schedule_free),
                          (self.images, "--checkpoint", self.root / "free_weights", *schedule_free, "--set", "seed=3")):
            evaluated = run("eval", *arguments, "--json", cwd=ROOT)
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            losses.append(json.loads(evaluated.stdout)["metrics"]["loss"])
        self.assertLess(max(losses) - min(losses), 1e-6, losses)

    def test_damaged_and_foreign_files_are_refused_with_a_reason(self):
        for form, name in [("onnx", "whole.onnx"), ("torchscript", "whole.pt")]:
            self.export(self.images, form, name)
            whole = (self.root / name).read_bytes()
            for part, bytes_ in enumerate([whole[: len(whole) // 2], whole[:100], b"", b"hello", whole[:200] + b"\xff" * 200 + whole[400:]]):
                damaged = self.root / f"damaged{part}{pathlib.Path(name).suffix}"
                damaged.write_bytes(bytes_)
                for command in ("eval", "predict"):
                    result = run(command, self.images, "--checkpoint", damaged, cwd=ROOT)
                    self.assertEqual(result.returncode, 1, (name, part, command, result.stderr))
                    self.assertIn(damaged.name, result.stderr)

    def test_tritons_model_repository_is_valid_by_its_schema(self):
        try:
            import tritonclient
            from google.protobuf import text_format
        except ImportError:
            self.skipTest("no tritonclient")
        path = pathlib.Path(tritonclient.__file__).parent / "grpc/model_config_pb2.py"
        spec = importlib.util.spec_from_file_location("model_config_pb2", path)  # the package's own __init__ wants grpc
        schema = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(schema)
        for config, name, inputs, output in [(self.images, "exported_images", {"images": [3, 16, 16]}, [4]), (self.text, "exported_text", {"input_ids": [-1]}, [-1, 50])]:
            self.export(config, "triton", "repository")
            model = self.root / "repository" / name
            self.assertTrue((model / "1/model.onnx").is_file())
            parsed = text_format.Parse((model / "config.pbtxt").read_text(), schema.ModelConfig())
            self.assertEqual((parsed.name, parsed.platform), (name, "onnxruntime_onnx"))
            self.assertEqual({i.name: list(i.dims) for i in parsed.input}, inputs)
            self.assertEqual([(o.name, list(o.dims)) for o in parsed.output], [("logits", output)])
        int8 = self.quantized(self.images, "repository_int8", "--method", "static")
        result = run("export", self.images, "--checkpoint", int8, "--format", "triton", "--output", self.root / "int8_repository", cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        float_config, int8_config = (self.root / name / "exported_images/config.pbtxt" for name in ("repository", "int8_repository"))
        self.assertEqual(int8_config.read_text(), float_config.read_text())
        self.assertIn(b"QuantizeLinear", (int8_config.parent / "1/model.onnx").read_bytes())

    def test_torchserves_archive_answers_as_predict_does(self):
        try:
            import torch  # noqa: F401
            from PIL import Image
        except ImportError:
            self.skipTest("no torch or Pillow")
        # The images lie beyond the calibrated range, where only QNNPACK's sums are exact on every CPU.
        served = [self.root / "images", self.quantized(self.images, "served_int8", "--method", "static", "--backend", "qnnpack")]
        if "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text():
            served.append(self.quantized(self.images, "served_int8_auto", "--method", "static"))
        for checkpoint in served:
            with self.subTest(checkpoint.name):
                self.check_archive(checkpoint, self.root / f"unpacked_{checkpoint.name}", Image)

    def check_archive(self, checkpoint, directory, Image):
        exported = run("export", self.images, "--checkpoint", checkpoint, "--format", "mar", "--output", directory / "store", cwd=ROOT)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        with zipfile.ZipFile(directory / "store/exported_images.mar") as archive:
            self.assertIsNone(archive.testzip())
            archive.extractall(directory)
        manifest = json.loads((directory / "MAR-INF/MANIFEST.json").read_text())
        self.assertEqual(manifest["model"]["modelName"], "exported_images")
        paths = []
        for n in range(3):
            paths.append(self.root / f"{n}.png")
            Image.effect_noise((16, 16), 40 + 60 * n).convert("RGB").save(paths[-1])
        spec = importlib.util.spec_from_file_location("handler", directory / manifest["model"]["handler"])
        handler = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(handler)
        context = types.SimpleNamespace(system_properties={"model_dir": str(directory), "gpu_id": None}, manifest=manifest)
        handler.handle(None, context)
        answers = handler.handle([{"body": path.read_bytes()} for path in paths] + [{"data": b"no image"}], context)
        predicted = run("predict", self.images, "--checkpoint", checkpoint, "--input", *paths, cwd=ROOT)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        for served, line in zip(answers, map(json.loads, predicted.stdout.splitlines())):
            self.assertEqual(served["label"], line["label"])
            self.assertAlmostEqual(served["scores"][line["label"]], line["score"], delta=1e-4)
        self.assertIn("error", answers[3])

    def test_torchserves_handler_encodes_texts_and_pixels_as_predict_does(self):
        try:
            import numpy
            import torch  # noqa: F401
            from PIL import Image
            from tokenizers import Tokenizer, models, pre_tokenizers, processors
        except ImportError:
            self.skipTest("no torch, Pillow or tokenizers")
        spec = importlib.util.spec_from_file_location("handler", ROOT / "src/exporters/package/torchserve_handler.py")
        handler = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(handler)
        levels = numpy.array([[0, 255], [256, 65535]], dtype="uint16")
        Image.fromarray(levels).save(self.root / "deep.png")
        for channels in (1, 3):  # predict takes the upper eight bits
            pixels = handler.image_of((self.root / "deep.png").read_bytes(), {"inputs": [{"shape": ["batch", channels, 2, 2]}]})
            self.assertEqual((pixels * 255).round().int().tolist(), [[[0, 0], [1, 255]]] * channels)
        directory = self.root / "beginning"
        directory.mkdir()
        tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "a": 1, "b": 2}, unk_token="<s>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        tokenizer.save(str(directory / "tokenizer.json"))
        self.assertEqual(handler.Texts(str(directory), {})("a b")[0], [0, 1, 2])
        self.assertEqual(handler.Texts(str(directory), {"special_tokens": False})("a b")[0], [1, 2])
        (directory / "lines.txt").write_text("a b b a\n" * 40)
        config = write_experiment(directory, TOKENS.format(directory=directory), "tokens.yaml")
        trained = run("train", config, "--run-dir", directory / "run", cwd=ROOT)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        export = ("export", config, "--checkpoint", directory / "run", "--format", "mar", "--output", directory / "store")
        exported = run(*export, cwd=ROOT)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        with zipfile.ZipFile(directory / "store/exported_tokens.mar") as archive:
            self.assertIs(json.loads(archive.read("model.json"))["special_tokens"], False)
        added = {"content": "a b", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": False}
        (directory / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {"3": added}}))
        refused = run(*export, cwd=ROOT)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("change its tokens", refused.stderr)

    def quantized(self, config, name, *arguments):
        result = run("quantize", config, "--checkpoint", self.root / config.stem, "--output", self.root / name, *arguments, cwd=ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.root / name

    def test_quantized_models_become_graphs_that_evaluate_as_they_do(self):
        qat = write_experiment(self.root, IMAGES + "quantization: {kind: qat, start_step: 1, activation_scheme: symmetric}\n", "qat.yaml")
        self.assertEqual(run("train", qat, "--run-dir", self.root / "qat", cwd=ROOT).returncode, 0)
        engine = ["--backend", "qnnpack"]
        for config, name, arguments, problem in [
            (self.images, "int8", ["--method", "static"], "--activation-scheme symmetric"),
            (self.images, "around_zero", ["--method", "static", "--activation-scheme", "symmetric", *engine], ""),
            (qat, "trained", ["--method", "qat"], ""),
            (self.images, "each_batch", ["--method", "dynamic", *engine], "static, not dynamic"),
            (self.text, "rows", ["--method", "weight_only"], ""),
        ]:
            directory = self.quantized(config, name, *arguments)
            result = run("export", config, "--checkpoint", directory, "--format", "onnx", "--output", self.root / f"{name}_onnx", "--json", cwd=ROOT)
            self.assertEqual(result.returncode, 0, result.stderr)
            problems = " ".join(json.loads(result.stdout)["tensorrt_problems"])
            self.assertIn(problem, problems)
            self.assertEqual(problems == "", problem == "", problems)
            self.assertEqual("session.x64quantprecision=1" in result.stderr, config is not self.text, result.stderr)
            self.assertIn(arguments[1], json.loads((self.root / f"{name}_onnx/model.json").read_text())["quantization"])
            if config is self.text:
                continue
            told = [run("eval", config, "--checkpoint", path, "--json", cwd=ROOT) for path in (directory, self.root / f"{name}_onnx/model.onnx")]
            ours, theirs = (json.loads(result.stdout)["metrics"] for result in told)
            self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=0.02)
        refused = run("export", self.images, "--checkpoint", self.root / "int8", "--format", "safetensors", "--output", self.root / "no", cwd=ROOT)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is quantized, and this layout is of floats", refused.stderr)

    def test_mobile_is_for_torchscript(self):
        result = run("export", self.images, "--checkpoint", self.root / "images", "--format", "onnx", "--mobile", "--output", self.root / "x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--mobile", result.stderr)


if __name__ == "__main__":
    unittest.main()
