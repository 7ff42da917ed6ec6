"""What a training step does, counted: FLOP, bytes, kernels and collectives of every layout, before any fitted constant."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from app.catalog.schema import Gpu
from app.engine.collectives import collective_time_s
from app.engine.compute import peak_flops
from app.engine.links import Collective
from app.engine.platform import Platform
from app.engine.training.job import OFFLOAD, OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.memory import parameters_per_gpu
from app.units import GB, TFLOP
from app.workload.architecture import parameter_counts

FloatArray = NDArray[np.float64]

NODE_ROUTING_YEAR = 2025
"""From this year on expert dispatch sends one copy of a token per server (DeepEP, February 2025; arXiv 2412.19437, 3.2.2)."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """Counts of one step; arrays over layouts, or scalars where all layouts share the value. Bytes and FLOP per GPU."""

    peak16: FloatArray
    """Dense 16-bit (or, for fp32 jobs, fp32) peak, FLOP/s."""
    peak_linear: FloatArray
    """Dense peak of the linear layers' precision, FLOP/s."""
    low_precision: FloatArray
    """1 where the linear layers run in 8 or 4 bits."""
    bandwidth: FloatArray
    """Memory bandwidth, nameplate bytes/s."""
    watts_per_tflop: FloatArray
    software_age: FloatArray
    """Years between the GPU's introduction and the training software."""
    year: FloatArray
    micro_batches: FloatArray
    rows: FloatArray
    """Tokens of one micro-batch on one GPU."""
    expert_rows: FloatArray
    hidden: FloatArray
    attention_width: FloatArray
    mlp_width: FloatArray
    expert_width: FloatArray
    attention_linear_flop: FloatArray
    """Forward FLOP of one micro-batch on one stage: projections of attention; then MLP, experts, output head."""
    mlp_flop: FloatArray
    expert_flop: FloatArray
    head_flop: FloatArray
    scores_flop: FloatArray
    """Forward FLOP of attention scores and values."""
    scores_passes: FloatArray
    passes: FloatArray
    """Forward-equivalents of the linear layers: 3, 4 with full recomputation; 2 or 3 with a frozen base."""
    head_passes: FloatArray
    hidden_bytes: FloatArray
    """2 x tokens x hidden x layers: one read or write of the residual stream by every layer."""
    wide_bytes: FloatArray
    """The same of the MLP's inner width (all chosen experts)."""
    routed_bytes: FloatArray
    logit_bytes: FloatArray
    score_bytes: FloatArray
    """Bytes of the s x s scores where they are stored (no fused attention)."""
    again_bytes: FloatArray
    """Bytes read and written to make again what selective recomputation dropped beside fused attention."""
    adapter_bytes: FloatArray
    dequantised: FloatArray
    """Parameters converted from a quantised base in one pass."""
    tuned: FloatArray
    layers: FloatArray
    moe_layers: FloatArray
    span: FloatArray
    """Keys a query meets in full-attention layers."""
    head_dim: FloatArray
    stages: FloatArray
    interleaved: FloatArray
    tp_s: FloatArray
    """Collective seconds of a whole step at the library's speed; see :mod:`app.engine.collectives`."""
    cp_s: FloatArray
    ep_s: FloatArray
    pp_s: FloatArray
    dp_s: FloatArray
    zero3: FloatArray
    gathered_share: FloatArray
    """Share of ``dp_s`` that gathers updated weights after the optimizer: half with ZeRO-1, less where ZeRO-2 reduces often, else none."""
    optimizer_bytes: FloatArray
    offload_bytes: FloatArray
    streamed_bytes: FloatArray
    """Weights that come from host memory, layer by layer, in one micro-batch: once forward and once backward."""
    adapter_flop: FloatArray
    """Forward FLOP of one micro-batch in low-rank adapters; they have three passes, as all that is trained."""
    servers: FloatArray
    bytes_tp: FloatArray
    bytes_cp: FloatArray
    bytes_ep: FloatArray
    bytes_pp: FloatArray
    bytes_dp: FloatArray


QUANTITY_NAMES = tuple(item.name for item in fields(Quantities))


def attention_flop_per_token(job: TrainingJob) -> float:
    """Forward FLOP of attention scores and values of one token, all layers: 2 products x 2 d per head and key seen.

    Keys seen: s/2 on average with a causal mask, s for encoders, about w with a window of w (w (1 - w/2s)).
    """
    shape = job.shape
    length = job.seq_len * job.fill
    width = shape.heads * ((shape.qk_nope_dim + shape.qk_rope_dim + shape.v_head_dim) / 2 if shape.attention == "mla" else shape.head_dim)
    window = min(shape.sliding_window or length, length)
    full = length if shape.modality in ("encoder", "embedding") else 0.5 * length
    sliding = window * (1 - window / (2 * length))
    state = 128.0
    keys = shape.full_attention_layers * full + shape.sliding_layers * sliding + shape.linear_layers * state
    return float(4 * width * keys)


@dataclass(frozen=True, slots=True)
class Request:
    """Collectives of one kind: every distinct (bytes, ranks, ranks per server), and where each layout finds its own."""

    collective: Collective
    size: FloatArray
    ranks: FloatArray
    local: FloatArray
    places: dict[str, tuple[NDArray[np.intp], NDArray[np.intp]]]
    """By use: (layouts with more than one rank, index of their case)."""


def quantities(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> Quantities:
    """All counts of a step for every layout."""
    gpu = platform.gpu
    counts = _counts(job, layout)
    uses, times, moved = _uses(job, layout, platform.gpus_per_server, counts)
    peak16, peak_linear = _peaks(job, gpu)
    seconds = {use: np.zeros_like(layout.tp) for use in ("tp", "cp", "ep", "pp", "dp", "gather", "scatter", "replicate")}
    for request in _requests(uses):
        time = collective_time_s(request.collective, request.size, request.ranks, request.local, platform)
        for use, (where, case) in request.places.items():
            seconds[use][where] = time[case]
    for use, often in times.items():
        seconds[use] = seconds[use] * often
    dp_s = seconds["dp"] + seconds["gather"] + seconds["scatter"] + seconds["replicate"]
    tdp = gpu.tdp_w
    return Quantities(
        peak16=np.asarray(peak16),
        peak_linear=np.asarray(peak_linear),
        low_precision=np.asarray(1.0 * (job.precision in ("fp8", "fp4"))),
        bandwidth=np.asarray((gpu.memory_bandwidth_gb_per_s or np.nan) * GB),
        watts_per_tflop=np.asarray(tdp / (peak16 / TFLOP) if tdp else np.nan),
        software_age=np.asarray(max(job.software_year - gpu.year, 0.0)),
        year=np.asarray(job.software_year),
        servers=np.maximum(layout.gpus / platform.gpus_per_server, 1.0),
        tp_s=seconds["tp"],
        cp_s=seconds["cp"],
        ep_s=seconds["ep"],
        pp_s=seconds["pp"],
        dp_s=dp_s,
        gathered_share=_gathered_share(layout, counts["micro_batches"], seconds["gather"], dp_s),
        **counts,
        **moved,
    )


def _counts(job: TrainingJob, layout: TrainingLayout) -> dict[str, FloatArray]:
    """Counts of a step without its collectives, for one micro-batch on one GPU unless named otherwise.

    Micro-batches per rank: global batch / (dp x micro-batch), at least one. Rows: micro-batch x tokens / cp. Products: 2 FLOP
    a parameter and row; layers over pp x tp, the head over tp. Passes: forward 1, backward 2 (1 for a frozen base's inputs
    alone), 1 more recomputed (arXiv 2104.04473, appendix). Scores: 1 forward, 2.5 backward, as fused attention makes them
    again (arXiv 2307.08691, section 3.1). Optimizer: 2 bytes of weights, 2 of gradients, and master copy and state both ways.
    """
    shape, counts = job.shape, parameter_counts(job.shape)
    micro_batches = np.maximum(job.global_batch_sequences / (layout.dp * layout.micro_batch), 1.0)
    rows = layout.micro_batch * (job.seq_len * job.fill) / layout.cp
    split = layout.pp * layout.tp
    full = layout.recompute == RECOMPUTE.index("full")
    each = 2 * rows / split
    width = 2.0 if job.precision == "fp32" else 1.0
    head = (counts.output_head or counts.embedding) * job.head_share
    expert = shape.moe_layers * shape.top_k * counts.expert if shape.is_moe else 0.0
    other = counts.shared_experts + counts.routers + max(counts.other, 0.0)
    score_bytes = 0.0 if job.flash_attention else 2.0 * shape.heads * job.seq_len * shape.layers
    again = full | ((layout.recompute >= 1) & (score_bytes > 0))
    # Beside fused attention: two norms (read, write) and the product of the MLP (read its factors, write), as memory.py drops them.
    cheap = (layout.recompute == RECOMPUTE.index("selective")) & job.flash_attention
    factors = 2.0 if shape.gated_mlp else 1.0
    hidden_bytes = width * each * (shape.hidden * shape.layers)
    wide_bytes = width * each * (_inner_width(job) * shape.layers)
    adapters = _adapter_width(job) if job.frozen_base else 0.0
    quantised = job.frozen_base and job.base_bits < 8
    on_host = layout.offload >= OFFLOAD.index("optimizer")
    update = _updated(job, layout) * (2 + 2 + 2 * (4 + OPTIMIZER_BYTES[job.optimizer]))
    one = np.float64(1.0)
    expert_rows = rows * np.maximum(layout.ep, 1.0) * (shape.top_k / max(shape.experts, 1))
    return {
        "micro_batches": micro_batches,
        "rows": rows,
        "expert_rows": np.maximum(expert_rows, 1.0) if shape.is_moe else one,
        "hidden": one * shape.hidden,
        # Without heads, the inner width of a state-space layer: twice the hidden one (arXiv 2312.00752, section 3.4).
        "attention_width": (shape.heads * shape.head_dim or 2 * shape.hidden) / layout.tp,
        "mlp_width": max(shape.ffn_dense or shape.moe_ffn, 1) / layout.tp,
        "expert_width": max(shape.moe_ffn, 1) / np.where(layout.ep > 1, 1.0, layout.tp),
        "attention_linear_flop": (counts.attention + other) * each,
        "mlp_flop": counts.dense_mlp * each,
        "expert_flop": expert * each,
        "head_flop": 2 * head * rows / layout.tp,
        "scores_flop": attention_flop_per_token(job) * rows / split,
        "scores_passes": np.where(again, 4.5, 3.5),
        "passes": (2.0 if job.frozen_base else 3.0) + full,
        "head_passes": one * (2.0 if job.frozen_base else 3.0),
        "hidden_bytes": hidden_bytes,
        "wide_bytes": wide_bytes,
        "again_bytes": cheap * (4 * hidden_bytes + (1 + 1 / factors) * wide_bytes),
        "routed_bytes": each * (shape.top_k * shape.hidden * shape.moe_layers),
        "logit_bytes": 2 * rows * (shape.vocab * job.head_share) / layout.tp,
        "score_bytes": width * rows * score_bytes / split,
        "adapter_bytes": each * (adapters * shape.layers),
        "dequantised": (counts.total - counts.embedding - counts.output_head) / split * quantised,
        "tuned": one * job.tuned,
        "layers": shape.layers / layout.pp,
        "moe_layers": shape.moe_layers / layout.pp,
        "span": one * job.seq_len * job.fill * (1.0 if shape.modality in ("encoder", "embedding") else 0.5),
        "head_dim": one * max(shape.head_dim, 1),
        "stages": layout.pp,
        "interleaved": np.maximum(layout.vp, 1.0),
        "zero3": (layout.sharding >= SHARDING.index("zero3")) * 1.0,
        "optimizer_bytes": np.where(on_host, 0.0, update),
        "offload_bytes": np.where(on_host, update, 0.0),
        "streamed_bytes": _streamed_bytes(job, layout),
        "adapter_flop": each * job.trained_parameters if job.frozen_base else np.float64(0.0),
    }


def _peaks(job: TrainingJob, gpu: Gpu) -> tuple[float, float]:
    """(16-bit, linear layers') dense peak of the catalogue, FLOP/s; fp32 jobs run at the fp32 (or TF32) rate throughout."""
    base = peak_flops(gpu, "fp32" if job.precision == "fp32" else "bf16")
    linear = peak_flops(gpu, job.precision)
    if base is None or linear is None:
        raise ValueError(f"{gpu.id} has no {job.precision} rate in the catalogue")
    return base, linear


def _inner_width(job: TrainingJob) -> float:
    """Inner width of the MLP a token passes, mean over layers; both halves of a gated one."""
    shape = job.shape
    factor = 2.0 if shape.gated_mlp else 1.0
    shared = shape.shared_experts * (shape.shared_ffn or shape.moe_ffn)
    return factor * (shape.mlp_layers * shape.ffn_dense + shape.moe_layers * (shape.top_k * shape.moe_ffn + shared)) / max(shape.layers, 1)


def _adapter_width(job: TrainingJob) -> float:
    """Input and output widths of the adapted linear layers of one layer."""
    shape = job.shape
    return 4 * shape.hidden + 2 * (shape.heads + shape.kv_heads) * shape.head_dim


def _streamed_bytes(job: TrainingJob, layout: TrainingLayout) -> FloatArray:
    """Bytes of the weights one rank keeps in host memory (of ZeRO-3's shards its own), forward and backward (arXiv 2101.06840)."""
    away = layout.offload == OFFLOAD.index("parameters")
    if not away.any():
        return np.asarray(0.0)
    dense, experts = parameters_per_gpu(job, layout)
    width = 4.0 if job.precision == "fp32" else job.base_bits / 8 if job.frozen_base else 2.0
    zero3 = layout.sharding >= SHARDING.index("zero3")
    return np.where(away, 2 * (dense + experts) * width / np.where(zero3, layout.shard_group, 1.0), 0.0)


def _updated(job: TrainingJob, layout: TrainingLayout) -> FloatArray:
    """Parameters one rank's optimizer updates: those held, over the shard group from ZeRO-1 on (arXiv 1910.02054)."""
    dense, experts = parameters_per_gpu(job, layout)
    held = np.full_like(dense, job.trained_parameters) / (layout.tp * layout.pp) if job.frozen_base else dense + experts
    return held / np.where(layout.sharding >= 1, layout.shard_group, 1.0)


def local_ranks(ranks: FloatArray, inner: FloatArray, per_server: int) -> FloatArray:
    """Ranks of a group that share a server, when ``inner`` GPUs of other dimensions stand between neighbours."""
    return np.minimum(np.maximum(np.floor(per_server / inner), 1.0), ranks)


BUCKET_BYTES = 100e6
"""Gradients of one message: PyTorch DDP starts from 25 MB buckets, Megatron-LM takes 40 million elements."""
Use = tuple[Collective, FloatArray, FloatArray, FloatArray]
"""Collective, bytes, ranks and ranks per server, over layouts."""


def _uses(
    job: TrainingJob, layout: TrainingLayout, per_server: int, counts: dict[str, FloatArray]
) -> tuple[dict[str, Use], dict[str, FloatArray], dict[str, FloatArray]]:
    """(collectives by use, how often each runs in a step, bytes of a step). Ranks, innermost first: tp, cp, dp, pp (Megatron's).

    TP: two all-reduces a layer forward, two backward, two more when recomputed (arXiv 1909.08053, section 3); with
    sequence parallelism the same bytes as all-gather and reduce-scatter. CP: keys and values round the ring, once
    forward and twice backward. EP: dispatch and combine of every routed token, forward and backward. PP: activations
    forward, gradients back, for every micro-batch and virtual stage. DP: see :func:`_data_parallel`.
    """
    shape, rows, micro_batches = job.shape, counts["rows"], counts["micro_batches"]
    one = np.ones_like(layout.tp)
    again = layout.recompute == RECOMPUTE.index("full")
    often = counts["layers"] * micro_batches
    residual = rows * (2 * shape.hidden)
    kv = rows * (4 * shape.kv_heads * shape.head_dim) / layout.tp * layout.cp
    ep = layout.ep if shape.is_moe else one
    routed = rows * (2 * shape.hidden * shape.top_k) / layout.tp
    if job.software_year >= NODE_ROUTING_YEAR and shape.is_moe:
        # A token goes to each server once, however many of its experts live there: n (1 - (1 - 1/n)^k) of n servers.
        servers = np.maximum(layout.ep / per_server, 1.0)
        distinct = servers * (1 - (1 - 1 / servers) ** max(shape.top_k, 1))
        routed = routed * np.where(servers > 1, np.minimum(distinct / max(shape.top_k, 1), 1.0), 1.0)
    hop = residual / layout.tp
    uses: dict[str, Use] = {
        "tp": ("all_reduce", residual, layout.tp, local_ranks(layout.tp, one, per_server)),
        "cp": ("all_gather", kv, layout.cp, local_ranks(layout.cp, layout.tp, per_server)),
        "ep": ("all_to_all", routed, ep, local_ranks(ep, one, per_server)),
        "pp": ("send_recv", hop, np.minimum(layout.pp, 2.0), np.where(layout.gpus > per_server, 1.0, 2.0)),
    }
    times = {
        "tp": often * (4 + 2 * again),
        "cp": often * 3,
        "ep": counts["moe_layers"] * micro_batches * (4 + 2 * again),
        "pp": 2 * micro_batches * counts["interleaved"],
    }
    moved = {f"bytes_{name}": uses[name][1] * times[name] * (uses[name][2] > 1) for name in times}
    data, data_times, moved["bytes_dp"] = _data_parallel(job, layout, per_server, micro_batches)
    return {**uses, **data}, {**times, **data_times}, moved


def _data_parallel(
    job: TrainingJob, layout: TrainingLayout, per_server: int, micro_batches: FloatArray
) -> tuple[dict[str, Use], dict[str, FloatArray], FloatArray]:
    """Collectives, how often, and bytes of gradients, and of sharded weights, between data-parallel ranks.

    DDP and ZeRO-1: gradients reduce-scattered and weights gathered once a step, as an all-reduce, in buckets of
    :data:`BUCKET_BYTES`, so that latency counts once for each. ZeRO-2 reduces for every micro-batch, since no rank has room
    to add up whole gradients, and ZeRO-3 gathers the weights twice for every micro-batch, too (Rajbhandari et al., arXiv
    1910.02054); both layer by layer, as FSDP does. Hybrid sharding does so inside each shard group and all-reduces the sums of each shard
    between the groups, once a step (arXiv 2304.11277, section 3.2.2). Gradients travel in 16 bits, in fp32 jobs in 32.
    """
    dense, experts = parameters_per_gpu(job, layout)
    trained = np.full_like(dense, job.trained_parameters) / (layout.tp * layout.pp) if job.frozen_base else dense + experts
    gradients = trained * (4.0 if job.precision == "fp32" else 2.0)
    ranks = layout.replicas
    local = local_ranks(ranks, layout.tp, per_server)
    zero3 = (layout.sharding >= SHARDING.index("zero3")) & (ranks > 1)
    by_shard = ((layout.sharding >= SHARDING.index("zero2")) & (ranks > 1)) | ((layout.sharding >= 1) & (layout.shard_group < ranks))
    base = (dense + experts) * (job.base_bits / 8 if job.frozen_base else 2.0)
    group = np.where(by_shard, layout.shard_group, 1.0)
    inside = local_ranks(group, layout.tp, per_server)
    groups = np.where(by_shard, ranks / layout.shard_group, 1.0)
    layers = np.maximum(job.shape.layers / layout.pp, 1.0)
    buckets = np.maximum(gradients / BUCKET_BYTES, 1.0)
    reductions = _reductions(layout, micro_batches)
    uses: dict[str, Use] = {
        "dp": ("all_reduce", gradients / buckets, np.where(by_shard, 1.0, ranks), local),
        "gather": ("all_gather", base / layers, group, inside),
        "scatter": ("reduce_scatter", gradients / layers, group, inside),
        "replicate": ("all_reduce", gradients / group / layers, groups, local_ranks(groups, layout.tp * group, per_server)),
    }
    gathers = np.where(zero3, 2 * micro_batches, 1.0)
    times = {"dp": buckets * (reductions + 1) / 2, "gather": gathers * layers, "scatter": reductions * layers, "replicate": layers}
    sharded = (gathers * base + reductions * gradients) * (group > 1) + 2 * gradients / group * (groups > 1)
    return uses, times, np.where(by_shard, sharded, gradients * (reductions + 1) * (ranks > 1))


def _reductions(layout: TrainingLayout, micro_batches: FloatArray) -> FloatArray:
    """Times a step reduces gradients between replicas: once; with ZeRO-2 and 3 for every micro-batch."""
    return np.where(layout.sharding >= SHARDING.index("zero2"), micro_batches, 1.0)


def _gathered_share(layout: TrainingLayout, micro_batches: FloatArray, gather_s: FloatArray, dp_s: FloatArray) -> FloatArray:
    """Share of the data-parallel time that gathers updated weights after the optimizer: that of the gather among one and the
    reductions of an all-reduce's halves, or its own time where it is a collective of its own."""
    updated = (layout.sharding >= 1) & (layout.sharding < SHARDING.index("zero3"))
    share = np.where(gather_s > 0, gather_s / np.where(dp_s > 0, dp_s, 1.0), 1 / (1 + _reductions(layout, micro_batches)))
    return np.where(updated, share, 0.0)


def _requests(uses: dict[str, Use]) -> tuple[Request, ...]:
    """Distinct cases of each collective over all its uses; groups of one rank exchange nothing."""
    by_kind: dict[Collective, list[str]] = {}
    active = {}
    for name, (kind, _, ranks, _) in uses.items():
        active[name] = np.flatnonzero(ranks > 1)
        if active[name].size:
            by_kind.setdefault(kind, []).append(name)
    found = []
    for kind, names in by_kind.items():
        size, ranks, local = (np.concatenate([uses[name][item][active[name]] for name in names]) for item in (1, 2, 3))
        # One number stands for the three: irrational steps keep different (ranks, local) pairs of a size apart.
        key = size * (1 + ranks * (2**0.5 * 1e-4)) * (1 + local * (3**0.5 * 1e-2))
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        ends = np.cumsum([active[name].size for name in names])[:-1]
        places = {name: (active[name], case) for name, case in zip(names, np.split(inverse, ends), strict=True)}
        found.append(Request(kind, size[first], ranks[first], local[first], places))
    return tuple(found)
