"""A plausible modern architecture for a model of which only the size is known."""

from __future__ import annotations

import dataclasses
from functools import cache

from app.catalog.model_shape import ModelShape
from app.workload.architecture import parameter_counts

LADDER = (
    # (billions up to, layers, hidden, heads, KV heads, MLP width / hidden)
    (0.8, 24, 1024, 16, 8, 3.5),
    (2.0, 24, 2048, 16, 8, 3.0),
    (5.0, 28, 3072, 24, 8, 2.67),
    (10.0, 32, 4096, 32, 8, 3.5),
    (20.0, 40, 5120, 40, 8, 2.7),
    (50.0, 64, 5120, 40, 8, 5.4),
    (100.0, 80, 8192, 64, 8, 3.5),
    (250.0, 96, 12288, 96, 8, 3.5),
    (700.0, 126, 16384, 128, 8, 3.25),
    (100_000.0, 160, 24576, 192, 8, 3.5),
)
"""Depth and width by size: the published dense models with grouped-query attention of about that size
(Llama 3 8B, 70B and 405B, Qwen2.5 0.5B to 72B, Mistral Large)."""

VOCABULARY = 128_256
EXPERTS, TOP_K = 64, 8
"""A fine-grained mixture: eight experts a token as in DeepSeek-V3 and Qwen3; their number follows from the two sizes."""


@cache
def shape_from_size(params_b: float, active_params_b: float | None = None) -> ModelShape:
    """An architecture whose parameter count is ``params_b`` billion within 1%: depth and head count from the
    ladder, the MLP (or expert) width solved for. MoE when ``active_params_b`` is clearly smaller."""
    moe = active_params_b is not None and active_params_b < 0.9 * params_b
    size = active_params_b if moe and active_params_b is not None else params_b
    _, layers, hidden, heads, kv_heads, ratio = next(rung for rung in LADDER if size <= rung[0])
    head_dim = hidden // heads
    base = ModelShape(
        id=f"{'moe' if moe else 'dense'}-{params_b:g}b",
        name=f"{params_b:g}B {'mixture of experts' if moe else 'dense'} (architecture inferred from the size)",
        origin="inferred",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_dense=0 if moe else int(hidden * ratio),
        vocab=VOCABULARY if size >= 2 else 32_000,
        tied_embeddings=size < 5,
        full_attention_layers=layers,
        mlp_layers=0 if moe else layers,
        moe_layers=layers if moe else 0,
        experts=EXPERTS if moe else 0,
        top_k=TOP_K if moe else 0,
        moe_ffn=1024 if moe else 0,
        max_context=131_072,
        params_b=params_b,
        active_params_b=active_params_b if moe and active_params_b is not None else params_b,
    )
    return _solved(base, params_b * 1e9, moe)


def _solved(base: ModelShape, target: float, moe: bool) -> ModelShape:
    """Set the MLP width so that the total meets the target; narrower attention where even none fits."""
    counts = parameter_counts(base)
    fixed = counts.total - counts.dense_mlp - counts.routed_experts
    if fixed > 0.8 * target:
        smaller = dataclasses.replace(
            base, layers=max(base.layers // 2, 1), hidden=max(base.hidden // 2, 64), heads=max(base.heads // 2, 1)
        )
        smaller = dataclasses.replace(
            smaller,
            kv_heads=min(base.kv_heads, smaller.heads),
            head_dim=max(smaller.hidden // smaller.heads, 1),
            full_attention_layers=smaller.layers,
            mlp_layers=0 if moe else smaller.layers,
            moe_layers=smaller.layers if moe else 0,
            tied_embeddings=True,
            vocab=min(base.vocab, 32_000 if base.hidden > 256 else 1_000),
        )
        return smaller if smaller.hidden <= 64 else _solved(smaller, target, moe)
    if moe:
        return _mixture(base, fixed, target)
    width = (target - fixed) / (base.layers * 3 * base.hidden)
    return dataclasses.replace(base, ffn_dense=max(round(width), 1))


def _mixture(base: ModelShape, fixed: float, target: float) -> ModelShape:
    """Expert width from the active size, number of experts from the total, width again so that the total is met."""
    per_width = 3.0 * base.hidden * base.layers
    active = max(base.active_params_b * 1e9 - fixed, 0.1 * base.active_params_b * 1e9)
    width = max(active / (base.top_k * per_width), 1.0)
    experts = max(round((target - fixed) / (width * per_width)), base.top_k)
    routers = float(base.layers * base.hidden * (experts - base.experts))
    return dataclasses.replace(base, experts=experts, moe_ffn=max(round((target - fixed - routers) / (experts * per_width)), 1))
