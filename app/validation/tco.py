"""Check the price book against published all-in costs per GPU-hour and all-in power per GPU.

One set of assumptions per kind of owner; none per GPU. The published figures include the GPU's share of
server, network and cooling, at full use of every hour of the year.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.catalog.schema import Gpu, Server
from app.costing.constants import MONTHS_PER_YEAR, OWN_ROOM_USD_PER_KW_MONTH, STAFF_USD_PER_YEAR
from app.costing.market import ALL_IN_RACK, BARE_RACK, RACK_SCALE_GPUS, RowKey
from app.costing.price_book import PriceBook, price_book
from app.costing.tco import capital_recovery_factor
from app.design.power import TYPICAL_OVER_PEAK, server_power
from app.units import HOURS_PER_YEAR

if TYPE_CHECKING:
    from app.catalog.loader import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What one kind of owner pays for capital, room, energy and people. No residual value is counted."""

    rate_per_year: float
    life_years: float
    room_usd_per_kw_month: float
    """Per kW of IT nameplate."""
    electricity_usd_per_kwh: float
    gpus_per_engineer: float
    source: str


OWNERS: dict[str, Owner] = {
    "hyperscaler": Owner(
        rate_per_year=0.06,
        life_years=6.0,
        room_usd_per_kw_month=OWN_ROOM_USD_PER_KW_MONTH[1],
        electricity_usd_per_kwh=0.066,
        gpus_per_engineer=1200.0,
        source="low end of the cost-of-capital band; 6-year server life (filings of Google and Microsoft); own building; "
        "Texas industrial tariff; 150 eight-GPU servers per engineer, twice the guide's middle, at that scale",
    ),
    "neocloud": Owner(
        rate_per_year=0.09,
        life_years=5.0,
        room_usd_per_kw_month=137.5,
        electricity_usd_per_kwh=0.083,
        gpus_per_engineer=600.0,
        source="middle of the cost-of-capital band; 5-year planning life; large colocation lease (1.65M USD per MW-year); "
        "US industrial tariff; 75 eight-GPU servers per engineer",
    ),
}

FACILITY_PUE = {"air": 1.25, "liquid": 1.15}
"""Large operators: 1.25 (Epoch AI's other-operator value) by air, 1.15 by direct liquid."""
NETWORK_W_PER_GPU = 3 * 1720 / 64
"""Three ports of a two-tier fabric at the QM9700's nameplate: 81 W."""

ALL_IN_GPU = RowKey("all-in", "H100, all-in cluster cost per GPU")
BARE_H100 = RowKey("planning-band", "8x H100 SXM server, complete")
"""Published all-in prices of one server-based and one rack-scale system against the machine's own price: what network,
storage and installation add, in USD per GPU for servers and as a factor for racks (whose price in the book is the
geometric mean of bare and all-in, so that the factor is the root of their ratio)."""

BENCHMARK = "all-in-benchmark"
GPU_OF = {
    "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb", "b300": "b300-sxm-288gb", "gb200": "gb200",
    "gb300": "gb300", "mi300x": "mi300x", "mi325x": "mi325x", "mi350x": "mi350x", "mi355x": "mi355x", "vr200": "vr200",
    "a100": "a100-sxm-80gb", "h20": "h20-96gb", "gaudi3": "gaudi3",
}  # fmt: skip
"""Names the benchmark rows use for the module of a server; the rack-scale names have 72 GPUs."""


def gpus_per_system(gpu: Gpu) -> int:
    """GPUs of the machine the benchmark means: a rack of 72 for superchips, else a server of eight."""
    return RACK_SCALE_GPUS if gpu.form_factor == "superchip" or gpu.id in ("gb200", "gb300", "vr200") else 8


def system_row(catalog: Catalog, gpu: Gpu) -> Server | None:
    """The catalogue server of that size with stated power, the more trusted first."""
    rank = {"high": 0, "medium": 1, "low": 2}
    rows = [row for row in catalog.servers_for(gpu.id) if row.gpus == gpus_per_system(gpu) and row.cooling != "immersion"]
    return min(rows, key=lambda row: (row.max_power_w is None, rank[row.confidence], row.id), default=None)


def all_in_kw_per_gpu(gpu: Gpu, server: Server | None) -> float:
    """Nameplate of the server's share and the network, times the PUE of its cooling, kW."""
    count = server.gpus if server else gpus_per_system(gpu)
    server_w = server_power(server, gpu, count).peak_w / count
    liquid = server is not None and server.cooling in ("liquid", "hybrid")
    return (server_w + NETWORK_W_PER_GPU) / 1000 * FACILITY_PUE["liquid" if liquid else "air"]


def all_in_usd_per_gpu(book: PriceBook, gpu: Gpu, server: Server | None) -> float | None:
    """Price of a GPU's share of a whole cluster, USD: the machine plus network, storage and installation."""
    count = server.gpus if server else gpus_per_system(gpu)
    parts = book.server_parts(server, gpu, count)
    prices = [part.price.usd.mid * part.quantity for part in parts.per_server if part.price is not None]
    if len(prices) < len(parts.per_server) or parts.per_gpu is not None:
        return None
    machine = float(sum(prices)) / count
    if count >= RACK_SCALE_GPUS:
        whole, bare = book.row_price(ALL_IN_RACK), book.row_price(BARE_RACK)
        return machine * math.sqrt(float(whole.usd.mid) / float(bare.usd.mid)) if whole and bare else None
    whole, bare = book.row_price(ALL_IN_GPU), book.row_price(BARE_H100)
    return machine + float(whole.usd.mid) - float(bare.usd.mid) / 8 if whole and bare else None


def usd_per_gpu_hour(owner: Owner, purchase_usd: float, all_in_kw: float, pue: float) -> float:
    """Capital recovery + room + energy + people, USD per GPU-hour.

    Room is paid on IT nameplate (all-in kW / PUE), energy on typical power (80% of nameplate) with the PUE.
    """
    it_kw = all_in_kw / pue
    yearly = (
        purchase_usd * capital_recovery_factor(owner.rate_per_year, owner.life_years)
        + it_kw * owner.room_usd_per_kw_month * MONTHS_PER_YEAR
        + all_in_kw * TYPICAL_OVER_PEAK * HOURS_PER_YEAR * owner.electricity_usd_per_kwh
        + STAFF_USD_PER_YEAR / owner.gpus_per_engineer
    )
    return yearly / HOURS_PER_YEAR


def validate_tco(rows: Iterable[Mapping[str, str]], catalog: Catalog) -> dict[str, Any]:
    """Figures of the contract's ``--tco`` family: rows, predicted, skipped, median_abs_error, per_row."""
    book = price_book(catalog)
    per_row: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    count = 0
    for number, row in enumerate(rows, start=1):
        if row.get("category") != BENCHMARK:
            continue
        count += 1
        identity = row.get("id") or f"{number}: {row.get('item', '')} {row.get('region', '')}".strip()
        outcome = _predicted(row, catalog, book)
        if isinstance(outcome, str):
            skipped.append({"id": identity, "why": outcome})
            continue
        metric, predicted = outcome
        measured = float(row["typical"])
        error = predicted / measured - 1
        per_row.append({"id": identity, "metric": metric, "measured": measured, "predicted": round(predicted, 4), "error": round(error, 4)})
    errors = [abs(item["error"]) for item in per_row]
    return {
        "rows": count,
        "predicted": len(per_row),
        "skipped": skipped,
        "median_abs_error": statistics.median(errors) if errors else None,
        "max_abs_error": max(errors) if errors else None,
        "per_row": per_row,
    }


def _predicted(row: Mapping[str, str], catalog: Catalog, book: PriceBook) -> tuple[str, float] | str:
    """Metric and prediction of one row, or why there is none."""
    item = row.get("item", "").lower()
    if "rental" in item:
        return "a rental price, not a cost of owning"
    if "cost stack" in item:
        return "one part of another publisher's cost stack"
    if not row.get("typical"):
        return "no figure"
    gpu = _gpu(row, catalog)
    if gpu is None:
        return f"GPU not in the catalogue: {row.get('gpu_id') or row.get('region', '')}"
    server = system_row(catalog, gpu)
    power = all_in_kw_per_gpu(gpu, server)
    if "power" in item:
        return "all_in_kw_per_gpu", power
    owner = next((value for name, value in OWNERS.items() if name in item), None)
    if owner is None:
        return "the kind of owner is not stated"
    purchase = all_in_usd_per_gpu(book, gpu, server)
    if purchase is None:
        return "no price known for this system"
    liquid = server is not None and server.cooling in ("liquid", "hybrid")
    pue = FACILITY_PUE["liquid" if liquid else "air"]
    return "usd_per_gpu_hour", usd_per_gpu_hour(owner, purchase, power, pue)


def _gpu(row: Mapping[str, str], catalog: Catalog) -> Gpu | None:
    """The catalogue GPU of a row: its ``gpu_id`` where it has one, else the name in ``region``."""
    stated = row.get("gpu_id")
    if stated and stated in catalog.gpus:
        return catalog.gpus[stated]
    name = re.sub(r"[^a-z0-9]", "", row.get("region", "").lower())
    known = GPU_OF.get(name)
    found: Gpu | None = catalog.gpus.get(known) if known else None
    return found
