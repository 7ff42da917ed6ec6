"""What a bill of materials is made of: priced parts, and where their prices come from. Shape and price meet only here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from app.catalog.schema import Gpu, Kind, Server
from app.money import Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPrice:
    """One price: amount with range, what sort of figure, its date, and the source with any arithmetic spelled out."""

    usd: Usd
    kind: Kind
    as_of: str
    source: str
    comparable: bool = False
    """True: no price is published for the item itself; taken from comparable ones, wide range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of thing bought per server (or per GPU): ``quantity`` of ``item`` at ``price`` (None = not known)."""

    category: str
    item: str
    quantity: int
    price: UnitPrice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """How a server is bought: ``per_server`` parts of each server; ``per_gpu`` the card bought per GPU in use.

    whole: the server is one priced unit with its GPUs, so GPUs not needed are paid for all the same.
    nics_included: the price already holds the network adapters for jobs across servers.
    """

    per_server: tuple[Part, ...]
    per_gpu: Part | None
    whole: bool
    nics_included: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a bill: ``quantity`` x ``unit_usd`` = ``total_usd``; None = price not known, never 0."""

    category: str
    item: str
    quantity: int
    unit_usd: Usd | None
    total_usd: Usd | None
    source: str
    kind: Kind | None = None
    as_of: str = ""


PartKind = Literal[
    "nic", "switch", "optic", "cable", "rack", "pdu", "storage_tb", "management_server", "management_switch",
    "rear_door", "liquid_cooling_kw", "cpu_server_enclosure",
]  # fmt: skip


class Prices(Protocol):
    """A source of prices for the bill; the price book of :mod:`app.costing` is one."""

    def server_parts(self, server: Server | None, gpu: Gpu, gpus_per_server: int) -> ServerParts:
        """How ``server`` with ``gpus_per_server`` of ``gpu`` is bought."""

    def part(self, kind: PartKind, item: str = "", gbit_per_s: float = 0.0) -> UnitPrice | None:
        """Unit price of another part; None = not known."""


def line(category: str, item: str, quantity: int, price: UnitPrice | None, missing: str = "price not known: ask for a quote") -> Line:
    """A line from a quantity and a price."""
    if quantity < 0:
        raise ValueError(f"a quantity must be >= 0, got {quantity} of {item}")
    if price is None:
        return Line(category=category, item=item, quantity=quantity, unit_usd=None, total_usd=None, source=missing)
    total = price.usd.times(quantity)
    return Line(
        category=category,
        item=item,
        quantity=quantity,
        unit_usd=price.usd,
        total_usd=total,
        source=price.source,
        kind=price.kind,
        as_of=price.as_of,
    )
