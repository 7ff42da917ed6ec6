"""Sizing of HPC runs: which GPUs, how many per run, how many runs side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from app.engine import molecular, solvers
from app.engine.host import CPU_BUSY_LIMIT, CPU_SERVER, CpuFit
from app.engine.jobs import does_not_fit, no_network, not_needed, span_counts, too_few_gpus, unknown_figure, usable_gb
from app.engine.platform import Platform
from app.engine.result import Bottleneck, CommunicationTerm, JobFigures, Parallel, ScalingPoint, Shortfall, Sized, Span
from app.ranges import Range
from app.units import GB, SECONDS_PER_HOUR
from app.workload.demand import HpcDemand

MOLECULAR_CODES = ("gromacs", "lammps", "amber", "namd")
SINGLE_GPU_CODES = ("amber",)
"""pmemd.cuda keeps the whole step on one GPU; further GPUs run further trajectories."""
NOMINAL_RUN_NS = 50.0
"""Length of a trajectory where nobody states it: 50 ns; a run never counts for more than one GPU-day of a day."""
DAY_H = 24.0
RUNTIME_GB = 1.0
UNKNOWN_MEMORY_GB = 16.0
"""A custom run of unstated size; assumption, and a question for the customer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """One run on one platform: memory, hours on n GPUs (compute, communication), and what bounds it."""

    memory_gb: float
    hours: Callable[[int], tuple[float, float]]
    spread: tuple[float, float]
    bottleneck: Bottleneck
    splits: bool
    """Whether one run can use several GPUs at all."""
    largest_useful: int
    """GPUs beyond which a run no longer gains."""
    ns_per_day: Callable[[int], float] | None = None
    exchanged_bytes: Callable[[int], float] | None = None
    """Bytes one GPU sends in one exchange, where the formula knows them."""
    note: str = ""


def is_molecular(demand: HpcDemand) -> bool:
    """Atoms rather than cells: the named codes, and a custom single-GPU code below a million particles without FP64."""
    small = demand.problem_size is not None and demand.problem_size < 1e6
    return demand.code in MOLECULAR_CODES or (demand.code == "custom" and small and not demand.mpi)


def size_hpc(demand: HpcDemand, platform: Platform, span: Span, max_gpus: int) -> Sized | Shortfall:
    """The fewest GPUs of the span that fit a run and finish it in time, and as many copies as the day's runs need."""
    gpu = platform.gpu
    capacity = usable_gb(gpu)
    run = run_model(demand, platform)
    if capacity is None or run is None:
        return unknown_figure(gpu, "memory, bandwidth or FP64 rate" if demand.fp64 else "memory, bandwidth or FP32 rate")
    room = capacity - RUNTIME_GB
    by_memory = max(1, math.ceil(run.memory_gb / room))
    if span == "one_gpu" and by_memory > 1:
        return does_not_fit(run.memory_gb, room, gpu)
    if span != "one_gpu" and not run.splits:
        return not_needed(f"one run of {demand.code} uses one GPU; further GPUs run further jobs")
    limit_h = demand.deadline_h or DAY_H
    enough = _enough_h(demand)
    if span != "one_gpu" and by_memory == 1 and _total_h(run, 1) <= enough:
        return not_needed("one GPU holds the run and finishes it in time")
    per_server = platform.gpus_per_server
    if span == "many_servers" and by_memory <= per_server and _total_h(run, per_server) <= enough:
        return not_needed("one server holds the run and finishes it in time")
    missing = no_network(platform, span)
    if missing is not None:
        return missing
    counts = [count for count in span_counts(span, platform, max_gpus) if count >= by_memory]
    if not counts:
        reach = max(span_counts(span, platform, max_gpus), default=0)
        return does_not_fit(run.memory_gb, reach * room, gpu, f" on {reach} GPUs") if reach else too_few_gpus(max(2, by_memory), max_gpus)
    useful = [count for count in counts if count <= max(run.largest_useful, by_memory)] or counts[:1]
    chosen = next((count for count in useful if _total_h(run, count) <= enough), None)
    if chosen is None:
        chosen = min(useful, key=lambda count: _total_h(run, count))
        if demand.deadline_h is not None and run.ns_per_day is None:
            nearest = _sized(demand, platform, span, run, chosen, 1, capacity, by_memory)
            return Shortfall(
                constraint="deadline", needed=limit_h, available=round(_total_h(run, chosen), 1), unit="h",
                message=f"a run takes {_total_h(run, chosen):.1f} h on {chosen} {gpu.name}; {limit_h:g} h are allowed", nearest=nearest,
            )  # fmt: skip
    copies = _copies(demand, run, chosen)
    if copies * chosen > max_gpus:
        return too_few_gpus(copies * chosen, max_gpus)
    return _sized(demand, platform, span, run, chosen, copies, capacity, by_memory)


def _enough_h(demand: HpcDemand) -> float:
    """Hours in which a run must end: the deadline, else a day; a trajectory without a deadline may go on for days."""
    if demand.deadline_h is None and is_molecular(demand):
        return math.inf
    return demand.deadline_h or DAY_H


def _total_h(run: RunModel, gpus: int) -> float:
    compute, communication = run.hours(gpus)
    return compute + communication


def _copies(demand: HpcDemand, run: RunModel, gpus: int) -> int:
    """Runs side by side so that a day's runs end within the day; one that takes longer holds its GPUs all day."""
    return max(1, math.ceil(demand.runs_per_day * min(_total_h(run, gpus), DAY_H) / DAY_H - 1e-9))


def run_model(demand: HpcDemand, platform: Platform) -> RunModel | None:
    """The formulas that fit the code; None when the catalogue lacks a figure they need."""
    if is_molecular(demand):
        return _molecular_run(demand, platform)
    if demand.code == "vasp":
        return _plane_wave_run(demand, platform)
    if demand.problem_size is not None:
        return _grid_run(demand, platform)
    return _memory_run(demand, platform)


def _molecular_run(demand: HpcDemand, platform: Platform) -> RunModel | None:
    rates = molecular.rates(platform.gpu, demand.fp64)
    if rates is None:
        return None
    flops, bandwidth = rates
    atoms = demand.problem_size or 1e5
    code = demand.code if demand.code in molecular.TIME_STEP_FS else "custom"

    def speed(gpus: int) -> float:
        return molecular.ns_per_day(code, atoms, flops, bandwidth, gpus)

    def hours(gpus: int) -> tuple[float, float]:
        total = NOMINAL_RUN_NS / speed(gpus) * DAY_H
        share = 0.0 if gpus == 1 else molecular.EXCHANGE_S / (molecular.step_s(atoms, flops, bandwidth, gpus))
        return total * (1 - share), total * share

    useful = max(1, math.floor(atoms / molecular.ATOMS_PER_GPU_FOR_SCALING))
    return RunModel(
        memory_gb=demand.memory_gb or atoms * molecular.MEMORY_BYTES_PER_ATOM / GB + 0.5,
        hours=hours,
        spread=molecular.SPREAD,
        bottleneck="compute" if atoms > 1e5 else "latency",
        splits=demand.mpi and demand.code not in SINGLE_GPU_CODES and useful > 1,
        largest_useful=useful,
        ns_per_day=speed,
        note=f"Trajectory length is not stated: {NOMINAL_RUN_NS:g} ns a run is assumed. Below a million atoms per GPU a second "
        "GPU adds little, so runs go side by side on single GPUs.",
    )


def _plane_wave_run(demand: HpcDemand, platform: Platform) -> RunModel | None:
    atoms = demand.problem_size or solvers.PLANE_WAVE_ATOMS
    if solvers.plane_wave_hours(atoms, platform.gpu, 1) is None:
        return None
    memory = demand.memory_gb or solvers.plane_wave_memory_gb(atoms)

    def hours(gpus: int) -> tuple[float, float]:
        ideal = (solvers.plane_wave_hours(atoms, platform.gpu, 1) or math.inf) / gpus
        return ideal, (solvers.plane_wave_hours(atoms, platform.gpu, gpus) or math.inf) - ideal

    return RunModel(memory_gb=memory, hours=hours, spread=solvers.SPREAD, bottleneck="compute", splits=demand.mpi, largest_useful=16)


def _grid_run(demand: HpcDemand, platform: Platform) -> RunModel | None:
    cost = solvers.WEATHER if demand.code == "wrf" else solvers.FINITE_VOLUME
    cells = demand.problem_size or 0.0
    rate = solvers.cell_rate(cost, platform.gpu, demand.fp64)
    if rate is None:
        return None

    def hours(gpus: int) -> tuple[float, float]:
        exchange = solvers.exchange_s(cost, cells, gpus, platform, demand.fp64, demand.halo_fraction)
        return cost.iterations * cells / gpus / rate / SECONDS_PER_HOUR, cost.iterations * exchange / SECONDS_PER_HOUR

    def exchanged(gpus: int) -> float:
        return solvers.exchanged_bytes(cost, cells, gpus, demand.fp64, demand.halo_fraction)

    return RunModel(
        exchanged_bytes=exchanged,
        memory_gb=demand.memory_gb or cells * cost.resident_bytes * (2 if demand.fp64 else 1) / GB,
        hours=hours,
        spread=solvers.SPREAD,
        bottleneck="memory_bandwidth",
        splits=demand.mpi,
        largest_useful=max(1, math.floor(cells / cost.minimum_cells_per_gpu)),
        note=f"{cost.iterations:g} iterations a run are assumed.",
    )


def _memory_run(demand: HpcDemand, platform: Platform) -> RunModel | None:
    if platform.gpu.memory_bandwidth_gb_per_s is None:
        return None
    memory = demand.memory_gb or UNKNOWN_MEMORY_GB
    one = solvers.memory_run_hours(memory, platform.gpu.memory_bandwidth_gb_per_s * GB)

    def hours(gpus: int) -> tuple[float, float]:
        return one / gpus, 0.0

    return RunModel(
        memory_gb=memory,
        hours=hours,
        spread=(0.1, 10.0),
        bottleneck="memory_bandwidth",
        splits=demand.mpi,
        largest_useful=8,
        note="Only the memory of a run is known: its time is a guess within a factor of ten; measure one run.",
    )


def _sized(
    demand: HpcDemand, platform: Platform, span: Span, run: RunModel, gpus: int, copies: int, capacity: float, by_memory: int
) -> Sized:
    compute, communication = run.hours(gpus)
    total = compute + communication
    low, high = run.spread
    figures = {
        "hours_per_run": Range.around(total, 1 / high, 1 / low),
        "runs_per_day": Range.around(copies * DAY_H / total, low, high),
    }
    if run.ns_per_day is not None:
        figures["ns_per_day"] = Range.around(run.ns_per_day(gpus), low, high)
    level = "scale_out" if span == "many_servers" else "scale_up"
    points = sorted({1, 2, 4, platform.gpus_per_server, gpus})
    base = _total_h(run, 1)
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(dp=gpus),
        replicas=copies,
        memory_gb={"working_set": Range.around(run.memory_gb / gpus, 0.7, 1.4), "runtime": Range.exact(RUNTIME_GB)},
        capacity_gb=capacity,
        job=JobFigures(figures=figures),
        communication=_communication(run, gpus, span, communication),
        communication_fraction=communication / total,
        time_parts_s={run.bottleneck: compute * SECONDS_PER_HOUR, level: communication * SECONDS_PER_HOUR},
        bottleneck=run.bottleneck if compute >= communication else level,  # type: ignore[arg-type]
        scaling=tuple(
            ScalingPoint(gpus=n, throughput=1 / (_total_h(run, n) * SECONDS_PER_HOUR), efficiency=base / _total_h(run, n) / n)
            for n in points
            if n == 1 or (run.splits and n <= max(gpus, platform.gpus_per_server))
        ),
        precision={"arithmetic": "fp64" if demand.fp64 else "fp32"},
        bounds_gpus_by_memory=by_memory,
        bounds_gpus_by_roofline=max(1, math.ceil(demand.runs_per_day * min(run.hours(1)[0] / high, DAY_H) / DAY_H)),
        notes=_notes(demand, platform, run),
    )


WEAK_FP64_FRACTION = 1 / 8
"""FP64 over FP32 below which a GPU counts as weak in FP64: graphics parts have 1/32 or 1/64, data-centre parts 1/2 or 1."""


def _notes(demand: HpcDemand, platform: Platform, run: RunModel) -> tuple[str, ...]:
    notes = [run.note] if run.note else []
    fp64, fp32 = platform.gpu.fp64_tflops, platform.gpu.fp32_tflops
    if demand.fp64 and fp64 is not None and fp32 is not None and fp64 < WEAK_FP64_FRACTION * fp32:
        notes.append(f"{platform.gpu.name} is weak in FP64 ({fp64:g} TFLOPS): memory-bound codes bear it, dense FP64 work does not.")
    return tuple(notes)


def _communication(run: RunModel, gpus: int, span: Span, hours: float) -> tuple[CommunicationTerm, ...]:
    if gpus == 1 or run.exchanged_bytes is None:
        return ()
    return (
        CommunicationTerm(
            collective="send_recv", purpose="halo exchange, time over the whole run",
            level="scale_out" if span == "many_servers" else "scale_up",
            bytes=run.exchanged_bytes(gpus), time_s=hours * SECONDS_PER_HOUR, exposed_s=hours * SECONDS_PER_HOUR,
        ),
    )  # fmt: skip


def cpu_hpc(demand: HpcDemand) -> CpuFit | Shortfall:
    """Whether one CPU server does the day's runs at most half busy; not said of codes nobody named."""
    if demand.code == "custom":
        return Shortfall(
            constraint="support", needed=None, available=None, unit="",
            message="how a custom code runs on CPUs is not known: measure one run",
        )  # fmt: skip
    hours, memory = _cpu_run(demand)
    busy = demand.runs_per_day * hours / DAY_H
    late = demand.deadline_h is not None and hours > demand.deadline_h
    if busy > CPU_BUSY_LIMIT or late or memory > CPU_SERVER.memory_gb:
        return Shortfall(
            constraint="throughput", needed=round(busy, 2), available=CPU_BUSY_LIMIT, unit="busy CPU servers",
            message=f"a run takes {hours:.1f} h on a CPU server and {demand.runs_per_day:g} a day are asked for",
        )  # fmt: skip
    return CpuFit(
        busy_fraction=busy,
        memory_gb=memory,
        figures={"hours_per_run": Range.around(hours, *solvers.SPREAD)},
        message=f"a run takes {hours:.1f} h on a CPU server, {busy:.0%} busy",
    )


def _cpu_run(demand: HpcDemand) -> tuple[float, float]:
    """(hours, GB) of one run on the CPU server, by the formulas of the GPU at the server's sustained rates."""
    host = CPU_SERVER
    flops = host.fp64_flops if demand.fp64 else host.fp32_flops
    size = demand.problem_size
    if is_molecular(demand):
        speed = molecular.ns_per_day(demand.code, size or 1e5, flops, host.bandwidth_bytes_per_s)
        return NOMINAL_RUN_NS / speed * DAY_H, demand.memory_gb or 4.0
    if demand.code == "vasp":
        atoms = size or solvers.PLANE_WAVE_ATOMS
        work = solvers.PLANE_WAVE_FLOP * atoms**3 * solvers.PLANE_WAVE_STEPS
        return work / host.fp64_flops / SECONDS_PER_HOUR, demand.memory_gb or solvers.plane_wave_memory_gb(atoms)
    if size is None:
        memory = demand.memory_gb or UNKNOWN_MEMORY_GB
        return solvers.memory_run_hours(memory, host.bandwidth_bytes_per_s), memory
    cost = solvers.WEATHER if demand.code == "wrf" else solvers.FINITE_VOLUME
    wide = 2 if demand.fp64 else 1
    rate = min(host.bandwidth_bytes_per_s / (cost.moved_bytes * wide), flops / cost.flop)
    return cost.iterations * size / rate / SECONDS_PER_HOUR, demand.memory_gb or size * cost.resident_bytes * wide / GB
