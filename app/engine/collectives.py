"""Time of collective operations between GPUs: hierarchical alpha-beta with protocol regimes.

One line per regime (low latency, middle, bandwidth): ``alpha + hops * step + volume / rate``; a library picks
the fastest, so the time is the lower envelope. Inside a server the constants are fitted to sweeps by link kind
and collective (``data/links.toml``); between servers they are set from published points
(``data/links_scale_out.toml``). Both levels work as a pipeline: latencies add, the slower level sets the rate.

Sources: nccl-tests PERFORMANCE.md (volumes and bus bandwidth); NCCL src/graph/tuning.cc (steps of ring and tree,
regimes); R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005 (alpha-beta).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.engine.links import (
    CROWD_RANKS,
    Collective,
    Regime,
    ScaleOutLaw,
    group_wire_bytes_per_s,
    nic_bytes_per_s,
    scale_out_constants,
    scale_out_law,
    scale_up_law,
)
from app.engine.platform import PCIE_BYTES_PER_S_PER_LANE, Platform
from app.units import US

FloatArray = NDArray[np.float64]

REGIMES = 3
NEWER_PCIE_GENERATION = 5
"""Hosts from this PCIe generation on copy through their memory nearly as fast as peers reach each other."""
CHUNK = 16_384
"""Entries worked on at once: a dozen arrays of them stay in a processor's cache."""


def wire_volume_factor(collective: Collective, ranks: FloatArray) -> FloatArray:
    """Bytes each rank sends over its link per byte of ``message_bytes``.

    All-reduce 2(n-1)/n (reduce-scatter and all-gather); all-gather, reduce-scatter and all-to-all (n-1)/n;
    broadcast and send/receive 1. Source: nccl-tests PERFORMANCE.md.
    """
    if collective in ("broadcast", "send_recv"):
        return np.where(ranks > 1, 1.0, 0.0)
    share: FloatArray = (ranks - 1) / ranks
    return 2 * share if collective == "all_reduce" else share


def collective_time_s(
    collective: Collective,
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    ranks_per_server: ArrayLike,
    platform: Platform,
) -> FloatArray:
    """Seconds one collective takes on ``platform``; arguments broadcast like NumPy arrays.

    message_bytes: the size nccl-tests prints, per rank: all_reduce, broadcast, send_recv: the buffer;
    all_gather: the whole gathered result; reduce_scatter: the whole input of a rank; all_to_all: all a rank sends
    (its own share included).
    ranks: GPUs taking part. ranks_per_server: of those, how many in one server (or NVLink domain); a group with
    fewer ranks per server than the server has GPUs gets its share of the NICs, since the sibling groups of
    the other GPUs run at the same time.

    Ranges of the data: 512 B to 16 GiB, 2 to 64 GPUs. Median error of the fit stands in ``data/links.toml``.
    A group across servers on a platform without a network takes infinite time.
    """
    size, count, per_server = np.broadcast_arrays(
        np.asarray(message_bytes, dtype=np.float64),
        np.asarray(ranks, dtype=np.float64),
        np.asarray(ranks_per_server, dtype=np.float64),
    )
    if size.size <= CHUNK:
        return _chunk_time_s(collective, size, count, per_server, platform)
    result = np.empty(size.shape)
    flat = [np.ravel(array) for array in (size, count, per_server)]
    for start in range(0, size.size, CHUNK):
        part = slice(start, start + CHUNK)
        result.reshape(-1)[part] = _chunk_time_s(collective, flat[0][part], flat[1][part], flat[2][part], platform)
    return result


def _chunk_time_s(collective: Collective, size: FloatArray, count: FloatArray, per_server: FloatArray, platform: Platform) -> FloatArray:
    """:func:`collective_time_s` of arrays small enough for the processor's cache."""
    local = np.minimum(count, np.maximum(per_server, 1.0))
    remote = count > local
    if not remote.any():
        time = _inside_server(collective, size, local, count, platform)[0]
    elif platform.scale_out is None:
        time = np.where(remote, np.inf, _inside_server(collective, size, local, count, platform)[0])
    else:
        across = _across_servers(collective, size, count, local, platform)
        time = across if remote.all() else np.where(remote, across, _inside_server(collective, size, local, count, platform)[0])
    return np.where(count > 1, time, 0.0)


def _inside_server(
    collective: Collective, size: FloatArray, local: FloatArray, count: FloatArray, platform: Platform
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
    """Time inside a server, and (latency, transfer time) of each regime for the pipeline across servers.

    ``count`` sets the volume: (n-1)/n of a collective that goes on between servers.
    """
    link = platform.scale_up
    law = scale_up_law("pcie4" if link.kind == "none" else link.kind, collective)
    if collective == "all_to_all":
        volume = (local - 1) / count * size
    else:
        volume = wire_volume_factor(collective, np.where(local > 1, count, 1.0)) * size
    rates = _rates(law.regimes, law.ranks_exponent, collective, local, platform)
    extra = _host_latency_s(platform)
    steps = np.maximum((2.0 if collective == "send_recv" else local) - 2.0, 0.0)
    parts = []
    for regime, rate in zip(law.regimes, rates, strict=True):
        latency = np.where(local > 1, regime.alpha_s + extra + regime.step_s * steps, 0.0)
        parts.append((latency, volume / rate))
    time = _envelope([latency + transfer for latency, transfer in parts])
    if law.in_network is not None and link.switched:
        wire = link.bandwidth_bytes_per_s * law.in_network.wire_fraction
        reduced = law.in_network.alpha_s + volume / wire
        time = np.where(local > 4, np.minimum(time, reduced), time)
    return time, parts


def _rates(regimes: Sequence[Regime], exponent: float, collective: Collective, local: FloatArray, platform: Platform) -> list[FloatArray]:
    """Bytes/s each GPU gets on the scale-up link in each regime, with ``local`` GPUs of the server taking part."""
    link = platform.scale_up
    wire, mesh = group_wire_bytes_per_s(platform)
    pcie = link.kind.startswith("pcie")
    direct = collective == "send_recv" or link.bridge
    alone = 2.0 if pcie else float(CROWD_RANKS)
    crowd = np.full_like(local, alone) if direct else np.clip(local, 2, CROWD_RANKS)
    if pcie:
        whole = _pcie_rate(exponent, crowd, platform, wire)
        return [whole * regime.wire_fraction for regime in regimes]
    whole = wire * (crowd / CROWD_RANKS) ** exponent
    if mesh:
        peers = 1.0 if collective == "send_recv" else np.clip(local, 2, link.domain_gpus) - 1
        whole = whole * peers / (link.domain_gpus - 1)
    rates = [whole * regime.wire_fraction for regime in regimes]
    if link.bridge:
        beyond, between = local > link.domain_gpus, _bridge_islands_rate(collective, local, platform)
        rates = [np.where(beyond, np.minimum(rate, between), rate) for rate in rates]
    return rates


def _pcie_rate(exponent: float, crowd: FloatArray, platform: Platform, wire: float) -> FloatArray:
    """PCIe, before a regime's share: behind one switch the two-GPU rate holds for all; over the CPU's root ports it falls
    with the count."""
    host = scale_out_constants()["pcie_host"]
    crowd = np.full_like(crowd, 2.0) if platform.scale_up.switched else crowd
    rate: FloatArray = wire * (crowd / CROWD_RANKS) ** exponent
    if platform.scale_up.p2p != "yes":
        age = "newer" if platform.scale_up.pcie_gen >= NEWER_PCIE_GENERATION else "older"
        power = 1.0 if platform.scale_up.p2p == "no" else 0.5
        pair, group = host[f"{age}_pair_fraction"] ** power, host[f"{age}_group_fraction"] ** power
        rate = rate * np.where(crowd <= 2, pair, group)
    return rate


def _bridge_islands_rate(collective: Collective, local: FloatArray, platform: Platform) -> FloatArray:
    """Rate of a ring over several bridged islands: PCIe joins them, entered by one GPU per island and direction.

    An A100 PCIe pair gives 208 GB/s and three cards 20 (NCCL issue 178); eight H200 NVL in islands of four 69.
    """
    link = platform.scale_up
    law = scale_up_law(f"pcie{link.pcie_gen}", collective)
    wire = PCIE_BYTES_PER_S_PER_LANE[link.pcie_gen] * link.pcie_lanes
    islands = np.clip(np.ceil(local / link.domain_gpus), 2, CROWD_RANKS)
    pair: FloatArray = wire * law.regimes[-1].wire_fraction * (islands / CROWD_RANKS) ** law.ranks_exponent
    return pair * max(1.0, link.domain_gpus / 2)


def _host_latency_s(platform: Platform) -> float:
    """Extra seconds per call where PCIe peers cannot reach each other directly."""
    link = platform.scale_up
    if not link.kind.startswith("pcie") or link.p2p == "yes":
        return 0.0
    return float(scale_out_constants()["pcie_host"]["no_p2p_us"]) * US


def _across_servers(collective: Collective, size: FloatArray, count: FloatArray, local: FloatArray, platform: Platform) -> FloatArray:
    """Both levels as a pipeline, for each regime and algorithm; the fastest is taken."""
    network = platform.scale_out
    assert network is not None
    law = scale_out_law(network)
    servers = np.ceil(count / local)
    nics = nic_bytes_per_s(network) * network.nics_per_server
    wire = nics * np.minimum(local / platform.gpus_per_server, 1.0)
    _, inside = _inside_server(collective, size, local, count, platform)
    base = np.where(local > 1, 0.0, scale_out_constants()["base_us"] * US)
    tree_inside = _tree_transfer_s(size, local, platform) if collective == "all_reduce" else None
    base = base + _peer_latency_s(collective, count, local)
    candidates = []
    for regime in range(REGIMES):
        latency, transfer = inside[regime]
        for hops, volume, fraction in _outside_paths(collective, size, count, local, servers, law, regime):
            candidates.append(base + latency + hops * law.hop_s[regime] + np.maximum(transfer, volume / (wire * fraction)))
            if tree_inside is not None and regime == REGIMES - 1:
                transfer = tree_inside
    return _envelope(candidates)


def _tree_transfer_s(size: FloatArray, local: FloatArray, platform: Platform) -> FloatArray:
    """Transfer inside each server for a tree between servers: 2(g-1)/g of the size, reduced in the switch where it can."""
    link = platform.scale_up
    law = scale_up_law("pcie4" if link.kind == "none" else link.kind, "all_reduce")
    volume = wire_volume_factor("all_reduce", local) * size
    (rate,) = _rates(law.regimes[-1:], law.ranks_exponent, "all_reduce", local, platform)
    if law.in_network is not None and link.switched:
        rate = np.where(local > 4, np.maximum(rate, link.bandwidth_bytes_per_s * law.in_network.wire_fraction), rate)
    return volume / rate


def _outside_paths(
    collective: Collective,
    size: FloatArray,
    count: FloatArray,
    local: FloatArray,
    servers: FloatArray,
    law: ScaleOutLaw,
    regime: int,
) -> list[tuple[FloatArray, FloatArray, float]]:
    """(network steps, bytes a server's NICs send, share of their rate) of each algorithm for one regime.

    All-reduce: ring, 2(k-1) steps and 2(n-1)/n of the size; then tree, 2 log2(k) steps and 2(k-1)/k at a lower rate.
    All-gather, reduce-scatter: ring, k-1 steps and (n-1)/n. All-to-all: each of a server's GPUs sends the share
    of all remote ranks. k servers, n ranks.
    """
    last = regime == REGIMES - 1
    shared = law.wire_fraction[regime]
    ring = law.ring_fraction if last else shared
    tree_steps = np.log2(np.maximum(servers, 2.0))
    if collective == "all_reduce":
        tree = (2 * tree_steps, 2 * (servers - 1) / servers * size / _tree_gain(servers), shared)
        return [(2 * (servers - 1), 2 * (count - 1) / count * size, ring), tree]
    if collective in ("all_gather", "reduce_scatter"):
        return [(servers - 1, (count - 1) / count * size, ring)]
    one = np.ones_like(size)
    if collective == "all_to_all":
        return [(one, local * size * (count - local) / count, law.all_to_all_fraction if last else shared)]
    if collective == "broadcast":
        return [(tree_steps, size, ring)]
    return [(one, local * size, ring)]


def _tree_gain(servers: FloatArray) -> FloatArray:
    """How much better a tree fills the NICs over many servers than over a few, log-linear in between."""
    constants = scale_out_constants()
    few, many = np.log(constants["tree_small_servers"]), np.log(constants["tree_large_servers"])
    position = np.clip((np.log(servers) - few) / (many - few), 0.0, 1.0)
    gain: FloatArray = 1 + (constants["tree_large_factor"] - 1) * position
    return gain


def _peer_latency_s(collective: Collective, count: FloatArray, local: FloatArray) -> FloatArray:
    """Seconds to post one send and receive for each remote peer of an all-to-all."""
    if collective != "all_to_all":
        return np.zeros_like(count)
    per_peer: float = scale_out_constants()["all_to_all_peer_us"] * US
    return (count - local) * per_peer


def _envelope(times: list[FloatArray]) -> FloatArray:
    lowest = times[0]
    for time in times[1:]:
        lowest = np.minimum(lowest, time)
    return lowest


def engine_all_reduce_time_s(message_bytes: ArrayLike, ranks: ArrayLike, platform: Platform) -> FloatArray:
    """Seconds of one all-reduce of an inference engine inside one server, its own kernels or the library's.

    One-shot: every rank reads all the others, (n-1) x message; two-shot: 2(n-1)/n x message. Engines use these
    over NVLink-class links up to eight ranks and for two PCIe GPUs with peer-to-peer; above two PCIe GPUs, and
    through the host, they fall back to the library. ``message_bytes``: the all-reduced buffer.
    """
    size, count = np.broadcast_arrays(np.asarray(message_bytes, dtype=np.float64), np.asarray(ranks, dtype=np.float64))
    library = collective_time_s("all_reduce", size, count, count, platform)
    link = platform.scale_up
    constants = scale_out_constants()["custom_all_reduce"]
    pcie = link.kind.startswith("pcie")
    limit = 2 if pcie else min(int(constants["max_ranks"]), link.domain_gpus)
    if link.kind == "none" or (pcie and link.p2p != "yes"):
        return library
    wire, mesh = group_wire_bytes_per_s(platform)
    peers = np.clip(count, 2, link.domain_gpus) - 1
    rate = wire * peers / (link.domain_gpus - 1) if mesh else np.full_like(size, wire)
    one_shot = US * (constants["one_shot_us"] + constants["one_shot_step_us"] * (count - 2)) + (count - 1) * size / (
        rate * constants["one_shot_fraction"]
    )
    two_shot = US * (constants["two_shot_us"] + constants["two_shot_step_us"] * (count - 2)) + 2 * (count - 1) / count * size / (
        rate * constants["two_shot_fraction"]
    )
    own = np.minimum(one_shot, two_shot)
    return np.where((count > 1) & (count <= limit), np.minimum(own, library), library)
