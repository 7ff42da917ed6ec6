"""Published collective measurements against :func:`app.engine.collectives.collective_time_s`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

import numpy as np

from app.catalog.loader import Catalog
from app.engine.collective_request import COLLECTIVE_NAMES, bus_factor, link_kind, scale_up_from, time_spread
from app.engine.collectives import collective_time_s, engine_all_reduce_time_s
from app.engine.links import Collective
from app.engine.platform import FabricKind, Platform, ScaleOut
from app.units import GB, GIB, US

PEAK_MESSAGE_BYTES = 8 * GIB
"""Size taken for rows that give a peak without a size: slides and link tables print the plateau of the sweep."""

USUAL_SERVERS = 4
"""Servers taken where a multi-server peak does not state them: enough for the ring to rule."""

AVERAGES = ("average over", "averaged over")


@dataclass(frozen=True, slots=True)
class Case:
    """One row as the engine sees it."""

    collective: Collective
    message_bytes: float
    ranks: int
    ranks_per_server: int
    platform: Platform
    custom_kernel: bool


def case_of(row: Mapping[str, str], catalog: Catalog) -> Case | str:
    """The engine's arguments for a row, or why there are none."""
    name = row.get("collective", "").strip()
    collective = COLLECTIVE_NAMES.get(name)
    if collective is None:
        return f"{name or 'no collective'}: not an operation this model covers"
    notes = row.get("notes", "").lower()
    size = _number(row, "message_bytes")
    if size is None and any(word in notes for word in AVERAGES):
        return "an average over sizes that are not stated"
    if "logical bandwidth" in notes:
        return "logical bandwidth of a routing kernel, not of the collective"
    platform, ranks, per_server = _system(row, catalog)
    if isinstance(platform, str):
        return platform
    return Case(
        collective=collective,
        message_bytes=size or PEAK_MESSAGE_BYTES,
        ranks=ranks,
        ranks_per_server=per_server,
        platform=platform,
        custom_kernel="custom" in row.get("software", "").lower(),
    )


def _system(row: Mapping[str, str], catalog: Catalog) -> tuple[Platform | str, int, int]:
    """Platform, ranks and ranks per server of a row; a text instead of the platform says what is missing."""
    gpu = catalog.find_gpu(row.get("gpu_id", "") or "none given")
    network = _network(row)
    spread = network is not None or (_number(row, "n_nodes") or 1) > 1
    if spread and network is None:
        return "the network or its speed is not stated", 0, 0
    kind = row.get("intra_kind", "") or link_kind(row.get("intra_link", ""))
    if gpu is None and kind in ("nvlink", ""):
        if not spread or kind:
            return "neither the GPU nor the link generation is stated", 0, 0
        gpu = catalog.gpus["a100-sxm-80gb"]
    nodes = int(_number(row, "n_nodes") or (USUAL_SERVERS if spread else 1))
    in_node = int(_number(row, "gpus_per_node") or 0)
    ranks = int(_number(row, "n_gpus") or nodes * (in_node or (1 if spread else 8)))
    in_node = max(in_node, math.ceil(ranks / nodes))
    scale_up = scale_up_from(kind, row.get("intra_p2p", ""), gpu, in_node)
    if scale_up is None:
        return f"link {kind or 'not stated'} of this GPU is not in the catalogue", 0, 0
    platform = Platform(gpu=gpu or catalog.gpus["a100-pcie-80gb"], gpus_per_server=in_node, scale_up=scale_up, scale_out=network)
    return platform, ranks, math.ceil(ranks / nodes)


def _network(row: Mapping[str, str]) -> ScaleOut | None:
    kind = row.get("inter_kind", "")
    rate = _number(row, "inter_gbit_per_node")
    if kind in ("", "none") or rate is None:
        return None
    text = f"{row.get('notes', '')} {row.get('inter_link', '')}".lower()
    direct = not any(phrase in text for phrase in ("rdma off", "rdma not enabled", "without gpudirect"))
    return ScaleOut(kind=cast(FabricKind, kind), nic_gbit_per_s=rate, nics_per_server=1, gpudirect=direct)


def _number(row: Mapping[str, str], field: str) -> float | None:
    text = (row.get(field) or "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        return None


def predicted_s(case: Case) -> float:
    """Predicted seconds of a case."""
    if case.custom_kernel:
        return float(engine_all_reduce_time_s(case.message_bytes, case.ranks, case.platform))
    return float(collective_time_s(case.collective, case.message_bytes, case.ranks, case.ranks_per_server, case.platform))


def measured_of(row: Mapping[str, str]) -> tuple[str, float] | None:
    """(metric, value) a row measures: time where given with a size, else bus bandwidth, else algorithm bandwidth."""
    columns = (("latency_us", "time_s", US), ("busbw_GBps", "busbw_gb_per_s", 1.0), ("algbw_GBps", "algbw_gb_per_s", 1.0))
    for field, metric, scale in columns:
        value = _number(row, field)
        if value and (metric != "time_s" or _number(row, "message_bytes") is not None):
            return metric, value * scale
    return None


def predicted_of(case: Case, metric: str) -> float:
    """The predicted value of a metric."""
    seconds = predicted_s(case)
    if metric == "time_s":
        return seconds
    rate = case.message_bytes / seconds / GB
    return rate * bus_factor(case.collective, case.ranks) if metric == "busbw_gb_per_s" else rate


SELF_DECLARED = ("degraded", "older software")
"""Rows whose own notes call the system faulty or superseded: a healthy fabric is what we predict; reported under ``other``."""


@dataclass(frozen=True, slots=True)
class Point:
    """One comparison; ``error`` = predicted / measured - 1."""

    id: str
    source: str
    metric: str
    level: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Relative error of the middle value."""
        return self.predicted / self.measured - 1


def validate_collectives(rows: Iterable[Mapping[str, str]], catalog: Catalog) -> dict[str, Any]:
    """Figures of the public format over comparable rows, by metric, level and source; the rest under ``other``."""
    points: list[Point] = []
    others: list[Point] = []
    skipped: list[dict[str, str]] = []
    total = 0
    for row in rows:
        total += 1
        point = _point(row, catalog)
        if isinstance(point, str):
            skipped.append({"id": row.get("id", ""), "why": point})
            continue
        (points if _comparable(row) else others).append(point)
    report = {"rows": total, "predicted": len(points) + len(others), "skipped": skipped, **_figures(points)}
    report["by_metric"] = {name: _figures([p for p in points if p.metric == name]) for name in sorted({p.metric for p in points})}
    report["by_level"] = {name: _figures([p for p in points if p.level == name]) for name in sorted({p.level for p in points})}
    sources = sorted({point.source for point in points})
    report["by_source"] = {
        name: {"rows": len(errors), "median_abs_error": median(errors)}
        for name in sources
        if (errors := [abs(point.error) for point in points if point.source == name])
    }
    report["per_row"] = [
        {"id": p.id, "metric": p.metric, "measured": p.measured, "predicted": p.predicted, "low": p.low, "high": p.high, "error": p.error}
        for p in points
    ]
    report["other"] = {**_figures(others), "ids": [point.id for point in others]}
    return report


def _comparable(row: Mapping[str, str]) -> bool:
    notes = row.get("notes", "").lower()
    return (row.get("comparable") or "yes").startswith("yes") and not any(word in notes for word in SELF_DECLARED)


def _point(row: Mapping[str, str], catalog: Catalog) -> Point | str:
    measured = measured_of(row)
    if measured is None:
        return "no time or bandwidth in the row"
    case = case_of(row, catalog)
    if isinstance(case, str):
        return case
    metric, value = measured
    predicted = predicted_of(case, metric)
    across = case.ranks > case.ranks_per_server
    low, high = time_spread(case.platform, across)
    if metric != "time_s":
        low, high = 1 / high, 1 / low
    return Point(
        id=row.get("id", ""),
        source=row.get("source_key") or row.get("source_title") or row.get("source_locator") or "",
        metric=metric,
        level="between_servers" if across else "inside_server",
        measured=value,
        predicted=predicted,
        low=predicted * low,
        high=predicted * high,
    )


def _figures(points: Sequence[Point]) -> dict[str, Any]:
    """Median and 90th percentile of the absolute error, median over sources, bias, rank correlation, coverage of the ranges."""
    if not points:
        return {"points": 0}
    errors = np.array([point.error for point in points])
    by_source: dict[str, list[float]] = defaultdict(list)
    for point in points:
        by_source[point.source].append(abs(point.error))
    inside = [point.low <= point.measured <= point.high for point in points]
    return {
        "points": len(points),
        "median_abs_error": float(np.median(np.abs(errors))),
        "p90_abs_error": float(np.quantile(np.abs(errors), 0.9)),
        "source_median_abs_error": median(median(values) for values in by_source.values()),
        "bias": float(np.median(errors)),
        "spearman": _spearman([point.measured for point in points], [point.predicted for point in points]),
        "interval_coverage": sum(inside) / len(inside),
    }


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation; None for fewer than three points or constant values."""
    if len(first) < 3:
        return None
    ranks = [np.argsort(np.argsort(np.asarray(values))).astype(float) for values in (first, second)]
    if ranks[0].std() == 0 or ranks[1].std() == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
