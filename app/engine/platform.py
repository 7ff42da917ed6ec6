"""The hardware side of every estimate: one GPU type in one kind of server on one kind of fabric.

Converts catalogue figures (vendor units, both directions summed) to SI units, per direction, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from app.catalog.schema import Gpu, Server
from app.units import GB, GBIT_PER_S

P2P = Literal["yes", "no", "unknown"]
FabricKind = Literal["infiniband", "roce", "rdma", "efa", "omnipath", "slingshot", "ethernet", "tcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """The link between GPUs of one server or rack-scale domain.

    kind: ``nvlink2`` .. ``nvlink5``, ``nvlink5-nvl72``, ``infinity_fabric``, ``gaudi_ethernet``,
    ``pcie3`` .. ``pcie6`` or ``none``. bandwidth_bytes_per_s: per GPU, one direction, as the wire gives it.
    domain_gpus: GPUs that reach each other over this link (2 or 4 for bridges); beyond it, PCIe.
    switched: all pairs at full rate (NVSwitch, or one PCIe switch); False: mesh, bridge or the CPU's root ports.
    """

    kind: str
    bandwidth_bytes_per_s: float
    domain_gpus: int
    switched: bool
    bridge: bool = False
    p2p: P2P = "yes"
    pcie_gen: int = 4
    pcie_lanes: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOut:
    """The network between servers. nic_gbit_per_s: line rate of one NIC; gpudirect: NIC reads GPU memory."""

    kind: FabricKind
    nic_gbit_per_s: float
    nics_per_server: int
    gpudirect: bool = True

    @property
    def bytes_per_s_per_server(self) -> float:
        """Line rate of all NICs of one server, one direction, bytes/s."""
        return self.nic_gbit_per_s * self.nics_per_server * GBIT_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the engine runs a plan on. ``server`` is None for an abstract machine (validation rows)."""

    gpu: Gpu
    gpus_per_server: int
    scale_up: ScaleUp
    scale_out: ScaleOut | None = None
    server: Server | None = None

    def with_network(self, scale_out: ScaleOut | None) -> Platform:
        """The same servers on another network."""
        return replace(self, scale_out=scale_out)


PCIE_BYTES_PER_S_PER_LANE = {2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9, 7: 15.125e9}
"""One direction after line coding; PCI-SIG base specifications 2.0 to 7.0."""


def scale_up_of(gpu: Gpu, server: Server | None, gpus_per_server: int) -> ScaleUp:
    """Scale-up link of ``gpus_per_server`` GPUs of one type, from catalogue rows.

    The server decides whether the GPU's fast link is wired (a PCIe card without its bridge talks over PCIe).
    """
    gen, lanes = gpu.pcie_gen or 4, gpu.pcie_lanes or 16
    pcie = ScaleUp(
        kind=f"pcie{gen}",
        bandwidth_bytes_per_s=PCIE_BYTES_PER_S_PER_LANE[gen] * lanes,
        domain_gpus=gpus_per_server,
        switched=server is not None and server.scale_up == "pcie_switch",
        p2p=gpu.p2p_over_pcie,
        pcie_gen=gen,
        pcie_lanes=lanes,
    )
    if gpus_per_server == 1:
        return replace(pcie, kind="none", domain_gpus=1)
    wired = gpu.has_fast_scale_up if server is None else server.scale_up not in ("none", "pcie", "pcie_switch")
    if not wired or not gpu.scale_up_gb_per_s_bidirectional:
        return pcie
    bridged = gpu.scale_up_bridge
    domain = min(gpu.scale_up_domain_gpus, gpus_per_server)
    return ScaleUp(
        kind=gpu.scale_up_link,
        bandwidth_bytes_per_s=gpu.scale_up_gb_per_s_bidirectional / 2 * GB,
        domain_gpus=domain,
        switched=not bridged and gpu.scale_up_link.startswith("nvlink") and (server is None or server.scale_up == "nvswitch"),
        bridge=bridged,
        p2p=gpu.p2p_over_pcie,
        pcie_gen=gen,
        pcie_lanes=lanes,
    )


def platform_of(
    gpu: Gpu, server: Server | None = None, *, gpus_per_server: int | None = None, scale_out: ScaleOut | None = None
) -> Platform:
    """Platform from catalogue rows; ``gpus_per_server`` overrides the server's count (partly filled, owned)."""
    count = gpus_per_server or (server.gpus if server else 1)
    return Platform(gpu=gpu, gpus_per_server=count, scale_up=scale_up_of(gpu, server, count), scale_out=scale_out, server=server)
