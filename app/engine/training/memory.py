"""Memory of training per GPU, by component, for the fullest pipeline stage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.training.job import OPTIMIZER_BYTES, RECOMPUTE, TrainingJob, TrainingLayout
from app.workload.architecture import ParameterCounts, parameter_counts

FloatArray = NDArray[np.float64]

RUNTIME_BYTES = 2.2e9
"""CUDA context, library workspaces and collective buffers of one rank; published single-GPU runs of small models."""
FRAGMENTATION = 0.06
"""Share of the dynamic memory the allocator cannot use; middle of reserved against allocated in published runs."""


def parameters_per_gpu(job: TrainingJob, layout: TrainingLayout, counts: ParameterCounts | None = None) -> tuple[FloatArray, FloatArray]:
    """(dense, expert) parameters held by one GPU of the fullest stage before ZeRO: layers over pp, matrices over tp,
    experts over ep; the first stage also holds the embedding, or the last the output head."""
    counts = parameter_counts(job.shape) if counts is None else counts
    stages, tensor = layout.pp, layout.tp
    expert_ranks = np.maximum(layout.ep, 1) * np.where(layout.ep > 1, 1.0, tensor)
    ends = (counts.embedding + counts.positions) / tensor
    both_ends = np.where(stages > 1, np.maximum(ends, counts.output_head / tensor), ends + counts.output_head / tensor)
    body = counts.total - counts.embedding - counts.output_head - counts.positions - counts.routed_experts
    dense = body / (stages * tensor) + both_ends
    return dense, counts.routed_experts / (stages * expert_ranks)


def activation_bytes_per_token(job: TrainingJob, layout: TrainingLayout) -> tuple[FloatArray, FloatArray]:
    """(kept by one layer, kept by one layer under full recompute) bytes per token of one GPU.

    Kept for the backward pass, 16-bit: inputs of both norms, q, k, v, attention output, and the MLP's input, gate,
    up and product (Korthikanti et al., arXiv 2205.05198, section 4, with fused attention and sequence
    parallelism: everything divides by tp). Without fused attention the s x s scores add 5 a s bytes.
    """
    shape = job.shape
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if shape.attention == "mla":
        q = kv = shape.heads * (shape.qk_nope_dim + shape.qk_rope_dim)
    attention = 2 * (2 * shape.hidden + 2 * q + 2 * kv)
    factors = 3 if shape.gated_mlp else 2
    dense = 2 * (2 * shape.hidden + factors * shape.ffn_dense)
    experts = 2 * (2 * shape.hidden + shape.top_k * (shape.hidden + factors * shape.moe_ffn)) if shape.is_moe else 0.0
    share = shape.moe_layers / max(shape.layers, 1)
    mlp = dense * (1 - share) + experts * share
    scores = 0.0 if job.flash_attention else 5.0 * shape.heads * job.seq_len
    scores_kept = np.where(layout.recompute >= 1, 0.0, scores)
    kept = (attention + mlp + scores_kept) / layout.tp
    return kept, 2 * shape.hidden / np.where(layout.tp > 1, layout.tp, 1.0)


def training_memory_bytes(job: TrainingJob, layout: TrainingLayout) -> dict[str, FloatArray]:
    """Bytes per GPU by component: weights, gradients, optimizer, master_weights, adapters' share inside them,
    activations, logits, gathered_layer (ZeRO-3), runtime, fragmentation."""
    dense, experts = parameters_per_gpu(job, layout)
    held = dense + experts
    replicas = layout.dp * layout.cp
    expert_replicas = np.maximum(replicas * layout.tp / np.maximum(layout.ep, 1), 1.0)
    shard = np.where(layout.ep > 1, expert_replicas, replicas)
    weight_bytes = job.base_bits / 8 if job.frozen_base else 2.0
    trained = job.trained_parameters / (layout.tp * layout.pp) if job.frozen_base else None

    def split(divide_dense: FloatArray, divide_experts: FloatArray) -> FloatArray:
        return dense / divide_dense + experts / divide_experts

    ones = np.ones_like(dense)
    weights_split = split(np.where(layout.sharding >= 3, replicas, ones), np.where(layout.sharding >= 3, shard, ones))
    grads_split = split(np.where(layout.sharding >= 2, replicas, ones), np.where(layout.sharding >= 2, shard, ones))
    state_split = split(np.where(layout.sharding >= 1, replicas, ones), np.where(layout.sharding >= 1, shard, ones))
    if trained is not None:
        grads_split = state_split = trained / np.where(layout.sharding >= 1, replicas, ones)
    low_memory = job.optimizer == "adamw_8bit"
    gradient_bytes = 2.0
    kept, boundary = activation_bytes_per_token(job, layout)
    tokens = layout.micro_batch * job.seq_len / layout.cp
    layers = job.shape.layers / layout.pp
    in_flight = np.where(layout.pp > 1, layout.pp * (1 + np.where(layout.vp > 1, (layout.pp - 1) / (layout.pp * layout.vp), 0.0)), 1.0)
    in_flight = np.minimum(in_flight, np.maximum(job.global_batch_sequences / (layout.dp * layout.micro_batch), 1.0))
    full = RECOMPUTE.index("full")
    per_layer = np.where(layout.recompute == full, boundary, kept)
    working = np.where(layout.recompute == full, kept, 0.0)
    activations = tokens * (layers * per_layer * in_flight + working)
    logits = tokens * job.shape.vocab / layout.tp * (2 + 4 + 2) * np.where(layout.pp > 1, 0.0, 1.0)
    last_stage_logits = tokens * job.shape.vocab / layout.tp * 8
    # The last stage holds one micro-batch in flight and the logits; the first holds them all: the fuller counts.
    logits = np.where(layout.pp > 1, np.maximum(last_stage_logits - tokens * layers * per_layer * (in_flight - 1), 0.0), logits)
    layer_parameters = held / np.maximum(layers, 1.0)
    gathered = np.where((layout.sharding >= 3) & (replicas > 1), 2 * layer_parameters * weight_bytes, 0.0)
    parts = {
        "weights": weights_split * weight_bytes,
        "gradients": grads_split * gradient_bytes,
        "optimizer": state_split * OPTIMIZER_BYTES[job.optimizer],
        "master_weights": state_split * (0.0 if low_memory or job.optimizer == "adafactor" else 4.0),
        "activations": activations,
        "logits": logits,
        "gathered_layers": gathered,
        "runtime": np.full_like(dense, RUNTIME_BYTES),
    }
    dynamic = parts["activations"] + parts["logits"] + parts["gradients"]
    parts["fragmentation"] = FRAGMENTATION * dynamic
    return parts
