"""Whether a plain CPU server carries a language or embedding model."""

from __future__ import annotations

from app.catalog.model_shape import ModelShape
from app.engine.host import CPU_BUSY_LIMIT, CPU_SERVER, CpuFit
from app.engine.result import Shortfall
from app.engine.serving.job import KV_BYTES, STORED_BITS
from app.ranges import Range
from app.units import GB, MS, percent
from app.workload.architecture import kv_cache_bytes, parameter_counts
from app.workload.demand import BatchDemand, ServingDemand

SPREAD = (0.6, 1.6)
RUNTIME_GB = 4.0
"""Operating system and engine beside the model."""


def cpu_serving(demand: ServingDemand, shape: ModelShape, weights: str) -> CpuFit | Shortfall:
    """Decode reads the active weights once per step and each sequence's cache; prompts run at the sustained FP32 rate.

    The server is enough when both limits hold and it is at most half busy.
    """
    counts = parameter_counts(shape)
    bits = STORED_BITS[shape.native_precision if weights == "auto" else weights]
    read = (counts.active - counts.embedding) * bits / 8
    context = demand.input_tokens + demand.output_tokens / 2
    cache = float(kv_cache_bytes(shape, context, KV_BYTES["bf16"]))
    in_flight = demand.concurrent.mid if demand.concurrent is not None else 1.0
    prompt_s = 2 * counts.active * demand.input_tokens / CPU_SERVER.fp32_flops
    step_s = (read + in_flight * cache) / CPU_SERVER.bandwidth_bytes_per_s + 2 * counts.active * in_flight / CPU_SERVER.fp32_flops
    tpot_s = step_s + (in_flight * prompt_s / max(demand.output_tokens, 1.0) if demand.output_tokens > 0 else 0.0)
    if demand.requests_per_s is not None:
        busy = demand.requests_per_s.mid * (prompt_s + demand.output_tokens * step_s)
    else:
        busy = min(in_flight * prompt_s / max(demand.ttft_ms * MS, 1e-9), 10.0) if demand.output_tokens > 0 else in_flight * prompt_s
    memory = (counts.total * bits / 8 + in_flight * cache) / GB + RUNTIME_GB
    if memory > CPU_SERVER.memory_gb:
        return _no("memory", memory, CPU_SERVER.memory_gb, "GB", f"needs {memory:,.0f} GB; the server has {CPU_SERVER.memory_gb:,.0f} GB")
    if demand.output_tokens > 0 and tpot_s > demand.tpot_ms * MS:
        return _no(
            "tpot",
            tpot_s / MS,
            demand.tpot_ms,
            "ms",
            f"a CPU server gives a token every {tpot_s / MS:,.0f} ms; the limit is {demand.tpot_ms:,.0f} ms",
        )
    if prompt_s > demand.ttft_ms * MS:
        return _no(
            "ttft",
            prompt_s / MS,
            demand.ttft_ms,
            "ms",
            f"a CPU server reads a prompt in {prompt_s / MS:,.0f} ms; the limit is {demand.ttft_ms:,.0f} ms",
        )
    if busy > CPU_BUSY_LIMIT:
        return _no(
            "throughput",
            busy,
            CPU_BUSY_LIMIT,
            "of one server",
            f"one CPU server would be {busy:.0%} busy; {CPU_BUSY_LIMIT:.0%} is taken as full",
        )
    figures = {"ttft_ms": Range.around(prompt_s / MS, *SPREAD), "busy_fraction": Range.around(busy, *SPREAD)}
    if demand.output_tokens > 0:
        figures = {"tpot_ms": Range.around(tpot_s / MS, *SPREAD), **figures}
    return CpuFit(
        busy_fraction=busy, memory_gb=memory, figures=figures, message=f"one CPU server carries it at {percent(busy)} of its time"
    )


def cpu_batch(demand: BatchDemand, shape: ModelShape) -> CpuFit | Shortfall:
    """Hours one CPU server takes for all items: arithmetic of every token, since many sequences share each weight read."""
    counts = parameter_counts(shape)
    seconds = demand.items * (demand.input_tokens + demand.output_tokens) * 2 * counts.active / CPU_SERVER.fp32_flops
    busy = seconds / (demand.deadline_h * 3600)
    memory = counts.total * 2 / GB + RUNTIME_GB
    if memory > CPU_SERVER.memory_gb:
        return _no("memory", memory, CPU_SERVER.memory_gb, "GB", f"needs {memory:,.0f} GB; the server has {CPU_SERVER.memory_gb:,.0f} GB")
    if busy > CPU_BUSY_LIMIT:
        hours = seconds / 3600
        return _no(
            "deadline",
            hours,
            demand.deadline_h * CPU_BUSY_LIMIT,
            "h",
            f"one CPU server would take {hours:,.0f} h; {demand.deadline_h:g} h are allowed",
        )
    return CpuFit(
        busy_fraction=busy,
        memory_gb=memory,
        figures={"hours": Range.around(seconds / 3600, *SPREAD)},
        message=f"one CPU server finishes in {seconds / 3600:,.1f} h",
    )


def _no(constraint: str, needed: float, available: float, unit: str, message: str) -> Shortfall:
    return Shortfall(constraint=constraint, needed=needed, available=available, unit=unit, message=message)
