"""Published serving measurements against predictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.catalog.loader import Catalog
from app.engine.serving.constants import spread
from app.engine.serving.explicit import explicit_point
from app.engine.serving.point import Served, ServingPoint, serve
from app.validation.statistics import Point, Skipped, summarise
from app.workload.profile import ProfileError

Row = Mapping[str, str]

MLPERF_PROMPTS = {
    "meta-llama/Llama-2-70b-hf": (294.0, 294.0),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": (275.0, 145.0),
    "meta-llama/Llama-3.1-405B-Instruct": (9400.0, 684.0),
    "meta-llama/Llama-3.1-8B-Instruct": (870.0, 73.0),
    "deepseek-ai/DeepSeek-R1": (800.0, 3880.0),
    "EleutherAI/gpt-j-6b": (870.0, 69.0),
}
"""Mean prompt and answer of the data sets of MLPerf Inference v4.1 and v5.1, which result summaries leave out:
OpenOrca, a mix of OpenOrca, GSM8K and MBXP, LongBench and others, CNN/DailyMail (MLCommons benchmark definitions)."""

MLPERF_BEAMS = {"EleutherAI/gpt-j-6b": 4}
"""Beam width the benchmark prescribes."""

SPREAD_OF = {"ttft_ms": "ttft", "tpot_ms": "tpot"}
"""Which fitted spread bounds a metric; all others are rates."""


def validate_inference(rows: Iterable[Row], catalog: Catalog) -> dict[str, Any]:
    """Figures of comparable rows over every metric; the rest under ``inference_other``."""
    kept: list[Point] = []
    others: list[Point] = []
    skipped: list[Skipped] = []
    skipped_others: list[Skipped] = []
    for row in rows:
        points, why = points_of(row, catalog)
        comparable = (row.get("comparable") or "yes") == "yes"
        if points:
            (kept if comparable else others).extend(points)
        else:
            (skipped if comparable else skipped_others).append(Skipped(row.get("id", ""), why))
    report = summarise(kept, skipped).as_dict()
    report["inference_other"] = summarise(others, skipped_others).as_dict()
    return report


def points_of(row: Row, catalog: Catalog) -> tuple[list[Point], str]:
    """Comparisons one row allows, or why there are none."""
    try:
        point = explicit_point(completed(row), catalog)
    except ProfileError as error:
        return [], str(error)
    found = serve(point)
    points = [
        Point(row.get("id", ""), row.get("source_key") or "", metric, measured, predicted, *_ends(metric, predicted))
        for metric, measured, predicted in comparisons(row, point, found)
    ]
    return points, "" if points else "states no rate or latency that a prediction can be compared with"


def _ends(metric: str, predicted: float) -> tuple[float, float]:
    low, high = spread(SPREAD_OF.get(metric, "rate"))
    return predicted * low, predicted * high


def completed(row: Row) -> dict[str, Any]:
    """The row with what its own notes or its benchmark's definition say about blank columns."""
    found: dict[str, Any] = dict(row)
    notes = row.get("notes", "")
    source = row.get("source_title", "")
    if "mlperf" in source.lower():
        prompt = MLPERF_PROMPTS.get(row.get("catalog_model", ""))
        if prompt is not None:
            found["beams"] = MLPERF_BEAMS.get(row.get("catalog_model", ""), 1)
            found["isl"], found["osl"] = row.get("isl") or prompt[0], row.get("osl") or prompt[1]
        # Entries declare the framework's type; engines of GPUs with FP8 units were quantised to it.
        if row.get("weight_kind") == "fp16" and "TensorRT" in row.get("engine_version", ""):
            found["weight_kind"] = found["kv_kind"] = "fp8"
    if not row.get("isl"):
        prompt_note = re.search(r"in p50 (\d+)", notes) or re.search(r"on ~?(\d+)K prompt", notes)
        if prompt_note:
            found["isl"] = found.get("isl") or prompt_note.group(1)
        elif "ShareGPT" in notes:
            found["isl"] = found.get("isl") or 280
    if not row.get("osl"):
        answer = re.search(r"out p50 (\d+)", notes) or re.search(r"/out (\d+)", notes)
        if answer:
            found["osl"] = found.get("osl") or answer.group(1)
    return found


def comparisons(row: Row, point: ServingPoint, found: Served) -> list[tuple[str, float, float]]:
    """(metric, measured, predicted) of what a row states; one figure of each kind, latencies where no burst makes them."""
    result = []
    rate = _throughput(row, point, found)
    if rate is not None:
        result.append(rate)
    ttft, tpot = _value(row, "ttft_ms"), _value(row, "tpot_ms")
    queued = row.get("mode") == "offline_max_throughput" or found.saturated
    if ttft is not None and not queued:
        result.append(("ttft_ms", ttft, found.ttft_s * 1e3))
    if tpot is not None and row.get("mode") != "offline_max_throughput":
        result.append(("tpot_ms", tpot, found.tpot_s * 1e3))
    prefill = _value(row, "prefill_tok_s")
    if prefill is not None and ttft is None:
        result.append(("prefill_tok_s", prefill, found.prompt_tokens_per_s * point.replicas))
    return result


def _throughput(row: Row, point: ServingPoint, found: Served) -> tuple[str, float, float] | None:
    outputs, inputs = point.job.output_tokens, point.job.input_tokens
    single = row.get("mode") == "single_stream"
    name = "single_stream_tok_s" if single else "throughput"
    if outputs <= 1:
        return None
    total = found.output_tokens_per_s
    gpus = float(point.layout.gpus) * point.replicas
    decode_only = single and not _value(row, "e2e_latency_s") and "decode" in row.get("notes", "")
    choices = (
        ("output_tok_s_total", 1 / found.tpot_s if decode_only else total),
        ("output_tok_s_per_gpu", total / gpus),
        ("total_tok_s", total * (outputs + inputs) / outputs),
        ("tok_s_per_user", 1 / found.tpot_s),
    )
    for column, predicted in choices:
        measured = _value(row, column)
        if measured is not None:
            if column == "tok_s_per_user" and _value(row, "tpot_ms") is not None:
                return None
            return name, measured, predicted
    return None


def _value(row: Row, column: str) -> float | None:
    text = (row.get(column) or "").strip()
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number and number > 0 else None
