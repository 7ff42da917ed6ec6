"""The installer's list: which cables run from where to where, how long and how many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.design.cabling import COPPER_M, MULTIMODE_M
from app.design.fabric import FabricPlan
from app.design.topology import IntArray, Shape, device_offsets, links_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CableRun:
    """Equal cables between one switch and a span of devices below or above it. ``length_m``: the longest of them."""

    start: str
    end: str
    type: str
    length_m: float
    count: int


def cabling_table(plan: FabricPlan) -> tuple[CableRun, ...]:
    """All cables of a network, one line per leaf downwards, leaf upwards and spine upwards."""
    shape = plan.shape
    if shape is None:
        return (CableRun(start="machine 1", end=f"machine {plan.servers}", type="copper", length_m=COPPER_M, count=plan.node_cables),)
    links = links_of(shape)
    leaf, spine, core, _ = device_offsets(shape)
    down = links.from_device < leaf
    runs = _runs(shape, links.to_device[down], links.from_device[down], plan.server_leaf_m, flip=True)
    between = (links.from_device >= leaf) & (links.from_device < spine)
    runs += _runs(shape, links.from_device[between], links.to_device[between], plan.leaf_spine_m, flip=False)
    above = (links.from_device >= spine) & (links.from_device < core)
    runs += _runs(shape, links.from_device[above], links.to_device[above], plan.leaf_spine_m, flip=False)
    return tuple(runs)


def cable_type(length_m: float) -> str:
    """Copper, multimode or single-mode fibre, by reach."""
    return "copper" if length_m <= COPPER_M else "multimode fibre" if length_m <= MULTIMODE_M else "single-mode fibre"


def device_name(shape: Shape, number: int) -> str:
    """``server 7``, ``leaf 3``, ``spine 2``, ``core 1``, with the plane where there are two."""
    leaf, spine, core, _ = device_offsets(shape)
    for word, start, per_plane in (
        ("core", core, shape.spines_per_pod * shape.cores_per_group),
        ("spine", spine, shape.spines_per_pod * shape.pods),
        ("leaf", leaf, shape.leaves_per_plane),
    ):
        if number >= start:
            plane, position = divmod(number - start, per_plane)
            return f"{word} {position + 1}" + (f" of plane {plane + 1}" if shape.planes > 1 else "")
    return f"server {number + 1}"


def _runs(shape: Shape, hubs: IntArray, ends: IntArray, length_m: float, *, flip: bool) -> list[CableRun]:
    """One line per hub; ``flip`` puts the far ends first."""
    runs = []
    order = np.argsort(hubs, kind="stable")
    hubs, ends = hubs[order], ends[order]
    numbers, starts, counts = np.unique(hubs, return_index=True, return_counts=True)
    for hub, start, count in zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True):
        block = ends[start : start + count]
        first, last = device_name(shape, int(block.min())), device_name(shape, int(block.max()))
        span = first if first == last else f"{first} to {last}"
        here = device_name(shape, hub)
        runs.append(
            CableRun(
                start=span if flip else here,
                end=here if flip else span,
                type=cable_type(length_m),
                length_m=round(length_m, 1),
                count=count,
            )
        )
    return runs
