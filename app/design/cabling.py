"""Lengths, optics and cables of a network from a rack layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.catalog.schema import Cable

RACK_PITCH_M = 0.6
"""Width of one rack in a row."""
ROW_RACKS = 16
ROW_PITCH_M = 2.4
"""Cold aisle, rack depth and hot aisle shared by two rows, per row; common raised-floor layout."""
SLACK_M = 6.0
"""Up, down and service loops at both ends; assumption of installers' practice."""
SERVERS_PER_RACK = 4
"""DGX SuperPOD: four systems a rack."""
COPPER_M = 3.0
"""Reach of passive copper at 400 Gbit/s a port."""
MULTIMODE_M = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptic:
    """One kind of cable or transceiver: ``quantity`` of ``item``, where it goes, watts each (None = not known)."""

    item: str
    quantity: int
    where: str
    power_w: float | None


def row_length_m(racks: int) -> float:
    """Longest cable between two racks of a block: along the row and across the rows, with slack."""
    rows = -(-racks // ROW_RACKS)
    return min(racks, ROW_RACKS) * RACK_PITCH_M + (rows - 1) * ROW_PITCH_M + SLACK_M


def link_optics(
    cables: Mapping[str, Cable],
    protocol: str,
    link_gbit_per_s: float,
    links: int,
    length_m: float,
    where: str,
    *,
    twin_ends: int,
) -> list[PlanOptic]:
    """What ``links`` links of a length need: one copper cable, or a fibre and its transceivers.

    twin_ends: ends (0..2 per link) that sit in twin-port cages, two links a transceiver; the others take one each.
    """
    if links == 0:
        return []
    if length_m <= COPPER_M:
        return [PlanOptic(item=f"{link_gbit_per_s:g}G copper cable (DAC)", quantity=links, where=where, power_w=0.0)]
    medium = "mmf" if length_m <= MULTIMODE_M else "smf"
    single_ends = 2 - twin_ends
    fibre = "multimode" if medium == "mmf" else "single-mode"
    parts = [PlanOptic(item=f"{link_gbit_per_s:g}G {fibre} fibre, up to {length_m:.0f} m", quantity=links, where=where, power_w=0.0)]
    if twin_ends:
        parts.append(_transceiver(cables, protocol, link_gbit_per_s, medium, length_m, -(-links * twin_ends // 2), where, twin=True))
    if single_ends:
        parts.append(_transceiver(cables, protocol, link_gbit_per_s, medium, length_m, links * single_ends, where, twin=False))
    return parts


def _transceiver(
    cables: Mapping[str, Cable], protocol: str, link: float, medium: str, length_m: float, quantity: int, where: str, *, twin: bool
) -> PlanOptic:
    """The shortest-reach catalogue part that does, or a described class where the catalogue has none."""
    speed = 2 * link if twin else link
    word = "twin-port transceiver" if twin else "transceiver"
    fitting = [
        cable
        for cable in cables.values()
        if cable.type == word
        and cable.speed_gbit_per_s == speed
        and cable.medium == medium
        and protocol in cable.fabrics
        and (cable.max_reach_m or 0.0) >= length_m
    ]
    if not fitting:
        return PlanOptic(item=f"{speed:g}G {word}, {medium.upper()}", quantity=quantity, where=where, power_w=None)
    best = min(fitting, key=lambda cable: (cable.max_reach_m or 0.0, cable.power_w is None, cable.id))
    return PlanOptic(item=f"{speed:g}G {word} {best.name}", quantity=quantity, where=where, power_w=best.power_w)
