"""Bars: one stacked bar of parts with direct labels, and its table for those who cannot see it."""

from __future__ import annotations

from dataclasses import dataclass

from app.advice.recommendation import Estimate
from app.ranges import Range
from app.report.svg import document, element, text
from app.report.text import number, words

WIDTH, HEIGHT = 640.0, 30.0


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a whole: label, value and the share it takes."""

    label: str
    value: float
    share: float
    series: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A drawn bar with the same as rows."""

    svg: str
    parts: tuple[Part, ...]
    unit: str
    whole: float


def memory_bar(estimate: Estimate) -> Bar | None:
    """Memory of the fullest GPU by component against what it can use."""
    capacity = estimate.memory_gb.get("capacity")
    values = {
        name: value.mid for name, value in estimate.memory_gb.items() if isinstance(value, Range) and name != "total" and value.mid > 0
    }
    if not values or not isinstance(capacity, int | float) or capacity <= 0:
        return None
    return _bar(values, float(capacity), "GB", "Memory of one GPU", "free", "mem")


def time_bar(estimate: Estimate) -> Bar | None:
    """Where the time of one step goes."""
    values = {name: value for name, value in estimate.time_parts_s.items() if value > 0}
    whole = sum(values.values())
    if whole <= 0:
        return None
    factor, unit = (1000.0, "ms") if whole < 1 else (1.0, "s")
    return _bar(
        {name: value * factor for name, value in values.items()}, whole * factor, unit, "Where the time of one step goes", "", "time"
    )


def _bar(values: dict[str, float], whole: float, unit: str, title: str, rest: str, ident: str) -> Bar:
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    parts = [Part(words(name), value, value / whole, index) for index, (name, value) in enumerate(ordered)]
    free = whole - sum(values.values())
    x, body = 0.0, ""
    scale = WIDTH / max(whole, sum(values.values()))
    for part in parts:
        width = part.value * scale
        body += element("rect", x=x, y=0, width=max(width, 0.5), height=HEIGHT, class_=f"s{part.series % 8}")
        if width > 62:
            body += text(x + width / 2, HEIGHT / 2 + 4, part.label[: int(width / 7)], f"t on-s{part.series % 8}")
        x += width
    if rest and free > 0:
        body += element("rect", x=x, y=0.5, width=max(WIDTH - x - 0.5, 0), height=HEIGHT - 1, class_="free")
        if WIDTH - x > 40:
            body += text((x + WIDTH) / 2, HEIGHT / 2 + 4, rest, "t")
    listed = ", ".join(f"{part.label} {number(part.value)} {unit}" for part in parts)
    return Bar(document(WIDTH, HEIGHT, body, title, f"{listed}; of {number(whole)} {unit}.", ident), tuple(parts), unit, whole)
