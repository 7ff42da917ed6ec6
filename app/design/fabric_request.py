"""One network on request: from plain fields to a designed and checked network, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from app.catalog.loader import Catalog
from app.catalog.schema import Gpu, Switch
from app.design.fabric import FabricPlan, FabricProtocol, design_fabric, fabric_faults
from app.engine.links import recommended_network
from app.workload.profile import FieldError, ProfileError

FIELDS = ("gpu", "n_nodes", "gpus_per_node", "nics_per_node", "nic_gbps", "switch_model", "oversubscription", "protocol")
LIMITS = {"n_nodes": 65_536.0, "gpus_per_node": 576.0, "nics_per_node": 576.0, "nic_gbps": 3200.0, "oversubscription": 16.0}
WHOLE = ("n_nodes", "gpus_per_node", "nics_per_node")


def find_switch(text: str, catalog: Catalog) -> Switch | None:
    """The catalogue switch a text names: its id, or a model name within the text (the longest that fits)."""
    lowered = text.strip().casefold()
    names = [
        (name, switch)
        for switch in catalog.switches.values()
        for name in (switch.id, *switch.name.split("/"))
        if name.casefold() in lowered
    ]
    return max(names, key=lambda pair: len(pair[0]))[1] if names else None


def network_json(plan: FabricPlan) -> dict[str, Any]:
    """The ``network`` part of a recommendation, with units, planes and power beside it."""
    return {
        "fabric": plan.fabric,
        "tiers": plan.tiers,
        "rails": plan.rails,
        "planes": plan.planes,
        "leaf_switches": plan.leaf_switches,
        "spine_switches": plan.spine_switches,
        "core_switches": plan.core_switches,
        "node_cables": plan.node_cables,
        "leaf_spine_cables": plan.leaf_spine_cables,
        "spine_core_cables": plan.spine_core_cables,
        "controller_links": plan.controller_links,
        "oversubscription": plan.oversubscription,
        "storage_switches": plan.storage_switches,
        "management_switches": plan.management_switches,
        "switch_model": plan.switch_model,
        "nic_gbit_per_s": plan.nic_gbit_per_s,
        "scalable_unit_nodes": plan.servers_per_unit,
        "scalable_units": plan.units,
        "switch_power_kw": round(plan.switch_power_w / 1000, 2),
        "optics": [{"item": part.item, "quantity": part.quantity, "where": part.where} for part in plan.optics],
        "notes": list(plan.notes),
        "faults": fabric_faults(plan),
    }


def estimate_fabric(request: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """``{"network": ...}`` for a request; NICs and rate default to what the GPU is usually bought with.

    Raises:
        ProfileError: a field is unknown, missing or out of bounds, or no switch reaches so many servers.
    """
    errors = [FieldError(name, "is not a field of this request", ", ".join(FIELDS)) for name in request if name not in FIELDS]
    numbers = {name: _number(request, name, errors) for name in LIMITS}
    gpu = _gpu(request, catalog, errors)
    switch = _switch(request, catalog, errors)
    protocol = _protocol(request, switch, errors)
    if numbers["n_nodes"] is None and not any(error.field == "n_nodes" for error in errors):
        errors.append(FieldError("n_nodes", "is missing", "1"))
    if numbers["oversubscription"] is not None and numbers["oversubscription"] < 1:
        errors.append(FieldError("oversubscription", "is down over up: 1 is none, 2 is two to one", "at least 1"))
    usual = recommended_network(gpu, protocol) if gpu is not None else None
    nics = numbers["nics_per_node"] or (usual.nics_per_server if usual else None)
    rate = numbers["nic_gbps"] or (usual.nic_gbit_per_s if usual else None)
    if nics is None or rate is None:
        errors.append(FieldError("nics_per_node", "give nics_per_node and nic_gbps, or a gpu that has a usual network"))
    if errors or nics is None or rate is None or numbers["n_nodes"] is None:
        raise ProfileError(errors)
    try:
        plan = design_fabric(
            int(numbers["n_nodes"]),
            int(nics),
            rate,
            protocol,
            catalog,
            switch_id=switch.id if switch else None,
            oversubscription=numbers["oversubscription"] or 1.0,
            gpus_per_server=int(numbers["gpus_per_node"] or 8),
        )
    except ValueError as error:
        raise ProfileError([FieldError("n_nodes", str(error))]) from error
    return {"network": network_json(plan)}


def _gpu(request: Mapping[str, Any], catalog: Catalog, errors: list[FieldError]) -> Gpu | None:
    name = request.get("gpu")
    if name is None or name == "":
        return None
    gpu = catalog.find_gpu(name) if isinstance(name, str) else None
    if gpu is None:
        near = ", ".join(catalog.suggest_gpus(name)) if isinstance(name, str) else ""
        errors.append(FieldError("gpu", f"{name!r} is not in the catalogue", near))
    return gpu


def _switch(request: Mapping[str, Any], catalog: Catalog, errors: list[FieldError]) -> Switch | None:
    name = request.get("switch_model")
    if name is None or name == "":
        return None
    switch = find_switch(name, catalog) if isinstance(name, str) else None
    if switch is None:
        errors.append(FieldError("switch_model", f"{name!r} is not in the catalogue", ", ".join(s.name for s in catalog.switches.values())))
    elif not switch.ports:
        errors.append(FieldError("switch_model", f"the port count of {switch.name} is not published"))
    return switch


def _protocol(request: Mapping[str, Any], switch: Switch | None, errors: list[FieldError]) -> FabricProtocol:
    stated = request.get("protocol")
    if stated not in (None, "", "infiniband", "ethernet"):
        errors.append(FieldError("protocol", f"{stated!r} is not a protocol", "infiniband, ethernet"))
    elif stated and switch is not None and stated != switch.protocol:
        errors.append(FieldError("protocol", f"{switch.name} is an {switch.protocol} switch", switch.protocol))
    return switch.protocol if switch is not None else "ethernet" if stated == "ethernet" else "infiniband"


def _number(request: Mapping[str, Any], field: str, errors: list[FieldError]) -> float | None:
    """A positive number within its limit; ``2:1`` is read as 2."""
    value = request.get(field)
    if value is None or value == "":
        return None
    if field == "oversubscription" and isinstance(value, str) and value.endswith(":1"):
        value = _float(value[:-2])
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 < number <= LIMITS[field] or (field in WHOLE and number != int(number)):
        word = "a whole number" if field in WHOLE else "a number"
        errors.append(FieldError(field, f"must be {word} above 0", f"at most {LIMITS[field]:g}"))
        return None
    return number


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
