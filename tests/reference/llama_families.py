"""The families of transformers that the kind llama has, small, by the names of tests/support/llama_families.h. Not run by itself."""
import transformers

VOCAB = 61
SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64,
             rms_norm_eps=1e-6, pad_token_id=None, bos_token_id=None, eos_token_id=None, attn_implementation="eager", use_cache=False)
FOUR = dict(SIZES, num_hidden_layers=4)
TWO = dict(SIZES, num_hidden_layers=2)
SLIDING, FULL = "sliding_attention", "full_attention"
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 3.5])


def configs():
    """Returns for each name the class, and the config of the network."""
    t = transformers
    gemma = dict(head_dim=16, tie_word_embeddings=True)
    return {
        "llama_biased": (t.LlamaForCausalLM, t.LlamaConfig(**dict(TWO, pad_token_id=5), attention_bias=True, mlp_bias=True, hidden_act="gelu_pytorch_tanh")),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**TWO, sliding_window=7)),
        "mistral_whole": (t.MistralForCausalLM, t.MistralConfig(**TWO, sliding_window=None, head_dim=16)),
        "ministral": (t.MinistralForCausalLM, t.MinistralConfig(**TWO, head_dim=8, sliding_window=7, layer_types=[FULL, SLIDING])),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**TWO, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
        "qwen2_sliding": (t.Qwen2ForCausalLM, t.Qwen2Config(**TWO, use_sliding_window=True, sliding_window=7, max_window_layers=1)),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**TWO, head_dim=16, attention_bias=True)),
        "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**TWO, **gemma)),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**dict(TWO, pad_token_id=7), **gemma, sliding_window=7, query_pre_attn_scalar=24, attn_logit_softcapping=2.0,
                                                       final_logit_softcapping=3.0)),
        "gemma3": (t.Gemma3ForCausalLM, t.Gemma3TextConfig(**FOUR, **gemma, sliding_window=7, query_pre_attn_scalar=24, sliding_window_pattern=3,
                                                           rope_parameters={FULL: dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                                                                            SLIDING: dict(rope_type="default", rope_theta=10000.0)})),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**dict(TWO, pad_token_id=11), sliding_window=7)),
        "phi3_long": (t.Phi3ForCausalLM, t.Phi3Config(**TWO, original_max_position_embeddings=16, rope_parameters=LONGROPE)),
        "smollm3": (t.SmolLM3ForCausalLM, t.SmolLM3Config(**FOUR, tie_word_embeddings=True)),
        "smollm3_sliding": (t.SmolLM3ForCausalLM, t.SmolLM3Config(**FOUR, use_sliding_window=True, sliding_window=7, no_rope_layers=[1, 0, 1, 1])),
    }


def build(name):
    kind, config = configs()[name]
    return kind(config)
