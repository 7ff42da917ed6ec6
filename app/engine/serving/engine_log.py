"""Memory as an engine reports it when it starts: weights, activations, KV pool, its tokens and the concurrency it logs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, ServingJob, ServingLayout
from app.engine.serving.memory import (
    activation_bytes,
    graph_bytes,
    kv_bytes_per_token_per_gpu,
    kv_shares,
    prefill_chunk,
    rules_of,
    runtime_bytes,
    weight_bytes_per_gpu,
)
from app.engine.serving.memory_rules import visible_bytes
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLog:
    """Bytes on one GPU, and what the engine would print: ``tokens`` of its pool and requests of the longest length."""

    weights: float
    activations: float
    runtime: float
    graphs: float
    pool: float
    tokens: float
    concurrency: float
    fits: bool
    """Whether one request of the longest length fits the pool of one data-parallel group."""


def engine_log(
    job: ServingJob,
    platform: Platform,
    layout: ServingLayout,
    *,
    longest: float,
    fraction: float | None = None,
    batch_tokens: float | None = None,
    sequences: float | None = None,
) -> EngineLog:
    """What a server of one replica logs; ``longest`` is max_model_len, the rest are its launch arguments."""
    rules = rules_of(job)
    share = fraction or rules.fraction
    weights, activations, runtime = (
        float(np.ravel(value)[0])
        for value in (
            weight_bytes_per_gpu(job, layout),
            activation_bytes(job, layout, platform, tokens=batch_tokens, sequences=sequences),
            runtime_bytes(job, layout),
        )
    )
    graphs = graph_bytes(job)
    visible = visible_bytes(platform.gpu)
    if job.engine == "tensorrt_llm":
        pool = share * (visible - weights - activations - runtime)
    else:
        pool = visible * share - weights - activations - runtime - (graphs if rules.graphs_counted else 0.0)
    groups = float(np.ravel(layout.attention_dp)[0])
    tokens, concurrency = pool_tokens(job, layout, pool, longest, batch_tokens or prefill_chunk(platform, rules))
    return EngineLog(
        weights=weights,
        activations=activations,
        runtime=runtime,
        graphs=graphs,
        pool=pool,
        tokens=tokens,
        concurrency=concurrency,
        fits=pool > 0 and concurrency / groups >= 1.0,
    )


def pool_tokens(job: ServingJob, layout: ServingLayout, pool: float, longest: float, batch_tokens: float) -> tuple[float, float]:
    """(tokens, requests of the longest length) of a pool, as the engine counts.

    One kind of layer: blocks of 16 tokens. Several kinds, older: the layers form equal groups, a block holds 16
    tokens of one group, and the printed tokens are those of blocks shared by all groups. Newer: windows and states
    are counted as large as they are, and the printed tokens are concurrency times the longest length.
    """
    shape = job.shape
    per_token = float(np.ravel(kv_bytes_per_token_per_gpu(job, layout))[0])
    if pool <= 0 or per_token <= 0:
        return 0.0, 0.0
    groups = float(np.ravel(layout.attention_dp)[0])
    if not shape.sliding_layers and not shape.linear_layers:
        tokens = math.floor(pool / (per_token * BLOCK_TOKENS)) * BLOCK_TOKENS
        return tokens * groups, tokens * groups / longest
    if rules_of(job).window_pools or not shape.sliding_layers:
        window = min(longest, (shape.sliding_window or longest) + batch_tokens) if shape.sliding_layers else longest
        share = float(np.ravel(kv_shares(job, layout))[0])
        width = KV_BYTES[job.kv_cache]
        full = per_token * longest
        rest = (float(kv_cache_bytes(shape, window, width)) - kv_cache_bytes_per_token(shape, width) * window) / share
        requests = pool / (full + rest) * groups
        return requests * longest, requests
    return _grouped(job, per_token, pool, longest, batch_tokens)


def _grouped(job: ServingJob, per_token: float, pool: float, longest: float, batch_tokens: float) -> tuple[float, float]:
    shape = job.shape
    size = min(shape.full_attention_layers, shape.sliding_layers)
    full = math.ceil(shape.full_attention_layers / size)
    windows = math.ceil(shape.sliding_layers / size)
    block = per_token / shape.full_attention_layers * size * BLOCK_TOKENS
    blocks = math.floor(pool / block)
    whole = math.ceil(longest / BLOCK_TOKENS)
    capped = math.ceil(min(shape.sliding_window - 1 + batch_tokens, longest) / BLOCK_TOKENS) + 1
    needed = full * whole + windows * capped
    return math.floor(blocks / (full + windows)) * float(BLOCK_TOKENS), blocks / needed
