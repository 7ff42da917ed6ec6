"""Molecular dynamics on GPUs: time of one step from atoms and the GPU, and what further GPUs add.

``step = launch + exchange(n) + work / n`` with ``work`` proportional to the atoms and falling with the GPU's
strength, the geometric mean of FP32 rate and memory bandwidth (short-range forces use the first, particle-mesh and
constraints the second).

Fitted to published points: OpenMM cellulose, 409 k atoms, 4 fs: A100 135 / 187 / 223 / 240 and B200 269 / 318 /
334 / 346 ns/day on 1-4 GPUs (openmm issue 4792); GROMACS, 65 k atoms: RTX 2080 Ti 229 / 188 / 273 ns/day on 1 / 2 / 4
(FAU). Errors of the fit: -14% to +20%; other codes and force fields differ by up to 2.
"""

from __future__ import annotations

from app.catalog.schema import Gpu
from app.units import GB, SECONDS_PER_DAY, TFLOP

LAUNCH_S = 0.30e-3
EXCHANGE_S = 0.40e-3
"""Added as soon as forces and coordinates travel between GPUs, each step, whatever the link."""
REFERENCE_ATOMS = 409e3
REFERENCE_STEP_S = 2.26e-3
REFERENCE_FP32_FLOPS = 19.5 * TFLOP
REFERENCE_BANDWIDTH = 2039.0 * GB
STRENGTH_EXPONENT = 0.615
TIME_STEP_FS = {"amber": 4.0, "gromacs": 2.0, "namd": 2.0, "lammps": 2.0, "custom": 2.0}
"""Usual step: 4 fs with hydrogen mass repartitioning in Amber benchmarks, else 2 fs."""
RELATIVE_SPEED = {"gromacs": 1.0, "amber": 1.0, "namd": 0.8, "lammps": 0.5, "custom": 1.0}
"""Against the fitted line; NAMD and LAMMPS are slower per atom in vendors' comparisons. Assumption."""
MEMORY_BYTES_PER_ATOM = 3000.0
"""Neighbour lists, grids, forces in GPU-resident codes: about 1-3 GB at a million atoms; assumption."""
ATOMS_PER_GPU_FOR_SCALING = 1e6
"""Below this per GPU a further GPU adds little: the same published points."""
SPREAD = (0.55, 1.6)


def strength(fp32_flops: float, bandwidth: float) -> float:
    """GPU strength relative to an A100 80 GB: sqrt(FP32 x bandwidth) over the reference's."""
    return float((fp32_flops * bandwidth / (REFERENCE_FP32_FLOPS * REFERENCE_BANDWIDTH)) ** 0.5)


def step_s(atoms: float, fp32_flops: float, bandwidth: float, gpus: int = 1, relative_speed: float = 1.0) -> float:
    """Seconds of one time step of one trajectory on ``gpus`` GPUs."""
    work = REFERENCE_STEP_S * atoms / REFERENCE_ATOMS / strength(fp32_flops, bandwidth) ** STRENGTH_EXPONENT
    exchange = 0.0 if gpus == 1 else EXCHANGE_S
    return float((LAUNCH_S + exchange + work / gpus) / relative_speed)


def ns_per_day(code: str, atoms: float, fp32_flops: float, bandwidth: float, gpus: int = 1) -> float:
    """Simulated nanoseconds a day of one trajectory."""
    seconds = step_s(atoms, fp32_flops, bandwidth, gpus, RELATIVE_SPEED[code])
    return float(SECONDS_PER_DAY / seconds * TIME_STEP_FS[code] * 1e-6)


def rates(gpu: Gpu, fp64: bool) -> tuple[float, float] | None:
    """(FLOP/s, bytes/s) for the code's arithmetic; None when the catalogue lacks one. FP64 on request only: codes mix."""
    compute = gpu.fp64_tflops if fp64 else gpu.fp32_tflops
    if compute is None or gpu.memory_bandwidth_gb_per_s is None:
        return None
    return compute * TFLOP, gpu.memory_bandwidth_gb_per_s * GB
