#!/usr/bin/env python3
"""The peer: BERT fine-tuned by transformers' Trainer. Prints one JSON line.

  finetune.py --train FILE --model DIR --max-length N --batch N --steps N --threads N [--tuned]

FILE is tab-separated, a label and a text a line, after three header lines. Texts are tokenised before the run; batches are as wide as
their longest text (DataCollatorWithPadding), of texts grouped by length. A step's time is what passes from one step's end to the
next's, with what the Trainer does in between.
--tuned: glibc keeps freed memory, as in step.py.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments)

from step import KEEP_MEMORY


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, *_, **__):
        self.ends.append(time.perf_counter())

    def step_ms(self):
        """Without the first ten (a tenth of a shorter run), which are warm-up: so summary.json counts."""
        times = [1e3 * (after - before) for before, after in zip(self.ends, self.ends[1:])]
        return times[min(10, len(self.ends) // 10):]


class Widths:
    """Pads, and remembers how wide batches became."""

    def __init__(self, tokenizer):
        self.pad = DataCollatorWithPadding(tokenizer, padding="longest")
        self.widths = []

    def __call__(self, rows):
        batch = self.pad(rows)
        self.widths.append(batch["input_ids"].size(1))
        return batch


def read_rows(path):
    return [line.split("\t")[:2] for line in pathlib.Path(path).read_text().split("\n")[3:] if line]


def samples(rows, tokenizer, max_length):
    classes = sorted({label for label, _ in rows})
    encoded = tokenizer([text for _, text in rows], truncation=True, max_length=max_length)
    return [{"input_ids": ids, "token_type_ids": types, "attention_mask": mask, "labels": classes.index(label)} for (label, _), ids, types, mask in
            zip(rows, encoded["input_ids"], encoded["token_type_ids"], encoded["attention_mask"])], len(classes)


def arguments(options, directory):
    return TrainingArguments(
        output_dir=directory, per_device_train_batch_size=options.batch, max_steps=options.steps, learning_rate=2e-4, weight_decay=0.01,
        max_grad_norm=1.0, lr_scheduler_type="linear", warmup_steps=min(50, options.steps // 2), optim="adamw_torch_fused",
        train_sampling_strategy="group_by_length", logging_steps=10, save_strategy="no", report_to="none", use_cpu=True, dataloader_pin_memory=False, dataloader_drop_last=True,
        disable_tqdm=True, seed=1)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    for name in ("--max-length", "--batch", "--steps", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--tuned", action="store_true")
    return parser.parse_args()


def main():
    options = read_options()
    if options.tuned and "MALLOC_TOP_PAD_" not in os.environ:  # glibc reads them at start
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})
    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    rows, num_labels = samples(read_rows(options.train), tokenizer, options.max_length)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=num_labels)
    clock, widths = Clock(), Widths(tokenizer)
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(model=model, args=arguments(options, directory), train_dataset=rows, data_collator=widths, callbacks=[clock])
        trainer.train()
    times = clock.step_ms()
    print(json.dumps({
        "median_step_ms": statistics.median(times), "mean_step_ms": statistics.mean(times), "mean_length": statistics.mean(widths.widths[-len(times):]),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "mean_loss": trainer.state.log_history[-1]["train_loss"]}))


if __name__ == "__main__":
    main()
