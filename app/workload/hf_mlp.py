"""From a config: the widths of dense MLPs and experts, and how many layers have which."""

from __future__ import annotations

import math
from typing import Any

from app.workload.hf_layers import PURE_SSM
from app.workload.hf_reader import MAX_EXPERTS, MAX_LAYERS, ConfigError, Reader

TWO_MATRIX_MLP = (
    "gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "bert", "roberta", "xlm-roberta", "mpt", "gpt_bigcode", "starcoder2",
    "phi", "nemotron", "nemotron_h", "whisper", "esm", "gpt_neo", "codegen", "mpnet", "electra", "deberta", "deberta-v2", "distilbert",
)  # fmt: skip
"""Families whose MLP has two matrices; all others are gated with three."""


def mlp_widths(reader: Reader, kind: str, layers: int, hidden: int, blocks: dict[str, Any]) -> dict[str, Any]:
    """Fields of the shape about MLPs. ``blocks``: what a pattern of blocks has already said about their number."""
    if kind in PURE_SSM:
        return {"ffn_dense": 0}
    nested = reader.part("ffn_config")
    if nested.has("moe_num_experts"):  # DBRX keeps its experts in a part of its own
        reader = Reader({**nested.raw, "moe_intermediate_size": nested.raw.get("ffn_hidden_size")})
    wide = kind in TWO_MATRIX_MLP or reader.has("expansion_ratio")
    ratio = reader.count("expansion_ratio", low=1, default=4) if wide else 0
    ffn = _rounded(reader, reader.count("ffn", low=1, default=ratio * hidden))
    if "moe_layers" in blocks or "mlp_layers" in blocks:
        experts = _experts(reader, kind, ffn) if blocks.get("moe_layers") else {}
        return {"ffn_dense": ffn, **experts}
    if reader.has("experts") and reader.count("experts", high=MAX_EXPERTS) > 1:
        moe = _moe_layers(reader, layers)
        dense = reader.count("intermediate_size_mlp", low=1, default=ffn) if kind.startswith("llama4") else ffn
        if moe < layers and not dense:
            raise ConfigError("intermediate_size", f"is missing; {layers - moe} layers have a dense MLP")
        return {
            **_experts(reader, kind, ffn),
            "moe_layers": moe,
            "mlp_layers": layers - moe,
            "ffn_dense": dense if layers > moe else 0,
        }
    if not ffn:
        raise ConfigError("intermediate_size", "is missing; the MLP's inner width is needed")
    return {"ffn_dense": ffn, "mlp_layers": layers}


def _rounded(reader: Reader, ffn: int) -> int:
    """Two thirds of the stated width, rounded up, where the config says that the model's code adjusts it (LFM2)."""
    if not reader.switch("block_auto_adjust_ff_dim"):
        return ffn
    multiple = reader.count("block_multiple_of", low=1, default=256)
    return multiple * math.ceil(2 * ffn / 3 / multiple)


def _experts(reader: Reader, kind: str, ffn: int) -> dict[str, Any]:
    experts = reader.count("experts", low=1, high=MAX_EXPERTS)
    top_k = reader.count("top_k", low=1, high=MAX_EXPERTS)
    if top_k > experts:
        raise ConfigError("num_experts_per_tok", f"is {top_k}, more than the {experts} experts", f"at most {experts}")
    inner = reader.count("moe_ffn", low=1, default=ffn)
    if not inner:
        raise ConfigError("moe_intermediate_size", "is missing; the experts' inner width is needed")
    shared_width = reader.count("shared_ffn", default=0)
    shared = 1 if kind.startswith("llama4") else reader.count("shared", default=1 if shared_width else 0, high=MAX_EXPERTS)
    return {"experts": experts, "top_k": top_k, "moe_ffn": inner, "shared_experts": shared, "shared_ffn": shared_width if shared else 0}


def _moe_layers(reader: Reader, layers: int) -> int:
    """Layers with experts: all after the first dense ones, or one in so many, or as listed."""
    flags = reader.names("moe_layer_freq")
    if flags is not None:
        if len(flags[1]) != layers:
            raise ConfigError("moe_layer_freq", f"has {len(flags[1]):,} entries for {layers:,} layers", f"{layers:,} entries")
        return sum(item not in ("0", "False") for item in flags[1])
    dense_first = reader.count("dense_first", default=0, high=MAX_LAYERS)
    steps = ("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period", "moe_layer_interval")
    step = next((reader.count(key, low=1, high=MAX_LAYERS) for key in steps if reader.has(key)), 1)
    only_dense = reader.names("mlp_only_layers")
    moe = layers // step - min(dense_first, layers) // step
    return max(moe - (len(only_dense[1]) if only_dense is not None else 0), 0)
