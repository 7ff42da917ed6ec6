"""From a config: how many layers attend in full, in a window or linearly, and what a linear layer holds."""

from __future__ import annotations

import math
from typing import Any

from app.workload.hf_reader import MAX_LAYERS, MAX_TOKENS, ConfigError, Reader, shown

PURE_SSM = ("mamba", "mamba2", "falcon_mamba")
SIDE_BY_SIDE = ("falcon_h1",)
"""Attention and SSM in every layer."""
GATED_DELTA = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
FULL_EVERY = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}
"""One full layer in so many, where the config leaves it to the model's code."""
WINDOW_EVERYWHERE = ("mistral", "mixtral", "phi3", "starcoder2")
"""A sliding_window that is set and not switched off holds for all layers."""
KINDS = {
    "full": ("full_attention", "attention", "full", "global", "*"),
    "sliding": ("sliding_attention", "chunked_attention", "local_attention", "sliding", "local", "swa"),
    "linear": ("linear_attention", "mamba", "mamba2", "m", "kda", "linear", "lightning_attention", "conv"),
    "mlp": ("mlp", "-"),
    "moe": ("moe", "e"),
}
"""Words for kinds of layers or blocks."""


def layer_kinds(reader: Reader, kind: str, layers: int, hidden: int) -> dict[str, Any]:
    """Fields of the shape that say how many layers are of which kind."""
    raw = reader.raw
    if kind in PURE_SSM:
        return {"full_attention_layers": 0, "linear_layers": layers, **_linear_layer(reader, kind, hidden)}
    if kind in SIDE_BY_SIDE:
        return {"full_attention_layers": layers, "linear_layers": layers, **_linear_layer(reader, kind, hidden)}
    pattern = raw.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return _from_names(reader, kind, layers, hidden, "hybrid_override_pattern", list(pattern[: MAX_LAYERS + 1].lower()))
    named = reader.names("layer_types", "layers_block_type")
    if named is not None:
        return _from_names(reader, kind, layers, hidden, *named)
    for key, ones in (("attn_type_list", "full"), ("hybrid_layer_pattern", "sliding")):
        flags = reader.names(key)
        if flags is not None:
            other = {"full": "linear", "sliding": "full"}[ones]
            return _from_names(reader, kind, layers, hidden, key, [ones if item in ("1", "True") else other for item in flags[1]])
    return _from_numbers(reader, kind, layers, hidden)


def _from_names(reader: Reader, kind: str, layers: int, hidden: int, key: str, names: list[str]) -> dict[str, Any]:
    """One word, letter or flag for each layer."""
    if len(names) != layers:
        raise ConfigError(key, f"has {len(names):,} entries for {layers:,} layers", f"{layers:,} entries")
    found = dict.fromkeys(KINDS, 0)
    for name in names:
        meant = next((meaning for meaning, words in KINDS.items() if name.lower() in words), None)
        if meant is None:
            known = ", ".join(word for words in KINDS.values() for word in words if len(word) > 1)
            raise ConfigError(key, f"has {shown(name)}, a kind of layer that is not known here; known: {known}")
        found[meant] += 1
    values: dict[str, Any] = {"full_attention_layers": found["full"]}
    if found["sliding"]:
        chunked = any("chunked" in name for name in names)
        window = reader.count("attention_chunk_size", low=1, high=MAX_TOKENS) if chunked else _window(reader)
        values |= {"sliding_layers": found["sliding"], "sliding_window": window}
    if found["linear"]:
        conv = any(name.lower() == "conv" for name in names)
        values |= {
            "linear_layers": found["linear"],
            **(_short_convolution(reader, hidden) if conv else _linear_layer(reader, kind, hidden)),
        }
    if found["mlp"] or found["moe"]:
        values |= {"mlp_layers": found["mlp"], "moe_layers": found["moe"]}
    return values


def _from_numbers(reader: Reader, kind: str, layers: int, hidden: int) -> dict[str, Any]:
    """Periods, offsets and windows."""
    raw = reader.raw
    lists = reader.part("linear_attn_config")
    if lists.raw:
        full = lists.names("full_attn_layers")
        many = min(len(full[1]), layers) if full is not None else 0
        return {"full_attention_layers": many, "linear_layers": layers - many, **_delta_attention(lists, hidden)}
    indices = reader.names("attn_layer_indices")
    if indices is not None:
        many = min(len(indices[1]), layers)
        return {"full_attention_layers": many, "linear_layers": layers - many, **_linear_layer(reader, kind, hidden)}
    every = reader.count("full_attention_interval", default=0)
    if every and kind in GATED_DELTA:
        many = layers // every
        return {"full_attention_layers": many, "linear_layers": layers - many, **_linear_layer(reader, kind, hidden)}
    period = reader.count("attn_layer_period", default=0)
    if period:
        many = len(range(reader.count("attn_layer_offset", default=0), layers, period))
        return {"full_attention_layers": many, "linear_layers": layers - many, **_linear_layer(reader, kind, hidden)}
    chunk = reader.count("attention_chunk_size", default=0, high=MAX_TOKENS)
    if chunk and kind.startswith("llama4"):
        flags = reader.names("no_rope_layers")
        many = sum(item in ("0", "False") for item in flags[1][:layers]) if flags else layers // 4
        return {"full_attention_layers": many, "sliding_layers": layers - many, "sliding_window": chunk}
    step = reader.count("global_attn_every_n_layers", default=0)
    if step:
        many = len(range(0, layers, step))
        return {"full_attention_layers": many, "sliding_layers": layers - many, "sliding_window": _window(reader)}
    if not reader.has("window") or raw.get("sliding_window") is False or not reader.switch("use_sliding_window", default=True):
        return {"full_attention_layers": layers}
    pattern = raw.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # such as LLLG: three local layers, one global
        step = len(pattern) // max(pattern.upper().count("G"), 1)
    else:
        step = reader.count("sliding_window_pattern", default=0) or FULL_EVERY.get(kind, 0)
    if step:
        many = layers // step
        return {"full_attention_layers": many, "sliding_layers": layers - many, "sliding_window": _window(reader)}
    if kind in WINDOW_EVERYWHERE:
        return {"full_attention_layers": 0, "sliding_layers": layers, "sliding_window": _window(reader)}
    return {"full_attention_layers": layers}


def _window(reader: Reader) -> int:
    return reader.count("window", low=1, high=MAX_TOKENS)


def _linear_layer(reader: Reader, kind: str, hidden: int) -> dict[str, Any]:
    """Parameters and state of one linear layer of whatever sort the config describes."""
    if kind.startswith("minimax"):
        return _lightning(reader, hidden)
    mamba2_keys = ("mamba_num_heads", "mamba_n_heads")
    if kind == "mamba2" or any(reader.has(key) for key in mamba2_keys):
        return _mamba2(reader, kind, hidden)
    if kind in PURE_SSM or reader.has("mamba_d_state") or reader.has("attn_layer_period"):
        return _mamba1(reader, hidden)
    return _gated_delta(reader, hidden)


def _gated_delta(reader: Reader, hidden: int) -> dict[str, Any]:
    """Gated DeltaNet (arXiv 2412.06464; Qwen3-Next): projections to q, k, v, z, b, a, a short convolution, and back."""
    key_heads = reader.count("linear_num_key_heads", low=1, default=16)
    value_heads = reader.count("linear_num_value_heads", low=1, default=32)
    key_width = reader.count("linear_key_head_dim", low=1, default=128)
    value_width = reader.count("linear_value_head_dim", low=1, default=128)
    kernel = reader.count("linear_conv_kernel_dim", low=1, default=4)
    key_dim, value_dim = key_heads * key_width, value_heads * value_width
    conv = 2 * key_dim + value_dim
    parameters = hidden * (2 * key_dim + 2 * value_dim) + hidden * 2 * value_heads + conv * kernel + 2 * value_heads + value_dim * hidden
    return _held(parameters, value_heads * value_width * key_width, conv * (kernel - 1))


def _delta_attention(part: Reader, hidden: int) -> dict[str, Any]:
    """Kimi Delta Attention (arXiv 2510.26692): q, k, v and out as wide as the heads, two low-rank gates, short convolutions."""
    heads, width = part.count("num_heads", low=1), part.count("head_dim", low=1)
    kernel = part.count("short_conv_kernel_size", low=1, default=4)
    inner = heads * width
    parameters = 4 * hidden * inner + 2 * (hidden * width + width * inner) + hidden * heads + 3 * inner * kernel
    return _held(parameters, heads * width * width, 3 * inner * (kernel - 1))


def _lightning(reader: Reader, hidden: int) -> dict[str, Any]:
    """Lightning attention (MiniMax-01, arXiv 2501.08313): q, k, v, an output gate and out; one matrix of state a head."""
    heads = reader.count("heads", low=1)
    width = reader.count("head_dim", low=1, default=max(hidden // heads, 1))
    return _held(5 * hidden * heads * width, heads * width * width, 0)


def _short_convolution(reader: Reader, hidden: int) -> dict[str, Any]:
    """Gated short convolution (LFM2): one projection to three, a convolution, and back."""
    kernel = reader.count("conv_L_cache", low=1, default=3)
    return _held(4 * hidden * hidden + hidden * kernel, 0, hidden * (kernel - 1))


def _mamba1(reader: Reader, hidden: int) -> dict[str, Any]:
    """Mamba (arXiv 2312.00752): in-projection, convolution, x and dt projections, A and D, out-projection."""
    inner = reader.count("mamba_expand", low=1, default=reader.count("expand", low=1, default=2)) * hidden
    state = reader.count("mamba_d_state", low=1, default=reader.count("state_size", low=1, default=16))
    kernel = reader.count("mamba_d_conv", low=1, default=reader.count("conv_kernel", low=1, default=4))
    rank = math.ceil(hidden / 16)
    parameters = hidden * 2 * inner + inner * kernel + inner * (rank + 2 * state) + rank * inner + inner * state + inner + inner * hidden
    return _held(parameters, inner * state, inner * (kernel - 1))


def _mamba2(reader: Reader, kind: str, hidden: int) -> dict[str, Any]:
    """Mamba-2 (arXiv 2405.21060): one in-projection to z, x, B, C, dt; convolution over x, B, C; out-projection."""

    def first(*keys: str, default: int) -> int:
        return next((reader.count(key, low=1) for key in keys if reader.has(key)), default)

    width = first("mamba_head_dim", "mamba_d_head", *(("head_dim",) if kind == "mamba2" else ()), default=64)
    heads = first("mamba_num_heads", "mamba_n_heads", "num_heads", default=max(2 * hidden // width, 1))
    state = first("ssm_state_size", "mamba_d_state", "state_size", default=128)
    groups = first("mamba_n_groups", "n_groups", default=8)
    kernel = first("conv_kernel", "mamba_d_conv", default=4)
    inner = heads * width
    conv = inner + 2 * groups * state
    parameters = hidden * (2 * inner + 2 * groups * state + heads) + conv * kernel + 3 * heads + inner + inner * hidden
    return _held(parameters, inner * state, conv * (kernel - 1))


def _held(parameters: int, state_elements: int, window_elements: int) -> dict[str, Any]:
    """Engines keep the recurrent state in 32 bits and the convolution's window in 16."""
    return {
        "linear_parameters_per_layer": float(parameters),
        "linear_state_bytes_per_layer": float(4 * state_elements + 2 * window_elements),
    }
