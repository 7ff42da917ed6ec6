"""Counts of a leaf/spine/core network, and its links one by one for the validity check.

Terms: a plane is one of several parallel networks each NIC has a port in; a rail joins the NICs of one position in
every server; a scalable unit is as many servers as fill the leaves of one set of rails.
Sources: NVIDIA DGX SuperPOD reference architectures (H100, B200, B300) and BasePOD; C. Leiserson, "Fat-trees", 1985:
two tiers of radix R reach R^2/2 end ports, three R^3/4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

Style = Literal["rail", "top_of_rack"]

PAIR_FILL = 0.75
"""Share of one switch's ports that end ports of a converged Ethernet pair may take: 12 servers x 8 x 400G on two SN5610."""
PAIR_SERVERS = 16
"""Largest published converged pair: 16 servers."""
SINGLE_SWITCH_SERVERS = 3
"""From four servers on, BasePOD uses two cross-connected switches, so that one may fail."""
RACK_UPLINK_SHARE = 1.125
"""Uplinks over downlinks of a top-of-rack design that survives two lost spines (Meta, SIGCOMM 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Counts of one design. Ports and links are those of one plane's rate; totals are over all planes.

    uplinks: links of each leaf to the tier above (the peer switch in a pair).
    """

    servers: int
    nics_per_server: int
    rails: int
    planes: int
    tiers: int
    ports: int
    spine_ports: int
    style: Style
    servers_per_unit: int
    units: int
    rails_per_leaf: int
    leaves_per_plane: int
    uplinks: int
    spines_per_pod: int
    pods: int
    units_per_pod: int
    spine_uplinks: int
    cores_per_group: int
    cross_connected: bool

    @property
    def leaf_switches(self) -> int:
        return self.planes * self.leaves_per_plane

    @property
    def spine_switches(self) -> int:
        return self.planes * self.spines_per_pod * self.pods

    @property
    def core_switches(self) -> int:
        return self.planes * self.spines_per_pod * self.cores_per_group

    @property
    def leaf_down_links(self) -> int:
        """Server links of the fullest leaf."""
        used = self.nics_per_server // self.rails * min(self.servers_per_unit, self.servers)
        return used * self.rails_per_leaf

    @property
    def node_links(self) -> int:
        return self.servers * self.nics_per_server * self.planes

    @property
    def leaf_spine_links(self) -> int:
        """Links above the leaves; in a cross-connected pair the links between the two."""
        return self.uplinks if self.cross_connected else self.leaf_switches * self.uplinks

    @property
    def spine_core_links(self) -> int:
        return self.spine_switches * self.spine_uplinks


def rails_of(nics_per_server: int, gpus_per_server: int) -> int:
    """Rails: one per NIC position of a compute board: up to eight; four in rack-scale systems (trays of four GPUs)."""
    if gpus_per_server >= 36 and nics_per_server % 4 == 0:
        return 4
    return next(count for count in range(min(nics_per_server, 8), 0, -1) if nics_per_server % count == 0)


def shape_of(
    servers: int,
    nics_per_server: int,
    gpus_per_server: int,
    ports: int,
    *,
    planes: int,
    oversubscription: float,
    pair_fill: float,
    style: Style = "rail",
    spine_ports: int | None = None,
    servers_per_rack: int = 2,
) -> Shape | None:
    """The smallest network for the servers on switches of ``ports`` ports; None when three tiers do not reach.

    pair_fill: share of one switch's ports a cross-connected pair may give to servers.
    """
    rails = 1 if style == "top_of_rack" else rails_of(nics_per_server, gpus_per_server)
    common = {"servers": servers, "nics_per_server": nics_per_server, "rails": rails, "planes": planes, "style": style}
    end_ports = servers * nics_per_server
    if style == "rail":
        one = end_ports <= ports and (servers <= SINGLE_SWITCH_SERVERS or nics_per_server == 1)
        pair = end_ports <= ports * pair_fill and nics_per_server % 2 == 0
        if one or (pair and planes == 1):
            return _flat(common, ports, end_ports, pair=not one)
    per_unit = nics_per_server // rails
    uplink_limit = ports - max(1, math.floor(ports * oversubscription / (1 + oversubscription)))
    if style == "top_of_rack":
        unit, down = servers_per_rack, servers_per_rack * nics_per_server
        uplink_limit = math.ceil(down * RACK_UPLINK_SHARE / oversubscription)
    else:
        down = ports - uplink_limit
        unit = max(1, down // per_unit)
    units = math.ceil(servers / unit)
    used = per_unit * min(unit, servers)
    rails_per_leaf = max(1, min(rails, down // used)) if units == 1 and style == "rail" else 1
    leaves_per_unit = math.ceil(rails / rails_per_leaf)
    wanted = min(uplink_limit, math.ceil(used * rails_per_leaf / oversubscription)) if style == "rail" else uplink_limit
    return _tiered(common, ports, spine_ports or ports, unit, units, rails_per_leaf, leaves_per_unit, wanted, uplink_limit)


def _flat(common: Mapping[str, object], ports: int, end_ports: int, *, pair: bool) -> Shape:
    """One switch, or two that each carry half of the rails and are joined by as many links."""
    servers = common["servers"]
    assert isinstance(servers, int)
    return Shape(
        **common,  # type: ignore[arg-type]
        tiers=1,
        ports=ports,
        spine_ports=ports,
        servers_per_unit=servers,
        units=1,
        rails_per_leaf=1,
        leaves_per_plane=2 if pair else 1,
        uplinks=end_ports // 2 if pair else 0,
        spines_per_pod=0,
        pods=0,
        units_per_pod=1,
        spine_uplinks=0,
        cores_per_group=0,
        cross_connected=pair,
    )


def _tiered(
    common: Mapping[str, object],
    ports: int,
    spine_ports: int,
    unit: int,
    units: int,
    rails_per_leaf: int,
    leaves_per_unit: int,
    wanted: int,
    uplink_limit: int,
) -> Shape | None:
    leaves = units * leaves_per_unit
    base = {
        **common,
        "ports": ports,
        "spine_ports": spine_ports,
        "servers_per_unit": unit,
        "units": units,
        "rails_per_leaf": rails_per_leaf,
        "leaves_per_plane": leaves,
        "cross_connected": False,
    }
    spines = _spines(leaves, wanted, uplink_limit, spine_ports)
    if spines is not None:
        uplinks = math.ceil(wanted / spines) * spines
        return Shape(
            **base,  # type: ignore[arg-type]
            tiers=2,
            uplinks=uplinks,
            spines_per_pod=spines,
            pods=1,
            units_per_pod=units,
            spine_uplinks=0,
            cores_per_group=0,
        )
    spine_down = spine_ports // 2
    units_per_pod = spine_down // leaves_per_unit
    if units_per_pod == 0:
        return None
    pods = math.ceil(units / units_per_pod)
    spines = _spines(units_per_pod * leaves_per_unit, wanted, uplink_limit, spine_down)
    if spines is None or pods > spine_ports:
        return None
    uplinks = math.ceil(wanted / spines) * spines
    spine_uplinks = math.ceil(units_per_pod * leaves_per_unit * uplinks / spines)
    least = pods * spine_uplinks / spine_ports
    cores = next(count for count in range(1, spine_uplinks + 1) if spine_uplinks % count == 0 and count >= least)
    return Shape(
        **base,  # type: ignore[arg-type]
        tiers=3,
        uplinks=uplinks,
        spines_per_pod=spines,
        pods=pods,
        units_per_pod=units_per_pod,
        spine_uplinks=spine_uplinks,
        cores_per_group=cores,
    )


def _spines(leaves: int, uplinks: int, uplink_limit: int, spine_ports: int) -> int | None:
    """Fewest spines that take every leaf's uplinks in equal shares; three units of H100 need 16, not 12.

    Uplinks are rounded up to a multiple of the spines, within the leaf's ports.
    """
    for spines in range(max(1, math.ceil(leaves * uplinks / spine_ports)), uplink_limit + 1):
        each = math.ceil(uplinks / spines)
        if each * spines <= uplink_limit and leaves * each <= spine_ports:
            return spines
    return None


@dataclass(frozen=True, slots=True)
class Links:
    """Cabled links as four equal arrays: device and port at both ends. Devices are numbered servers, leaves, spines, cores."""

    from_device: IntArray
    from_port: IntArray
    to_device: IntArray
    to_port: IntArray


def device_offsets(shape: Shape) -> tuple[int, int, int, int]:
    """First number of leaves, spines and cores, and the count of all devices."""
    leaf = shape.servers
    spine = leaf + shape.leaf_switches
    core = spine + shape.spine_switches
    return leaf, spine, core, core + shape.core_switches


def links_of(shape: Shape) -> Links:
    """Every link of the network with its ports; what an installer would plug."""
    leaf, spine, core, total = device_offsets(shape)
    pairs = [_node_pairs(shape, leaf)]
    if shape.cross_connected:
        peers = np.full((shape.uplinks,), leaf, dtype=np.int64)
        pairs.append((peers, peers + 1))
    elif shape.spine_switches:
        pairs.append(_leaf_spine_pairs(shape, leaf, spine))
        if shape.core_switches:
            pairs.append(_spine_core_pairs(shape, spine, core))
    first = np.concatenate([pair[0] for pair in pairs])
    second = np.concatenate([pair[1] for pair in pairs])
    ports = _number_ports(np.concatenate([first, second]), total)
    return Links(first, ports[: first.size], second, ports[first.size :])


def _node_pairs(shape: Shape, leaf: int) -> tuple[IntArray, IntArray]:
    server, nic, plane = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(shape.servers), np.arange(shape.nics_per_server), np.arange(shape.planes), indexing="ij")
    )
    rail = nic % shape.rails
    if shape.cross_connected:
        position = nic % 2
    elif shape.tiers == 1:
        position = np.zeros_like(server)
    else:
        leaves_per_unit = shape.leaves_per_plane // shape.units
        position = server // shape.servers_per_unit * leaves_per_unit + rail // shape.rails_per_leaf
    return server, leaf + plane * shape.leaves_per_plane + position


def _leaf_spine_pairs(shape: Shape, leaf: int, spine: int) -> tuple[IntArray, IntArray]:
    plane, position, uplink = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(shape.planes), np.arange(shape.leaves_per_plane), np.arange(shape.uplinks), indexing="ij")
    )
    leaves_per_pod = shape.leaves_per_plane // shape.units * shape.units_per_pod
    pod = position // leaves_per_pod
    target = (plane * shape.pods + pod) * shape.spines_per_pod + uplink % shape.spines_per_pod
    return leaf + plane * shape.leaves_per_plane + position, spine + target


def _spine_core_pairs(shape: Shape, spine: int, core: int) -> tuple[IntArray, IntArray]:
    plane, pod, position, uplink = (
        axis.ravel()
        for axis in np.meshgrid(
            np.arange(shape.planes), np.arange(shape.pods), np.arange(shape.spines_per_pod), np.arange(shape.spine_uplinks), indexing="ij"
        )
    )
    source = (plane * shape.pods + pod) * shape.spines_per_pod + position
    target = (plane * shape.spines_per_pod + position) * shape.cores_per_group + uplink % shape.cores_per_group
    return spine + source, core + target


def _number_ports(devices: IntArray, total: int) -> IntArray:
    """Port number of each link end: ends at one device are counted up from 0."""
    order = np.argsort(devices, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(devices, minlength=total))[:-1]])
    ports = np.empty_like(devices)
    ports[order] = np.arange(devices.size) - starts[devices[order]]
    return ports


def faults(shape: Shape, links: Links, oversubscription: float) -> list[str]:
    """What is wrong with a network as cabled; empty = valid.

    Checks: no port twice, no device beyond its ports, every server reaches every other in every plane, no leaf or
    spine gives more down than ``oversubscription`` times up.
    """
    leaf, spine, core, total = device_offsets(shape)
    devices = np.concatenate([links.from_device, links.to_device])
    ends = np.stack([devices, np.concatenate([links.from_port, links.to_port])], axis=1)
    found = []
    if np.unique(ends[:, 0] * (ends[:, 1].max() + 1) + ends[:, 1]).size != ends.shape[0]:
        found.append("a port is used twice")
    used = np.bincount(devices, minlength=total)
    limit = np.full(total, shape.spine_ports)
    limit[:leaf] = shape.nics_per_server * shape.planes
    limit[leaf:spine] = shape.ports
    if (used > limit).any():
        found.append(f"{int((used > limit).sum())} devices have more links than ports")
    if (used == 0).any():
        found.append(f"{int((used == 0).sum())} devices have no link")
    down = np.bincount(links.to_device, minlength=total)
    up = np.bincount(links.from_device, minlength=total)
    tiers = [slice(leaf, spine)] + ([slice(spine, core)] if shape.tiers == 3 else [])
    for tier in tiers if shape.tiers > 1 else []:
        if (down[tier] > oversubscription * up[tier] + 1e-9).any():
            found.append("a switch gives more down than the stated oversubscription allows")
    for plane in range(shape.planes):
        if not _connected(shape, links, plane):
            found.append(f"plane {plane + 1}: not every server reaches every other")
    return found


def _connected(shape: Shape, links: Links, plane: int) -> bool:
    """Whether all servers are one piece of the network using this plane's switches only (lowest label spreads)."""
    leaf, spine, core, total = device_offsets(shape)
    in_plane = np.ones(total, dtype=bool)
    for start, per_plane in (
        (leaf, shape.leaves_per_plane),
        (spine, shape.spines_per_pod * shape.pods),
        (core, shape.spines_per_pod * shape.cores_per_group),
    ):
        block = slice(start, start + per_plane * shape.planes)
        in_plane[block] = np.arange(per_plane * shape.planes) // max(per_plane, 1) == plane
    keep = in_plane[links.from_device] & in_plane[links.to_device]
    first, second = links.from_device[keep], links.to_device[keep]
    label = np.arange(total)
    for _ in range(2 * shape.tiers + 4):
        before = label.copy()
        np.minimum.at(label, second, label[first])
        np.minimum.at(label, first, label[second])
        if (label == before).all():
            break
    return bool((label[: shape.servers] == label[0]).all())
