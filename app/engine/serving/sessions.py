"""Conversations between their turns: where what was said is kept, and what that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.catalog.model_shape import ModelShape
from app.engine.platform import PCIE_BYTES_PER_S_PER_LANE, Platform
from app.engine.result import SessionPlan, SessionTier, Shortfall, Sized, Span
from app.engine.serving.job import KV_BYTES, ServingJob, ServingLayout
from app.engine.serving.memory import cache_bytes_per_request, kv_pool_bytes
from app.engine.serving.replica import serving_job
from app.engine.serving.sizing import size_serving
from app.engine.serving.step import prefill
from app.units import GB, TB
from app.workload.architecture import kv_cache_bytes
from app.workload.demand import PrecisionDemand, ServingDemand

COPY_SHARE = 0.8
"""Share of the PCIe rate that copies of pinned host memory reach (NVIDIA bandwidthTest: 25 of 31.5 GB/s on PCIe 4)."""
HOST_SHARE = 0.5
"""Share of a server's memory that caches may take; the rest loads weights and runs the system (assumption)."""
USUAL_RAM_GB = 1024.0
"""Memory a server can be ordered with where the catalogue does not say what it has (16 modules of 64 GB; assumption)."""
NVME_BYTES_PER_S = 7e9
"""Reading from one PCIe 4 drive of a server (data sheets of enterprise U.2 drives: 6.5 to 7 GB/s)."""


def size_conversations(
    demand: ServingDemand, shape: ModelShape, platform: Platform, span: Span, precision: PrecisionDemand, max_gpus: int, objective: str
) -> Sized | Shortfall:
    """:func:`size_serving`, with the cache of waiting conversations placed. Where no memory holds it, every turn reads the
    whole history again and the design is sized for that."""
    found = size_serving(demand, shape, platform, span, precision, max_gpus, objective)
    if demand.turns <= 1 or demand.think_time_s <= 0 or demand.prefix_reuse <= 0 or not isinstance(found, Sized) or found.serving is None:
        return found
    plan = session_plan(demand, serving_job(demand, shape, precision), found)
    if plan.tier == "recompute" and demand.reuse_assumed:
        again = replace(demand, prefix_reuse=0.0, reuse_assumed=False)
        found = size_serving(again, shape, platform, span, precision, max_gpus, objective)
        if not isinstance(found, Sized):
            return found
    return replace(found, sessions=plan, notes=(*found.notes, described(plan)))


def session_plan(demand: ServingDemand, job: ServingJob, sized: Sized) -> SessionPlan:
    """The nearest memory that holds all waiting conversations and returns one sooner than it is read again.

    Waiting: ``X Z (n - 1) / n`` conversations with X turns a second, a pause of Z after each of n turns but the last
    (Little's law). Each keeps the cache of a mean turn, prompt and answer. GPU: what the pools hold beyond the requests in
    flight. Host: :data:`HOST_SHARE` of each server's memory, copied over PCIe by all GPUs of a replica. NVMe: the drives.
    """
    assert sized.serving is not None
    platform, parallel = sized.platform, sized.parallel
    splits = (parallel.tp * parallel.dp, parallel.pp, parallel.dp)
    tp, pp, groups = (np.array([[float(value)]]) for value in splits)
    layout = ServingLayout(tp=tp, pp=pp, attention_dp=groups)
    waiting = sized.serving.requests_per_s.mid * demand.think_time_s * (demand.turns - 1) / demand.turns
    length = job.input_tokens + job.output_tokens
    kept = float(kv_cache_bytes(job.shape, max(length - job.shared_prefix_tokens, 1.0), KV_BYTES[job.kv_cache]))
    per_rank = cache_bytes_per_request(job, length, layout).item()
    free = kv_pool_bytes(job, platform, layout).item() - sized.serving.concurrent_per_replica / parallel.dp * per_rank
    in_gpu = max(free, 0.0) / per_rank * parallel.dp * sized.replicas
    history = job.input_tokens * job.prefix_reuse if job.prefix_reuse else max(job.input_tokens - job.shared_prefix_tokens, 1.0)
    again_s = prefill(replace(job, prefix_reuse=0.0), platform, layout, np.array([[max(history, 1.0)]])).item()
    gpu = platform.gpu
    lanes = PCIE_BYTES_PER_S_PER_LANE[gpu.pcie_gen or 4] * (gpu.pcie_lanes or 16) * COPY_SHARE
    host_s = kept / (lanes * parallel.gpus)
    servers = sized.servers
    server = platform.server
    installed = USUAL_RAM_GB if server is None or server.ram_gb is None else server.ram_gb
    ram = installed * GB * HOST_SHARE * servers
    drives = None if server is None or server.nvme_tb is None else server.nvme_tb * TB * servers
    need = waiting * kept
    tier: SessionTier = "recompute"
    load_s = again_s
    if waiting <= in_gpu:
        tier, load_s = "gpu", 0.0
    elif host_s < again_s and need <= ram:
        tier, load_s = "host", host_s
    elif drives is not None and need <= drives and kept / NVME_BYTES_PER_S < again_s:
        tier, load_s = "nvme", kept / NVME_BYTES_PER_S
    return SessionPlan(
        tier=tier,
        waiting=waiting,
        gb_per_session=kept / GB,
        gb_per_server=need / GB / servers if tier in ("host", "nvme") else 0.0,
        load_s=load_s,
        recompute_s=again_s,
    )


WORDS = {
    "gpu": "The GPUs' own memory has room for them; reading one again would take {again:.2g} s.",
    "host": "Kept in the servers' memory ({gb:,.0f} GB in each) one comes back in {load:.2g} s; reading it again would take {again:.2g} s.",
    "nvme": "Kept on the servers' drives ({gb:,.0f} GB in each) one comes back in {load:.2g} s; reading it again would take {again:.2g} s.",
    "recompute": "No memory of these servers holds them or returns them sooner than they are read again, so every turn reads all of it.",
}


def described(plan: SessionPlan) -> str:
    """The plan in words."""
    held = f"Between turns about {plan.waiting:,.0f} conversations wait, {plan.gb_per_session:.2g} GB of cache each."
    return f"{held} {WORDS[plan.tier].format(gb=plan.gb_per_server, load=plan.load_s, again=plan.recompute_s)}"
