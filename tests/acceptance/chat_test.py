"""Conversations: from JSON lines to a small model that answers, resumed, evaluated, previewed, and what is told of wrong rows."""
import json
import pathlib
import shutil
import unittest

from trainctl_process import InScratch, metrics, newest_checkpoint, run, temporary_directory, write_experiment

TEMPLATE = """{%- for m in messages %}
{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}"""
EXPERIMENT = """
name: acceptance-chat
seed: 5
dataset: {kind: chat, train: chat.jsonl, eval_fraction: 0.2, tokenizer: bytes, chat_template: chat.jinja, seq_len: 160, batch_size: 8, cache_dir: cache}
model: {kind: MODEL, hidden_size: 48, num_layers: 2, num_heads: 2, max_position_embeddings: 192}
optimizer: {kind: adamw, lr: 5e-3, lr_scheduler: {kind: cosine, warmup: 4}}
train: {steps: 80, eval_every: 40, log_every: 1}
checkpoint: {every: 40, keep_last: 2}
device: {kind: cpu}
"""
SMALL = ("--set", "train.steps=6", "--set", "train.eval_every=6", "--set", "checkpoint.every=3")


def conversation(number):
    return {"messages": [{"role": "user", "content": f"What is after {number}?"}, {"role": "assistant", "content": f"It is {number + 1}."},
                         {"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "You are welcome."}]}


def write_inputs(root, model="gpt2", rows=None):
    rows = [conversation(number) for number in range(300)] if rows is None else rows
    (root / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "chat.jinja").write_text(TEMPLATE)
    return write_experiment(root, EXPERIMENT.replace("MODEL", model))


class Finetuning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.config = write_inputs(cls.root)
        trained = run("train", cls.config, "--run-dir", "run", "--json", cwd=cls.root)
        assert trained.returncode == 0, trained.stderr
        cls.summary = json.loads(trained.stdout)

    def test_the_answers_are_learned(self):
        losses = [record["loss"] for record in metrics(self.root / "run") if record["event"] == "step"]
        self.assertLess(losses[-1], 0.25 * losses[0])
        self.assertLess(self.summary["final_metrics"]["loss"], 1.2)
        told = run("generate", "run", "--chat", "--prompt", "What is after 7?", "--greedy", "--max-tokens", 16, cwd=self.root)
        self.assertTrue(told.stdout.startswith("It is "), told.stdout + told.stderr)

    def test_a_resumed_run_ends_with_the_same_bits(self):
        resumed = run("train", self.config, "--run-dir", "resumed", "--resume", "run/checkpoints/step_00000040", cwd=self.root)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual((newest_checkpoint(self.root / "resumed") / "model.safetensors").read_bytes(),
                         (newest_checkpoint(self.root / "run") / "model.safetensors").read_bytes())

    def test_the_preview_marks_what_is_learned(self):
        shown = run("data", "preview", self.config, "-n", 2, "--html", "chat.html", cwd=self.root)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("<|user|>What is after 0?<|end|><|assistant|>[[It is 1.<|end|>]]<|user|>Thanks<|end|><|assistant|>[[You are welcome.<|end|>]]", shown.stdout)
        self.assertIn("0.0 % cut", shown.stdout)
        self.assertNotIn("\x1b", shown.stdout)
        self.assertIn("num_tokens", (self.root / "chat.html").read_text())

    def test_check_and_prepare_take_the_experiment(self):
        for command in (("check",), ("data", "prepare")):
            result = run(*command, self.config, cwd=self.root)
            self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")


class Variants(InScratch):
    def trained(self, config, *settings):
        result = run("train", config, "--run-dir", "run", "--json", *SMALL, *settings, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["final_metrics"]["loss"]

    def test_padded_rows_train_llama(self):
        config = write_inputs(self.root, "llama", [conversation(number) for number in range(60)])
        self.assertGreater(self.trained(config, "--set", "dataset.packing=none"), 0)

    def test_a_mixture_of_chats(self):
        write_inputs(self.root, rows=[conversation(number) for number in range(40)])
        shutil.copy(self.root / "chat.jsonl", self.root / "more.jsonl")
        source = "source: {kind: chat, train: FILE, tokenizer: bytes, chat_template: chat.jinja, seq_len: 160, cache_dir: cache}"
        mixed = "{kind: mixture, batch_size: 4, sources: [" + ", ".join(
            f"{{weight: {weight}, {source.replace('FILE', file)[8:][1:-1]}}}" for weight, file in ((1, "chat.jsonl"), (3, "more.jsonl"))) + "]}"
        lines = [f"dataset: {mixed}" if line.startswith("dataset:") else line for line in EXPERIMENT.replace("MODEL", "gpt2").splitlines()]
        config = write_experiment(self.root, "\n".join(lines) + "\n")
        result = run("train", config, "--run-dir", "run", *SMALL, "--set", "train.eval_every=0", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_config_new_writes_an_experiment_that_check_takes(self):
        write_inputs(self.root)
        made = run("config", "new", "--from", "chat.jsonl", "--output", "new.yaml", cwd=self.root)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("seen: 300 conversations with 1,200 turns", made.stdout)
        self.assertEqual(run("check", "new.yaml", cwd=self.root).returncode, 0)


class WrongRows(InScratch):
    def refusal(self, rows, command="train", template=None):
        config = write_inputs(self.root, rows=rows)
        if template:
            (self.root / "chat.jinja").write_text(template)
        result = run(command, config, *(SMALL if command == "train" else ()), cwd=self.root)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr + result.stdout

    def test_check_and_train_name_the_row(self):
        wrong = [conversation(1), {"messages": [{"role": "user", "content": "Hm?"}]}]
        for command in ("check", "train"):
            self.assertIn("chat.jsonl:2: no turn is the assistant's (chat.jinja)", self.refusal(wrong, command))

    def test_a_template_that_loops_is_stopped(self):
        endless = "{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}"
        self.assertIn("chat.jinja:1:", self.refusal([conversation(1)], template=endless))

    def test_a_mistake_of_the_template_has_its_place(self):
        self.assertIn("chat.jinja:2:4: the statement 'import' is not supported",
                      self.refusal([conversation(1)], template="x\n{% import 'a' %}"))


if __name__ == "__main__":
    unittest.main()
