"""Memory of a serving replica per GPU, and the KV pool that is left."""

from __future__ import annotations

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory_rules import LARGE_GPU_GB, MemoryRules, memory_rules, takes_large_batches, visible_bytes
from app.units import GIB
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, parameter_counts

LONGEST_WHOLE_PROMPT = 32_768.0
"""vLLM's first engine read longer prompts in chunks even where it read shorter ones whole (release notes 0.4 to 0.7)."""


def rules_of(job: ServingJob) -> MemoryRules:
    """Memory rules of the job's engine and version."""
    return memory_rules(job.engine, job.engine_version)


def weight_bytes_total(job: ServingJob) -> float:
    """All weights as stored: embeddings and output head stay 16-bit when the rest is quantised below that."""
    counts = parameter_counts(job.shape)
    ends = counts.embedding + counts.output_head + counts.vision + counts.positions
    body = counts.total - ends - counts.routed_experts
    return body * job.dense_bits / 8 + counts.routed_experts * job.bits / 8 + ends * job.end_bits / 8


def weight_bytes_per_gpu(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Weights of the fullest rank. Matrices divide over tp; stages hold whole layers, the first the embedding and the
    last the head; attention is whole in every attention data-parallel group."""
    counts = parameter_counts(job.shape)
    layers = max(job.shape.layers, 1)
    attention = counts.attention * job.dense_bits / 8
    ends = counts.embedding + counts.output_head + counts.vision + counts.positions
    shared = (counts.total - ends - counts.routed_experts - counts.attention) * job.dense_bits / 8
    experts = counts.routed_experts * job.bits / 8
    layer_share = np.ceil(layers / layout.pp) / layers
    end_share = np.where(layout.pp > 1, max(counts.embedding, counts.output_head) + counts.vision, ends) * job.end_bits / 8
    inside = attention / layout.attention_tp + (shared + experts) / layout.tp
    return np.asarray(inside * layer_share + end_share / layout.attention_tp, dtype=float)


def kv_shares(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Ranks that really divide one sequence's cache: KV heads divide over tp and are copied beyond their number; the MLA
    latent is copied on every tp rank; layers divide over pp."""
    heads = job.shape.kv_heads if job.shape.attention != "mla" else 1
    return np.minimum(layout.attention_tp, max(heads, 1)) * layout.pp


def kv_bytes_per_token_per_gpu(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """Cache growth per token on one rank, bytes (full-attention layers)."""
    return kv_cache_bytes_per_token(job.shape, KV_BYTES[job.kv_cache]) / kv_shares(job, layout)


def cache_bytes_per_request(job: ServingJob, tokens: float, layout: ServingLayout) -> FloatArray:
    """Cache of one request of ``tokens`` on one rank, bytes: windows capped, states fixed, a shared prefix not counted."""
    own = max(tokens - job.shared_prefix_tokens, 1.0)
    whole = float(kv_cache_bytes(job.shape, own, KV_BYTES[job.kv_cache]))
    return whole / kv_shares(job, layout)


def prefill_chunk(platform: Platform, rules: MemoryRules | None = None) -> float:
    """Tokens of prompts worked on at once on this GPU; where no rules are given, as on any GPU of its size (the step
    times were fitted so)."""
    if rules is None:
        rules = memory_rules("vllm")
        return rules.batch_tokens if (platform.gpu.memory_gb or 0.0) >= LARGE_GPU_GB else rules.small_batch_tokens
    return rules.batch_tokens if takes_large_batches(platform.gpu, rules) else rules.small_batch_tokens


def sequence_limit(platform: Platform, rules: MemoryRules) -> float:
    """Sequences an engine decodes together by default on this GPU."""
    return rules.sequences if takes_large_batches(platform.gpu, rules) else rules.small_sequences


def activation_bytes(
    job: ServingJob, layout: ServingLayout, platform: Platform, *, tokens: float | None = None, sequences: float | None = None
) -> FloatArray:
    """Peak of the engine's profiling run: a forward pass over a full batch of prompt tokens, or the sampler over all
    sequences, whichever is larger.

    Forward, 16 bits: ``2 T (3 f / t + c h)`` for T tokens, MLP width f and c residual-wide buffers; MoE layers hold
    ``k (3 f_e / t + h)`` instead of the MLP. Sampler: bytes per sequence and vocabulary entry, gathered on every rank.
    """
    shape, rules = job.shape, rules_of(job)
    whole = rules.whole_prompt and job.max_context_tokens <= LONGEST_WHOLE_PROMPT
    count = tokens or (max(job.max_context_tokens, 512.0) if whole else prefill_chunk(platform, rules))
    together = sequences or sequence_limit(platform, rules)
    dense = 3 * shape.ffn_dense / layout.tp if shape.ffn_dense else 0.0 * layout.tp
    experts = shape.top_k * (3 * shape.moe_ffn / layout.tp + shape.hidden) if shape.is_moe else 0.0 * layout.tp
    forward = 2 * count * (np.maximum(dense, experts) + rules.hidden_copies * shape.hidden) if rules.hidden_copies else 0.0 * layout.tp
    sampler = np.where(layout.pp > 1, 0.0, rules.logit_bytes * together * shape.vocab + rules.base_gib * GIB)
    result: FloatArray = np.maximum(forward, sampler)
    return result


def runtime_bytes(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """CUDA context, communicators and libraries of one rank, bytes."""
    rules = rules_of(job)
    return np.where(layout.tp > 1, rules.other_tp_gib, np.where(layout.pp > 1, rules.other_pp_gib, rules.other_gib)) * GIB


def graph_bytes(job: ServingJob) -> float:
    """Captured CUDA graphs of one rank, bytes."""
    return rules_of(job).graphs_gib * GIB


def usable_bytes(platform: Platform, engine: str = "vllm", version: str = "") -> float:
    """What an engine may use of one GPU, bytes."""
    return visible_bytes(platform.gpu) * memory_rules(engine, version).fraction


def kv_pool_bytes(job: ServingJob, platform: Platform, layout: ServingLayout) -> FloatArray:
    """What is left for the cache on one rank after weights, peak activations, runtime, graphs and the shared prefix,
    bytes; negative where the model does not fit. Of what is left an engine may leave a share unused.

    Graphs are taken off whether or not the engine does so itself: a design must not run out of memory later.
    """
    taken = weight_bytes_per_gpu(job, layout) + activation_bytes(job, layout, platform) + runtime_bytes(job, layout) + graph_bytes(job)
    usable = usable_bytes(platform, job.engine, job.engine_version)
    free = usable - taken
    return np.asarray(free * np.where(free > 0, rules_of(job).free_share, 1.0) - cache_bytes_per_prefix(job, layout), dtype=float)


def cache_bytes_per_prefix(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """The shared prefix, stored once per replica, bytes on one rank."""
    if job.shared_prefix_tokens <= 0:
        return np.zeros_like(layout.tp)
    return kv_bytes_per_token_per_gpu(job, layout) * job.shared_prefix_tokens
