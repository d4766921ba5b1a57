#!/usr/bin/env python3
"""Tokens and assistant masks that transformers makes of conversations, for tests/dataset.

  chat_masks.py DIRECTORY TEMPLATES...

Writes into DIRECTORY: tokenizer/ (a tokenizer that is learnt here, with the special tokens of many families), and cases.json: for each
.jinja file below TEMPLATES and each conversation {template, row, ids, mask}; mask is null without {% generation %} blocks, and ids too
where transformers raises an error.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
except ImportError:
    sys.exit(77)

from chat_templates import CONVERSATIONS, SPECIAL  # noqa: E402

SPECIAL_TOKENS = [*SPECIAL.values(), "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                  "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "[INST]", "[/INST]"]
PLAIN = ("one turn", "system", "accents", "long", "empty", "thinking", "tool")


def tokenizer(directory):
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt.decoder = decoders.ByteLevel()
    corpus = [turn["content"] for turns in CONVERSATIONS.values() for turn in turns if isinstance(turn["content"], str)] * 5
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL_TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    learnt.train_from_iterator(corpus, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=learnt, **SPECIAL)
    made.save_pretrained(directory)
    return made


def case(made, path, messages):
    template = path.read_text()
    one = {"template": str(path), "row": {"messages": messages}, "ids": None, "mask": None}
    try:
        has_blocks = "generation %}" in template
        given = made.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=has_blocks)
        one["ids"] = given["input_ids"]
        if has_blocks:
            one["mask"] = given["assistant_masks"]
    except Exception as error:  # whatever a template can raise
        one["error"] = str(error)
    return one


def main():
    directory, *templates = sys.argv[1:]
    made = tokenizer(pathlib.Path(directory) / "tokenizer")
    paths = sorted(path for root in templates for path in pathlib.Path(root).rglob("*.jinja"))
    cases = [case(made, path, CONVERSATIONS[name]) for path in paths for name in PLAIN]
    (pathlib.Path(directory) / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main()
