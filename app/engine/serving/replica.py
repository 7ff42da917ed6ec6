"""Every layout of one replica over requests in flight: what the sizing chooses from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape
from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.result import Shortfall, Span
from app.engine.serving.constants import release_year
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory import (
    cache_bytes_per_request,
    kv_pool_bytes,
    usable_bytes,
    weight_bytes_per_gpu,
)
from app.engine.serving.steady import Steady, steady_state
from app.units import GB
from app.workload.demand import PrecisionDemand, ServingDemand

IN_FLIGHT = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024], dtype=float)
"""Requests in flight per replica that are tried."""
RATE_HEADROOM = 0.85
"""A stated request rate is carried at most at this share of a replica's capacity: arrivals are not even."""
MAX_STAGES = 16
GROUPING_ENGINES = ("vllm", "sglang")
"""Engines whose launch arguments ask for data-parallel attention around experts that are split over all GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """All layouts of a span evaluated over :data:`IN_FLIGHT`: arrays layouts x in-flight."""

    job: ServingJob
    platform: Platform
    layout: ServingLayout
    steady: Steady
    most_by_memory: NDArray[np.float64]
    """Requests whose caches fit, per layout; 0 where the model or one longest request does not fit."""
    at_random: bool = False
    """Requests arrive as they please; else a number of them is always in flight."""


def resolved_precision(precision: PrecisionDemand, shape: ModelShape) -> tuple[str, str]:
    """(weights, cache) formats: ``auto`` weights are what the checkpoint ships in, ``auto`` cache is 16-bit."""
    weights = shape.native_precision if precision.weights == "auto" else precision.weights
    return weights, "bf16" if precision.kv_cache == "auto" else precision.kv_cache


def serving_job(demand: ServingDemand, shape: ModelShape, precision: PrecisionDemand) -> ServingJob:
    """The engine's job of an online demand."""
    weights, cache = resolved_precision(precision, shape)
    engine = "vllm" if demand.engine == "auto" else demand.engine
    return ServingJob(
        shape=shape,
        weights=weights,
        kv_cache=cache,
        input_tokens=demand.input_tokens,
        output_tokens=demand.output_tokens,
        shared_prefix_tokens=demand.shared_prefix_tokens,
        prefix_reuse=demand.prefix_reuse,
        speculative_tokens=demand.speculative_tokens,
        acceptance_rate=demand.acceptance_rate,
        max_context_tokens=max(demand.max_context_tokens, demand.input_tokens + demand.output_tokens),
        engine=engine,
        engine_version=demand.engine_version,
        year=release_year(engine, demand.engine_version, None),
    )


@lru_cache(maxsize=4096)
def _splits(heads: int, layers: int, span: Span, per_server: int, max_gpus: int, domain: int, pcie: bool) -> tuple[tuple[int, int], ...]:
    """(tp, pp) pairs of a span. TP divides the heads and stays in the fast domain; PP cuts whole layers."""
    if span == "one_gpu":
        return ((1, 1),) if max_gpus >= 1 else ()
    found = []
    tensor = [tp for tp in (1, 2, 3, 4, 6, 8, 16, 32, 64) if heads % tp == 0 and tp <= per_server and (pcie or tp <= domain)]
    for tp in tensor:
        for pp in range(1, min(MAX_STAGES, layers) + 1):
            gpus = tp * pp
            if gpus > max_gpus or gpus < 2:
                continue
            # Groups of one server tile it, so that no GPU is left over; engines accept uneven stages.
            inside = gpus <= per_server and per_server % gpus == 0
            whole_servers = tp in (per_server, min(domain, per_server)) and gpus % per_server == 0 and gpus > per_server
            if (span == "one_server" and inside) or (span == "many_servers" and whole_servers):
                found.append((tp, pp))
    return tuple(found)


def _layouts(job: ServingJob, pairs: tuple[tuple[int, int], ...]) -> ServingLayout:
    """Layouts of (tp, pp) pairs, and again with data-parallel attention where tensor parallelism would copy the cache: ranks
    beyond the KV heads (one for MLA's latent) then hold other sequences (DeepSeek-V3 report, section 3.4)."""
    heads = 1 if job.shape.attention == "mla" else max(job.shape.kv_heads, 1)
    rows = [(tp, pp, 1) for tp, pp in pairs]
    if job.shape.is_moe and job.engine in GROUPING_ENGINES:
        rows += [(tp, pp, tp // heads) for tp, pp in pairs if tp > heads and tp % heads == 0]
    tp, pp, groups = np.array(rows, dtype=float).T[:, :, np.newaxis]
    return ServingLayout(tp=tp, pp=pp, attention_dp=groups)


def evaluate(
    job: ServingJob, platform: Platform, span: Span, max_gpus: int, percentile: float, *, at_random: bool = False
) -> Replica | Shortfall:
    """Every layout of the span with its latency over requests in flight, or why there is none."""
    gpu, shape = platform.gpu, job.shape
    if gpu.memory_gb is None or gpu.memory_bandwidth_gb_per_s is None or peak_flops(gpu, "bf16") is None:
        return shortfall("support", None, None, "", f"the catalogue lacks memory, bandwidth or 16-bit rate of {gpu.name}")
    if shape.layers == 0:
        return shortfall("support", None, None, "", f"the layers of {shape.name} are not known")
    pcie = platform.scale_up.kind.startswith("pcie") or platform.scale_up.bridge
    heads = shape.heads or shape.hidden // 64
    pairs = _splits(heads, shape.layers, span, platform.gpus_per_server, max_gpus, platform.scale_up.domain_gpus, pcie)
    if not pairs:
        wanted = {"one_gpu": 1, "one_server": 2, "many_servers": platform.gpus_per_server + 1}[span]
        if max_gpus < wanted:
            return shortfall(
                "gpus", wanted, max_gpus, "GPUs", f"a job of this reach needs at least {wanted} GPUs and {max_gpus} may be used"
            )
        return shortfall("heads", heads, None, "attention heads", f"{heads} attention heads do not divide over the GPUs of this kind")
    layout = _layouts(job, pairs)
    pool = kv_pool_bytes(job, platform, layout)
    longest = cache_bytes_per_request(job, job.max_context_tokens, layout)
    mean = cache_bytes_per_request(job, job.running_context_tokens, layout)
    fits = pool >= longest
    if not fits.any():
        index = int(np.argmin(weight_bytes_per_gpu(job, layout)))
        need = float((usable_bytes(platform, job.engine, job.engine_version) - pool + longest)[index, 0]) / GB
        have = usable_bytes(platform, job.engine, job.engine_version) / GB
        count = int(layout.gpus[index, 0])
        where = "one GPU" if count == 1 else f"{count} GPUs"
        text = f"{where} ({gpu.name}) would need {need:,.0f} GB each for weights and one longest request; {have:,.0f} GB are usable"
        return shortfall("memory", need, have, "GB per GPU", text)
    most = np.floor(np.maximum(pool / mean, 1.0) * layout.attention_dp)[fits[:, 0], 0]
    layout = layout.chosen(fits[:, 0])
    flight, places = IN_FLIGHT[np.newaxis, :], most[:, np.newaxis]
    steady = steady_state(job, platform, layout, flight, percentile, at_random=at_random, places=places)
    return Replica(job=job, platform=platform, layout=layout, steady=steady, most_by_memory=most, at_random=at_random)


def shortfall(constraint: str, needed: float | None, available: float | None, unit: str, message: str) -> Shortfall:
    return Shortfall(constraint=constraint, needed=needed, available=available, unit=unit, message=message)
