"""What the sizing of independent jobs shares: usable memory, GPU rates, how far one job may reach, the smallest count."""

from __future__ import annotations

from app.catalog.schema import Gpu
from app.engine.platform import Platform
from app.engine.result import Shortfall, Span
from app.units import GB, TFLOP

USABLE_MEMORY_FRACTION = 0.95
"""Driver, context and fragmentation take the rest: 275,040 of 288,000 MB are left on a B300 (AIConfigurator)."""

MAX_GPUS_PER_JOB = 4096


def usable_gb(gpu: Gpu) -> float | None:
    """GPU memory a job can use, GB; None when the catalogue does not know the memory."""
    return None if gpu.memory_gb is None else gpu.memory_gb * USABLE_MEMORY_FRACTION


def half_precision_flops(gpu: Gpu) -> float | None:
    """Dense 16-bit matrix rate, FLOP/s; None = not known."""
    rate = gpu.bf16_tflops or gpu.fp16_tflops
    return None if rate is None else rate * TFLOP


def bandwidth_bytes_per_s(gpu: Gpu) -> float | None:
    """Memory bandwidth, bytes/s; None = not known."""
    rate = gpu.memory_bandwidth_gb_per_s
    return None if rate is None else rate * GB


def span_counts(span: Span, platform: Platform, max_gpus: int) -> list[int]:
    """GPU counts of one job to try, ascending: 1; 2..all of one server; whole servers."""
    per_server = platform.gpus_per_server
    if span == "one_gpu":
        counts = [1]
    elif span == "one_server":
        counts = list(range(2, per_server + 1))
    else:
        counts, servers = [], 2
        while servers * per_server <= MAX_GPUS_PER_JOB:
            counts.append(servers * per_server)
            servers += 1 if servers < 16 else servers // 8
    return [count for count in counts if count <= max_gpus]


def unknown_figure(gpu: Gpu, what: str) -> Shortfall:
    """The catalogue lacks a figure the estimate needs: said, never guessed."""
    return Shortfall(constraint="support", needed=None, available=None, unit="", message=f"{what} of {gpu.name} is not known")


def too_few_gpus(needed: int, available: int) -> Shortfall:
    """More GPUs are needed than may be used."""
    return Shortfall(
        constraint="gpus",
        needed=needed,
        available=available,
        unit="GPUs",
        message=f"{needed} GPUs are needed and {available} may be used",
    )


def no_network(platform: Platform, span: Span) -> Shortfall | None:
    """A job across servers asked of servers without a network between them."""
    if span != "many_servers" or platform.scale_out is not None:
        return None
    return Shortfall(constraint="fabric", needed=None, available=None, unit="", message="there is no network between the servers")


def not_needed(message: str) -> Shortfall:
    """A smaller span does the work: wider ones are not offered."""
    return Shortfall(constraint="not_needed", needed=None, available=None, unit="", message=message)


def does_not_fit(needed_gb: float, available_gb: float, gpu: Gpu, split: str = "") -> Shortfall:
    """Memory of one GPU (or of all GPUs of the span) is too small."""
    return Shortfall(
        constraint="memory",
        needed=round(needed_gb, 1),
        available=round(available_gb, 1),
        unit="GB",
        message=f"{needed_gb:.0f} GB are needed and {gpu.name} leaves {available_gb:.0f} GB{split}",
    )
