"""All sensible layouts of a GPU count, evaluated at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from app.engine.platform import Platform
from app.engine.training.constants import training_table
from app.engine.training.job import RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.memory import training_memory_bytes
from app.engine.training.step import StepTime, step_time
from app.units import GIB

MICRO_BATCHES = (1, 2, 4, 8, 16)
MAX_PIPELINE = 32
TENSOR_DEGREES = (1, 2, 4, 8, 16, 32, 64)
CONTEXT_DEGREES = (1, 2, 4, 8, 16)
EXPERT_DEGREES = (1, 2, 4, 8, 16, 32, 64)
LONG_SEQUENCE = 16_384
"""Tokens from which context parallelism is considered."""


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
    """Memory of one GPU that a run can use, bytes. Vendors' GB of GPU memory are GiB (an 80 GB card has 79.6 GiB); the
    driver keeps the rest."""
    if platform.gpu.memory_gb is None:
        raise ValueError(f"{platform.gpu.id} has no memory size in the catalogue")
    return float(platform.gpu.memory_gb * GIB * training_table()["memory"]["usable_fraction"])


@cache
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(value for value in range(1, number + 1) if number % value == 0)


def legal_layouts(job: TrainingJob, platform: Platform, gpus: int) -> TrainingLayout | None:
    """Every legal layout of ``gpus`` GPUs: TP divides the heads and stays in the fast domain, PP divides the layers,
    EP divides the experts, CP splits long sequences, DP takes the rest and does not exceed the global batch."""
    shape = job.shape
    over_pcie = platform.scale_up.kind.startswith("pcie")
    domain = platform.gpus_per_server if over_pcie else platform.scale_up.domain_gpus
    return _layouts(
        gpus,
        domain,
        (shape.heads, shape.kv_heads, shape.layers, shape.experts if shape.is_moe else 0),
        job.seq_len >= LONG_SEQUENCE,
        int(job.global_batch_sequences),
        job.frozen_base,
    )


@lru_cache(maxsize=512)
def _layouts(
    gpus: int, domain: int, dimensions: tuple[int, int, int, int], long: bool, batch: int, frozen: bool
) -> TrainingLayout | None:
    """The layouts themselves: they depend on the model's dimensions only, so every platform of a search shares them."""
    heads, kv_heads, layers, experts = dimensions
    tensor = [value for value in TENSOR_DEGREES if value <= min(domain, gpus) and _divides_heads(value, heads, kv_heads)]
    pipeline = [value for value in _divisors(layers) if value <= min(MAX_PIPELINE, gpus)]
    rows: list[tuple[int, ...]] = []
    for tp, pp, cp in itertools.product(tensor, pipeline, CONTEXT_DEGREES if long else (1,)):
        dp, rest = divmod(gpus, tp * pp * cp)
        if rest or dp > batch:
            continue
        degrees = [value for value in EXPERT_DEGREES if experts % value == 0 and value <= dp * tp] if experts else [1]
        for ep in degrees:
            rows.extend(_options(frozen, layers, batch, (tp, pp, dp, ep, cp)))
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


def _options(frozen: bool, layers: int, batch: int, degrees: tuple[int, int, int, int, int]) -> list[tuple[int, ...]]:
    """Micro-batch, recomputation, sharding and interleaving variants of one split."""
    _, pp, dp, _, cp = degrees
    if dp * cp == 1:
        sharding = ["none"]
    elif frozen:
        sharding = ["none", "zero3"] if pp == 1 else ["none"]
    else:
        sharding = ["zero1", "zero3"] if pp == 1 else ["zero1"]
    interleave = [1, 2] if pp > 1 and (layers // pp) % 2 == 0 else [1]
    found: list[tuple[int, ...]] = []
    for micro in MICRO_BATCHES:
        if micro * dp > batch:
            break
        for recompute, shard, vp in itertools.product(("none", "full"), sharding, interleave):
            found.append((*degrees, vp, micro, RECOMPUTE.index(recompute), SHARDING.index(shard)))
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
