#!/usr/bin/env python3
"""T5 of transformers, for tests/model/t5_reference_test.cpp. Written with transformers 5.17.0.

transformers_t5.py record|check FILE    see recorded_model.py. Rows of PART-padded end in padding, at source and target. PART-double is in
                                        double precision, its norms too, whose variance transformers computes in float
transformers_t5.py generate FILE NAME   adds `generated` [B, N] to FILE's `ids`, `key_mask` and weights/...: what the network generates greedily
"""
import sys
import types

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

VOCAB, SOURCE, TARGET, BATCH = 97, 24, 17, 3
SIZES = dict(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
             relative_attention_max_distance=12, dropout_rate=0.0, use_cache=False, decoder_start_token_id=0, attn_implementation="eager")
PARTS = [f"t5{form}{precision}" for form in ("", "-padded", "-flan", "-flan-padded", "-uneven") for precision in ("", "-double")]


def norm_in_own_precision(self, hidden):
    return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def build(part):
    options = dict(SIZES)
    if "flan" in part:
        options |= dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    if "uneven" in part:
        options |= dict(num_decoder_layers=3, d_kv=12, num_heads=3)
    model = T5ForConditionalGeneration(T5Config(**options)).train()
    if "flan" in part:  # since transformers 5 a new model has its output layer tied in any case
        model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCAB, SIZES["d_model"]))
    if part.endswith("-double"):
        model.double()
        for module in model.modules():
            if isinstance(module, T5LayerNorm):
                module.forward = types.MethodType(norm_in_own_precision, module)
    return model


def samples(part):
    labels = torch.randint(1, VOCAB, (BATCH, TARGET))
    inputs = {"ids": torch.randint(1, VOCAB, (BATCH, SOURCE))}
    if "padded" in part:
        inputs["key_mask"] = (torch.arange(SOURCE) < torch.tensor([SOURCE, 17, 9]).unsqueeze(1)).long()
        labels[torch.arange(TARGET) >= torch.tensor([5, TARGET, 11]).unsqueeze(1)] = -100
    inputs["decoder_ids"] = torch.cat([torch.zeros(BATCH, 1, dtype=torch.long), labels[:, :-1].clamp_min(0)], 1)
    return inputs, labels


def forward(model, inputs):
    return model(input_ids=inputs["ids"], attention_mask=inputs.get("key_mask"), decoder_input_ids=inputs["decoder_ids"]).logits


def generate(path, name):
    tensors = load_file(path)
    options = dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, attn_implementation="eager")
    if name == "t5_flan":
        options |= dict(num_decoder_layers=3, d_kv=12, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model = T5ForConditionalGeneration(T5Config(**options)).eval()
    if name == "t5_flan":
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(61, 32))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(tensors[f"weights/{key}"])
    # transformers 5.17 has room for as many decoder layers in its cache as the encoder has.
    tensors["generated"] = model.generate(tensors["ids"], attention_mask=tensors["key_mask"], do_sample=False, num_beams=1, max_new_tokens=12,
                                          use_cache=False).contiguous()
    save_file(tensors, path)


if sys.argv[1] == "generate":
    generate(*sys.argv[2:])
else:
    run(PARTS, build, samples, forward)
