#!/usr/bin/env python3
"""GPT-2 and Llama of transformers, for tests/model/causal_reference_test.cpp. Written with transformers 5.17.0.

transformers_causal.py record|check FILE    see recorded_model.py; rows of PART-padded end in padding
"""
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

VOCAB, LENGTH, BATCH = 97, 24, 3
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=64,
             max_position_embeddings=64, rms_norm_eps=1e-6, attn_implementation="sdpa", use_cache=False)
HALF = 4  # of a head
ROPE = {
    "linear": dict(rope_type="linear", factor=2.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
    "longrope": dict(rope_type="longrope", short_factor=[1.0 + 0.1 * i for i in range(HALF)], long_factor=[2.0 + 0.5 * i for i in range(HALF)],
                     original_max_position_embeddings=16, factor=4.0),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
}
PARTS = ("gpt2", "gpt2-padded", "llama", "llama-padded", "llama-gqa", "llama-tied", *(f"llama-{kind}" for kind in ROPE))


def build(part):
    kind = part.removesuffix("-padded")
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
                                          attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, attn_implementation="sdpa", use_cache=False)).train()
    options = dict(LLAMA)
    variant = kind.removeprefix("llama").removeprefix("-")
    if variant == "gqa":
        options["num_key_value_heads"] = 2
    if variant == "tied":
        options["tie_word_embeddings"] = True
    if variant in ROPE:
        options["rope_parameters"] = {"rope_theta": 10000.0, **ROPE[variant]}
    if variant == "dynamic":
        options["max_position_embeddings"] = 16  # shorter than the sequence: it scales
    return LlamaForCausalLM(LlamaConfig(**options)).train()


def samples(part):
    tokens = torch.randint(VOCAB, (BATCH, LENGTH + 1))
    inputs, labels = {"ids": tokens[:, :-1].contiguous()}, tokens[:, 1:].clone()
    if part.endswith("-padded"):
        inputs["key_mask"] = (torch.arange(LENGTH) < torch.tensor([LENGTH, 17, 9]).unsqueeze(1)).long()
        labels[inputs["key_mask"] == 0] = -100
    return inputs, labels


def forward(model, inputs):
    return model(input_ids=inputs["ids"], attention_mask=inputs.get("key_mask")).logits


run(PARTS, build, samples, forward)
