"""Time of one optimizer step on a platform, with every collective and what of it nothing hides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.collectives import collective_time_s
from app.engine.compute import compute_constants, gemm_efficiency, generation_constants, memory_time_s, peak_flops
from app.engine.platform import Platform
from app.engine.training.job import OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.memory import parameters_per_gpu
from app.workload.architecture import parameter_counts

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One collective of a step over all layouts: bytes per GPU, its whole time and the exposed part, seconds."""

    name: str
    purpose: str
    across: FloatArray
    """1 where it crosses servers."""
    bytes: FloatArray
    time_s: FloatArray
    exposed_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one step by part, arrays over layouts. ``step_s`` is their sum."""

    compute_s: FloatArray
    memory_s: FloatArray
    bubble_s: FloatArray
    optimizer_s: FloatArray
    host_s: FloatArray
    exchanges: tuple[Exchange, ...]
    model_flop: float
    """Useful FLOP of the step over all GPUs, without recomputation (MFU's numerator)."""

    @property
    def exposed_s(self) -> FloatArray:
        """Communication nothing hides."""
        return np.sum([item.exposed_s for item in self.exchanges], axis=0)

    @property
    def step_s(self) -> FloatArray:
        """The whole step."""
        return self.compute_s + self.memory_s + self.bubble_s + self.optimizer_s + self.host_s + self.exposed_s


def model_flop_per_token(job: TrainingJob) -> float:
    """Useful FLOP of one token, forward and backward: 6 per active matrix parameter, plus causal attention.

    Embedding look-ups cost nothing; the output head does. Frozen bases skip weight gradients (4 instead of 6).
    Attention: 2 products of s x d per head, causal half, times 3 for forward and backward = 6 s a d per layer
    (Narayanan et al., arXiv 2104.04473, with the causal half).
    """
    counts = parameter_counts(job.shape)
    head = counts.output_head or counts.embedding
    matrices = counts.active - counts.embedding - counts.output_head - counts.positions + head
    per_parameter = 4.0 if job.frozen_base else 6.0
    trained = 6.0 * job.trained_parameters if job.frozen_base else 0.0
    return per_parameter * matrices + trained + 3 * attention_flop_per_token(job)


def attention_flop_per_token(job: TrainingJob) -> float:
    """Forward FLOP of attention scores and values of one token, all layers, causal: 2 s a d a layer (window-capped)."""
    shape = job.shape
    width = shape.heads * ((shape.qk_nope_dim + shape.qk_rope_dim + shape.v_head_dim) / 2 if shape.attention == "mla" else shape.head_dim)
    window = min(shape.sliding_window or job.seq_len, job.seq_len)
    sliding = window * (1 - window / (2 * job.seq_len)) * 2
    causal = 0.5 * job.seq_len * 2 if shape.modality not in ("encoder", "embedding") else float(job.seq_len) * 2
    linear_state = 4.0 * 128
    per_layer = shape.full_attention_layers * causal + shape.sliding_layers * sliding + shape.linear_layers * linear_state
    return float(2 * width * per_layer)


def step_time(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> StepTime:
    """All parts of a step for every layout. Micro-batches per rank: global batch / (dp x micro-batch), at least one."""
    gpu = platform.gpu
    constants = {**compute_constants().get("training", {}), **generation_constants(gpu)}
    precision = "bf16" if job.precision == "auto" else job.precision
    peak = peak_flops(gpu, precision)
    base_peak = peak_flops(gpu, "bf16")
    if peak is None or base_peak is None:
        raise ValueError(f"{gpu.id} has no {precision} rate in the catalogue")
    shape = job.shape
    counts = parameter_counts(shape)
    micro_batches = np.maximum(job.global_batch_sequences / (layout.dp * layout.micro_batch), 1.0)
    tokens = layout.micro_batch * job.seq_len / layout.cp
    layers = shape.layers / layout.pp
    compute_micro, memory_micro = _micro_batch_compute(job, gpu, layout, tokens, precision, peak, base_peak, counts)
    host_micro = layers * constants.get("host_s_per_layer", 25e-6) * 3
    host_micro = np.maximum(host_micro - compute_micro - memory_micro, 0.0) + 0.0 * tokens
    exchanges = _exchanges(job, platform, layout, tokens, layers, micro_batches, compute_micro + memory_micro, counts, constants)
    inside = np.sum([item.exposed_s for item in exchanges if item.name in _PER_MICRO_BATCH], axis=0) / micro_batches
    bubble = (compute_micro + memory_micro + inside) * (layout.pp - 1) / np.maximum(layout.vp, 1)
    return StepTime(
        compute_s=compute_micro * micro_batches,
        memory_s=memory_micro * micro_batches,
        bubble_s=bubble,
        optimizer_s=_optimizer_s(job, platform, layout),
        host_s=host_micro * micro_batches + constants.get("step_overhead_s", 0.01),
        exchanges=exchanges,
        model_flop=model_flop_per_token(job) * job.global_batch_sequences * job.seq_len,
    )


_PER_MICRO_BATCH = ("tp", "ep", "cp")


def _micro_batch_compute(
    job: TrainingJob, gpu: object, layout: TrainingLayout, tokens: FloatArray, precision: str, peak: float, base_peak: float, counts: object
) -> tuple[FloatArray, FloatArray]:
    """(arithmetic, memory-bound) seconds of one micro-batch on one stage, forward, backward and recomputation."""
    from app.catalog.schema import Gpu
    from app.workload.architecture import ParameterCounts

    assert isinstance(gpu, Gpu)
    assert isinstance(counts, ParameterCounts)
    constants = generation_constants(gpu)
    shape = job.shape
    head = counts.output_head or counts.embedding
    body = counts.active - counts.embedding - counts.output_head - counts.positions
    full = layout.recompute == RECOMPUTE.index("full")
    passes = (2.0 if job.frozen_base else 3.0) + np.where(full, 1.0, 0.0)
    width = shape.ffn_dense or shape.moe_ffn * max(shape.top_k, 1)
    rows = tokens * (shape.top_k / max(shape.experts, 1) * np.maximum(layout.ep, 1) if shape.is_moe else 1.0)
    efficiency = gemm_efficiency(np.maximum(rows, 1.0), max(width, 1) / layout.tp, shape.hidden, gpu, precision)
    body_flop = 2 * body * tokens / (layout.pp * layout.tp)
    trained = job.trained_parameters if job.frozen_base else 0.0
    body_flop_s = body_flop * passes / (peak * efficiency) + 6 * trained * tokens / (layout.pp * layout.tp) / (base_peak * 0.25)
    head_efficiency = gemm_efficiency(np.maximum(tokens, 1.0), shape.vocab / layout.tp, shape.hidden, gpu, "bf16")
    head_passes = 2.0 if job.frozen_base else 3.0
    # The head sits on one stage; the others wait for it once per micro-batch only through the pipeline's slowest stage.
    head_s = 2 * head * tokens * head_passes / layout.tp / (base_peak * head_efficiency) * np.where(layout.pp > 1, 0.6, 1.0)
    attention = attention_flop_per_token(job) * tokens / (layout.pp * layout.tp)
    attention_passes = 3.5 + np.where(layout.recompute >= 1, 1.0, 0.0)
    share = constants["attention_share"]
    attention_s = attention * attention_passes / (base_peak * share)
    if not job.flash_attention:
        scores_bytes = 8 * shape.heads * job.seq_len * tokens * shape.layers / (layout.pp * layout.tp) * 3
        attention_s = attention_s + memory_time_s(scores_bytes, gpu)
    # Norms, residuals, activation functions, rotary, casts: bytes per token of a layer, forward and backward.
    streams = constants.get("elementwise_streams", 22.0)
    moved = 2 * tokens * (streams * shape.hidden + 5 * max(width, 1)) * shape.layers / (layout.pp * layout.tp) * passes / 3
    moved = moved + tokens * shape.vocab / layout.tp * 12 / np.where(layout.pp > 1, layout.pp, 1.0)
    extra = memory_time_s(moved, gpu)
    if job.base_bits < 16 and job.frozen_base:
        dequantised = counts.total * 2.5 / (layout.pp * layout.tp) * passes
        extra = extra + memory_time_s(dequantised * 2, gpu)
    return body_flop_s + head_s + attention_s, extra


def _optimizer_s(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> FloatArray:
    """Read and write of weights, gradients, master copy and state of the rank's shard, at memory bandwidth."""
    dense, experts = parameters_per_gpu(job, layout)
    held = dense + experts
    if job.frozen_base:
        held = np.full_like(held, job.trained_parameters) / (layout.tp * layout.pp)
    shard = np.where(layout.sharding >= 1, layout.dp * layout.cp, 1.0)
    bytes_each = 2 + 2 + 2 * (4 + OPTIMIZER_BYTES[job.optimizer])
    return memory_time_s(held / shard * bytes_each, platform.gpu)


def _local(ranks: FloatArray, inner: FloatArray, per_server: int) -> FloatArray:
    """Ranks of a group that share a server, when ``inner`` GPUs of other dimensions stand between neighbours."""
    return np.clip(np.floor(per_server / inner), 1, ranks)


def _exchanges(
    job: TrainingJob,
    platform: Platform,
    layout: TrainingLayout,
    tokens: FloatArray,
    layers: FloatArray,
    micro_batches: FloatArray,
    compute_micro: FloatArray,
    counts: object,
    constants: dict[str, float],
) -> tuple[Exchange, ...]:
    """All collectives of a step. Order of ranks, innermost first: tp, cp, dp, pp (as Megatron places them)."""
    per_server = platform.gpus_per_server
    shape = job.shape
    full = layout.recompute == RECOMPUTE.index("full")
    found = []
    # Tensor parallel: two all-reduces a layer forward and two backward of the activations, two more when recomputed
    # (arXiv 1909.08053, section 3); with sequence parallelism the same bytes as all-gather plus reduce-scatter.
    size = tokens * shape.hidden * 2
    count = layers * (4 + np.where(full, 2, 0)) * micro_batches
    local = _local(layout.tp, np.ones_like(layout.tp), per_server)
    one = np.where(
        layout.tp > 1,
        collective_time_s("all_reduce", size, np.maximum(layout.tp, 2), np.maximum(np.where(layout.tp > 1, local, 2), 1), platform),
        0.0,
    )
    hidden_share = constants.get("tp_overlap", 0.15)
    found.append(
        Exchange(
            name="tp",
            purpose="tensor parallel: activations of every layer",
            across=(layout.tp > per_server) * 1.0,
            bytes=size * count * (layout.tp > 1),
            time_s=one * count,
            exposed_s=one * count * (1 - hidden_share),
        )
    )
    # Context parallel: keys and values travel round the ring once forward and twice backward.
    kv = tokens * 2 * shape.kv_heads * shape.head_dim * 2 / layout.tp
    local = _local(layout.cp, layout.tp, per_server)
    cp_one = np.where(
        layout.cp > 1,
        collective_time_s(
            "all_gather", kv * layout.cp, np.maximum(layout.cp, 2), np.maximum(np.where(layout.cp > 1, local, 2), 1), platform
        ),
        0.0,
    )
    cp_count = layers * 3 * micro_batches
    found.append(
        Exchange(
            name="cp",
            purpose="context parallel: keys and values",
            across=(layout.cp * layout.tp > per_server) * 1.0,
            bytes=kv * cp_count * (layout.cp > 1),
            time_s=cp_one * cp_count,
            exposed_s=cp_one * cp_count * 0.3,
        )
    )
    # Expert parallel: dispatch and combine, forward and backward, of every routed token copy.
    if shape.is_moe:
        routed = tokens * shape.hidden * 2 * shape.top_k / layout.tp
        local = _local(layout.ep, np.ones_like(layout.ep), per_server)
        ep_one = np.where(
            layout.ep > 1,
            collective_time_s("all_to_all", routed, np.maximum(layout.ep, 2), np.maximum(np.where(layout.ep > 1, local, 2), 1), platform),
            0.0,
        )
        ep_count = shape.moe_layers / layout.pp * (4 + np.where(full, 2, 0)) * micro_batches
        found.append(
            Exchange(
                name="ep",
                purpose="expert parallel: tokens to experts and back",
                across=(layout.ep > per_server) * 1.0,
                bytes=routed * ep_count * (layout.ep > 1),
                time_s=ep_one * ep_count,
                exposed_s=ep_one * ep_count * 0.8,
            )
        )
    # Pipeline: activations to the next stage and gradients back, one message per micro-batch and virtual stage.
    hop = tokens * shape.hidden * 2 / np.where(layout.tp > 1, layout.tp, 1.0)
    crosses = layout.gpus > per_server
    pair_local = np.where(crosses, 1.0, 2.0)
    pp_one = np.where(layout.pp > 1, collective_time_s("send_recv", hop, 2.0 * np.ones_like(hop), pair_local, platform), 0.0)
    pp_count = 2 * micro_batches * np.maximum(layout.vp, 1)
    found.append(
        Exchange(
            name="pp",
            purpose="pipeline: activations between stages",
            across=crosses * 1.0,
            bytes=hop * pp_count * (layout.pp > 1),
            time_s=pp_one * pp_count,
            exposed_s=pp_one * pp_count * 0.5,
        )
    )
    found.append(_data_parallel(job, platform, layout, micro_batches, compute_micro, constants))
    return tuple(found)


def _data_parallel(
    job: TrainingJob,
    platform: Platform,
    layout: TrainingLayout,
    micro_batches: FloatArray,
    compute_micro: FloatArray,
    constants: dict[str, float],
) -> Exchange:
    """Gradients (and ZeRO-3 weights) between data-parallel ranks, hidden behind the backward pass where it fits.

    DDP and ZeRO-1/2: one reduce-scatter of gradients and one all-gather of weights a step, equal to an all-reduce.
    ZeRO-3: weights gathered twice every micro-batch and gradients reduced (Rajbhandari et al., arXiv 1910.02054).
    """
    dense, experts = parameters_per_gpu(job, layout)
    trained = job.trained_parameters / (layout.tp * layout.pp) if job.frozen_base else dense + experts
    ranks = layout.dp * layout.cp
    local = _local(ranks, layout.tp, platform.gpus_per_server)
    safe, safe_local = np.maximum(ranks, 2), np.maximum(np.where(ranks > 1, local, 2), 1)
    zero3 = layout.sharding >= SHARDING.index("zero3")
    base_bytes = (dense + experts) * (job.base_bits / 8 if job.frozen_base else 2.0)
    reduce = collective_time_s("all_reduce", trained * 2, safe, safe_local, platform)
    gather = collective_time_s("all_gather", base_bytes, safe, safe_local, platform)
    scatter = collective_time_s("reduce_scatter", trained * 2, safe, safe_local, platform)
    gathers = 2.0 * micro_batches
    time = np.where(ranks > 1, np.where(zero3, gathers * gather + micro_batches * scatter, reduce), 0.0)
    # What can hide it: two thirds of the last micro-batch (backward) for gradients, the whole compute for ZeRO-3.
    share = constants.get("dp_overlap", 0.75)
    cover = np.where(zero3, compute_micro * micro_batches, compute_micro * 2 / 3) * share
    floor = time * constants.get("dp_exposed_floor", 0.08)
    exposed = np.maximum(time - cover, floor)
    moved = np.where(zero3, gathers * base_bytes + micro_batches * trained * 2, trained * 4) * (ranks > 1)
    across = (ranks * layout.tp > platform.gpus_per_server) * 1.0
    return Exchange(
        name="dp", purpose="data parallel: gradients and sharded weights", across=across, bytes=moved, time_s=time, exposed_s=exposed
    )


def published_flop_per_token(job: TrainingJob, *, hardware: bool, causal: bool = False) -> float:
    """FLOP per token as papers count them: attention in full, not its causal half, unless they say ``causal``.

    ``hardware`` adds the recomputed forward pass: 4/3 of the model's (arXiv 2104.04473, appendix). Frozen bases: 4 per parameter.
    """
    attention = attention_flop_per_token(job)
    full = attention * (1.0 if causal or job.shape.modality in ("encoder", "embedding") else 2.0)
    flop = model_flop_per_token(job) + 3 * (full - attention)
    return flop * (4 / 3 if hardware else 1.0)
