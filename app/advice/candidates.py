"""Every design worth asking about: GPU x server x how far one job reaches x network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.advice.recommendation import Architecture
from app.catalog.loader import Catalog
from app.catalog.schema import Gpu, Server
from app.engine.links import existing_scale_out, recommended_network
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.result import Span
from app.workload.profile import Constraints, Owned, WorkloadProfile

ETHERNET_KINDS = ("roce", "ethernet", "tcp", "rdma", "efa")

CONSUMER_WORKLOADS = ("hpc", "lora", "vision_training", "image_generation", "data_science")
"""Desk-side work, where consumer cards are considered without being named; see rule ``consumer-gpu-service``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One question to the engine. ``max_gpus``: GPUs that may be used (constraint, or what is owned)."""

    architecture: Architecture
    platform: Platform
    span: Span
    max_gpus: int
    owned: Owned | None = None
    network_exists: bool = False

    @property
    def protocol(self) -> str:
        """``infiniband``, ``ethernet`` or empty when one job stays inside a server."""
        if self.span != "many_servers" or self.platform.scale_out is None:
            return ""
        return "infiniband" if self.platform.scale_out.kind == "infiniband" else "ethernet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A GPU or an architecture left out before the engine was asked, with the constraint that did it."""

    architecture: Architecture | None
    constraint: str
    message: str


MAX_GPUS_CONSIDERED = 131_072
"""No customer buys more; keeps the search finite."""


def architecture_of(platform: Platform, span: Span) -> Architecture:
    """The label of a design. Bridged pairs of PCIe cards stay PCIe: the box and its other links are PCIe."""
    if span == "one_gpu":
        return Architecture.SINGLE_GPU
    if span == "one_server":
        fast = platform.gpu.has_fast_scale_up and not platform.scale_up.bridge and not platform.scale_up.kind.startswith("pcie")
        return Architecture.NVLINK_SERVER if fast else Architecture.MULTI_GPU_PCIE
    infiniband = platform.scale_out is not None and platform.scale_out.kind == "infiniband"
    return Architecture.INFINIBAND_CLUSTER if infiniband else Architecture.ETHERNET_CLUSTER


DESK_SIDE_WORKLOADS = (*CONSUMER_WORKLOADS, "finetuning")
"""Work people do beside their desk: towers and desktops are considered without being named. Services run in racks."""

LEAST_FABRIC_GBIT = 100.0
"""A network bought for jobs across servers is 100 Gbit/s or faster; slower ones are used only where they exist."""

SPECIALIST_GENERATIONS = ("gaudi2", "gaudi3", "xe_hpc", "xe2", "rdna3", "rdna4")
"""Hardware with a narrow software stack, considered when its maker or the part is named."""


def allowed_gpus(profile: WorkloadProfile, catalog: Catalog) -> tuple[Gpu, ...]:
    """GPUs the constraints allow. Without a list: what is on sale, has known figures, and suits the kind of work."""
    constraints = profile.constraints
    excluded = {gpu.id for name in constraints.exclude_gpus if (gpu := catalog.find_gpu(name)) is not None}
    if constraints.gpus:
        rows = [catalog.find_gpu(name) for name in constraints.gpus]
        named = [gpu for gpu in rows if gpu is not None and gpu.id not in excluded]
        return tuple(gpu for gpu in named if not constraints.vendors or gpu.vendor in constraints.vendors)
    chosen = []
    for gpu in catalog.gpus.values():
        if gpu.id in excluded or gpu.lifecycle != "current" or gpu.memory_gb is None or gpu.memory_bandwidth_gb_per_s is None:
            continue
        if constraints.vendors and gpu.vendor not in constraints.vendors:
            continue
        if gpu.form_factor == "consumer" and profile.workload not in CONSUMER_WORKLOADS:
            continue
        if gpu.generation in SPECIALIST_GENERATIONS and gpu.vendor not in constraints.vendors:
            continue
        if building_blocks(gpu, catalog, profile):
            chosen.append(gpu)
    return tuple(chosen)


def building_blocks(gpu: Gpu, catalog: Catalog, profile: WorkloadProfile) -> tuple[Server, ...]:
    """One server per count and link type: rows that differ only in the maker do the same work.

    Among equals the row with known power, then the more trusted figures, then the newer one is taken. Towers and
    desktops count for desk-side work or when the GPU was named.
    """
    constraints = profile.constraints
    desk_side = profile.workload in DESK_SIDE_WORKLOADS or bool(constraints.gpus)
    rank = {"high": 0, "medium": 1, "low": 2}
    best: dict[tuple[int, str], Server] = {}
    for server in catalog.servers_for(gpu.id):
        tower = server.form in ("tower", "desktop")
        if server.lifecycle in ("roadmap", "cloud_only") or (tower and not desk_side):
            continue
        if constraints.cooling == "air" and server.cooling in ("liquid", "hybrid", "immersion"):
            continue
        key = (server.gpus, server.scale_up)
        order = (tower, server.max_power_w is None, rank[server.confidence], -server.year, server.id)
        other = best.get(key)
        if other is None or order < _order(other, rank):
            best[key] = server
    known = [server for server in best.values() if server.generic or server.confidence != "low"]
    kept = known or list(best.values())
    return tuple(sorted(kept, key=lambda server: (server.gpus, server.id)))


def _order(server: Server, rank: dict[str, int]) -> tuple[bool, bool, int, int, str]:
    tower = server.form in ("tower", "desktop")
    return tower, server.max_power_w is None, rank[server.confidence], -server.year, server.id


def _networks(gpu: Gpu, server: Server, constraints: Constraints) -> Iterator[tuple[ScaleOut, bool]]:
    """Networks for a job across servers: what is in place (True) and what would be bought (False)."""
    installed = None
    if constraints.existing_network != "none":
        installed = existing_scale_out(constraints.existing_network, gpu, server)
    if installed is not None:
        yield installed, True
    for protocol in ("infiniband", "ethernet"):
        proposed = recommended_network(gpu, protocol, server)
        if proposed is None or proposed.nic_gbit_per_s < LEAST_FABRIC_GBIT:
            continue
        same = installed is not None and (installed.kind == "infiniband") == (protocol == "infiniband")
        if same and installed is not None and installed.bytes_per_s_per_server >= proposed.bytes_per_s_per_server:
            continue
        yield proposed, False


def candidates(profile: WorkloadProfile, catalog: Catalog) -> list[Candidate]:
    """All candidates for a profile, owned hardware first. CPU-only is decided apart (:mod:`app.advice.cpu`)."""
    constraints = profile.constraints
    limit = MAX_GPUS_CONSIDERED if constraints.max_gpus is None else constraints.max_gpus
    found: list[Candidate] = [*_owned(profile, catalog, limit)]
    if limit == 0:
        return found
    for gpu in allowed_gpus(profile, catalog):
        blocks = building_blocks(gpu, catalog, profile)
        cluster_blocks = _cluster_blocks(blocks, bool(constraints.gpus))
        for server in blocks:
            platform = platform_of(gpu, server)
            found.append(Candidate(architecture=Architecture.SINGLE_GPU, platform=platform, span="one_gpu", max_gpus=limit))
            if server.gpus == 1:
                continue
            if limit > 1:
                label = architecture_of(platform, "one_server")
                found.append(Candidate(architecture=label, platform=platform, span="one_server", max_gpus=limit))
        for server in cluster_blocks:
            if limit <= server.gpus:
                continue
            for network, exists in _networks(gpu, server, constraints):
                wired = platform_of(gpu, server, scale_out=network)
                label = architecture_of(wired, "many_servers")
                found.append(Candidate(architecture=label, platform=wired, span="many_servers", max_gpus=limit, network_exists=exists))
    return found


def _cluster_blocks(blocks: tuple[Server, ...], named: bool) -> tuple[Server, ...]:
    """Servers a cluster is built from: the densest rack server, and a rack-scale domain where there is one. Towers and
    desktops only where a named GPU comes in nothing else."""
    racks = [server for server in blocks if server.form == "rack_server"]
    scale = [server for server in blocks if server.form == "rack_scale"]
    if not racks and not scale:
        return blocks[-1:] if named else ()
    densest = max((server.gpus for server in racks), default=0)
    dense = [server for server in racks if server.gpus == densest and (densest > 1 or not scale)]
    return (*dense, *scale)


def _owned(profile: WorkloadProfile, catalog: Catalog, limit: int) -> Iterator[Candidate]:
    """Hardware already paid for, as it is wired: link, PCIe generation, lanes and P2P as stated."""
    for item in profile.constraints.owned:
        gpu = catalog.find_gpu(item.gpu)
        if gpu is None or gpu.id in profile.constraints.exclude_gpus:
            continue
        count = min(int(item.count), limit)
        if count == 0:
            continue
        per_server = int(item.per_server or count)
        base = platform_of(_as_wired(gpu, item), None, gpus_per_server=per_server)
        yield Candidate(architecture=Architecture.SINGLE_GPU, platform=base, span="one_gpu", max_gpus=count, owned=item)
        if per_server > 1 and count > 1:
            yield Candidate(architecture=architecture_of(base, "one_server"), platform=base, span="one_server", max_gpus=count, owned=item)
        if count > per_server:
            installed = existing_scale_out(profile.constraints.existing_network, gpu, None)
            if installed is not None:
                wired = base.with_network(installed)
                yield Candidate(
                    architecture=architecture_of(wired, "many_servers"),
                    platform=wired,
                    span="many_servers",
                    max_gpus=count,
                    owned=item,
                    network_exists=True,
                )


def _as_wired(gpu: Gpu, item: Owned) -> Gpu:
    """The catalogue GPU with the links the owner states; ``unknown`` P2P stays unknown and widens the range."""
    changes: dict[str, object] = {}
    if item.link in ("none", "pcie"):
        changes["scale_up_link"] = "none"
        changes["scale_up_bridge"] = False
    if item.pcie_gen is not None:
        changes["pcie_gen"] = int(item.pcie_gen)
    if item.pcie_lanes is not None:
        changes["pcie_lanes"] = int(item.pcie_lanes)
    if item.p2p != "unknown":
        changes["p2p_over_pcie"] = item.p2p
    return gpu.model_copy(update=changes)
