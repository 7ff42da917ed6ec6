"""The layouts worth choosing between: the Pareto front of all that fit, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.catalog.schema import Gpu
from app.engine.compute import narrow_formats
from app.engine.pareto import pareto_front
from app.engine.platform import Platform
from app.engine.training.job import OFFLOAD, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.layouts import Choices, joined, legal_layouts
from app.engine.training.memory import training_memory_bytes
from app.engine.training.search import Searched, evaluate, total_bytes, usable_bytes
from app.units import GB

EVERYTHING = Choices(sharding=("none", *SHARDING[1:]), offload=OFFLOAD[:2])
"""All choices, with plain data parallelism and optimizer state in host memory."""
Objective = Literal["step_s", "gpu_seconds", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("step_s", "gpu_seconds", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Legal layouts whose memory does not suffice, with the bytes they need and the component that needs most."""

    layout: TrainingLayout
    total_bytes: NDArray[np.float64]
    usable_bytes: float
    component: tuple[str, ...]
    largest: NDArray[np.intp]
    """Index into ``component``."""

    def reason(self, index: int) -> str:
        """Why one layout is refused."""
        need, have = self.total_bytes[index] / GB, self.usable_bytes / GB
        return f"needs {need:.0f} GB per GPU, most of it {self.component[int(self.largest[index])]}; {have:.0f} GB are usable"

    def by_component(self) -> dict[str, int]:
        """Refused layouts by the component that needs most, most frequent first."""
        counts = np.bincount(self.largest, minlength=len(self.component))
        return {self.component[index]: int(counts[index]) for index in np.argsort(-counts, kind="stable") if counts[index]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One layout with its precision, step and memory."""

    precision: str
    found: Searched

    @property
    def gpus(self) -> float:
        """GPUs of the layout."""
        return float(self.found.layout.gpus[0])

    @property
    def step_s(self) -> float:
        """Seconds of one optimizer step."""
        return float(self.found.step.step_s[0])

    @property
    def total_bytes(self) -> float:
        """Memory of one GPU."""
        return float(self.found.total_bytes[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSearch:
    """Layouts no other beats in GPUs, step time and memory at once; all that were refused, by precision; how many were tried."""

    front: tuple[Choice, ...]
    refused: dict[str, Refused]
    evaluated: int

    def best(self, objective: Objective = "step_s") -> Choice | None:
        """The fastest, the one of fewest GPU-seconds a step, or the leanest: each lies on the front."""
        keys = {
            "step_s": lambda each: (each.step_s, each.gpus),
            "gpu_seconds": lambda each: (each.step_s * each.gpus, each.step_s),
            "memory": lambda each: (each.total_bytes, each.step_s),
        }
        return min(self.front, key=keys[objective], default=None)


def precisions_of(gpu: Gpu) -> tuple[str, ...]:
    """16 bits, and the narrower formats the GPU has arithmetic for."""
    return ("bf16", *narrow_formats(gpu))


def refused(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> Refused:
    """The layouts that do not fit."""
    memory = training_memory_bytes(job, layout)
    total = total_bytes(memory)
    over = np.flatnonzero(total > usable_bytes(platform))
    parts = np.stack([part[over] for part in memory.values()])
    return Refused(
        layout=layout.take(over),
        total_bytes=total[over],
        usable_bytes=usable_bytes(platform),
        component=tuple(memory),
        largest=np.argmax(parts, axis=0),
    )


def search_training(
    job: TrainingJob,
    platform: Platform,
    gpu_counts: Iterable[int],
    precisions: Sequence[str] = (),
    choices: Choices = EVERYTHING,
) -> TrainingSearch:
    """Every legal layout of every count in every precision (the job's where none is named)."""
    found: list[tuple[str, Searched]] = []
    left: dict[str, list[TrainingLayout]] = {}
    evaluated = 0
    for precision in precisions or (job.precision,):
        work = replace(job, precision=precision)
        for count in gpu_counts:
            layout = legal_layouts(work, platform, count, choices)
            if layout is None:
                continue
            evaluated += layout.tp.size
            left.setdefault(precision, []).append(layout)
            searched = evaluate(work, platform, layout)
            if searched.fits.any():
                found.append((precision, searched))
    masked = {name: refused(replace(job, precision=name), platform, joined(layouts)) for name, layouts in left.items()}
    return TrainingSearch(front=_front(found), refused=masked, evaluated=evaluated)


def _front(found: Sequence[tuple[str, Searched]]) -> tuple[Choice, ...]:
    """The front over all precisions and counts; fewest GPUs first, then fastest."""
    if not found:
        return ()
    points = np.concatenate([np.stack([each.layout.gpus, each.step.step_s, each.total_bytes], axis=1) for _, each in found])
    offsets = np.cumsum([0, *(each.layout.tp.size for _, each in found)])
    chosen = []
    for index in pareto_front(points):
        owner = int(np.searchsorted(offsets, index, side="right")) - 1
        precision, each = found[owner]
        chosen.append(Choice(precision=precision, found=each.at(int(index - offsets[owner]))))
    return tuple(chosen)


def described(layout: TrainingLayout) -> dict[str, Any]:
    """The first of some layouts in the words of a request."""
    return {
        **{name: int(getattr(layout, name)[0]) for name in ("tp", "pp", "dp", "ep", "cp", "vp", "micro_batch")},
        "recompute": RECOMPUTE[int(layout.recompute[0])],
        "sharding": SHARDING[int(layout.sharding[0])],
        "shard_ranks": int(layout.shard_group[0]) if layout.sharding[0] else 1,
        "offload": OFFLOAD[int(layout.offload[0])],
    }
