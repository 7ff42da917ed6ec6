"""What each link gives: constants of the collective model by link kind, and the network a GPU is usually bought with."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from app.catalog.schema import Gpu, Server
from app.engine.platform import FabricKind, Platform, ScaleOut
from app.units import GB, GBIT_PER_S, US

LINKS_FILE = Path(__file__).parent / "data" / "links.toml"
SCALE_OUT_FILE = Path(__file__).parent / "data" / "links_scale_out.toml"

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]

CROWD_RANKS = 8
"""Rank count at which the fitted wire fractions hold; more ranks than were measured are not extrapolated."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One straight line of the model: ``alpha_s + step_s * steps + volume / (wire * wire_fraction)``."""

    alpha_s: float
    step_s: float
    wire_fraction: float


@dataclass(frozen=True, slots=True)
class ScaleUpLaw:
    """Three protocol regimes of one link kind and collective, how crowding changes them, and in-network reduction."""

    regimes: tuple[Regime, Regime, Regime]
    ranks_exponent: float
    in_network: Regime | None


@dataclass(frozen=True, slots=True)
class ScaleOutLaw:
    """Three protocol regimes of one network kind, per NIC set of a server."""

    hop_s: tuple[float, float, float]
    wire_fraction: tuple[float, float, float]
    ring_fraction: float
    all_to_all_fraction: float


@cache
def _constants() -> dict[str, Any]:
    return tomllib.loads(LINKS_FILE.read_text(encoding="utf-8"))


@cache
def scale_out_constants() -> dict[str, Any]:
    """Constants of the networks between servers; see ``links_scale_out.toml``."""
    return tomllib.loads(SCALE_OUT_FILE.read_text(encoding="utf-8"))


FITTED_AS = {"broadcast": "all_gather", "send_recv": "all_gather"}
"""Collectives without sweeps of their own move data in the pattern of another: a pipelined ring of copies."""


@cache
def scale_up_law(kind: str, collective: str) -> ScaleUpLaw:
    """Constants of ``collective`` on a link kind; kinds without a sweep borrow the regimes of a like one."""
    like = scale_out_constants()["like"].get(kind)
    fitted = like["like"] if like else kind
    table = _constants()[fitted][FITTED_AS.get(collective, collective)]
    fractions = list(table["wire_fraction"])
    exponent = float(table["ranks_exponent"])
    if like and "bandwidth_fraction" in like:
        fractions[-1] = float(like["bandwidth_fraction"])
        exponent = 0.0
    low, middle, high = (
        Regime(alpha * US, step * US, fraction)
        for alpha, step, fraction in zip(table["alpha_us"], table["step_us"], fractions, strict=True)
    )
    reducer = table.get("in_network")
    in_network = Regime(reducer["alpha_us"] * US, 0.0, reducer["wire_fraction"]) if reducer else None
    return ScaleUpLaw((low, middle, high), exponent, in_network)


@cache
def scale_out_law(network: ScaleOut) -> ScaleOutLaw:
    """Constants of a network; without GPUDirect every byte takes two more copies through host memory."""
    constants = scale_out_constants()
    table = constants[network.kind]
    copied = not network.gpudirect and network.kind != "tcp"
    first = network.nic_gbit_per_s * network.nics_per_server <= table.get("first_generation_gbit_per_server", 0.0)
    slower = table.get("first_generation_hop_factor", 1.0) if first else 1.0
    factor = constants["no_gpudirect_fraction"] if copied else 1.0
    extra_us = constants["no_gpudirect_hop_us"] if copied else 0.0
    low, middle, high = ((hop * slower + extra_us) * US for hop in table["hop_us"])
    little, more, most = (fraction * factor for fraction in table["wire_fraction"])
    return ScaleOutLaw((low, middle, high), (little, more, most), table["ring_fraction"] * factor, table["all_to_all_fraction"] * factor)


def nic_bytes_per_s(scale_out: ScaleOut) -> float:
    """Rate one NIC can feed, bytes/s one way: the line, or for sockets ``line / (1 + line / 10 GB/s)``."""
    line = scale_out.nic_gbit_per_s * GBIT_PER_S
    if scale_out.kind != "tcp":
        return line
    return float(line / (1 + line / scale_out_constants()["tcp_half_rate_bytes_per_s"]))


def group_wire_bytes_per_s(platform: Platform) -> tuple[float, bool]:
    """Wire rate per GPU when all GPUs of the scale-up domain take part, and whether it shrinks for smaller groups.

    Meshes (Infinity Fabric, NVLink boards without a switch) split a GPU's bandwidth over its peers: a group of
    n uses (n-1)/(domain-1) of it. A switch or PCIe gives each GPU its full port.
    """
    link = platform.scale_up
    mesh = not link.switched and not link.bridge and not link.kind.startswith("pcie") and link.domain_gpus > 2
    return link.bandwidth_bytes_per_s, mesh


_NETWORK_BY_GENERATION = {
    "volta": 100.0,
    "turing": 100.0,
    "ampere": 200.0,
    "ada": 200.0,
    "hopper": 400.0,
    "blackwell": 400.0,
    "blackwell_workstation": 400.0,
    "rubin": 800.0,
    "cdna2": 200.0,
    "cdna3": 400.0,
    "cdna4": 400.0,
    "cdna5": 800.0,
}
"""NIC rate per GPU that reference systems of a generation carry: DGX-1 100, DGX A100 200, DGX H100/H200/B200 400 Gbit/s."""

_WIDE_NIC_GPUS = ("b300", "gb300")
"""DGX B300 and GB300 NVL72 carry ConnectX-8 at 800 Gbit/s per GPU."""

_DESKTOP_NIC_GBIT = {"gb10": (200.0, 1)}
"""GB10 machines carry one ConnectX-7 at 200 Gbit/s."""


def recommended_network(gpu: Gpu, protocol: str, server: Server | None = None) -> ScaleOut | None:
    """The network a cluster of this GPU is usually bought with; None where there is none on ``protocol``.

    The server row decides where it states its GPU NICs; else one NIC per GPU for switched boards and one per
    two GPUs for PCIe servers (NVIDIA 2-8-5-200 and 2-8-9-400 reference configurations).
    """
    if gpu.vendor in ("google", "aws"):
        return None
    for name, (gbit, nics) in _DESKTOP_NIC_GBIT.items():
        if gpu.id == name:
            return None if protocol == "infiniband" else ScaleOut(kind="roce", nic_gbit_per_s=gbit, nics_per_server=nics)
    if gpu.form_factor == "consumer":
        gbit, direct = 100.0, False
    else:
        gbit = 800.0 if gpu.id.startswith(_WIDE_NIC_GPUS) else _NETWORK_BY_GENERATION.get(gpu.generation, 200.0)
        direct = True
    gpus = server.gpus if server else 8 if gpu.has_fast_scale_up else 4
    nics = gpus if gpu.has_fast_scale_up else max(1, gpus // 2)
    if server is not None and server.nics and server.nic_gbit_per_s:
        nics, gbit = server.nics, server.nic_gbit_per_s
    elif gpu.generation in ("gaudi2", "gaudi3"):
        nics, gbit = 3 * gpus, 100.0 if gpu.generation == "gaudi2" else 200.0
    if protocol == "infiniband":
        if gpu.generation in ("gaudi2", "gaudi3"):
            return None
        return ScaleOut(kind="infiniband", nic_gbit_per_s=gbit, nics_per_server=nics, gpudirect=direct)
    return ScaleOut(kind="roce", nic_gbit_per_s=gbit, nics_per_server=nics, gpudirect=direct)


_EXISTING: dict[str, tuple[FabricKind, float]] = {
    "1gbe": ("tcp", 1.0),
    "10gbe": ("tcp", 10.0),
    "25gbe": ("tcp", 25.0),
    "100gbe": ("roce", 100.0),
    "200gbe": ("roce", 200.0),
    "400gbe": ("roce", 400.0),
    "800gbe": ("roce", 800.0),
    "ib_hdr": ("infiniband", 200.0),
    "ib_ndr": ("infiniband", 400.0),
    "ib_xdr": ("infiniband", 800.0),
}


def existing_scale_out(existing_network: str, gpu: Gpu, server: Server | None) -> ScaleOut | None:
    """The network a customer already has, as the jobs would see it; None for ``none``.

    1 to 25 GbE is taken as sockets with one NIC per server, 100 GbE and faster as RoCE. NICs are added with the
    servers, so their number is the usual one, but never faster than the switches in place.
    """
    if existing_network not in _EXISTING:
        return None
    kind, gbit = _EXISTING[existing_network]
    if kind == "tcp":
        return ScaleOut(kind="tcp", nic_gbit_per_s=gbit, nics_per_server=1, gpudirect=False)
    usual = recommended_network(gpu, "infiniband" if kind == "infiniband" else "ethernet", server)
    if usual is None:
        return ScaleOut(kind=kind, nic_gbit_per_s=gbit, nics_per_server=1)
    return ScaleOut(kind=kind, nic_gbit_per_s=gbit, nics_per_server=usual.nics_per_server, gpudirect=usual.gpudirect)


def scale_up_gb_per_s(platform: Platform) -> float:
    """Wire rate of the scale-up link per GPU, GB/s one way; for words on pages."""
    return platform.scale_up.bandwidth_bytes_per_s / GB
