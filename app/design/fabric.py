"""The network to order: switch type, tiers, rails, counts, cables, optics, power; and the plain network of replicas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from app.catalog.schema import Cable, Switch
from app.design.cabling import SERVERS_PER_RACK, PlanOptic, link_optics, row_length_m
from app.design.topology import PAIR_FILL, PAIR_SERVERS, Shape, Style, faults, links_of, shape_of

FabricProtocol = Literal["infiniband", "ethernet"]


class SwitchCatalog(Protocol):
    """The part of the catalogue a network is chosen from."""

    @property
    def switches(self) -> Mapping[str, Switch]: ...

    @property
    def cables(self) -> Mapping[str, Cable]: ...


PREFERRED: dict[str, tuple[tuple[float, str], ...]] = {
    "infiniband": ((200.0, "QM8700"), (400.0, "QM9700"), (800.0, "Q3400-RA")),
    "ethernet": ((100.0, "SN4600C"), (200.0, "SN4600"), (400.0, "SN5610"), (800.0, "SN5610")),
}
"""Switch usually sold with NICs of a rate, smallest first; reference architectures of the NIC's generation."""

SPLIT = {"infiniband": 2, "ethernet": 4}
"""Most links one port can be split into at a lower rate (QM9700: 2 x 200G; SN5600: 4 x 200G)."""
WATT_PER_TBIT = 40.0
"""Nameplate where no sheet gives one: SN5610, 2,080 W at 51.2 Tbit/s; assumption for others."""
STORAGE_SERVERS_PER_SWITCH = 8
"""16 storage switches at 127 servers: SuperPOD H100 reference, table 7."""
MANAGEMENT_PORTS = 46
"""48 less two uplinks."""
CONTROLLER_LINKS = 4
"""Two fabric-manager appliances with two ports each, in InfiniBand from one scalable unit on: SuperPOD H100, table 4."""
STORAGE_PAIR_SERVERS = 16
SWITCHES_PER_RACK = 16
WITHIN_RACK_M = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPlan:
    """One network. Counts are over all planes; cables are physical: two links of a twin-plane NIC share one."""

    fabric: str
    protocol: str
    servers: int
    tiers: int
    rails: int
    planes: int
    leaf_switches: int
    spine_switches: int
    core_switches: int
    node_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    oversubscription: float
    """Down over up at the leaf, as built."""
    storage_switches: int
    management_switches: int
    controller_links: int
    """Leaf ports taken by fabric-manager appliances."""
    servers_per_unit: int
    units: int
    switch_model: str
    switch_ports: int
    """At the rate of one link."""
    nic_gbit_per_s: float
    link_gbit_per_s: float
    switch_power_w: float
    """Nameplate of leaf, spine and core switches, active optics included."""
    optics_power_w: float
    """Transceivers at the servers, where known."""
    optics: tuple[PlanOptic, ...]
    notes: tuple[str, ...]
    server_leaf_m: float = 0.0
    leaf_spine_m: float = 0.0
    """Longest cables; a plan without a shape has none between switches."""
    shape: Shape | None = None
    """Counts from which the links can be listed; None for a plain network."""


def design_fabric(
    servers: int,
    nics_per_server: int,
    nic_gbit_per_s: float,
    protocol: FabricProtocol,
    catalog: SwitchCatalog,
    switch_id: str | None = None,
    oversubscription: float = 1.0,
    gpus_per_server: int = 8,
    *,
    style: Style = "rail",
    spine_ports: int | None = None,
    server_leaf_m: float | None = None,
    leaf_spine_m: float | None = None,
) -> FabricPlan:
    """Network for the GPU NICs of ``servers`` servers.

    oversubscription: down over up allowed at the leaf, 1 = none. switch_id: catalogue id or model name.
    style ``top_of_rack``: one leaf per rack of two servers instead of rails.
    server_leaf_m, leaf_spine_m: longest cable an installer measured; they replace the estimate from the rack layout.

    Raises:
        ValueError: no switch of the catalogue carries the NIC rate, or three tiers do not reach the servers.
    """
    if servers < 1 or nics_per_server < 1 or oversubscription < 1:
        raise ValueError("servers and nics_per_server are at least 1, oversubscription at least 1")
    if servers == 2 and nics_per_server == 1 and gpus_per_server == 1 and switch_id is None:
        return _direct_pair(nic_gbit_per_s, protocol)
    failure = f"no {protocol} switch in the catalogue carries {nic_gbit_per_s:g} Gbit/s"
    for switch in _choices(catalog, protocol, nic_gbit_per_s, switch_id):
        allowed = (1,) if style == "top_of_rack" else _planes(switch, protocol, nic_gbit_per_s)
        for planes in allowed:
            ports = _ports(switch, protocol, nic_gbit_per_s / planes)
            if ports == 0:
                continue
            shape = shape_of(
                servers,
                nics_per_server,
                gpus_per_server,
                ports,
                planes=planes,
                oversubscription=oversubscription,
                pair_fill=_pair_fill(protocol, servers),
                style=style,
                spine_ports=spine_ports,
            )
            if shape is not None and (shape.tiers < 3 or planes == allowed[-1]):
                return _plan(shape, switch, protocol, nic_gbit_per_s, catalog, (server_leaf_m, leaf_spine_m))
            failure = f"{servers} servers with {nics_per_server} NICs are more than three tiers of {switch.name} reach"
    raise ValueError(failure)


def _direct_pair(nic_gbit_per_s: float, protocol: FabricProtocol) -> FabricPlan:
    """Two desktop machines on one cable, as GB10 systems are paired."""
    cable = PlanOptic(item=f"{nic_gbit_per_s:g}G copper cable (DAC)", quantity=1, where="between the two machines", power_w=0.0)
    return FabricPlan(
        fabric="InfiniBand" if protocol == "infiniband" else "Ethernet (RoCE)",
        protocol=protocol,
        servers=2,
        tiers=0,
        rails=1,
        planes=1,
        leaf_switches=0,
        spine_switches=0,
        core_switches=0,
        node_cables=1,
        leaf_spine_cables=0,
        spine_core_cables=0,
        oversubscription=1.0,
        storage_switches=0,
        management_switches=0,
        controller_links=0,
        servers_per_unit=2,
        units=1,
        switch_model="none: direct cable",
        switch_ports=0,
        nic_gbit_per_s=nic_gbit_per_s,
        link_gbit_per_s=nic_gbit_per_s,
        switch_power_w=0.0,
        optics_power_w=0.0,
        optics=(cable,),
        notes=("Two machines need no switch; a third does.",),
    )


def _choices(catalog: SwitchCatalog, protocol: str, nic_gbit_per_s: float, switch_id: str | None) -> list[Switch]:
    """Switches to try: the one named, else the usual one of the rate and then the larger ones."""
    if switch_id is not None:
        wanted = switch_id.casefold()
        named = [
            s for s in catalog.switches.values() if wanted in (s.id.casefold(), s.name.casefold()) or wanted in s.name.casefold().split("/")
        ]
        if not named:
            raise ValueError(f"switch {switch_id!r} is not in the catalogue")
        return named[:1]
    names = [name for rate, name in PREFERRED[protocol] if rate >= nic_gbit_per_s]
    found = [s for name in dict.fromkeys(names) for s in catalog.switches.values() if name in s.name.split("/") and s.protocol == protocol]
    larger = [
        s
        for s in catalog.switches.values()
        if s.protocol == protocol and s.ports and s.port_gbit_per_s >= nic_gbit_per_s and s not in found
    ]
    return found + sorted(larger, key=lambda s: (s.port_gbit_per_s * (s.ports or 0), s.id))


def _planes(switch: Switch, protocol: str, nic_gbit_per_s: float) -> tuple[int, ...]:
    """Numbers of planes to try. 800G Ethernet NICs are two 400G ports and go to two planes (DGX B300 reference); others
    may, when one plane would need a third tier."""
    if protocol == "infiniband":
        return (1,)
    if nic_gbit_per_s >= 800 and switch.port_gbit_per_s == nic_gbit_per_s:
        return (2,)
    return (1, 2) if nic_gbit_per_s >= 400 else (1,)


def _ports(switch: Switch, protocol: str, link_gbit_per_s: float) -> int:
    """Ports of a switch at a link rate, split where the rate is lower; 0 = too slow or not known."""
    if not switch.ports or switch.port_gbit_per_s < link_gbit_per_s:
        return 0
    return switch.ports * min(SPLIT[protocol], int(switch.port_gbit_per_s // link_gbit_per_s))


def _pair_fill(protocol: str, servers: int) -> float:
    """Ports of one switch that a cross-connected pair may give to servers: half of each switch in InfiniBand (BasePOD),
    three quarters of one in a converged Ethernet pair."""
    if protocol == "infiniband":
        return 1.0
    return PAIR_FILL if servers <= PAIR_SERVERS else 0.0


def _plan(
    shape: Shape,
    switch: Switch,
    protocol: FabricProtocol,
    nic_gbit_per_s: float,
    catalog: SwitchCatalog,
    measured_m: tuple[float | None, float | None],
) -> FabricPlan:
    switches = shape.leaf_switches + shape.spine_switches + shape.core_switches
    link = nic_gbit_per_s / shape.planes
    near, far = _lengths_m(shape)
    near, far = measured_m[0] or near, measured_m[1] or far
    optics = _optics(shape, switch, protocol, link, catalog, near, far)
    storage = 0 if shape.servers <= STORAGE_PAIR_SERVERS else math.ceil(shape.servers / STORAGE_SERVERS_PER_SWITCH)
    controller = _controller_links(shape, protocol)
    return FabricPlan(
        fabric="InfiniBand" if protocol == "infiniband" else "Ethernet (RoCE)",
        protocol=protocol,
        servers=shape.servers,
        tiers=shape.tiers,
        rails=shape.rails,
        planes=shape.planes,
        leaf_switches=shape.leaf_switches,
        spine_switches=shape.spine_switches,
        core_switches=shape.core_switches,
        node_cables=shape.node_links // shape.planes,
        leaf_spine_cables=shape.leaf_spine_links // shape.planes,
        spine_core_cables=shape.spine_core_links // shape.planes,
        oversubscription=max(1.0, shape.leaf_down_links / shape.uplinks) if shape.tiers > 1 else 1.0,
        storage_switches=storage,
        management_switches=management_switches(shape.servers, switches),
        controller_links=controller,
        servers_per_unit=shape.servers_per_unit,
        units=shape.units,
        switch_model=switch.name,
        switch_ports=shape.ports,
        nic_gbit_per_s=nic_gbit_per_s,
        link_gbit_per_s=link,
        switch_power_w=switches * nameplate_w(switch),
        optics_power_w=sum(part.quantity * (part.power_w or 0.0) for part in optics if part.where == "server to leaf"),
        optics=optics,
        notes=_notes(shape, switch, protocol, storage, controller),
        server_leaf_m=near,
        leaf_spine_m=far,
        shape=shape,
    )


def nameplate_w(switch: Switch) -> float:
    """Watts of one switch with active optics: the sheet's maximum, else :data:`WATT_PER_TBIT` of port capacity."""
    if switch.max_power_w is not None:
        return switch.max_power_w
    return WATT_PER_TBIT * (switch.ports or 0) * switch.port_gbit_per_s / 1000


def management_switches(servers: int, fabric_switches: int) -> int:
    """48-port switches for management ports: one per server, one per fabric switch, six power strips per seven servers.

    The SuperPOD H100 reference lists 127 servers, 64 switches, 108 strips: 8 switches; this gives 7.
    """
    return max(1, math.ceil((servers + fabric_switches + servers * 6 / 7) / MANAGEMENT_PORTS))


def _controller_links(shape: Shape, protocol: str) -> int:
    """Ports the fabric managers take, where the leaves have them free."""
    if protocol != "infiniband" or shape.tiers == 1:
        return 0
    free = shape.leaf_switches * (shape.ports - shape.uplinks) - shape.node_links
    return min(CONTROLLER_LINKS, free)


def _lengths_m(shape: Shape) -> tuple[float, float]:
    """Longest cable from server to leaf and above the leaves, from the rack layout."""
    racks = math.ceil(shape.servers / SERVERS_PER_RACK)
    unit_racks = math.ceil(min(shape.servers, shape.servers_per_unit) / SERVERS_PER_RACK)
    near = WITHIN_RACK_M if racks == 1 else row_length_m(unit_racks)
    if shape.cross_connected:
        return near, WITHIN_RACK_M
    return near, row_length_m(racks + math.ceil((shape.spine_switches + shape.core_switches) / SWITCHES_PER_RACK))


def _optics(
    shape: Shape, switch: Switch, protocol: str, link: float, catalog: SwitchCatalog, near: float, far: float
) -> tuple[PlanOptic, ...]:
    """Cables and transceivers of each tier at its length in metres."""
    cables = catalog.cables
    twin_switch = switch.port_gbit_per_s >= 400 and link * 2 >= switch.port_gbit_per_s
    twin_server = shape.nics_per_server % 2 == 0 and link >= 400 and shape.planes == 1
    ends = int(twin_switch) + int(twin_server)
    parts = link_optics(cables, protocol, link, shape.node_links, near, "server to leaf", twin_ends=ends)
    between = "between the two switches" if shape.cross_connected else "leaf to spine"
    parts += link_optics(cables, protocol, link, shape.leaf_spine_links, far, between, twin_ends=2 * int(twin_switch))
    parts += link_optics(cables, protocol, link, shape.spine_core_links, far, "spine to core", twin_ends=2 * int(twin_switch))
    return tuple(parts)


def _notes(shape: Shape, switch: Switch, protocol: str, storage: int, controller: int) -> tuple[str, ...]:
    notes = []
    if shape.cross_connected:
        notes.append("Two cross-connected switches share the rails; either may fail at half the bandwidth.")
    if shape.planes == 2:
        notes.append("Two planes: each NIC has one port in each; a plane may fail at half the bandwidth.")
    if shape.tiers > 1 and shape.servers % shape.servers_per_unit:
        notes.append(f"Leaves and uplinks are bought for whole units of {shape.servers_per_unit} servers; the last is partly filled.")
    if protocol == "infiniband" and shape.tiers > 1 and controller == 0:
        notes.append(
            "Every leaf port is taken: the fabric managers need a port, so leave one server out of each unit or attach them to a spine."
        )
    if protocol == "ethernet":
        notes.append("Lossless set-up needed: PFC and ECN, adaptive routing or packet spraying, and monitoring of both.")
    if storage == 0:
        notes.append("Storage and in-band traffic share these switches.")
    if switch.max_power_w is None:
        notes.append(f"Power of {switch.name} is not published: {WATT_PER_TBIT:g} W per Tbit/s of ports is assumed.")
    return tuple(notes)


def fabric_faults(plan: FabricPlan) -> list[str]:
    """Faults of a plan as cabled, link by link; empty = valid. A plain network has nothing to check."""
    if plan.shape is None:
        return []
    return faults(plan.shape, links_of(plan.shape), plan.oversubscription)


PLAIN_PORTS = 48


def plain_network(servers: int, gbit: float = 25.0) -> FabricPlan:
    """Ordinary Ethernet for servers whose jobs never talk to each other: requests, data and management only.

    Top-of-rack switches of 48 ports; from two on a pair of spines joins them.
    """
    leaves = max(1, math.ceil(servers / (PLAIN_PORTS - 2)))
    spines = 0 if leaves == 1 else 2
    return FabricPlan(
        fabric=f"Ethernet {gbit:g} Gbit/s",
        protocol="ethernet",
        servers=servers,
        tiers=1 if leaves == 1 else 2,
        rails=1,
        planes=1,
        leaf_switches=leaves,
        spine_switches=spines,
        core_switches=0,
        node_cables=servers,
        leaf_spine_cables=leaves * spines,
        spine_core_cables=0,
        oversubscription=1.0 if leaves == 1 else round(min(servers, PLAIN_PORTS - 2) / 8, 2),
        storage_switches=0,
        management_switches=max(1, math.ceil(servers / PLAIN_PORTS)),
        controller_links=0,
        servers_per_unit=PLAIN_PORTS - 2,
        units=leaves,
        switch_model=f"48-port {gbit:g} GbE switch",
        switch_ports=PLAIN_PORTS,
        nic_gbit_per_s=gbit,
        link_gbit_per_s=gbit,
        switch_power_w=150.0 * (leaves + spines),
        optics_power_w=0.0,
        optics=(PlanOptic(item=f"{gbit:g}G copper cable (DAC)", quantity=servers, where="server to leaf", power_w=0.0),),
        notes=(
            "No fabric between GPUs: each job stays inside one server.",
            "Uplinks are 100 Gbit/s; a 48-port switch draws about 150 W (assumption).",
        ),
    )
