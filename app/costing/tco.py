"""Formulas of lifetime cost: capital recovery, residual value, energy, staff, break-even. Plain numbers in, plain numbers out."""

from __future__ import annotations

import math

from app.costing.constants import HOURS_PER_MONTH, NODE_KW, NODES_PER_FTE_AT_SCALE, STAFF_FTE_PER_NODE
from app.units import HOURS_PER_YEAR, SECONDS_PER_HOUR

NO_INTEREST = 1e-12
"""Rates below this are no interest: the formula's quotient loses its digits there."""


def capital_recovery_factor(rate_per_year: float, years: float) -> float:
    """Yearly payment that repays 1 over ``years`` at ``rate_per_year``: r / (1 - (1 + r)^-n); 1/n at r = 0. Unit: 1/year."""
    if years <= 0:
        raise ValueError(f"years must be positive, got {years}")
    if rate_per_year < NO_INTEREST:
        return 1 / years
    return rate_per_year / -math.expm1(-years * math.log1p(rate_per_year))


def capital_cost_per_year(purchase_usd: float, residual_fraction: float, rate_per_year: float, years: float) -> float:
    """Yearly cost of owning a purchase, USD/year: C (1 - s) CRF(r, n) + C s r.

    C: purchase [USD]; s: share of C left after n years; r: cost of capital [1/year]. Standard engineering
    economics (capital recovery with salvage value).
    """
    return purchase_usd * ((1 - residual_fraction) * capital_recovery_factor(rate_per_year, years) + residual_fraction * rate_per_year)


def residual_fraction(after_36_months: float, years: float) -> float:
    """Share of the price left after ``years`` when a constant yearly decline leaves ``after_36_months`` after three."""
    return float(after_36_months ** (years / 3))


def energy_usd_per_year(it_kw: float, pue: float, usd_per_kwh: float) -> float:
    """average IT kW x PUE x 8,760 h x price."""
    return it_kw * pue * HOURS_PER_YEAR * usd_per_kwh


def staff_fte(peak_kw: float) -> float:
    """Operations staff for an installation of ``peak_kw`` nameplate, full-time equivalents.

    nodes = kW / 10.2 (the nameplate of an eight-GPU node). 0.25 for one node, proportionally less below it,
    growing with the square root above it (a second node costs less attention than the first), but never below
    one per 75 nodes. The exponent is an assumption that passes the published points: 0.25 for one node, 0.5-1.5
    for 4-8 servers, one per 50-100 servers in large fleets.
    """
    nodes = max(peak_kw, 0.0) / NODE_KW
    growth = nodes if nodes < 1 else math.sqrt(nodes)
    return max(STAFF_FTE_PER_NODE * growth, nodes / NODES_PER_FTE_AT_SCALE if nodes > 1 else 0.0)


def usd_per_gpu_hour(usd_per_year: float, gpus: float, utilisation: float = 1.0) -> float:
    """Cost of one used GPU-hour: yearly cost over GPUs x 8,760 x utilisation."""
    return usd_per_year / (gpus * HOURS_PER_YEAR * utilisation)


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """Cost per hour over tokens per hour at the offered load, times 1e6."""
    return usd_per_hour / (tokens_per_s * SECONDS_PER_HOUR) * 1e6


def break_even_utilisation(own_usd_per_year: float, cloud_usd_per_hour: float) -> float:
    """Share of the year the cloud must be rented before owning is cheaper: own yearly cost / (price per hour x 8,760)."""
    return own_usd_per_year / (cloud_usd_per_hour * HOURS_PER_YEAR)


def break_even_months(
    capex_usd: float, own_usd_per_year: float, rent_usd_per_hour: float, hours_per_year: float = HOURS_PER_YEAR
) -> float | None:
    """Month in which cumulative owning (capex first, then running cost) falls below cumulative renting; None = never."""
    saved_per_month = rent_usd_per_hour * hours_per_year / 12 - own_usd_per_year / 12
    if saved_per_month <= 0:
        return None
    return capex_usd / saved_per_month


def api_break_even_utilisation(
    own_usd_per_month: float, full_load_tokens_per_s: float, api_usd_per_million: float, hours_per_month: float = HOURS_PER_MONTH
) -> float:
    """Share of full load at which owning equals paying per token: month's cost / (tokens of a full month x price)."""
    return own_usd_per_month / (full_load_tokens_per_s * SECONDS_PER_HOUR * hours_per_month / 1e6 * api_usd_per_million)


def straight_line_usd_per_month(
    hardware_usd: float, installation_usd: float, *, life_years: float, residual_fraction: float, rate_per_year: float, months: float
) -> float:
    """Depreciation and capital of a purchase by the accountant's method, USD a month over the first ``months``.

    Depreciation: (hardware x (1 - s) + installation) / life. Capital: rate x average book value, the mean of the
    value at the start and after ``months``. The other method is :func:`capital_cost_per_year`.
    """
    depreciation = (hardware_usd * (1 - residual_fraction) + installation_usd) / (life_years * 12)
    start = hardware_usd + installation_usd
    average_book = start - depreciation * months / 2
    return depreciation + average_book * rate_per_year / 12
