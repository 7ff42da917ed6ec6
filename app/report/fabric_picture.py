"""The network above the servers: rails as parallel lines, leaf switches, spine switches, and their speeds."""

from __future__ import annotations

from app.advice.recommendation import Design, Network
from app.report.svg import ROOMY, Box, element, text

SWITCH, STEP, TOP = 26.0, 7.0, 8.0
MOST_SWITCHES = 8
MOST_RAILS = 8


def fabric_height(design: Design, network: Network | None, clustered: bool) -> float:
    """Room the network takes above the servers; without one, room for their ports."""
    if network is None:
        return 18.0
    if not clustered:
        return TOP + SWITCH + 58
    return TOP + (SWITCH + 50 if network.spine_switches else 0.0) + SWITCH + 16 + _rails(design, network) * STEP + 40


def fabric(design: Design, network: Network, boxes: tuple[Box, ...], width: float, clustered: bool) -> str:
    """Everything between the servers."""
    if not clustered:
        return _ordinary(network, boxes, width)
    leaf_y = TOP + (SWITCH + 50 if network.spine_switches else 0.0)
    body = _spine(network, leaf_y, width) if network.spine_switches else ""
    return body + _leaves(design, network, boxes, leaf_y, width)


def _rails(design: Design, network: Network) -> int:
    return min(max(network.rails, 1), max(design.nics_per_server, 1), MOST_RAILS)


def _switches(amount: int, y: float, width: float, name: str, most: int = MOST_SWITCHES) -> tuple[list[float], str]:
    """A row of switches: their middles, and the drawing. Of many, the first carries their count."""
    drawn = min(max(amount, 1), most)
    side = (width - 20) / drawn
    middles = [10 + side * (index + 0.5) for index in range(drawn)]
    box = min(side - 8, 220.0)
    body = ""
    for index, middle in enumerate(middles):
        body += element("rect", x=middle - box / 2, y=y, width=box, height=SWITCH, rx=4, class_="switch")
        if amount > drawn:
            label = f"× {amount:,}" if index == drawn - 1 else name
        else:
            label = f"{name} {index + 1}" if amount > 1 and box >= 50 else name
        body += text(middle, y + 18, label, "t")
    return middles, body


def _spine(network: Network, leaf_y: float, width: float) -> str:
    """Spine switches above the leaves, each joined to each; the speed of one such link."""
    leaves, _ = _switches(network.leaf_switches, leaf_y, width, "leaf")
    spines, body = _switches(network.spine_switches, TOP, width, "spine", 4)
    wires = "".join(element("line", x1=leaf, y1=leaf_y, x2=spine, y2=TOP + SWITCH, class_="wire") for leaf in leaves for spine in spines)
    ratio = "no blocking" if network.oversubscription <= 1 else f"{network.oversubscription:g} : 1 oversubscribed"
    label = f"{network.leaf_spine_cables:,} cables × {network.nic_gbit_per_s:g} Gbit/s, {ratio}"
    return wires + body + text(width / 2, TOP + SWITCH + 29, label, "t halo")


def _leaves(design: Design, network: Network, boxes: tuple[Box, ...], leaf_y: float, width: float) -> str:
    """Leaf switches and below them one line a rail; every port drops from its rail to its server."""
    middles, switches = _switches(network.leaf_switches, leaf_y, width, "leaf")
    rails = _rails(design, network)
    first = leaf_y + SWITCH + 16
    lines, drops = "", ""
    for rail in range(rails):
        y = first + rail * STEP
        x = middles[rail % len(middles)] if len(middles) > 1 else width / 2 + (rail - (rails - 1) / 2) * 14
        lines += element("line", x1=10.0, y1=y, x2=width - 10, y2=y, class_="rail")
        lines += element("line", x1=x, y1=leaf_y + SWITCH, x2=x, y2=y, class_="rail") + _dot(x, y)
    for box in boxes:
        drops += _drops(design, box, first, rails)
    family = "InfiniBand" if "infiniband" in network.fabric.lower() else "Ethernet"
    label = f"{design.nics_per_server} × {network.nic_gbit_per_s:g} Gbit/s {family} a server" + (
        f", {network.rails} rails" if network.rails > 1 else ""
    )
    return lines + drops + switches + text(width / 2, boxes[0].y - 16, label, "t halo")


def _drops(design: Design, box: Box, first: float, rails: int) -> str:
    """From a server's ports to the rails; one line for all where the server is drawn small."""
    amount = min(max(design.nics_per_server, 1), 16)
    if box.width <= ROOMY:
        x = box.x + box.width / 2
        last = first + (rails - 1) * STEP
        return element("line", x1=x, y1=box.y - 7, x2=x, y2=first, class_="wire") + _dot(x, first) + _dot(x, last)
    step = (box.width - 24) / amount
    body = ""
    for port in range(amount):
        x, y = box.x + 12 + step * (port + 0.5), first + (port % rails) * STEP
        body += element("line", x1=x, y1=box.y - 7, x2=x, y2=y, class_="wire") + _dot(x, y)
    return body


def _dot(x: float, y: float) -> str:
    return element("circle", cx=x, cy=y, r=2.2, class_="dot")


def _ordinary(network: Network, boxes: tuple[Box, ...], width: float) -> str:
    """Ordinary switches: requests reach each server, servers do not talk to each other within a job."""
    amount = max(network.leaf_switches, 1)
    middles, switches = _switches(amount, TOP, width, "Ethernet switch" if amount < 3 else "switch", 4)
    wires = ""
    for index, box in enumerate(boxes):
        x = box.x + box.width / 2
        target = middles[index * len(middles) // len(boxes)]
        wires += element("line", x1=target, y1=TOP + SWITCH, x2=x, y2=box.y - 7, class_="wire")
    return wires + switches + text(width / 2, TOP + SWITCH + 32, "requests only, ordinary Ethernet", "t halo")
