"""The smallest installation that carries a load within its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape
from app.engine.platform import Platform
from app.engine.result import Shortfall, Sized, Span
from app.engine.serving.answer import sized_answer
from app.engine.serving.constants import spread
from app.engine.serving.embedding import size_embedding
from app.engine.serving.replica import IN_FLIGHT, RATE_HEADROOM, Replica, evaluate, resolved_precision, serving_job, shortfall
from app.ranges import Range
from app.units import MS
from app.workload.demand import BatchDemand, PrecisionDemand, ServingDemand


def size_serving(
    demand: ServingDemand,
    shape: ModelShape,
    platform: Platform,
    span: Span,
    precision: PrecisionDemand,
    max_gpus: int,
    objective: str = "cost",
    *,
    offline: bool = False,
) -> Sized | Shortfall:
    """Fewest GPUs (or lowest latency) of a span that carry the load at the percentile. A stated rate arrives at random,
    unless the work is all there from the start (``offline``)."""
    job = serving_job(demand, shape, precision)
    if demand.output_tokens <= 0:
        return size_embedding(demand, job, platform, span, max_gpus)
    found = evaluate(job, platform, span, max_gpus, demand.percentile, at_random=demand.concurrent is None and not offline)
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
        nearest = sized_answer(demand, found, index, int(max(max_gpus // int(gpus[index]), 1)), span, capacity, best_rate)
        need = float(total[index])
        text = f"the load needs {need:,.0f} {platform.gpu.name}; at most {max_gpus:,} may be used"
        return replace(shortfall("gpus", need, float(max_gpus), "GPUs", text), nearest=nearest)
    if objective in ("latency", "time"):
        at_load = _operating_index(demand, found, replicas, allowed)
        latency = steady.tpot_s[np.arange(len(gpus)), at_load] + steady.ttft_s[np.arange(len(gpus)), at_load] / 100
        index = int(np.argmin(np.where(affordable, latency, np.inf)))
    else:
        # Fewest GPUs; among equals the smaller replica (more copies, less exchange), then TP over PP for latency.
        order = sorted(np.flatnonzero(affordable), key=lambda i: (total[i], gpus[i], -found.layout.tp[i, 0]))
        index = int(order[0])
    return replace(
        sized_answer(demand, found, index, int(replicas[index]), span, capacity, best_rate), notes=relaxed, keeps_usual_limits=not relaxed
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


def _too_slow(demand: ServingDemand, found: Replica) -> Shortfall:
    """Which limit no layout keeps even for one request."""
    first = found.steady.tpot_s[:, 0], found.steady.ttft_s[:, 0]
    tpot, ttft = float(first[0].min()) / MS, float(first[1].min()) / MS
    name, at = found.platform.gpu.name, f"at the {demand.percentile:g}th percentile"
    if tpot > demand.tpot_ms and demand.tpot_stated:
        text = f"{name} alone gives a token every {tpot:,.0f} ms {at}; the limit is {demand.tpot_ms:,.0f} ms"
        return shortfall("tpot", tpot, demand.tpot_ms, "ms", text)
    text = f"{name} reads the prompt in {ttft:,.0f} ms {at}; the limit is {demand.ttft_ms:,.0f} ms"
    return shortfall("ttft", ttft, demand.ttft_ms, "ms", text)


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
    formats = PrecisionDemand(weights=weights, kv_cache=cache, training="auto")
    sized = size_serving(online, shape, platform, span, formats, max_gpus, offline=True)
    if isinstance(sized, Shortfall) or sized.serving is None:
        if isinstance(sized, Shortfall) and sized.constraint == "gpus" and sized.nearest is not None and sized.nearest.serving is not None:
            hours = demand.deadline_h * (sized.needed or 1.0) / max(sized.nearest.gpus, 1)
            text = f"{sized.nearest.gpus:,} {platform.gpu.name} would take about {hours:,.0f} h; {demand.deadline_h:g} h are allowed"
            return replace(sized, constraint="deadline", needed=hours, available=demand.deadline_h, unit="h", message=text)
        return sized
    use = max(sized.serving.utilisation, 1e-6)
    hours = demand.deadline_h * min(use, 1.0)
    slowest, fastest = spread("rate")
    figures = replace(sized.serving, hours=Range.around(hours, 1 / fastest, 1 / slowest), ttft_ms=None, tpot_ms=None)
    return replace(sized, serving=figures)
