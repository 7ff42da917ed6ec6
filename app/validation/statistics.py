"""Error figures of predictions against measurements, in the public report form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Point:
    """One measured value with its prediction; ``low..high`` is the predicted interval, all in the metric's unit."""

    id: str
    source_key: str
    metric: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Relative error of the middle value: predicted / measured - 1."""
        return self.predicted / self.measured - 1


def figures(points: Sequence[Point]) -> dict[str, Any]:
    """Median and 90th percentile of the absolute error, median over sources, bias, rank correlation, interval coverage.

    ``source_median_abs_error`` is the median over sources of each source's own median, so that no big table dominates.
    """
    if not points:
        return {
            "predicted": 0,
            "median_abs_error": None,
            "p90_abs_error": None,
            "source_median_abs_error": None,
            "bias": None,
            "spearman": None,
            "interval_coverage": None,
        }
    errors = np.array([point.error for point in points])
    by_source = _by_source(points)
    inside = sum(point.low <= point.measured <= point.high for point in points)
    return {
        "predicted": len(points),
        "median_abs_error": float(np.median(np.abs(errors))),
        "p90_abs_error": float(np.quantile(np.abs(errors), 0.9)),
        "source_median_abs_error": median(median(values) for values in by_source.values()),
        "bias": float(np.median(errors)),
        "spearman": spearman([point.measured for point in points], [point.predicted for point in points]),
        "interval_coverage": inside / len(points),
    }


def summarise(points: Sequence[Point], skipped: Sequence[Mapping[str, str]], rows: int) -> dict[str, Any]:
    """The whole report of one family: its figures, the same by metric, errors by source, and every row."""
    report: dict[str, Any] = {"rows": rows, **figures(points), "skipped": [dict(item) for item in skipped]}
    report["by_metric"] = {name: figures([p for p in points if p.metric == name]) for name in sorted({p.metric for p in points})}
    report["by_source"] = {
        source: {"rows": len(errors), "median_abs_error": median(errors)} for source, errors in sorted(_by_source(points).items())
    }
    report["per_row"] = [per_row(point) for point in points]
    return report


def per_row(point: Point) -> dict[str, Any]:
    """One comparison as the report prints it."""
    return {
        "id": point.id,
        "metric": point.metric,
        "measured": point.measured,
        "predicted": point.predicted,
        "low": point.low,
        "high": point.high,
        "error": point.error,
    }


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation with mean ranks for ties; None for fewer than three points or constant values."""
    if len(first) < 3:
        return None
    ranks = [_mean_ranks(np.asarray(values, dtype=float)) for values in (first, second)]
    if ranks[0].std() == 0 or ranks[1].std() == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _mean_ranks(values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(float)
    result: np.ndarray[Any, np.dtype[np.float64]] = (last - (counts - 1) / 2)[inverse]
    return result


def _by_source(points: Sequence[Point]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for point in points:
        found[point.source_key].append(abs(point.error))
    return dict(found)
