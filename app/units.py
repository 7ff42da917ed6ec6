"""Unit constants and the formatting of numbers for people. The only place for either."""

from __future__ import annotations

import math

KB = 1e3
MB = 1e6
GB = 1e9
TB = 1e12
GIB = 2**30
TFLOP = 1e12
BITS_PER_BYTE = 8
GBIT_PER_S = 1e9 / BITS_PER_BYTE
"""Bytes per second in one Gbit/s."""
US = 1e-6
MS = 1e-3
HOURS_PER_YEAR = 8760
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 86_400
BTU_PER_H_PER_KW = 3412.14


def percent(share: float) -> str:
    """A share of one as people read it: 12%, 0.4%, under 0.1%; only nothing at all is 0%."""
    if share == 0:
        return "0%"
    if abs(share) < 0.001:
        return "under 0.1%"
    return f"{100 * share:.1f}%" if abs(share) < 0.00995 else f"{100 * share:.0f}%"


def significant(value: float, digits: int = 3) -> str:
    """``value`` rounded to significant figures with thousands separators: 38, 0.0421, 12,300."""
    if not math.isfinite(value):
        return "not known"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    return f"{rounded:,.{max(decimals, 0)}f}"
