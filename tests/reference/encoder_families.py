#!/usr/bin/env python3
"""Families of bert and vit in transformers, timm and sentence-transformers' form, for tests/pretrained/encoder_families_test.cpp.
Written with transformers 5.17.0 and timm 1.0.31.

encoder_families.py record FILE    see recorded_model.py; weights and gradients have the names of the other package, all in double precision
"""
import sys

try:
    import timm
    import torch
    import transformers as t

    from recorded_model import run
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

VOCAB, BATCH, LENGTH, CLASSES = 97, 3, 24, 5
SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=CLASSES)
ROBERTA = SIZES | dict(pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5)
ELECTRA = SIZES | dict(embedding_size=16)
DISTILBERT = dict(vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32, dropout=0.0, attention_dropout=0.0,
                  seq_classif_dropout=0.0, num_labels=CLASSES)
IMAGES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8, num_labels=CLASSES)
VIT = dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2, num_classes=CLASSES)


class Pooled(torch.nn.Module):
    """The poolings of sentence-transformers in closed form, then a classifier."""

    def __init__(self, mode, normalize):
        super().__init__()
        self.bert = t.BertModel(t.BertConfig(**SIZES), add_pooling_layer=False)
        self.classifier = torch.nn.Linear(32, CLASSES)
        self.mode, self.normalize = mode, normalize

    def forward(self, **inputs):
        hidden = self.bert(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        if self.mode == "mean":
            pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        elif self.mode == "max":
            pooled = hidden.masked_fill(mask == 0, -1e9).max(1).values
        else:
            pooled = hidden[:, 0]
        if self.normalize:
            pooled = torch.nn.functional.normalize(pooled, p=2, dim=1)
        return self.classifier(pooled)


class Clip(torch.nn.Module):
    """CLIPVisionModel with a classifier of its pooled output."""

    def __init__(self, activation):
        super().__init__()
        self.tower = t.CLIPVisionModel(t.CLIPVisionConfig(**IMAGES, hidden_act=activation))
        self.classifier = torch.nn.Linear(32, CLASSES)

    def forward(self, images):
        return self.classifier(self.tower(pixel_values=images).pooler_output)


def clip_in_timm():
    return timm.create_model("vit_base_patch16_clip_quickgelu_224", **VIT)


PARTS = {
    "roberta-masked-lm": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**ROBERTA)),
    "roberta-classification": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**ROBERTA)),
    "roberta-token-classification": lambda: t.RobertaForTokenClassification(t.RobertaConfig(**ROBERTA)),
    "distilbert-masked-lm": lambda: t.DistilBertForMaskedLM(t.DistilBertConfig(**DISTILBERT)),
    "distilbert-classification": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(**DISTILBERT)),
    "distilbert-token-classification": lambda: t.DistilBertForTokenClassification(t.DistilBertConfig(**DISTILBERT)),
    "electra-masked-lm": lambda: t.ElectraForMaskedLM(t.ElectraConfig(**ELECTRA)),
    "electra-classification": lambda: t.ElectraForSequenceClassification(t.ElectraConfig(**ELECTRA)),
    "electra-token-classification": lambda: t.ElectraForTokenClassification(t.ElectraConfig(**ELECTRA)),
    "sentence-cls": lambda: Pooled("cls", normalize=False),
    "sentence-mean": lambda: Pooled("mean", normalize=False),
    "sentence-mean-normalized": lambda: Pooled("mean", normalize=True),
    "sentence-max-normalized": lambda: Pooled("max", normalize=True),
    "deit": lambda: t.DeiTForImageClassification(t.DeiTConfig(**IMAGES)),
    "deit-with-teacher": lambda: t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(**IMAGES)),
    "deit-timm": lambda: timm.create_model("deit_tiny_distilled_patch16_224", **VIT),
    "clip": lambda: Clip("quick_gelu"),
    "clip-gelu": lambda: Clip("gelu"),
    "clip-timm": clip_in_timm,
}
IMAGE_PARTS = ("deit", "clip")


def build(part):
    return PARTS[part]().double().train()


def forward(model, inputs):
    if "images" in inputs:
        output = model(inputs["images"])
    else:
        arguments = {"input_ids": inputs["ids"], "attention_mask": inputs["key_mask"]}
        output = model(**arguments, **({"token_type_ids": inputs["token_types"]} if "token_types" in inputs else {}))
    return output if torch.is_tensor(output) else output.logits


def samples(part):
    if part.startswith(IMAGE_PARTS):
        return {"images": torch.randn(BATCH, 3, 32, 32, dtype=torch.float64)}, torch.randint(CLASSES, (BATCH,))
    padding = 1 if part.startswith("roberta") else 0
    ids = torch.randint(2, VOCAB, (BATCH, LENGTH))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    for row, length in enumerate((LENGTH, 17, 9)):
        mask[row, length:] = 0
        ids[row, length:] = padding
        types[row, length // 2:length] = 1
    inputs = {"ids": ids, "key_mask": mask} | ({"token_types": types} if part.startswith(("electra", "sentence")) else {})
    if not part.endswith(("masked-lm", "token-classification")):
        return inputs, torch.randint(CLASSES, (BATCH,))
    labels = torch.randint(VOCAB if part.endswith("masked-lm") else CLASSES, (BATCH, LENGTH))
    return inputs, labels.masked_fill((torch.rand(BATCH, LENGTH) > 0.4) | (mask == 0), -100)


run(PARTS, build, samples, forward)
