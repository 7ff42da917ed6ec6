"""Curves behind the cost charts: money spent over time three ways, and the cost of a million tokens against use."""

from __future__ import annotations

from dataclasses import dataclass

from app.costing.cost import CostSummary
from app.units import HOURS_PER_YEAR, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySpent:
    """Cumulative USD at the end of a month; None where the way does not exist for the design."""

    month: int
    own_usd: float
    cloud_usd: float | None
    api_usd: float | None


def spent_over_time(cost: CostSummary) -> list[MoneySpent]:
    """Month by month over the horizon: purchase first, then running cost; rent; tokens bought. No resale counted."""
    months = max(1, round(cost.horizon_years * 12))
    own_month = float(cost.opex_usd_per_year.mid) / 12
    cloud_month = float(cost.cloud.usd_per_hour) * HOURS_PER_YEAR / 12 if cost.cloud is not None else None
    api_month = float(cost.hosted_api.usd_over_horizon) / (cost.horizon_years * 12) if cost.hosted_api is not None else None
    return [
        MoneySpent(
            month=month,
            own_usd=float(cost.capex_usd.mid) + own_month * month,
            cloud_usd=None if cloud_month is None else cloud_month * month,
            api_usd=None if api_month is None else api_month * month,
        )
        for month in range(months + 1)
    ]


def usd_per_million_by_use(cost: CostSummary, full_load_tokens_per_s: float, shares: tuple[float, ...]) -> list[tuple[float, float]]:
    """Share of full load and USD per million tokens there: the yearly cost hardly falls when the machine idles."""
    if full_load_tokens_per_s <= 0:
        raise ValueError(f"full_load_tokens_per_s must be above 0, got {full_load_tokens_per_s}")
    per_hour = float(cost.tco_usd.mid) / (cost.horizon_years * HOURS_PER_YEAR)
    full = per_hour / (full_load_tokens_per_s * SECONDS_PER_HOUR) * 1e6
    return [(share, full / share) for share in shares if share > 0]


def crossing_month(points: list[MoneySpent]) -> int | None:
    """First month in which owning has cost no more than renting; None = not within the horizon."""
    later = (point for point in points if point.month > 0)
    return next((point.month for point in later if point.cloud_usd is not None and point.own_usd <= point.cloud_usd), None)
