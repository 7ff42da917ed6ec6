"""Link kinds as people compare them: what each is for, how fast one direction is, and who it joins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.catalog.schema import Row


class Link(Row):
    """One kind of link. ``gb_per_s``: one direction, per GPU (scale-up) or per port (network), line rate."""

    id: str
    name: str
    role: str
    gb_per_s: float
    typical_latency_us: float | None = None
    """Small-message latency between two GPUs through it, where measured; None = not known."""


def _link(id_: str, name: str, role: str, gb_per_s: float, latency_us: float | None, source: str) -> Link:
    return Link(
        id=id_, name=name, role=role, gb_per_s=gb_per_s, typical_latency_us=latency_us, source=source, as_of="2026-12", kind="datasheet"
    )


PCI = "PCI-SIG base specification, x16, one direction after line coding"
NVLINK = "NVIDIA data sheets, half of the printed two-way figure"
INSIDE = "between GPUs of one server"
BETWEEN = "between servers"

LINKS: Mapping[str, Link] = MappingProxyType(
    {
        link.id: link
        for link in (
            _link("pcie3", "PCIe 3 x16", INSIDE, 15.8, None, PCI),
            _link("pcie4", "PCIe 4 x16", INSIDE, 31.5, None, PCI),
            _link("pcie5", "PCIe 5 x16", INSIDE, 63.0, None, PCI),
            _link("pcie6", "PCIe 6 x16", INSIDE, 121.0, None, PCI),
            _link("nvlink2", "NVLink 2 (V100)", INSIDE, 150.0, None, NVLINK),
            _link("nvlink3", "NVLink 3 (A100)", INSIDE, 300.0, None, NVLINK),
            _link("nvlink4", "NVLink 4 (H100, H200)", INSIDE, 450.0, None, NVLINK),
            _link("nvlink5", "NVLink 5 (B200, B300)", INSIDE, 900.0, None, NVLINK),
            _link("nvlink5-nvl72", "NVLink 5, 72-GPU rack", "between 72 GPUs of one rack", 900.0, None, NVLINK),
            _link(
                "infinity_fabric", "Infinity Fabric (MI300X)", INSIDE, 448.0, None, "AMD data sheet: 7 links x 128 GB/s two ways per GPU"
            ),
            _link("ib_hdr", "InfiniBand HDR 200", BETWEEN, 25.0, 18.0, "line rate; 8 KiB all-reduce, MSCCL++ CI baseline on A100"),
            _link("ib_ndr", "InfiniBand NDR 400", BETWEEN, 50.0, 15.0, "line rate; 8 KiB all-reduce, MSCCL++ CI baseline on H100"),
            _link("ib_xdr", "InfiniBand XDR 800", BETWEEN, 100.0, None, "line rate"),
            _link("roce_100", "RoCE 100 GbE", BETWEEN, 12.5, 42.0, "line rate; 8 B to 8 KiB all-reduce 36-48 us, 16 A100 over RoCE"),
            _link("roce_200", "RoCE 200 GbE", BETWEEN, 25.0, None, "line rate"),
            _link("roce_400", "RoCE 400 GbE", BETWEEN, 50.0, None, "line rate"),
            _link("roce_800", "RoCE 800 GbE", BETWEEN, 100.0, None, "line rate"),
            _link("1gbe", "1 GbE", "between servers, no GPU traffic", 0.125, None, "line rate"),
            _link("10gbe", "10 GbE", "between servers, requests and data", 1.25, None, "line rate"),
            _link("25gbe", "25 GbE", "between servers, requests and data", 3.125, None, "line rate"),
            _link("100gbe", "100 GbE", "between servers, storage and data", 12.5, None, "line rate"),
        )
    }
)
