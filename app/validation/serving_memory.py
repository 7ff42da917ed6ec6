"""Memory that started servers logged, against predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.catalog.loader import Catalog
from app.engine.serving.engine_log import EngineLog
from app.engine.serving.explicit import explicit_server
from app.units import GIB
from app.validation.statistics import Point, Skipped, summarise
from app.workload.profile import ProfileError

Row = Mapping[str, str]

SPREADS = {
    "weights_gib_per_gpu": (0.98, 1.02),
    "kv_cache_gib_per_gpu": (0.95, 1.05),
    "kv_cache_tokens": (0.95, 1.05),
    "max_concurrency": (0.93, 1.07),
    "activation_gib_per_gpu": (0.8, 1.25),
    "cuda_graph_gib_per_gpu": (0.7, 1.4),
    "non_torch_gib_per_gpu": (0.5, 1.5),
}
APART = ("activation_gib_per_gpu", "cuda_graph_gib_per_gpu", "non_torch_gib_per_gpu")
"""Small components of which only the sum with the pool matters; shown by metric, left out of the headline."""


def validate_serving_memory(rows: Iterable[Row], catalog: Catalog) -> dict[str, Any]:
    """Figures of comparable rows. ``called_infeasible``: servers that started and that the model says cannot;
    ``called_feasible``: servers that did not start and that the model lets start."""
    kept: list[Point] = []
    others: list[Point] = []
    skipped: list[Skipped] = []
    skipped_others: list[Skipped] = []
    infeasible: list[str] = []
    feasible: list[str] = []
    for row in rows:
        name = row.get("id", "")
        comparable = (row.get("comparable") or "yes") == "yes"
        left = skipped if comparable else skipped_others
        try:
            _, log = explicit_server(row, catalog)
        except ProfileError as error:
            left.append(Skipped(name, str(error)))
            continue
        if comparable and row.get("fits") == "yes" and not log.fits:
            infeasible.append(name)
        if comparable and row.get("fits") == "no" and log.fits:
            feasible.append(name)
        points = [_point(row, column, predicted) for column, predicted in _figures(log) if _value(row, column) is not None]
        if not points:
            left.append(Skipped(name, "states no memory figure"))
        elif comparable:
            kept.extend(points)
        else:
            others.extend(points)
    report = summarise(kept, skipped, apart=APART).as_dict()
    report["called_infeasible"], report["called_feasible"] = infeasible, feasible
    report["memory_other"] = summarise(others, skipped_others, apart=APART).as_dict()
    return report


def _figures(log: EngineLog) -> tuple[tuple[str, float], ...]:
    return (
        ("weights_gib_per_gpu", log.weights / GIB),
        ("kv_cache_gib_per_gpu", log.pool / GIB),
        ("kv_cache_tokens", log.tokens),
        ("max_concurrency", log.concurrency),
        ("activation_gib_per_gpu", log.activations / GIB),
        ("cuda_graph_gib_per_gpu", log.graphs / GIB),
        ("non_torch_gib_per_gpu", log.runtime / GIB),
    )


def _point(row: Row, column: str, predicted: float) -> Point:
    low, high = SPREADS[column]
    measured = _value(row, column) or 0.0
    return Point(row.get("id", ""), row.get("source_key") or "", column, measured, predicted, predicted * low, predicted * high)


def _value(row: Row, column: str) -> float | None:
    text = (row.get(column) or "").strip()
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number and number > 0 else None
