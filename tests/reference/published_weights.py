#!/usr/bin/env python3
"""Weights between us and transformers (and timm), both ways.

  published_weights.py save ROOT   writes ROOT/<case>/{plain,sharded} by save_pretrained, and ROOT/<case>/reference.safetensors
  published_weights.py load ROOT   loads ROOT/<case> as its config.json says; any warning, any missing or unexpected tensor
                                   and any logit off by more than 1e-5 of the largest is a failure
"""
import logging
import pathlib
import sys
import warnings

try:
    import safetensors.torch
    import torch
    import transformers

    import llama_families
except ImportError:
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[2])
BERT = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=24)
LLAMA = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4, num_channels=3, num_labels=5)


ROBERTA = BERT | dict(max_position_embeddings=26, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-12)
DISTILBERT = dict(vocab_size=61, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=24)
ELECTRA = BERT | dict(embedding_size=16)
T5 = dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)


def encoder_families():
    t = transformers
    return {
        "roberta_mlm": t.RobertaForMaskedLM(t.RobertaConfig(**ROBERTA)),
        "roberta_classifier": t.RobertaForSequenceClassification(t.RobertaConfig(**ROBERTA, num_labels=5)),
        "roberta_tags": t.RobertaForTokenClassification(t.RobertaConfig(**ROBERTA, num_labels=5)),
        "distilbert_mlm": t.DistilBertForMaskedLM(t.DistilBertConfig(**DISTILBERT)),
        "distilbert_classifier": t.DistilBertForSequenceClassification(t.DistilBertConfig(**DISTILBERT, num_labels=5)),
        "electra_mlm": t.ElectraForMaskedLM(t.ElectraConfig(**ELECTRA)),
        "electra_classifier": t.ElectraForSequenceClassification(t.ElectraConfig(**ELECTRA, num_labels=5)),
        "deit": t.DeiTForImageClassification(t.DeiTConfig(**VIT)),
        "deit_with_teacher": t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(**VIT)),
    }


def t5_flan():
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**T5 | dict(num_decoder_layers=3, d_kv=12), feed_forward_proj="gated-gelu", tie_word_embeddings=False))
    model.lm_head.weight = torch.nn.Parameter(torch.randn(61, 32))  # since transformers 5 a new model has it tied in any case
    return model


def networks():
    t = transformers
    return {
        "bert_mlm": t.BertForMaskedLM(t.BertConfig(**BERT)),
        "bert_classifier": t.BertForSequenceClassification(t.BertConfig(**BERT, num_labels=5)),
        "bert_bare": t.BertModel(t.BertConfig(**BERT)),
        "gpt2": t.GPT2LMHeadModel(t.GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=24)),
        "gpt2_bare": t.GPT2Model(t.GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=24)),
        "llama": t.LlamaForCausalLM(t.LlamaConfig(**LLAMA, rope_parameters=LLAMA3)),
        "llama_tied": t.LlamaForCausalLM(t.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
        "vit": t.ViTForImageClassification(t.ViTConfig(**VIT)),
        "t5": t.T5ForConditionalGeneration(t.T5Config(**T5)),
        "t5_flan": t5_flan(),
    } | {name: llama_families.build(name) for name in llama_families.configs()} | encoder_families()


def logits_of(model, inputs):
    model.eval()
    with torch.no_grad():
        is_encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        out = model(inputs, decoder_input_ids=inputs) if is_encoder_decoder else model(inputs)
    return out if torch.is_tensor(out) else getattr(out, "logits", None)


def save():
    torch.manual_seed(1)
    for name, model in networks().items():
        for parameter in model.parameters():
            parameter.data.normal_(0, 0.3)
        if name != "t5_flan":
            model.tie_weights()
        model.save_pretrained(ROOT / name / "plain")
        model.save_pretrained(ROOT / name / "sharded", max_shard_size="20KB")
        inputs = torch.randn(2, 3, 16, 16) if name.startswith(("vit", "deit")) else torch.randint(2, 61, (2, 11))
        logits = logits_of(model, inputs)
        tensors = {"inputs": inputs} | ({} if logits is None else {"logits": logits.contiguous()})
        safetensors.torch.save_file(tensors, ROOT / name / "reference.safetensors")


class Raising(logging.Handler):
    def emit(self, record):
        # transformers 5 warns of every T5 1.1, whose output layer isn't tied, whatever its config says.
        if "to tie shared.weight to lm_head.weight" in record.getMessage():
            return
        raise SystemExit(f"{record.name} warns: {record.getMessage()}")


def load_one(directory):
    import json

    config = json.loads((directory / "config.json").read_text())
    if "architecture" in config:
        import timm

        return timm.create_model(f"local-dir:{directory}", pretrained=True)
    kind = getattr(transformers, config["architectures"][0])
    # By default transformers' Gemma 2 leaves out the soft cap of scores.
    options = dict(attn_implementation="eager") if config["model_type"] == "gemma2" else {}
    model, info = kind.from_pretrained(directory, output_loading_info=True, **options)
    assert not any(info.values()), f"{directory.name}: {info}"
    return model


def load():
    warnings.simplefilter("error")
    for name in ("transformers", "timm"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(Raising(level=logging.WARNING))
    failed = False
    for directory in sorted(path for path in ROOT.iterdir() if path.is_dir()):
        reference = safetensors.torch.load_file(directory / "reference.safetensors")
        if "hello" in reference:  # the ids of kHello in the test
            tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
            ids = tokenizer("Hello world, naïve 🙂 can't")["input_ids"]
            assert ids == reference["hello"].tolist(), f"{directory.name}: {ids}"
        logits = logits_of(load_one(directory), reference["inputs"])
        difference = (logits - reference["logits"]).abs().max().item() / reference["logits"].abs().max().item()
        if not difference < 1e-5:
            print(f"{directory.name}: logits differ by {difference}", file=sys.stderr)
            failed = True
    sys.exit(1 if failed else 0)


{"save": save, "load": load}[sys.argv[1]]()
