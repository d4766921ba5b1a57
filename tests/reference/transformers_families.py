#!/usr/bin/env python3
"""The families of Llama in transformers, for tests/model/llama_families_test.cpp. Written with transformers 5.17.0.

transformers_families.py record|check FILE    see recorded_model.py; a row of qwen3-padded ends in padding
"""
import sys

try:
    import torch

    import llama_families
    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

LENGTH, BATCH = 24, 3  # longer than every window
FUSED = {"self_attn.qkv_proj.": (("self_attn.q_proj.", 32), ("self_attn.k_proj.", 16), ("self_attn.v_proj.", 16)),
         "mlp.gate_up_proj.": (("mlp.gate_proj.", 48), ("mlp.up_proj.", 48))}
PARTS = (*llama_families.configs(), "qwen3-padded", "gemma2-padded")


def build(part):
    model = llama_families.build(part.removesuffix("-padded")).train()
    with torch.no_grad():  # scores and logits reach the soft caps
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    return model


def samples(part):
    tokens = torch.randint(llama_families.VOCAB, (BATCH, LENGTH + 1))
    inputs, labels = {"ids": tokens[:, :-1].contiguous()}, tokens[:, 1:].clone()
    if part.endswith("-padded"):
        inputs["key_mask"] = (torch.arange(LENGTH) < torch.tensor([LENGTH, 17, 9]).unsqueeze(1)).long()
        labels[inputs["key_mask"] == 0] = -100
    return inputs, labels


def forward(model, inputs):
    return model(input_ids=inputs["ids"], attention_mask=inputs.get("key_mask")).logits


def separate(tensors):
    """Splits fused projections into those of trainctl."""
    result = {}
    for name, tensor in tensors.items():
        fused = next((key for key in FUSED if key in name), None)
        if fused is None:
            result[name] = tensor
            continue
        for part, value in zip(FUSED[fused], tensor.split([rows for _, rows in FUSED[fused]])):
            result[name.replace(fused, part[0])] = value.contiguous()
    return result


def fuse(tensors, expected):
    """Joins projections where the model's own names, `expected`, have fused ones."""
    result = dict(tensors)
    for name in expected:
        for key, parts in FUSED.items():
            if key in name:
                result[name] = torch.cat([result.pop(name.replace(key, part)) for part, _ in parts])
    return result


if __name__ == "__main__":
    run(PARTS, build, samples, forward, to_ours=separate, to_theirs=fuse)
