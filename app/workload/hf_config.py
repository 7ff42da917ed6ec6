"""Read a Hugging Face ``config.json`` into a ModelShape.

Knows dense, GQA, MoE, MLA, sliding-window, hybrid SSM or linear-attention and multimodal text backbones, under the
key names the model families use. What it cannot count it refuses by name, rather than count it as something else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from app.catalog.model_shape import ModelShape
from app.workload.architecture import parameter_counts
from app.workload.hf_layers import GATED_DELTA, PURE_SSM, layer_kinds
from app.workload.hf_mlp import TWO_MATRIX_MLP, mlp_widths
from app.workload.hf_reader import MAX_LAYERS, MAX_TOKENS, MAX_VOCAB, ConfigError, Reader

__all__ = ["ConfigError", "native_precision", "shape_from_hf_config"]

ENCODERS = ("bert", "roberta", "xlm-roberta", "esm", "mpnet", "nomic_bert", "modernbert", "electra", "deberta", "deberta-v2", "distilbert")
LEARNED_POSITIONS = ("gpt2", "opt", "bert", "roberta", "xlm-roberta", "gpt_bigcode", "gpt_neo", "esm", "mpnet", "electra", "distilbert")
TIED = (
    "gpt2", "gpt_neo", "gpt_bigcode", "bloom", "opt", "mpt", "falcon", "whisper", "cohere", "cohere2",
    "gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", *ENCODERS,
)  # fmt: skip
"""Families whose output head shares the embedding unless the config says otherwise."""
QWEN_IMAGE_TOKENS = 16_384
"""Tokens of the largest picture of Qwen's vision models since Qwen2-VL (``preprocessor_config.json``: 12.8 million pixels of
28 x 28 per token, 16.8 million of 32 x 32 in Qwen3-VL)."""
NOT_COUNTED = {
    "albert": "shares one layer's weights between all",
    "recurrentgemma": "has recurrent layers of a kind not known here",
    "recurrent_gemma": "has recurrent layers of a kind not known here",
    "rwkv": "has layers of a kind not known here",
    "zamba": "shares attention blocks between layers",
    "zamba2": "shares attention blocks between layers",
    "longcat_flash": "has two attentions and zero experts in a layer",
}


def shape_from_hf_config(config: Mapping[str, Any], params_b: float | None = None) -> ModelShape:
    """Shape of a published config. ``params_b``: the published size where known, for the record.

    Raises:
        ConfigError: naming the key, what is wrong and the limit.
    """
    text = _text_part(config)
    kind = str(text.get("model_type") or config.get("model_type") or "")[:100].lower()
    if kind == "whisper":
        shape = _whisper(Reader(text), config)
    else:
        _refuse_uncountable(text, kind)
        shape = _decoder(Reader(text), config, kind)
    counts = parameter_counts(shape)
    total = counts.total / 1e9 if params_b is None else params_b
    return dataclasses.replace(shape, params_b=total, active_params_b=min(counts.active / 1e9, total) if shape.is_moe else total)


def _refuse_uncountable(text: Mapping[str, Any], kind: str) -> None:
    if kind in NOT_COUNTED:
        raise ConfigError("model_type", f"{kind} {NOT_COUNTED[kind]}; give params_b in place of the config")
    if text.get("is_encoder_decoder"):
        raise ConfigError("is_encoder_decoder", "models with both an encoder and a decoder are not counted; give params_b instead")


def _decoder(reader: Reader, config: Mapping[str, Any], kind: str) -> ModelShape:
    layers = reader.count("layers", low=1, high=MAX_LAYERS)
    hidden = reader.count("hidden", low=1)
    blocks = layer_kinds(reader, kind, layers, hidden)
    values = _identity(config, kind) | {
        "layers": layers,
        "hidden": hidden,
        "vocab": reader.count("vocab", low=1, high=MAX_VOCAB),
        "tied_embeddings": _tied(reader, config, kind),
        "gated_mlp": kind not in TWO_MATRIX_MLP,
        "max_context": reader.count("context", default=0, high=MAX_TOKENS),
        "vision_params_b": _vision_b(config, hidden),
        "image_tokens": QWEN_IMAGE_TOKENS if kind.startswith("qwen") and isinstance(config.get("vision_config"), Mapping) else 0,
    }
    values |= blocks
    values |= {"attention": "none", "heads": 0, "kv_heads": 0, "head_dim": 0} if kind in PURE_SSM else _attention(reader, kind, hidden)
    values |= mlp_widths(reader, kind, layers, hidden, blocks)
    if reader.names("block_configs") is not None or isinstance(reader.raw.get("block_configs"), list):
        values |= _pruned_blocks(reader, values)
    if kind in LEARNED_POSITIONS:
        values["learned_positions"] = values["max_context"]
    return ModelShape(params_b=0.0, active_params_b=0.0, **values)


def _identity(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    listed = config.get("architectures")
    named = config.get("_name_or_path") or (listed[0] if isinstance(listed, list) and listed else "")
    name = str(named)[:200] if isinstance(named, str) and named.strip() else kind or "custom"
    vision = isinstance(config.get("vision_config"), Mapping)
    return {
        "id": name,
        "name": name,
        "origin": "hf_config",
        "modality": "encoder" if kind in ENCODERS else "asr" if kind == "whisper" else "text+vision" if vision else "text",
        "native_precision": native_precision(config),
    }


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language backbone of a multimodal config, or the config itself."""
    thinker = config.get("thinker_config")
    outer = thinker if isinstance(thinker, Mapping) and thinker else config
    for name in ("text_config", "language_config", "llm_config"):
        part = outer.get(name)
        if isinstance(part, Mapping) and part:
            return part
    return outer


def _tied(reader: Reader, config: Mapping[str, Any], kind: str) -> bool:
    """What the text part says, else the outer config, else what the family does."""
    default = Reader(config).switch("tie_word_embeddings", default=kind in TIED)
    return reader.switch("tie_word_embeddings", default=default)


def native_precision(config: Mapping[str, Any]) -> str:
    """Precision the checkpoint ships in: its quantisation, else its dtype, else bf16."""
    for source in (config, _text_part(config)):
        quantised = source.get("quantization_config")
        if isinstance(quantised, Mapping):
            return _quantised(quantised)
    dtype = str(config.get("torch_dtype") or config.get("dtype") or _text_part(config).get("torch_dtype") or "bfloat16")
    return {"float16": "fp16", "float32": "fp32"}.get(dtype, "bf16")


def _quantised(part: Mapping[str, Any]) -> str:
    method = str(part.get("quant_method", ""))[:100].lower()
    described = " ".join(
        [method, *(str(part.get(key, ""))[:100] for key in ("fmt", "quant_algo", "format", "bits", "weight_bits"))]
    ).lower()
    weights = _group_weights(part)
    if "fp4" in described or (weights.get("type") == "float" and weights.get("num_bits") == 4):
        return "fp4"
    if "fp8" in described or "e4m3" in described or (weights.get("type") == "float" and weights.get("num_bits") == 8):
        return "fp8"
    bits = 4 if part.get("load_in_4bit") else 8 if part.get("load_in_8bit") else weights.get("num_bits")
    if bits == 4 or (bits is None and "4" in described):
        return "int4"
    if bits == 8 or (bits is None and "8" in described):
        return "int8"
    return "int4" if method in ("awq", "gptq", "bitsandbytes") else "bf16"


def _group_weights(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """What compressed-tensors says of the weights of its first group."""
    groups = part.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights if isinstance(weights, Mapping) else {}


def _attention(reader: Reader, kind: str, hidden: int) -> dict[str, Any]:
    """Heads, their widths and the low ranks of MLA."""
    raw = reader.raw
    nested = reader.part("attn_config")  # DBRX and MPT keep some of it in a part of its own
    heads = reader.count("heads", low=1, high=100_000)
    source = nested if nested.has("kv_heads") else reader
    if raw.get("multi_query") is True and not raw.get("new_decoder_architecture"):
        kv = 1
    elif raw.get("multi_query_attention"):
        kv = reader.count("multi_query_group_num", low=1, default=heads)
    else:
        kv = source.count("kv_heads", low=1, high=100_000, default=heads)
    if kv > heads or heads % kv:
        raise ConfigError("num_key_value_heads", f"is {kv}; it must divide num_attention_heads = {heads}", f"a divisor of {heads}")
    width = reader.count("head_dim", low=1, high=100_000, default=0) or reader.count("kv_channels", low=1, default=0)
    if not width:
        if hidden % heads and not reader.has("kv_lora_rank"):
            raise ConfigError("head_dim", f"is missing and hidden_size {hidden} does not divide by {heads} heads; give head_dim")
        width = max(hidden // heads, 1)
    values: dict[str, Any] = {"heads": heads, "kv_heads": kv, "head_dim": width}
    if reader.count("kv_lora_rank", default=0):
        return values | {
            "attention": "mla",
            "q_lora_rank": reader.count("q_lora_rank", default=0),
            "kv_lora_rank": reader.count("kv_lora_rank", low=1),
            "qk_nope_dim": reader.count("qk_nope_head_dim", low=1, default=128),
            "qk_rope_dim": reader.count("qk_rope_head_dim", default=64),
            "v_head_dim": reader.count("v_head_dim", low=1, default=128),
        }
    values["attention"] = "mqa" if kv == 1 and heads > 1 else "mha" if kv == heads else "gqa"
    if reader.has("v_head_dim"):
        values["v_head_dim"] = reader.count("v_head_dim", low=1)
    if reader.switch("attn_output_gate", default=kind in GATED_DELTA):
        values["gated_attention"] = True
    return values | _sliding_heads(reader, values)


def _sliding_heads(reader: Reader, values: dict[str, Any]) -> dict[str, Any]:
    """Heads of window layers where they differ: named for the full layers (Gemma 4) or for the windows (MiMo)."""
    if reader.has("global_head_dim") or reader.has("num_global_key_value_heads"):
        return {
            "sliding_kv_heads": values["kv_heads"],
            "sliding_head_dim": values["head_dim"],
            "kv_heads": reader.count("num_global_key_value_heads", low=1, default=values["kv_heads"]),
            "head_dim": reader.count("global_head_dim", low=1, default=values["head_dim"]),
        }
    return {
        "sliding_kv_heads": reader.count("swa_num_key_value_heads", low=1, default=0),
        "sliding_head_dim": reader.count("swa_head_dim", low=1, default=0),
    }


def _pruned_blocks(reader: Reader, values: dict[str, Any]) -> dict[str, Any]:
    """Blocks that a search has pruned one by one (Nemotron-NAS): attention or MLP left out, MLPs of many widths."""
    blocks = reader.raw["block_configs"]
    if len(blocks) != values["layers"] or not all(isinstance(item, Mapping) for item in blocks):
        raise ConfigError("block_configs", f"must describe each of the {values['layers']} layers", f"{values['layers']} entries")
    parts = [(Reader(item).part("attention"), Reader(item).part("ffn")) for item in blocks]
    groups = [part.count("n_heads_in_group", low=1, high=values["heads"]) for part, _ in parts if part.has("n_heads_in_group")]
    ratios = [part.raw.get("ffn_mult") for _, part in parts]
    known = [float(item) for item in ratios if isinstance(item, int | float) and not isinstance(item, bool) and 0 < item < 1000]
    if not groups or not known:
        raise ConfigError("block_configs", "must give n_heads_in_group and ffn_mult of the blocks that are kept")
    hidden = values["hidden"]
    widths = [256 * -(-int(2 * ratio * hidden / 3) // 256) for ratio in known]
    return {
        "kv_heads": max(values["heads"] // round(sum(groups) / len(groups)), 1),
        "attention": "gqa",
        "full_attention_layers": len(groups),
        "mlp_layers": len(known),
        "ffn_dense": round(sum(widths) / len(widths)),
    }


def _whisper(reader: Reader, config: Mapping[str, Any]) -> ModelShape:
    """Encoder and decoder of equal width; the decoder attends to the encoder too (arXiv 2212.04356)."""
    hidden = reader.count("hidden", low=1)
    encoder, decoder = (reader.count(f"{side}_layers", low=1, high=MAX_LAYERS) for side in ("encoder", "decoder"))
    heads = reader.count("decoder_attention_heads", low=1, high=100_000)
    if hidden % heads:
        raise ConfigError("decoder_attention_heads", f"must divide d_model = {hidden}", f"a divisor of {hidden}")
    positions = reader.count("max_source_positions", default=1500) + reader.count("max_target_positions", default=448)
    cross = decoder * 4 * hidden * hidden
    return ModelShape(
        **_identity(config, "whisper"),
        layers=encoder + decoder,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        attention="mha",
        ffn_dense=reader.count("decoder_ffn_dim", low=1, default=4 * hidden),
        gated_mlp=False,
        vocab=reader.count("vocab", low=1, high=MAX_VOCAB),
        tied_embeddings=True,
        full_attention_layers=encoder + decoder,
        mlp_layers=encoder + decoder,
        learned_positions=positions,
        max_context=reader.count("max_target_positions", default=448),
        kv_cache_share=decoder / (encoder + decoder),
        other_params_b=cross / 1e9,
        params_b=0.0,
        active_params_b=0.0,
    )


def _vision_b(config: Mapping[str, Any], text_hidden: int) -> float:
    """Parameters of the vision tower, billions: its own layers of attention and MLP, and the merger before the text."""
    for outer in (config, config.get("thinker_config")):
        vision = outer.get("vision_config") if isinstance(outer, Mapping) else None
        if isinstance(vision, Mapping):
            break
    else:
        return 0.0
    reader = Reader(vision)
    kind = str(vision.get("model_type") or config.get("model_type") or "")[:100].lower()
    layers = reader.count("depth", default=0, high=MAX_LAYERS) or reader.count("layers", default=0, high=MAX_LAYERS)
    # Qwen2-VL calls the tower's width embed_dim and the text's hidden_size.
    hidden = reader.count("embed_dim", default=0) or reader.count("hidden", default=0)
    inner = reader.count("ffn", low=1, default=reader.count("mlp_ratio", low=1, default=4) * hidden)
    matrices = 3 if kind.startswith("qwen2_5_vl") or kind.startswith("pixtral") else 2
    merged = hidden * reader.count("spatial_merge_size", low=1, high=64, default=2) ** 2 if kind.startswith("qwen") else 0
    merger = merged * merged + merged * text_hidden
    return (layers * (4 * hidden * hidden + matrices * hidden * inner) + merger) / 1e9
