"""The decision benchmark: customer questions with the architectures a competent engineer accepts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from app.advice.advisor import recommend
from app.catalog.loader import Catalog
from app.workload.profile import parse_profile

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Decisions do not depend on the clock; any fixed moment serves."""


def validate_scenarios(lines: Iterable[str], catalog: Catalog) -> dict[str, Any]:
    """``{rows, correct, accuracy, gpus_rows, gpus_within, per_row}`` for lines of a scenario file.

    A row is correct when the architecture is among the expected ones; the GPU count is judged apart, on the
    rows that state bounds.
    """
    per_row: list[dict[str, Any]] = []
    for line in lines:
        if line.strip():
            per_row.append(_judge(json.loads(line), catalog))
    correct = sum(row["correct"] for row in per_row)
    bounded = [row for row in per_row if row["gpus_ok"] is not None]
    return {
        "rows": len(per_row),
        "correct": correct,
        "accuracy": correct / len(per_row) if per_row else 0.0,
        "gpus_rows": len(bounded),
        "gpus_within": sum(row["gpus_ok"] for row in bounded) / len(bounded) if bounded else None,
        "per_row": per_row,
    }


def _judge(scenario: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    profile = parse_profile(scenario["profile"])
    answer = recommend(profile, catalog, created_at=EPOCH, recommendation_id=scenario["id"])
    got = str(answer.architecture) if answer.architecture is not None else None
    gpus = answer.design.gpus if answer.design is not None else 0
    low, high = scenario.get("gpus_min"), scenario.get("gpus_max")
    within = None
    if low is not None or high is not None:
        within = (low is None or gpus >= low) and (high is None or gpus <= high)
    return {
        "id": scenario["id"],
        "expected": scenario["expected"],
        "got": got,
        "correct": got in scenario["expected"],
        "gpus": gpus,
        "gpus_ok": within,
        "summary": answer.summary,
    }
