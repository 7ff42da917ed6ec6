"""Published training runs against the training engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.catalog.loader import Catalog
from app.engine.compute import peak_flops
from app.engine.training.explicit import Prediction, explicit_run, predict
from app.engine.training.sizing import MEMORY_SPREAD, TIME_SPREAD
from app.engine.training.step import published_flop_per_token
from app.units import GB, GIB, TFLOP
from app.validation.scaling import scaling_report
from app.validation.statistics import Point, Skipped, summarise
from app.workload.profile import ProfileError

Row = Mapping[str, str]
MEMORY_METRIC = "peak_mem_gb"


def validate_training(rows: Iterable[Row], catalog: Catalog) -> dict[str, Any]:
    """Figures of comparable rows: throughput-like ones as the headline, memory under ``by_metric``; the rest under
    ``training_other``. ``called_infeasible``: runs that happened and that the memory model says cannot. ``scaling``:
    efficiency over GPU counts, source by source."""
    kept: list[Point] = []
    others: list[Point] = []
    skipped: list[Skipped] = []
    infeasible: list[str] = []
    scaled: list[tuple[Row, Point]] = []
    total = 0
    for row in rows:
        total += 1
        points, why, fits = points_of(row, catalog)
        name = row.get("id", "")
        if not points:
            skipped.append(Skipped(name, why))
        elif (row.get("comparable") or "yes") != "yes":
            others.extend(points)
        else:
            kept.extend(points)
            scaled.extend((row, point) for point in points if point.metric != MEMORY_METRIC)
            if not fits:
                infeasible.append(name)
    report = summarise(kept, skipped, total, apart=(MEMORY_METRIC,)).as_dict()
    report["called_infeasible"] = infeasible
    report["scaling"] = scaling_report(scaled)
    report["training_other"] = summarise(others, apart=(MEMORY_METRIC,)).as_dict()
    return report


def points_of(row: Row, catalog: Catalog) -> tuple[list[Point], str, bool]:
    """Comparisons one row allows, why there are none, and whether the engine says the run fits."""
    try:
        found = predict(explicit_run(row, catalog))
    except ProfileError as error:
        return [], str(error), True
    points = [*_speed(row, found), *_memory(row, found)]
    return points, "" if points else "states neither a rate, a step time nor a peak memory", found.fits


def _speed(row: Row, found: Prediction) -> list[Point]:
    """The most direct measure a row states: step time, tokens, FLOP rate, utilisation."""
    if not row.get("seq_len"):
        return []
    gpu = found.run.platform.gpu
    hardware = row.get("tflops_kind") == "hardware"
    flop = published_flop_per_token(found.run.job, hardware=hardware, causal="causal" in row.get("notes", "").lower())
    tflops = flop * found.tokens_s_gpu / TFLOP
    peak = peak_flops(gpu, found.run.job.precision) or float("nan")
    base_peak = peak_flops(gpu, "bf16") or float("nan")
    over = base_peak if "bf16 peak" in row.get("notes", "") else peak
    measures = (
        ("metric_step_s", "step_s", found.step_s, TIME_SPREAD),
        ("metric_tokens_s_gpu", "tokens_s_gpu", found.tokens_s_gpu, _inverse()),
        ("metric_tflops_gpu", "tflops_gpu", tflops, _inverse()),
        ("metric_mfu", "mfu", tflops * TFLOP / over, _inverse()),
    )
    for column, metric, predicted, spread in measures:
        value = _value(row, column)
        if metric == "step_s" and not row.get("global_batch_seqs"):
            continue
        if value is not None:
            return [_point(row, metric, value, predicted, spread)]
    return []


def _inverse() -> tuple[float, float]:
    return 1 / TIME_SPREAD[1], 1 / TIME_SPREAD[0]


def _memory(row: Row, found: Prediction) -> list[Point]:
    """Peak memory; printed in GiB by most tools, which the notes say."""
    value = _value(row, "metric_peak_mem_gb")
    if value is None:
        return []
    scale = GIB / GB if "gib" in row.get("notes", "").lower() else 1.0
    return [_point(row, MEMORY_METRIC, value * scale, found.total_bytes / GB, MEMORY_SPREAD)]


def _point(row: Row, metric: str, measured: float, predicted: float, spread: tuple[float, float]) -> Point:
    source = row.get("source_key") or row.get("source_title") or row.get("source_locator") or ""
    return Point(row.get("id", ""), source, metric, measured, predicted, predicted * spread[0], predicted * spread[1])


def _value(row: Row, column: str) -> float | None:
    text = (row.get(column) or "").strip()
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number and number > 0 else None
