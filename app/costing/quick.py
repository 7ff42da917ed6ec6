"""A lifetime cost in microseconds, to rank candidates: same prices and rates as the full cost, no bill of parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.costing import market
from app.costing.cloud import cloud_offers
from app.costing.constants import (
    COLOCATION_USD_PER_KW_MONTH,
    COST_OF_CAPITAL,
    DEFAULT_HORIZON_YEARS,
    GPU_FAILURES_PER_YEAR,
    MONTHS_PER_YEAR,
    RESIDUAL_AFTER_36_MONTHS,
    STAFF_USD_PER_YEAR,
    SUPPORT_FRACTION_PER_YEAR,
    UNCOVERED_FAILURE_FRACTION,
)
from app.costing.part_prices import switch_ports
from app.costing.price_book import PriceBook, price_book
from app.costing.rates import electricity_rate
from app.costing.server_price import host_parts
from app.costing.tco import capital_cost_per_year, energy_usd_per_year, residual_fraction, staff_fte
from app.design.bill import INSTALLATION_FRACTION, SERVERS_PER_MANAGEMENT_SERVER, spare_servers
from app.design.facility import COOLING_LIMIT_KW
from app.design.parts import PartKind, ServerParts
from app.design.power import cpu_server_power, server_power
from app.engine.platform import Platform, ScaleOut
from app.engine.result import Sized
from app.units import HOURS_PER_YEAR

if TYPE_CHECKING:
    from app.catalog.loader import Catalog
    from app.workload.profile import Constraints

QUICK_PUE = 1.4
"""Planning value for a room on premises; the full cost takes the one of the cooling class."""
PORTS_PER_NIC = 3.0
"""Switch ports behind one adapter in a two-tier non-blocking fabric: one leaf down, one leaf up, one spine."""
LINKS_PER_NIC = 2.0
"""Fibres in that fabric, each with two halves of a twin-port transceiver."""
SERVERS_PER_STORAGE_SWITCH = 8
"""As in the fabric design, from 16 servers on."""
SWITCH_W_PER_PORT = 1720 / 64
"""QM9700 nameplate over its ports."""
UNPRICED_USD_PER_GBIT = 6.0
"""Network adapters and switch ports without a published price, USD per Gbit/s: a 400G adapter at 1,900 over 400 = 4.75,
rounded up. Marked as an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCost:
    """USD. capex_usd None: the GPU is not sold (cloud only); then the yearly cost is the cheapest published rent,
    infinite where there is none. estimated: a price in it was taken from comparable items."""

    capex_usd: float | None
    yearly_usd: float
    horizon_usd: float
    estimated: bool = False


UNPRICED = QuickCost(capex_usd=None, yearly_usd=float("inf"), horizon_usd=float("inf"), estimated=True)
"""What has no published price cannot win on cost."""


def quick_usd(
    sized: Sized,
    catalog: Catalog,
    constraints: Constraints | None = None,
    *,
    owned: bool = False,
    network_exists: bool = False,
) -> QuickCost:
    """Lifetime cost of a design: purchase, capital, energy, space, staff and support over the horizon.

    owned: the servers are paid for; network_exists: so is the network between them. Both then cost no capex.
    """
    book = price_book(catalog)
    if constraints is not None and constraints.deployment == "cloud" and not owned:
        return _rent(book, sized, float(constraints.horizon_years)) or UNPRICED
    horizon_years, electricity_usd_per_kwh = _terms(constraints, catalog)
    platform, servers = sized.platform, sized.servers
    spares = spare_servers(sized, constraints.availability) if constraints is not None else 0
    bought = sized.gpus + spares * platform.gpus_per_server
    hardware, estimated = _hardware_usd(book, platform, bought, servers + spares, owned)
    if hardware is None:
        return _unsold(book, sized, horizon_years)
    network = _network(book, platform.scale_out, servers, _parts(book, platform)) if sized.span == "many_servers" else NO_NETWORK
    in_use = sized.gpus / max(sized.servers, 1)
    power = server_power(platform.server, platform.gpu, max(1, round(in_use)))
    utilisation = sized.serving.utilisation if sized.serving is not None and sized.serving.hours is None else 1.0
    average_kw = (power.average_w(utilisation) * servers + network.power_w) / 1000
    peak_kw = (power.peak_w * servers + network.power_w) / 1000
    if not network_exists:
        hardware += network.usd
    if not owned:
        hardware += _site_usd(book, platform, servers, peak_kw)
    capex = hardware * (1 + INSTALLATION_FRACTION[1])
    yearly = running_usd_per_year(
        average_kw=average_kw,
        peak_kw=peak_kw,
        hardware_usd=hardware,
        usd_per_kwh=electricity_usd_per_kwh,
        rented_space=platform.server is None or platform.server.form not in ("tower", "desktop"),
    )
    return _over_horizon(capex, yearly, horizon_years, estimated or network.estimated)


def quick_cpu_usd(
    servers: int,
    cores_per_server: int,
    ram_gb_per_server: float,
    nvme_tb_per_server: float = market.NVME_DRIVE_TB,
    constraints: Constraints | None = None,
) -> QuickCost:
    """The same for servers without GPUs."""
    horizon_years, electricity_usd_per_kwh = _terms(constraints, None)
    sockets = 2 if cores_per_server > 96 else 1
    parts = host_parts(
        "CPU server", cores=cores_per_server, sockets=sockets, ram_gb=ram_gb_per_server, nvme_tb=nvme_tb_per_server, slots=1, tower=False
    )
    hardware = servers * sum(float(part.price.usd.mid) * part.quantity for part in parts if part.price is not None)
    power = cpu_server_power(cores_per_server)
    yearly = running_usd_per_year(
        average_kw=power.typical_w * servers / 1000,
        peak_kw=power.peak_w * servers / 1000,
        hardware_usd=hardware,
        usd_per_kwh=electricity_usd_per_kwh,
    )
    return _over_horizon(hardware * (1 + INSTALLATION_FRACTION[1]), yearly, horizon_years, False)


def running_usd_per_year(*, average_kw: float, peak_kw: float, hardware_usd: float, usd_per_kwh: float, rented_space: bool = True) -> float:
    """Energy, space, support, uncovered failures and staff, typical values, USD per year."""
    energy = energy_usd_per_year(average_kw, QUICK_PUE, usd_per_kwh)
    space = peak_kw * COLOCATION_USD_PER_KW_MONTH[1] * MONTHS_PER_YEAR if rented_space else 0.0
    support = hardware_usd * SUPPORT_FRACTION_PER_YEAR[1]
    failures = hardware_usd * GPU_FAILURES_PER_YEAR[1] * UNCOVERED_FAILURE_FRACTION
    return energy + space + support + failures + staff_fte(peak_kw) * STAFF_USD_PER_YEAR


def _terms(constraints: Constraints | None, catalog: Catalog | None) -> tuple[float, float]:
    """Horizon in years and the price of electricity, USD per kWh."""
    if constraints is None:
        return DEFAULT_HORIZON_YEARS, electricity_rate(None, None, ()).mid
    stated = constraints.electricity_usd_per_kwh
    rows = catalog.running_costs if catalog is not None else ()
    rate = electricity_rate(None if stated is None else float(stated), constraints.region, rows)
    return float(constraints.horizon_years or DEFAULT_HORIZON_YEARS), rate.mid


def _over_horizon(capex: float, yearly: float, horizon_years: float, estimated: bool) -> QuickCost:
    residual = residual_fraction(RESIDUAL_AFTER_36_MONTHS[1], horizon_years)
    capital = capital_cost_per_year(capex, residual, COST_OF_CAPITAL[1], horizon_years)
    return QuickCost(capex_usd=capex, yearly_usd=yearly, horizon_usd=(capital + yearly) * horizon_years, estimated=estimated)


def _parts(book: PriceBook, platform: Platform) -> ServerParts:
    return book.server_parts(platform.server, platform.gpu, platform.gpus_per_server)


def _hardware_usd(book: PriceBook, platform: Platform, gpus: int, servers: int, owned: bool) -> tuple[float | None, bool]:
    """Typical price of the servers with the GPUs in use; None when a part has no price at all."""
    if owned:
        return 0.0, False
    parts = _parts(book, platform)
    total = 0.0
    estimated = False
    for part in parts.per_server:
        if part.price is None:
            return None, False
        total += float(part.price.usd.mid) * part.quantity * servers
        estimated = estimated or part.price.comparable
    if parts.per_gpu is not None:
        if parts.per_gpu.price is None:
            return None, False
        total += float(parts.per_gpu.price.usd.mid) * gpus
        estimated = estimated or parts.per_gpu.price.comparable
    return total, estimated


@dataclass(frozen=True, slots=True)
class _Network:
    """What a fabric costs and draws; estimated: a price in it is a guess."""

    usd: float
    power_w: float
    estimated: bool


NO_NETWORK = _Network(0.0, 0.0, False)


def _network(book: PriceBook, scale_out: ScaleOut | None, servers: int, parts: ServerParts) -> _Network:
    """Adapters, whole switches and optics of a non-blocking fabric: one tier where it fits one switch, else two."""
    if scale_out is None:
        return NO_NETWORK
    speed, protocol = scale_out.nic_gbit_per_s, "infiniband" if scale_out.kind == "infiniband" else "ethernet"
    nic, switch, optic = book.part("nic", gbit_per_s=speed), book.part("switch", protocol, speed), book.part("optic", gbit_per_s=speed)
    guess = UNPRICED_USD_PER_GBIT * speed
    ports, links = switch_ports(protocol, speed), scale_out.nics_per_server * servers
    switches = 1 if links <= ports else math.ceil(PORTS_PER_NIC * links / ports)
    storage = math.ceil(servers / SERVERS_PER_STORAGE_SWITCH) if servers > 2 * SERVERS_PER_STORAGE_SWITCH else 0
    nic_usd = 0.0 if parts.nics_included else (float(nic.usd.mid) if nic else guess)
    switch_usd = float(switch.usd.mid) if switch else guess * ports
    optic_usd = float(optic.usd.mid) if optic else guess / 4
    usd = links * (nic_usd + (LINKS_PER_NIC if switches > 1 else 1) * optic_usd) + (switches + storage) * switch_usd
    return _Network(usd, switches * ports * SWITCH_W_PER_PORT, nic is None or switch is None or switch.comparable)


def _site_usd(book: PriceBook, platform: Platform, servers: int, peak_kw: float) -> float:
    """Racks, power distribution, and what several servers need to be run as one installation, USD."""
    usd = 0.0
    form = platform.server.form if platform.server is not None else "rack_server"
    if form == "rack_server":
        usd += math.ceil(peak_kw / COOLING_LIMIT_KW["air"]) * _mid(book, "rack") + peak_kw * _mid(book, "pdu")
    if servers > 1:
        usd += (1 + math.ceil(servers / SERVERS_PER_MANAGEMENT_SERVER)) * _mid(book, "management_server")
        usd += math.ceil(servers / 40) * _mid(book, "management_switch")
    return usd


def _mid(book: PriceBook, kind: PartKind) -> float:
    price = book.part(kind)
    return float(price.usd.mid) if price is not None else 0.0


def _rent(book: PriceBook, sized: Sized, horizon_years: float) -> QuickCost | None:
    """The cheapest published instances that carry the design, always on; None when there are none."""
    offers = cloud_offers(sized, book.cloud_rows.get(sized.platform.gpu.id, ()), horizon_years)
    if not offers:
        return None
    yearly = float(offers[0].usd_per_hour) * HOURS_PER_YEAR
    return QuickCost(capex_usd=0.0, yearly_usd=yearly, horizon_usd=yearly * horizon_years)


def _unsold(book: PriceBook, sized: Sized, horizon_years: float) -> QuickCost:
    """A GPU that cannot be bought: what renting costs; infinite when no price is published at all."""
    rented = _rent(book, sized, horizon_years)
    if rented is None:
        return UNPRICED
    return QuickCost(capex_usd=None, yearly_usd=rented.yearly_usd, horizon_usd=rented.horizon_usd)
