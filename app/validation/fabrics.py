"""Published networks against :func:`app.design.fabric.design_fabric`: every count a row prints must be equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.catalog.loader import Catalog
from app.design.fabric import FabricPlan, FabricProtocol, design_fabric
from app.design.fabric_request import find_switch

COUNTS = {
    "tier_count": "tiers",
    "leaf_count": "leaf_switches",
    "spine_count": "spine_switches",
    "core_count": "core_switches",
    "node_leaf_cables": "node_cables",
    "leaf_spine_cables": "leaf_spine_cables",
    "spine_core_cables": "spine_core_cables",
}
"""Columns of the file to fields of a plan."""

INCONSISTENT = ("inconsisten", "disagrees")
ETHERNET_WORDS = ("roce", "ethernet", "spectrum", "51.2t", "hpn")


def plan_of_row(row: Mapping[str, str], catalog: Catalog) -> FabricPlan | str:
    """The network our designer draws for a row, or why the row cannot be asked for."""
    nodes, nics, rate = (_integer(row, field) for field in ("n_nodes", "nics_per_node", "nic_gbps"))
    if nodes is None or nics is None or rate is None:
        return "the row does not state one number of nodes, NICs and NIC rate"
    text = f"{row.get('switch_model', '')} {row.get('design', '')} {row.get('source_title', '')}".lower()
    switch = find_switch(row.get("switch_model", ""), catalog)
    top_of_rack = "cluster switch" in text
    if switch is not None and not switch.ports:
        switch = None
    protocol: FabricProtocol = "infiniband"
    if switch is not None:
        protocol = switch.protocol
    elif any(word in text for word in ETHERNET_WORDS):
        protocol = "ethernet"
    gpus = _integer(row, "n_gpus")
    return design_fabric(
        nodes,
        nics,
        float(rate),
        protocol,
        catalog,
        switch_id=switch.id if switch is not None else None,
        oversubscription=_oversubscription(row),
        gpus_per_server=max(1, gpus // nodes) if gpus else 8,
        style="top_of_rack" if top_of_rack else "rail",
        spine_ports=(_integer(row, "switch_ports") or MODULAR_PORTS) if top_of_rack else None,
    )


MODULAR_PORTS = 576
"""400G ports of the chassis switch above racks in the published top-of-rack design."""


def expected_counts(row: Mapping[str, str]) -> dict[str, int]:
    """Counts the row prints."""
    found = {field: _integer(row, column) for column, field in COUNTS.items()}
    return {field: value for field, value in found.items() if value is not None}


def designed_counts(row: Mapping[str, str], plan: FabricPlan) -> dict[str, int]:
    """Our counts in the row's own way of counting.

    Links of fabric managers where the row says so; links of each plane where its switch ports are those of one
    plane (128 x 400G, not 64 x 800G).
    """
    counts = {field: int(getattr(plan, field)) for field in COUNTS.values()}
    if "ufm links" in row.get("notes", "").lower():
        counts["node_cables"] += plan.controller_links
    if plan.planes > 1 and _integer(row, "switch_ports") == plan.switch_ports:
        for field in ("node_cables", "leaf_spine_cables", "spine_core_cables"):
            counts[field] *= plan.planes
    return counts


def validate_fabrics(rows: Iterable[Mapping[str, str]], catalog: Catalog) -> dict[str, Any]:
    """Share of rows, and of single counts, that are equal; rows flagged as inconsistent are reported apart."""
    per_row: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    flagged: list[dict[str, Any]] = []
    total = 0
    for row in rows:
        total += 1
        expected = expected_counts(row)
        plan = plan_of_row(row, catalog) if expected else "the row prints no counts"
        if isinstance(plan, str):
            skipped.append({"id": row.get("id", ""), "why": plan})
            continue
        counts = designed_counts(row, plan)
        wrong = {field: [value, counts[field]] for field, value in expected.items() if counts[field] != value}
        entry = {
            "id": row.get("id", ""),
            "expected": expected,
            "predicted": {field: counts[field] for field in expected},
            "correct": not wrong,
            "differences": wrong,
        }
        notes = row.get("notes", "").lower()
        (flagged if any(word in notes for word in INCONSISTENT) else per_row).append(entry)
    right = sum(entry["correct"] for entry in per_row)
    single = [(len(entry["expected"]), len(entry["differences"])) for entry in per_row]
    asked = sum(count for count, _ in single)
    return {
        "rows": total,
        "predicted": len(per_row),
        "skipped": skipped,
        "correct": right,
        "accuracy": right / len(per_row) if per_row else None,
        "count_accuracy": (asked - sum(wrong for _, wrong in single)) / asked if asked else None,
        "flagged": flagged,
        "per_row": per_row,
    }


def _integer(row: Mapping[str, str], field: str) -> int | None:
    text = (row.get(field) or "").strip()
    return int(float(text)) if re.fullmatch(r"\d+(\.0+)?", text) else None


def _oversubscription(row: Mapping[str, str]) -> float:
    """``2:1`` at the start of the column; anything else counts as none."""
    found = re.match(r"(\d+(?:\.\d+)?):1\b", row.get("oversubscription") or "")
    return max(1.0, float(found.group(1))) if found else 1.0
