"""A plain two-socket server as the yardstick for work that may need no GPU at all."""

from __future__ import annotations

from dataclasses import dataclass

from app.ranges import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuServer:
    """Sustained rates of one server without GPUs.

    cores: physical. memory_gb: RAM. bandwidth_bytes_per_s: STREAM-like. fp32_flops, fp64_flops: dense, sustained.
    """

    cores: int
    memory_gb: float
    bandwidth_bytes_per_s: float
    fp32_flops: float
    fp64_flops: float


def _two_socket_server() -> CpuServer:
    """2 x 32 cores at 2.7 GHz, two 512-bit FMA units (32 FP32 FMA lanes: 64 FLOP per cycle), 24 channels DDR5-4800.

    Peak: 64 x 2.7e9 x 64 = 11.1 TFLOP/s FP32 and 24 x 38.4 = 922 GB/s. Sustained shares of 35% and 75% are
    assumptions: what tuned dense kernels and STREAM commonly reach on such machines.
    """
    cores, clock_hz, flop_per_cycle = 64, 2.7e9, 64
    channels, channel_bytes_per_s = 24, 38.4e9
    fp32 = 0.35 * cores * clock_hz * flop_per_cycle
    return CpuServer(
        cores=cores,
        memory_gb=768.0,
        bandwidth_bytes_per_s=0.75 * channels * channel_bytes_per_s,
        fp32_flops=fp32,
        fp64_flops=fp32 / 2,
    )


CPU_SERVER = _two_socket_server()

CPU_BUSY_LIMIT = 0.5
"""A CPU design counts as enough when one server is at most half busy: beyond, a GPU is asked for. Assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFit:
    """One CPU server does the work. ``busy_fraction``: share of its time within the deadline or at the peak."""

    busy_fraction: float
    memory_gb: float
    figures: dict[str, Range]
    message: str
