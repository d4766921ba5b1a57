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


PUBLISHED = """
name: c
dataset: {kind: chat, train: c.jsonl, tokenizer: base, seq_len: 64, batch_size: 4, cache_dir: cache}
model: {init_from: base}
optimizer: {kind: adamw, lr: 1e-2}
train: {steps: 40}
checkpoint: {every: 40}
device: {kind: cpu}
"""
OWN = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
OTHER = "{% for m in messages %}[{{m.role}}] {{m.content}}<|stop|>{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"


class PublishedChat(unittest.TestCase):
    """What a published model says of chats goes along with the model that is trained from it."""

    @classmethod
    def setUpClass(cls):
        try:
            import tokenizers
            import transformers
        except ImportError:
            raise unittest.SkipTest("no transformers") from None
        cls.transformers = transformers
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        bytes_ = tokenizers.pre_tokenizers.ByteLevel
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer, made.decoder = bytes_(add_prefix_space=False), tokenizers.decoders.ByteLevel()
        special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|stop|>"]
        made.train_from_iterator(["hello there"] * 9, tokenizers.trainers.BpeTrainer(vocab_size=270, special_tokens=special,
                                                                                     initial_alphabet=bytes_.alphabet(), show_progress=False))
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
            vocab_size=270, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=48,
            max_position_embeddings=128, bos_token_id=0, eos_token_id=0))
        model.generation_config = transformers.GenerationConfig(eos_token_id=0, do_sample=True, temperature=0.7, top_p=0.8)
        model.save_pretrained(cls.root / "base")
        cls.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
        cls.tokenizer.chat_template = OWN
        cls.tokenizer.save_pretrained(str(cls.root / "base"))
        (cls.root / "other.jinja").write_text(OTHER)
        (cls.root / "c.jsonl").write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"hi {i}"}, {"role": "assistant", "content": "hello there"}]}) + "\n"
                                                  for i in range(8)))

    def train(self, name, *settings):
        config = write_experiment(self.root, PUBLISHED)
        trained = run("train", config, "--run-dir", name, *settings, cwd=self.root)
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def export(self, name, form, *more):
        exported = run("export", name, "--format", form, "--output", f"{name}-{form}", *more, cwd=self.root)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        return self.root / f"{name}-{form}"

    def check_answers(self, directory, template, ends, model):
        tokenizer = self.transformers.AutoTokenizer.from_pretrained(directory)
        self.assertEqual(tokenizer.chat_template, template)
        self.assertEqual((model.generation_config.eos_token_id, model.generation_config.temperature), (ends, 0.7))
        ids = tokenizer.apply_chat_template([{"role": "user", "content": "hi 3"}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        answer = tokenizer.decode(model.generate(ids, max_new_tokens=16, do_sample=False)[0, ids.shape[1]:])
        self.assertEqual(answer, "hello there" + ("<|im_end|>" if template == OWN else "<|stop|>"))

    def test_transformers_ends_answers_where_training_ended_them(self):
        for name, settings, template, end in (("own", (), OWN, 2), ("other", ("--set", "dataset.chat_template=other.jinja"), OTHER, 3)):
            self.train(name, *settings)
            directory = self.export(name, "hf")
            self.check_answers(directory, template, [0, end], self.transformers.AutoModelForCausalLM.from_pretrained(directory))

    def test_a_run_that_begins_with_a_run_keeps_what_that_one_began_with(self):
        self.train("first")
        self.train("second", "--set", "model.init_from=first")
        directory = self.export("second", "hf")
        self.check_answers(directory, OWN, [0, 2], self.transformers.AutoModelForCausalLM.from_pretrained(directory))

    def test_adapters_have_them_beside(self):
        self.train("lora", "--set", "model.lora.rank=4", "--set", "model.lora.target_modules=[q_proj, v_proj]", "--set", "dataset.chat_template=other.jinja")
        directory = self.export("lora", "peft")
        self.assertEqual(self.transformers.AutoTokenizer.from_pretrained(directory).chat_template, OTHER)
        config = self.transformers.GenerationConfig.from_pretrained(directory)
        self.assertEqual((config.eos_token_id, config.temperature), ([0, 3], 0.7))

    def test_gguf_files_have_the_template_and_the_end_of_an_answer(self):
        try:
            import gguf
        except ImportError:
            self.skipTest("no gguf")
        self.train("gguf", "--set", "dataset.chat_template=other.jinja")
        (file,) = self.export("gguf", "gguf").glob("*.gguf")
        fields = gguf.GGUFReader(file).fields
        self.assertEqual(fields["tokenizer.chat_template"].contents(), OTHER)
        self.assertEqual(fields["tokenizer.ggml.pre"].contents(), "qwen2")
        self.assertEqual((fields["tokenizer.ggml.eos_token_id"].contents(), fields["tokenizer.ggml.eot_token_id"].contents()), (0, 3))


if __name__ == "__main__":
    unittest.main()
