"""One collective on a described system: from the columns of a request or a measured row to a platform and a prediction."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from app.catalog.loader import Catalog
from app.catalog.schema import Gpu
from app.engine.collectives import collective_time_s
from app.engine.links import Collective, existing_scale_out
from app.engine.platform import P2P, PCIE_BYTES_PER_S_PER_LANE, FabricKind, Platform, ScaleOut, ScaleUp, platform_of
from app.ranges import Range
from app.units import GB
from app.workload.profile import FieldError, ProfileError

COLLECTIVE_NAMES: dict[str, Collective] = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
    "p2p_copy": "send_recv",
}
"""Spellings of nccl-tests and of published tables to ours."""

FIELDS = (
    "collective", "message_bytes", "gpu", "gpu_id", "n_gpus", "n_nodes", "gpus_per_node", "intra_link", "intra_kind", "intra_p2p",
    "inter_link", "inter_kind", "inter_gbit_per_node",
)  # fmt: skip

NETWORK_WORDS: tuple[tuple[str, FabricKind], ...] = (
    ("infiniband", "infiniband"), ("roce", "roce"), ("efa", "efa"), ("slingshot", "slingshot"), ("omni", "omnipath"), ("tcp", "tcp"),
    ("socket", "tcp"), ("rdma", "rdma"), ("ndr", "infiniband"), ("hdr", "infiniband"), ("xdr", "infiniband"), ("edr", "infiniband"),
    ("ib", "infiniband"), ("spectrum", "roce"), ("ethernet", "ethernet"), ("gbe", "ethernet"),
)  # fmt: skip
SPEED_WORDS = {"edr": 100.0, "hdr": 200.0, "ndr": 400.0, "xdr": 800.0}

SPREAD_INSIDE = (0.85, 1.25)
SPREAD_PCIE = (0.65, 2.4)
SPREAD_BETWEEN = (0.8, 2.0)
"""Factors on the time that hold four in five published points: switched links, PCIe of unknown topology, networks."""


def link_kind(text: str) -> str:
    """Link kind named in free text: ``NVLink5 (one 4-GPU tray)`` is ``nvlink5``, ``PCIe Gen4`` is ``pcie4``; empty = none known."""
    lowered = text.lower().replace(" ", "")
    if "nvl72" in lowered:
        return "nvlink5-nvl72"
    for kind in ("nvlink2", "nvlink3", "nvlink4", "nvlink5", "nvlink6"):
        if kind in lowered:
            return kind
    if "infinityfabric" in lowered or "infinity_fabric" in lowered or "xgmi" in lowered:
        return "infinity_fabric"
    found = re.search(r"pcie(?:gen)?([2-7])", lowered)
    if found:
        return f"pcie{found.group(1)}"
    return "pcie" if "pcie" in lowered else ""


def scale_up_from(kind: str, p2p: str, gpu: Gpu | None, gpus: int) -> ScaleUp | None:
    """The link inside a node of a stated kind (empty = the GPU's own), with the catalogue's figures; None = not known."""
    if kind.startswith("pcie") or (gpu is not None and not kind and gpu.scale_up_link == "none"):
        generation = int(kind[4:]) if kind[4:].isdigit() else (gpu.pcie_gen if gpu and gpu.pcie_gen else 4)
        lanes = gpu.pcie_lanes if gpu and gpu.pcie_lanes else 16
        return ScaleUp(
            kind=f"pcie{generation}",
            bandwidth_bytes_per_s=PCIE_BYTES_PER_S_PER_LANE[generation] * lanes,
            domain_gpus=gpus,
            switched=False,
            p2p=cast(P2P, p2p if p2p in ("yes", "no") else gpu.p2p_over_pcie if gpu else "yes"),
            pcie_gen=generation,
            pcie_lanes=lanes,
        )
    if gpu is None:
        return None
    link = platform_of(gpu, None, gpus_per_server=max(gpus, 2)).scale_up
    if gpu.scale_up_link == "none" or not gpu.scale_up_gb_per_s_bidirectional:
        return link
    if gpu.scale_up_bridge:
        rate = gpu.scale_up_gb_per_s_bidirectional / 2 * GB
        return replace(link, kind=gpu.scale_up_link, bandwidth_bytes_per_s=rate, domain_gpus=gpu.scale_up_domain_gpus, bridge=True)
    return replace(link, domain_gpus=max(link.domain_gpus, gpu.scale_up_domain_gpus)) if gpus <= gpu.scale_up_domain_gpus else link


def network_from(text: str, gpu: Gpu | None) -> ScaleOut | None:
    """A network from words such as ``ib_ndr``, ``RoCE 8x400`` or ``10gbe``; None when kind or speed cannot be read."""
    lowered = text.strip().lower()
    if gpu is not None:
        known = existing_scale_out(lowered, gpu, None)
        if known is not None:
            return known
    kind = next((kind for word, kind in NETWORK_WORDS if word in lowered), None)
    many = re.search(r"(\d+)\s*x\s*(\d+(?:\.\d+)?)", lowered)
    one = re.search(r"(\d+(?:\.\d+)?)\s*(?:g|$)", lowered)
    speed = next((rate for word, rate in SPEED_WORDS.items() if word in lowered), None)
    if kind is None:
        return None
    if many:
        return ScaleOut(kind=kind, nic_gbit_per_s=float(many.group(2)), nics_per_server=int(many.group(1)), gpudirect=kind != "tcp")
    rate = float(one.group(1)) if one else speed
    return None if rate is None else ScaleOut(kind=kind, nic_gbit_per_s=rate, nics_per_server=1, gpudirect=kind != "tcp")


def bus_factor(collective: Collective, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth: nccl-tests PERFORMANCE.md."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if collective in ("broadcast", "send_recv") else (ranks - 1) / ranks


def time_spread(platform: Platform, across: bool) -> tuple[float, float]:
    """Low and high factor on a predicted time, by the weakest link in the path."""
    inside = SPREAD_PCIE if platform.scale_up.kind.startswith("pcie") and platform.gpus_per_server > 1 else SPREAD_INSIDE
    if not across:
        return inside
    return min(inside[0], SPREAD_BETWEEN[0]), max(inside[1], SPREAD_BETWEEN[1])


def estimate_collective(request: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """``time_s``, ``algbw_gb_per_s`` and ``busbw_gb_per_s`` (ranges) of one collective on a described system.

    Raises:
        ProfileError: a field is unknown, missing or out of bounds; every fault is named.
    """
    collective, size, ranks, nodes, platform = _checked(request, catalog)
    per_node = math.ceil(ranks / nodes)
    seconds = float(collective_time_s(collective, size, ranks, per_node, platform))
    low, high = time_spread(platform, nodes > 1)
    factor = bus_factor(collective, ranks)
    rate = size / seconds / GB
    return {
        "collective": collective,
        "message_bytes": size,
        "n_gpus": ranks,
        "n_nodes": nodes,
        "gpu": platform.gpu.id,
        "intra_link": platform.scale_up.kind,
        "inter_link": "none" if platform.scale_out is None or nodes == 1 else platform.scale_out.kind,
        "time_s": Range.around(seconds, low, high).model_dump(),
        "algbw_gb_per_s": Range.around(rate, 1 / high, 1 / low).model_dump(),
        "busbw_gb_per_s": Range.around(rate * factor, 1 / high, 1 / low).model_dump(),
    }


def _checked(request: Mapping[str, Any], catalog: Catalog) -> tuple[Collective, float, int, int, Platform]:
    errors = [FieldError(name, "is not a field of this request", ", ".join(FIELDS)) for name in request if name not in FIELDS]
    collective = COLLECTIVE_NAMES.get(_text(request, "collective", errors))
    if collective is None:
        errors.append(FieldError("collective", "is not a collective", ", ".join(sorted(set(COLLECTIVE_NAMES.values())))))
    size = _count(request, "message_bytes", errors, 1e13)
    if size is None and not any(error.field == "message_bytes" for error in errors):
        errors.append(FieldError("message_bytes", "is missing: bytes as nccl-tests prints them", "greater than 0"))
    name = _text(request, "gpu_id", errors) or _text(request, "gpu", errors)
    gpu = catalog.find_gpu(name) if name else None
    if gpu is None:
        near = ", ".join(catalog.suggest_gpus(name)) if name else ""
        errors.append(FieldError("gpu", f"{name!r} is not in the catalogue" if name else "is missing", near))
    nodes = int(_count(request, "n_nodes", errors, 100_000, whole=True) or 1)
    per_node = _count(request, "gpus_per_node", errors, 576, whole=True)
    ranks = _count(request, "n_gpus", errors, 1_000_000, whole=True) or (nodes * per_node if per_node else None)
    if ranks is None or ranks < 2 or ranks < nodes or (per_node and ranks > nodes * per_node):
        errors.append(FieldError("n_gpus", "must be at least 2, at least n_nodes, and at most n_nodes x gpus_per_node", "2"))
    if errors or collective is None or size is None or gpu is None or ranks is None:
        raise ProfileError(errors)
    in_node = int(per_node or math.ceil(ranks / nodes))
    platform = _request_platform(request, gpu, in_node, nodes)
    return collective, size, int(ranks), nodes, platform


def _request_platform(request: Mapping[str, Any], gpu: Gpu, in_node: int, nodes: int) -> Platform:
    stated = str(request.get("intra_kind") or "") or str(request.get("intra_link") or "")
    kind = link_kind(stated)
    if stated and not kind and stated.lower() not in ("none", "nvlink"):
        raise ProfileError([FieldError("intra_link", f"{stated!r} is not a known link", "nvlink2..6, infinity_fabric, pcie3..6")])
    scale_up = scale_up_from(kind, str(request.get("intra_p2p") or ""), gpu, in_node)
    assert scale_up is not None
    if kind.startswith(("nvlink", "infinity")) and scale_up.kind.startswith("pcie"):
        raise ProfileError([FieldError("intra_link", f"{gpu.name} has no {kind}", scale_up.kind)])
    network = None
    if nodes > 1:
        text = f"{request.get('inter_kind') or ''} {request.get('inter_gbit_per_node') or ''}".strip() or str(
            request.get("inter_link") or ""
        )
        network = network_from(text, gpu)
        if network is None:
            raise ProfileError([FieldError("inter_link", f"{text!r} names no network and speed", "for example ib_ndr, roce 8x400, 10gbe")])
    return Platform(gpu=gpu, gpus_per_server=in_node, scale_up=scale_up, scale_out=network)


def _text(request: Mapping[str, Any], field: str, errors: list[FieldError]) -> str:
    value = request.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        errors.append(FieldError(field, "must be text"))
        return ""
    return value.strip()


def _count(request: Mapping[str, Any], field: str, errors: list[FieldError], maximum: float, *, whole: bool = False) -> float | None:
    """A positive number of the request; faults are collected, absent is None."""
    value = request.get(field)
    if value is None:
        return None
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 < value <= maximum
    if not good or (whole and value != int(value)):
        errors.append(FieldError(field, f"must be a {'whole ' if whole else ''}number above 0", f"at most {maximum:g}"))
        return None
    return float(value)
