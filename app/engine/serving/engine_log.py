"""Memory as an engine reports it when it starts: weights, activations, KV pool, its tokens and the concurrency it logs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.job import FloatArray, ServingJob, ServingLayout
from app.engine.serving.kv_blocks import Server, pool_tokens
from app.engine.serving.memory import (
    activation_bytes,
    draft_weight_bytes,
    free_bytes,
    graph_bytes,
    position_table_bytes,
    prefill_chunk,
    rules_of,
    runtime_bytes,
    weight_bytes_per_gpu,
)


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
    captures: bool = True,
    prefix_caching: bool = False,
    draft_tokens: int = 0,
) -> EngineLog:
    """What a server of one replica logs; ``longest`` is max_model_len, the rest are its launch arguments (``captures``:
    CUDA graphs are on; ``draft_tokens``: proposed by the model's own draft layer)."""
    rules = rules_of(job)
    draft = _one(draft_weight_bytes(job, layout)) if draft_tokens else 0.0
    graphs = graph_bytes(job, sequences) if captures else 0.0
    pool = _one(free_bytes(job, platform, layout, fraction=fraction, tokens=batch_tokens, sequences=sequences, graphs=graphs)) - draft
    if job.shape.linear_layers:
        pool /= 1 + rules.state_share
    server = Server(
        longest=longest,
        batch_tokens=batch_tokens or prefill_chunk(platform, rules),
        prefix_caching=prefix_caching,
        draft_tokens=draft_tokens,
    )
    tokens, concurrency = pool_tokens(job, layout, pool, server)
    return EngineLog(
        weights=_one(weight_bytes_per_gpu(job, layout)) + position_table_bytes(job) + draft,
        activations=_one(activation_bytes(job, layout, platform, tokens=batch_tokens, sequences=sequences)),
        runtime=_one(runtime_bytes(job, layout, platform)),
        graphs=graphs,
        pool=pool,
        tokens=tokens,
        concurrency=concurrency,
        fits=pool > 0 and concurrency / _one(layout.attention_dp) >= 1.0,
    )


def _one(value: FloatArray) -> float:
    return float(np.ravel(value)[0])
