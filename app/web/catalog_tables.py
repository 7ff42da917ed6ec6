# ruff: noqa: E501
# One table a line or two: columns are read across.
"""The catalogue as tables people can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.catalog.loader import Catalog

TABLE_NAMES = {
    "gpus": "GPUs", "servers": "Servers", "models": "Models", "links": "Links", "switches": "Switches",
    "nics": "Network adapters", "cables": "Cables and optics",
}  # fmt: skip
KINDS = tuple(TABLE_NAMES)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its attribute, heading with unit, and whether it holds numbers."""

    name: str
    label: str
    number: bool = True


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row as shown, with where its figures come from."""

    cells: tuple[str, ...]
    source: str
    kind: str
    as_of: str


def _text(name: str, label: str) -> Column:
    return Column(name, label, number=False)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "gpus": (
        _text("name", "GPU"), _text("id", "id"), _text("vendor", "maker"), Column("year", "year"), Column("memory_gb", "memory, GB"),
        Column("memory_bandwidth_gb_per_s", "bandwidth, GB/s"), Column("bf16_tflops", "bf16, TFLOPS"), Column("fp8_tflops", "fp8, TFLOPS"),
        Column("fp4_tflops", "fp4, TFLOPS"), Column("fp64_tflops", "fp64, TFLOPS"), Column("tdp_w", "power, W"),
        _text("scale_up_link", "link"), Column("scale_up_gb_per_s_bidirectional", "link, GB/s"), Column("scale_up_domain_gpus", "GPUs on it"),
        _text("lifecycle", "on sale"),
    ),
    "servers": (
        _text("name", "server"), Column("gpus", "GPUs"), _text("gpu_ids", "GPU"), _text("scale_up", "link"), Column("nics", "NICs"),
        Column("nic_gbit_per_s", "Gbit/s each"), Column("max_power_w", "peak, W"), Column("typical_power_w", "typical, W"),
        Column("rack_units", "U"), _text("cooling", "cooling"), Column("year", "year"),
    ),
    "models": (
        _text("name", "model"), _text("id", "id"), Column("params_b", "parameters, billion"), Column("active_params_b", "active, billion"),
        Column("layers", "layers"), Column("hidden", "width"), Column("heads", "heads"), Column("kv_heads", "KV heads"),
        Column("experts", "experts"), _text("attention", "attention"), Column("max_context", "context, tokens"), _text("native_precision", "ships in"),
    ),
    "links": (_text("name", "link"), _text("role", "joins"), Column("gb_per_s", "one way, GB/s"), Column("typical_latency_us", "latency, us")),
    "switches": (
        _text("name", "switch"), _text("vendor", "maker"), _text("protocol", "protocol"), Column("ports", "ports"),
        Column("port_gbit_per_s", "Gbit/s"), Column("typical_power_w", "typical, W"), Column("max_power_w", "peak, W"), Column("latency_ns", "latency, ns"),
    ),
    "nics": (_text("name", "adapter"), _text("vendor", "maker"), _text("protocols", "protocol"), Column("ports", "ports"), Column("port_gbit_per_s", "Gbit/s"), Column("power_w", "power, W")),
    "cables": (_text("name", "part"), _text("type", "type"), Column("speed_gbit_per_s", "Gbit/s"), _text("medium", "medium"), Column("max_reach_m", "reach, m"), Column("power_w", "power, W")),
}  # fmt: skip


def table_of(kind: str, catalog: Catalog) -> tuple[tuple[Column, ...], list[TableRow]]:
    """Columns and rows of one table; what has a year, newest first."""
    columns = COLUMNS[kind]
    rows: dict[str, Any] = dict(getattr(catalog, kind))
    found = []
    newest_first = sorted(rows.items(), key=lambda pair: -(getattr(pair[1], "year", None) or 0))
    for key, row in newest_first:
        source = catalog.model_sources[key] if kind == "models" else row
        cells = tuple(_cell(getattr(row, column.name), column) for column in columns)
        found.append(TableRow(cells, source.source, source.kind, source.as_of))
    return columns, found


def _cell(value: Any, column: Column) -> str:
    if value is None or value == 0:
        return ""
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if column.label == "year" else f"{value:,.5g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return str(value).replace("_", " ") if column.name != "id" else str(value)
