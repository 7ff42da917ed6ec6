"""Strong and weak scaling: measured efficiency against predicted, where one source ran the same work on several GPU counts.

Efficiency: rate per GPU over that of the smallest count of the set. Strong: the same batch on more GPUs; weak: the same
batch per GPU. A set holds all else equal that the source states: model, GPU, sequence, precision, sharding, recomputation,
micro-batch, software, and tensor, pipeline and context degrees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.engine.training.explicit import stated_shard_group
from app.validation.statistics import Point

Row = Mapping[str, str]
FEWEST_COUNTS = 3
ALLOWED_POINTS = 6.0
SAME = (
    "source_key", "model", "gpu_id", "seq_len", "precision", "sharding", "recompute", "task", "software", "tp", "pp", "cp",
    "vp", "micro_batch",
)  # fmt: skip
"""Columns that runs of one set share."""
SAME_BATCH = 0.02
"""Relative difference of two batches (in all, or per GPU) that count as the same."""


@dataclass(frozen=True, slots=True)
class ScalingSet:
    """Runs of the same work on several GPU counts, smallest first; ``measured`` and ``predicted`` are efficiencies."""

    source_key: str
    model: str
    gpu_id: str
    kind: str
    layout: str
    gpus: tuple[int, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...]

    @property
    def worst_points(self) -> float:
        """Largest difference of the two, percentage points."""
        return max(abs(left - right) for left, right in zip(self.measured, self.predicted, strict=True)) * 100

    def as_dict(self) -> dict[str, Any]:
        """The public report form."""
        return {
            "source_key": self.source_key,
            "model": self.model,
            "gpu_id": self.gpu_id,
            "kind": self.kind,
            "layout": self.layout,
            "gpus": list(self.gpus),
            "measured": list(self.measured),
            "predicted": list(self.predicted),
            "worst_points": self.worst_points,
        }


@dataclass(frozen=True, slots=True)
class _Run:
    gpus: int
    batch: float
    measured: float
    predicted: float


def scaling_report(rows: Iterable[tuple[Row, Point]]) -> dict[str, Any]:
    """All sets of three counts and more, and how many are predicted within :data:`ALLOWED_POINTS` points throughout.

    ``sources_within`` counts a source whose median set is.
    """
    sets = scaling_sets(rows)
    by_source: dict[str, list[float]] = defaultdict(list)
    for each in sets:
        by_source[each.source_key].append(each.worst_points)
    return {
        "sets": len(sets),
        "within_6_points": sum(each.worst_points <= ALLOWED_POINTS for each in sets),
        "sources": len(by_source),
        "sources_within": sum(float(np.median(values)) <= ALLOWED_POINTS for values in by_source.values()),
        "per_set": [each.as_dict() for each in sets],
    }


def scaling_sets(rows: Iterable[tuple[Row, Point]]) -> list[ScalingSet]:
    """Sets of runs that differ in the GPU count only, in the order of the rows."""
    groups: dict[tuple[str, ...], list[_Run]] = defaultdict(list)
    for row, point in rows:
        run = _run(row, point)
        if run is not None:
            groups[(*(row.get(name, "") for name in SAME), _shard_group(row), point.metric)].append(run)
    found = []
    for key, runs in groups.items():
        about = {**dict(zip(SAME, key, strict=False)), "group": key[len(SAME)]}
        for kind, members in _by_batch(runs):
            gpus, measured, predicted = _efficiencies(members)
            if len(gpus) >= FEWEST_COUNTS:
                layout = " ".join(f"{name}{about[name]}" for name in ("tp", "pp", "cp", "vp", "group") if about[name] not in ("", "0", "1"))
                found.append(
                    ScalingSet(
                        about["source_key"], about["model"], about["gpu_id"], kind, f"{layout} {about['sharding']}".strip(),
                        gpus, measured, predicted,
                    )
                )  # fmt: skip
    return found


def _shard_group(row: Row) -> str:
    """GPUs that share one copy of sharded state, where the row's notes name them."""
    return f"{stated_shard_group(row.get('notes', '').lower()) or 0:.0f}"


def _run(row: Row, point: Point) -> _Run | None:
    """Rates per GPU of a row (work of a step over seconds and GPUs where it states seconds)."""
    try:
        gpus, batch = int(float(row.get("n_gpus") or 0)), float(row.get("global_batch_seqs") or 0)
    except ValueError:
        return None
    if gpus < 1 or batch <= 0:
        return None
    if point.metric == "step_s":
        return _Run(gpus, batch, batch / gpus / point.measured, batch / gpus / point.predicted)
    return _Run(gpus, batch, point.measured, point.predicted)


def _by_batch(runs: Sequence[_Run]) -> list[tuple[str, list[_Run]]]:
    """Runs of one batch (strong), and of one batch per GPU (weak)."""
    found: list[tuple[str, list[_Run]]] = []
    for kind in ("strong", "weak"):
        sizes = [run.batch if kind == "strong" else run.batch / run.gpus for run in runs]
        left = list(range(len(runs)))
        while left:
            same = [index for index in left if abs(sizes[index] / sizes[left[0]] - 1) <= SAME_BATCH]
            found.append((kind, [runs[index] for index in same]))
            left = [index for index in left if index not in same]
    return found


def _efficiencies(runs: Sequence[_Run]) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    """(GPU counts, measured, predicted) against the smallest count; runs of one count take their geometric mean."""
    counts = sorted({run.gpus for run in runs})
    rates = [
        [float(np.exp(np.mean([np.log(getattr(run, name)) for run in runs if run.gpus == count]))) for count in counts]
        for name in ("measured", "predicted")
    ]
    measured, predicted = (tuple(rate / each[0] for rate in each) for each in rates)
    return tuple(counts), measured, predicted
