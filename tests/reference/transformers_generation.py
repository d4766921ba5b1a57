#!/usr/bin/env python3
"""Greedy generation of transformers, for tests/inference/generate_test.cpp. Written with transformers 5.17.0.

transformers_generation.py FILE NAME    adds `generated` [1, 40], without the prompt, to FILE's `ids` [1, T] and weights/...
"""
import sys

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

SIZES = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             rms_norm_eps=1e-6, pad_token_id=None, bos_token_id=None, eos_token_id=None, attn_implementation="eager")
DYNAMIC = dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 4.0, 6.0, 8.0],
                original_max_position_embeddings=16)
PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def build(name):
    if name == "dynamic":
        return LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=16, rope_parameters=DYNAMIC))
    if name == "longrope":
        return LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=64, rope_parameters=LONGROPE))
    return Phi3ForCausalLM(Phi3Config(**SIZES, max_position_embeddings=64, original_max_position_embeddings=16, rope_parameters=LONGROPE))


def weight(tensors, key):
    for fused, parts in PARTS.items():
        if fused in key:
            return torch.cat([tensors["weights/" + key.replace(fused, part)] for part in parts])
    return tensors[f"weights/{key}"]


path, name = sys.argv[1:]
tensors = load_file(path)
model = build(name).eval()
with torch.no_grad():
    for key, parameter in model.named_parameters():
        parameter.copy_(weight(tensors, key))
ids = tensors["ids"]
# Phi-3 of transformers 5.17 drops its cache at the pretraining's length, and then sees the last token alone.
generated = model.generate(ids, do_sample=False, max_new_tokens=40, use_cache=name != "phi3")
tensors["generated"] = generated[:, ids.shape[1]:].contiguous()
save_file(tensors, path)
