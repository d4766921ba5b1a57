#!/usr/bin/env python3
"""LoRA adapters between us and peft, both ways, for tests/train/peft_adapters_test.cpp. All logits are computed in double precision.

  peft_adapters.py save ROOT   writes ROOT/<case>/base and ROOT/<case>/adapter as transformers and peft save them, and ROOT/<case>/reference.safetensors
  peft_adapters.py load ROOT   loads ROOT/<case>/adapter beside its base. Any warning, any tensor that peft has otherwise than the file, and any logit
                               off by more than 1e-6 of the largest, apart or merged, is a failure
"""
import json
import logging
import pathlib
import sys
import warnings

try:
    import peft
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

import llama_families

MODE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
MOST = 1e-6

BERT = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=24)
ROBERTA = BERT | dict(max_position_embeddings=26, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-12)
DISTILBERT = dict(vocab_size=61, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=24)
LLAMA = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64)
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4, num_channels=3, num_labels=5)


def cases():
    """Returns for each case the base, and the keys of its LoraConfig."""
    t = transformers
    llama = ["q_proj", "v_proj", "down_proj"]
    return {
        "bert_mlm": (t.BertForMaskedLM(t.BertConfig(**BERT)), dict(target_modules=["query", "value", "intermediate.dense"])),
        "bert_classifier": (t.BertForSequenceClassification(t.BertConfig(**BERT, num_labels=5)), dict(target_modules=["query", "value"], task_type="SEQ_CLS")),
        "gpt2": (t.GPT2LMHeadModel(t.GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=24, bos_token_id=None, eos_token_id=None)),
                 dict(target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM", use_rslora=True)),
        "llama_tied": (t.LlamaForCausalLM(t.LlamaConfig(**LLAMA, tie_word_embeddings=True)), dict(target_modules=llama, task_type="CAUSAL_LM")),
        "qwen3": (llama_families.build("qwen3"), dict(target_modules=llama, task_type="CAUSAL_LM")),
        "gemma2": (llama_families.build("gemma2"), dict(target_modules=llama, task_type="CAUSAL_LM")),
        "phi3": (llama_families.build("phi3"), dict(target_modules=["qkv_proj", "down_proj", "gate_up_proj"], task_type="CAUSAL_LM")),
        "vit": (t.ViTForImageClassification(t.ViTConfig(**VIT)), dict(target_modules=["q_proj", "v_proj", "fc2"], modules_to_save=["classifier"])),
        "deit": (t.DeiTForImageClassification(t.DeiTConfig(**VIT)), dict(target_modules=["k_proj", "o_proj"], modules_to_save=["classifier"])),
        "roberta_classifier": (t.RobertaForSequenceClassification(t.RobertaConfig(**ROBERTA, num_labels=5)), dict(target_modules=["query"], task_type="SEQ_CLS")),
        "distilbert_classifier": (t.DistilBertForSequenceClassification(t.DistilBertConfig(**DISTILBERT, num_labels=5)),
                                  dict(target_modules=["q_lin", "lin2"], task_type="SEQ_CLS", modules_to_save=["pre_classifier"])),
        "electra_mlm": (t.ElectraForMaskedLM(t.ElectraConfig(**BERT, embedding_size=16)), dict(target_modules=["key", "value"])),
    }


def logits_of(model, inputs):
    model.eval().double()
    with torch.no_grad():
        return model(inputs.double() if inputs.is_floating_point() else inputs).logits


def save():
    torch.manual_seed(1)
    for name, (base, keys) in cases().items():
        for parameter in base.parameters():
            parameter.data.normal_(0, 0.3)
        base.tie_weights()
        base.save_pretrained(ROOT / name / "base")
        model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=6, lora_dropout=0.1, **keys))
        for parameter_name, parameter in model.named_parameters():
            if parameter.requires_grad:  # adapters and modules_to_save, as if trained
                parameter.data.normal_(0, 0.3)
        model.save_pretrained(ROOT / name / "adapter")
        inputs = torch.randn(2, 3, 16, 16) if name in ("vit", "deit") else torch.randint(2, 61, (2, 11))
        safetensors.torch.save_file({"inputs": inputs, "logits": logits_of(model, inputs).contiguous()}, ROOT / name / "reference.safetensors")


class Raising(logging.Handler):
    def emit(self, record):
        raise SystemExit(f"{record.name} warns: {record.getMessage()}")


def load_one(directory):
    config = json.loads((directory / "adapter" / "adapter_config.json").read_text())
    base_path = pathlib.Path(config["base_model_name_or_path"])
    architecture = json.loads((base_path / "config.json").read_text())
    options = dict(attn_implementation="eager") if architecture["model_type"] == "gemma2" else {}
    base = getattr(transformers, architecture["architectures"][0]).from_pretrained(base_path, **options)
    model = peft.PeftModel.from_pretrained(base, directory / "adapter")
    file = safetensors.torch.load_file(directory / "adapter" / "adapter_model.safetensors")
    theirs = peft.get_peft_model_state_dict(model)
    assert theirs.keys() == file.keys(), f"{directory.name}: {sorted(theirs.keys() ^ file.keys())}"
    assert all(torch.equal(theirs[name], file[name]) for name in file), directory.name
    return model


def load():
    warnings.simplefilter("error")
    for name in ("transformers", "peft"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(Raising(level=logging.WARNING))
    failed = []
    for directory in sorted(path for path in ROOT.iterdir() if path.is_dir()):
        reference = safetensors.torch.load_file(directory / "reference.safetensors")
        model = load_one(directory)
        apart = logits_of(model, reference["inputs"])
        merged = logits_of(model.merge_and_unload(), reference["inputs"])
        for how, logits in {"apart": apart, "merged": merged}.items():
            off = ((logits - reference["logits"]).abs().max() / reference["logits"].abs().max()).item()
            print(f"{directory.name}: {how}, logits differ by {off:.2e} of the largest", file=sys.stderr)
            if not off <= MOST:
                failed.append(f"{directory.name} {how}")
    sys.exit(f"logits differ: {failed}" if failed else 0)


{"save": save, "load": load}[MODE]()
