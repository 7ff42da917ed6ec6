"""Link kinds as people compare them: what each is for, how fast one direction is, and how soon a small message arrives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from app.catalog.schema import Row


class Link(Row):
    """One kind of link. ``gb_per_s``: one direction, per GPU (scale-up) or per port (network), line rate."""

    id: str
    name: str
    role: str
    gb_per_s: float
    typical_latency_us: float | None = None
    """Time of a small collective through it, where measured; None = not known."""


INSIDE = "between GPUs of one server"
IN_A_RACK = "between the GPUs of one rack"
BETWEEN = "between servers, GPU traffic"
FRONT = "between servers: requests, data and storage; too slow for GPU traffic"

SCALE_UP: tuple[tuple[str, str, str, float, str], ...] = (
    ("pcie3", "PCIe 3 x16", INSIDE, 15.8, "16 lanes x 8 GT/s x 128/130 / 8 (PCI-SIG base specification)"),
    ("pcie4", "PCIe 4 x16", INSIDE, 31.5, "16 lanes x 16 GT/s x 128/130 / 8 (PCI-SIG base specification)"),
    ("pcie5", "PCIe 5 x16", INSIDE, 63.0, "16 lanes x 32 GT/s x 128/130 / 8 (PCI-SIG base specification)"),
    ("pcie6", "PCIe 6 x16", INSIDE, 121.0, "16 lanes x 64 GT/s x 242/256 / 8 (PCI-SIG base specification, FLIT mode)"),
    ("nvlink2", "NVLink 2 (V100)", INSIDE, 150.0, "half of 300 GB/s, V100 data sheet"),
    ("nvlink3", "NVLink 3 (A100)", INSIDE, 300.0, "half of 600 GB/s, A100 data sheet"),
    ("nvlink4", "NVLink 4 (H100, H200)", INSIDE, 450.0, "half of 900 GB/s, H100 data sheet; H800 has 200 GB/s"),
    ("nvlink5", "NVLink 5 (B200, B300)", INSIDE, 900.0, "half of 1,800 GB/s, DGX B200 data sheet"),
    ("nvlink5-nvl72", "NVLink 5, 72-GPU rack", IN_A_RACK, 900.0, "half of 1,800 GB/s, GB200 NVL72 data sheet"),
    ("nvlink6", "NVLink 6 (Vera Rubin NVL72)", IN_A_RACK, 1800.0, "half of 3,600 GB/s, Vera Rubin NVL72 announcement"),
    ("infinity_fabric", "Infinity Fabric (MI300X, MI325X)", INSIDE, 448.0, "7 links x 128 GB/s two ways, half; one pair gets a seventh"),
    ("infinity_fabric4", "Infinity Fabric 4 (MI350X, MI355X)", INSIDE, 535.5, "7 links x 153 GB/s two ways, half; one pair gets a seventh"),
    ("gaudi_ethernet", "Ethernet on the board (Gaudi 3)", INSIDE, 525.0, "21 ports x 200 Gbit/s; Gaudi 2 has 21 x 100"),
)
"""id, name, role, GB/s one way, source with the arithmetic."""

NETWORK: tuple[tuple[str, str, str, float, float | None, str], ...] = (
    ("ib_edr", "InfiniBand EDR", BETWEEN, 100, None, ""),
    ("ib_hdr", "InfiniBand HDR", BETWEEN, 200, 18.0, "8 KiB all-reduce, MSCCL++ CI baseline on A100"),
    ("ib_ndr", "InfiniBand NDR", BETWEEN, 400, 15.0, "8 KiB all-reduce, MSCCL++ CI baseline on H100"),
    ("ib_xdr", "InfiniBand XDR", BETWEEN, 800, None, ""),
    ("roce_100", "RoCE on 100 GbE", BETWEEN, 100, 42.0, "8 B to 8 KiB all-reduce took 36-48 us on 16 A100 over RoCE"),
    ("roce_200", "RoCE on 200 GbE", BETWEEN, 200, None, ""),
    ("roce_400", "RoCE on 400 GbE", BETWEEN, 400, None, ""),
    ("roce_800", "RoCE on 800 GbE", BETWEEN, 800, None, ""),
    ("1gbe", "1 GbE", "management of servers", 1, None, ""),
    ("10gbe", "10 GbE", FRONT, 10, None, ""),
    ("25gbe", "25 GbE", FRONT, 25, None, ""),
    ("40gbe", "40 GbE", FRONT, 40, None, ""),
    ("100gbe", "100 GbE", "between servers: requests, data and storage", 100, None, ""),
)
"""id, name, role, Gbit/s one way, microseconds of a small collective, where that was measured."""


def _links() -> Iterator[Link]:
    for id_, name, role, gb_per_s, source in SCALE_UP:
        yield Link(id=id_, name=name, role=role, gb_per_s=gb_per_s, source=source, as_of="2026-12", kind="derived")
    for id_, name, role, gbit_per_s, latency_us, where in NETWORK:
        yield Link(
            id=id_,
            name=name,
            role=role,
            gb_per_s=gbit_per_s / 8,
            typical_latency_us=latency_us,
            source="; ".join(filter(None, (f"line rate of {gbit_per_s:g} Gbit/s", where))),
            as_of="2026-12",
            kind="datasheet",
            figure_kinds={"typical_latency_us": "measured"} if latency_us else {},
        )


LINKS: Mapping[str, Link] = MappingProxyType({link.id: link for link in _links()})
