"""Does the link matter: pairs of published points that differ in the interconnect alone, as ratios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from app.catalog.loader import Catalog
from app.engine.serving.explicit import explicit_point
from app.engine.serving.point import Served, ServingPoint, serve
from app.validation.inference import completed
from app.workload.profile import FieldError, ProfileError

Row = Mapping[str, str]

SAME = (0.95, 1.05)
"""Ratios within these are called the same; a predicted ratio this near the measured one is right in any case."""


USUAL_LENGTHS = {"isl": 1024, "osl": 512}
"""Where a row states no lengths both rows of the pair take these; an assumption that the ratio hardly depends on."""


def ratio_class(ratio: float) -> str:
    """slower, same or faster."""
    return "slower" if ratio < SAME[0] else "faster" if ratio > SAME[1] else "same"


def class_right(measured: float, predicted: float) -> bool:
    """Whether the class agrees, or the ratio within 5%."""
    return ratio_class(measured) == ratio_class(predicted) or abs(predicted / measured - 1) <= 0.05


def validate_pairs(pairs: Iterable[Row], inference_rows: Iterable[Row], catalog: Catalog) -> dict[str, Any]:
    """Ratio b over a of every pair whose two rows can be predicted."""
    rows = {row["id"]: row for row in inference_rows}
    found: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    total = 0
    for pair in pairs:
        total += 1
        name = f"{pair['id_a']}/{pair['id_b']}"
        try:
            values = [_metric(rows.get(pair[key]), pair["metric"], catalog) for key in ("id_a", "id_b")]
        except ProfileError as error:
            skipped.append({"id": name, "why": str(error)})
            continue
        measured, predicted = float(pair["ratio_b_over_a"]), values[1] / values[0]
        found.append(
            {
                "id": name,
                "group": pair.get("group", ""),
                "metric": pair["metric"],
                "measured": measured,
                "predicted": predicted,
                "error": predicted / measured - 1,
                "class_measured": ratio_class(measured),
                "class_predicted": ratio_class(predicted),
                "right": class_right(measured, predicted),
            }
        )
    errors = [abs(item["error"]) for item in found]
    return {
        "rows": total,
        "predicted": len(found),
        "skipped": skipped,
        "median_abs_error": float(np.median(errors)) if errors else None,
        "class_agreement": float(np.mean([item["right"] for item in found])) if found else None,
        "per_row": found,
    }


def _metric(row: Row | None, metric: str, catalog: Catalog) -> float:
    """The engine's figure for one row; a row or model it cannot predict is refused with the reason."""
    if row is None:
        raise ProfileError([FieldError("id", "is not in the inference file")])
    filled = completed(row)
    for column, usual in USUAL_LENGTHS.items():
        filled[column] = filled.get(column) or usual
    point = explicit_point(filled, catalog)
    return _figure(metric, point, serve(point))


def _figure(metric: str, point: ServingPoint, found: Served) -> float:
    return {
        "output_tok_s_total": found.output_tokens_per_s,
        "tpot_ms": found.tpot_s * 1e3,
        "ttft_ms": found.ttft_s * 1e3,
        "prefill_tok_s": found.prompt_tokens_per_s * point.replicas,
    }[metric]
