"""Memory of training per GPU, by component, for the fullest pipeline stage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.engine.training.constants import training_table
from app.engine.training.job import OFFLOAD, OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.units import GB
from app.workload.architecture import ParameterCounts, parameter_counts

FloatArray = NDArray[np.float64]

NARROW_ACTIVATIONS = {"fp8": 0.75, "fp4": 0.64}
"""Share of 16-bit activations kept with narrow linear layers: their inputs are about half of what is kept, and shrink from
two bytes to one (8-bit), or to half a byte and an 8-bit scale per 16 values (NVFP4): 0.5 + 0.5 x 0.5625/2 = 0.64."""


WEIGHTED_ACTIVATION_YEAR = 2025
"""From this year on the router's weights multiply inside the experts' activation function, so that the backward pass no longer needs
the experts' outputs (Megatron-Core's weighted SwiGLU; arXiv 2603.07685)."""
STATE_SPACE_ELEMENTS = 8
"""Elements of the hidden width a state-space layer keeps per token: 16 bytes in 16 bits (arXiv 2312.00752, appendix D); its two inputs,
the convolution's and the scan's outputs, each twice the hidden width."""


def parameters_per_gpu(job: TrainingJob, layout: TrainingLayout, counts: ParameterCounts | None = None) -> tuple[FloatArray, FloatArray]:
    """(dense, expert) parameters held by one GPU of the fullest stage before ZeRO: layers over pp, matrices over tp,
    experts over ep; the first stage also holds the embedding, or the last the output head."""
    counts = parameter_counts(job.shape) if counts is None else counts
    stages, tensor = layout.pp, layout.tp
    expert_ranks = np.maximum(layout.ep, 1) * np.where(layout.ep > 1, 1.0, tensor)
    body = counts.total - counts.embedding - counts.output_head - counts.positions - counts.routed_experts
    dense = body / (stages * tensor) + end_parameters(job, layout)
    return dense, counts.routed_experts / (stages * expert_ranks)


def activation_bytes_per_token(job: TrainingJob, layout: TrainingLayout) -> tuple[FloatArray, FloatArray]:
    """(kept by one layer, kept by one layer under full recomputation) bytes per token of one GPU.

    Kept for the backward pass, 16-bit (fp32 jobs: 32): inputs and outputs of both norms (split over tp with sequence
    parallelism only), q, k, v and attention output (of MLA as expanded for every head, arXiv 2405.04434, section 2.1) of the
    layers that attend, the state-space or linear layer's own, the MLP's gate, up and product (arXiv 2205.05198, section 4),
    and what goes into every chosen expert and, before 2025, comes out of it; mean over layers. Without fused attention the
    scores of all heads, their softmax and its dropout mask add 5 a s bytes (same place). A frozen base keeps no inputs that
    only its own weights' gradients would need: those of the MLP's two products (adapters stand
    beside attention's, as is usual). Eager RMSNorm keeps its input in fp32 and what its weight multiplies (PyTorch's
    autograd formulas of ``to``, ``mul`` and ``pow``), eager SwiGLU the gate after SiLU, too.
    """
    shape = job.shape
    spread = layout.tp if job.sequence_parallel else np.ones_like(layout.tp)
    query, key, value = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    output = query
    if shape.attention == "mla":
        query = key = shape.heads * (shape.qk_nope_dim + shape.qk_rope_dim)
        value = output = shape.heads * shape.v_head_dim
    attended = (shape.full_attention_layers + shape.sliding_layers) / max(shape.layers, 1)
    mixing = (query + key + value + output) * attended + STATE_SPACE_ELEMENTS * shape.hidden * shape.linear_layers / max(shape.layers, 1)
    width = 4.0 if job.precision == "fp32" else 2.0
    factors = 3 if shape.gated_mlp else 2
    shared = shape.shared_experts * (shape.shared_ffn or shape.moe_ffn)
    product = (shape.ffn_dense * shape.mlp_layers + (shape.top_k * shape.moe_ffn + shared) * shape.moe_layers) / max(shape.layers, 1)
    copies = 1 if job.software_year >= WEIGHTED_ACTIVATION_YEAR else 2
    routed = copies * shape.top_k * (shape.expert_hidden or shape.hidden) * shape.moe_layers / max(shape.layers, 1)
    dropout = 1.0 * shape.hidden if job.software_year < 2023 and not shape.gated_mlp else 0.0
    scores = 0.0 if job.flash_attention else 5.0 * shape.heads * job.seq_len * job.fill
    kept_scores = np.where(layout.recompute >= 1, 0.0, scores)
    # Selective recomputation around fused attention drops what is cheap to make again: norm outputs and the MLP's product.
    cheap = (layout.recompute == RECOMPUTE.index("selective")) & job.flash_attention
    unfused = job.eager and shape.gated_mlp
    after_gate = product if unfused else 0.0
    mlp = routed + (factors - 1) * product + np.where(cheap, 0.0, after_gate + (0.0 if job.frozen_base else product))
    outputs = (1.0 if job.frozen_base else 2.0) * width * shape.hidden
    within = 2 * (4.0 + (0.0 if job.frozen_base else 2.0)) * shape.hidden if unfused and width == 2.0 else 0.0
    norms = 2 * width * shape.hidden + np.where(cheap, 0.0, outputs + within) + 2 * dropout
    kept = (width * (mixing + mlp) + kept_scores) / layout.tp + norms / spread
    return kept, width * shape.hidden / spread


def training_memory_bytes(job: TrainingJob, layout: TrainingLayout, constants: Mapping[str, float] | None = None) -> dict[str, FloatArray]:
    """Bytes per GPU by component, arrays over layouts: weights, gradients, optimizer, master_weights, activations, logits, gathered_layers
    (ZeRO-3), communication (NCCL and bucket buffers), runtime (CUDA context and workspaces), fragmentation.

    Per parameter: 16-bit weight 2 (a quantised base its bits), gradient 2 to 6, AdamW's moments 8, master copy 4 (arXiv
    1910.02054, section 3.1); logits: fitted bytes per token and entry, about one 16-bit and two 32-bit copies. Buffers,
    runtime and fragmentation, a share of what is allocated anew in every step, are fitted (``data/training.toml``).
    """
    c: Mapping[str, float] = training_table()["memory"] if constants is None else constants
    dense, experts = parameters_per_gpu(job, layout)
    ends = end_parameters(job, layout)
    weights_held, state_held, gradients_held = _held(job, layout, dense, experts)
    full_precision = job.precision == "fp32"
    weight_bytes = 4.0 if full_precision else job.base_bits / 8 if job.frozen_base else 2.0
    zero3 = (layout.sharding >= SHARDING.index("zero3")) & (layout.replicas > 1)
    on_host = layout.offload >= OFFLOAD.index("optimizer")
    weights_on_host = layout.offload == OFFLOAD.index("parameters")
    low_memory = job.optimizer in ("adamw_8bit", "adafactor")
    activations, logits = _dynamic(job, layout, c["activation_factor"], c["logit_bytes"])
    # Layers come one ahead of the one at work; embedding and head form the outermost unit, which stays (arXiv 2304.11277, 3.3).
    per_layer = (dense - ends + experts) / np.maximum(job.shape.layers / layout.pp, 1.0)
    gathered = np.where(zero3 | weights_on_host, 2 * per_layer * weight_bytes + ends * np.maximum(weight_bytes, 2.0), 0.0)
    # In a pipeline, stages keep their weights gathered between micro-batches (see _held for their gradients).
    gathered = np.where(zero3 & (layout.pp > 1), (dense + experts) * weight_bytes, gathered)
    # Sharded fp32 weights are their own master copy: the 16-bit ones are made for the gather (2 of the 4 bytes counted as weights).
    master = np.where(zero3 & (not job.frozen_base), 2.0, 4.0) * (not low_memory and not full_precision)
    # Embedding and output head of a quantised base stay in 16 bits (arXiv 2305.14314: linear layers of the blocks only).
    unquantised = np.where(zero3, ends / layout.shard_group, ends) * (2.0 - weight_bytes if job.frozen_base and weight_bytes < 2 else 0.0)
    gradient_bytes = np.where(zero3 & (job.precision != "fp16") & (not job.frozen_base), 4.0, job.gradient_bytes)
    kinds = 1.0 * (layout.tp > 1) + (layout.pp > 1) + (layout.replicas > 1) + (layout.ep > 1)
    # Buckets hold gradients on their way, so never more than there are.
    buckets = np.minimum(c["bucket_gb"] * GB, _trained(job, layout, dense + experts) * job.gradient_bytes)
    parts = {
        "weights": (weights_held * weight_bytes + unquantised) * np.where(weights_on_host, 0.0, 1.0),
        "gradients": gradients_held * gradient_bytes,
        "optimizer": state_held * OPTIMIZER_BYTES[job.optimizer] * np.where(on_host, 0.0, 1.0),
        "master_weights": state_held * np.where(on_host, 0.0, master),
        "activations": activations,
        "logits": logits,
        "gathered_layers": gathered,
        "communication": kinds * c["communicator_gb"] * GB + (layout.replicas > 1) * buckets,
        "runtime": np.full_like(dense, c["runtime_gb"] * GB),
    }
    parts["fragmentation"] = c["fragmentation"] * (activations + logits + gathered + parts["gradients"])
    return parts


def end_parameters(job: TrainingJob, layout: TrainingLayout) -> FloatArray:
    """Parameters of the embedding and the output head (the larger in a pipeline, which parts them) on one GPU."""
    counts = parameter_counts(job.shape)
    first, last = (counts.embedding + counts.positions) / layout.tp, counts.output_head / layout.tp
    return np.where(layout.pp > 1, np.maximum(first, last), first + last)


def _trained(job: TrainingJob, layout: TrainingLayout, held: FloatArray) -> FloatArray:
    """Parameters with gradients on one GPU before ZeRO, of ``held``."""
    return np.full_like(held, job.trained_parameters) / (layout.tp * layout.pp) if job.frozen_base else held


def _held(job: TrainingJob, layout: TrainingLayout, dense: FloatArray, experts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Parameters whose (weights, optimizer state, gradients) one rank stores: ZeRO splits them over the replicas in
    that order of stages (arXiv 1910.02054); experts have fewer replicas under EP. In a pipeline, ZeRO-3 keeps gradients
    whole until the last micro-batch: to shard after each would cost a collective for each (usual with FSDP)."""
    replicas = layout.shard_group
    whole = (layout.sharding >= SHARDING.index("zero3")) & (layout.pp > 1)
    expert_replicas = np.where(layout.ep > 1, np.maximum(replicas * layout.tp / layout.ep, 1.0), replicas)

    def split(stage: int) -> FloatArray:
        active = (layout.sharding >= stage) & ~(whole if stage == 2 else np.zeros_like(whole))
        return dense / np.where(active, replicas, 1.0) + experts / np.where(active, expert_replicas, 1.0)

    if not job.frozen_base:
        return split(3), split(1), split(2)
    trained = _trained(job, layout, dense)
    return split(3), trained / np.where(layout.sharding >= 1, replicas, 1.0), trained / np.where(layout.sharding >= 2, replicas, 1.0)


def _dynamic(job: TrainingJob, layout: TrainingLayout, factor: float, logit_bytes: float) -> tuple[FloatArray, FloatArray]:
    """(activations, logits) bytes of the fullest stage.

    Micro-batches in flight on the first stage: pp (1F1B), times 1 + (pp - 1)/(pp vp) when interleaved (arXiv
    2104.04473). Full recomputation keeps each layer's input and the insides of one layer. The last stage holds one
    micro-batch in flight and the logits: it counts where it is the fuller.
    """
    kept, boundary = activation_bytes_per_token(job, layout)
    tokens = layout.micro_batch * (job.seq_len * job.fill) / layout.cp
    layers = job.shape.layers / layout.pp
    flying = np.where(layout.pp > 1, layout.pp + np.where(layout.vp > 1, (layout.pp - 1) / layout.vp, 0.0), 1.0)
    flying = np.minimum(flying, np.maximum(job.global_batch_sequences / (layout.dp * layout.micro_batch), 1.0))
    full = layout.recompute == RECOMPUTE.index("full")
    factor *= NARROW_ACTIVATIONS.get(job.precision, 1.0)
    per_layer = np.where(full, boundary, kept * factor)
    inside = np.where(full, kept * factor, 0.0)
    if not job.flash_attention:
        scores = 5.0 * job.shape.heads * job.seq_len * job.fill / layout.tp
        inside = np.where(layout.recompute >= 1, inside + scores, inside)
    activations = tokens * (layers * per_layer * flying + inside)
    share = 0.0 if job.fused_loss else job.head_share
    logits = tokens * (job.shape.vocab * share) / layout.tp * logit_bytes
    return activations, np.where(layout.pp > 1, np.maximum(logits - tokens * layers * per_layer * (flying - 1), 0.0), logits)
