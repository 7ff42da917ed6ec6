"""Every legal layout of a GPU count, as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.engine.platform import Platform
from app.engine.training.job import OFFLOAD, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
MAX_PIPELINE = 128
SHORT_STAGES = 0.06
"""Most layers a pipeline may fall short of equal stages, as a share of all."""
INTERLEAVED = (1, 2, 4, 6, 8, 12)
"""Virtual stages per rank: more cut the bubble further and send more messages."""
TENSOR_DEGREES = (1, 2, 4, 8, 16, 32, 64)
CONTEXT_DEGREES = (1, 2, 4, 8, 16, 32)
EXPERT_DEGREES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXT_TOKENS = 4096
"""Fewest tokens of a sequence worth leaving to one rank of a context-parallel group: MLPerf entries split 8,192 in two,
Llama 3 splits 131,072 in 16 (arXiv 2407.21783)."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choices:
    """What may vary beside the parallel degrees. ``hybrid`` offers FSDP's sharding inside each server, too."""

    recompute: tuple[str, ...] = RECOMPUTE
    sharding: tuple[str, ...] = ("zero1", "zero2", "zero3")
    """Where there is more than one replica. Plain data parallelism keeps a whole optimizer on every rank for no gain in time."""
    hybrid: bool = True
    offload: tuple[str, ...] = ("none",)


@dataclass(frozen=True, slots=True)
class Splits:
    """Parallel degrees, arrays of one length."""

    tp: FloatArray
    pp: FloatArray
    dp: FloatArray
    ep: FloatArray
    cp: FloatArray

    def rows(self) -> list[tuple[float, ...]]:
        """(tp, pp, dp, ep, cp) one by one."""
        return list(zip(*(getattr(self, item.name).tolist() for item in fields(self)), strict=True))


def legal_splits(job: TrainingJob, platform: Platform, gpus: int) -> Splits | None:
    """Every legal split of ``gpus`` GPUs: TP divides the heads and stays in the fast domain, PP divides the layers
    (nearly), EP divides the experts, CP splits long sequences, DP takes the rest and does not exceed the global batch."""
    return _splits(_key(job, platform, gpus))


def legal_layouts(job: TrainingJob, platform: Platform, gpus: int, choices: Choices | None = None) -> TrainingLayout | None:
    """Every legal split with every micro-batch, interleaving, sharding, offload and recomputation that goes with it.

    Innermost runs recomputation, all of ``choices.recompute``; None where no split is legal.
    """
    key = _key(job, platform, gpus)
    return _layouts(key, choices or Choices(), job.frozen_base, platform.gpus_per_server)


@dataclass(frozen=True, slots=True)
class Key:
    """All that splits depend on: platforms of a search that agree in it share their layouts."""

    gpus: int
    domain: int
    """GPUs the fast links join."""
    heads: int
    kv_heads: int
    layers: int
    experts: int
    seq_len: int
    batch: int


def _key(job: TrainingJob, platform: Platform, gpus: int) -> Key:
    shape = job.shape
    over_pcie = platform.scale_up.kind.startswith("pcie")
    domain = platform.gpus_per_server if over_pcie else platform.scale_up.domain_gpus
    experts = shape.experts if shape.is_moe else 0
    batch = int(job.global_batch_sequences)
    return Key(gpus, min(domain, gpus), shape.heads, shape.kv_heads, shape.layers, experts, job.seq_len, batch)


@lru_cache(maxsize=512)
def _splits(key: Key) -> Splits | None:
    """:func:`legal_splits` of a key."""
    gpus, experts, batch = key.gpus, key.experts, key.batch
    tensor = [value for value in TENSOR_DEGREES if value <= key.domain and divides_heads(value, key.heads, key.kv_heads)]
    pipeline = [value for value in _stage_counts(key.layers) if value <= gpus]
    context = [value for value in CONTEXT_DEGREES if value == 1 or key.seq_len >= CONTEXT_TOKENS * value]
    rows: list[tuple[int, ...]] = []
    for tp, pp, cp in itertools.product(tensor, pipeline, context):
        dp, rest = divmod(gpus, tp * pp * cp)
        if rest or dp > batch:
            continue
        degrees = [value for value in EXPERT_DEGREES if experts % value == 0 and (dp * cp * tp) % value == 0] if experts else [1]
        rows.extend((tp, pp, dp, ep, cp) for ep in degrees)
    return Splits(*np.array(rows, dtype=float).T) if rows else None


@lru_cache(maxsize=64)
def _stage_counts(layers: int) -> tuple[int, ...]:
    """Pipeline stages of a model: equal ones, or some a layer short when that wastes little. The embedding and the head
    take the missing layers' place: 126 layers on 16 stages (arXiv 2407.21783, section 3.3), 61 on 8 or 16."""
    counts = np.arange(1, min(MAX_PIPELINE, max(layers, 1)) + 1)
    return tuple(int(count) for count in counts[nearly_equal(layers, counts)])


def nearly_equal(layers: int, stages: NDArray[np.number]) -> NDArray[np.bool_]:
    """Whether stages of whole layers leave at most :data:`SHORT_STAGES` of the places free."""
    most = (1 + SHORT_STAGES) * layers
    return np.asarray((stages <= most) & (np.ceil(layers / stages) * stages <= most))


def divides_heads(tp: int, heads: int, kv_heads: int) -> bool:
    """Query heads divide evenly; KV heads divide or are copied whole."""
    if heads == 0:
        return tp == 1
    return heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


@lru_cache(maxsize=64)
def _options(choices: Choices) -> tuple[FloatArray, ...]:
    """(micro-batch, virtual stages, sharding, hybrid, offload, recompute) of every option, whatever the split."""
    sharding = [("none", 0), *((name, 0) for name in choices.sharding if name != "none")]
    sharding += [("zero3", 1)] if choices.hybrid else []
    rows = [
        (micro, vp, SHARDING.index(name), hybrid, OFFLOAD.index(offload), RECOMPUTE.index(recompute))
        for micro, vp, (name, hybrid), offload, recompute in itertools.product(
            MICRO_BATCHES, INTERLEAVED, sharding, choices.offload, choices.recompute
        )
    ]
    return tuple(np.array(rows, dtype=float).T)


@lru_cache(maxsize=64)
def _layouts(key: Key, choices: Choices, frozen: bool, per_server: int) -> TrainingLayout | None:
    """Splits by options, those that make sense together: :func:`legal_layouts` of a key.

    Interleaved schedules need whole rounds of micro-batches over the stages (arXiv 2104.04473, section 2.2). A pipeline adds
    up whole gradients and keeps its weights at hand from one micro-batch to the next (see :mod:`app.engine.training.memory`), so
    that ZeRO-2 and 3 would save nothing over ZeRO-1 there. Adapters are too small to split by themselves: a frozen base is split
    with them (ZeRO-3) or not at all. Hybrid sharding keeps one copy in each server, where there are several.
    """
    splits = _splits(key)
    if splits is None:
        return None
    layers, batch = key.layers, key.batch
    micro, vp, sharding, hybrid, offload, recompute = (column[np.newaxis, :] for column in _options(choices))
    tp, pp, dp, _, cp = (getattr(splits, item.name)[:, np.newaxis] for item in fields(splits))
    replicas = dp * cp
    inside = np.maximum(per_server // tp, 1.0)
    whole = np.where((replicas > 1) & (not frozen) & ("none" not in choices.sharding), sharding > 0, (sharding == 0) | (replicas > 1))
    zero3 = sharding == SHARDING.index("zero3")
    legal = (micro * dp <= batch) & whole
    legal &= (sharding <= SHARDING.index("zero1")) | (pp == 1)
    if frozen:
        legal &= (sharding == 0) | zero3
    # Where the stages are equal their virtual parts are too: launchers refuse a remainder.
    cut = np.where(layers % pp == 0, layers % (pp * vp) == 0, nearly_equal(layers, pp * vp))
    legal &= (vp == 1) | ((pp > 1) & cut & (batch // (dp * micro) % pp == 0))
    legal &= (hybrid == 0) | ((inside > 1) & (replicas > inside) & (replicas % inside == 0))
    which, option = np.nonzero(legal)
    if not which.size:
        return None
    return TrainingLayout(
        **{item.name: getattr(splits, item.name)[which] for item in fields(splits)},
        vp=vp[0, option],
        micro_batch=micro[0, option],
        recompute=recompute[0, option],
        sharding=sharding[0, option],
        shard_ranks=hybrid[0, option] * inside[which, 0],
        offload=offload[0, option],
    )


def joined(layouts: Sequence[TrainingLayout]) -> TrainingLayout:
    """Several sets of layouts as one."""
    return TrainingLayout(**{item.name: np.concatenate([getattr(each, item.name) for each in layouts]) for item in fields(TrainingLayout)})


def first_that_fits(layout: TrainingLayout, fits: NDArray[np.bool_], recompute: int) -> NDArray[np.bool_]:
    """``fits`` without layouts that cannot be the fastest: recomputation, and ZeRO-2 beside ZeRO-1, save memory and never
    time, so that they are for what does not fit without.

    layout: as :func:`legal_layouts` orders it, ``recompute`` neighbours each.
    """
    choices = fits.reshape(-1, recompute)
    earlier = np.logical_or.accumulate(choices, axis=1)
    wanted = choices.copy()
    wanted[:, 1:] &= ~earlier[:, :-1]
    kept = wanted.reshape(-1)
    partner = np.zeros_like(kept)
    partner[recompute:] = fits[:-recompute]
    previous = np.zeros_like(kept)
    previous[recompute:] = layout.sharding[:-recompute] == SHARDING.index("zero1")
    result: NDArray[np.bool_] = kept & ~((layout.sharding == SHARDING.index("zero2")) & previous & partner)
    return result
