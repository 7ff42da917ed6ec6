"""Prices of network, storage and facility parts from published rows, by kind and speed."""

from __future__ import annotations

from typing import Protocol

from app.costing import market
from app.costing.market import RowKey
from app.design.parts import PartKind, UnitPrice
from app.money import Usd


class RowPrices(Protocol):
    """What this module needs of the price book."""

    def row_price(self, key: RowKey, single: tuple[float, float] = ...) -> UnitPrice | None: ...


NIC_ROWS: tuple[tuple[float, RowKey], ...] = (
    (25.0, RowKey("nic", "ConnectX-6 Lx 2x25G")),
    (100.0, RowKey("nic", "ConnectX-6 Dx 2x100G")),
    (200.0, RowKey("nic", "ConnectX-6 VPI 200G")),
    (400.0, RowKey("nic", "ConnectX-7 400G OSFP")),
    (800.0, RowKey("nic", "ConnectX-8 800G")),
)
"""One adapter by port speed, Gbit/s; the next faster row prices a speed between."""

SWITCH_ROWS: tuple[tuple[str, float, RowKey], ...] = (
    ("infiniband", 100.0, RowKey("switch", "SB7800 EDR InfiniBand 36x100G")),
    ("infiniband", 200.0, RowKey("switch", "QM8700 HDR InfiniBand 40x200G")),
    ("infiniband", 400.0, RowKey("switch", "QM9700 NDR InfiniBand 64x400G")),
    ("ethernet", 800.0, RowKey("switch", "SN5610 Spectrum-4 800GbE 64 port")),
)
TRANSCEIVER = RowKey("optics", "800G OSFP transceiver, third-party")
GENERIC_CABLE = RowKey("optics", "Cable or transceiver, generic")
DAC_200 = RowKey("cable", "200G QSFP56 DAC")
DAC_100 = RowKey("cable", "100G QSFP28 DAC 1-3 m")

ACCESS_SWITCH_USD: tuple[tuple[float, tuple[float, float, float]], ...] = (
    (25.0, (1500.0, 3000.0, 8000.0)),
    (100.0, (8000.0, 12_000.0, 25_000.0)),
    (200.0, (13_000.0, 20_000.0, 40_000.0)),
)
"""Ethernet switches of 48 ports at 1-25 GbE and of 64 ports at 100 or 200 GbE have no published row here. Assumption:
reseller prices of open-network models and a share of the SN5610's price by capacity; wide range."""

SWITCH_PORTS: dict[str, tuple[tuple[float, int], ...]] = {
    "infiniband": ((200.0, 40), (400.0, 64), (800.0, 144)),
    "ethernet": ((25.0, 48), (200.0, 64), (400.0, 128), (800.0, 64)),
}
"""Ports of the usual switch by link rate: QM8700, QM9700, Q3400-RA; access, SN4600 class, SN5610 split and whole."""

XDR_FACTOR = 144 * 800 / (64 * 400)
"""A Q3400-RA has no published price: the QM9700's by capacity, 4.5 times. Assumption."""
TWIN_1600_FACTOR = 2.0
"""A 1600G twin transceiver has no published price: two 800G ones. Assumption."""


def part_price(book: RowPrices, kind: PartKind, item: str, gbit_per_s: float) -> UnitPrice | None:
    """Price of one part; ``item`` names a switch's protocol or a cable's medium, ``gbit_per_s`` its speed."""
    if kind == "nic":
        return _by_speed(book, NIC_ROWS, gbit_per_s)
    if kind == "switch":
        return _switch(book, item, gbit_per_s)
    if kind == "management_switch":
        return _switch(book, "ethernet", 25.0)
    if kind == "optic":
        return _transceiver(book, gbit_per_s)
    if kind == "cable":
        return _cable(book, item, gbit_per_s)
    return _facility(book, kind)


def _by_speed(book: RowPrices, rows: tuple[tuple[float, RowKey], ...], gbit_per_s: float) -> UnitPrice | None:
    for speed, key in rows:
        if gbit_per_s <= speed:
            return book.row_price(key)
    return None


def _switch(book: RowPrices, protocol: str, gbit_per_s: float) -> UnitPrice | None:
    if protocol == "ethernet":
        for speed, ends in ACCESS_SWITCH_USD:
            if gbit_per_s <= speed:
                source = f"assumption: {speed:g} GbE access switch, no published row"
                return UnitPrice(usd=Usd.of(*ends), kind="assumption", as_of="2026", source=source)
    for row_protocol, speed, key in SWITCH_ROWS:
        if row_protocol == protocol and gbit_per_s <= speed:
            return book.row_price(key)
    if protocol != "infiniband":
        return None
    base = book.row_price(SWITCH_ROWS[2][2])
    if base is None:
        return None
    usd = Usd.of(base.usd.low, float(base.usd.mid) * XDR_FACTOR, float(base.usd.high) * XDR_FACTOR)
    return UnitPrice(
        usd=usd,
        kind="estimate",
        comparable=True,
        as_of=base.as_of,
        source=f"no published price; QM9700 x {XDR_FACTOR:g} by capacity: {base.source}",
    )


def switch_ports(protocol: str, gbit_per_s: float) -> int:
    """Ports of the usual switch at a link rate."""
    return next((ports for speed, ports in SWITCH_PORTS[protocol] if gbit_per_s <= speed), 64)


def _transceiver(book: RowPrices, gbit_per_s: float) -> UnitPrice | None:
    """A transceiver: third-party street price, the branded one as the high end."""
    if gbit_per_s <= 200:
        return book.row_price(GENERIC_CABLE)
    base = book.row_price(TRANSCEIVER, (0.7, 4.5))
    if base is None or gbit_per_s <= 800:
        return base
    return UnitPrice(
        usd=base.usd.times(TWIN_1600_FACTOR),
        kind="estimate",
        comparable=True,
        as_of=base.as_of,
        source=f"no published price; {TWIN_1600_FACTOR:g} x an 800G transceiver: {base.source}",
    )


def _cable(book: RowPrices, item: str, gbit_per_s: float) -> UnitPrice | None:
    """A cable: passive fibre and copper up to 200G by their row, faster copper and active optical as a generic cable."""
    if item == "fibre":
        fibre = book.row_price(DAC_200)
        if fibre is None:
            return None
        source = f"passive fibre taken as {DAC_200.item}: {fibre.source}"
        return UnitPrice(usd=fibre.usd, kind="assumption", as_of=fibre.as_of, source=source)
    if gbit_per_s <= 100:
        return book.row_price(DAC_100)
    return book.row_price(DAC_200 if gbit_per_s <= 200 else GENERIC_CABLE)


def _facility(book: RowPrices, kind: PartKind) -> UnitPrice | None:
    if kind == "rack":
        return book.row_price(RowKey("facility", "Rack and cabling"))
    if kind == "pdu":
        return book.row_price(RowKey("facility", "PDU"))
    if kind == "liquid_cooling_kw":
        return book.row_price(RowKey("facility", "Direct liquid cooling (CDU, manifolds)"))
    if kind == "storage_tb":
        low, mid, high = (value * market.STORAGE_OVERHEAD for value in market.NVME_USD_PER_TB)
        source = f"NVMe {market.NVME_USD_PER_TB[1]:g} USD per raw TB (2025-2026) x {market.STORAGE_OVERHEAD} raw per usable"
        return UnitPrice(usd=Usd.of(low, mid, high), kind="derived", as_of="2026", source=source)
    if kind == "management_server":
        return UnitPrice(
            usd=Usd.of(6000, 9500, 15000),
            kind="derived",
            as_of="2026",
            source="2U chassis 4,000 + 32 cores x 140 + 3 x 312.50 RAM modules, rounded",
        )
    return None
