"""The same design rented: instances that have the GPU and the interconnect it needs, cheapest first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from app.catalog.schema import CloudPrice
from app.costing.constants import CLOUD_INTERCONNECT_MIN_GBIT
from app.engine.result import Sized
from app.money import cents
from app.units import HOURS_PER_YEAR

FAST_WORDS = ("nvlink", "infinity fabric", "nvl72", "neuronlink", "ici", "roce on-board")
FABRIC_WORDS = ("efa", "ib", "infiniband", "roce", "tcpx", "ici", "nvl72")
NOT_AN_OFFER = ("capacity block", "mean", "median", "average")
"""Short reservations and marketplace statistics cannot be ordered for years."""

OUTDATED_MONTHS = 6
"""GPU rents moved by 20-45% within half a year in 2025 and 2026; an older reading beside a newer one misleads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOffer:
    """``instances`` of one type that carry the design, always on over the horizon."""

    provider: str
    instance: str
    instances: int
    usd_per_hour: Decimal
    usd_over_horizon: Decimal
    price_kind: str
    region: str
    source: str
    as_of: str


def interconnect_fits(row: CloudPrice, sized: Sized) -> bool:
    """Whether one job can run on the instance type as it does in the design."""
    gpus = row.gpus or 0
    job = sized.parallel.gpus
    text = row.interconnect.lower()
    if sized.span == "many_servers":
        words = re.findall(r"[a-z0-9]+", text)
        speed = re.search(r"(\d+)\s*g\b", text)
        fast_enough = speed is None or float(speed.group(1)) >= CLOUD_INTERCONNECT_MIN_GBIT
        return (
            gpus >= min(sized.platform.gpus_per_server, 8)
            and any(word.startswith(FABRIC_WORDS) for word in words)
            and fast_enough
            and "no ib" not in text
        )
    if gpus < job:
        return False
    fast = sized.platform.gpu.has_fast_scale_up and not sized.platform.scale_up.kind.startswith(("pcie", "none"))
    if job > 1 and fast:
        return any(word in text for word in FAST_WORDS)
    return True


def instances_needed(row: CloudPrice, sized: Sized) -> int:
    """Instances for all replicas; a replica never straddles instances unless it spans several servers."""
    gpus = row.gpus or 1
    job = sized.parallel.gpus
    if job > gpus:
        return sized.replicas * math.ceil(job / gpus)
    return math.ceil(sized.replicas / (gpus // job))


def newest_rows(rows: Iterable[CloudPrice]) -> list[CloudPrice]:
    """The newest reading of each provider's instance; statistics, short reservations and outdated readings left out.

    A reading is outdated when the same provider's newest reading of the same GPU is over six months younger.
    """
    newest: dict[tuple[str, str, str], CloudPrice] = {}
    latest: dict[tuple[str, str], int] = {}
    for row in rows:
        label = f"{row.instance} {row.gpu}".lower()
        if not row.gpus or row.gpus < 1 or any(word in label for word in NOT_AN_OFFER):
            continue
        key = (row.provider, row.instance, row.gpu_id)
        held = newest.get(key)
        if held is None or row.as_of > held.as_of:
            newest[key] = row
        pair = (row.provider, row.gpu_id)
        latest[pair] = max(latest.get(pair, 0), month_number(row.as_of))
    return [whole_machine(row) for row in newest.values() if latest[row.provider, row.gpu_id] - month_number(row.as_of) <= OUTDATED_MONTHS]


MACHINE_GPUS = 8


def whole_machine(row: CloudPrice) -> CloudPrice:
    """A price per GPU of machines with NVLink is turned into the price of the machine, which is what one orders."""
    text = row.interconnect.lower()
    if row.gpus != 1 or "nvlink" not in text or "bridge" in text:
        return row
    names = ("on_demand_usd_per_hour", "reserved_1y_usd_per_hour", "reserved_3y_usd_per_hour", "spot_usd_per_hour")
    prices = {name: None if (value := getattr(row, name)) is None else value * MACHINE_GPUS for name in names}
    return row.model_copy(update={"gpus": MACHINE_GPUS, **prices})


def month_number(as_of: str) -> int:
    """Months since year 0 of a date ``2026``, ``2026-03`` or ``2026-03-14``; a bare year counts as its middle."""
    pieces = as_of.split("-")
    return int(pieces[0]) * 12 + (int(pieces[1]) if len(pieces) > 1 else 6)


def prices_of(row: CloudPrice, horizon_years: float, interruptible: bool) -> list[tuple[str, Decimal]]:
    """Price kinds that suit the horizon: reserved terms not longer than it; spot only for work that may be stopped."""
    found: list[tuple[str, Decimal | None]] = [("on_demand", row.on_demand_usd_per_hour)]
    if horizon_years >= 1:
        found.append(("reserved_1y", row.reserved_1y_usd_per_hour))
    if horizon_years >= 3:
        found.append(("reserved_3y", row.reserved_3y_usd_per_hour))
    if interruptible:
        found.append(("spot", row.spot_usd_per_hour))
    return [(kind, price) for kind, price in found if price is not None and price > 0]


def stoppable(sized: Sized) -> bool:
    """Whether spot prices suit: work that may wait, inside one instance (a job across instances cannot lose one at any time)."""
    batch = sized.serving is not None and sized.serving.hours is not None
    return (sized.training is not None or batch) and sized.span != "many_servers"


def cloud_offers(sized: Sized, rows: Iterable[CloudPrice], horizon_years: float) -> list[CloudOffer]:
    """All offers that carry the design, cheapest first. ``rows``: newest readings (:func:`newest_rows`) of its GPU."""
    offers: list[CloudOffer] = []
    interruptible = stoppable(sized)
    for row in rows:
        if row.gpu_id != sized.platform.gpu.id or not interconnect_fits(row, sized):
            continue
        count = instances_needed(row, sized)
        for kind, price in prices_of(row, horizon_years, interruptible):
            per_hour = price * count
            offers.append(
                CloudOffer(
                    provider=row.provider,
                    instance=row.instance,
                    instances=count,
                    usd_per_hour=cents(per_hour),
                    usd_over_horizon=cents(per_hour * Decimal(repr(HOURS_PER_YEAR * horizon_years))),
                    price_kind=kind,
                    region=row.region,
                    source=row.source,
                    as_of=row.as_of,
                )
            )
    return sorted(offers, key=lambda offer: (offer.usd_over_horizon, offer.provider, offer.instance))
