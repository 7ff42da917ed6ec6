"""Parameters and cache bytes of a model, by component, from its shape.

Symbols: h hidden width, a attention heads, k KV heads, d head width, f inner width of an MLP, V vocabulary,
E routed experts, L layers. Counts follow the published architectures: GQA (arXiv 2305.13245), MLA (DeepSeek-V2,
arXiv 2405.04434, section 2.1), SwiGLU (arXiv 2002.05202), DeepSeekMoE (arXiv 2401.06066).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from app.catalog.model_shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCounts:
    """Parameters (not billions) by component; ``*_layer`` figures are of one layer."""

    embedding: float
    output_head: float
    """0 where it shares the embedding."""
    positions: float
    full_attention_layer: float
    sliding_attention_layer: float
    linear_layer: float
    dense_mlp_layer: float
    expert: float
    """One routed expert of one layer."""
    shared_expert_layer: float
    router_layer: float
    norms: float
    vision: float
    attention: float
    """All attention and linear-attention layers."""
    dense_mlp: float
    routed_experts: float
    shared_experts: float
    routers: float
    other: float
    total: float
    active: float
    """Per token: ``top_k`` of the routed experts and everything else but the vision tower. The input embedding counts
    whole, though one row of it is read."""


def attention_parameters(shape: ModelShape, *, sliding: bool = False) -> float:
    """Parameters of one attention layer: projections to Q, K, V and back."""
    h, a = shape.hidden, shape.heads
    if shape.attention == "none":
        return 0.0
    if shape.attention_parameters_per_layer:
        return shape.attention_parameters_per_layer
    if shape.attention == "mla":
        qk = shape.qk_nope_dim + shape.qk_rope_dim
        query = h * shape.q_lora_rank + shape.q_lora_rank * a * qk if shape.q_lora_rank else h * a * qk
        down = h * (shape.kv_lora_rank + shape.qk_rope_dim)
        up = shape.kv_lora_rank * a * (shape.qk_nope_dim + shape.v_head_dim)
        return float(query + down + up + a * shape.v_head_dim * h)
    k = shape.sliding_kv_heads if sliding and shape.sliding_kv_heads else shape.kv_heads
    d = shape.sliding_head_dim if sliding and shape.sliding_head_dim else shape.head_dim
    v = shape.v_head_dim or d
    shared = 1 if shape.shared_kv else 0
    gate = h * a * d if shape.gated_attention else 0
    return float(h * a * d + gate + h * k * d + (0 if shared else h * k * v) + a * v * h)


def mlp_parameters(hidden: float, inner: float, gated: bool) -> float:
    """One MLP: three matrices when gated (SwiGLU), two otherwise."""
    return (3.0 if gated else 2.0) * hidden * inner


@lru_cache(maxsize=1024)
def parameter_counts(shape: ModelShape) -> ParameterCounts:
    """All components, their total and the active share."""
    h = shape.hidden
    embedding = float(shape.vocab * h)
    head = 0.0 if shape.tied_embeddings else embedding
    positions = float(shape.learned_positions * h)
    full = attention_parameters(shape)
    sliding = attention_parameters(shape, sliding=True)
    dense = mlp_parameters(h, shape.ffn_dense, shape.gated_mlp)
    expert_width = shape.expert_hidden or h
    expert = mlp_parameters(expert_width, shape.moe_ffn, shape.gated_mlp) if shape.is_moe else 0.0
    shared = mlp_parameters(h, shape.shared_ffn or shape.moe_ffn, shape.gated_mlp) * shape.shared_experts if shape.is_moe else 0.0
    latent = 2.0 * h * expert_width if shape.is_moe and shape.expert_hidden else 0.0
    router = float(h * shape.experts) if shape.is_moe else 0.0
    attention = (
        shape.full_attention_layers * full + shape.sliding_layers * sliding + shape.linear_layers * shape.linear_parameters_per_layer
    )
    routed = shape.moe_layers * shape.experts * expert
    norms = float((2 * shape.layers + 1) * h)
    vision = shape.vision_params_b * 1e9
    other = shape.other_params_b * 1e9 + shape.moe_layers * latent
    fixed = (
        embedding + head + positions + attention + shape.mlp_layers * dense + shape.moe_layers * (shared + router) + norms + vision + other
    )
    return ParameterCounts(
        embedding=embedding,
        output_head=head,
        positions=positions,
        full_attention_layer=full,
        sliding_attention_layer=sliding,
        linear_layer=shape.linear_parameters_per_layer,
        dense_mlp_layer=dense,
        expert=expert,
        shared_expert_layer=shared,
        router_layer=router,
        norms=norms,
        vision=vision,
        attention=attention,
        dense_mlp=shape.mlp_layers * dense,
        routed_experts=routed,
        shared_experts=shape.moe_layers * shared,
        routers=shape.moe_layers * router,
        other=other,
        total=fixed + routed,
        active=fixed - vision + shape.moe_layers * shape.top_k * expert,
    )


def kv_cache_elements(shape: ModelShape, *, sliding: bool) -> float:
    """Cache elements of one token in one layer: K and V of every KV head, or the MLA latent with its rope key."""
    if shape.attention == "none":
        return 0.0
    if shape.attention == "mla":
        return float(shape.kv_lora_rank + shape.qk_rope_dim)
    k = shape.sliding_kv_heads if sliding and shape.sliding_kv_heads else shape.kv_heads
    d = shape.sliding_head_dim if sliding and shape.sliding_head_dim else shape.head_dim
    return float(k * (d if shape.shared_kv else d + (shape.v_head_dim or d)))


def kv_cache_bytes_per_token(shape: ModelShape, kv_bytes: float = 2.0) -> float:
    """Cache growth per token of context, bytes: full-attention layers only (windows and states are capped)."""
    return shape.full_attention_layers * shape.kv_cache_share * kv_cache_elements(shape, sliding=False) * kv_bytes


def kv_cache_bytes(shape: ModelShape, tokens: Any, kv_bytes: float = 2.0) -> Any:
    """Cache of sequences of ``tokens`` each, bytes: full layers grow, windows cap, linear layers keep a fixed state.

    tokens: number or array; returns the same shape.
    """
    full = kv_cache_bytes_per_token(shape, kv_bytes) * np.asarray(tokens, dtype=float)
    window = np.minimum(np.asarray(tokens, dtype=float), shape.sliding_window or np.inf)
    sliding = shape.sliding_layers * kv_cache_elements(shape, sliding=True) * kv_bytes * window if shape.sliding_layers else 0.0
    state = shape.linear_layers * shape.linear_state_bytes_per_layer
    return full + sliding + state
