"""Read a Hugging Face ``config.json`` into a ModelShape.

Knows dense, GQA, MoE, MLA, sliding-window, hybrid SSM / linear-attention and multimodal text backbones, under the
key names the model families use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from app.catalog.model_shape import ModelShape
from app.workload.architecture import parameter_counts

MAX_LAYERS, MAX_WIDTH, MAX_VOCAB, MAX_EXPERTS = 2_000, 1_000_000, 10_000_000, 100_000


class ConfigError(ValueError):
    """A config that cannot be sized: the key, what is wrong and the limit."""

    def __init__(self, key: str, message: str, limit: str = "") -> None:
        super().__init__(f"{key}: {message}")
        self.key, self.message, self.limit = key, message, limit


NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "decoder_ffn_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_top_k", "num_selected_experts"),
    "moe_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size", "moe_ffn_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts"),
    "context": ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length", "max_seq_len"),
}

TWO_MATRIX_MLP = (
    "gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "bert", "roberta", "xlm-roberta", "mpt", "gpt_bigcode", "starcoder2",
    "phi", "nemotron", "nemotron_h", "whisper", "esm", "gpt_neo",
)  # fmt: skip
LEARNED_POSITIONS = ("gpt2", "opt", "bert", "roberta", "xlm-roberta", "gpt_bigcode", "gpt_neo", "esm")
FULL_HEADS = ("mha",)


@dataclasses.dataclass(frozen=True)
class Reader:
    """Typed access to a config's numbers under any of their names."""

    raw: Mapping[str, Any]

    def find(self, what: str) -> tuple[str, Any] | None:
        """The first name of ``what`` that is present and not null."""
        for name in NAMES.get(what, (what,)):
            if self.raw.get(name) is not None:
                return name, self.raw[name]
        return None

    def count(self, what: str, *, low: int = 0, high: int = MAX_WIDTH, default: int | None = None) -> int:
        """A whole number within limits, or ``default``; a missing key without one is an error."""
        found = self.find(what)
        if found is None:
            if default is None:
                names = " or ".join(NAMES.get(what, (what,))[:2])
                raise ConfigError(NAMES.get(what, (what,))[0], f"is missing; a model needs {names}")
            return default
        name, value = found
        if isinstance(value, list) and value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            value = round(sum(value) / len(value))
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
            raise ConfigError(name, f"must be a whole number, got {str(value)[:40]!r}")
        if not low <= value <= high:
            raise ConfigError(name, f"is {int(value):,}; it must be from {low:,} to {high:,}", f"{low:,} to {high:,}")
        return int(value)


def shape_from_hf_config(config: Mapping[str, Any], params_b: float | None = None) -> ModelShape:
    """Shape of a published config. ``params_b``: the published size where known, for the record.

    Raises:
        ConfigError: naming the key, what is wrong and the limit.
    """
    text = _text_part(config)
    reader = Reader(text)
    kind = str(text.get("model_type") or config.get("model_type") or "").lower()
    layers = reader.count("layers", low=1, high=MAX_LAYERS)
    hidden = reader.count("hidden", low=1)
    vocab = reader.count("vocab", low=1, high=MAX_VOCAB)
    values: dict[str, Any] = {
        "id": str(config.get("_name_or_path") or (config.get("architectures") or ["custom"])[0])[:200] or "custom",
        "origin": "hf_config",
        "layers": layers,
        "hidden": hidden,
        "vocab": vocab,
        "tied_embeddings": bool(
            text.get(
                "tie_word_embeddings",
                config.get("tie_word_embeddings", kind in ("gpt2", "bloom", "opt", "falcon", "gemma", "gemma2", "gemma3_text", "bert")),
            )
        ),
        "gated_mlp": kind not in TWO_MATRIX_MLP,
        "max_context": reader.count("context", default=0, high=1_000_000_000),
        "native_precision": native_precision(config),
        "modality": _modality(config, kind),
    }
    values["name"] = values["id"]
    values |= _attention(reader, kind, layers, hidden)
    values |= _layer_kinds(reader, text, kind, layers, hidden)
    values |= _mlp(reader, text, kind, layers, hidden)
    if kind in LEARNED_POSITIONS:
        values["learned_positions"] = values["max_context"]
    values["vision_params_b"] = _vision_b(config)
    shape = ModelShape(params_b=0.0, active_params_b=0.0, **values)
    counts = parameter_counts(shape)
    total = counts.total / 1e9 if params_b is None else params_b
    return dataclasses.replace(shape, params_b=total, active_params_b=min(counts.active / 1e9, total) if shape.is_moe else total)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language backbone of a multimodal config, or the config itself."""
    for name in ("text_config", "language_config", "llm_config", "thinker_config"):
        part = config.get(name)
        if isinstance(part, Mapping) and part:
            return _text_part(part) if name == "thinker_config" else part
    return config


def native_precision(config: Mapping[str, Any]) -> str:
    """Precision the checkpoint ships in: its quantisation, else its dtype, else bf16."""
    for source in (config, _text_part(config)):
        quantised = source.get("quantization_config")
        if isinstance(quantised, Mapping):
            method = str(quantised.get("quant_method", "")).lower()
            described = " ".join([method, *(str(quantised.get(key, "")) for key in ("fmt", "quant_algo", "bits", "weight_bits"))]).lower()
            if "fp4" in described:
                return "fp4"
            if "fp8" in described or "e4m3" in described:
                return "fp8"
            if "4" in described or method in ("awq", "gptq", "bitsandbytes"):
                return "int8" if "8" in described else "int4"
            return "int8" if "8" in described else "bf16"
    dtype = str(config.get("torch_dtype") or config.get("dtype") or _text_part(config).get("torch_dtype") or "bfloat16")
    return {"float16": "fp16", "float32": "fp32"}.get(dtype, "bf16")


def _modality(config: Mapping[str, Any], kind: str) -> str:
    if kind in ("bert", "roberta", "xlm-roberta", "esm", "mpnet", "nomic_bert", "modernbert"):
        return "encoder"
    if kind == "whisper":
        return "asr"
    return "text+vision" if isinstance(config.get("vision_config"), Mapping) else "text"


def _attention(reader: Reader, kind: str, layers: int, hidden: int) -> dict[str, Any]:
    raw = reader.raw
    if reader.find("heads") is None and _is_pure_ssm(raw, kind):
        return {"heads": 0, "kv_heads": 0, "head_dim": 0, "attention": "none"}
    heads = reader.count("heads", low=1, high=100_000)
    kv = (
        1
        if raw.get("multi_query") is True and not raw.get("new_decoder_architecture")
        else reader.count("kv_heads", low=1, high=100_000, default=heads)
    )
    if kind == "chatglm" and raw.get("multi_query_attention"):
        kv = reader.count("multi_query_group_num", low=1, default=heads)
    if kv > heads or heads % kv:
        raise ConfigError("num_key_value_heads", f"is {kv}; it must divide num_attention_heads = {heads}", f"a divisor of {heads}")
    head_dim = reader.count("head_dim", low=1, high=100_000, default=0) or reader.count("kv_channels", low=1, default=0)
    if not head_dim:
        if hidden % heads and "kv_lora_rank" not in raw:
            raise ConfigError("head_dim", f"is missing and hidden_size {hidden} does not divide by {heads} heads; give head_dim")
        head_dim = max(hidden // heads, 1)
    values: dict[str, Any] = {"heads": heads, "kv_heads": kv, "head_dim": head_dim}
    if raw.get("kv_lora_rank"):
        values |= {
            "attention": "mla",
            "q_lora_rank": reader.count("q_lora_rank", default=0),
            "kv_lora_rank": reader.count("kv_lora_rank", low=1),
            "qk_nope_dim": reader.count("qk_nope_head_dim", low=1, default=128),
            "qk_rope_dim": reader.count("qk_rope_head_dim", default=64),
            "v_head_dim": reader.count("v_head_dim", low=1, default=128),
        }
    else:
        values["attention"] = "mqa" if kv == 1 and heads > 1 else "mha" if kv == heads else "gqa"
        if raw.get("v_head_dim"):
            values["v_head_dim"] = reader.count("v_head_dim", low=1)
    if raw.get("attn_output_gate") or kind in ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"):
        values["gated_attention"] = True
    return values


def _is_pure_ssm(raw: Mapping[str, Any], kind: str) -> bool:
    return kind in ("mamba", "mamba2", "falcon_mamba") or "state_size" in raw


def _layer_kinds(reader: Reader, text: Mapping[str, Any], kind: str, layers: int, hidden: int) -> dict[str, Any]:
    """How many layers attend in full, in a window, or linearly."""
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        blocks = pattern[:MAX_LAYERS]
        return {
            "full_attention_layers": blocks.count("*"),
            "linear_layers": blocks.count("M"),
            "mlp_layers": blocks.count("-"),
            "moe_layers": blocks.count("E"),
            **_mamba2(reader, hidden),
        }
    if _is_pure_ssm(text, kind) and reader.find("heads") is None:
        return {"full_attention_layers": 0, "linear_layers": layers, **_mamba1(reader, hidden)}
    kinds = text.get("layer_types") or text.get("layers_block_type")
    window = reader.count("sliding_window", default=0, high=1_000_000_000) if not isinstance(text.get("sliding_window"), bool) else 0
    if isinstance(kinds, list) and kinds:
        names = [str(item) for item in kinds[:MAX_LAYERS]]
        sliding = sum("sliding" in name or "chunked" in name for name in names)
        linear = sum("linear" in name or "mamba" in name or "recurrent" in name for name in names)
        full = len(names) - sliding - linear
        chunk = reader.count("attention_chunk_size", default=0) if any("chunked" in name for name in names) else 0
        return {
            "full_attention_layers": full,
            "sliding_layers": sliding,
            "sliding_window": (chunk or window) if sliding else 0,
            "linear_layers": linear,
            **(_linear(reader, kind, hidden) if linear else {}),
        }
    every = reader.count("full_attention_interval", default=0)
    if every and kind.startswith(("qwen3_next", "qwen3_5")):
        return {"full_attention_layers": layers // every, "linear_layers": layers - layers // every, **_linear(reader, kind, hidden)}
    period = reader.count("attn_layer_period", default=0)
    if period:
        full = len(range(reader.count("attn_layer_offset", default=0), layers, period))
        return {"full_attention_layers": full, "linear_layers": layers - full, **_mamba1(reader, hidden)}
    step = reader.count("sliding_window_pattern", default=0) or {"gemma2": 2, "gemma3_text": 6, "gemma3": 6}.get(kind, 0)
    if window and step:
        full = layers // step
        return {"full_attention_layers": full, "sliding_layers": layers - full, "sliding_window": window}
    if window and text.get("use_sliding_window", True) and kind in ("mistral", "mixtral", "phi3", "starcoder2"):
        return {"full_attention_layers": 0, "sliding_layers": layers, "sliding_window": window}
    return {"full_attention_layers": layers}


def _linear(reader: Reader, kind: str, hidden: int) -> dict[str, Any]:
    """Gated DeltaNet layers (Qwen3-Next): projections to q, k, v, z, b, a, a short convolution, and back."""
    if reader.find("mamba_d_state") or reader.find("mamba_num_heads"):
        return _mamba2(reader, hidden)
    key_heads = reader.count("linear_num_key_heads", low=1, default=16)
    value_heads = reader.count("linear_num_value_heads", low=1, default=32)
    key_dim = key_heads * reader.count("linear_key_head_dim", low=1, default=128)
    value_width = reader.count("linear_value_head_dim", low=1, default=128)
    value_dim = value_heads * value_width
    kernel = reader.count("linear_conv_kernel_dim", low=1, default=4)
    conv = 2 * key_dim + value_dim
    parameters = hidden * (2 * key_dim + 2 * value_dim) + hidden * 2 * value_heads + conv * kernel + 2 * value_heads + value_dim * hidden
    state = value_heads * value_width * (key_dim // key_heads) * 4 + conv * (kernel - 1) * 2
    return {"linear_parameters_per_layer": float(parameters), "linear_state_bytes_per_layer": float(state)}


def _mamba1(reader: Reader, hidden: int) -> dict[str, Any]:
    """Mamba: in-projection, convolution, x/dt projections, A and D, out-projection (arXiv 2312.00752)."""
    inner = reader.count("mamba_expand", low=1, default=reader.count("expand", low=1, default=2)) * hidden
    state = reader.count("mamba_d_state", low=1, default=reader.count("state_size", low=1, default=16))
    kernel = reader.count("mamba_d_conv", low=1, default=reader.count("conv_kernel", low=1, default=4))
    rank = max(hidden // 16, 1)
    parameters = hidden * 2 * inner + inner * kernel + inner * (rank + 2 * state) + rank * inner + inner * state + inner + inner * hidden
    return {
        "linear_parameters_per_layer": float(parameters),
        "linear_state_bytes_per_layer": float(inner * state * 4 + inner * (kernel - 1) * 2),
    }


def _mamba2(reader: Reader, hidden: int) -> dict[str, Any]:
    """Mamba-2: one in-projection to z, x, B, C, dt; convolution over x, B, C; out-projection (arXiv 2405.21060)."""
    heads = reader.count("mamba_num_heads", low=1, default=reader.count("mamba_n_heads", low=1, default=max(hidden // 64, 1)))
    width = reader.count("mamba_head_dim", low=1, default=reader.count("mamba_d_head", low=1, default=64))
    state = reader.count("ssm_state_size", low=1, default=reader.count("mamba_d_state", low=1, default=128))
    groups = reader.count("n_groups", low=1, default=reader.count("mamba_n_groups", low=1, default=8))
    kernel = reader.count("conv_kernel", low=1, default=reader.count("mamba_d_conv", low=1, default=4))
    inner = heads * width
    conv = inner + 2 * groups * state
    parameters = hidden * (2 * inner + 2 * groups * state + heads) + conv * kernel + 3 * heads + inner + inner * hidden
    return {
        "linear_parameters_per_layer": float(parameters),
        "linear_state_bytes_per_layer": float(inner * state * 4 + conv * (kernel - 1) * 2),
    }


def _mlp(reader: Reader, text: Mapping[str, Any], kind: str, layers: int, hidden: int) -> dict[str, Any]:
    """Dense and expert widths and how many layers have which."""
    ffn = reader.count("ffn", default=4 * hidden if kind in TWO_MATRIX_MLP else 0)
    nested = text.get("ffn_config")
    if isinstance(nested, Mapping):  # DBRX keeps its experts in a part of its own
        inner = Reader(
            {
                "num_experts": nested.get("moe_num_experts"),
                "num_experts_per_tok": nested.get("moe_top_k"),
                "moe_intermediate_size": nested.get("ffn_hidden_size"),
            }
        )
        if inner.find("experts"):
            return _experts(inner, {}, layers, 0, hidden)
    if isinstance(text.get("hybrid_override_pattern"), str):
        values = {"ffn_dense": ffn}
        if reader.find("experts"):
            values |= {
                "experts": reader.count("experts", low=1, high=MAX_EXPERTS),
                "top_k": reader.count("top_k", low=1, high=MAX_EXPERTS),
                "moe_ffn": reader.count("moe_ffn", low=1),
                "shared_experts": reader.count("shared", default=0),
                "shared_ffn": reader.count("moe_shared_expert_intermediate_size", default=0),
            }
        return values
    if reader.find("experts") and reader.count("experts", high=MAX_EXPERTS, default=0) > 1:
        return _experts(reader, text, layers, ffn, hidden)
    if not ffn and not _is_pure_ssm(text, kind):
        raise ConfigError("intermediate_size", "is missing; the MLP's inner width is needed")
    return {"ffn_dense": ffn, "mlp_layers": layers if ffn else 0}


def _experts(reader: Reader, text: Mapping[str, Any], layers: int, ffn: int, hidden: int) -> dict[str, Any]:
    experts = reader.count("experts", low=1, high=MAX_EXPERTS)
    top_k = reader.count("top_k", low=1, high=MAX_EXPERTS, default=2)
    if top_k > experts:
        raise ConfigError("num_experts_per_tok", f"is {top_k}, more than the {experts} experts", f"at most {experts}")
    inner = reader.count("moe_ffn", low=1, default=ffn) or ffn
    if not inner:
        raise ConfigError("moe_intermediate_size", "is missing; the experts' inner width is needed")
    dense_first = reader.count("first_k_dense_replace", default=0, high=MAX_LAYERS)
    step = reader.count("moe_layer_freq", low=1, default=0) if not isinstance(text.get("moe_layer_freq"), list) else 0
    step = step or reader.count("decoder_sparse_step", low=1, default=0) or reader.count("interleave_moe_layer_step", low=1, default=0)
    step = step or reader.count("expert_layer_period", low=1, default=1)
    moe = max(layers - dense_first, 0) if step <= 1 else max(layers // step - dense_first // step, 0)
    if isinstance(text.get("moe_layer_freq"), list):
        moe = sum(bool(item) for item in text["moe_layer_freq"][:MAX_LAYERS])
    shared_width = reader.count("shared_expert_intermediate_size", default=0)
    shared = reader.count("shared", default=1 if shared_width else 0)
    if str(text.get("model_type", "")).startswith("llama4"):
        shared = 1
        ffn = reader.count("intermediate_size_mlp", default=ffn)
    return {
        "experts": experts,
        "top_k": top_k,
        "moe_ffn": inner,
        "shared_experts": shared,
        "shared_ffn": shared_width,
        "moe_layers": moe,
        "mlp_layers": layers - moe if ffn else 0,
        "ffn_dense": ffn if layers > moe else 0,
    }


def _vision_b(config: Mapping[str, Any]) -> float:
    """Parameters of the vision tower, billions: its own layers of attention and MLP."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0.0
    reader = Reader(vision)
    layers = reader.count("depth", default=0, high=MAX_LAYERS) or reader.count("layers", default=0, high=MAX_LAYERS)
    hidden = reader.count("hidden", default=0) or reader.count("embed_dim", default=0)
    inner = reader.count("ffn", default=4 * hidden) or 4 * hidden
    return layers * (4 * hidden * hidden + 2 * hidden * inner) / 1e9
