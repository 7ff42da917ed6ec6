"""Which published price stands for which catalogue item, and how a missing one is derived.

Rows are named by category and item as the price table prints them, so that a newer reading of the same row
is picked up without a change here. Where readings conflict the ends of the range are the readings and the
typical value is their geometric mean.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowKey:
    """Category and item of a price row."""

    category: str
    item: str


CARD_ROWS: dict[str, RowKey] = {
    "a100-sxm-40gb": RowKey("gpu", "A100 40GB SXM"),
    "a100-sxm-80gb": RowKey("planning-band", "A100 80GB SXM (used/refurbished)"),
    "a100-pcie-80gb": RowKey("gpu", "A100 80GB PCIe"),
    "a40": RowKey("gpu", "A40 48GB"),
    "h100-pcie-80gb": RowKey("gpu", "H100 PCIe 80GB"),
    "h100-nvl-94gb": RowKey("planning-band", "H100 PCIe 80GB / NVL 94GB card"),
    "h100-sxm-80gb": RowKey("planning-band", "H100 SXM 80GB, in 8-GPU baseboard"),
    "h200-sxm-141gb": RowKey("planning-band", "H200 SXM 141GB, in 8-GPU baseboard"),
    "b200-sxm-180gb": RowKey("planning-band", "B200 SXM 180GB"),
    "gh200-96gb": RowKey("gpu", "GH200 96GB superchip"),
    "mi300x": RowKey("gpu", "MI300X 192GB OAM"),
    "mi300a": RowKey("gpu", "MI300A"),
    "mi250x": RowKey("gpu", "MI250X"),
    "max-1550": RowKey("gpu", "Intel Data Center GPU Max 1550"),
    "h20-96gb": RowKey("gpu", "H20 96GB"),
    "h800-sxm-80gb": RowKey("gpu", "H800 SXM 80GB"),
    "rtx-a6000": RowKey("gpu", "RTX A6000 48GB"),
    "rtx-6000-ada": RowKey("gpu", "RTX 6000 Ada 48GB"),
    "rtx-pro-6000-server": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB"),
    "rtx-pro-6000-workstation": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB"),
    "rtx-pro-6000-maxq": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB"),
    "rtx-5090": RowKey("gpu", "RTX 5090 32GB"),
    "rtx-4090": RowKey("gpu", "RTX 4090 24GB"),
    "rtx-3090": RowKey("gpu", "RTX 3090 24GB"),
}
"""Price of one GPU on its own, by catalogue GPU id."""

KIT_ROWS: dict[str, tuple[RowKey, int]] = {"gaudi2": (RowKey("gpu", "Intel Gaudi 2, 8-card kit"), 8)}
"""Price of several GPUs together, with their number."""

LATE_RETAIL_ROWS: dict[str, RowKey] = {
    "rtx-pro-6000-server": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB Workstation (EUR incl. 20% VAT)"),
    "rtx-pro-6000-workstation": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB Workstation (EUR incl. 20% VAT)"),
    "rtx-pro-6000-maxq": RowKey("gpu", "RTX PRO 6000 Blackwell 96GB Workstation (EUR incl. 20% VAT)"),
    "rtx-5090": RowKey("gpu", "RTX 5090 32GB (EUR incl. 20% VAT)"),
}
"""Readings after the memory-price rise of the second half of 2026, in EUR with VAT."""

WHOLE_SERVER_ROWS: dict[tuple[str, int], RowKey] = {
    ("a100-sxm-80gb", 8): RowKey("server-8gpu", "HGX A100 8-GPU server"),
    ("h100-sxm-80gb", 8): RowKey("planning-band", "8x H100 SXM server, complete"),
    ("h200-sxm-141gb", 8): RowKey("planning-band", "8x H200 SXM server, complete"),
    ("b200-sxm-180gb", 8): RowKey("planning-band", "8x B200 SXM server, complete"),
    ("gb200", 72): RowKey("planning-band", "GB200 NVL72 rack"),
    ("gb300", 72): RowKey("planning-band", "GB300 NVL72 rack"),
    ("vr200", 72): RowKey("planning-band", "VR200 NVL72 rack"),
    ("gb10", 1): RowKey("workstation", "DGX Spark (GB10, 128GB)"),
    ("gb300", 1): RowKey("workstation", "DGX Station GB300 (MSI WS300)"),
}
"""Price of a complete machine, by catalogue GPU id and GPUs in it."""

RACK_SCALE_GPUS = 72
ALL_IN_RACK = RowKey("rack-scale", "GB200 NVL72 all-in (network, storage, install)")
BARE_RACK = RowKey("planning-band", "GB200 NVL72 rack")
"""Two readings of one rack-scale machine. The bare one leaves out liquid loop, power shelves and integration, the other holds
network and storage besides; by the rule for conflicting readings a rack is priced at their geometric mean, as a factor
on the bare price that serves every rack of its kind."""

WHOLE_RANGE = (0.8, 1.25)
"""Range put around a complete-machine price that has one reading: the spread of the 8x H100 band (230-375 on 290)."""
SINGLE_READING_RANGE = (0.85, 1.2)
"""Range put around a part price that has one reading: OEM list sits 20-60% above street, bulk 10-15% below."""
ESTIMATE_RANGE = (0.55, 1.75)
"""Range of a price taken from comparable GPUs: leave-one-out error of the rule, see tests."""

CPU_USD_PER_CORE = (110.0, 140.0, 165.0)
"""Server CPUs, USD per core: EPYC 9654 11,849/96 = 123; Xeon 8480+ 8,999/56 = 161 (launch list prices)."""
RAM_MODULE_GB = 64
RAM_MODULE_USD = (221.0, 312.5, 625.0)
"""64 GB DDR5 RDIMM: 1 TB kit of sixteen 5,000 (July 2026, called likely too low); 3.45 USD per GB spot; twice the kit."""
NVME_DRIVE_TB = 3.84
NVME_USD_PER_TB = (102.0, 208.0, 365.0)
"""Enterprise TLC NVMe: 102 (Q2 2025) to 365 (Q1 2026); a 7.68 TB drive at 1,600 retail = 208."""
STORAGE_OVERHEAD = 1.3
"""Raw flash bought per usable TB (erasure code, spare space). Assumption: 8+2 code and 5% spare = 1.31."""
RACK_ENCLOSURE_USD_PER_4_SLOTS = (3000.0, 4000.0, 8000.0)
"""Bare 2U chassis 4,000 (street 2026); PCIe-switch boards and large power supplies reach the high end."""
TOWER_ENCLOSURE_USD = (1000.0, 2000.0, 3500.0)
"""Case, board, power supply and cooling of a workstation. Assumption: half a bare 2U server chassis."""
MODULE_NODE_USD = (40_000.0, 60_000.0, 80_000.0)
"""Chassis, CPUs and RAM of an 8-module node without GPUs (estimate, 2026-03)."""
