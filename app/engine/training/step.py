"""Time of one optimizer step: the counts of :mod:`app.engine.training.quantities` with fitted efficiencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.platform import Platform
from app.engine.training.constants import training_constants
from app.engine.training.job import TrainingJob, TrainingLayout
from app.engine.training.quantities import Quantities, attention_flop_per_token, quantities
from app.units import GB, MS, US
from app.workload.architecture import parameter_counts

FloatArray = NDArray[np.float64]

MEMORY_SHARE = 0.85
"""Share of nameplate bandwidth streaming kernels reach (STREAM-like figures of A100, H100: 0.83 to 0.92)."""
KERNEL_YEAR = 2026.0
"""Software year whose attention kernels ``attention_share`` describes."""
RIDGE = 153.0
"""FLOP per byte of the A100 (312 TFLOPS, 2.04 TB/s), the machine ``half_side`` is stated for."""


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
        total: FloatArray = np.sum([item.exposed_s for item in self.exchanges], axis=0)
        return total

    @property
    def step_s(self) -> FloatArray:
        """The whole step."""
        return self.compute_s + self.memory_s + self.bubble_s + self.optimizer_s + self.host_s + self.exposed_s


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of a step by part, before they are named for reports."""

    compute: FloatArray
    memory: FloatArray
    bubble: FloatArray
    optimizer: FloatArray
    host: FloatArray
    tp: FloatArray
    cp: FloatArray
    ep: FloatArray
    pp: FloatArray
    dp: FloatArray

    @property
    def total(self) -> FloatArray:
        """Their sum."""
        return self.compute + self.memory + self.bubble + self.optimizer + self.host + self.tp + self.cp + self.ep + self.pp + self.dp


def model_flop_per_token(job: TrainingJob) -> float:
    """Useful FLOP of one token, forward and backward: 6 per active matrix parameter, plus causal attention.

    Embedding look-ups cost nothing; the output head does. Frozen bases skip weight gradients (4 instead of 6).
    Attention: two products per head, three times for forward and backward (arXiv 2104.04473, with the causal half).
    """
    counts = parameter_counts(job.shape)
    head = counts.output_head or counts.embedding
    matrices = counts.active - counts.embedding - counts.output_head - counts.positions + head * job.head_share
    per_parameter = 4.0 if job.frozen_base else 6.0
    trained = 6.0 * job.trained_parameters if job.frozen_base else 0.0
    return per_parameter * matrices + trained + 3 * attention_flop_per_token(job)


def published_flop_per_token(job: TrainingJob, *, hardware: bool, causal: bool = False) -> float:
    """FLOP per token as papers count them: attention in full, not its causal half, unless they say ``causal``.

    ``hardware`` adds the recomputed forward pass: 4/3 of the model's (arXiv 2104.04473, appendix). Frozen bases: 4 per parameter.
    """
    attention = attention_flop_per_token(job)
    full = attention * (1.0 if causal or job.shape.modality in ("encoder", "embedding") else 2.0)
    flop = model_flop_per_token(job) + 3 * (full - attention)
    return flop * (4 / 3 if hardware else 1.0)


def assemble(q: Quantities, c: Mapping[str, Any]) -> Parts:
    """Seconds of every part of a step from its counts and the constants (numbers, or arrays over layouts).

    Products: FLOP / (peak x share x maturity x power x s(m) s(n) s(k)), ``s(x) = x / (x + x_half)``; x_half grows
    with peak over bandwidth, since faster units need larger tiles to stay fed. Attention has its own maturity, and the
    same form in the keys met and the head width. Maturity: ``1 - i exp(-age / y)``, age in
    years of software after the GPU's introduction. Power: (W per TFLOP / that of the generation's flagship) ** p, at most 1.

    Memory-bound parts (roofline, Williams et al. 2009), s: bytes / (:data:`MEMORY_SHARE` x bandwidth); bytes = streams x
    residual + wide_streams x MLP's inner width, each pass; 6 reads and writes of the logits for loss and gradient.
    Host: layers x launch time, or weights that come from host memory over its link, what arithmetic does not cover. Adapters:
    FLOP at the rate of wide products (their reads and writes, which bound small ranks, are among the streams). Bubble:
    (p - 1) / v micro-batches of p stages, v interleaved (arXiv 2104.04473, section 2.2). Collectives, s: time x the share
    nothing hides; gradients: what the last backward pass (2/3 of a micro-batch; all of them with ZeRO-3) does not cover, at
    least a floor, and the gather of updated weights.
    Slowest of n servers: compute x (1 + jitter log2 n) and wait_ms x log2 n a step.
    """
    maturity = 1 - c["immaturity"] * np.exp(-q.software_age / c["maturity_years"])
    power = np.minimum(np.nan_to_num(q.watts_per_tflop / c["watts_per_tflop"], nan=1.0), 1.0) ** c["power_exponent"]
    sustained = maturity * power
    share = np.where(q.low_precision > 0, c["gemm_share_8bit"], c["gemm_share"]) * sustained
    half = c["half_side"] * (q.peak16 / q.bandwidth / RIDGE) ** c["half_power"]
    head_sides = q.hidden / (q.hidden + half) * (q.rows / (q.rows + half))
    half = half * np.where(q.low_precision > 0, c["half_narrow"], 1.0)
    side_h = q.hidden / (q.hidden + half)
    side_m = q.rows / (q.rows + half)
    rate = q.peak_linear * share * side_h * side_m
    linear = q.attention_linear_flop * (1 + half / q.attention_width) + q.mlp_flop * (1 + half / q.mlp_width)
    body = linear / rate
    experts = q.expert_flop * (1 + half / q.expert_width) * (1 + half / q.expert_rows) / (q.peak_linear * share * side_h)
    head_rate = q.peak16 * c["gemm_share"] * sustained * head_sides
    head = q.head_flop * q.head_passes / head_rate
    kernels = 1 / (1 + c["attention_age"] * np.maximum(KERNEL_YEAR - q.year, 0.0))
    tile = q.span / (q.span + c["half_span"]) * (q.head_dim / (q.head_dim + c["half_head"]))
    scores_rate = q.peak16 * c["attention_share"] * kernels * power * tile
    scores = q.scores_flop * q.scores_passes / scores_rate
    bandwidth = q.bandwidth * MEMORY_SHARE
    fusion = np.exp(-c["stream_fusion"] * (q.year - 2023.0))
    traffic = fusion * (c["streams"] * q.hidden_bytes + c["wide_streams"] * q.wide_bytes) * (q.passes / 3)
    traffic = traffic + c["expert_streams"] * q.routed_bytes * (q.passes / 3) + c["adapter_streams"] * q.adapter_bytes
    traffic = traffic + c["cast_streams"] * q.low_precision * (2 * q.hidden_bytes + q.wide_bytes) * (q.passes / 3)
    traffic = traffic + c["score_passes"] * q.score_bytes * (q.scores_passes / 3.5)
    stage_memory = (traffic + q.again_bytes + c["dequantise_bytes"] * q.dequantised * q.passes) / bandwidth
    head_memory = 6 * q.logit_bytes / bandwidth
    adapters = q.adapter_flop * 3 / (q.peak16 * c["gemm_share"] * sustained)
    compute_micro = (body + experts) * q.passes + scores + adapters
    host_micro = (
        (q.layers * c["host_layer_us"] + q.moe_layers * c["host_moe_us"]) * q.passes * US * np.where(q.tuned > 0, c["host_tuned"], 1.0)
    )
    # The last stage holds the output head; interleaving and uneven splits hide part of it.
    ends = np.where(q.stages > 1, c["head_share"], 1.0)
    busy = compute_micro + stage_memory
    # What waits for the host: launches, and weights kept in its memory, both beside the arithmetic.
    streamed = q.streamed_bytes / (c["offload_gb_per_s"] * GB)
    host = np.maximum(np.maximum(host_micro, streamed) - busy, 0.0)
    tp, cp, ep = q.tp_s * c["tp_exposed"], q.cp_s * c["cp_exposed"], q.ep_s * c["ep_exposed"]
    per_micro = busy + host + (tp + cp + ep) / q.micro_batches
    bubble = per_micro * (q.stages - 1) / q.interleaved
    cover = np.where(q.zero3 > 0, busy * q.micro_batches, busy * (2 / 3)) * c["dp_cover"]
    reduced = q.dp_s * (1 - q.gathered_share)
    dp = np.maximum(reduced - cover, reduced * c["dp_exposed_floor"]) + q.dp_s * q.gathered_share * c["dp_gather_exposed"]
    uneven = 1 + c["jitter"] * np.log2(q.servers)
    return Parts(
        compute=(compute_micro + head * ends) * q.micro_batches * uneven,
        memory=(stage_memory + head_memory * ends) * q.micro_batches,
        bubble=bubble,
        optimizer=q.optimizer_bytes / bandwidth + q.offload_bytes / (c["offload_gb_per_s"] * GB),
        host=host * q.micro_batches + (c["step_overhead_ms"] + c["wait_ms"] * np.log2(q.servers)) * MS,
        tp=tp,
        cp=cp,
        ep=ep,
        pp=q.pp_s * c["pp_exposed"],
        dp=dp,
    )


_PURPOSES = {
    "tp": "tensor parallel: activations of every layer",
    "cp": "context parallel: keys and values",
    "ep": "expert parallel: tokens to experts and back",
    "pp": "pipeline: activations between stages",
    "dp": "data parallel: gradients and sharded weights",
}


def step_time(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> StepTime:
    """All parts of a step for every layout, with each collective and what of it nothing hides."""
    counts = quantities(job, platform, layout)
    parts = assemble(counts, training_constants(platform.gpu))
    inside = platform.gpus_per_server
    reach = {
        "tp": layout.tp, "cp": layout.tp * layout.cp, "ep": layout.ep, "pp": layout.gpus, "dp": layout.tp * layout.cp * layout.dp,
    }  # fmt: skip
    return StepTime(
        compute_s=parts.compute,
        memory_s=parts.memory,
        bubble_s=parts.bubble,
        optimizer_s=parts.optimizer,
        host_s=parts.host,
        exchanges=tuple(
            Exchange(
                name=name,
                purpose=purpose,
                across=np.where(reach[name] > inside, 1.0, 0.0),
                bytes=getattr(counts, f"bytes_{name}"),
                time_s=getattr(counts, f"{name}_s"),
                exposed_s=getattr(parts, name),
            )
            for name, purpose in _PURPOSES.items()
            if name != "ep" or job.shape.is_moe
        ),
        model_flop=model_flop_per_token(job) * job.global_batch_sequences * job.seq_len,
    )
