"""The bill of materials: every part that has to be bought, with quantity and price, to the last cable."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from app.design.facility import FacilityPlan
from app.design.parts import Line, Part, Prices, UnitPrice, line
from app.design.storage import StoragePlan
from app.engine.result import Sized
from app.money import ZERO_USD, Usd

if TYPE_CHECKING:
    from app.design.fabric import FabricPlan

SPARE_FRACTION = 0.02
"""Spare adapters, optics and cables kept on site: one in fifty, at least one in a cluster (optics fail 2% a year)."""
SERVERS_PER_MANAGEMENT_SERVER = 128
SERVERS_PER_SPARE = 32
"""One spare server per 32 in a cluster that must survive a loss (4% of GPUs fail a year; pools of about 5% are usual)."""

INSTALLATION_FRACTION = (0.02, 0.04, 0.07)
"""Share of hardware: up to 7% in the published 8x A100 example (11,200 on 160,000), less for larger orders; assumption between."""
NVIDIA_AI_ENTERPRISE_USD_PER_GPU_YEAR = 4500
"""List price, one-year subscription (NVIDIA licensing guide, 2024-2026)."""
LICENCE_INCLUDED = ("h100-pcie-80gb", "h100-nvl-94gb", "h200-nvl-141gb")
"""Cards sold with five years of the subscription (same guide)."""


def spare_servers(sized: Sized, availability: str) -> int:
    """Servers bought beside the design so that a job can restart at once. Serving gets its redundancy as replicas."""
    restarts = sized.training is not None or sized.job is not None
    if availability == "none" or not restarts:
        return 0
    return sized.servers if availability == "2n" else max(1, math.ceil(sized.servers / SERVERS_PER_SPARE))


def bill_of_materials(
    sized: Sized,
    fabric: FabricPlan | None,
    storage: StoragePlan | None,
    facility: FacilityPlan | None,
    prices: Prices,
    *,
    availability: str = "none",
    owned: bool = False,
    network_exists: bool = False,
    horizon_years: float = 3.0,
    licences: bool = False,
) -> tuple[Line, ...]:
    """All lines of a design. ``prices`` is a price book (:func:`app.costing.price_book.price_book`).

    owned: servers and GPUs are there already and appear with nothing to pay; network_exists: so do adapters,
    switches and cables. licences: whether a software subscription is bought (else the line shows its price as
    the high end only: the design runs without it).
    """
    hardware = [
        *_server_lines(sized, prices, availability, owned),
        *_network_lines(sized, fabric, prices, owned, network_exists),
        *_storage_lines(storage, prices),
        *([] if owned else _rack_lines(sized, facility, prices)),
    ]
    hardware += _spare_lines(fabric, prices, network_exists)
    return (*hardware, *_service_lines(sized, hardware, horizon_years, licences))


def total_usd(lines: tuple[Line, ...]) -> tuple[Usd, bool]:
    """Sum of the known lines, exact to the cent, and whether every line has a price."""
    known = [item.total_usd for item in lines if item.total_usd is not None]
    return Usd.total(known), len(known) == len(lines)


def _server_lines(sized: Sized, prices: Prices, availability: str, owned: bool) -> list[Line]:
    platform = sized.platform
    parts = prices.server_parts(platform.server, platform.gpu, platform.gpus_per_server)
    spares = spare_servers(sized, availability)
    if owned:
        name = platform.server.name if platform.server else f"server with {platform.gpus_per_server} x {platform.gpu.name}"
        lines = [_owned_line("server", f"{name} (in place)", sized.servers)]
    else:
        lines = [_part_line(part, sized.servers) for part in parts.per_server]
        if parts.per_gpu is not None:
            lines.append(_part_line(parts.per_gpu, sized.gpus))
    if spares:
        lines += [_part_line(part, spares, "spare: ") for part in parts.per_server]
        if parts.per_gpu is not None:
            lines.append(_part_line(parts.per_gpu, spares * platform.gpus_per_server, "spare: "))
    return lines


def _part_line(part: Part, count: int, prefix: str = "") -> Line:
    category = part.category if not prefix else "spare"
    return line(category, prefix + part.item, part.quantity * count, part.price)


def _owned_line(category: str, item: str, quantity: int) -> Line:
    return Line(
        category=category, item=item, quantity=quantity, unit_usd=ZERO_USD, total_usd=ZERO_USD, source="already paid for: no purchase"
    )


def _network_lines(sized: Sized, fabric: FabricPlan | None, prices: Prices, owned: bool, network_exists: bool) -> list[Line]:
    """Adapters, switches, optics and cables of the fabric; a plain switch where servers only share a room."""
    platform = sized.platform
    lines: list[Line] = []
    if fabric is None:
        if sized.servers > 1 and not network_exists:
            count = math.ceil(sized.servers / 40)
            lines.append(line("switch", "Top-of-rack switch, 48 ports 25 GbE", count, prices.part("management_switch")))
        return lines
    scale_out = platform.scale_out
    protocol = fabric.protocol
    if network_exists:
        return [_owned_line("switch", f"{fabric.fabric} network (in place)", 1)]
    parts = prices.server_parts(platform.server, platform.gpu, platform.gpus_per_server)
    speed = fabric.nic_gbit_per_s
    if sized.span == "many_servers" and scale_out is not None and (owned or not parts.nics_included):
        nics = scale_out.nics_per_server * sized.servers
        lines.append(line("nic", f"{speed:g} Gbit/s {protocol} adapter", nics, prices.part("nic", gbit_per_s=speed)))
    switches = fabric.leaf_switches + fabric.spine_switches + fabric.core_switches
    lines.append(line("switch", f"{fabric.switch_model} (leaf, spine, core)", switches, prices.part("switch", protocol, speed)))
    for optic in fabric.optics:
        lines.append(_optic_line(optic.item, optic.quantity, optic.where, speed, prices))
    if fabric.storage_switches:
        lines.append(line("switch", "Storage network switch", fabric.storage_switches, prices.part("switch", protocol, speed)))
    if fabric.management_switches:
        lines.append(line("switch", "Management switch, 48 ports", fabric.management_switches, prices.part("management_switch")))
    return [item for item in lines if item.quantity > 0]


def _optic_line(item: str, quantity: int, where: str, speed: float, prices: Prices) -> Line:
    """A transceiver or a cable, priced by the speed its name states, else by the fabric's."""
    found = re.search(r"(\d+)\s*G", item)
    rate = float(found.group(1)) if found else speed
    words = item.lower()
    label = f"{item} ({where})" if where else item
    if "transceiver" in words:
        return line("optic", label, quantity, prices.part("optic", gbit_per_s=rate))
    medium = "fibre" if "fibre" in words or "fiber" in words else "copper"
    return line("cable", label, quantity, prices.part("cable", medium, rate))


def _storage_lines(storage: StoragePlan | None, prices: Prices) -> list[Line]:
    if storage is None or not storage.shared:
        return []
    return [line("storage", "Shared flash storage, usable TB", math.ceil(storage.capacity_tb), prices.part("storage_tb"))]


def _rack_lines(sized: Sized, facility: FacilityPlan | None, prices: Prices) -> list[Line]:
    """Racks, power distribution, cooling that density asks for, and the servers that run the cluster."""
    lines: list[Line] = []
    server = sized.platform.server
    rack_scale = server is not None and server.form == "rack_scale"
    if facility is not None and facility.racks > 0:
        racks = facility.racks - (sized.servers if rack_scale else 0)
        if racks > 0:
            lines.append(line("rack", "Rack with cabling", racks, prices.part("rack")))
        if not rack_scale:
            lines.append(line("pdu", "Rack power distribution, kW", math.ceil(facility.peak_kw), prices.part("pdu")))
        if facility.cooling_class in ("liquid", "rear_door"):
            liquid = facility.cooling_class == "liquid"
            name = "Liquid cooling (distribution unit, manifolds), kW" if liquid else "Rear-door heat exchanger, kW"
            lines.append(line("cooling", name, math.ceil(facility.peak_kw), prices.part("liquid_cooling_kw")))
    if sized.servers > 1:
        count = 1 + math.ceil(sized.servers / SERVERS_PER_MANAGEMENT_SERVER)
        lines.append(line("management", "Management and login server", count, prices.part("management_server")))
    return lines


def _spare_lines(fabric: FabricPlan | None, prices: Prices, network_exists: bool) -> list[Line]:
    if fabric is None or network_exists:
        return []
    optics = sum(optic.quantity for optic in fabric.optics)
    spares = max(1, math.ceil(optics * SPARE_FRACTION))
    return [line("spare", "spare: transceiver or cable", spares, prices.part("optic", gbit_per_s=fabric.nic_gbit_per_s))]


def installation_line(hardware: list[Line]) -> list[Line]:
    """Installation as a share of the hardware with a known price; no line when there is nothing to install."""
    known = Usd.total(item.total_usd for item in hardware if item.total_usd is not None)
    if known.mid <= 0:
        return []
    low, mid, high = INSTALLATION_FRACTION
    usd = Usd.of(float(known.low) * low, float(known.mid) * mid, float(known.high) * high)
    source = f"{mid:.0%} of hardware ({low:.0%}-{high:.0%})"
    price = UnitPrice(usd=usd, kind="assumption", as_of="2026", source=source)
    return [line("installation", "Installation, cabling and commissioning", 1, price)]


def _service_lines(sized: Sized, hardware: list[Line], horizon_years: float, licences: bool) -> list[Line]:
    """Installation and the software subscription."""
    lines = installation_line(hardware)
    gpu = sized.platform.gpu
    if gpu.vendor == "nvidia" and gpu.form_factor != "consumer":
        lines.append(_licence_line(sized, horizon_years, licences))
    return lines


def _licence_line(sized: Sized, horizon_years: float, bought: bool) -> Line:
    """NVIDIA AI Enterprise per GPU over the horizon: paid, included with the card, or optional (high end only)."""
    gpu = sized.platform.gpu
    name = f"NVIDIA AI Enterprise subscription, {horizon_years:g} years"
    if gpu.id in LICENCE_INCLUDED and horizon_years <= 5:
        price = UnitPrice(
            usd=ZERO_USD, kind="list_price", as_of="2026", source="included with the card for five years (NVIDIA licensing guide)"
        )
        return line("software", name, sized.gpus, price)
    full = NVIDIA_AI_ENTERPRISE_USD_PER_GPU_YEAR * horizon_years
    source = f"list {NVIDIA_AI_ENTERPRISE_USD_PER_GPU_YEAR:,} USD per GPU and year (NVIDIA licensing guide)"
    if bought:
        return line("software", name, sized.gpus, UnitPrice(usd=Usd.exact(full), kind="list_price", as_of="2026", source=source))
    source = f"optional, the design runs on open software; the high end counts it at {source}"
    optional = UnitPrice(usd=Usd.of(0, 0, full), kind="list_price", as_of="2026", source=source)
    return line("software", name + " (optional)", sized.gpus, optional)
