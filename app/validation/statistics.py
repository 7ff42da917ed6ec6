"""Error figures of a set of predictions, in the public report form, whatever the family.

error = predicted / measured - 1. ``source_median_abs_error`` is the median over sources of each source's own
median, so that no large table dominates. Every figure stands beside its coverage (rows, predicted, skipped).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Point:
    """One measured figure beside its prediction; ``low`` and ``high`` bound the predicted range."""

    id: str
    source_key: str
    metric: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Relative error, signed."""
        return self.predicted / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the predicted range holds the measurement."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row without a prediction, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """All figures of one family. ``headline`` leaves out the metrics named apart (memory, for training)."""

    rows: int
    points: tuple[Point, ...]
    skipped: tuple[Skipped, ...]
    apart: frozenset[str] = frozenset()

    @property
    def headline(self) -> tuple[Point, ...]:
        """Points behind the headline figures; all of them where only metrics kept apart exist."""
        return tuple(point for point in self.points if point.metric not in self.apart) or self.points

    @property
    def predicted(self) -> int:
        """Rows with at least one prediction."""
        return len({point.id for point in self.points})

    def as_dict(self) -> dict[str, Any]:
        """The public report form."""
        metrics = sorted({point.metric for point in self.points})
        return {
            "rows": self.rows,
            "predicted": self.predicted,
            "skipped": [{"id": item.id, "why": item.why} for item in self.skipped],
            **figures(self.headline),
            "by_metric": {name: _counted([point for point in self.points if point.metric == name]) for name in metrics},
            "by_source": by_source(self.headline),
            "per_row": [
                {
                    "id": point.id,
                    "metric": point.metric,
                    "measured": point.measured,
                    "predicted": point.predicted,
                    "low": point.low,
                    "high": point.high,
                    "error": point.error,
                }
                for point in self.points
            ],
        }


def figures(points: Sequence[Point]) -> dict[str, float | None]:
    """Median and 90th percentile of the absolute error, median of source medians, bias, rank correlation, coverage.

    bias: median signed error. spearman: between measured and predicted, averaged over metrics by their points, since
    ranks of different units do not compare; None below three points. All None without points.
    """
    if not points:
        return dict.fromkeys(
            ("median_abs_error", "p90_abs_error", "source_median_abs_error", "bias", "spearman", "interval_coverage"), None
        )
    errors = np.array([point.error for point in points])
    return {
        "median_abs_error": float(np.median(np.abs(errors))),
        "p90_abs_error": float(np.quantile(np.abs(errors), 0.9)),
        "source_median_abs_error": source_median(points),
        "bias": float(np.median(errors)),
        "spearman": _spearman(points),
        "interval_coverage": float(np.mean([point.covered for point in points])),
    }


def source_median(points: Sequence[Point]) -> float:
    """Median over sources of each source's median absolute error."""
    return float(np.median([row["median_abs_error"] for row in by_source(points).values()]))


def by_source(points: Iterable[Point]) -> dict[str, dict[str, float]]:
    """Points and median absolute error of each source."""
    groups: dict[str, list[float]] = defaultdict(list)
    for point in points:
        groups[point.source_key].append(abs(point.error))
    return {name: {"rows": len(values), "median_abs_error": float(np.median(values))} for name, values in sorted(groups.items())}


def _spearman(points: Sequence[Point]) -> float | None:
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.metric].append(point)
    weights, values = [], []
    for members in groups.values():
        measured = [point.measured for point in members]
        predicted = [point.predicted for point in members]
        if len(members) < 3 or len(set(measured)) < 2 or len(set(predicted)) < 2:
            continue
        weights.append(len(members))
        values.append(float(np.corrcoef(_ranks(measured), _ranks(predicted))[0, 1]))
    return float(np.average(values, weights=weights)) if values else None


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Ranks from the smallest, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return mean


def _counted(points: Sequence[Point]) -> dict[str, Any]:
    return {"rows": len(points), "predicted": len({point.id for point in points}), **figures(points)}


def summarise(points: Iterable[Point], skipped: Iterable[Skipped] = (), rows: int | None = None, apart: Iterable[str] = ()) -> FamilyResult:
    """Figures of a family; ``rows`` defaults to predicted and skipped rows together."""
    kept, left = tuple(points), tuple(skipped)
    count = len({point.id for point in kept} | {item.id for item in left}) if rows is None else rows
    return FamilyResult(rows=count, points=kept, skipped=left, apart=frozenset(apart))
