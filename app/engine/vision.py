"""Data-parallel training of image models: compute per GPU, gradient all-reduce, and reading the samples."""

from __future__ import annotations

import math

import numpy as np

from app.engine.collectives import collective_time_s
from app.engine.host import CPU_BUSY_LIMIT, CPU_SERVER, CpuFit
from app.engine.jobs import does_not_fit, half_precision_flops, no_network, span_counts, unknown_figure, usable_gb
from app.engine.platform import Platform
from app.engine.result import Bottleneck, CommunicationTerm, JobFigures, Parallel, ScalingPoint, Shortfall, Sized, Span
from app.ranges import Range
from app.units import GB, SECONDS_PER_DAY
from app.workload.demand import VisionDemand

SMALL_FLOP, LARGE_FLOP = 2e10, 2e12
SMALL_FRACTION, LARGE_FRACTION = 0.20, 0.36
"""Share of dense 16-bit peak by FLOP per image. Small: ResNet-50 on A100, 2,500-2,900 images/s x 24.6 GFLOP = 62-71 of 312
TFLOP/s (NVIDIA DeepLearningExamples). Large: matrix products like those of language models, 0.3-0.45 in published runs."""
STEP_S = 0.25
"""Local batch is the largest power of two whose compute stays about this long, 1..256; assumption: what batch sizes in use give."""
MAX_LOCAL_BATCH = 256
OVERLAP = 0.5
"""Share of the backward pass behind which gradients travel: buckets start when the first layers are done (PyTorch DDP)."""
STATE_BYTES = 16.0
"""Per parameter: 16-bit weights and gradients, 32-bit copy and two moments: arXiv 1910.02054."""
GRADIENT_BYTES = 2.0
ACTIVATION_BYTES_PER_FLOP = 1 / 60.0
"""Stored activations per FLOP of one image, 16-bit: ResNet-50, 24.6 GFLOP and about 0.1-0.2 GB in mixed precision is 1/150; ViT with
stored attention 1/60; capped by recomputation. Assumption."""
ACTIVATION_CAP_GB = 20.0
"""Above this per GPU a run recomputes activations instead; assumption."""
RUNTIME_GB = 2.0
SPREAD = (0.6, 1.5)
HOST_READ_BYTES_PER_S = 4e9
"""Samples one server reads and decodes: DGX SuperPOD guidance of 4 GB/s a node for cached data, 40 for large images."""


def peak_fraction(flop_per_image: float) -> float:
    """Share of peak reached, log-linear between small and large images."""
    return float(np.interp(math.log10(flop_per_image), [math.log10(SMALL_FLOP), math.log10(LARGE_FLOP)], [SMALL_FRACTION, LARGE_FRACTION]))


def local_batch(flop_per_image: float, flops: float) -> int:
    """Images per GPU and step."""
    images = STEP_S * flops * peak_fraction(flop_per_image) / flop_per_image
    return int(min(MAX_LOCAL_BATCH, 2 ** max(0, math.floor(math.log2(max(images, 1.0))))))


def step_parts_s(demand: VisionDemand, platform: Platform, gpus: int, flops: float) -> dict[str, float]:
    """Seconds of one step by part: compute, exposed all-reduce, and waiting for samples."""
    batch = local_batch(demand.flop_per_image, flops)
    compute = batch * demand.flop_per_image / (flops * peak_fraction(demand.flop_per_image))
    whole = float(collective_time_s("all_reduce", demand.params * GRADIENT_BYTES, gpus, platform.gpus_per_server, platform))
    exposed = max(0.0, whole - OVERLAP * compute * 2 / 3)
    local = min(gpus, platform.gpus_per_server)
    read = batch * local * demand.sample_bytes / HOST_READ_BYTES_PER_S
    return {"compute": compute, "communication": whole, "exposed": exposed, "host": max(0.0, read - compute - exposed)}


def size_vision(demand: VisionDemand, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """The fewest GPUs of one job that finish in time; without a deadline, the smallest the span allows."""
    gpu = platform.gpu
    missing = no_network(platform, span)
    if missing is not None:
        return missing
    flops, capacity = half_precision_flops(gpu), usable_gb(gpu)
    if flops is None or capacity is None:
        return unknown_figure(gpu, "16-bit rate or memory")
    memory = memory_gb(demand, flops)
    need = sum(part.mid for part in memory.values())
    if need > capacity:
        return does_not_fit(need, capacity, gpu)
    counts = span_counts(span, platform, max_gpus)
    if not counts:
        return Shortfall(constraint="gpus", needed=2, available=max_gpus, unit="GPUs", message=f"{max_gpus} GPUs may be used")
    best: Sized | None = None
    for count in counts:
        sized = _sized(demand, platform, span, count, flops, capacity, memory)
        days = _days(sized)
        if demand.deadline_days is None or days <= demand.deadline_days:
            return sized
        if best is None or days < _days(best):
            best = sized
    assert best is not None
    return Shortfall(
        constraint="deadline", needed=demand.deadline_days, available=round(_days(best), 2), unit="days",
        message=f"{best.gpus} {gpu.name} take {_days(best):.1f} days and {demand.deadline_days:g} are allowed", nearest=best,
    )  # fmt: skip


def _days(sized: Sized) -> float:
    assert sized.job is not None
    return sized.job.figures["run_days"].mid


def memory_gb(demand: VisionDemand, flops: float) -> dict[str, Range]:
    """Per GPU: states (replicated), activations of the local batch, runtime."""
    stored = local_batch(demand.flop_per_image, flops) * demand.flop_per_image * ACTIVATION_BYTES_PER_FLOP / GB
    return {
        "states": Range.exact(demand.params * STATE_BYTES / GB),
        "activations": Range.around(min(stored, ACTIVATION_CAP_GB), 0.4, 1.5),
        "runtime": Range.around(RUNTIME_GB, 0.5, 1.5),
    }


def _sized(
    demand: VisionDemand, platform: Platform, span: Span, gpus: int, flops: float, capacity: float, memory: dict[str, Range]
) -> Sized:
    parts = step_parts_s(demand, platform, gpus, flops)
    step = parts["compute"] + parts["exposed"] + parts["host"]
    batch = local_batch(demand.flop_per_image, flops)
    rate = gpus * batch / step
    whole = demand.images.mid * demand.epochs
    days = whole / rate / SECONDS_PER_DAY
    single = batch / sum(step_parts_s(demand, platform, 1, flops)[name] for name in ("compute", "exposed", "host"))
    level = "scale_out" if span == "many_servers" else "scale_up"
    largest = max(("compute", "exposed", "host"), key=lambda name: parts[name])
    bottleneck: Bottleneck = "compute" if largest == "compute" else "host" if largest == "host" else level  # type: ignore[assignment]
    terms = (
        CommunicationTerm(
            collective="all_reduce", purpose="gradients", level="scale_out" if span == "many_servers" else "scale_up",
            bytes=demand.params * GRADIENT_BYTES, time_s=parts["communication"], exposed_s=parts["exposed"],
        ),
    )  # fmt: skip
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(dp=gpus),
        replicas=1,
        memory_gb=memory,
        capacity_gb=capacity,
        job=JobFigures(
            figures={
                "run_days": Range.around(days, 1 / SPREAD[1], 1 / SPREAD[0]),
                "images_per_s": Range.around(rate, *SPREAD),
                "step_s": Range.around(step, 1 / SPREAD[1], 1 / SPREAD[0]),
                "peak_fraction": Range.around(rate * demand.flop_per_image / (gpus * flops), *SPREAD),
            }
        ),
        communication=terms if gpus > 1 else (),
        communication_fraction=parts["exposed"] / step,
        time_parts_s={"compute": parts["compute"], level: parts["exposed"], "host": parts["host"]},
        bottleneck=bottleneck,
        scaling=(ScalingPoint(gpus=1, throughput=single, efficiency=1.0),)
        + ((ScalingPoint(gpus=gpus, throughput=rate, efficiency=rate / (gpus * single)),) if gpus > 1 else ()),
        micro_batch=batch,
        global_batch=batch * gpus,
        precision={"training": "bf16"},
        bounds_gpus_by_memory=1,
        bounds_gpus_by_roofline=1
        if demand.deadline_days is None
        else max(1, math.ceil(whole * demand.flop_per_image / flops / (demand.deadline_days * SECONDS_PER_DAY))),
    )


def cpu_vision(demand: VisionDemand) -> CpuFit | Shortfall:
    """Whether one CPU server trains this in half the deadline (one day where none is stated)."""
    seconds = demand.images.mid * demand.epochs * demand.flop_per_image / CPU_SERVER.fp32_flops
    allowed = (demand.deadline_days or 1.0) * SECONDS_PER_DAY
    busy = seconds / allowed
    if busy > CPU_BUSY_LIMIT:
        return Shortfall(
            constraint="deadline", needed=allowed / SECONDS_PER_DAY, available=round(seconds / SECONDS_PER_DAY, 2), unit="days",
            message=f"a CPU server takes {seconds / SECONDS_PER_DAY:.1f} days",
        )  # fmt: skip
    return CpuFit(
        busy_fraction=busy,
        memory_gb=demand.params * STATE_BYTES / GB + 8,
        figures={"days": Range.around(seconds / SECONDS_PER_DAY, 0.5, 2.0)},
        message=f"a CPU server trains this in {seconds / 3600:.1f} hours",
    )
