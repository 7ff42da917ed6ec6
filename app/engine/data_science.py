"""Data frames and classical machine learning on GPUs: memory for the working copies decides the count."""

from __future__ import annotations

import math

from app.engine.collectives import collective_time_s
from app.engine.host import CPU_SERVER, CpuFit
from app.engine.jobs import bandwidth_bytes_per_s, does_not_fit, no_network, not_needed, span_counts, unknown_figure, usable_gb
from app.engine.platform import Platform
from app.engine.result import CommunicationTerm, JobFigures, Parallel, Shortfall, Sized, Span
from app.ranges import Range
from app.units import GB
from app.workload.demand import DataScienceDemand

WORKING_COPIES = (2.0, 2.5, 4.0)
"""GPU memory per byte of data: joins, sorts and group-bys hold inputs, hash tables and results. Practice with GPU data frames
asks for two to four times the data."""
STREAMED_FRACTION = 0.5
"""Data not held in memory is worked off in blocks that fill half of one GPU; assumption."""
USERS_AT_ONCE = 0.25
"""Share of named users who compute at the same moment; assumption."""
PASSES = 20
"""Reads of the data one query of several operators makes; assumption."""
BANDWIDTH_FRACTION = 0.35
"""Share of memory bandwidth irregular column work reaches; assumption."""
SHUFFLE_COPIES = 1.0
"""Bytes exchanged between GPUs per byte of data in a join; every row moves once."""
RUNTIME_GB = 1.5
CPU_INSTANT_S = 2.0
"""A CPU server that answers a query in this time leaves nothing for a GPU to win; assumption."""
CPU_BANDWIDTH_FRACTION = 0.1
"""Share of memory bandwidth CPU data frames reach: interpreted operators, partial threading; assumption."""


def query_s(dataset_bytes: float, gpus: int, platform: Platform, bandwidth: float) -> tuple[float, float]:
    """Seconds of local work and of the shuffle for one query over the whole data."""
    local = PASSES * dataset_bytes / gpus / (bandwidth * BANDWIDTH_FRACTION)
    sent = SHUFFLE_COPIES * dataset_bytes / gpus
    return local, float(collective_time_s("all_to_all", sent, gpus, platform.gpus_per_server, platform))


def size_data_science(demand: DataScienceDemand, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """The fewest GPUs whose memory holds the working set of one user's job; further users are copies."""
    gpu = platform.gpu
    missing = no_network(platform, span)
    if missing is not None:
        return missing
    capacity, bandwidth = usable_gb(gpu), bandwidth_bytes_per_s(gpu)
    if capacity is None or bandwidth is None:
        return unknown_figure(gpu, "memory or bandwidth")
    room = capacity - RUNTIME_GB
    working = demand.dataset_gb.mid * WORKING_COPIES[1]
    if not demand.in_memory:
        working = min(working, room * STREAMED_FRACTION)
    by_memory = max(1, math.ceil(working / room))
    if span == "one_gpu" and by_memory > 1:
        return does_not_fit(working, room, gpu)
    if span != "one_gpu" and by_memory == 1:
        return not_needed("the working set fits one GPU")
    if span == "many_servers" and by_memory <= platform.gpus_per_server:
        return not_needed("the working set fits one server")
    count = next((count for count in span_counts(span, platform, max_gpus) if count >= by_memory), None)
    if count is None:
        reach = max(span_counts(span, platform, max_gpus), default=1)
        return does_not_fit(working, reach * room, gpu, f" on {reach} GPUs")
    copies = max(1, math.ceil(demand.users * USERS_AT_ONCE))
    if copies * count > max_gpus:
        return Shortfall(
            constraint="gpus", needed=copies * count, available=max_gpus, unit="GPUs",
            message=f"{copies} users at once need {copies * count} GPUs and {max_gpus} may be used",
        )  # fmt: skip
    return _sized(demand, platform, span, count, copies, working, capacity, by_memory, bandwidth)


def _sized(
    demand: DataScienceDemand,
    platform: Platform,
    span: Span,
    count: int,
    copies: int,
    working: float,
    capacity: float,
    by_memory: int,
    bandwidth: float,
) -> Sized:
    size = demand.dataset_gb.mid * GB
    local, shuffle = query_s(size, count, platform, bandwidth)
    level = "scale_out" if span == "many_servers" else "scale_up"
    low, mid, high = WORKING_COPIES
    terms = (
        CommunicationTerm(
            collective="all_to_all", purpose="shuffle of a join", level="scale_out" if span == "many_servers" else "scale_up",
            bytes=SHUFFLE_COPIES * size / count, time_s=shuffle, exposed_s=shuffle,
        ),
    )  # fmt: skip
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(dp=count),
        replicas=copies,
        memory_gb={
            "working_set": Range.around(working / count, low / mid, high / mid),
            "runtime": Range.around(RUNTIME_GB, 0.5, 1.5),
        },
        capacity_gb=capacity,
        job=JobFigures(figures={"query_s": Range.around(local + shuffle, 0.3, 3.0)}),
        communication=terms if count > 1 else (),
        communication_fraction=shuffle / (local + shuffle),
        time_parts_s={"memory_bandwidth": local, level: shuffle},
        bottleneck="memory_capacity",
        bounds_gpus_by_memory=by_memory,
        bounds_gpus_by_roofline=1,
    )


def cpu_data_science(demand: DataScienceDemand) -> CpuFit | Shortfall:
    """Whether a CPU server answers a query at once: small data gain nothing from a GPU."""
    seconds = PASSES * demand.dataset_gb.mid * GB / (CPU_SERVER.bandwidth_bytes_per_s * CPU_BANDWIDTH_FRACTION)
    memory = demand.dataset_gb.mid * WORKING_COPIES[1]
    if seconds > CPU_INSTANT_S or memory > CPU_SERVER.memory_gb:
        return Shortfall(
            constraint="throughput", needed=CPU_INSTANT_S, available=round(seconds, 1), unit="s",
            message=f"a query takes {seconds:.0f} s on a CPU server",
        )  # fmt: skip
    return CpuFit(
        busy_fraction=min(1.0, demand.users * USERS_AT_ONCE * seconds / 60),
        memory_gb=memory,
        figures={"query_s": Range.around(seconds, 0.3, 3.0)},
        message=f"a query takes {seconds:.1f} s on a CPU server",
    )
