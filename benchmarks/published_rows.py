"""Rows of published training runs as cases that `plan_cases` predicts, with the step time that each row measured.

A row has the columns source, model, params, layers, hidden, heads, seq, global_batch, micro_batch, tp, pp, dp, cp, zero, recompute, gpu,
num_gpus, precision, tflops_per_gpu_or_tokens_per_s, unit and note. docs/scaling.md states the conventions.
"""
import dataclasses
import math
import re

# layers, hidden size, heads, key and value heads, intermediate size, vocabulary: the models' config.json
LLAMA = {"405": (126, 16384, 128, 8, 53248, 128256), "70": (80, 8192, 64, 8, 28672, 128256),
         "8": (32, 4096, 32, 8, 14336, 128256), "3": (28, 3072, 24, 8, 8192, 128256), "1": (16, 2048, 32, 8, 8192, 128256)}
# The first that the GPU's name contains.
GPUS = [("gb300", "gb300", "nvl72_800g", 100), ("gb200", "gb200", "nvl72", 50), ("b300", "b300", "nvlink5_800g", 100),
        ("b200", "b200", "nvlink5", 50), ("h200", "h200", "nvlink4", 50), ("500w", "h100_500w", "nvlink4", 50), ("h100", "h100", "nvlink4", 50)]
SOFTWARE = [("llm-foundry", "llm_foundry"), ("mosaic", "llm_foundry"), ("torchtitan", "torchtitan"), ("simumax", "megatron_core"),
            ("megatron-bridge", "transformer_engine"), ("examples/llama", "transformer_engine"), ("glennklockwood", "meta"),
            ("2407.21783", "meta"), ("nanotron", "nanotron"), ("deeplearningexamples", "bert"), ("llm.c", "llmc"), ("2205.05198", "megatron_2022")]
SHARES_TOKENS = ("transformer_engine", "megatron_core", "torchtitan", "meta", "nanotron")
# huggingface/bench_cluster create_configs.py, llama-1B: a multi-head Llama with GPT-2's vocabulary
NANOTRON = (24, 2048, 32, 32, 4096, 50257)
# Tokens that BERT computes on of a sequence of 512. Of its corpus 48 % of the tokens are padding at 512 (openreview 3nzKUh9a4M), and
# sequences are binned by 64 tokens (DeepLearningExamples, BERT's changelog), so that half a bin of the padding stays.
BERT_512_TOKENS = round(512 * 0.52 + 64 / 2)
# The BLOOM log, section 'GBS Variations': "A100s PCI-Express/NUMA was improved today so all TFLOPs have changed for the better (1-5%)".
# Sections before it were measured on the slower nodes; 3 % is the middle.
BEFORE_NUMA_SETTINGS = ("Choosing the fastest 3D Topology", "tile and wave quantization", "48 node contenders", "Final round comparison",
                        "'NHEADs comparison'")
NUMA_SLOWDOWN = 1.03
# One 100 Gb/s Omni-Path port attains 3.1 GB/s under NCCL (bigscience experiments/bandwidth, 15 to 42 Gb/s); four ports serve eight GPUs.
OMNI_PATH_GBS = 3.1 * 4 / 8 / 0.92


@dataclasses.dataclass
class Case:
    row: dict
    model: dict
    layout: dict
    software: str
    device: str
    network: str
    port_gbs: float
    num_gpus: int
    global_batch: float
    overrides: dict
    family: str
    slowdown: float  # of all but the sums between copies and the optimizer

    def document(self):
        """The line that plan_cases reads."""
        return {"model": self.model, "layout": self.layout, "software": self.software, "device": self.device, "network": self.network,
                "port_gbs": self.port_gbs, **self.overrides}

    def step_seconds(self, prediction):
        """Seconds of a step by what plan_cases answers."""
        return prediction["step_s"] + (self.slowdown - 1) * prediction["pipeline_s"]


def number(text, default=None):
    found = re.search(r"[-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?", str(text or ""))
    return float(found.group(0).replace(",", "")) if found else default


def num_parameters(text):
    value, unit = number(text), str(text).upper()
    if value is None:
        return None
    if "B" in unit and value < 1e4:
        return value * 1e9
    if "M" in unit and value < 1e6:
        return value * 1e6
    return value * 1e12 if "T" in unit and value < 1e3 else value


def family_of(name):
    return next((family for family in ("llama", "mpt", "bert", "bloom") if family in name.lower()), "gpt")


def transformer(family, layers, hidden, heads, kv_heads, inner, vocabulary, length, **more):
    model = {"num_layers": layers, "hidden_size": hidden, "num_heads": heads, "num_kv_heads": kv_heads, "intermediate_size": inner,
             "vocab_size": vocabulary, "sequence_length": length, "gated": family == "llama", "biases": family not in ("llama", "mpt"),
             "position_embeddings": family != "llama", "tied": True, "causal": family != "bert"}
    return {**model, **more}


def bloom(row, hidden, layers, heads, length):
    """The log states hidden sizes and parameters; its early runs had 96 heads at 14,400, and 64 where they make heads of whole sectors."""
    vocabulary, stages = 250880, int(number(row["pp"], 1))
    if not layers:
        layers = (num_parameters(row["params"]) - vocabulary * hidden) / (12 * hidden * hidden + 13 * hidden)
        layers = int(round(layers / stages)) * stages
    if not heads:
        heads = 64 if hidden % 64 == 0 and (hidden // 64) % 8 == 0 else 96
    return transformer("bloom", layers, hidden, heads, heads, 4 * hidden, vocabulary, length)


def model_of(row):
    family, name = family_of(row["model"]), row["model"].lower()
    layers, hidden, heads, length = (int(value) if (value := number(row[key])) else None for key in ("layers", "hidden", "heads", "seq"))
    stated = re.search(r"vocab (\d+)(k?)", row["note"].lower())
    vocabulary = int(stated.group(1)) * (1000 if stated.group(2) else 1) if stated else None
    if "nanotron" in name:
        sizes = NANOTRON
        return transformer("llama", layers or sizes[0], hidden or sizes[1], heads or sizes[2], heads or sizes[3], sizes[4], sizes[5], length)
    if family == "llama":
        found = re.search(r"(\d+)b", name)
        size = found.group(1) if found and found.group(1) in LLAMA else "8"
        sizes = LLAMA[size]
        return transformer("llama", layers or sizes[0], hidden or sizes[1], heads or sizes[2], sizes[3], sizes[4], vocabulary or sizes[5], length,
                           tied=size in ("1", "3"))
    if family != "bloom" and not heads and hidden:
        heads = hidden // (128 if hidden % 128 == 0 and hidden >= 4096 else 64)  # GPT-3's heads, arXiv 2005.14165, table 2.1
    if family == "bloom":
        return bloom(row, hidden, layers, heads, length)
    if family == "bert":
        length = BERT_512_TOKENS if length == 512 else length
        return transformer("bert", layers, hidden, heads, heads, 4 * hidden, 30528, length, predicted_share=0.15)
    default = 50368 if family == "mpt" else 50304 if "gpt-2" in name else 51200
    return transformer(family, layers, hidden, heads, heads, 4 * hidden, vocabulary or default, length)


def hardware_of(row):
    gpu = row["gpu"].lower()
    for text, device, network, port in GPUS:
        if text in gpu:
            return device, network, port
    port = OMNI_PATH_GBS if "jean zay" in gpu else 25.0
    for pattern, text, ports in ((r"inter-node (\d+) gb/s", gpu, 8), (r"8x(\d+)gb", gpu, 1), (r"(\d+) gbps node-node", row["note"].lower(), 8)):
        if found := re.search(pattern, text):
            port = float(found.group(1)) / 8 / ports
    return ("a100_40" if "40" in gpu else "a100_80"), "nvlink3", port


def software_of(row):
    source = row["source"].lower()
    return next((name for text, name in SOFTWARE if text in source), "megatron")


def precision_of(row, software):
    text = row["precision"].lower()
    if "nvfp4" in text:
        return "nvfp4", "nvfp4"
    if "fp8" in text:
        if software == "llm_foundry":
            return "fp8", "delayed"
        kind = "mx" if re.match(r"(mxfp8|fp8[-_ ]?mx)", text) else "rowwise" if "row" in text else "tensorwise" if "tensor" in text else "current"
        return "fp8", "tensorwise" if software == "torchtitan" and kind == "current" else kind
    return "bf16" if "bf16" in text and "fp16" not in text else "fp16", "none"


def recomputation_of(row, software, device, model, precision):
    text = (row["recompute"] or "none").lower()
    if "per recipe" in text:  # Megatron-Bridge's recipe of Llama 3 8B on H100 in fp8 recomputes five layers
        return "none", 5 if device == "h100" and model["hidden_size"] == 4096 and precision == "fp8" else 0
    if "gelu" in text:
        return "activation", 0
    if text.startswith("full"):
        return "full", 0
    return ("per_op" if software == "torchtitan" else "attention") if "selective" in text else "none", 0


def batches_of(row, software, model, data, pipeline):
    """Sequences of a micro-batch and of a step, where the row or its source leaves one out."""
    batch, micro = number(row["global_batch"]), number(row["micro_batch"])
    if software == "bert":  # README: batches and accumulation steps of A100-80, phases 1 and 2
        micro, steps, whole = (256, 32, 65536) if model["sequence_length"] == 128 else (32, 128, 32768)
        batch = micro * data * steps if data <= 8 else whole
    if software == "llmc" and not micro:
        micro = 64 if model["hidden_size"] == 768 else 16
    if not micro:
        micro = max(1.0, (batch or 1) / data / (1 if pipeline == 1 else 2 * pipeline))
    return micro, batch or 128.0


def overrides_of(row, software, family, precision, quantization):
    """What the row says of the framework, beside its name."""
    kernels, communication, memory = {}, {}, {}
    note = row["note"].lower()
    if family == "bloom":  # the log's CUDA_LAUNCH_BLOCKING=1
        kernels["synchronous_launches"] = True
    if software == "torchtitan":
        communication["chunks_tensor_parallel"] = "async tp" in note
        if "202412" in row["source"]:  # its loss was not compiled: train.py keeps log-softmax and two gradients in fp32
            memory["logit"] = 12
        communication["tensor_gather_bytes_fp8"] = 1 if quantization == "tensorwise" else 2
    if software == "transformer_engine" and precision == "nvfp4":  # its recipe turns the overlap off
        communication["chunks_tensor_parallel"] = False
    if "pure" in note:
        communication["shard_reduce_bytes"] = 2
    if software == "megatron" and precision == "bf16":  # sums in fp32
        communication |= {"gradient_bytes": 4, "tied_gradient_bytes": 2}
        memory["resident"] = 8
    return {key: value for key, value in (("kernels", kernels), ("communication", communication), ("memory", memory)) if value}


def zero_stage_of(row, software):
    zero = str(row["zero"]).lower().strip()
    if software == "nanotron" and zero in ("", "none"):  # huggingface/bench_cluster template/base_config.py
        return 1
    if zero == "3" or "megatron fsdp" in zero:
        return 3
    return 2 if zero == "2" or "zero-2" in zero else 1 if zero == "1" or "zero-1" in zero else 0


def slowdown_of(row, family):
    return NUMA_SLOWDOWN if family == "bloom" and any(section in row["note"] for section in BEFORE_NUMA_SETTINGS) else 1.0


def layout_of(row, software, device, model):
    tensor, pipeline, data, context = (int(number(row[key], 1)) for key in ("tp", "pp", "dp", "cp"))
    precision, quantization = precision_of(row, software)
    recomputation, recomputed = recomputation_of(row, software, device, model, precision)
    micro, batch = batches_of(row, software, model, data, pipeline)
    chunks = re.search(r"virtual chunks[^=]*=\s*(\d+)", row["note"].lower()) or re.search(r"\bvp\s*=\s*(\d+)", row["note"].lower())
    stages = 8 if software == "meta" else int(chunks.group(1)) if chunks and pipeline > 1 else 1
    sharded = software in ("llm_foundry", "torchtitan") and data > 1 or software == "transformer_engine" and "fsdp" in str(row["zero"]).lower()
    shares = "sequence parallel" in (row["recompute"] or "").lower() or software in SHARES_TOKENS and tensor > 1
    return {"data": data, "context": context, "tensor": tensor, "pipeline": pipeline, "stages_per_rank": stages,
            "schedule": "interleaved" if stages > 1 else "one_forward_one_backward", "micro_batch": int(micro),
            "num_micro_batches": max(1, math.ceil(batch / data / micro - 1e-6)), "zero": zero_stage_of(row, software),
            "fully_sharded": sharded,
            "recomputation": recomputation, "num_recomputed_layers": recomputed, "sequence_parallel": shares, "precision": precision,
            "quantization": quantization, "adapters_only": "lora" in row["model"].lower()}, batch


def case_of(row):
    software, model = software_of(row), model_of(row)
    device, network, port = hardware_of(row)
    layout, batch = layout_of(row, software, device, model)
    family = family_of(row["model"])
    overrides = overrides_of(row, software, family, layout["precision"], layout["quantization"])
    return Case(row, model, layout, software, device, network, port, int(number(row["num_gpus"], 1)), batch, overrides, family,
                slowdown_of(row, family))


def flops_per_step(case):
    """FLOPs as the row's unit counts them."""
    model, unit = case.model, case.row["unit"].lower()
    layers, hidden, vocabulary, length = (float(model[key]) for key in ("num_layers", "hidden_size", "vocab_size", "sequence_length"))
    tokens = case.global_batch * length
    if "counts recompute" in unit or "96" in unit:  # arXiv 2104.04473
        return 96 * tokens * layers * hidden**2 * (1 + length / (6 * hidden) + vocabulary / (16 * layers * hidden))
    if case.family != "llama":
        return 72 * tokens * layers * hidden**2 * (1 + length / (6 * hidden) + vocabulary / (12 * layers * hidden))
    kv = model["num_kv_heads"] * (model["hidden_size"] // model["num_heads"])
    layer = hidden * (hidden + 2 * kv) + hidden**2 + 3 * hidden * model["intermediate_size"] + 4 * hidden
    attention = 12 * layers * hidden * length * (0.5 if case.software == "meta" else 1)
    return tokens * (6 * (layers * layer + vocabulary * hidden) + attention)


def measured_step(case, peak_tflops):
    """Seconds of a step from the row's figure, or None for an unknown unit. `peak_tflops`: bf16, by device."""
    unit, value = case.row["unit"].lower(), number(case.row["tflops_per_gpu_or_tokens_per_s"])
    tokens = case.global_batch * case.model["sequence_length"]
    if "s/iter" in unit:
        return value / 1000 if unit.startswith("ms") else value
    if "step" in unit and "s/" in unit:
        return value
    for_each = "gpu" in unit and "all gpu" not in unit
    if "token" in unit:
        return tokens / (value * case.num_gpus if for_each else value)
    if "sequence" in unit or "sample" in unit:
        return case.global_batch / (value * case.num_gpus if for_each else value)
    if "mfu" in unit or "%" in unit:
        value *= (0.01 if value > 1 else 1) * peak_tflops[case.device]
    elif "tflop" not in unit:
        return None
    return flops_per_step(case) / (value * 1e12 * case.num_gpus)


def predicted_memory(row, prediction):
    """Bytes at the peak of the rank that the row's note states."""
    return prediction["first_rank_memory_bytes" if "on rank 0" in row["note"] else "memory_bytes"]


def measured_memory(row):
    """Bytes at the peak that the row's note states, or None."""
    for pattern, unit in ((r"peak memory of the fullest rank (\d+\.?\d*)\s*GB", 1000 * 2.0**20), (r"measured peak (\d+\.?\d*)\s*GiB", 2.0**30),
                          (r"peak (\d+\.?\d*)\s*GiB", 2.0**30), (r"allocated on rank 0 (\d+\.?\d*)\s*MiB", 2.0**20)):
        if found := re.search(pattern, row["note"]):
            return float(found.group(1)) * unit
    return None
