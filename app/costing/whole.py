"""One call from a sized design to everything that is built and paid: storage, room, bill and lifetime cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.costing.constants import DEFAULT_HORIZON_YEARS
from app.costing.cost import CostSummary, Load, cost_of
from app.costing.price_book import price_book
from app.design.bill import bill_of_materials, spare_servers
from app.design.facility import FacilityPlan, facility_plan
from app.design.parts import Line
from app.design.storage import StoragePlan, storage_plan
from app.engine.result import Shortfall, Sized
from app.workload.demand import Demand

if TYPE_CHECKING:
    from app.catalog.loader import Catalog
    from app.design.fabric import FabricPlan
    from app.workload.profile import Constraints

SWITCH_W = 1720.0
"""Nameplate of a switch whose row has none: the 64-port QM9700 with active optics."""
STORAGE_KW_PER_TB = 0.004
"""Flash servers: about 1 kW per 250 TB usable. Assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedDesign:
    """All that is bought and paid for one design."""

    storage: StoragePlan
    facility: FacilityPlan
    bill: tuple[Line, ...]
    cost: CostSummary


def costed_design(
    demand: Demand,
    sized: Sized,
    fabric: FabricPlan | None,
    constraints: Constraints,
    catalog: Catalog,
    *,
    owned: bool = False,
    network_exists: bool = False,
    licences: bool = False,
    load: Load | None = None,
) -> CostedDesign | Shortfall:
    """Storage, facility, bill and cost of a design; the facility's :class:`Shortfall` when a rack limit breaks it."""
    availability = constraints.availability
    storage = storage_plan(demand, sized)
    rack_kw = constraints.rack_power_kw
    facility = facility_plan(
        sized,
        switches=_switches(fabric),
        switch_w=_switches(fabric) * switch_watts(fabric, catalog),
        spare_servers=spare_servers(sized, availability),
        storage_kw=storage.capacity_tb * STORAGE_KW_PER_TB if storage.shared else 0.0,
        rack_power_kw=None if rack_kw is None else float(rack_kw),
        cooling=constraints.cooling,
        region=constraints.region,
    )
    if isinstance(facility, Shortfall):
        return facility
    bill = bill_of_materials(
        sized,
        fabric,
        storage,
        facility,
        price_book(catalog),
        availability=availability,
        owned=owned,
        network_exists=network_exists,
        horizon_years=float(constraints.horizon_years or DEFAULT_HORIZON_YEARS),
        licences=licences,
    )
    model_id = demand.shape.id if demand.shape is not None else ""
    cost = cost_of(sized, bill, facility, constraints, catalog, load=load, model_id=model_id)
    return CostedDesign(storage=storage, facility=facility, bill=bill, cost=cost)


def _switches(fabric: FabricPlan | None) -> int:
    if fabric is None:
        return 0
    return fabric.leaf_switches + fabric.spine_switches + fabric.core_switches + fabric.storage_switches


def switch_watts(fabric: FabricPlan | None, catalog: Catalog) -> float:
    """Nameplate of one of the fabric's switches, watts."""
    if fabric is None:
        return 0.0
    for switch in catalog.switches.values():
        if fabric.switch_model in (switch.id, switch.name) and switch.max_power_w is not None:
            return switch.max_power_w
    return SWITCH_W
