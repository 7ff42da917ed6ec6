"""Models that only read: embedding and reranking."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.result import Parallel, ServingFigures, Shortfall, Sized, Span
from app.engine.serving.answer import memory_parts
from app.engine.serving.constants import rate_spread, serving_constants, time_spread
from app.engine.serving.job import ServingJob
from app.engine.serving.memory import (
    usable_bytes,
    weight_bytes_total,
)
from app.engine.serving.replica import RATE_HEADROOM, evaluate, shortfall
from app.engine.serving.step import prefill
from app.ranges import Range
from app.units import GB, MS
from app.workload.architecture import parameter_counts
from app.workload.demand import ServingDemand


def size_embedding(demand: ServingDemand, job: ServingJob, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
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
        return shortfall("gpus", float(total[index]), float(max_gpus), "GPUs", text)
    one = layout.chosen(slice(index, index + 1))
    latency = float(single[index]) * 1.5 / MS
    capacity = float(per_second[index]) * float(replicas[index])
    flop = rate * inputs * 2 * parameter_counts(job.shape).active
    peak = peak_flops(platform.gpu, job.arithmetic(platform.gpu)) or 1.0
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(tp=int(one.tp[0, 0]), pp=int(one.pp[0, 0])),
        replicas=int(replicas[index]),
        memory_gb=memory_parts(replace(job, output_tokens=1.0), one, 1.0, platform),
        capacity_gb=usable_bytes(platform, job.engine, job.engine_version) / GB,
        serving=ServingFigures(
            percentile=demand.percentile,
            ttft_ms=Range.around(latency, *time_spread(job)),
            tpot_ms=None,
            output_tokens_per_s=Range.exact(0.0),
            input_tokens_per_s=Range.around(rate * inputs, *rate_spread(job)),
            requests_per_s=Range.around(rate, *rate_spread(job)),
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
