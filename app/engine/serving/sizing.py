"""The smallest installation that carries a load within its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape
from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.result import Bottleneck, CommunicationTerm, Parallel, ServingFigures, Shortfall, Sized, Span
from app.engine.serving.constants import serving_constants
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory import (
    activation_bytes,
    cache_bytes_per_prefix,
    cache_bytes_per_request,
    graph_bytes,
    kv_bytes_per_token_per_gpu,
    kv_pool_bytes,
    runtime_bytes,
    usable_bytes,
    weight_bytes_per_gpu,
    weight_bytes_total,
)
from app.engine.serving.steady import Steady, steady_state
from app.engine.serving.step import prefill
from app.ranges import Range
from app.units import GB, MS
from app.workload.architecture import parameter_counts
from app.workload.demand import BatchDemand, PrecisionDemand, ServingDemand

IN_FLIGHT = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024], dtype=float)
"""Requests in flight per replica that are tried."""
TIME_SPREAD = (0.80, 1.30)
RATE_SPREAD = (0.75, 1.25)
MEMORY_SPREAD = (0.95, 1.08)
RATE_HEADROOM = 0.85
"""A stated request rate is carried at most at this share of a replica's capacity: arrivals are not even."""
MAX_STAGES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """All layouts of a span evaluated over :data:`IN_FLIGHT`: arrays layouts x in-flight."""

    job: ServingJob
    platform: Platform
    layout: ServingLayout
    steady: Steady
    most_by_memory: NDArray[np.float64]
    """Requests whose caches fit, per layout; 0 where the model or one longest request does not fit."""


def resolved_precision(precision: PrecisionDemand, shape: ModelShape) -> tuple[str, str]:
    """(weights, cache) formats: ``auto`` weights are what the checkpoint ships in, ``auto`` cache is 16-bit."""
    weights = shape.native_precision if precision.weights == "auto" else precision.weights
    return weights, "bf16" if precision.kv_cache == "auto" else precision.kv_cache


def serving_job(demand: ServingDemand, shape: ModelShape, precision: PrecisionDemand) -> ServingJob:
    """The engine's job of an online demand."""
    weights, cache = resolved_precision(precision, shape)
    return ServingJob(
        shape=shape,
        weights=weights,
        kv_cache=cache,
        input_tokens=demand.input_tokens,
        output_tokens=demand.output_tokens,
        shared_prefix_tokens=demand.shared_prefix_tokens,
        prefix_reuse=demand.prefix_reuse,
        max_context_tokens=max(demand.max_context_tokens, demand.input_tokens + demand.output_tokens),
        engine="vllm" if demand.engine == "auto" else demand.engine,
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


def evaluate(job: ServingJob, platform: Platform, span: Span, max_gpus: int, percentile: float) -> Replica | Shortfall:
    """Every layout of the span with its latency over requests in flight, or why there is none."""
    gpu, shape = platform.gpu, job.shape
    if gpu.memory_gb is None or gpu.memory_bandwidth_gb_per_s is None or peak_flops(gpu, "bf16") is None:
        return _shortfall("support", None, None, "", f"the catalogue lacks memory, bandwidth or 16-bit rate of {gpu.name}")
    if shape.layers == 0:
        return _shortfall("support", None, None, "", f"the layers of {shape.name} are not known")
    pcie = platform.scale_up.kind.startswith("pcie") or platform.scale_up.bridge
    heads = shape.heads or shape.hidden // 64
    pairs = _splits(heads, shape.layers, span, platform.gpus_per_server, max_gpus, platform.scale_up.domain_gpus, pcie)
    if not pairs:
        wanted = {"one_gpu": 1, "one_server": 2, "many_servers": platform.gpus_per_server + 1}[span]
        if max_gpus < wanted:
            return _shortfall(
                "gpus", wanted, max_gpus, "GPUs", f"a job of this reach needs at least {wanted} GPUs and {max_gpus} may be used"
            )
        return _shortfall("heads", heads, None, "attention heads", f"{heads} attention heads do not divide over the GPUs of this kind")
    layout = ServingLayout(tp=np.array([[float(tp)] for tp, _ in pairs]), pp=np.array([[float(pp)] for _, pp in pairs]))
    pool = kv_pool_bytes(job, platform, layout)
    longest = cache_bytes_per_request(job, job.max_context_tokens, layout)
    mean = cache_bytes_per_request(job, job.input_tokens + job.output_tokens / 2, layout)
    fits = pool >= longest
    if not fits.any():
        index = int(np.argmin(weight_bytes_per_gpu(job, layout)))
        need = float((usable_bytes(platform, job.engine, job.engine_version) - pool + longest)[index, 0]) / GB
        have = usable_bytes(platform, job.engine, job.engine_version) / GB
        count = int(layout.gpus[index, 0])
        where = "one GPU" if count == 1 else f"{count} GPUs"
        text = f"{where} ({gpu.name}) would need {need:,.0f} GB each for weights and one longest request; {have:,.0f} GB are usable"
        return _shortfall("memory", need, have, "GB per GPU", text)
    layout = ServingLayout(tp=layout.tp[fits[:, 0]], pp=layout.pp[fits[:, 0]])
    most = np.floor(np.maximum(pool / mean, 1.0))[fits[:, 0], 0]
    steady = steady_state(job, platform, layout, IN_FLIGHT[np.newaxis, :], percentile)
    return Replica(job=job, platform=platform, layout=layout, steady=steady, most_by_memory=most)


def size_serving(
    demand: ServingDemand,
    shape: ModelShape,
    platform: Platform,
    span: Span,
    precision: PrecisionDemand,
    max_gpus: int,
    objective: str = "cost",
) -> Sized | Shortfall:
    """Fewest GPUs (or lowest latency) of a span that carry the load at the percentile."""
    job = serving_job(demand, shape, precision)
    if demand.output_tokens <= 0:
        return _size_embedding(demand, job, platform, span, max_gpus)
    found = evaluate(job, platform, span, max_gpus, demand.percentile)
    if isinstance(found, Shortfall):
        return found
    steady = found.steady
    in_memory = IN_FLIGHT[np.newaxis, :] <= found.most_by_memory[:, np.newaxis]
    first_in_time = steady.ttft_s <= demand.ttft_ms * MS
    next_in_time = steady.tpot_s <= demand.tpot_ms * MS
    allowed = first_in_time & next_in_time & in_memory
    plan = _plan(demand, found, allowed)
    relaxed: tuple[str, ...] = ()
    if not (plan.total <= max_gpus).any() and not (demand.ttft_stated and demand.tpot_stated):
        # A limit the customer did not state is our wish, not theirs: it gives way before a design is refused.
        allowed = (first_in_time | (not demand.ttft_stated)) & (next_in_time | (not demand.tpot_stated)) & in_memory
        plan = _plan(demand, found, allowed)
        relaxed = (RELAXED,)
    if not allowed.any():
        return _too_slow(demand, found)
    capacity, best_rate, replicas, total = plan.capacity, plan.best_rate, plan.replicas, plan.total
    gpus = found.layout.gpus[:, 0]
    affordable = total <= max_gpus
    if not affordable.any():
        index = int(np.argmin(total))
        nearest = _sized(demand, found, index, int(max(max_gpus // int(gpus[index]), 1)), span, capacity, best_rate)
        need = float(total[index])
        text = f"the load needs {need:,.0f} {platform.gpu.name}; at most {max_gpus:,} may be used"
        return replace(_shortfall("gpus", need, float(max_gpus), "GPUs", text), nearest=nearest)
    if objective in ("latency", "time"):
        at_load = _operating_index(demand, found, replicas, allowed)
        latency = steady.tpot_s[np.arange(len(gpus)), at_load] + steady.ttft_s[np.arange(len(gpus)), at_load] / 100
        index = int(np.argmin(np.where(affordable, latency, np.inf)))
    else:
        # Fewest GPUs; among equals the smaller replica (more copies, less exchange), then TP over PP for latency.
        order = sorted(np.flatnonzero(affordable), key=lambda i: (total[i], gpus[i], -found.layout.tp[i, 0]))
        index = int(order[0])
    return replace(
        _sized(demand, found, index, int(replicas[index]), span, capacity, best_rate), notes=relaxed, keeps_usual_limits=not relaxed
    )


RELAXED = "The usual limits on latency, which were not stated, cannot be kept on this hardware; the figures say what it gives."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Per layout: requests a replica holds, its best rate, replicas and GPUs for the load (infinite where none serves)."""

    capacity: NDArray[np.float64]
    best_rate: NDArray[np.float64]
    replicas: NDArray[np.float64]
    total: NDArray[np.float64]


def _plan(demand: ServingDemand, found: Replica, allowed: NDArray[np.bool_]) -> _Plan:
    """How many replicas of each layout carry the load within the allowed numbers in flight."""
    capacity = np.max(np.where(allowed, IN_FLIGHT[np.newaxis, :], 0.0), axis=1)
    best_rate = np.max(np.where(allowed, found.steady.requests_per_s, 0.0), axis=1)
    if demand.concurrent is not None:
        replicas = np.ceil(demand.concurrent.mid / np.maximum(capacity, 1e-9))
    else:
        assert demand.requests_per_s is not None
        replicas = np.ceil(demand.requests_per_s.mid / np.maximum(best_rate * RATE_HEADROOM, 1e-12))
    replicas = np.where(capacity > 0, np.maximum(replicas, 1), np.inf)
    return _Plan(capacity=capacity, best_rate=best_rate, replicas=replicas, total=replicas * found.layout.gpus[:, 0])


def _shortfall(constraint: str, needed: float | None, available: float | None, unit: str, message: str) -> Shortfall:
    return Shortfall(constraint=constraint, needed=needed, available=available, unit=unit, message=message)


def _too_slow(demand: ServingDemand, found: Replica) -> Shortfall:
    """Which limit no layout keeps even for one request."""
    first = found.steady.tpot_s[:, 0], found.steady.ttft_s[:, 0]
    tpot, ttft = float(first[0].min()) / MS, float(first[1].min()) / MS
    name, at = found.platform.gpu.name, f"at the {demand.percentile:g}th percentile"
    if tpot > demand.tpot_ms and demand.tpot_stated:
        text = f"{name} alone gives a token every {tpot:,.0f} ms {at}; the limit is {demand.tpot_ms:,.0f} ms"
        return _shortfall("tpot", tpot, demand.tpot_ms, "ms", text)
    text = f"{name} reads the prompt in {ttft:,.0f} ms {at}; the limit is {demand.ttft_ms:,.0f} ms"
    return _shortfall("ttft", ttft, demand.ttft_ms, "ms", text)


def _operating_index(demand: ServingDemand, found: Replica, replicas: NDArray[np.float64], allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Column of the smallest tried number in flight that carries each replica's share of the load."""
    if demand.concurrent is not None:
        share = demand.concurrent.mid / np.maximum(replicas, 1)
        reached = IN_FLIGHT[np.newaxis, :] >= share[:, np.newaxis] - 1e-9
    else:
        assert demand.requests_per_s is not None
        share = demand.requests_per_s.mid / np.maximum(replicas, 1)
        reached = found.steady.requests_per_s >= share[:, np.newaxis]
    columns: NDArray[np.intp] = np.where((reached & allowed).any(axis=1), np.argmax(reached & allowed, axis=1), np.argmax(allowed, axis=1))
    return columns


def _sized(
    demand: ServingDemand,
    found: Replica,
    index: int,
    replicas: int,
    span: Span,
    capacity: NDArray[np.float64],
    best_rate: NDArray[np.float64],
) -> Sized:
    """The whole answer for one layout: re-evaluated at the exact share of one replica."""
    job, platform = found.job, found.platform
    layout = ServingLayout(tp=found.layout.tp[index : index + 1, :], pp=found.layout.pp[index : index + 1, :])
    if demand.concurrent is not None:
        share = max(demand.concurrent.mid / replicas, 1.0)
    else:
        assert demand.requests_per_s is not None
        share = _in_flight_at(demand.requests_per_s.mid / replicas, found, index)
    exact = steady_state(job, platform, layout, np.array([[share]]), demand.percentile)
    rate = float(exact.requests_per_s[0, 0]) * replicas
    if demand.requests_per_s is not None:
        rate = min(rate, demand.requests_per_s.mid)
    tpot, ttft = float(exact.tpot_s[0, 0]) / MS, float(exact.ttft_s[0, 0]) / MS
    parts, terms = _time_parts(exact, job, platform, layout, share)
    step_s = float(exact.step.total_s[0, 0])
    exchange = parts["scale_up"] + parts["scale_out"]
    cap = int(capacity[index]) * replicas
    use = demand.concurrent.mid / cap if demand.concurrent is not None and cap else rate / max(float(best_rate[index]) * replicas, 1e-12)
    version = serving_constants()["engine"][job.engine]["version"]
    by_memory, by_roofline = bounds(job, platform, demand, rate)
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(tp=int(layout.tp[0, 0]), pp=int(layout.pp[0, 0]), ep=int(layout.tp[0, 0]) if job.shape.is_moe else 1),
        replicas=replicas,
        memory_gb=_memory(job, layout, share, platform),
        capacity_gb=usable_bytes(platform, job.engine, job.engine_version) / GB,
        serving=ServingFigures(
            percentile=demand.percentile,
            ttft_ms=Range.around(ttft, *TIME_SPREAD),
            tpot_ms=Range.around(tpot, *TIME_SPREAD),
            output_tokens_per_s=Range.around(rate * job.output_tokens, *RATE_SPREAD),
            input_tokens_per_s=Range.around(rate * job.input_tokens, *RATE_SPREAD),
            requests_per_s=Range.around(rate, *RATE_SPREAD),
            max_concurrent=max(cap, 1),
            concurrent_per_replica=share,
            kv_cache_tokens=_pool_tokens(job, platform, layout),
            utilisation=min(use, 1.0),
        ),
        communication=terms,
        communication_fraction=exchange / step_s if step_s > 0 else 0.0,
        time_parts_s=parts,
        bottleneck=_bottleneck(parts),
        precision={"weights": job.weights, "kv_cache": job.kv_cache, "arithmetic": job.arithmetic(platform.gpu)},
        engine=job.engine,
        engine_version=str(version),
        bounds_gpus_by_memory=by_memory,
        bounds_gpus_by_roofline=by_roofline,
    )


def _in_flight_at(rate: float, found: Replica, index: int) -> float:
    """Requests in flight of one replica at an arrival rate, by interpolation of the closed-loop curve (Little's law)."""
    rates = found.steady.requests_per_s[index]
    peak = int(np.argmax(rates))
    if rate <= rates[0]:
        return max(float(rate / rates[0]), 0.05) * 1.0 if rate > 0 else 1.0
    return float(np.interp(rate, rates[: peak + 1], IN_FLIGHT[: peak + 1]))


def _memory(job: ServingJob, layout: ServingLayout, share: float, platform: Platform) -> dict[str, Range]:
    """Per GPU: weights, the caches in use at the asked load, peak activations and the runtime."""
    cache = cache_bytes_per_request(job, job.input_tokens + job.output_tokens / 2, layout) * max(share, 1.0) + cache_bytes_per_prefix(
        job, layout
    )
    parts = {
        "weights": weight_bytes_per_gpu(job, layout),
        "kv_cache": cache,
        "activations": activation_bytes(job, layout, platform),
        "cuda_graphs": np.array([[graph_bytes(job)]]),
        "runtime": runtime_bytes(job, layout),
    }
    return {name: Range.around(float(np.ravel(value)[0]) / GB, *MEMORY_SPREAD) for name, value in parts.items()}


def _pool_tokens(job: ServingJob, platform: Platform, layout: ServingLayout) -> int:
    """Tokens the pool of one replica holds; 0 where the model keeps no growing cache."""
    per_token = float(np.ravel(kv_bytes_per_token_per_gpu(job, layout))[0])
    pool = float(np.ravel(kv_pool_bytes(job, platform, layout))[0])
    return int(max(pool, 0.0) / per_token) if per_token > 0 else 0


def _time_parts(
    exact: Steady, job: ServingJob, platform: Platform, layout: ServingLayout, share: float
) -> tuple[dict[str, float], tuple[CommunicationTerm, ...]]:
    """Where a decode step goes, and its collectives."""
    step = exact.step
    weights, arithmetic = float(step.weights_s[0, 0]), float(step.arithmetic_s[0, 0])
    gpus, per_server = int(layout.gpus[0, 0]), platform.gpus_per_server
    exchange, hop = float(step.exchange_s[0, 0]), float(step.hop_s[0, 0])
    across = gpus > per_server
    steps = max(job.output_tokens, 1.0)
    parts = {
        "memory_bandwidth": max(weights, arithmetic) * (weights >= arithmetic) + float(step.attention_s[0, 0]),
        "compute": arithmetic * (arithmetic > weights) + float(exact.prefill_s[0, 0]) / float(layout.pp[0, 0]) * share / steps,
        "scale_up": exchange + (0.0 if across else hop),
        "scale_out": hop if across else 0.0,
        "host": float(step.overhead_s[0, 0]),
    }
    terms = []
    if exchange > 0:
        size = share * job.shape.hidden * 2 * 2 * job.shape.layers
        terms.append(
            CommunicationTerm(
                collective="all_reduce",
                purpose="tensor parallel: twice a layer, every token",
                level="scale_up",
                bytes=size,
                time_s=exchange,
                exposed_s=exchange,
            )
        )
    if hop > 0:
        size = share * job.shape.hidden * 2 * (float(layout.pp[0, 0]) - 1)
        level: str = "scale_out" if across else "scale_up"
        terms.append(
            CommunicationTerm(
                collective="send_recv",
                purpose="pipeline: activations between stages",
                level="scale_out" if level == "scale_out" else "scale_up",
                bytes=size,
                time_s=hop,
                exposed_s=hop,
            )
        )
    return parts, tuple(terms)


def _bottleneck(parts: dict[str, float]) -> Bottleneck:
    largest = max(parts, key=lambda name: parts[name])
    names: dict[str, Bottleneck] = {
        "memory_bandwidth": "memory_bandwidth",
        "compute": "compute",
        "scale_up": "scale_up",
        "scale_out": "scale_out",
        "host": "host",
    }
    return names[largest]


def bounds(job: ServingJob, platform: Platform, demand: ServingDemand, rate: float) -> tuple[int, int]:
    """(GPUs by memory alone: weights, one longest request and the caches asked for; GPUs at 100% of the roofline)."""
    single = ServingLayout(tp=np.array([[1.0]]), pp=np.array([[1.0]]))
    per_request = float(np.ravel(cache_bytes_per_request(job, job.input_tokens + job.output_tokens / 2, single))[0])
    longest = float(np.ravel(cache_bytes_per_request(job, job.max_context_tokens, single))[0])
    in_flight = demand.concurrent.mid if demand.concurrent is not None else 1.0
    by_memory = (weight_bytes_total(job) + max(longest, per_request * in_flight)) / usable_bytes(platform, job.engine, job.engine_version)
    peak = peak_flops(platform.gpu, job.arithmetic(platform.gpu)) or 1.0
    active = parameter_counts(job.shape).active
    flop = rate * (job.computed_input_tokens + job.output_tokens) * 2 * active
    bandwidth = (platform.gpu.memory_bandwidth_gb_per_s or 1.0) * GB
    tokens = rate * job.output_tokens
    reads = tokens * (per_request + active * job.bits / 8 / max(in_flight, 1.0))
    return max(math.ceil(by_memory), 1), max(math.ceil(flop / peak), math.ceil(reads / bandwidth), 1)


def size_batch(
    demand: BatchDemand, shape: ModelShape, platform: Platform, span: Span, precision: PrecisionDemand, max_gpus: int
) -> Sized | Shortfall:
    """Fewest GPUs that finish the items in time at the best throughput per GPU; no latency limit."""
    weights, cache = resolved_precision(precision, shape)
    rate = demand.items / (demand.deadline_h * 3600)
    online = ServingDemand(
        concurrent=None,
        requests_per_s=Range.exact(rate),
        stated_by="requests_per_s",
        input_tokens=demand.input_tokens,
        output_tokens=demand.output_tokens,
        shared_prefix_tokens=0.0,
        max_context_tokens=demand.input_tokens + demand.output_tokens,
        ttft_ms=1e12,
        tpot_ms=1e12,
        percentile=50.0,
        engine="auto",
        engine_version="",
        turns=1.0,
        think_time_s=0.0,
        prefix_reuse=0.0,
        images_per_request=0.0,
        image_pixels=0.0,
    )
    sized = size_serving(online, shape, platform, span, PrecisionDemand(weights=weights, kv_cache=cache, training="auto"), max_gpus)
    if isinstance(sized, Shortfall) or sized.serving is None:
        if isinstance(sized, Shortfall) and sized.constraint == "gpus" and sized.nearest is not None and sized.nearest.serving is not None:
            hours = demand.deadline_h * (sized.needed or 1.0) / max(sized.nearest.gpus, 1)
            text = f"{sized.nearest.gpus:,} {platform.gpu.name} would take about {hours:,.0f} h; {demand.deadline_h:g} h are allowed"
            return replace(sized, constraint="deadline", needed=hours, available=demand.deadline_h, unit="h", message=text)
        return sized
    use = max(sized.serving.utilisation, 1e-6)
    hours = demand.deadline_h * min(use, 1.0)
    figures = replace(sized.serving, hours=Range.around(hours, 1 / RATE_SPREAD[1], 1 / RATE_SPREAD[0]), ttft_ms=None, tpot_ms=None)
    return replace(sized, serving=figures)


def _size_embedding(demand: ServingDemand, job: ServingJob, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """Encoders only read: throughput is prefill at full chunks; copies on single GPUs are always enough."""
    found = evaluate(replace(job, output_tokens=1.0), platform, span, max_gpus, demand.percentile)
    if isinstance(found, Shortfall):
        return found
    layout = found.layout
    inputs = max(job.input_tokens, 1.0)
    tokens = np.array([[max(inputs, 8192.0)]])
    per_second = (tokens / prefill(job, platform, layout, tokens) * layout.pp)[:, 0] / inputs
    single = prefill(job, platform, layout, np.array([[inputs]]))[:, 0]
    if demand.requests_per_s is not None:
        rate = demand.requests_per_s.mid
    else:
        assert demand.concurrent is not None
        rate = demand.concurrent.mid / float(single.min())
    replicas = np.maximum(np.ceil(rate / (per_second * RATE_HEADROOM)), 1)
    total = replicas * layout.gpus[:, 0]
    index = int(np.argmin(total))
    if total[index] > max_gpus:
        text = f"the rate needs {total[index]:,.0f} {platform.gpu.name}; at most {max_gpus:,} may be used"
        return _shortfall("gpus", float(total[index]), float(max_gpus), "GPUs", text)
    one = ServingLayout(tp=layout.tp[index : index + 1], pp=layout.pp[index : index + 1])
    latency = float(single[index]) * 1.5 / MS
    capacity = float(per_second[index]) * float(replicas[index])
    flop = rate * inputs * 2 * parameter_counts(job.shape).active
    peak = peak_flops(platform.gpu, job.arithmetic(platform.gpu)) or 1.0
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(tp=int(one.tp[0, 0]), pp=int(one.pp[0, 0])),
        replicas=int(replicas[index]),
        memory_gb=_memory(replace(job, output_tokens=1.0), one, 1.0, platform),
        capacity_gb=usable_bytes(platform, job.engine, job.engine_version) / GB,
        serving=ServingFigures(
            percentile=demand.percentile,
            ttft_ms=Range.around(latency, *TIME_SPREAD),
            tpot_ms=None,
            output_tokens_per_s=Range.exact(0.0),
            input_tokens_per_s=Range.around(rate * inputs, *RATE_SPREAD),
            requests_per_s=Range.around(rate, *RATE_SPREAD),
            max_concurrent=max(int(capacity * latency * MS), 1),
            concurrent_per_replica=1.0,
            utilisation=min(rate / capacity, 1.0),
        ),
        time_parts_s={"compute": float(single[index])},
        bottleneck="compute",
        precision={"weights": job.weights, "arithmetic": job.arithmetic(platform.gpu)},
        engine=job.engine,
        engine_version=str(serving_constants()["engine"][job.engine]["version"]),
        bounds_gpus_by_memory=max(math.ceil(weight_bytes_total(job) / usable_bytes(platform, job.engine, job.engine_version)), 1),
        bounds_gpus_by_roofline=max(math.ceil(flop / peak), 1),
    )
