"""Memory of a serving replica per GPU, and the KV pool that is left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, ServingJob, ServingLayout
from app.units import GB, GIB
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, parameter_counts

FloatArray = NDArray[np.float64]

MEMORY_FRACTION = 0.92
"""Share of a GPU's memory an engine takes by default; the rest is left to the driver (vLLM default 0.9 to 0.92)."""
RUNTIME_BYTES = 0.9 * GIB
"""CUDA context, libraries and graphs of one rank; median of published start-up logs with CUDA graphs on."""
PREFILL_CHUNK = 8192.0
"""Tokens of prompt worked on at once: default of current engines on GPUs of 70 GB and more."""
SMALL_PREFILL_CHUNK = 2048.0
"""The same on smaller GPUs."""
LARGE_GPU_GB = 70.0


def weight_bytes_total(job: ServingJob) -> float:
    """All weights as stored: embeddings and output head stay 16-bit when the rest is quantised below that."""
    counts = parameter_counts(job.shape)
    ends = counts.embedding + counts.output_head
    body = counts.total - ends
    return body * job.bits / 8 + ends * max(job.bits, 16.0 if job.bits < 16 else job.bits) / 8


def weight_bytes_per_gpu(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Weights of one rank: matrices over tp, layers over pp."""
    return np.asarray(weight_bytes_total(job) / layout.gpus, dtype=float)


def kv_shares(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Ranks that really divide the cache: KV heads divide over tp and are copied beyond their number; the MLA latent is
    copied on every tp rank; layers divide over pp."""
    heads = job.shape.kv_heads if job.shape.attention != "mla" else 1
    return np.minimum(layout.tp, max(heads, 1)) * layout.pp


def kv_bytes_per_token_per_gpu(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Cache growth per token on one rank, bytes (full-attention layers)."""
    return kv_cache_bytes_per_token(job.shape, KV_BYTES[job.kv_cache]) / kv_shares(job, layout)


def cache_bytes_per_request(job: ServingJob, tokens: float, layout: ServingLayout) -> FloatArray:
    """Cache of one request of ``tokens`` on one rank, bytes: windows capped, states fixed, a shared prefix not counted."""
    own = max(tokens - job.shared_prefix_tokens, 1.0)
    whole = float(kv_cache_bytes(job.shape, own, KV_BYTES[job.kv_cache]))
    return whole / kv_shares(job, layout)


def prefill_chunk(platform: Platform) -> float:
    """Tokens of prompt worked on at once on this GPU."""
    return PREFILL_CHUNK if (platform.gpu.memory_gb or 0.0) >= LARGE_GPU_GB else SMALL_PREFILL_CHUNK


def activation_bytes(job: ServingJob, layout: ServingLayout, platform: Platform) -> FloatArray:
    """Peak of one forward pass over a prefill chunk: residual and MLP intermediates in 16 bits, and the logits of the
    sampled rows in 32 bits."""
    shape = job.shape
    tokens = min(prefill_chunk(platform), max(job.max_context_tokens, 512.0))
    inner = shape.ffn_dense if shape.ffn_dense else shape.moe_ffn * max(shape.top_k, 1)
    widths = 6 * shape.hidden + 3 * inner / layout.tp + 2 * shape.heads * shape.head_dim / layout.tp
    return 2 * tokens * widths + 4 * 256 * shape.vocab / layout.tp


def usable_bytes(platform: Platform) -> float:
    """What an engine may use of one GPU, bytes."""
    if platform.gpu.memory_gb is None:
        raise ValueError(f"{platform.gpu.id} has no memory size in the catalogue")
    return platform.gpu.memory_gb * GB * MEMORY_FRACTION


def kv_pool_bytes(job: ServingJob, platform: Platform, layout: ServingLayout) -> FloatArray:
    """What is left for the cache on one rank, bytes; negative where the model does not fit."""
    prefix = cache_bytes_per_prefix(job, layout)
    return usable_bytes(platform) - weight_bytes_per_gpu(job, layout) - activation_bytes(job, layout, platform) - RUNTIME_BYTES - prefix


def cache_bytes_per_prefix(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """The shared prefix, stored once per replica, bytes on one rank."""
    if job.shared_prefix_tokens <= 0:
        return np.zeros_like(layout.tp)
    return kv_bytes_per_token_per_gpu(job, layout) * job.shared_prefix_tokens
