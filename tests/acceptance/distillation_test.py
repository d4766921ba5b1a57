"""Distillation: a small network learns from a trained one beside the data, is resumed, shared by ranks, planned, and what is refused."""
import io
import json
import pathlib
import tarfile
import unittest

from trainctl_process import InScratch, metrics, newest_checkpoint, png, run, temporary_directory, write_experiment

IMAGES = """
name: distilled
seed: 3
dataset: {kind: synthetic_images, num_samples: 512, num_eval_samples: 128, channels: 1, height: 12, width: 12, num_classes: 4, batch_size: 32}
model: {kind: KIND}
optimizer: {kind: adamw, lr: 3e-3}
train: {steps: STEPS, eval_every: STEPS, log_every: 1}
checkpoint: {every: 10, keep_last: 2}
device: {kind: cpu}
"""
TEXT = """
name: distilled-text
seed: 3
dataset: {kind: synthetic_tokens, num_samples: 256, num_eval_samples: 32, seq_len: 24, vocab_size: 50, batch_size: 8}
model: {kind: gpt2, hidden_size: WIDTH, num_layers: 2, num_heads: 2, max_position_embeddings: 32}
optimizer: {kind: adamw, lr: 3e-3}
train: {steps: STEPS, eval_every: STEPS, log_every: 1}
checkpoint: {every: 10, keep_last: 2}
device: {kind: cpu}
"""
TEACHER = "distillation: {teacher: {init_from: teacher}, temperature: 3, weight: 0.7}\n"


def losses(directory):
    return [record["loss"] for record in metrics(directory) if record["event"] == "step"]


class Distilled(InScratch):
    def trained(self, config, name, *settings):
        result = run("train", config, "--run-dir", name, "--json", *settings, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["final_metrics"]

    def teach(self, text):
        self.trained(write_experiment(self.root, text, "teacher.yaml"), "teacher")

    def test_images_are_learned_beside_a_teacher_of_another_kind(self):
        self.teach(IMAGES.replace("KIND", "cnn, channels: [16], hidden: 32").replace("STEPS", "40"))
        student = write_experiment(self.root, IMAGES.replace("KIND", "mlp, hidden: [16]").replace("STEPS", "20") + TEACHER, "student.yaml")
        self.trained(student, "run")
        told = run("check", student, cwd=self.root)
        self.assertEqual(told.returncode, 0, told.stderr)
        resumed = run("train", student, "--run-dir", "resumed", "--resume", "run/checkpoints/step_00000010", cwd=self.root)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual((newest_checkpoint(self.root / "resumed") / "model.safetensors").read_bytes(),
                         (newest_checkpoint(self.root / "run") / "model.safetensors").read_bytes())
        for command in (("plan", student), ("eval", "run"), ("profile", student, "--set", "profiler.active=1")):
            result = run(*command, cwd=self.root)
            self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")

    def test_stored_logits_are_those_of_the_teacher(self):
        self.teach(IMAGES.replace("KIND", "cnn, channels: [16], hidden: 32").replace("STEPS", "10"))
        stored = run("eval", "teacher", "--split", "train", "--logits", "logits.safetensors", cwd=self.root)
        self.assertEqual(stored.returncode, 0, stored.stderr)
        students = IMAGES.replace("KIND", "mlp, hidden: [16]").replace("STEPS", "10")
        self.trained(write_experiment(self.root, students + TEACHER, "asks.yaml"), "asks")
        reads = students + TEACHER.replace("teacher: {init_from: teacher}", "logits: logits.safetensors")
        reader = write_experiment(self.root, reads, "reads.yaml")
        self.trained(reader, "reads")
        for ours, theirs in zip(losses(self.root / "asks"), losses(self.root / "reads"), strict=True):
            self.assertAlmostEqual(ours, theirs, 5)
        self.trained(reader, "ranks", "--nproc", "2", "--set", "dataset.batch_size=16")
        for ours, theirs in zip(losses(self.root / "asks"), losses(self.root / "ranks"), strict=True):
            self.assertAlmostEqual(ours, theirs, 5)
        for command in (("check", reader), ("plan", reader)):
            self.assertEqual(run(*command, cwd=self.root).returncode, 0)
        other = run("train", reader, "--set", "dataset.num_samples=256", cwd=self.root)
        self.assertEqual(other.returncode, 1)
        self.assertIn("logits.safetensors has logits of other training data than the dataset's", other.stderr)

    def test_stored_logits_of_classes_in_another_order_are_refused(self):
        with tarfile.open(self.root / "shard.tar", "w") as shard:
            for n in range(24):
                for ending, data in (("png", png([[n % 2 * 200] * 12 for _ in range(12)], 0, 1)), ("cls", b"10"[n % 2:n % 2 + 1])):
                    member = tarfile.TarInfo(f"{n:02}.{ending}")
                    member.size = len(data)
                    shard.addfile(member, io.BytesIO(data))
        data = "dataset: {kind: webdataset, train: [shard.tar], class_names: ['0', '1'], batch_size: 8, cache_dir: cache, transforms: [{kind: resize, size: 12, width: 12}]}"
        text = IMAGES.replace("KIND", "mlp, hidden: [16]").replace("STEPS", "4").replace(", eval_every: 4", "")
        text = text.replace(text[text.index("dataset:"):text.index("model:")], data + "\n")
        self.teach(text)
        stored = run("eval", "teacher", "--split", "train", "--logits", "logits.safetensors", cwd=self.root)
        self.assertEqual(stored.returncode, 0, stored.stderr)
        student = text + "distillation: {logits: logits.safetensors}\n"
        self.trained(write_experiment(self.root, student, "student.yaml"), "run")
        other = run("train", write_experiment(self.root, student.replace("['0', '1']", "['1', '0']"), "other.yaml"), cwd=self.root)
        self.assertEqual(other.returncode, 1)
        self.assertIn("logits.safetensors has logits of classes with other names, or in another order, than the dataset's", other.stderr)

    def test_a_student_of_the_teacher_s_weights_has_no_loss_towards_it(self):
        self.teach(IMAGES.replace("KIND", "mlp, hidden: [16]").replace("STEPS", "10"))
        text = IMAGES.replace("KIND", "mlp, hidden: [16], init_from: teacher").replace("STEPS", "4")
        alone = TEACHER.replace("weight: 0.7", "weight: 1")
        student = write_experiment(self.root, text + alone, "student.yaml")
        self.trained(student, "run", "--set", "optimizer.lr=1e-12")
        self.assertTrue(all(abs(loss) < 1e-6 for loss in losses(self.root / "run")), losses(self.root / "run"))

    def test_ranks_and_pipelines_ask_the_same_teacher(self):
        self.teach(TEXT.replace("WIDTH", "32").replace("STEPS", "20"))
        student = write_experiment(self.root, TEXT.replace("WIDTH", "16").replace("STEPS", "10") + TEACHER, "student.yaml")
        self.trained(student, "one")
        layouts = {"ddp": ("--set", "dataset.batch_size=4"), "zero": ("--set", "dataset.batch_size=4", "--set", "distributed={kind: zero, stage: 3}"),
                   "pipeline": ("--set", "distributed={kind: ddp, pipeline: 2}", "--set", "accumulation.steps=2", "--set", "dataset.batch_size=4")}
        for name, settings in layouts.items():
            self.trained(student, name, "--nproc", "2", *settings)
            for ours, theirs in zip(losses(self.root / "one"), losses(self.root / name), strict=True):
                self.assertAlmostEqual(ours, theirs, 4, name)


class Refused(InScratch):
    @classmethod
    def setUpClass(cls):
        cls.students = IMAGES.replace("KIND", "mlp, hidden: [16]").replace("STEPS", "4")

    def refusal(self, text, *settings, command="check"):
        result = run(command, write_experiment(self.root, text, "student.yaml"), *settings, cwd=self.root)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr + result.stdout

    def test_what_is_no_teacher_is_named_at_its_line(self):
        self.assertIn("student.yaml:10:", self.refusal(self.students + "distillation: {teacher: {kind: cnn}}\n"))
        self.assertIn("distillation.teacher.kind: the teacher reads what the trained network reads, and gpt2 takes sequences of tokens",
                      self.refusal(self.students + "distillation: {teacher: {kind: gpt2, init_from: x.safetensors}}\n"))
        self.assertIn("distillation.teacher.kernel_size: expected an odd number",
                      self.refusal(self.students + "distillation: {teacher: {kind: cnn, kernel_size: 4, init_from: x.safetensors}}\n"))
        self.assertIn("distillation.teacher.kind: there is no file or directory nowhere", self.refusal(self.students + "distillation: {teacher: {init_from: nowhere}}\n"))

    def test_tasks_and_layouts_without_a_teacher(self):
        teacher = "distillation: {teacher: {kind: mlp, init_from: x.safetensors}}\n"
        self.assertIn("distillation: expected a teacher, or logits", self.refusal(self.students + "distillation: {weight: 0.5}\n"))
        mixed = self.refusal(self.students + "distillation: {logits: x.safetensors}\ntask: {kind: classification, mixup: 0.2}\n")
        self.assertIn("distillation.logits: stored logits are of whole samples", mixed)
        weighted = self.refusal(self.students + teacher + "task: {kind: classification, class_weighting: balanced}\n")
        self.assertIn("the teacher's part of the loss counts each sample as one", weighted)

    def test_a_teacher_for_other_classes_is_refused_before_the_first_step(self):
        other = write_experiment(self.root, self.students.replace("num_classes: 4", "num_classes: 7"), "teacher.yaml")
        self.assertEqual(run("train", other, "--run-dir", "teacher", cwd=self.root).returncode, 0)
        told = self.refusal(self.students + TEACHER, command="train")
        self.assertIn("[7] in the file, [4] in the model", told)
        self.assertIn("while loading distillation.teacher", told)


if __name__ == "__main__":
    unittest.main()
