"""The price of electricity where the installation stands: stated, else regional, else the planning band."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.catalog.schema import RunningCost
from app.costing.constants import ELECTRICITY_USD_PER_KWH, EUR_USD
from app.design.facility import country_of

EU_COUNTRIES = frozenset(
    (
        "at", "be", "bg", "hr", "cy", "cz", "dk", "ee", "fi", "fr", "de", "gr", "hu", "ie",
        "it", "lv", "lt", "lu", "mt", "nl", "pl", "pt", "ro", "sk", "si", "es", "se", "eu",
    )
)  # fmt: skip
REGIONAL_BAND = (0.8, 1.25)
"""Range around a regional average: contracts differ from the average by about this much. Assumption."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Low, typical and high price with the source."""

    low: float
    mid: float
    high: float
    source: str


def electricity_rate(stated_usd_per_kwh: float | None, region: str | None, rows: Iterable[RunningCost]) -> Rate:
    """USD per kWh."""
    if stated_usd_per_kwh is not None:
        return Rate(stated_usd_per_kwh, stated_usd_per_kwh, stated_usd_per_kwh, "stated in the profile")
    low, mid, high = ELECTRICITY_USD_PER_KWH
    found = _regional(region, rows)
    if found is None:
        return Rate(low, mid, high, "planning band, US industrial tariff 2026")
    price, source = found
    return Rate(price * REGIONAL_BAND[0], price, price * REGIONAL_BAND[1], source)


def _regional(region: str | None, rows: Iterable[RunningCost]) -> tuple[float, str] | None:
    """Newest industrial average of a US state, or the EU non-household average."""
    if not region:
        return None
    wanted = region.strip().upper()
    state = [
        row for row in rows
        if row.category == "electricity" and row.region.upper() == wanted and row.typical is not None and "industrial" in row.item
    ]  # fmt: skip
    if state:
        newest = max(state, key=lambda row: row.as_of)
        return newest.typical or 0.0, f"{newest.item}, {newest.region}, {newest.as_of}: {newest.source}"
    country = country_of(region) or wanted.lower()
    if country not in EU_COUNTRIES:
        return None
    europe = [row for row in rows if row.category == "electricity" and row.region == "EU-27" and row.item == "non-household average"]
    priced = [row for row in europe if row.typical is not None]
    if not priced:
        return None
    newest = max(priced, key=lambda row: row.as_of)
    return (newest.typical or 0.0) * EUR_USD, f"EU non-household average {newest.as_of} x {EUR_USD} USD per EUR: {newest.source}"
