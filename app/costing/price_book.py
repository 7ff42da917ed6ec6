"""The price book: joins dated price rows to catalogue items and derives, or estimates, what no row prices.

Order for every item: the customer's own price (rows of category ``override``), a published row, a price
derived from published rows (kind ``derived``, arithmetic in the source), an estimate from comparable GPUs
(kind ``estimate``, wide range), not known (None). Nothing is ever priced 0 because its price is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from app.catalog.schema import CloudPrice, Gpu, Price, Server
from app.costing import market
from app.costing.cloud import newest_rows
from app.costing.constants import EUR_USD, FRENCH_VAT
from app.costing.market import RowKey
from app.costing.part_prices import part_price
from app.costing.server_price import server_parts
from app.design.parts import PartKind, ServerParts, UnitPrice
from app.money import Usd

if TYPE_CHECKING:
    from app.catalog.loader import Catalog

Key = tuple[str | None, str, int]


class PriceBook:
    """Prices of one catalogue. Answers are remembered: the same item always costs the same."""

    def __init__(self, prices: Iterable[Price], gpus: Mapping[str, Gpu], cloud_prices: Iterable[CloudPrice] = ()) -> None:
        self._gpus = gpus
        self.cloud_rows: dict[str, list[CloudPrice]] = {}
        for instance in newest_rows(cloud_prices):
            self.cloud_rows.setdefault(instance.gpu_id, []).append(instance)
        self._rows: dict[RowKey, list[Price]] = {}
        self._overrides: dict[str, Price] = {}
        for row in prices:
            self._rows.setdefault(RowKey(row.category, row.item), []).append(row)
            if row.category == "override" and row.item_id:
                self._overrides[row.item_id] = row
        self._cards: dict[str, UnitPrice | None] = {}
        self._servers: dict[Key, ServerParts] = {}
        self._parts: dict[tuple[str, str, float], UnitPrice | None] = {}

    def row_price(self, key: RowKey, single: tuple[float, float] = market.SINGLE_READING_RANGE) -> UnitPrice | None:
        """Price of a published row; its newest reading with a figure. EUR shelf prices lose VAT and become USD."""
        readings = [row for row in self._rows.get(key, ()) if _figures(row)]
        if not readings:
            return None
        return _unit_price(max(readings, key=lambda row: row.as_of), single)

    def override(self, item_id: str) -> UnitPrice | None:
        """The customer's own price of a catalogue item."""
        row = self._overrides.get(item_id)
        return _unit_price(row, (1.0, 1.0)) if row is not None and _figures(row) else None

    def card(self, gpu: Gpu) -> UnitPrice | None:
        """Price of one GPU on its own; None when it is not sold (cloud-only) or nothing compares."""
        if gpu.id not in self._cards:
            self._cards[gpu.id] = self.override(gpu.id) or self._published_card(gpu.id) or self._estimated_card(gpu)
        return self._cards[gpu.id]

    def server_parts(self, server: Server | None, gpu: Gpu, gpus_per_server: int) -> ServerParts:
        """How ``server`` with ``gpus_per_server`` of ``gpu`` is bought."""
        key = (server.id if server else None, gpu.id, gpus_per_server)
        if key not in self._servers:
            self._servers[key] = server_parts(self, server, gpu, gpus_per_server)
        return self._servers[key]

    def part(self, kind: PartKind, item: str = "", gbit_per_s: float = 0.0) -> UnitPrice | None:
        """Unit price of a network, storage or facility part; None = not known."""
        key = (kind, item, gbit_per_s)
        if key not in self._parts:
            self._parts[key] = self.override(item) or part_price(self, kind, item, gbit_per_s)
        return self._parts[key]

    def _published_card(self, gpu_id: str) -> UnitPrice | None:
        if gpu_id in market.KIT_ROWS:
            return self._kit_share(*market.KIT_ROWS[gpu_id])
        key = market.CARD_ROWS.get(gpu_id)
        price = self.row_price(key) if key else None
        late_key = market.LATE_RETAIL_ROWS.get(gpu_id)
        late = self.row_price(late_key) if late_key else None
        if price is None or late is None:
            return price or late
        mid = math.sqrt(float(price.usd.mid) * float(late.usd.mid))
        return UnitPrice(
            usd=Usd.of(price.usd.low, mid, late.usd.mid),
            kind="derived",
            as_of=late.as_of,
            source=(
                f"geometric mean of two conflicting readings: {price.usd.mid:,} USD ({price.as_of}, {price.source}) and "
                f"{late.usd.mid:,} USD ({late.as_of}, {late.source})"
            ),
        )

    def _kit_share(self, key: RowKey, count: int) -> UnitPrice | None:
        kit = self.row_price(key)
        if kit is None:
            return None
        ends = (float(end) / count for end in (kit.usd.low, kit.usd.mid, kit.usd.high))
        return UnitPrice(usd=Usd.of(*ends), kind="derived", as_of=kit.as_of, source=f"{kit.usd.mid:,} USD / {count}: {kit.source}")

    def alike(self, gpu: Gpu) -> tuple[Gpu, float] | None:
        """The most alike GPU with a published price, and how much more ``gpu`` is worth; None when it has its own price."""
        if gpu.id in market.CARD_ROWS or gpu.id in market.KIT_ROWS or gpu.id in self._overrides:
            return None
        other = self._nearest(gpu)
        return (other, _worth_ratio(gpu, other)) if other is not None else None

    def _estimated_card(self, gpu: Gpu) -> UnitPrice | None:
        """From the most alike GPU with a published price, scaled by what buyers pay for (:func:`_worth_ratio`)."""
        other = self._nearest(gpu)
        price = self._published_card(other.id) if other is not None else None
        if other is None or price is None:
            return None
        factor = _worth_ratio(gpu, other)
        mid = float(price.usd.mid) * factor
        low, high = market.ESTIMATE_RANGE
        return UnitPrice(
            usd=Usd.of(mid * low, mid, mid * high),
            kind="estimate",
            as_of=price.as_of,
            comparable=True,
            source=f"no published price; {other.name} at {price.usd.mid:,} USD x {factor:.2f} (memory, bandwidth, speed): {price.source}",
        )

    def _nearest(self, gpu: Gpu) -> Gpu | None:
        """The published GPU with the least distance; None for what is not sold or has no memory figure."""
        if gpu.lifecycle == "cloud_only" or gpu.form_factor == "cloud" or gpu.memory_gb is None:
            return None
        best: tuple[float, str] | None = None
        for other_id in (*market.CARD_ROWS, *market.KIT_ROWS):
            other = self._gpus.get(other_id)
            if other is None or other_id == gpu.id or other.memory_gb is None or self._published_card(other_id) is None:
                continue
            candidate = (_distance(gpu, other), other_id)
            if best is None or candidate < best:
                best = candidate
        return self._gpus[best[1]] if best is not None else None


def _ratios(gpu: Gpu, other: Gpu) -> list[float]:
    """Memory, bandwidth and dense BF16 (else FP16) rate of ``gpu`` over ``other``, as far as both are known."""
    pairs = (
        (gpu.memory_gb, other.memory_gb),
        (gpu.memory_bandwidth_gb_per_s, other.memory_bandwidth_gb_per_s),
        (gpu.bf16_tflops or gpu.fp16_tflops, other.bf16_tflops or other.fp16_tflops),
    )
    return [mine / its for mine, its in pairs if mine is not None and its is not None]


def _worth_ratio(gpu: Gpu, other: Gpu) -> float:
    """Geometric mean of the ratios of memory, bandwidth and speed: the published prices follow it within ESTIMATE_RANGE."""
    ratios = _ratios(gpu, other)
    return float(math.prod(ratios) ** (1 / len(ratios)))


def _distance(gpu: Gpu, other: Gpu) -> float:
    """How unlike two GPUs are: logs of the ratios, 0.15 a year, 2 per class border or vendor."""
    ratios = sum(abs(math.log(ratio)) for ratio in _ratios(gpu, other))
    borders = (_module(gpu) != _module(other)) + ((gpu.form_factor == "consumer") != (other.form_factor == "consumer"))
    return ratios + 0.15 * abs(gpu.year - other.year) + 2.0 * (borders + (gpu.vendor != other.vendor))


def _module(gpu: Gpu) -> bool:
    return gpu.form_factor in ("sxm", "oam", "superchip")


def _figures(row: Price) -> bool:
    return any(value is not None for value in (row.low_usd, row.typical_usd, row.high_usd))


def _unit_price(row: Price, single: tuple[float, float]) -> UnitPrice:
    """Low, typical and high of a row; a missing typical is the middle of the ends, missing ends are ``single`` around it."""
    factor = EUR_USD / (1 + FRENCH_VAT) if row.unit.upper().startswith("EUR") else 1.0
    known = [float(value) for value in (row.low_usd, row.high_usd) if value is not None]
    mid = float(row.typical_usd) if row.typical_usd is not None else sum(known) / len(known)
    low = float(row.low_usd) if row.low_usd is not None else mid * single[0]
    high = float(row.high_usd) if row.high_usd is not None else mid * single[1]
    source = row.source if factor == 1 else f"{row.source} (EUR with VAT / {1 + FRENCH_VAT:.2f} x {EUR_USD} USD per EUR)"
    return UnitPrice(
        usd=Usd.of(min(low, mid) * factor, mid * factor, max(high, mid) * factor), kind=row.kind, as_of=row.as_of, source=source
    )


_BOOKS: dict[int, tuple[object, PriceBook]] = {}
_BOOKS_KEPT = 8


def price_book(catalog: Catalog) -> PriceBook:
    """The price book of a catalogue, built once per catalogue object."""
    held = _BOOKS.get(id(catalog))
    if held is not None and held[0] is catalog:
        return held[1]
    book = PriceBook(catalog.prices, catalog.gpus, catalog.cloud_prices)
    if len(_BOOKS) >= _BOOKS_KEPT:
        _BOOKS.clear()
    _BOOKS[id(catalog)] = (catalog, book)
    return book
