"""Time of one decode step and of a prefill, per replica, arrays over layouts and batches."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.engine.collectives import collective_time_s, engine_all_reduce_time_s
from app.engine.compute import gemm_efficiency, generation_constants, memory_bandwidth, peak_flops
from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, ServingJob, ServingLayout
from app.engine.serving.memory import kv_shares, prefill_chunk
from app.workload.architecture import kv_cache_bytes, parameter_counts

FloatArray = NDArray[np.float64]


@cache
def serving_constants() -> dict[str, Any]:
    """Engine overheads (``data/serving.toml``)."""
    return tomllib.loads((resources.files("app.engine") / "data" / "serving.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Seconds of one pass through the replica by part. ``total_s`` is latency; ``occupancy_s`` the time it blocks the
    replica: with pipeline stages working on different batches, a stage is busy only its share."""

    weights_s: FloatArray
    arithmetic_s: FloatArray
    attention_s: FloatArray
    exchange_s: FloatArray
    hop_s: FloatArray
    overhead_s: FloatArray
    total_s: FloatArray


def touched_experts(job: ServingJob, batch: ArrayLike) -> FloatArray:
    """Share of the routed experts read when ``batch`` tokens route at random: ``1 - (1 - k/E)^B``."""
    shape = job.shape
    if not shape.is_moe:
        return np.zeros_like(np.asarray(batch, dtype=float))
    result: FloatArray = 1 - (1 - shape.top_k / shape.experts) ** np.asarray(batch, dtype=float)
    return result


def decode_step(job: ServingJob, platform: Platform, layout: ServingLayout, batch: ArrayLike, context: ArrayLike) -> PassTime:
    """One token for each of ``batch`` sequences of ``context`` tokens.

    Weights: every dense matrix and the touched experts are read once; arithmetic: 2 FLOP per active parameter and
    token at the efficiency of so few rows; attention: the cache is read once. Weights and arithmetic overlap (the
    longer counts); the cache, the exchange and the overhead add.
    """
    return _pass(job, platform, layout, np.asarray(batch, dtype=float), np.asarray(batch, dtype=float), context, decode=True)


def prefill(job: ServingJob, platform: Platform, layout: ServingLayout, tokens: ArrayLike) -> FloatArray:
    """Seconds to read a prompt of ``tokens`` alone, in the engine's chunks."""
    length = np.asarray(tokens, dtype=float)
    chunk = np.minimum(length, prefill_chunk(platform))
    one = _pass(job, platform, layout, chunk, np.ones_like(chunk), length / 2, decode=False)
    whole: FloatArray = one.total_s * np.maximum(length / chunk, 1.0)
    return whole


def _pass(
    job: ServingJob, platform: Platform, layout: ServingLayout, rows: FloatArray, sequences: FloatArray, context: ArrayLike, *, decode: bool
) -> PassTime:
    gpu, shape = platform.gpu, job.shape
    counts = parameter_counts(shape)
    constants = generation_constants(gpu)
    engine = serving_constants()["engine"][job.engine]
    bandwidth = memory_bandwidth(gpu)
    arithmetic_format = job.arithmetic(gpu)
    peak = peak_flops(gpu, arithmetic_format)
    peak16 = peak_flops(gpu, "bf16")
    if peak is None or peak16 is None:
        raise ValueError(f"{gpu.id} has no {arithmetic_format} rate in the catalogue")
    head = counts.output_head or counts.embedding
    dense = counts.total - counts.embedding - counts.output_head - counts.routed_experts - counts.vision
    read = (dense + touched_experts(job, rows) * counts.routed_experts) * job.bits / 8 + head * 2 * (1.0 if decode else 0.1)
    weights_s = read / (layout.tp * bandwidth)
    active = counts.active - counts.embedding - counts.output_head
    inner = (shape.ffn_dense or shape.moe_ffn * max(shape.top_k, 1)) or shape.hidden
    efficiency = gemm_efficiency(np.maximum(rows, 1.0) + _ROWS_OFFSET, max(inner, 1) / layout.tp, shape.hidden, gpu, arithmetic_format)
    flop = 2 * rows * active + 2 * (sequences if not decode else rows) * head
    arithmetic_s = flop / (layout.tp * peak * efficiency)
    span = np.asarray(context, dtype=float)
    cache_s = (
        sequences
        * kv_cache_bytes(shape, span, KV_BYTES[job.kv_cache])
        / (kv_shares(job, layout) / layout.pp * bandwidth * engine["attention_share"])
    )
    if decode:
        attention_s = cache_s
    else:
        width = shape.heads * (
            shape.head_dim if shape.attention != "mla" else (shape.qk_nope_dim + shape.qk_rope_dim + shape.v_head_dim) / 2
        )
        layers = shape.full_attention_layers + shape.sliding_layers * np.minimum(1.0, (shape.sliding_window or 1e9) / np.maximum(span, 1.0))
        attention_s = 4 * rows * span * width * layers / (layout.tp * peak16 * constants["attention_share"])
    exchange_s = _exchange(job, platform, layout, rows)
    hop_s = _hops(job, platform, layout, rows)
    overhead = engine["step_gap_s"] + engine["layer_gap_s"] * shape.layers + 0.0 * rows
    body = np.maximum(weights_s, arithmetic_s)
    total = body + attention_s + exchange_s + hop_s + overhead
    shape_all = np.broadcast_shapes(total.shape, layout.tp.shape, rows.shape)
    parts = [np.broadcast_to(part, shape_all) for part in (weights_s, arithmetic_s, attention_s, exchange_s, hop_s, overhead, total)]
    return PassTime(
        weights_s=parts[0],
        arithmetic_s=parts[1],
        attention_s=parts[2],
        exchange_s=parts[3],
        hop_s=parts[4],
        overhead_s=parts[5],
        total_s=parts[6],
    )


_ROWS_OFFSET = 24.0
"""Rows a weight-streaming kernel handles at no extra cost: at one row the weights, not the tile, set the time."""


def _exchange(job: ServingJob, platform: Platform, layout: ServingLayout, rows: FloatArray) -> FloatArray:
    """Two all-reduces a layer of the activations over tp ranks (arXiv 1909.08053); engines use their own kernel for
    small messages inside a server."""
    shape = job.shape
    size = rows * shape.hidden * 2
    tp = np.maximum(layout.tp, 2)
    local = np.minimum(tp, platform.gpus_per_server)
    times = collective_time_s("all_reduce", size, tp, local, platform)
    if bool(np.all(layout.tp <= platform.gpus_per_server)):
        times = np.minimum(times, engine_all_reduce_time_s(size, tp, platform))
    return np.where(layout.tp > 1, 2 * shape.layers * times, 0.0)


def _hops(job: ServingJob, platform: Platform, layout: ServingLayout, rows: FloatArray) -> FloatArray:
    """Activations from stage to stage, pp - 1 times."""
    size = rows * job.shape.hidden * 2
    per_server = np.where(layout.gpus > platform.gpus_per_server, 1.0, 2.0)
    if not bool(np.any(layout.pp > 1)):
        return np.zeros(np.broadcast_shapes(np.shape(size), layout.pp.shape))
    if platform.scale_out is None:
        per_server = np.full_like(per_server, 2.0)
    return np.where(
        layout.pp > 1, (layout.pp - 1) * collective_time_s("send_recv", size, np.full_like(per_server, 2.0), per_server, platform), 0.0
    )
