"""All sensible layouts of a GPU count, evaluated at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.schema import Gpu
from app.engine.platform import Platform
from app.engine.training.constants import training_table
from app.engine.training.job import RECOMPUTE, TrainingJob, TrainingLayout
from app.engine.training.layouts import first_that_fits, joined, legal_layouts
from app.engine.training.memory import training_memory_bytes
from app.engine.training.step import StepTime, step_time
from app.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Layouts with their step and memory; ``fits`` masks those whose memory suffices. Only what fits is timed, unless
    nothing does: then one layout, the leanest."""

    layout: TrainingLayout
    step: StepTime
    memory_bytes: dict[str, NDArray[np.float64]]
    fits: NDArray[np.bool_]

    @property
    def total_bytes(self) -> NDArray[np.float64]:
        """Memory of one GPU, all components."""
        return total_bytes(self.memory_bytes)

    def best(self) -> int | None:
        """Index of the fastest layout that fits, or None. Ties go to the earlier, simpler one."""
        if not self.fits.any():
            return None
        return int(np.argmin(np.where(self.fits, self.step.step_s, np.inf)))

    def at(self, index: int) -> Searched:
        """The layout at one index alone."""
        return Searched(**{item.name: _entry(getattr(self, item.name), index) for item in fields(self)})


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest layout of a GPU count among those evaluated with it (the leanest where none fits)."""

    among: Searched
    index: int
    step_s: float
    total_bytes: float
    """Memory of one GPU, all components."""
    fits: bool

    def alone(self) -> Searched:
        """That layout by itself."""
        return self.among.at(self.index)


def total_bytes(memory_bytes: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Sum of the components of a memory estimate."""
    parts = list(memory_bytes.values())
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _entry(value: Any, index: int) -> Any:
    """One entry of every array inside ``value``, kept as an array of one."""
    if isinstance(value, np.ndarray):
        return value[index : index + 1]
    if isinstance(value, Mapping):
        return {name: _entry(part, index) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_entry(part, index) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{item.name: _entry(getattr(value, item.name), index) for item in fields(value)})
    return value


def usable_bytes(platform: Platform) -> float:
    """Memory of one GPU that a run can use, bytes. Vendors' GB of GPU memory are GiB (an 80 GB card has 79.6 GiB); the
    driver keeps the rest."""
    if platform.gpu.memory_gb is None:
        raise ValueError(f"{platform.gpu.id} has no memory size in the catalogue")
    return float(platform.gpu.memory_gb * GIB * training_table()["memory"]["usable_fraction"])


def search(job: TrainingJob, platform: Platform, gpus: int) -> Searched | None:
    """Step and memory of every legal layout of a GPU count; None when none is legal."""
    layout = legal_layouts(job, platform, gpus)
    return None if layout is None else evaluate(job, platform, layout)


def evaluate(job: TrainingJob, platform: Platform, layout: TrainingLayout) -> Searched:
    """Memory of every layout, and the step of those that fit (of the leanest where none does)."""
    memory = training_memory_bytes(job, layout)
    total = total_bytes(memory)
    fits = total <= usable_bytes(platform)
    kept = np.flatnonzero(fits) if fits.any() else np.array([int(np.argmin(total))])
    layout = layout.take(kept)
    memory = {name: value[kept] for name, value in memory.items()}
    return Searched(layout=layout, step=step_time(job, platform, layout), memory_bytes=memory, fits=fits[kept])


Memo = tuple[Gpu, dict[int, Best | None]]
_MEMORY: OrderedDict[Hashable, Memo] = OrderedDict()
_MEMORY_ENTRIES = 256


def best_by_count(job: TrainingJob, platform: Platform, counts: Iterable[int]) -> dict[int, Best | None]:
    """The fastest layout of each GPU count (the leanest where none fits, None where none is legal), all counts in one
    evaluation. Answers are remembered: what a deadline or a budget changes is which of them is chosen.

    The memory is keyed by everything the answer depends on; the GPU row is kept beside the answers, so that its
    identity stands for its content.
    """
    key = (job, id(platform.gpu), platform.gpus_per_server, platform.scale_up, platform.scale_out, platform.server and platform.server.id)
    _, known = _MEMORY.setdefault(key, (platform.gpu, {}))
    _MEMORY.move_to_end(key)
    while len(_MEMORY) > _MEMORY_ENTRIES:
        _MEMORY.popitem(last=False)
    counts = tuple(counts)
    missing = [count for count in dict.fromkeys(counts) if count not in known]
    known.update(_best_of(job, platform, missing))
    return {count: known[count] for count in counts}


def _best_of(job: TrainingJob, platform: Platform, counts: Sequence[int]) -> dict[int, Best | None]:
    """:func:`best_by_count` without the memory. Recomputation never makes a step faster, so it is timed only where the
    same layout does not fit without."""
    legal = {count: legal_layouts(job, platform, count) for count in counts}
    found: dict[int, Best | None] = dict.fromkeys(counts)
    layouts = {count: layout for count, layout in legal.items() if layout is not None}
    if not layouts:
        return found
    together = joined(list(layouts.values()))
    memory = training_memory_bytes(job, together)
    total = total_bytes(memory)
    limit = usable_bytes(platform)
    kept = []
    start = 0
    for layout in layouts.values():
        part = total[start : start + layout.tp.size]
        inside = np.flatnonzero(first_that_fits(layout, part <= limit, len(RECOMPUTE)))
        kept.append(start + (inside if inside.size else np.array([int(np.argmin(part))])))
        start += layout.tp.size
    index = np.concatenate(kept)
    timed = Searched(
        layout=together.take(index),
        step=step_time(job, platform, together.take(index)),
        memory_bytes={name: value[index] for name, value in memory.items()},
        fits=total[index] <= limit,
    )
    seconds = timed.step.step_s
    start = 0
    for count, part_index in zip(layouts, kept, strict=True):
        stop = start + part_index.size
        best = start + int(np.argmin(seconds[start:stop]))
        found[count] = Best(timed, best, float(seconds[best]), float(total[index[best]]), bool(timed.fits[best]))
        start = stop
    return found


def forget() -> None:
    """Drop remembered answers: for measuring how long a search takes."""
    _MEMORY.clear()
