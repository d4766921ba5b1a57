#!/usr/bin/env python3
"""The peer: a small GPT-2 trained on bytes of text in stock PyTorch. Prints one JSON line.

  train_gpt.py EXPERIMENT.json    a resolved experiment of trainctl (compare_validation_loss.py writes it)

The network is transformers' GPT2LMHeadModel with its own initialisation; the loop is the plain one: AdamW(fused) with decay of matrices
alone, gradients clipped to a norm, linear warm-up and a cosine, batches of whole sequences in torch.randperm's order of each epoch.
"""
import json
import math
import pathlib
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


END = 256


def tokens_of(experiment):
    """Training and evaluation bytes, split as trainctl splits them: a file ends with an end token, the text's end is for evaluation."""
    ids = []
    for name in experiment["files"]:
        ids += [*pathlib.Path(name).read_bytes().decode(errors="replace").encode(), END]
    ids = torch.tensor(ids)
    num_train = len(ids) - int(experiment["eval_fraction"] * len(ids))
    return ids[:num_train], ids[num_train:]


def sequences(ids, length):
    """[N, T] inputs and targets, one behind another."""
    count = (len(ids) - 1) // length
    return ids[:count * length].view(count, length), ids[1:count * length + 1].view(count, length)


def lr_at(step, experiment):
    peak, warmup = experiment["lr"], experiment["warmup"]
    if step < warmup:
        return peak * step / warmup
    share = (step - warmup) / max(1, experiment["steps"] - warmup)
    return experiment["min_lr"] + (peak - experiment["min_lr"]) / 2 * (math.cos(math.pi * share) + 1)


def batches(count, batch_size):
    while True:
        yield from torch.randperm(count).split(batch_size)


def build(experiment):
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=END + 1, n_embd=experiment["hidden_size"], n_layer=experiment["num_layers"], n_head=experiment["num_heads"],
        n_positions=experiment["max_position_embeddings"], resid_pdrop=experiment["dropout"], embd_pdrop=experiment["dropout"],
        attn_pdrop=experiment["attention_dropout"], bos_token_id=None, eos_token_id=None, attn_implementation="sdpa", use_cache=False))


def loss_of(model, inputs, targets, reduction="mean"):
    return torch.nn.functional.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1), targets.flatten(), reduction=reduction)


def train(model, inputs, targets, experiment):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": experiment["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
                                  lr=experiment["lr"], betas=(experiment["beta1"], experiment["beta2"]), eps=experiment["eps"], fused=True)
    model.train()
    tokens = 0
    for step, rows in zip(range(experiment["steps"]), batches(len(inputs), experiment["batch_size"])):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, experiment)
        loss_of(model, inputs[rows], targets[rows]).backward()
        if experiment["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), experiment["clip_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += rows.numel() * inputs.size(1)
    return tokens


def evaluate(model, inputs, targets, batch_size):
    model.eval()
    with torch.no_grad():
        sums = [loss_of(model, i, t, "sum").double() for i, t in zip(inputs.split(batch_size), targets.split(batch_size))]
    return (sum(sums) / targets.numel()).item()


def main():
    experiment = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(experiment["threads"])
    torch.manual_seed(experiment["seed"])
    training, evaluation = tokens_of(experiment)
    model = build(experiment)
    start = time.perf_counter()
    tokens = train(model, *sequences(training, experiment["length"]), experiment)
    seconds = time.perf_counter() - start
    loss = evaluate(model, *sequences(evaluation, experiment["length"]), experiment["batch_size"])
    print(json.dumps({"loss": loss, "tokens": tokens, "seconds": round(seconds, 1), "num_parameters": sum(p.numel() for p in model.parameters())}))


if __name__ == "__main__":
    main()
