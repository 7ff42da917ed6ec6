"""How a GPU server is bought: as one priced machine, as modules on a base system, or as cards in a chassis."""

from __future__ import annotations

import math
import re
from typing import Protocol

from app.catalog.schema import Gpu, Server
from app.costing import market
from app.costing.market import RowKey
from app.design.parts import Part, ServerParts, UnitPrice
from app.money import Usd

GUIDES = "street and list prices 2025-2026"


class CardPrices(Protocol):
    """What this module needs of the price book."""

    def card(self, gpu: Gpu) -> UnitPrice | None: ...

    def row_price(self, key: RowKey, single: tuple[float, float] = ...) -> UnitPrice | None: ...

    def override(self, item_id: str) -> UnitPrice | None: ...

    def alike(self, gpu: Gpu) -> tuple[Gpu, float] | None: ...


def server_parts(book: CardPrices, server: Server | None, gpu: Gpu, gpus_per_server: int) -> ServerParts:
    """Parts of one server with ``gpus_per_server`` of ``gpu``; see :class:`app.design.parts.ServerParts`."""
    name = server.name if server else f"Server for {gpus_per_server} x {gpu.name}"
    own = book.override(server.id) if server else None
    whole = own or _whole_price(book, gpu, gpus_per_server)
    if whole is not None:
        part = Part(category="server", item=name, quantity=1, price=whole)
        return ServerParts(per_server=(part,), per_gpu=None, whole=True, nics_included=True)
    card = book.card(gpu)
    if gpu.form_factor in ("sxm", "oam", "superchip", "cloud"):
        return _module_server(name, gpu, gpus_per_server, card)
    return ServerParts(
        per_server=_card_server_parts(name, server, gpu, gpus_per_server),
        per_gpu=Part(category="gpu", item=gpu.name, quantity=1, price=card),
        whole=False,
        nics_included=False,
    )


def _whole_price(book: CardPrices, gpu: Gpu, count: int) -> UnitPrice | None:
    """Price of a complete machine: its own row, for racks with integration, or the machine of the most alike GPU."""
    own = _whole_row(book, gpu.id, count)
    if own is not None:
        return own
    alike = book.alike(gpu)
    reference = _whole_row(book, alike[0].id, count) if alike is not None else None
    if alike is None or reference is None:
        return None
    other, factor = alike
    low, high = market.ESTIMATE_RANGE
    mid = float(reference.usd.mid) * factor
    return UnitPrice(
        usd=Usd.of(mid * low, mid, mid * high),
        kind="estimate",
        as_of=reference.as_of,
        comparable=True,
        source=f"no published price; machine with {other.name} at {reference.usd.mid:,} USD x {factor:.2f}: {reference.source}",
    )


def _whole_row(book: CardPrices, gpu_id: str, count: int) -> UnitPrice | None:
    key = market.WHOLE_SERVER_ROWS.get((gpu_id, count))
    price = book.row_price(key, market.WHOLE_RANGE) if key is not None else None
    if price is None or count < market.RACK_SCALE_GPUS:
        return price
    all_in, bare = book.row_price(market.ALL_IN_RACK), book.row_price(market.BARE_RACK)
    if all_in is None or bare is None:
        return price
    ratio = float(all_in.usd.mid) / float(bare.usd.mid)
    mid = float(price.usd.mid) * math.sqrt(ratio)
    return UnitPrice(
        usd=Usd.of(min(float(price.usd.low), mid), mid, max(float(price.usd.mid) * ratio, mid)),
        kind="derived",
        as_of=price.as_of,
        source=f"{price.usd.mid:,} USD bare rack x {math.sqrt(ratio):.2f} (geometric mean with the all-in price): {price.source}",
    )


def _module_server(name: str, gpu: Gpu, count: int, card: UnitPrice | None) -> ServerParts:
    """Modules on a base system, sold as one machine: count x module + base (scaled by the modules it holds)."""
    price = None
    if card is not None:
        scale = count / 8
        low, mid, high = (value * scale for value in market.MODULE_NODE_USD)
        base = Usd.of(low, mid, high)
        price = UnitPrice(
            usd=card.usd.times(count).plus(base),
            kind="estimate" if card.comparable else "derived",
            comparable=card.comparable,
            as_of=card.as_of,
            source=f"{count} x {card.usd.mid:,} USD per module + {base.mid:,} USD chassis, CPUs and RAM; module: {card.source}",
        )
    part = Part(category="server", item=name, quantity=1, price=price)
    return ServerParts(per_server=(part,), per_gpu=None, whole=True, nics_included=False)


def cpu_cores_needed(gpu: Gpu, count: int) -> int:
    """Physical cores by rule: 8 per data-centre GPU, 6 per workstation GPU, at least 16."""
    each = 6 if gpu.form_factor in ("workstation", "consumer") else 8
    return max(16, each * count)


def ram_gb_needed(gpu: Gpu, count: int) -> float:
    """Host memory by rule: twice the GPU memory, 1.4 times above 1 TB of it, at least 64 GB."""
    total = (gpu.memory_gb or 0.0) * count
    return max(64.0, total * (1.4 if total > 1000 else 2.0))


def nvme_tb_needed(count: int) -> float:
    """Local flash by rule: one 3.84 TB drive per GPU up to eight."""
    return market.NVME_DRIVE_TB * min(count, 8)


def _card_server_parts(name: str, server: Server | None, gpu: Gpu, count: int) -> tuple[Part, ...]:
    """Enclosure, CPUs, RAM and NVMe of a card server; what the server's row lacks is sized by rule."""
    cores = (server.cpu_cores if server else None) or cpu_cores_needed(gpu, count)
    ram_gb = (server.ram_gb if server else None) or ram_gb_needed(gpu, count)
    nvme_tb = (server.nvme_tb if server else None) or nvme_tb_needed(count)
    tower = server is not None and server.form in ("tower", "desktop")
    return host_parts(name, cores=cores, sockets=_sockets(server, cores), ram_gb=ram_gb, nvme_tb=nvme_tb, slots=count, tower=tower)


def _sockets(server: Server | None, cores: int) -> int:
    found = re.match(r"\s*(\d+)\s*x", server.cpu) if server else None
    return int(found.group(1)) if found else (2 if cores > 32 else 1)


def host_parts(name: str, *, cores: int, sockets: int, ram_gb: float, nvme_tb: float, slots: int, tower: bool) -> tuple[Part, ...]:
    """Priced parts of a host without GPUs: enclosure, CPUs, RAM in 64 GB modules, NVMe in 3.84 TB drives."""
    if tower:
        enclosure = _assumed(market.TOWER_ENCLOSURE_USD, "assumption: half a bare 2U server chassis")
    else:
        units = math.ceil(max(slots, 1) / 4)
        low, mid, high = market.RACK_ENCLOSURE_USD_PER_4_SLOTS
        enclosure = _assumed((low * units, mid * units, high * units), f"bare chassis {mid:,.0f} USD per four GPU slots; {GUIDES}")
    per_cpu = cores / sockets
    low, mid, high = market.CPU_USD_PER_CORE
    cpu = _assumed(
        (low * per_cpu, mid * per_cpu, high * per_cpu), f"{per_cpu:g} cores x {mid:g} USD per core (launch lists of EPYC 9654, Xeon 8480+)"
    )
    ram = _assumed(market.RAM_MODULE_USD, "1 TB kit of sixteen at 5,000 USD (2026-07)")
    low, mid, high = (value * market.NVME_DRIVE_TB for value in market.NVME_USD_PER_TB)
    drive = _assumed((low, mid, high), f"{market.NVME_DRIVE_TB} TB x {market.NVME_USD_PER_TB[1]:g} USD per TB (2025-2026)")
    return (
        Part(category="server", item=f"{name}: chassis, board, power supplies", quantity=1, price=enclosure),
        Part(category="cpu", item=f"CPU, {per_cpu:g} cores", quantity=sockets, price=cpu),
        Part(category="memory", item=f"RAM module {market.RAM_MODULE_GB} GB", quantity=math.ceil(ram_gb / market.RAM_MODULE_GB), price=ram),
        Part(
            category="drive", item=f"NVMe drive {market.NVME_DRIVE_TB} TB", quantity=math.ceil(nvme_tb / market.NVME_DRIVE_TB), price=drive
        ),
    )


def _assumed(usd: tuple[float, float, float], source: str) -> UnitPrice:
    return UnitPrice(usd=Usd.of(*usd), kind="derived", as_of="2026", source=source)
