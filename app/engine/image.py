"""Image generation by diffusion: FLOP per step times steps, one image per GPU; several GPUs only for one image's latency."""

from __future__ import annotations

import math

from app.catalog.model_shape import ModelShape
from app.engine.host import CPU_BUSY_LIMIT, CPU_SERVER, CpuFit
from app.engine.jobs import does_not_fit, half_precision_flops, not_needed, span_counts, too_few_gpus, unknown_figure, usable_gb
from app.engine.platform import Platform
from app.engine.result import JobFigures, Parallel, ScalingPoint, Shortfall, Sized, Span
from app.ranges import Range
from app.units import GB, percent
from app.workload.demand import ImageDemand

PIXELS_PER_TOKEN = 256.0
"""A latent pixel stands for 8 x 8 pixels and a patch for 2 x 2 latents: Peebles and Xie 2022 (DiT), Esser et al. 2024."""
TRANSFORMER_FLOP = 1.22
"""FLOP per parameter, token and step: FLUX.1-dev, 59.5 TFLOP at 11.9 billion parameters and 4,096 tokens (HF diffusers benchmarks)."""
UNET_FLOP = 0.57
UNET_PARAMS_B = 4.0
"""The same for U-Nets (SDXL, 5.98 TFLOP at 2.57 billion), which work on shrunken latents; models below this size are taken as U-Nets."""
GUIDED_PASSES = {"unet": 2, "transformer": 1}
"""Classifier-free guidance runs a U-Net twice a step; large transformers ship guidance-distilled."""
PEAK_FRACTION = (0.30, 0.45, 0.60)
"""Share of dense 16-bit peak: 0.58 for FLUX.1-dev on L20 (28 steps in 23.8 s), 110-157 TFLOP/s in the HF benchmark; else assumption."""
OTHER_STEPS = 1.10
"""Text encoder and image decoder add about a tenth; assumption."""
SPLIT_FRACTION = 0.76
"""Part of a step that divides over GPUs of one server: 23.8 / 14.7 / 10.7 s on 1 / 2 / 4 GPUs (cache-dit issue 326), Amdahl."""
TEXT_ENCODER_GB = {"unet": 1.6, "transformer": 9.8}
"""CLIP pair of SDXL (0.8 billion, 16-bit) and T5-XXL with CLIP of FLUX.1 (4.9 billion, 16-bit)."""
ACTIVATION_BYTES_PER_PIXEL = 3000.0
"""Peak of the image decoder at one image; assumption (about 3 GB at 1024 x 1024)."""


def network_kind(shape: ModelShape) -> str:
    """``unet`` or ``transformer``, from the size."""
    return "unet" if shape.params_b < UNET_PARAMS_B else "transformer"


def image_flop(shape: ModelShape, pixels: float, steps: int) -> float:
    """FLOP of one image: coefficient x parameters x (pixels / 256) x guided passes x steps."""
    kind = network_kind(shape)
    coefficient = UNET_FLOP if kind == "unet" else TRANSFORMER_FLOP
    return coefficient * shape.params_b * 1e9 * pixels / PIXELS_PER_TOKEN * GUIDED_PASSES[kind] * steps


def split_speedup(gpus: int) -> float:
    """How much faster one image is on several GPUs of a server (Amdahl with :data:`SPLIT_FRACTION`)."""
    return 1 / (1 - SPLIT_FRACTION + SPLIT_FRACTION / gpus)


def size_image(demand: ImageDemand, shape: ModelShape, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """Copies of the pipeline; one image is split only when its latency limit asks for it."""
    gpu = platform.gpu
    flops, capacity = half_precision_flops(gpu), usable_gb(gpu)
    if flops is None or capacity is None:
        return unknown_figure(gpu, "16-bit rate or memory")
    memory = _memory_gb(shape, demand.pixels)
    need = sum(memory.values())
    if need > capacity:
        return does_not_fit(need, capacity, gpu)
    one = image_flop(shape, demand.pixels, demand.steps) * OTHER_STEPS / (flops * PEAK_FRACTION[1])
    limit = demand.latency_s
    if span != "one_gpu" and (limit is None or one <= limit):
        return not_needed("one GPU makes an image in time; more GPUs are independent copies")
    if span == "many_servers":
        return not_needed("an image is never split across servers")
    split = next((count for count in span_counts(span, platform, max_gpus) if limit is None or one / split_speedup(count) <= limit), None)
    if split is None:
        best = one if span == "one_gpu" else one / split_speedup(platform.gpus_per_server)
        return Shortfall(
            constraint="deadline", needed=limit, available=round(best, 2), unit="s",
            message=f"an image takes {best:.1f} s here and {limit:g} s are allowed" if limit is not None else "no GPU may be used",
        )  # fmt: skip
    seconds = one / split_speedup(split)
    rate = _rate(demand)
    copies = max(1, math.ceil(rate.mid * seconds))
    if copies * split > max_gpus:
        return too_few_gpus(copies * split, max_gpus)
    low, mid, high = PEAK_FRACTION
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(cp=split),
        replicas=copies,
        memory_gb={name: Range.around(value, 0.9, 1.3) for name, value in memory.items()},
        capacity_gb=capacity,
        job=JobFigures(
            figures={
                "image_s": Range.around(seconds, mid / high, mid / low),
                "images_per_s": Range.around(copies / seconds, low / mid, high / mid),
            }
        ),
        time_parts_s={"compute": seconds},
        bottleneck="compute",
        scaling=tuple(ScalingPoint(gpus=n, throughput=split_speedup(n) / one, efficiency=split_speedup(n) / n) for n in (1, 2, 4, 8)),
        precision={"weights": "bf16"},
        bounds_gpus_by_memory=1,
        bounds_gpus_by_roofline=max(1, math.ceil(rate.mid * image_flop(shape, demand.pixels, demand.steps) / flops)),
    )


def _memory_gb(shape: ModelShape, pixels: float) -> dict[str, float]:
    return {
        "weights": shape.params_b * 2,
        "text_encoder": TEXT_ENCODER_GB[network_kind(shape)],
        "activations": pixels * ACTIVATION_BYTES_PER_PIXEL / GB,
    }


def _rate(demand: ImageDemand) -> Range:
    """Images per second at the peak, or what the deadline needs (a day where none is stated)."""
    if demand.images_per_s is not None:
        return demand.images_per_s
    return Range.exact((demand.images or 1.0) / ((demand.deadline_h or 24.0) * 3600))


def cpu_image(demand: ImageDemand, shape: ModelShape) -> CpuFit | Shortfall:
    """Whether one CPU server makes the images at most half busy and within the latency limit."""
    seconds = image_flop(shape, demand.pixels, demand.steps) * OTHER_STEPS / CPU_SERVER.fp32_flops
    busy = _rate(demand).mid * seconds
    if busy > CPU_BUSY_LIMIT or seconds > (demand.latency_s or 120.0):
        return Shortfall(
            constraint="throughput", needed=round(busy, 2), available=CPU_BUSY_LIMIT, unit="busy CPU servers",
            message=f"an image takes {seconds:.0f} s on a CPU server",
        )  # fmt: skip
    return CpuFit(
        busy_fraction=busy,
        memory_gb=sum(_memory_gb(shape, demand.pixels).values()) * 2,
        figures={"image_s": Range.around(seconds, 0.5, 2.0)},
        message=f"an image takes {seconds:.0f} s on a CPU server, {percent(busy)} busy",
    )
