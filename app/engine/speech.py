"""Speech recognition: live streams per GPU and hours of archive per hour, for encoder-decoder recognisers.

One 30-second window: the encoder reads 1,500 frames (FLOP bound), the decoder writes one token at a time
(bound by reading its weights and by launching its layers). Streaming repeats both on every update of a growing
buffer, so the batch factor must not be used for live work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.catalog.model_shape import ModelShape
from app.catalog.schema import Gpu
from app.engine.host import CPU_BUSY_LIMIT, CPU_SERVER, CpuFit
from app.engine.jobs import bandwidth_bytes_per_s, does_not_fit, half_precision_flops, not_needed, too_few_gpus, unknown_figure, usable_gb
from app.engine.platform import Platform
from app.engine.result import JobFigures, Parallel, Shortfall, Sized, Span
from app.ranges import Range
from app.units import GB, percent
from app.workload.demand import SpeechDemand

WINDOW_S = 30.0
FRAMES = 1500
"""Encoder positions of one window: Radford et al. 2022 (Whisper), section 2.2."""
ENCODER_SHARE = 0.42
"""Share of the parameters in the encoder: Whisper large-v3, 32 encoder layers of 12 h^2 and 32 decoder layers of 16 h^2."""
TOKENS_PER_SPEECH_S = 4.0
"""About 150 words a minute at 1.5 tokens a word; assumption."""

BATCH_ENCODER_FRACTION = 0.5
STREAM_ENCODER_FRACTION = 0.35
"""Share of dense 16-bit peak: assumption for wide and for single windows (large matrix products, short sequences)."""
BATCH_WINDOWS = 24
BATCH_LAYER_S = 0.9e-3
"""Time to launch one decoder layer in eager PyTorch. Set by one published point: Whisper large-v3, A100 80 GB, batch 24,
300 minutes in 98 s = 184 times real time."""
STREAM_LAYER_S = 0.05e-3
STREAM_UPDATE_S = 1.0
STREAM_TOKENS = 25.0
"""A live engine (compiled, no batching) re-reads its buffer each second and rewrites its last line. Set so that a T4
carries 18 streams of Whisper small: published estimate 16-20."""
STREAM_BUSY_LIMIT = 0.9
RUNTIME_GB = 2.0
"""CUDA context, libraries and workspace; assumption."""
SPREAD = (0.5, 2.0)
"""Engines differ by this much on the same card (eager PyTorch, CTranslate2, TensorRT); assumption from their published ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recogniser:
    """Parameters split into encoder and decoder; ``layers`` of each."""

    encoder_params: float
    decoder_params: float
    layers: int
    hidden: int


def recogniser_of(shape: ModelShape) -> Recogniser:
    """Encoder and decoder of a recogniser from its catalogue shape."""
    params = shape.params_b * 1e9
    return Recogniser(
        encoder_params=ENCODER_SHARE * params,
        decoder_params=(1 - ENCODER_SHARE) * params,
        layers=max(shape.layers, 1),
        hidden=shape.hidden,
    )


def encoder_flop(model: Recogniser) -> float:
    """FLOP of one window's encoder pass: 2 FLOP per parameter and frame, plus attention 4 x frames^2 x hidden per layer."""
    return 2 * model.encoder_params * FRAMES + 4 * FRAMES**2 * model.hidden * model.layers


def decoder_step_s(model: Recogniser, bandwidth: float, layer_s: float, bytes_per_param: float = 2.0) -> float:
    """Seconds of one decoding step: read the weights once, launch every layer."""
    return model.decoder_params * bytes_per_param / bandwidth + model.layers * layer_s


def batch_real_time_factor(model: Recogniser, flops: float, bandwidth: float) -> float:
    """Hours of audio transcribed per hour, offline, :data:`BATCH_WINDOWS` windows together."""
    encode = encoder_flop(model) / (flops * BATCH_ENCODER_FRACTION)
    decode = TOKENS_PER_SPEECH_S * WINDOW_S * decoder_step_s(model, bandwidth, BATCH_LAYER_S) / BATCH_WINDOWS
    return WINDOW_S / (encode + decode)


def streams_per_gpu(model: Recogniser, flops: float, bandwidth: float) -> float:
    """Live streams one GPU keeps up with at full load."""
    update = encoder_flop(model) / (flops * STREAM_ENCODER_FRACTION) + STREAM_TOKENS * decoder_step_s(model, bandwidth, STREAM_LAYER_S)
    return STREAM_UPDATE_S / update


def model_memory_gb(shape: ModelShape) -> float:
    """Weights (16-bit), caches of a batch of windows (cross-attention keys and values of 1,500 frames), runtime.

    The cache is 4 bytes x hidden x frames per layer and window.
    """
    cache = 4 * shape.hidden * FRAMES * shape.layers * BATCH_WINDOWS
    return (shape.params_b * 1e9 * 2 + cache) / GB + RUNTIME_GB


def size_speech(demand: SpeechDemand, shape: ModelShape, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """Copies of the recogniser, one GPU each; they never talk to each other."""
    if span != "one_gpu":
        return not_needed("each stream runs on one GPU; more GPUs are independent copies")
    gpu = platform.gpu
    flops, bandwidth, capacity = half_precision_flops(gpu), bandwidth_bytes_per_s(gpu), usable_gb(gpu)
    if flops is None or bandwidth is None or capacity is None:
        return unknown_figure(gpu, "16-bit rate, bandwidth or memory")
    memory = model_memory_gb(shape)
    if memory > capacity:
        return does_not_fit(memory, capacity, gpu)
    model = recogniser_of(shape)
    live = demand.streams is not None
    capacity_of_one = streams_per_gpu(model, flops, bandwidth) if live else batch_real_time_factor(model, flops, bandwidth)
    load = _load(demand)
    if load is None:
        return Shortfall(constraint="support", needed=None, available=None, unit="", message="neither streams nor hours of audio are given")
    copies = max(1, math.ceil(load.mid / (capacity_of_one * (STREAM_BUSY_LIMIT if live else 1.0))))
    if copies > max_gpus:
        return too_few_gpus(copies, max_gpus)
    return _sized(demand, shape, gpu, platform, copies, capacity_of_one, memory, capacity, load, model, flops)


def _load(demand: SpeechDemand) -> Range | None:
    """Streams, or the real-time factor the archive needs within its deadline (a day where none is stated)."""
    if demand.streams is not None:
        return demand.streams
    if demand.audio_hours is None:
        return None
    return Range.exact(demand.audio_hours / (demand.deadline_h or 24.0))


def _sized(
    demand: SpeechDemand,
    shape: ModelShape,
    gpu: Gpu,
    platform: Platform,
    copies: int,
    each: float,
    memory: float,
    capacity: float,
    load: Range,
    model: Recogniser,
    flops: float,
) -> Sized:
    live = demand.streams is not None
    total = each * copies
    figures = {"streams_supported" if live else "audio_hours_per_hour": Range.around(total, *SPREAD)}
    figures["busy_fraction"] = Range(
        low=min(1.0, load.low / (total * SPREAD[1])),
        mid=min(1.0, load.mid / total),
        high=max(min(1.0, load.mid / total), load.high / (total * SPREAD[0])),
    )
    if demand.audio_hours is not None and not live:
        figures["hours_to_finish"] = Range.around(demand.audio_hours / total, 1 / SPREAD[1], 1 / SPREAD[0])
    encode = encoder_flop(model) / (flops * (STREAM_ENCODER_FRACTION if live else BATCH_ENCODER_FRACTION))
    window = (STREAM_UPDATE_S if live else WINDOW_S) / each
    roofline = load.mid * encoder_flop(model) / (STREAM_UPDATE_S if live else WINDOW_S) / flops
    return Sized(
        platform=platform,
        span="one_gpu",
        parallel=Parallel(),
        replicas=copies,
        memory_gb={
            "weights": Range.exact(shape.params_b * 2),
            "activations": Range.around(memory - shape.params_b * 2 - RUNTIME_GB, 0.5, 1.5),
            "runtime": Range.around(RUNTIME_GB, 0.5, 1.5),
        },
        capacity_gb=capacity,
        job=JobFigures(figures=figures),
        time_parts_s={"compute": encode, "memory_bandwidth": max(window - encode, 0.0)},
        bottleneck="compute" if encode > window / 2 else "latency",
        precision={"weights": "fp16"},
        bounds_gpus_by_memory=1,
        bounds_gpus_by_roofline=max(1, math.ceil(roofline)),
        notes=("Live streams repeat the window on every update: the offline factor does not apply.",) if live else (),
    )


def cpu_speech(demand: SpeechDemand, shape: ModelShape) -> CpuFit | Shortfall:
    """Whether one CPU server transcribes the load at most half busy; same formulas at CPU rates, 32-bit weights."""
    model, host = recogniser_of(shape), CPU_SERVER
    encode = encoder_flop(model) / host.fp32_flops
    step = decoder_step_s(model, host.bandwidth_bytes_per_s / 2, STREAM_LAYER_S, bytes_per_param=4.0)
    if demand.streams is not None:
        busy = demand.streams.mid * (encode + STREAM_TOKENS * step) / STREAM_UPDATE_S
    else:
        load = _load(demand)
        if load is None:
            return Shortfall(
                constraint="support", needed=None, available=None, unit="", message="neither streams nor hours of audio are given"
            )
        busy = load.mid * (encode + TOKENS_PER_SPEECH_S * WINDOW_S * step) / WINDOW_S
    if busy > CPU_BUSY_LIMIT:
        return Shortfall(
            constraint="throughput",
            needed=round(busy, 2),
            available=CPU_BUSY_LIMIT,
            unit="busy CPU servers",
            message=f"the recogniser would keep {busy:.1f} CPU servers busy; more than half of one asks for a GPU",
        )
    return CpuFit(
        busy_fraction=busy,
        memory_gb=shape.params_b * 4 + RUNTIME_GB,
        figures={"busy_fraction": Range.around(busy, *SPREAD)},
        message=f"one CPU server transcribes this {percent(busy)} busy",
    )
