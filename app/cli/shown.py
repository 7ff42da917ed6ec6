"""A public answer as lines a person reads: one figure a line, its parts indented below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

INDENT = "  "


def shown_lines(answer: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """``name: value`` of every field; a range as its middle and ends, one that is unknown or does not exist as "-"."""
    for name, value in answer.items():
        if isinstance(value, Mapping) and not _is_range(value):
            yield f"{indent}{name}:"
            yield from shown_lines(value, indent + INDENT)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            yield f"{indent}{name}:"
            for number, item in enumerate(value, 1):
                yield f"{indent}{INDENT}{number}:"
                yield from shown_lines(item, indent + 2 * INDENT)
        else:
            yield f"{indent}{name}: {_shown(value)}"


def _is_range(value: Mapping[str, Any]) -> bool:
    return {"low", "mid", "high"} <= value.keys()


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        unit = f" {value['unit']}" if value.get("unit") else ""
        return f"{_number(value['mid'])} ({_number(value['low'])} to {_number(value['high'])}){unit}"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value) or "none"
    return str(value)


def _number(value: float) -> str:
    """Four figures; large ones with separators rather than an exponent."""
    return f"{float(f'{value:.4g}'):,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
