"""All sensible layouts of a GPU count, evaluated at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from app.engine.compute import GB
from app.engine.platform import Platform
from app.engine.training.job import RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.memory import training_memory_bytes
from app.engine.training.step import StepTime, step_time

USABLE_FRACTION = 0.94
"""Share of a GPU's nameplate memory training can use: driver reserve and the margin before out-of-memory."""
MICRO_BATCHES = (1, 2, 4, 8, 16)
MAX_PIPELINE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Layouts of one search with their step and memory; ``fits`` masks those whose memory suffices."""

    layout: TrainingLayout
    step: StepTime
    memory_bytes: dict[str, NDArray[np.float64]]
    fits: NDArray[np.bool_]

    @property
    def total_bytes(self) -> NDArray[np.float64]:
        """Memory of one GPU, all components."""
        return np.sum(list(self.memory_bytes.values()), axis=0)

    def best(self) -> int | None:
        """Index of the fastest layout that fits, or None. Ties go to the earlier, simpler one."""
        if not self.fits.any():
            return None
        return int(np.argmin(np.where(self.fits, self.step.step_s, np.inf)))


def usable_bytes(platform: Platform) -> float:
    """Memory of one GPU that a run can use, bytes."""
    if platform.gpu.memory_gb is None:
        raise ValueError(f"{platform.gpu.id} has no memory size in the catalogue")
    return platform.gpu.memory_gb * GB * USABLE_FRACTION


@cache
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(value for value in range(1, number + 1) if number % value == 0)


def legal_layouts(job: TrainingJob, platform: Platform, gpus: int) -> TrainingLayout | None:
    """Every legal layout of ``gpus`` GPUs: TP divides the heads and stays in the fast domain, PP divides the layers,
    EP divides the experts, CP splits long sequences, DP takes the rest and does not exceed the global batch."""
    shape = job.shape
    domain = platform.scale_up.domain_gpus if not platform.scale_up.kind.startswith("pcie") else platform.gpus_per_server
    tensor = [
        value for value in (1, 2, 4, 8, 16, 32, 64) if value <= min(domain, gpus) and _divides_heads(value, shape.heads, shape.kv_heads)
    ]
    pipeline = [value for value in _divisors(shape.layers) if value <= min(MAX_PIPELINE, gpus)] if gpus > 1 else [1]
    context = [1] if job.seq_len < 16_384 else [1, 2, 4, 8, 16]
    rows: list[tuple[int, ...]] = []
    for tp, pp, cp in itertools.product(tensor, pipeline, context):
        if gpus % (tp * pp * cp):
            continue
        dp = gpus // (tp * pp * cp)
        if dp > job.global_batch_sequences:
            continue
        eps = [value for value in (1, 2, 4, 8, 16, 32, 64) if shape.experts % value == 0 and value <= dp * tp] if shape.is_moe else [1]
        for ep in eps:
            rows.extend(_options(job, tp, pp, dp, ep, cp))
    if not rows:
        return None
    columns = np.array(rows, dtype=float).T
    names = ("tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "recompute", "sharding")
    return TrainingLayout(**dict(zip(names, columns, strict=True)))


def _divides_heads(tp: int, heads: int, kv_heads: int) -> bool:
    """Query heads divide evenly; KV heads divide or are copied whole."""
    if heads == 0:
        return tp == 1
    return heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


def _options(job: TrainingJob, tp: int, pp: int, dp: int, ep: int, cp: int) -> list[tuple[int, ...]]:
    """Micro-batch, recomputation, sharding and interleaving variants of one split."""
    found = []
    sharding = ["none"] if dp * cp == 1 else (["zero1", "zero3"] if pp == 1 else ["zero1"])
    if job.frozen_base and dp * cp > 1:
        sharding = ["none", "zero3"] if pp == 1 else ["none"]
    interleave = [1] if pp == 1 or (job.shape.layers // pp) % 2 else [1, 2]
    for micro in MICRO_BATCHES:
        if micro * dp > job.global_batch_sequences:
            break
        for recompute, shard, vp in itertools.product(RECOMPUTE if not job.flash_attention else ("none", "full"), sharding, interleave):
            found.append((tp, pp, dp, ep, cp, vp, micro, RECOMPUTE.index(recompute), SHARDING.index(shard)))
    return found


def search(job: TrainingJob, platform: Platform, gpus: int) -> Searched | None:
    """Step and memory of every legal layout of a GPU count; None when none is legal."""
    layout = legal_layouts(job, platform, gpus)
    if layout is None:
        return None
    memory = training_memory_bytes(job, layout)
    fits = np.sum(list(memory.values()), axis=0) <= usable_bytes(platform)
    if fits.any():
        # Only what fits is timed: the rest cannot be chosen.
        layout = layout.take(fits)
        memory = {name: value[fits] for name, value in memory.items()}
        fits = np.ones(int(fits.sum()), dtype=bool)
    else:
        smallest = np.array([int(np.argmin(np.sum(list(memory.values()), axis=0)))])
        layout = layout.take(smallest)
        memory = {name: value[smallest] for name, value in memory.items()}
        fits = np.zeros(1, dtype=bool)
    return Searched(layout=layout, step=step_time(job, platform, layout), memory_bytes=memory, fits=fits)
