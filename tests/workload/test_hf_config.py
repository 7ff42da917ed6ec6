"""Published config.json shapes give the published parameter counts and cache sizes; faults name their key."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, parameter_counts
from app.workload.hf_config import ConfigError, shape_from_hf_config
from app.workload.hf_reader import NAMES
from tests.workload.published_configs import PUBLISHED

LLAMA_8B = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
CONFIGS = [
    # (name, config, billions as published, cache bytes per token in 16 bits)
    ("dense GQA: Llama 3.1 8B", LLAMA_8B, 8.03, 32 * 2 * 8 * 128 * 2),
    (
        "dense GQA: Llama 3 70B",
        {**LLAMA_8B, "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 28672},
        70.6,
        80 * 2 * 8 * 128 * 2,
    ),
    (
        "tied embeddings: Qwen2.5 0.5B",
        {"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True},
        0.494,
        24 * 2 * 2 * 64 * 2,
    ),
    (
        "MoE: Mixtral 8x7B",
        {"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
        46.7,
        32 * 2 * 8 * 128 * 2,
    ),
    (
        "fine-grained MoE with own head width: Qwen3 30B-A3B",
        {"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "vocab_size": 151936},
        30.5,
        48 * 2 * 4 * 128 * 2,
    ),
    (
        "MLA with routed and shared experts: DeepSeek V3",
        {"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}},
        671.0,
        61 * (512 + 64) * 2,
    ),
    (
        "sliding window pattern: Gemma 2 9B, half of the layers grow",
        {"model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000, "sliding_window": 4096, "tie_word_embeddings": True},
        9.24,
        21 * 2 * 8 * 256 * 2,
    ),
    (
        "layer list with windows: gpt-oss 20B",
        {"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12, "quantization_config": {"quant_method": "mxfp4"}},
        20.9,
        12 * 2 * 8 * 64 * 2,
    ),
    (
        "hybrid linear attention: Qwen3-Next 80B-A3B",
        {"model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10, "full_attention_interval": 4, "vocab_size": 151936},
        80.0,
        12 * 2 * 2 * 256 * 2,
    ),
    (
        "attention every eighth layer, the rest Mamba: Jamba",
        {"model_type": "jamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 65536, "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2},
        51.6,
        4 * 2 * 8 * 128 * 2,
    ),
    (
        "SSM, MLP and attention blocks by pattern: Nemotron-H 56B",
        {"model_type": "nemotron_h", "num_hidden_layers": 118, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768, "vocab_size": 131072, "hybrid_override_pattern": "M" * 54 + "-" * 54 + "*" * 10, "mamba_num_heads": 256, "mamba_head_dim": 64, "ssm_state_size": 256, "n_groups": 8},
        56.3,
        10 * 2 * 8 * 128 * 2,
    ),
    (
        "two-matrix MLP and learned positions: GPT-2",
        {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
        0.124,
        12 * 2 * 12 * 64 * 2,
    ),
    (
        "multi-query attention under old names: Falcon 7B",
        {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "multi_query": True, "vocab_size": 65024, "tie_word_embeddings": False},
        7.22,
        32 * 2 * 1 * 64 * 2,
    ),
    (
        "multimodal: the text backbone counts, the tower apart: Gemma 3 4B",
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262208, "sliding_window": 1024, "sliding_window_pattern": 6, "tie_word_embeddings": True}, "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}},
        4.3,
        5 * 2 * 4 * 256 * 2,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "billions", "cache"), [item[1:] for item in CONFIGS], ids=[item[0] for item in CONFIGS])
def test_published_counts_and_caches(config, billions, cache):
    shape = shape_from_hf_config(config)
    assert parameter_counts(shape).total / 1e9 == pytest.approx(billions, rel=0.02)
    assert kv_cache_bytes_per_token(shape) == cache


@pytest.mark.parametrize(("config", "billions", "active", "cache"), [item[1:] for item in PUBLISHED], ids=[item[0] for item in PUBLISHED])
def test_families_under_their_own_names(config, billions, active, cache):
    shape = shape_from_hf_config(config)
    counts = parameter_counts(shape)
    assert counts.total / 1e9 == pytest.approx(billions, rel=0.02)
    assert kv_cache_bytes_per_token(shape) == cache
    if active is not None:  # names such as A12B are rounded, and some leave the embeddings out
        assert counts.active / 1e9 == pytest.approx(active, rel=0.12)


def test_pruned_blocks_count_one_by_one():
    """Four layers of Llama 3.1 8B's width; one without attention, one without MLP. int(2 x 1.5 x 4096 / 3) = 4096, and
    int(2 x 4.5 x 4096 / 3) = 12288: the mean of 4096, 12288 and 12288 is 9557. Heads in groups of 4: 8 KV heads."""
    kept = {"n_heads_in_group": 4, "no_op": False}
    blocks = [
        {"attention": kept, "ffn": {"ffn_mult": 1.5}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 4.5}},
        {"attention": kept, "ffn": {"ffn_mult": None, "no_op": True}},
        {"attention": kept, "ffn": {"ffn_mult": 4.5}},
    ]
    config = {**LLAMA_8B, "model_type": "nemotron-nas", "num_hidden_layers": 4, "num_key_value_heads": None, "block_configs": blocks}
    shape = shape_from_hf_config(config)
    assert (shape.full_attention_layers, shape.mlp_layers, shape.kv_heads, shape.ffn_dense) == (3, 3, 8, 9557)


def test_parameters_of_one_layer_by_hand():
    """Llama 3.1 8B: q 4096 x 4096, k and v 4096 x 1024 each, o 4096 x 4096 = 41,943,040; MLP 3 x 4096 x 14336 = 176,160,768."""
    counts = parameter_counts(shape_from_hf_config(LLAMA_8B))
    assert counts.full_attention_layer == 41_943_040
    assert counts.dense_mlp_layer == 176_160_768
    assert counts.embedding == counts.output_head == 128_256 * 4_096


def test_a_window_caps_the_cache():
    """Mistral 7B v0.1: 32 layers x 2 x 8 heads x 128 x 2 bytes x min(tokens, 4096)."""
    config = {**LLAMA_8B, "model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096}
    shape = shape_from_hf_config(config)
    per_token = 32 * 2 * 8 * 128 * 2
    assert kv_cache_bytes(shape, 1_000) == 1_000 * per_token
    assert kv_cache_bytes(shape, 100_000) == 4_096 * per_token


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"torch_dtype": "float16"}, "fp16"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "int4"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, "int8"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "fp4"),
        ({}, "bf16"),
    ],
)
def test_what_a_checkpoint_ships_in(config, precision):
    assert shape_from_hf_config({**LLAMA_8B, "torch_dtype": None, **config}).native_precision == precision


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"hidden_size": 1e300}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"num_key_value_heads": True}, "num_key_value_heads"),
        ({"vocab_size": None}, "vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"num_hidden_layers": float("nan")}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**400}, "num_hidden_layers"),
        ({"num_local_experts": 8}, "num_experts_per_tok"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types"),
        ({"layer_types": ["full_attention"] * 31 + ["novel_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention"] * 31 + ["sliding_attention"]}, "sliding_window"),
        ({"model_type": "zamba2"}, "model_type"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"hidden_size": 4097}, "head_dim"),
    ],
)
def test_faults_name_the_key(change, key):
    with pytest.raises(ConfigError) as caught:
        shape_from_hf_config({**LLAMA_8B, **change})
    assert caught.value.key == key


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["weights", "attention", "num_bits", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
ALL_CONFIGS = [item[1] for item in CONFIGS] + [item[1] for item in PUBLISHED]
KEYS = sorted(
    {key for config in ALL_CONFIGS for key in config}
    | {key for names in NAMES.values() for key in names}
    | {"architectures", "_name_or_path", "quantization_config", "torch_dtype", "thinker_config", "block_configs", "state_size"}
)


@given(st.sampled_from(ALL_CONFIGS), st.dictionaries(st.sampled_from(KEYS), ANY_VALUE, min_size=1, max_size=3))
def test_a_spoilt_config_is_refused_or_counted_never_a_crash(config, spoilt):
    try:
        shape = shape_from_hf_config({**config, **spoilt})
    except ConfigError as error:
        refused = error
    else:
        counts = parameter_counts(shape)
        assert 0 < counts.active <= counts.total < math.inf
        assert kv_cache_bytes(shape, 1000) >= 0
        return
    assert refused.key
    assert len(refused.message) < 300
