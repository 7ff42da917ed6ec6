"""The whole answer for one layout: memory, latency, rates, communication, bounds."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.result import Bottleneck, CommunicationTerm, Parallel, ServingFigures, Sized, Span
from app.engine.serving.constants import first_spread, rate_spread, serving_constants, time_spread
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory import (
    activation_bytes,
    cache_bytes_per_prefix,
    cache_bytes_per_request,
    graph_bytes,
    kv_bytes_per_token_per_gpu,
    kv_pool_bytes,
    position_table_bytes,
    runtime_bytes,
    usable_bytes,
    weight_bytes_per_gpu,
    weight_bytes_total,
)
from app.engine.serving.replica import IN_FLIGHT, Replica
from app.engine.serving.steady import Steady, steady_state
from app.ranges import Range
from app.units import GB, MS
from app.workload.architecture import parameter_counts
from app.workload.demand import ServingDemand

MEMORY_SPREAD = (0.95, 1.08)


def sized_answer(
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
    layout = found.layout.chosen(slice(index, index + 1))
    if demand.concurrent is not None:
        share = max(demand.concurrent.mid / replicas, 1.0)
    else:
        assert demand.requests_per_s is not None
        share = _in_flight_at(demand.requests_per_s.mid / replicas, found, index)
    places = found.most_by_memory[index : index + 1, np.newaxis]
    exact = steady_state(job, platform, layout, np.array([[share]]), demand.percentile, at_random=found.at_random, places=places)
    rate = float(exact.requests_per_s[0, 0]) * replicas
    if demand.requests_per_s is not None:
        rate = min(rate, demand.requests_per_s.mid)
    tpot, ttft = float(exact.tpot_s[0, 0]) / MS, float(exact.ttft_s[0, 0]) / MS
    parts, terms = _time_parts(exact, job, platform, layout, share)
    step_s = float(exact.step.total_s[0, 0])
    exchange = parts["scale_up"] + parts["scale_out"]
    cap = int(capacity[index]) * replicas
    use = demand.concurrent.mid / cap if demand.concurrent is not None and cap else rate / max(float(best_rate[index]) * replicas, 1e-12)
    version = job.engine_version or serving_constants()["engine"][job.engine]["version"]
    by_memory, by_roofline = bounds(job, platform, demand, rate)
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(
            tp=int(layout.attention_tp[0, 0]),
            pp=int(layout.pp[0, 0]),
            dp=int(layout.attention_dp[0, 0]),
            ep=int(layout.tp[0, 0]) if job.shape.is_moe else 1,
        ),
        replicas=replicas,
        memory_gb=memory_parts(job, layout, share, platform),
        capacity_gb=usable_bytes(platform, job.engine, job.engine_version) / GB,
        serving=ServingFigures(
            percentile=demand.percentile,
            ttft_ms=Range.around(ttft, *first_spread(job)),
            tpot_ms=Range.around(tpot, *time_spread(job)),
            output_tokens_per_s=Range.around(rate * job.output_tokens, *rate_spread(job)),
            input_tokens_per_s=Range.around(rate * job.input_tokens, *rate_spread(job)),
            requests_per_s=Range.around(rate, *rate_spread(job)),
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


def memory_parts(job: ServingJob, layout: ServingLayout, share: float, platform: Platform) -> dict[str, Range]:
    """Per GPU: weights, the caches in use at the asked load, peak activations and the runtime."""
    cache = cache_bytes_per_request(job, job.running_context_tokens, layout) * max(share, 1.0) + cache_bytes_per_prefix(job, layout)
    parts = {
        "weights": weight_bytes_per_gpu(job, layout) + position_table_bytes(job),
        "kv_cache": cache,
        "activations": activation_bytes(job, layout, platform),
        "cuda_graphs": np.array([[graph_bytes(job)]]),
        "runtime": runtime_bytes(job, layout, platform),
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
    steps = max(job.output_tokens / job.tokens_per_pass, 1.0)
    parts = {
        "memory_bandwidth": max(weights, arithmetic) * (weights >= arithmetic) + float(step.attention_s[0, 0]),
        "compute": arithmetic * (arithmetic > weights) + float(exact.prefill_s[0, 0]) / float(layout.pp[0, 0]) * share / steps,
        "scale_up": exchange + (0.0 if across else hop),
        "scale_out": hop if across else 0.0,
        "host": float(step.overhead_s[0, 0]),
    }
    where: Literal["scale_up", "scale_out"] = "scale_out" if across else "scale_up"
    hidden, layers, stages = job.shape.hidden, job.shape.layers, float(layout.pp[0, 0])
    if float(layout.attention_dp[0, 0]) > 1:
        inside = share / gpus * max(job.shape.top_k, 1) * hidden * 3 * layers
        spread = _term(
            "all_to_all", "expert parallel: tokens to their experts and back, every layer of every token", where, inside, exchange
        )
    else:
        spread = _term("all_reduce", "tensor parallel: twice a layer, every token", "scale_up", share * hidden * 2 * 2 * layers, exchange)
    passed = _term("send_recv", "pipeline: activations between stages", where, share * hidden * 2 * (stages - 1), hop)
    return parts, tuple(term for term in (spread, passed) if term.time_s > 0)


def _term(collective: str, purpose: str, level: Literal["scale_up", "scale_out"], size: float, seconds: float) -> CommunicationTerm:
    """A collective of a decode step, none of which is hidden."""
    return CommunicationTerm(collective=collective, purpose=purpose, level=level, bytes=size, time_s=seconds, exposed_s=seconds)


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
    per_request = float(np.ravel(cache_bytes_per_request(job, job.running_context_tokens, single))[0])
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
