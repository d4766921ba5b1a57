#!/usr/bin/env python3
"""GPT-2 and Llama of transformers, for tests/model/causal_reference_test.cpp. Written with transformers 5.17.0.

transformers_causal.py PART FILE     PART: gpt2 llama llama-gqa llama-linear llama-dynamic llama-yarn llama-longrope llama-llama3 llama-tied, each with an
                                     optional suffix -padded
Writes: weights/NAME, ids, labels, (key_mask), logits, loss (sum), gradients/NAME, and losses [20] of 20 AdamW steps.
"""
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    from safetensors.torch import save_file
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


def build(kind):
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
                                          attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, attn_implementation="sdpa", use_cache=False))
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
    return LlamaForCausalLM(LlamaConfig(**options))


def loss_of(model, ids, labels, mask):
    logits = model(input_ids=ids, attention_mask=mask).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", ignore_index=-100)


def main():
    part, path = sys.argv[1:]
    padded = part.endswith("-padded")
    torch.manual_seed(7)
    model = build(part.removesuffix("-padded")).train()
    for name, parameter in model.named_parameters():  # biases and norms away from their first values
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    tokens = torch.randint(VOCAB, (BATCH, LENGTH + 1))
    ids, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].clone()
    mask = torch.ones_like(ids)
    if padded:
        for row, length in enumerate((LENGTH, 17, 9)):
            mask[row, length:] = 0
            labels[row, length:] = -100
    tensors = {"ids": ids, "labels": labels, "key_mask": mask}
    tensors |= {f"weights/{name}": value.detach().clone() for name, value in model.named_parameters()}
    logits, loss = loss_of(model, ids, labels, mask)
    loss.backward()
    tensors |= {"logits": logits.detach(), "loss": loss.detach()}
    tensors |= {f"gradients/{name}": value.grad.clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    count, losses = (labels >= 0).sum(), []
    for _ in range(20):
        optimizer.zero_grad()
        _, loss = loss_of(model, ids, labels, mask)
        losses.append(loss.item() / count.item())
        (loss / count).backward()
        optimizer.step()
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_file({name: value.contiguous() for name, value in tensors.items()}, path)


if __name__ == "__main__":
    main()
