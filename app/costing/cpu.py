"""Servers without GPUs: bill, room and lifetime cost in one call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.costing import market
from app.costing.cost import CostSummary, Load, owning_cost
from app.costing.price_book import price_book
from app.costing.server_price import host_parts
from app.design.bill import installation_line
from app.design.facility import FacilityPlan, cpu_facility_plan
from app.design.parts import Line, line
from app.engine.result import Shortfall

if TYPE_CHECKING:
    from app.catalog.loader import Catalog
    from app.workload.profile import Constraints

CORES_PER_SOCKET = 96
"""Largest common socket (EPYC 9654); more cores take two sockets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuDesign:
    """Everything bought and paid for CPU servers."""

    bill: tuple[Line, ...]
    facility: FacilityPlan
    cost: CostSummary


def cpu_design(
    servers: int,
    cores_per_server: int,
    ram_gb_per_server: float,
    constraints: Constraints | None,
    catalog: Catalog,
    *,
    nvme_tb_per_server: float = market.NVME_DRIVE_TB,
    load: Load | None = None,
) -> CpuDesign | Shortfall:
    """``servers`` equal servers; a :class:`Shortfall` when one alone breaks the rack limit."""
    rack_kw = constraints.rack_power_kw if constraints is not None else None
    facility = cpu_facility_plan(
        servers,
        cores_per_server,
        rack_power_kw=None if rack_kw is None else float(rack_kw),
        region=constraints.region if constraints is not None else None,
    )
    if isinstance(facility, Shortfall):
        return facility
    parts = host_parts(
        "CPU server",
        cores=cores_per_server,
        sockets=math.ceil(cores_per_server / CORES_PER_SOCKET),
        ram_gb=ram_gb_per_server,
        nvme_tb=nvme_tb_per_server,
        slots=1,
        tower=False,
    )
    book = price_book(catalog)
    hardware = [line(part.category, part.item, part.quantity * servers, part.price) for part in parts]
    hardware.append(line("rack", "Rack with cabling", facility.racks, book.part("rack")))
    hardware.append(line("pdu", "Rack power distribution, kW", math.ceil(facility.peak_kw), book.part("pdu")))
    if servers > 1:
        hardware.append(line("switch", "Top-of-rack switch, 48 ports 25 GbE", math.ceil(servers / 40), book.part("management_switch")))
    bill = (*hardware, *installation_line(hardware))
    cost = owning_cost(bill, facility, constraints, catalog, gpus=0, load=load or Load())
    return CpuDesign(bill=bill, facility=facility, cost=cost)
