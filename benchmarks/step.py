#!/usr/bin/env python3
"""The peer: one training step of stock PyTorch, on data that lies ready in memory. Prints one JSON line.

  step.py --workload resnet18 --batch 32 [--seq 128] [--mode eager|compile|max-autotune|trainer] [--tuned] [--precision fp32|tf32|bf16|fp16]
          [--accumulate N] [--steps N] [--warmup N] [--threads N] [--device cpu|cuda]

Models are public reference implementations (torchvision's ResNets; transformers' BERT, GPT-2, Llama and ViT with SDPA, 6 layers
of width 384 and 12 heads, vocabulary 30522) or plain layers of torch.nn; the optimizer is torch.optim.AdamW(fused=True),
images are channels_last: what PyTorch's own performance guide recommends.
trainer: transformers' Trainer with its own loader and clipping, for transformers' models; a step lasts from one step's end to the next one's.
--tuned (CPU): glibc keeps freed memory instead of returning it to the system, which saves stock PyTorch the page faults of
each step. It is the stronger peer; quote both.
"""
import argparse
import dataclasses
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import types

import torch
from torch import nn

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(256 << 20)}


def convolution(inputs, outputs, *, norm, pool):
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm)]
    layers += [nn.BatchNorm2d(outputs)] if norm else []
    layers += [nn.ReLU()]
    return layers + ([nn.MaxPool2d(2)] if pool else [])


def demo_cnn():
    return nn.Sequential(
        *convolution(1, 16, norm=False, pool=True), *convolution(16, 32, norm=False, pool=True),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def fmnist_cnn():
    return nn.Sequential(
        *convolution(1, 32, norm=True, pool=False), *convolution(32, 64, norm=True, pool=True), *convolution(64, 128, norm=True, pool=True),
        nn.Flatten(), nn.Linear(128 * 7 * 7, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))


def torchvision_model(name):
    import torchvision
    return getattr(torchvision.models, name)(num_classes=1000)


def cifar_resnet18():
    """torchvision's, with the stem for small images: a convolution of 3 x 3 pixels and no pooling."""
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model


VOCABULARY, LAYERS, WIDTH, HEADS = 30522, 6, 384, 12


class LogitsOnly(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(pixel_values=images).logits


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    return LogitsOnly(ViTForImageClassification(ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                                          intermediate_size=4 * WIDTH, num_labels=1000, attn_implementation="sdpa")))


class LanguageLstm(nn.Module):
    """PyTorch's example of word language models: embedding, LSTM and output layer."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)

    def forward(self, input_ids, labels):
        logits = self.decoder(self.lstm(self.encoder(input_ids))[0])
        loss = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), labels[:, 1:].reshape(-1))
        return types.SimpleNamespace(loss=loss)


def lstm():
    return LanguageLstm()


def bert():
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                      intermediate_size=4 * WIDTH, attn_implementation="sdpa"))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, bos_token_id=None, eos_token_id=None,
                                      loss_type="ForCausalLMLoss", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
                                      use_cache=False))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                        intermediate_size=1024, max_position_embeddings=1024, attn_implementation="sdpa", use_cache=False))


@dataclasses.dataclass(frozen=True)
class Images:
    channels: int
    side: int
    classes: int

    def batch(self, options):
        images = torch.randn(options.batch, self.channels, self.side, self.side, device=options.device)
        return images.to(memory_format=torch.channels_last), torch.randint(self.classes, (options.batch,), device=options.device)

    def loss(self, model, inputs, labels):
        return nn.functional.cross_entropy(model(inputs), labels)


@dataclasses.dataclass(frozen=True)
class Tokens:
    masked: float  # share of the tokens that is asked for; 0: each token's successor is

    def batch(self, options):
        ids = torch.randint(VOCABULARY, (options.batch, options.seq), device=options.device)
        chosen = torch.rand(ids.shape, device=options.device) < (self.masked or 1)
        return ids, torch.where(chosen, ids, torch.full_like(ids, -100))

    def loss(self, model, inputs, labels):
        return model(input_ids=inputs, labels=labels).loss


# workload: (model, data)
WORKLOADS = {
    "demo_cnn": (demo_cnn, Images(1, 28, 10)),
    "fmnist_cnn": (fmnist_cnn, Images(1, 28, 10)),
    "resnet18": (lambda: torchvision_model("resnet18"), Images(3, 224, 1000)),
    "resnet50": (lambda: torchvision_model("resnet50"), Images(3, 224, 1000)),
    "cifar_resnet18": (cifar_resnet18, Images(3, 32, 10)),
    "vit": (vit, Images(3, 224, 1000)),
    "lstm": (lstm, Tokens(0)),
    "bert": (bert, Tokens(0.15)),
    "gpt2": (gpt2, Tokens(0)),
    "llama": (llama, Tokens(0)),
}


class Step:
    """One optimizer step of `accumulate` micro-batches."""

    def __init__(self, options):
        (build, self.data), device = WORKLOADS[options.workload], options.device
        self.device, self.accumulate = device, options.accumulate
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
        model = build().to(device, memory_format=torch.channels_last).train()
        compiled = {"compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}.get(options.mode)
        self.model = torch.compile(model, mode=compiled) if compiled else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(device, enabled=options.precision == "fp16")
        self.inputs, self.labels = self.data.batch(options)

    def __call__(self):
        total = 0.0
        for _ in range(self.accumulate):
            with torch.autocast(self.device, dtype=self.dtype, enabled=self.dtype is not None):
                loss = self.data.loss(self.model, self.inputs, self.labels) / self.accumulate
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return total


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128, help="tokens in a sequence")
    parser.add_argument("--mode", choices=["eager", "compile", "max-autotune", "trainer"], default="eager")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def prepare(options):
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    tf32 = options.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def measure(step, options):
    """(seconds of each counted step, first loss, last loss)"""
    times, losses = [], []
    for i in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        if i >= options.warmup:
            times.append(time.perf_counter() - start)
            losses.append(float(loss))
    return times, losses[0], losses[-1]


def measure_trainer(options):
    """As measure(), of transformers' Trainer."""
    from transformers import Trainer, TrainerCallback, TrainingArguments
    build, data = WORKLOADS[options.workload]
    model, (inputs, labels) = build(), data.batch(options)
    name = "pixel_values" if isinstance(data, Images) else "input_ids"
    samples = [{name: one, "labels": label} for one, label in zip(inputs, labels)] * (options.warmup + options.steps)
    ends, losses = [], []

    class Clock(TrainerCallback):
        def on_step_end(self, *_, **__):
            ends.append(time.perf_counter())

    class Kept(Trainer):
        def training_step(self, *arguments, **more):
            losses.append(super().training_step(*arguments, **more))
            return losses[-1]

    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory, per_device_train_batch_size=options.batch, max_steps=options.warmup + options.steps, learning_rate=1e-4,
            weight_decay=0.01, lr_scheduler_type="constant", optim="adamw_torch_fused", logging_strategy="no", save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=options.device == "cpu", bf16=options.precision == "bf16", fp16=options.precision == "fp16")
        Kept(model=getattr(model, "model", model) if isinstance(model, LogitsOnly) else model, args=arguments, train_dataset=samples,
             callbacks=[Clock()]).train()
    times = [end - begin for begin, end in zip(ends[options.warmup - 1:], ends[options.warmup:])]
    return times, float(losses[options.warmup]), float(losses[-1])


def main():
    options = read_options()
    if options.tuned and "MALLOC_TOP_PAD_" not in os.environ:  # glibc reads them at start
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})
    prepare(options)
    times, first, last = measure_trainer(options) if options.mode == "trainer" else measure(Step(options), options)
    median, samples = statistics.median(times), options.batch * options.accumulate
    print(json.dumps({
        "workload": options.workload, "mode": options.mode + (" tuned" if options.tuned else ""), "precision": options.precision,
        "batch": samples, "step_ms": round(median * 1e3, 3), "samples_per_s": round(samples / median, 1),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peak_cuda_mib": torch.cuda.max_memory_allocated() >> 20 if options.device == "cuda" else None,
        "loss_first": round(first, 4), "loss_last": round(last, 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
