"""Arithmetic peaks by precision, and the time of matrix products and of memory-bound kernels."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.catalog.schema import Gpu
from app.units import GB, TFLOP

FloatArray = NDArray[np.float64]


@cache
def compute_constants() -> dict[str, Any]:
    """Fitted efficiencies (``data/compute.toml``) with the fit that produced them."""
    text = (resources.files("app.engine") / "data" / "compute.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def peak_flops(gpu: Gpu, precision: str) -> float | None:
    """Dense peak, FLOP/s, in a precision; the next wider format the hardware has where it lacks one.

    fp4 falls back to fp8, fp8 and int8 to 16 bits, bf16 to fp16, 16 bits to fp32. None: no figure is known.
    """
    ladder = {
        "fp4": (gpu.fp4_tflops, gpu.fp8_tflops, gpu.bf16_tflops, gpu.fp16_tflops, gpu.fp32_tflops),
        "fp8": (gpu.fp8_tflops, gpu.bf16_tflops, gpu.fp16_tflops, gpu.fp32_tflops),
        "int8": (gpu.int8_tops, gpu.bf16_tflops, gpu.fp16_tflops, gpu.fp32_tflops),
        "bf16": (gpu.bf16_tflops, gpu.fp16_tflops, gpu.fp32_tflops),
        "fp16": (gpu.fp16_tflops, gpu.bf16_tflops, gpu.fp32_tflops),
        "fp32": (gpu.tf32_tflops, gpu.fp32_tflops),
        "fp64": (gpu.fp64_tflops,),
    }[precision]
    return next((value * TFLOP for value in ladder if value is not None), None)


def generation_constants(gpu: Gpu) -> dict[str, float]:
    """Efficiencies of a GPU's generation; those of the ``default`` entry where the generation has none of its own."""
    table = compute_constants()["generation"]
    return {**table["default"], **table.get(gpu.generation, {})}


def memory_bandwidth(gpu: Gpu) -> float:
    """Sustained memory bandwidth, bytes/s: the catalogue's peak times the generation's share of it."""
    if gpu.memory_bandwidth_gb_per_s is None:
        raise ValueError(f"{gpu.id} has no memory bandwidth in the catalogue")
    return gpu.memory_bandwidth_gb_per_s * GB * generation_constants(gpu)["memory_share"]


def memory_time_s(bytes_moved: ArrayLike, gpu: Gpu) -> FloatArray:
    """Seconds of a memory-bound kernel: bytes over sustained bandwidth (roofline, Williams et al. 2009)."""
    return np.asarray(bytes_moved, dtype=float) / memory_bandwidth(gpu)


def gemm_efficiency(m: ArrayLike, n: ArrayLike, k: ArrayLike, gpu: Gpu, precision: str) -> FloatArray:
    """Share of peak a product of m x k by k x n reaches: ``e_max * s(m) * s(n) * s(k)`` with ``s(x) = x / (x + x_half)``.

    x_half is the side at which half the peak is reached; it grows with the ratio of peak to bandwidth, since
    faster units need larger tiles to stay fed. e_max and x_half are fitted by generation.
    """
    constants = generation_constants(gpu)
    top = constants["gemm_share_8bit"] if precision in ("fp8", "fp4") else constants["gemm_share"]
    half = constants["gemm_half_side"] * (2.0 if precision in ("fp8", "fp4") else 1.0)
    sides = [np.asarray(side, dtype=float) for side in (m, n, k)]
    result: FloatArray = top * np.prod(np.broadcast_arrays(*(side / (side + half) for side in sides)), axis=0)
    return result


def narrow_formats(gpu: Gpu) -> tuple[str, ...]:
    """Formats below 16 bits that the GPU multiplies floats in, widest first."""
    return tuple(name for name, rate in (("fp8", gpu.fp8_tflops), ("fp4", gpu.fp4_tflops)) if rate is not None)


def gemm_time_s(m: ArrayLike, n: ArrayLike, k: ArrayLike, precision: str, gpu: Gpu, *, bytes_per_weight: float = 2.0) -> FloatArray:
    """Seconds of one matrix product: arithmetic at its efficiency, or its operands over the bandwidth, whichever is longer."""
    peak = peak_flops(gpu, precision)
    if peak is None:
        raise ValueError(f"{gpu.id} has no {precision} rate in the catalogue")
    rows, columns, inner = (np.asarray(side, dtype=float) for side in (m, n, k))
    arithmetic = 2 * rows * columns * inner / (peak * gemm_efficiency(rows, columns, inner, gpu, precision))
    moved = (columns * inner) * bytes_per_weight + (rows * inner + rows * columns) * 2
    longer: FloatArray = np.maximum(arithmetic, memory_time_s(moved, gpu))
    return longer
