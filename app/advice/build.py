"""From a chosen option to what is bought: network, storage, room, bill of materials and lifetime cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.advice import recommendation as doc
from app.advice.ranking import Option
from app.catalog.loader import Catalog
from app.costing.cost import CostSummary, cost_of
from app.costing.price_book import price_book
from app.design.bill import bill_of_materials, spare_servers
from app.design.fabric import FabricPlan, design_fabric, plain_network
from app.design.facility import FacilityPlan, facility_plan
from app.design.parts import Line
from app.design.storage import StoragePlan, storage_plan
from app.engine.result import Shortfall, Sized
from app.money import Usd
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """All of one design. ``network`` is None when one server stands alone."""

    network: FabricPlan | None
    storage: StoragePlan
    facility: FacilityPlan | Shortfall
    bill: tuple[Line, ...]
    cost: CostSummary | None


def build(option: Option, demand: Demand, profile: WorkloadProfile, catalog: Catalog) -> Built:
    """Design, order and cost one option."""
    sized, constraints = option.sized, profile.constraints
    owned = option.candidate.owned is not None
    network = fabric_of(sized, catalog)
    storage = storage_plan(demand, sized)
    switches = 0 if network is None else network.leaf_switches + network.spine_switches + network.core_switches
    facility = facility_plan(
        sized,
        switches=switches,
        switch_w=0.0 if network is None else network.switch_power_w,
        spare_servers=spare_servers(sized, constraints.availability),
        rack_power_kw=constraints.rack_power_kw,
        cooling=constraints.cooling,
        region=constraints.region,
    )
    plan = facility if isinstance(facility, FacilityPlan) else None
    horizon = float(constraints.horizon_years)
    bill = bill_of_materials(
        sized,
        network,
        storage,
        plan,
        price_book(catalog),
        availability=constraints.availability,
        owned=owned,
        network_exists=option.candidate.network_exists,
        horizon_years=horizon,
    )
    model_id = demand.shape.id if demand.shape is not None and demand.shape.origin == "catalog" else ""
    cost = None if plan is None else cost_of(sized, bill, plan, constraints, catalog, model_id=model_id)
    return Built(network=network, storage=storage, facility=facility, bill=bill, cost=cost)


def fabric_of(sized: Sized, catalog: Catalog) -> FabricPlan | None:
    """The network to build: a GPU fabric where one job spans servers, plain Ethernet between several servers."""
    platform = sized.platform
    if sized.span == "many_servers" and platform.scale_out is not None:
        protocol: Literal["infiniband", "ethernet"] = "infiniband" if platform.scale_out.kind == "infiniband" else "ethernet"
        return design_fabric(
            sized.servers,
            platform.scale_out.nics_per_server,
            platform.scale_out.nic_gbit_per_s,
            protocol,
            catalog,
            gpus_per_server=platform.gpus_per_server,
        )
    return plain_network(sized.servers) if sized.servers > 1 else None


def usd_document(value: Usd | None) -> doc.UsdRange | None:
    """Money as the document carries it."""
    return None if value is None else doc.UsdRange(low=value.low, mid=value.mid, high=value.high)


def bill_document(lines: tuple[Line, ...]) -> list[doc.BillLine]:
    """The bill, line by line."""
    return [
        doc.BillLine(
            category=line.category,
            item=line.item,
            quantity=line.quantity,
            unit_usd=usd_document(line.unit_usd),
            total_usd=usd_document(line.total_usd),
            source=line.source if not line.as_of else f"{line.source} ({line.kind}, {line.as_of})",
        )
        for line in lines
    ]


def network_document(plan: FabricPlan | None) -> doc.Network | None:
    """The network with its counts."""
    if plan is None:
        return None
    return doc.Network(
        fabric=plan.fabric,
        tiers=plan.tiers,
        rails=plan.rails,
        leaf_switches=plan.leaf_switches,
        spine_switches=plan.spine_switches,
        core_switches=plan.core_switches,
        node_cables=plan.node_cables,
        leaf_spine_cables=plan.leaf_spine_cables,
        spine_core_cables=plan.spine_core_cables,
        oversubscription=plan.oversubscription,
        storage_switches=plan.storage_switches,
        management_switches=plan.management_switches,
        switch_model=plan.switch_model,
        nic_gbit_per_s=plan.nic_gbit_per_s,
        optics=[doc.Optic(item=optic.item, quantity=optic.quantity, where=optic.where) for optic in plan.optics],
        notes=list(plan.notes),
    )


def facility_document(plan: FacilityPlan | Shortfall) -> doc.Facility | None:
    """The room, or None when one server alone breaks the rack limit (said in a finding)."""
    if isinstance(plan, Shortfall):
        return None
    return doc.Facility(
        it_kw=plan.it_kw,
        peak_kw=plan.peak_kw,
        racks=plan.racks,
        cooling=plan.cooling,
        heat_btu_per_h=plan.heat_btu_per_h,
        energy_kwh_per_year=plan.energy_kwh_per_year,
        co2_t_per_year=plan.co2_t_per_year,
        pue=plan.pue,
        notes=list(plan.notes),
    )


def storage_document(plan: StoragePlan) -> doc.Storage:
    """The storage."""
    return doc.Storage(
        capacity_tb=plan.capacity_tb,
        read_gb_per_s=plan.read_gb_per_s,
        write_gb_per_s=plan.write_gb_per_s,
        checkpoint_s=plan.checkpoint_s,
        notes=list(plan.notes),
    )


def cost_document(summary: CostSummary | None) -> doc.Cost | None:
    """The lifetime cost with cloud and hosted API beside it."""
    if summary is None:
        return None
    cloud, api = summary.cloud, summary.hosted_api
    capex, opex, tco = usd_document(summary.capex_usd), usd_document(summary.opex_usd_per_year), usd_document(summary.tco_usd)
    assert capex is not None
    assert opex is not None
    assert tco is not None
    parts = {name: usd_document(value) for name, value in summary.opex_parts_usd_per_year.items()}
    return doc.Cost(
        complete=summary.complete,
        capex_usd=capex,
        opex_usd_per_year=opex,
        opex_parts_usd_per_year={name: value for name, value in parts.items() if value is not None},
        tco_usd=tco,
        horizon_years=summary.horizon_years,
        usd_per_gpu_hour=usd_document(summary.usd_per_gpu_hour),
        usd_per_million_tokens=usd_document(summary.usd_per_million_tokens),
        usd_per_run=usd_document(summary.usd_per_run),
        cloud=None
        if cloud is None
        else doc.CloudOffer(
            provider=cloud.provider,
            instance=cloud.instance,
            instances=cloud.instances,
            usd_per_hour=cloud.usd_per_hour,
            usd_over_horizon=cloud.usd_over_horizon,
            price_kind=cloud.price_kind,
            region=cloud.region,
            source=cloud.source,
            as_of=cloud.as_of,
        ),
        break_even_utilisation=summary.break_even_utilisation,
        break_even_months=summary.break_even_months,
        residual_usd=summary.residual_usd,
        notes=list(summary.notes),
        hosted_api=None
        if api is None
        else doc.HostedApi(
            provider=api.provider,
            model=api.model,
            usd_per_million_input=api.usd_per_million_input,
            usd_per_million_cached_input=api.usd_per_million_cached_input,
            usd_per_million_output=api.usd_per_million_output,
            usd_over_horizon=api.usd_over_horizon,
            break_even_tokens_per_day=api.break_even_tokens_per_day,
            source=api.source,
            note=api.note,
        ),
    )
