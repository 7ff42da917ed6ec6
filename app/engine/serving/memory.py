"""Memory of a serving replica per GPU, and the KV pool that is left."""

from __future__ import annotations

import numpy as np

from app.catalog.model_shape import ModelShape
from app.engine.platform import Platform
from app.engine.serving.job import KV_BYTES, FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory_rules import (
    LARGE_GPU_GB,
    MemoryRules,
    has_multicast,
    memory_rules,
    takes_large_batches,
    visible_bytes,
)
from app.engine.serving.static_share import static_share
from app.units import GIB
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, parameter_counts

LONGEST_WHOLE_PROMPT = 32_768.0
"""vLLM's first engine read longer prompts in chunks even where it read shorter ones whole (release notes 0.4 to 0.7)."""

PATCHES_PER_TOKEN = 4.0
"""Patches a vision tower merges into one token (2 x 2: Qwen-VL, Pixtral, Llama 4)."""
PATCH_VALUES = 1536.0
"""Values of one patch's pixels: 16 x 16 of three colours, two frames (Qwen3-VL's ``preprocessor_config.json``)."""
TOWER_WIDTH, TOWER_FFN = 1152.0, 4304.0
"""Width and MLP width of SigLIP So400m (arXiv 2303.15343), the tower of Gemma and of Qwen-VL since 3."""


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


def draft_weight_bytes(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """A draft layer that shares the model's ends (multi-token prediction, DeepSeek-V3, arXiv 2412.19437, section 2.2): one
    full-attention layer, its MLP or experts, and a projection from twice the width, 16 bits, bytes on one rank."""
    counts = parameter_counts(job.shape)
    experts = counts.expert * job.shape.experts + counts.shared_expert_layer + counts.router_layer if job.shape.is_moe else 0.0
    layer = counts.full_attention_layer + max(counts.dense_mlp_layer if job.shape.mlp_layers else 0.0, experts)
    return np.asarray(2 * (layer + 2 * job.shape.hidden**2) / layout.tp, dtype=float)


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
    sequences, whichever is larger, beside a vision tower's output; or the tower itself where that is larger still.

    Forward, 16 bits: ``2 T (3 f / t + c h)`` for T tokens, MLP width f and c residual-wide buffers; MoE layers hold
    ``k (3 f_e / t + h)`` instead of the MLP. Sampler: bytes per sequence and vocabulary entry, gathered on every rank;
    engines that profile the longest prompt leave it out where they read prompts in chunks.
    """
    shape, rules = job.shape, rules_of(job)
    whole = rules.whole_prompt and job.max_context_tokens <= LONGEST_WHOLE_PROMPT
    count = tokens or (max(job.max_context_tokens, 512.0) if whole else prefill_chunk(platform, rules))
    together = sequences or sequence_limit(platform, rules)
    dense = 3 * shape.ffn_dense / layout.tp if shape.ffn_dense else 0.0 * layout.tp
    experts = shape.top_k * (3 * shape.moe_ffn / layout.tp + shape.hidden) if shape.is_moe else 0.0 * layout.tp
    forward = 2 * count * (np.maximum(dense, experts) + rules.hidden_copies * shape.hidden) if rules.hidden_copies else 0.0 * layout.tp
    sampled = rules.logit_bytes * together * shape.vocab + rules.base_gib * GIB
    sampler = np.where((layout.pp > 1) | (rules.whole_prompt and not whole), 0.0, sampled)
    kept, tower = encoder_bytes(shape, count, layout.tp) if rules.encoder_profiled else (0.0, 0.0)
    result: FloatArray = np.maximum(np.maximum(forward, sampler) + kept, tower)
    return result


def encoder_bytes(shape: ModelShape, batch_tokens: float, tp: FloatArray) -> tuple[float, float | FloatArray]:
    """(kept, peak) bytes of a vision tower in the engine's profile: pictures worth one batch of tokens, or one of the
    largest size where that is more (``profile_run`` of vLLM's ``v1/worker/gpu_model_runner.py``).

    Kept during the text pass: the output, ``2 h`` bytes per token, and the pictures' pixels. Peak: pixels, output and one
    layer of the tower, ``2 (2 f + 3 w) / t`` bytes per patch (MLP in and out, queries, keys and values).
    """
    if shape.modality != "text+vision":
        return 0.0, 0.0
    tokens = max(batch_tokens, float(shape.image_tokens))
    patches = tokens * PATCHES_PER_TOKEN
    kept = 2 * tokens * shape.hidden + 2 * patches * PATCH_VALUES
    largest = patches if shape.image_tokens else 0.0
    return kept, kept + 2 * largest * (2 * TOWER_FFN + 3 * TOWER_WIDTH) / tp


def runtime_bytes(job: ServingJob, layout: ServingLayout, platform: Platform) -> FloatArray:
    """CUDA context, communicators and libraries of one rank, bytes."""
    rules = rules_of(job)
    with_tp = rules.other_tp_gib if has_multicast(platform.gpu) else rules.other_tp_plain_gib
    return np.where(layout.tp > 1, with_tp, np.where(layout.pp > 1, rules.other_pp_gib, rules.other_gib)) * GIB


def graph_bytes(job: ServingJob, sequences: float | None = None) -> float:
    """Captured CUDA graphs of one rank, bytes: in proportion to the batch sizes captured, 1, 2, 4, every 8th to 256 and
    every 16th to the smaller of 512 and twice the sequences (``_set_cudagraph_sizes`` of vLLM's ``config/vllm.py``)."""
    largest = min(2 * sequences, 512.0) if sequences else 512.0
    sizes = min(largest, 3.0) + max(min(largest, 256.0) // 8, 0.0) + max(largest - 256.0, 0.0) // 16
    return rules_of(job).graphs_gib * GIB * sizes / 51.0


def position_table_bytes(job: ServingJob) -> float:
    """Sine and cosine of every position a rotary model was made for, 16 bits, whole on every rank (vLLM's
    ``rotary_embedding``): 32 MiB at 131,072 positions of 128, 2.5 GiB at 10,485,760."""
    shape = job.shape
    if shape.learned_positions or shape.attention == "none":
        return 0.0
    return 2.0 * shape.max_context * (shape.qk_rope_dim or shape.head_dim)


def usable_bytes(platform: Platform, engine: str = "vllm", version: str = "") -> float:
    """What an engine may use of one GPU, bytes."""
    return visible_bytes(platform.gpu) * memory_rules(engine, version).fraction


def free_bytes(
    job: ServingJob,
    platform: Platform,
    layout: ServingLayout,
    *,
    fraction: float | None = None,
    tokens: float | None = None,
    sequences: float | None = None,
    graphs: float | None = None,
) -> FloatArray:
    """What an engine takes for its cache on one rank, bytes; negative where the model does not fit. ``graphs``: bytes of
    CUDA graphs where something else than the default is captured.

    vLLM: share of the visible memory less weights, peak activations, other memory and, in later releases, graphs.
    TensorRT-LLM: share of what is free after weights and execution context. SGLang: share of what is free before the
    weights are read, less the weights.
    """
    rules = rules_of(job)
    visible = visible_bytes(platform.gpu)
    share: float | FloatArray = fraction or rules.fraction
    weights = weight_bytes_per_gpu(job, layout) + position_table_bytes(job)
    runtime = runtime_bytes(job, layout, platform)
    if job.engine == "sglang":
        share = fraction or static_share(job.shape, visible, layout, by_ranks=rules.share_by_ranks)
        return np.asarray(share * (visible - runtime) - weights, dtype=float)
    activations = activation_bytes(job, layout, platform, tokens=tokens, sequences=sequences)
    if job.engine == "tensorrt_llm":
        return np.asarray(share * (visible - weights - activations - runtime), dtype=float)
    captured = (graph_bytes(job, sequences) if graphs is None else graphs) if rules.graphs_counted else 0.0
    return np.asarray(share * visible - weights - activations - runtime - captured, dtype=float)


def kv_pool_bytes(job: ServingJob, platform: Platform, layout: ServingLayout) -> FloatArray:
    """What is left for requests' caches on one rank besides the shared prefix, bytes; negative where the model does not
    fit.

    Graphs are taken off whether or not the engine does so itself: a design must not run out of memory later.
    """
    uncounted = 0.0 if rules_of(job).graphs_counted else graph_bytes(job)
    return np.asarray(free_bytes(job, platform, layout) - uncounted - cache_bytes_per_prefix(job, layout), dtype=float)


def cache_bytes_per_prefix(job: ServingJob, layout: ServingLayout) -> FloatArray:
    """The shared prefix, stored once per replica, bytes on one rank."""
    if job.shared_prefix_tokens <= 0:
        return np.zeros_like(layout.tp)
    return kv_bytes_per_token_per_gpu(job, layout) * job.shared_prefix_tokens
