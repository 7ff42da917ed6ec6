"""What one pass through a replica has to do: bytes, FLOP and exchanges, before any efficiency.

Symbols: B rows (tokens) of the pass, n sequences, s context, h hidden width, t tensor-parallel ranks, d attention
data-parallel groups, E experts, k chosen of them. Sources: Pope et al., "Efficiently Scaling Transformer
Inference" (arXiv 2211.05102) for bytes and FLOP of a step; DeepSeek-V2 (arXiv 2405.04434) for MLA's absorbed decode.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from app.engine.collectives import collective_time_s, engine_all_reduce_time_s
from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory import kv_shares
from app.workload.architecture import kv_cache_bytes, parameter_counts

ACTIVATION_PASSES = 12.0
"""Times the residual stream is read or written in a layer outside matrix products: norms, residuals, rotary, quantising;
assumption from counting kernels of a fused decoder layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassWork:
    """Work of one pass on its busiest GPU, all layers; arrays that broadcast together.

    dense_*, expert_*: matrix products outside and inside routed experts, with the rows each product sees and the
    narrowest side it has on one GPU; head_*: the output head; cache_bytes: KV and state read once; sharing: query heads
    that share a cached one; attention_flop: scores and values; stream_bytes: activations outside products; exchange_s:
    collectives inside the layers; hop_s: between stages; layers, moe_layers, parallel_layers (split over GPUs), sequences:
    what launches and scheduling are counted by.
    """

    dense_bytes: FloatArray
    dense_flop: FloatArray
    dense_rows: FloatArray
    dense_side: FloatArray
    expert_bytes: FloatArray
    expert_flop: FloatArray
    expert_rows: FloatArray
    expert_side: FloatArray
    head_bytes: FloatArray
    head_flop: FloatArray
    cache_bytes: FloatArray
    sharing: FloatArray
    attention_flop: FloatArray
    stream_bytes: FloatArray
    exchange_s: FloatArray
    hop_s: FloatArray
    layers: FloatArray
    moe_layers: FloatArray
    parallel_layers: FloatArray
    sequences: FloatArray

    @classmethod
    def stacked(cls, passes: list[PassWork]) -> PassWork:
        """Many scalar passes as one of arrays."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.array([float(np.ravel(getattr(one, name))[0]) for one in passes]) for name in names})


def touched_experts(job: ServingJob, rows: ArrayLike) -> FloatArray:
    """Share of the routed experts that ``rows`` tokens reach when they choose at random: ``1 - (1 - k/E)^B``."""
    shape = job.shape
    tokens = np.asarray(rows, dtype=float)
    if not shape.is_moe:
        return np.zeros_like(tokens)
    result: FloatArray = 1 - (1 - shape.top_k / shape.experts) ** tokens
    return result


def decode_work(job: ServingJob, platform: Platform, layout: ServingLayout, batch: ArrayLike, context: ArrayLike) -> PassWork:
    """One pass over ``batch`` sequences whose contexts are ``context`` tokens long in the mean: one token of each, and those
    a draft head proposed, to be checked; the cache of a sequence is read once for all of them."""
    sequences = np.asarray(batch, dtype=float)
    rows = sequences * (1 + job.speculative_tokens)
    return _work(job, platform, layout, rows, sequences, np.asarray(context, dtype=float), prompt=False)


def draft_work(job: ServingJob, platform: Platform, layout: ServingLayout, batch: ArrayLike, context: ArrayLike) -> PassWork:
    """One token of each sequence proposed by a draft head: one dense layer of the model and its output head (EAGLE, arXiv
    2401.15077; the multi-token module of DeepSeek-V3 is alike)."""
    whole = decode_work(replace(job, speculative_tokens=0.0), platform, layout, batch, context)
    count = float(job.shape.layers)
    one = np.minimum(whole.layers, 1.0)
    split = {name: getattr(whole, name) / count for name in ("dense_bytes", "dense_flop", "cache_bytes", "attention_flop", "stream_bytes")}
    links = {name: getattr(whole, name) / count for name in ("exchange_s", "parallel_layers")}
    none = dict.fromkeys(("expert_bytes", "expert_flop", "hop_s", "moe_layers"), 0.0 * whole.expert_bytes)
    return replace(whole, **split, **links, **none, layers=one)


def prefill_work(job: ServingJob, platform: Platform, layout: ServingLayout, tokens: ArrayLike, context: ArrayLike) -> PassWork:
    """``tokens`` of prompts worked on at once, each attending to ``context`` tokens in the mean."""
    rows = np.asarray(tokens, dtype=float)
    return _work(job, platform, layout, rows, np.ones_like(rows), np.asarray(context, dtype=float), prompt=True)


def _work(
    job: ServingJob,
    platform: Platform,
    layout: ServingLayout,
    rows: FloatArray,
    sequences: FloatArray,
    context: FloatArray,
    *,
    prompt: bool,
) -> PassWork:
    shape = job.shape
    counts = parameter_counts(shape)
    tp, groups = layout.tp, layout.attention_dp
    attention = counts.attention
    shared = counts.total - counts.embedding - counts.output_head - counts.routed_experts - counts.vision - attention
    head = counts.output_head or counts.embedding
    own_rows = rows / groups if not prompt else np.maximum(rows / groups, 1.0)
    touched = touched_experts(job, rows)
    chosen = shape.moe_layers * shape.top_k * counts.expert
    inner = shape.ffn_dense or shape.moe_ffn * max(shape.top_k + shape.shared_experts, 1) or shape.hidden
    reached = np.maximum(touched * shape.experts, 1.0) if shape.is_moe else 1.0
    head_rows = (sequences if prompt else rows) / groups
    shared_by = 1.0 if shape.attention == "mla" or not shape.kv_heads else max(shape.heads / shape.kv_heads, 1.0)
    parts = {
        "dense_bytes": (attention / layout.attention_tp + shared / tp) * job.dense_bits / 8,
        "dense_flop": 2 * (own_rows * attention / layout.attention_tp + rows * shared / tp),
        "dense_rows": own_rows,
        "dense_side": np.minimum(inner / tp, float(shape.hidden)),
        "expert_bytes": touched * counts.routed_experts * job.bits / 8 / tp,
        "expert_flop": 2 * rows * chosen / tp,
        "expert_rows": rows * max(shape.top_k, 1) / reached,
        "expert_side": float(shape.moe_ffn or 1),
        "head_bytes": head * job.end_bits / 8 / layout.attention_tp,
        "head_flop": 2 * head_rows * head / layout.attention_tp,
        "cache_bytes": sequences / groups * kv_cache_bytes(shape, context, KV_BYTES[job.kv_cache]) * (layout.pp / kv_shares(job, layout)),
        "sharing": np.full_like(rows, shared_by),
        "attention_flop": own_rows * attention_flop_per_token(job, context, absorbed=not prompt) / layout.attention_tp,
        "stream_bytes": own_rows * shape.layers * 2 * (ACTIVATION_PASSES * shape.hidden + 3 * inner / tp),
        "exchange_s": exchange_s(job, platform, layout, rows),
        "hop_s": hop_s(job, platform, layout, rows),
        "layers": float(shape.layers),
        "moe_layers": float(shape.moe_layers),
        "parallel_layers": np.where(tp > 1, float(shape.layers), 0.0) + 0.0 * rows,
        "sequences": sequences,
    }
    return PassWork(**{name: np.asarray(value, dtype=float) for name, value in parts.items()})


def attention_flop_per_token(job: ServingJob, context: FloatArray, *, absorbed: bool) -> FloatArray:
    """Scores and values of one token over its context, all layers, FLOP: ``2 a (d_qk + d_v) s`` a layer.

    MLA's decode multiplies queries with the latent itself: ``2 a (2 r + d_rope) s`` (absorbed). Windows cap s.
    """
    shape = job.shape
    if shape.attention == "mla":
        wide = 2 * shape.kv_lora_rank + shape.qk_rope_dim
        width = float(wide if absorbed else shape.qk_nope_dim + shape.qk_rope_dim + shape.v_head_dim)
    else:
        width = float(shape.head_dim + (shape.v_head_dim or shape.head_dim))
    full = shape.full_attention_layers * shape.kv_cache_share * context
    window = shape.sliding_layers * np.minimum(context, shape.sliding_window or np.inf) if shape.sliding_layers else 0.0
    result: FloatArray = 2 * shape.heads * width * (full + window)
    return result


def exchange_s(job: ServingJob, platform: Platform, layout: ServingLayout, rows: FloatArray) -> FloatArray:
    """Collectives inside the layers of one pass, seconds.

    Tensor parallel: two all-reduces of the activations a layer (arXiv 1909.08053), with the engines' own kernel
    inside a server. Attention groups: one all-reduce inside each group, and around the experts the cheaper of
    dispatch and combine (all-to-all) and gathering all rows.
    """
    shape = job.shape
    width = np.asarray(layout.tp)
    if not bool(np.any(width > 1)):
        return np.zeros(np.broadcast_shapes(np.shape(rows), width.shape))
    groups = layout.attention_dp
    whole = np.where(width > 1, all_reduce_s(rows * shape.hidden * 2, np.maximum(width, 2), platform), 0.0)
    if not bool(np.any(groups > 1)):
        return np.asarray(shape.layers * 2 * whole)
    inner = layout.attention_tp
    attention = np.where(inner > 1, all_reduce_s(rows / groups * shape.hidden * 2, np.maximum(inner, 2), platform), 0.0)
    local = np.minimum(width, platform.gpus_per_server)
    wide = np.maximum(width, 2)
    routed = rows / width * max(shape.top_k, 1) * shape.hidden * 3
    token_exchange = 2 * collective_time_s("all_to_all", routed / 2, wide, local, platform)
    gathered = collective_time_s("all_gather", rows * shape.hidden * 2, wide, local, platform)
    reduced = collective_time_s("reduce_scatter", rows * shape.hidden * 2, wide, local, platform)
    around = np.minimum(token_exchange, gathered + reduced)
    return np.asarray(shape.layers * (attention + np.where(groups > 1, around, whole)))


def all_reduce_s(size: FloatArray, ranks: FloatArray, platform: Platform) -> FloatArray:
    """One all-reduce over ranks that fill servers one after the other, by the fastest kernel an engine has."""
    local = np.minimum(ranks, platform.gpus_per_server)
    inside = ranks <= platform.gpus_per_server
    if bool(np.all(inside)):
        return engine_all_reduce_time_s(size, local, platform)
    library = collective_time_s("all_reduce", size, ranks, local, platform)
    if not bool(np.any(inside)):
        return library
    return np.where(inside, np.minimum(library, engine_all_reduce_time_s(size, local, platform)), library)


def hop_s(job: ServingJob, platform: Platform, layout: ServingLayout, rows: FloatArray) -> FloatArray:
    """Activations from stage to stage, ``pp - 1`` times in a pass, seconds."""
    stages = np.asarray(layout.pp)
    shape = np.broadcast_shapes(np.shape(rows), stages.shape)
    if not bool(np.any(stages > 1)):
        return np.zeros(shape)
    size = rows * job.shape.hidden * 2
    across = (layout.gpus > platform.gpus_per_server) & (platform.scale_out is not None)
    one = collective_time_s("send_recv", size, np.full(np.shape(across), 2.0), np.where(across, 1.0, 2.0), platform)
    return np.where(stages > 1, (stages - 1) * one, 0.0)
