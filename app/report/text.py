"""Values as people read them: three significant figures, units, ranges, and words for what is not known."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from app import units
from app.advice.recommendation import UsdRange
from app.ranges import Range
from app.units import significant

NOT_KNOWN = "not known"

ARCHITECTURE_NAMES = {
    "cpu_only": "CPU only",
    "single_gpu": "Single GPU",
    "multi_gpu_pcie": "Several GPUs over PCIe",
    "nvlink_server": "NVLink server",
    "infiniband_cluster": "InfiniBand cluster",
    "ethernet_cluster": "Ethernet cluster",
}

FIGURE_UNITS = (
    ("_tokens_per_s", "tokens/s"), ("tokens_per_s", "tokens/s"), ("_per_s", "per s"), ("_per_day", "per day"), ("_per_hour", "per hour"),
    ("hours_per_run", "hours"), ("_ms", "ms"), ("_s", "s"), ("_days", "days"), ("_hours", "hours"), ("_fraction", "share"),
    ("_percent", "%"), ("_kw", "kW"), ("_gb", "GB"),
)  # fmt: skip


def number(value: float | int | None, digits: int = 3) -> str:
    """Three significant figures, or "not known"."""
    return NOT_KNOWN if value is None else significant(float(value), digits)


def count(value: int | None) -> str:
    """A whole number with thousands separators."""
    return NOT_KNOWN if value is None else f"{value:,}"


def ranged(value: Range | None, unit: str = "") -> str:
    """``38 ms (31 to 47)``; an exact value stands alone."""
    if value is None:
        return NOT_KNOWN
    unit = f" {unit}" if unit else ""
    text = f"{significant(value.mid)}{unit}"
    return text if value.low == value.high else f"{text} ({significant(value.low)} to {significant(value.high)})"


def percent(value: float | None) -> str:
    """A share 0..1 in the product's one form, or not known."""
    return NOT_KNOWN if value is None else units.percent(value)


def percent_range(value: Range | None) -> str:
    """A share with its range."""
    if value is None:
        return NOT_KNOWN
    text = percent(value.mid)
    return text if value.low == value.high else f"{text} ({percent(value.low)} to {percent(value.high)})"


def usd(value: Decimal | float | None) -> str:
    """Money in three significant figures from 100 on, cents below, four digits for unit prices below one dollar."""
    if value is None:
        return NOT_KNOWN
    amount = float(value)
    if amount >= 100:
        return f"${significant(amount)}"
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    cents = f"{amount:.4f}".rstrip("0")
    return f"${cents:0<4}"


def usd_range(value: UsdRange | None) -> str:
    """Money with its range."""
    if value is None:
        return NOT_KNOWN
    return usd(value.mid) if value.low == value.high else f"{usd(value.mid)} ({usd(value.low)} to {usd(value.high)})"


def exact_usd(value: Decimal | None) -> str:
    """Money to the cent, for the bill of materials."""
    return "price not known" if value is None else f"${value:,.2f}"


def architecture(value: Any) -> str:
    """The architecture in words."""
    return "No design fits" if value is None else ARCHITECTURE_NAMES[str(value)]


def words(name: str) -> str:
    """A field name as words: ``kv_cache`` -> ``KV cache``."""
    text = name.replace("_", " ")
    for short in ("kv", "gpu", "pcie", "mfu", "hbm", "cpu", "nic", "pdu"):
        text = " ".join(part.upper() if part == short else part for part in text.split(" "))
    return text[:1].upper() + text[1:]


def sentence(message: str) -> str:
    """A message that begins with a capital and ends with a stop."""
    return message[:1].upper() + message[1:] + ("" if message.endswith((".", "!", "?")) else ".")


def figure_label(name: str) -> str:
    """A named figure without its unit suffix, as words."""
    for suffix, _ in FIGURE_UNITS:
        if name.endswith(suffix) and name != suffix.lstrip("_"):
            return words(name.removesuffix(suffix))
    return words(name)


def figure_unit(name: str) -> str:
    """The unit a figure's name carries."""
    return next((unit for suffix, unit in FIGURE_UNITS if name.endswith(suffix)), "")


def moment(value: datetime) -> str:
    """Date and time, UTC."""
    return value.strftime("%-d %B %Y, %H:%M UTC")


def shown(value: Any) -> str:
    """Any assumption's value."""
    if isinstance(value, dict) and set(value) == {"low", "mid", "high"}:
        return f"{value['mid']:,.4g} ({value['low']:,.4g} to {value['high']:,.4g})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:,.4g}"
    return str(value).replace("n_plus_1", "N+1")
