"""The picture of an architecture: GPUs in their servers, the fast link around them, NICs, rails, leaf and spine."""

from __future__ import annotations

from dataclasses import dataclass

from app.advice.recommendation import Architecture, Design, Network, Recommendation
from app.report.svg import document, element, text
from app.report.text import ARCHITECTURE_NAMES

GPU, GAP, PAD = 22.0, 7.0, 14.0
MOST_DRAWN = 4
"""Servers drawn one by one; more are drawn as the first two and the last with a count between."""
MOST_GPUS = 8
"""Squares in one server; a rack of 72 shows eight and says how many there are."""


@dataclass(frozen=True, slots=True)
class Box:
    """One server as drawn: left edge, top, width, height, and the x of its NIC ticks."""

    x: float
    y: float
    width: float
    height: float
    ticks: tuple[float, ...]


def architecture_picture(recommendation: Recommendation) -> str:
    """SVG of the chosen design; an empty string when nothing was chosen."""
    design, architecture = recommendation.design, recommendation.architecture
    if design is None or architecture is None:
        return ""
    network = recommendation.network
    clustered = architecture in (Architecture.INFINIBAND_CLUSTER, Architecture.ETHERNET_CLUSTER)
    joined = network is not None and design.servers > 1
    top = (150.0 if clustered and network is not None and network.spine_switches else 96.0) if joined else 18.0
    boxes, body, width = _servers(design, architecture, top)
    if joined and network is not None:
        body = _fabric(design, network, boxes, width, clustered) + body
    height = top + boxes[0].height + 44
    body += text(width / 2, height - 12, _caption(design), "t small")
    return document(width, height, body, f"{ARCHITECTURE_NAMES[architecture]}: {_count(design)}", picture_words(recommendation), "arch")


def picture_words(recommendation: Recommendation) -> str:
    """The same as the picture, in words."""
    design, network = recommendation.design, recommendation.network
    if design is None:
        return "No design."
    if design.gpu is None:
        return f"One {design.server_name} without GPUs."
    parts = [f"{_count(design)}. GPUs of one copy of the job are joined by {_link(design)}."]
    if network is None or design.servers == 1:
        parts.append("No network between servers is needed for the job.")
    else:
        parts.append(
            f"Network between servers: {network.fabric}, {network.leaf_switches} leaf, {network.spine_switches} spine and "
            f"{network.core_switches} core switches, {network.nic_gbit_per_s:g} Gbit/s per port."
        )
    return " ".join(parts)


def _count(design: Design) -> str:
    if design.gpu is None:
        return f"{design.servers} server without GPUs"
    servers = "1 server" if design.servers == 1 else f"{design.servers:,} servers"
    gpus = "1 GPU" if design.gpus == 1 else f"{design.gpus:,} GPUs"
    return f"{gpus} ({design.gpu_name}) in {servers}"


def _caption(design: Design) -> str:
    return _count(design)


def _link(design: Design) -> str:
    kind = design.scale_up
    if design.gpus_per_replica <= 1 or kind == "none":
        return "nothing (one GPU each)"
    if kind.startswith("nvlink"):
        return f"NVLink {kind.removeprefix('nvlink').split('-')[0]}"
    return {"infinity_fabric": "Infinity Fabric"}.get(kind, kind.replace("pcie", "PCIe ").replace("_", " "))


def _servers(design: Design, architecture: Architecture, top: float) -> tuple[list[Box], str, float]:
    """The servers side by side, and how wide the picture became."""
    drawn = design.servers if design.servers <= MOST_DRAWN else 3
    slots = max(min(design.gpus_per_server, MOST_GPUS), 1)
    columns = min(slots, 4)
    rows = -(-slots // columns)
    inner = columns * GPU + (columns - 1) * GAP
    width = max(inner + 2 * PAD + 8, 128.0)
    height = rows * GPU + (rows - 1) * GAP + 2 * PAD + 40
    space = 34.0
    gap_at = 2 if design.servers > MOST_DRAWN else None
    total = drawn * width + (drawn - 1) * space + (60.0 if gap_at else 0.0) + 24
    offset = max((460.0 - total) / 2, 0.0)
    boxes, body, x = [], "", 12.0 + offset
    used = _used_per_server(design, drawn)
    for number in range(drawn):
        if gap_at is not None and number == gap_at:
            body += text(x + 22, top + height / 2, f"× {design.servers - 3:,}", "t strong")
            body += text(x + 22, top + height / 2 + 16, "more", "t small")
            x += 60.0
        box = Box(x, top, width, height, _ticks(design, x, width))
        boxes.append(box)
        body += _server(design, architecture, box, used[number], slots, columns, inner)
        x += width + space
    return boxes, body, max(total, 460.0)


def _used_per_server(design: Design, drawn: int) -> list[int]:
    """GPUs in use in each drawn server: full ones first, the rest in the last."""
    per, left = design.gpus_per_server, design.gpus
    if design.servers > MOST_DRAWN:
        last = design.gpus - per * (design.servers - 1)
        return [per, per, max(last, 1)]
    found = []
    for _ in range(drawn):
        found.append(min(per, left))
        left -= found[-1]
    return found


def _ticks(design: Design, x: float, width: float) -> tuple[float, ...]:
    count = max(min(design.nics_per_server, MOST_GPUS), 1)
    step = (width - 24) / count
    return tuple(x + 12 + step * (number + 0.5) for number in range(count))


def _server(design: Design, architecture: Architecture, box: Box, used: int, slots: int, columns: int, inner: float) -> str:
    body = element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=6, class_="frame")
    if design.gpu is None:
        return body + text(box.x + box.width / 2, box.y + box.height / 2, "CPU server", "t strong")
    left = box.x + (box.width - inner) / 2
    top = box.y + PAD + 4
    rows = -(-slots // columns)
    if architecture is not Architecture.SINGLE_GPU and design.gpus_per_replica > 1:
        fast = not design.scale_up.startswith("pcie")
        body += element(
            "rect",
            x=left - 7, y=top - 7, width=inner + 14, height=rows * GPU + (rows - 1) * GAP + 14, rx=8,
            class_="envelope fast" if fast else "envelope pcie",
        )  # fmt: skip
    whole = design.gpus_per_server <= MOST_GPUS
    for slot in range(slots):
        in_use = slot < used if whole else True
        cell_x = left + (slot % columns) * (GPU + GAP)
        cell_y = top + (slot // columns) * (GPU + GAP)
        kind = f"gpu a-{architecture}" if in_use else "gpu spare"
        body += element("rect", x=cell_x, y=cell_y, width=GPU, height=GPU, rx=3, class_=kind)
    label = f"{used} × {_short(design.gpu_name)}"
    body += text(box.x + box.width / 2, box.y + box.height - 22, label, "t small")
    link = _link(design) if design.gpus_per_replica > 1 else "independent GPUs" if used > 1 else ""
    body += text(box.x + box.width / 2, box.y + box.height - 8, link, "t small")
    for tick in box.ticks:
        body += element("line", x1=tick, y1=box.y, x2=tick, y2=box.y - 6, class_="tick")
    return body


def _short(name: str) -> str:
    return name if len(name) <= 22 else name[:20] + "…"


def _fabric(design: Design, network: Network, boxes: list[Box], width: float, clustered: bool) -> str:
    """Leaf and spine above the servers; a plain switch where only requests pass."""
    spine = bool(network.spine_switches)
    leaf_y = boxes[0].y - 62
    count = min(max(network.leaf_switches, 1), 4)
    leaf_width = min(110.0, (width - 40) / count - 10)
    body = ""
    xs = [20 + (width - 40) * (number + 0.5) / count for number in range(count)]
    for index, box in enumerate(boxes):
        for number, tick in enumerate(box.ticks):
            target = xs[number % count] if clustered else xs[min(index, count - 1)]
            body += element("line", x1=tick, y1=box.y - 6, x2=target, y2=leaf_y + 24, class_="wire")
    for number, x in enumerate(xs):
        body += element("rect", x=x - leaf_width / 2, y=leaf_y, width=leaf_width, height=24, rx=4, class_="switch")
        name = "leaf" if clustered else "switch"
        label = f"{name} × {network.leaf_switches}" if number == 0 and network.leaf_switches > count else name
        body += text(x, leaf_y + 16, label, "t small")
    if spine:
        spine_y = leaf_y - 56
        tops = min(network.spine_switches, 4)
        spine_xs = [20 + (width - 40) * (number + 0.5) / tops for number in range(tops)]
        for x in xs:
            for top in spine_xs:
                body += element("line", x1=x, y1=leaf_y, x2=top, y2=spine_y + 24, class_="wire")
        for number, x in enumerate(spine_xs):
            body += element("rect", x=x - leaf_width / 2, y=spine_y, width=leaf_width, height=24, rx=4, class_="switch")
            label = f"spine × {network.spine_switches}" if number == 0 and network.spine_switches > tops else "spine"
            body += text(x, spine_y + 16, label, "t small")
    speed = (
        f"{design.nics_per_server} × {network.nic_gbit_per_s:g} Gbit/s {_family(design)} per server"
        if clustered
        else "ordinary Ethernet for requests"
    )
    return body + text(width / 2, boxes[0].y - 14, speed, "t small halo")


def _family(design: Design) -> str:
    return "InfiniBand" if design.scale_out == "infiniband" else "Ethernet"
