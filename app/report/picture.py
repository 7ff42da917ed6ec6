"""The picture of an architecture: GPUs in their servers, the fast link around them, network ports, rails, leaf and spine."""

from __future__ import annotations

from dataclasses import dataclass

from app.advice.recommendation import Architecture, Design, Recommendation
from app.report.fabric_picture import fabric, fabric_height
from app.report.svg import ROOMY, Box, document, element, text
from app.report.text import ARCHITECTURE_NAMES, number

WIDTH = 520.0
"""Of every picture, in its own units: text of 13 stays readable when the picture is shrunk to a phone."""
MARGIN = 10.0
MOST_DRAWN = 16
"""Servers drawn one by one; of more, the first two and the last with their count between."""
WIDE = 4
"""Up to this many servers stand far enough apart to show every network port."""
CLUSTERS = (Architecture.INFINIBAND_CLUSTER, Architecture.ETHERNET_CLUSTER)


@dataclass(frozen=True, slots=True)
class Row:
    """How the servers are drawn: their boxes, the GPUs used in each and where a count stands for those left out."""

    boxes: tuple[Box, ...]
    used: tuple[int, ...]
    gap_x: float | None


def architecture_picture(recommendation: Recommendation) -> str:
    """SVG of the chosen design; an empty string when nothing was chosen."""
    design, architecture = recommendation.design, recommendation.architecture
    if design is None or architecture is None:
        return ""
    network = recommendation.network if design.servers > 1 else None
    top = fabric_height(design, network, architecture in CLUSTERS)
    row = _row(design, top)
    body = "" if network is None else fabric(design, network, row.boxes, WIDTH, architecture in CLUSTERS)
    for box, used in zip(row.boxes, row.used, strict=True):
        body += _server(design, architecture, box, used)
    if row.gap_x is not None:
        body += text(row.gap_x, row.boxes[0].y + row.boxes[0].height / 2 + 5, f"× {design.servers - 3:,} more", "t strong")
    height = top + row.boxes[0].height + MARGIN
    title = f"{ARCHITECTURE_NAMES[architecture]}: {count_words(design)}"
    return document(WIDTH, height, body, title, picture_words(recommendation), "arch")


def picture_words(recommendation: Recommendation) -> str:
    """The same as the picture, in words."""
    design = recommendation.design
    if design is None:
        return "No design."
    if design.gpu is None:
        return f"{design.servers} × {design.server_name} without GPUs."
    parts = [f"{count_words(design)}."]
    if design.gpus_per_replica > 1:
        parts.append(f"The GPUs of a server exchange data over {link_words(design)}.")
    elif design.gpus > 1:
        parts.append("Each GPU runs a copy of the job of its own; the GPUs exchange nothing.")
    network = recommendation.network
    if network is None or design.servers == 1:
        parts.append("The job needs no network between servers.")
    elif recommendation.architecture in CLUSTERS:
        layers = ((network.leaf_switches, "leaf"), (network.spine_switches, "spine"), (network.core_switches, "core"))
        switches = " and ".join(f"{amount:,} {name}" for amount, name in layers if amount)
        rails = f" on {network.rails} rails" if network.rails > 1 else ""
        parts.append(
            f"Between servers: {network.fabric}, {design.nics_per_server} × {network.nic_gbit_per_s:g} Gbit/s a server{rails}, "
            f"{switches} switch{'es' if network.leaf_switches + network.spine_switches > 1 else ''}."
        )
    else:
        parts.append("Between servers only requests travel, over ordinary Ethernet.")
    return " ".join(parts)


def legend(recommendation: Recommendation) -> tuple[str, ...]:
    """What the marks mean, only those that are drawn."""
    design = recommendation.design
    if design is None or design.gpu is None:
        return ()
    found = ["Square: a GPU" + (", its number the copy of the job it runs" if _numbered(design) else "")]
    if design.gpus < design.gpus_per_server * design.servers:
        found.append("dashed square: a GPU or slot the job does not use")
    if _fast(design):
        found.append("shaded: GPUs that reach each other over the fast link")
    elif design.gpus_per_server > 1:
        found.append("lines to the host: PCIe")
    return (*found, "ticks on the frame: network ports")


def count_words(design: Design) -> str:
    """``16 × H200 SXM in 2 servers``."""
    servers = "1 server" if design.servers == 1 else f"{design.servers:,} servers"
    if design.gpu is None:
        return f"{servers} without GPUs"
    return f"{design.gpus:,} × {design.gpu_name} in {servers}"


def link_words(design: Design) -> str:
    """``NVLink 4, 450 GB/s each way``."""
    kind = design.scale_up
    if kind == "none":
        return "no link"
    if kind.startswith("nvlink"):
        name = f"NVLink {kind.removeprefix('nvlink').split('-')[0]}"
    else:
        name = {"infinity_fabric": "Infinity Fabric", "gaudi_ethernet": "Gaudi Ethernet"}.get(
            kind, kind.replace("pcie", "PCIe ").replace("_", " ")
        )
    return name if design.scale_up_gb_per_s is None else f"{name}, {number(design.scale_up_gb_per_s)} GB/s each way"


def _fast(design: Design) -> bool:
    """Whether the job uses a link faster than PCIe."""
    return design.gpus_per_replica > 1 and design.scale_up != "none" and not design.scale_up.startswith("pcie")


def _numbered(design: Design) -> bool:
    """Whether squares carry the number of their copy: several copies share a server and it can be read."""
    return design.replicas > 1 and design.gpus_per_replica < design.gpus_per_server <= 8 and design.servers <= 2


def _row(design: Design, top: float) -> Row:
    """The servers side by side."""
    per, servers = design.gpus_per_server, design.servers
    if servers > MOST_DRAWN:
        last = max(design.gpus - per * (servers - 1), 1)
        width = 132.0
        xs = (MARGIN, MARGIN + width + 20, WIDTH - MARGIN - width)
        boxes = tuple(Box(x, top, width, _frame_height(per, width)) for x in xs)
        return Row(boxes, (per, per, last), (xs[1] + width + xs[2]) / 2)
    space = 24.0 if servers <= WIDE else 6.0
    widest = 340.0 if per <= 8 else 430.0
    width = min((WIDTH - 2 * MARGIN - (servers - 1) * space) / servers, widest)
    left = (WIDTH - servers * width - (servers - 1) * space) / 2
    height = _frame_height(per, width)
    boxes = tuple(Box(left + index * (width + space), top, width, height) for index in range(servers))
    used = tuple(max(min(per, design.gpus - index * per), 0) for index in range(servers))
    return Row(boxes, used, None)


def _grid(gpus: int, width: float) -> tuple[int, int, float, float]:
    """Columns, rows, side of a square and space between, for the GPUs of one server."""
    gpus, wide = max(gpus, 1), width > ROOMY
    most = 2 if width < 60 else 4 if gpus <= 8 else 8 if gpus <= 16 or not wide else 12
    columns = min(gpus, most)
    inner = width - (36.0 if wide else 10.0)
    space = 3.0 if not wide or gpus > 8 else 10.0
    side = min((inner - (columns - 1) * space) / columns, 40.0)
    return columns, -(-gpus // columns), side, space


def _frame_height(gpus: int, width: float) -> float:
    _, rows, side, space = _grid(gpus, width)
    cells = rows * side + (rows - 1) * space
    return cells + (112.0 if width > ROOMY else 16.0)


def _server(design: Design, architecture: Architecture, box: Box, used: int) -> str:
    """One server: frame, GPUs, the link between them and, where there is room, the host and labels."""
    wide = box.width > ROOMY
    body = element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=6, class_="frame")
    middle = box.x + box.width / 2
    if design.gpu is None:
        return body + text(middle, box.y + box.height / 2 + 5, "CPU server", "t strong")
    columns, rows, side, space = _grid(design.gpus_per_server, box.width)
    inner = columns * side + (columns - 1) * space
    left, top = middle - inner / 2, box.y + (40.0 if wide else 8.0)
    cells = rows * side + (rows - 1) * space
    if _fast(design):
        pad = 9.0 if wide else 4.0
        body += element(
            "rect", x=left - pad, y=top - pad, width=inner + 2 * pad, height=cells + 2 * pad, rx=8, class_="envelope"
        )  # fmt: skip
    host_y = box.y + box.height - 34
    if wide and not _fast(design):
        body += _host_lines(design, left, top + cells, host_y, columns, side + space, side)
    numbered = _numbered(design)
    for slot in range(design.gpus_per_server):
        x, y = left + (slot % columns) * (side + space), top + (slot // columns) * (side + space)
        kind = f"gpu a-{architecture}" if slot < used else "gpu spare"
        body += element("rect", x=x, y=y, width=side, height=side, rx=min(4.0, side / 4), class_=kind)
        if numbered and slot < used:
            body += text(x + side / 2, y + side / 2 + 5, str(slot // design.gpus_per_replica + 1), "t on")
    if wide:
        body += _labels(design, box, used, middle, host_y)
    return body + "".join(element("line", x1=tick, y1=box.y, x2=tick, y2=box.y - 7, class_="tick") for tick in ports(design, box))


def _host_lines(design: Design, left: float, bottom: float, host_y: float, columns: int, step: float, side: float) -> str:
    """PCIe from each column of GPUs to the host; only the columns that exist."""
    across = min(columns, design.gpus_per_server)
    xs = [left + column * step + side / 2 for column in range(across)]
    return "".join(element("line", x1=x, y1=bottom, x2=x, y2=host_y, class_="pcie") for x in xs)


def _labels(design: Design, box: Box, used: int, middle: float, host_y: float) -> str:
    """What the server holds, the link with its speed, and its host."""
    room = int((box.width - 10) / 8)
    count = f"{used} × {design.gpu_name}" if len(f"{used} × {design.gpu_name}") <= room else f"{used} GPU{'' if used == 1 else 's'}"
    body = text(middle, box.y + 20, count, "t strong")
    link = link_words(design)
    if design.gpus_per_replica > 1 and design.scale_up != "none":
        shown = link if len(link) <= room else link.split(",")[0]
        body += text(middle, host_y - 10, shown, "t halo")
    elif design.gpus > 1:
        body += text(middle, host_y - 10, "no exchange between GPUs" if room >= 24 else "independent", "t halo")
    body += element("rect", x=box.x + 18, y=host_y, width=box.width - 36, height=22, rx=4, class_="host")
    return body + text(middle, host_y + 16, "host: CPUs, memory" if room >= 20 else "host", "t")


def ports(design: Design, box: Box) -> tuple[float, ...]:
    """Where the network ports stand on a server's frame: one mark each where there is room, else one for all."""
    amount = min(max(design.nics_per_server, 1), 16) if box.width > ROOMY else 1
    step = (box.width - 24) / amount
    return tuple(box.x + 12 + step * (index + 0.5) for index in range(amount))
