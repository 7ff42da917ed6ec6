"""Grid and matrix codes on GPUs: memory and time of one run from cells (or atoms), by roofline, with halo exchange.

Per iteration each cell moves ``bytes_per_cell`` through memory and does ``flop_per_cell``; the slower of the two
rules. GPUs exchange the surface of their part several times an iteration and add small all-reduces of the linear
solvers. Per-cell figures are assumptions from common practice with segregated finite-volume and explicit
weather codes; runs differ by several times, so ranges are wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.catalog.schema import Gpu
from app.engine.collectives import collective_time_s
from app.engine.platform import Platform
from app.units import GB, SECONDS_PER_HOUR, TFLOP


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverCost:
    """Cost of one run of a code family, 32-bit arithmetic; 64-bit doubles bytes.

    resident_bytes: GPU memory per cell. moved_bytes, flop: per cell and iteration. iterations: per run.
    exchanges: surface exchanges per iteration; fields: values per surface cell. reductions: small all-reduces per iteration.
    """

    resident_bytes: float
    moved_bytes: float
    flop: float
    iterations: float
    exchanges: int
    fields: int
    reductions: int
    minimum_cells_per_gpu: float


FINITE_VOLUME = SolverCost(
    resident_bytes=1200.0,
    moved_bytes=8000.0,
    flop=2000.0,
    iterations=5000.0,
    exchanges=50,
    fields=1,
    reductions=30,
    minimum_cells_per_gpu=1e6,
)
"""Implicit finite volume (OpenFOAM, Fluent): 1-1.5 GB per million cells in single precision; two equations a cell solved with
about 50 sparse products an iteration; a steady run of some thousand iterations."""

WEATHER = SolverCost(
    resident_bytes=2500.0,
    moved_bytes=6000.0,
    flop=4000.0,
    iterations=10_000.0,
    exchanges=20,
    fields=4,
    reductions=1,
    minimum_cells_per_gpu=2e6,
)
"""Explicit weather model (WRF): about 150 three-dimensional fields, split time steps; two to three simulated days."""

SUSTAINED_BANDWIDTH = 0.60
SUSTAINED_COMPUTE = 0.40
"""Shares of data-sheet rates that indirect, memory-bound codes reach; assumption (STREAM reaches 0.8-0.9)."""

MEMORY_SWEEPS_PER_RUN = 3e4
REFERENCE_BANDWIDTH = 2039.0 * GB
"""A run described only by its memory is taken to read it this often on an A100; assumption, an order of magnitude either way
(structure prediction: 1 minute at about 20 GB, half an hour at about 70 GB). Other GPUs by the square root of their
bandwidth: AlphaFold 3, 24 / 16 / 12 h on L40S / A100 / H100 (864 / 2039 / 3350 GB/s)."""

PLANE_WAVE_MEMORY_GB = 40.0
PLANE_WAVE_ATOMS = 300.0
PLANE_WAVE_FLOP = 1.6e6
PLANE_WAVE_STEPS = 600.0
"""Plane-wave DFT (VASP): memory grows with atoms squared (about 40 GB at 300), work with atoms cubed (4.3e13 FLOP per
electronic step at 300: about ten seconds on an A100 in FP64); 30 ionic steps of 20. Assumptions."""

SPREAD = (0.4, 2.5)


def cell_rate(cost: SolverCost, gpu: Gpu, fp64: bool) -> float | None:
    """Cells per second one GPU iterates over, by roofline; None when a needed figure is not known."""
    compute = gpu.fp64_tflops if fp64 else gpu.fp32_tflops
    if compute is None or gpu.memory_bandwidth_gb_per_s is None:
        return None
    moved = cost.moved_bytes * (2 if fp64 else 1)
    by_memory = gpu.memory_bandwidth_gb_per_s * GB * SUSTAINED_BANDWIDTH / moved
    by_compute = compute * TFLOP * SUSTAINED_COMPUTE / cost.flop
    return min(by_memory, by_compute)


def exchanged_bytes(cost: SolverCost, cells: float, gpus: int, fp64: bool, halo_fraction: float) -> float:
    """Bytes of one surface exchange of one GPU: six faces of a cube of cells/gpus cells, or the stated share of its cells."""
    own = cells / gpus
    surface = own * halo_fraction if halo_fraction > 0 else 6 * own ** (2 / 3)
    return float(min(surface, own) * cost.fields * (8 if fp64 else 4))


def exchange_s(cost: SolverCost, cells: float, gpus: int, platform: Platform, fp64: bool, halo_fraction: float) -> float:
    """Seconds of communication per iteration: surface exchanges, and reductions of 8 bytes."""
    if gpus == 1:
        return 0.0
    payload = exchanged_bytes(cost, cells, gpus, fp64, halo_fraction)
    crosses = gpus > platform.gpus_per_server
    pair = collective_time_s("send_recv", payload, 2, 1 if crosses else 2, platform)
    reduction = collective_time_s("all_reduce", 8.0, gpus, platform.gpus_per_server, platform)
    return float(cost.exchanges * pair + cost.reductions * reduction)


def memory_run_hours(memory_gb: float, bandwidth_bytes_per_s: float) -> float:
    """Hours of a run known only by its memory: sweeps x memory over the sustained rate, which grows with sqrt(bandwidth)."""
    rate = SUSTAINED_BANDWIDTH * (bandwidth_bytes_per_s * REFERENCE_BANDWIDTH) ** 0.5
    return float(memory_gb * GB * MEMORY_SWEEPS_PER_RUN / rate / SECONDS_PER_HOUR)


def plane_wave_memory_gb(atoms: float) -> float:
    """GB of one plane-wave run."""
    return PLANE_WAVE_MEMORY_GB * (atoms / PLANE_WAVE_ATOMS) ** 2


def plane_wave_hours(atoms: float, gpu: Gpu, gpus: int) -> float | None:
    """Hours of one plane-wave run, FP64; matrix work divides over GPUs at 85% a doubling (assumption)."""
    if gpu.fp64_tflops is None:
        return None
    rate = gpu.fp64_tflops * TFLOP * SUSTAINED_COMPUTE * gpus * 0.85 ** math.log2(gpus)
    return float(PLANE_WAVE_FLOP * atoms**3 * PLANE_WAVE_STEPS / rate / SECONDS_PER_HOUR)
