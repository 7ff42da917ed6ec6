"""Networks: published designs by hand, validity link by link, properties, speed, and that the check finds faults."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.loader import load_catalog
from app.design.cabling import link_optics, row_length_m
from app.design.cabling_table import cabling_table
from app.design.fabric import FabricPlan, design_fabric, fabric_faults, plain_network
from app.design.fabric_request import estimate_fabric, find_switch
from app.design.topology import faults, links_of, rails_of, shape_of
from app.workload.profile import ProfileError

CATALOG = load_catalog()


def counts(plan: FabricPlan) -> tuple[int, ...]:
    return (plan.tiers, plan.leaf_switches, plan.spine_switches, plan.core_switches, plan.node_cables, plan.leaf_spine_cables)


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        # 64-port switches, 8 rails, 32 servers a unit: leaves 8 x units; spines = leaves x 32 / 64
        (31, (2, 8, 4, 0, 248, 256)),
        (64, (2, 16, 8, 0, 512, 512)),
        (95, (2, 24, 16, 0, 760, 768)),  # 24 x 32 / 64 = 12, but 32 uplinks do not divide by 12: 16
        (127, (2, 32, 16, 0, 1016, 1024)),
        (256, (2, 64, 32, 0, 2048, 2048)),
        (512, (3, 128, 128, 64, 4096, 4096)),
        (2048, (3, 512, 512, 256, 16384, 16384)),
        (4, (1, 2, 0, 0, 32, 16)),  # BasePOD: two switches, 16 links between them
    ],
)
def test_infiniband_reference_designs(servers, expected):
    assert counts(design_fabric(servers, 8, 400, "infiniband", CATALOG)) == expected


def test_wider_switches_and_twin_planes():
    # Q3400, 144 ports: 72 servers a unit, 8 leaves, 8 x 72 / 144 = 4 spines
    assert counts(design_fabric(72, 8, 800, "infiniband", CATALOG)) == (2, 8, 4, 0, 576, 576)
    # 800G Ethernet in two planes of 128 x 400G: per plane 64 servers a unit and 2-tier room for 8192 NICs
    plan = design_fabric(1024, 8, 800, "ethernet", CATALOG)
    assert plan.planes == 2
    assert counts(plan) == (2, 256, 128, 0, 8192, 8192)


def test_rack_scale_has_four_rails_and_small_ethernet_a_pair():
    plan = design_fabric(2, 72, 800, "ethernet", CATALOG, gpus_per_server=72)
    assert (plan.rails, plan.leaf_switches, plan.spine_switches) == (4, 8, 4)
    pair = design_fabric(12, 8, 400, "ethernet", CATALOG)
    assert (pair.tiers, pair.leaf_switches, pair.node_cables, pair.storage_switches) == (1, 2, 96, 0)


def test_rails():
    assert [rails_of(8, 8), rails_of(4, 8), rails_of(1, 1), rails_of(72, 72), rails_of(9, 8), rails_of(24, 8)] == [8, 4, 1, 4, 3, 8]


def test_fabric_manager_ports_only_where_free():
    assert design_fabric(31, 8, 400, "infiniband", CATALOG).controller_links == 4
    full = design_fabric(32, 8, 400, "infiniband", CATALOG)
    assert full.controller_links == 0
    assert any("fabric managers" in note for note in full.notes)


def test_optics_of_a_published_bill():
    # SuperPOD H100, 127 servers: 2040 fibres; switch twin transceivers (1016 + 2 x 1024) / 2 = 1532 (printed 1536); 508 at the servers
    plan = design_fabric(127, 8, 400, "infiniband", CATALOG)
    fibres = sum(part.quantity for part in plan.optics if "fibre" in part.item)
    twin = sum(part.quantity for part in plan.optics if "twin-port" in part.item)
    assert (fibres, twin) == (2040, 1532 + 508)


def test_copper_within_a_rack_and_longer_reach_beyond():
    short = link_optics(CATALOG.cables, "infiniband", 400, 8, 2.5, "server to leaf", twin_ends=2)
    assert [(part.quantity, "copper" in part.item) for part in short] == [(8, True)]
    long = link_optics(CATALOG.cables, "infiniband", 400, 8, 90, "leaf to spine", twin_ends=2)
    assert [part.item for part in long] == ["400G single-mode fibre, up to 90 m", "800G twin-port transceiver MMS4X00-NS"]
    assert row_length_m(16) < row_length_m(17) < row_length_m(64)


def test_power_is_nameplate_of_all_switches():
    plan = design_fabric(64, 8, 400, "infiniband", CATALOG)
    assert plan.switch_power_w == 24 * 1720


@settings(deadline=None, max_examples=60)
@given(
    servers=st.integers(1, 4096),
    nics=st.sampled_from([1, 2, 4, 8]),
    network=st.sampled_from([("infiniband", 400.0), ("infiniband", 800.0), ("ethernet", 400.0), ("ethernet", 800.0), ("ethernet", 100.0)]),
    oversubscription=st.sampled_from([1.0, 1.5, 2.0, 3.0]),
)
def test_every_network_is_valid(servers, nics, network, oversubscription):
    protocol, rate = network
    plan = design_fabric(servers, nics, rate, protocol, CATALOG, oversubscription=oversubscription)
    assert fabric_faults(plan) == []
    assert plan.oversubscription <= oversubscription + 1e-9
    links = links_of(plan.shape)
    assert links.from_device.size == plan.shape.node_links + plan.shape.leaf_spine_links + plan.shape.spine_core_links


@settings(deadline=None)
@given(servers=st.integers(1, 4000), nics=st.sampled_from([1, 4, 8]), protocol=st.sampled_from(["infiniband", "ethernet"]))
def test_more_servers_never_need_fewer_leaves_or_cables(servers, nics, protocol):
    one = design_fabric(servers, nics, 400, protocol, CATALOG)
    more = design_fabric(servers + 32, nics, 400, protocol, CATALOG)
    assert more.leaf_switches >= one.leaf_switches
    assert more.node_cables > one.node_cables
    total = [plan.leaf_switches + plan.spine_switches + plan.core_switches for plan in (one, more)]
    assert total[1] >= total[0]


def test_the_check_finds_faults():
    shape = shape_of(64, 8, 8, 64, planes=1, oversubscription=1.0, pair_fill=1.0)
    links = links_of(shape)
    assert faults(shape, links, 1.0) == []
    doubled = replace(links, from_port=links.from_port * 0)
    assert "a port is used twice" in faults(shape, doubled, 1.0)
    cut = replace(
        links,
        from_device=links.from_device[8:],
        from_port=links.from_port[8:],
        to_device=links.to_device[8:],
        to_port=links.to_port[8:],
    )
    found = faults(shape, cut, 1.0)
    assert any("no link" in fault for fault in found)
    assert any("not every server reaches" in fault for fault in found)
    assert any("oversubscription" in fault for fault in faults(shape, links, 0.9))
    assert any("more links than ports" in fault for fault in faults(replace(shape, ports=63), links, 1.0))


def test_2048_servers_within_a_tenth_of_a_second():
    best = min(_design_seconds() for _ in range(3))
    assert best < 0.1


def _design_seconds() -> float:
    start = time.perf_counter()
    design_fabric(2048, 8, 400, "infiniband", CATALOG)
    return time.perf_counter() - start


def test_limits_are_said():
    with pytest.raises(ValueError, match="three tiers"):
        design_fabric(60_000, 8, 400, "infiniband", CATALOG, switch_id="QM9700")
    with pytest.raises(ValueError, match="not in the catalogue"):
        design_fabric(8, 8, 400, "infiniband", CATALOG, switch_id="nope")
    with pytest.raises(ValueError, match="carries"):
        design_fabric(8, 8, 3200, "infiniband", CATALOG)


def test_plain_network_for_replicas():
    small, large = plain_network(20), plain_network(100)
    assert (small.leaf_switches, small.spine_switches, small.node_cables) == (1, 0, 20)
    assert (large.leaf_switches, large.spine_switches, large.leaf_spine_cables) == (3, 2, 6)  # 100 / 46 -> 3
    assert fabric_faults(small) == []


def test_request():
    network = estimate_fabric({"gpu": "h100-sxm-80gb", "n_nodes": 64, "switch_model": "QM9700"}, CATALOG)["network"]
    assert (network["leaf_switches"], network["spine_switches"], network["faults"]) == (16, 8, [])
    with pytest.raises(ProfileError) as caught:
        estimate_fabric({"n_nodes": 0, "switch_model": "QM1", "oversubscription": 0.5, "color": 1, "gpu": "zz"}, CATALOG)
    fields = {error.field for error in caught.value.errors}
    assert {"n_nodes", "switch_model", "oversubscription", "color", "gpu"} <= fields
    assert find_switch("QM9700 (48 compute)", CATALOG).id == "SW001"


def test_two_desktop_machines_share_a_cable():
    plan = design_fabric(2, 1, 200, "ethernet", CATALOG, gpus_per_server=1)
    assert (plan.leaf_switches, plan.node_cables) == (0, 1)
    assert fabric_faults(plan) == []
    assert design_fabric(3, 1, 200, "ethernet", CATALOG, gpus_per_server=1).leaf_switches == 1


def test_the_cabling_table_lists_every_link():
    plan = design_fabric(64, 8, 400, "infiniband", CATALOG)
    table = cabling_table(plan)
    # 16 leaves down with 32 links each, 16 leaves up with 32 each
    assert [run.count for run in table] == [32] * 32
    assert (table[0].start, table[0].end) == ("server 1 to server 32", "leaf 1")
    assert (table[8].start, table[8].end) == ("server 33 to server 64", "leaf 9")
    assert (table[16].start, table[16].end) == ("leaf 1", "spine 1 to spine 8")
    large = design_fabric(512, 8, 800, "ethernet", CATALOG)
    assert sum(run.count for run in cabling_table(large)) == 2 * (large.node_cables + large.leaf_spine_cables)
    assert cabling_table(large)[-1].start.endswith("of plane 2")


def test_measured_lengths_replace_the_estimate():
    plan = design_fabric(64, 8, 400, "infiniband", CATALOG)
    assert all("multimode" in part.item or "MMA4Z00" in part.item for part in plan.optics)
    far = design_fabric(64, 8, 400, "infiniband", CATALOG, leaf_spine_m=120)
    above = [part.item for part in far.optics if part.where == "leaf to spine"]
    assert above == ["400G single-mode fibre, up to 120 m", "800G twin-port transceiver MMS4X00-NM"]
    assert {run.type for run in cabling_table(far)} == {"multimode fibre", "single-mode fibre"}
