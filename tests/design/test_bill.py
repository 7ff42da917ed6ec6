"""The bill of materials to the last cable: quantities by hand, spares, what is owned, what is optional."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from app.costing.price_book import price_book
from app.design.bill import bill_of_materials, spare_servers, total_usd
from app.design.facility import FacilityPlan, facility_plan
from app.design.parts import Line
from app.engine.result import Sized
from tests.costing.small_catalog import EDGE, H100, HGX, L4, SmallCatalog, serving, training


@dataclass(frozen=True)
class Optic:
    """One kind of optic of a fabric."""

    item: str
    quantity: int
    where: str


@dataclass(frozen=True)
class Fabric:
    """A fabric of eight servers with eight 400 Gbit/s ports each: 64 node links on two leaves, 32 uplinks each."""

    fabric: str = "InfiniBand NDR"
    protocol: str = "infiniband"
    leaf_switches: int = 2
    spine_switches: int = 1
    core_switches: int = 0
    storage_switches: int = 1
    management_switches: int = 2
    switch_model: str = "QM9700"
    nic_gbit_per_s: float = 400.0
    optics: tuple[Optic, ...] = (Optic("800G twin-port transceiver", 96, "switch"), Optic("MPO fibre 400G", 128, "links"))


def lines_of(sized: Sized, fabric: Any = None, **options: Any) -> dict[str, Line]:
    plan = facility_plan(sized)
    assert isinstance(plan, FacilityPlan)
    catalog: Any = SmallCatalog()
    bill = bill_of_materials(sized, fabric, None, plan, price_book(catalog), **options)
    return {line.item: line for line in bill}


def test_cluster_to_the_last_cable() -> None:
    lines = lines_of(training(8), Fabric())
    quantities = {item: line.quantity for item, line in lines.items()}
    assert quantities["8x H100 server"] == 8
    assert quantities["QM9700 (leaf, spine, core)"] == 3
    assert quantities["Storage network switch"] == 1
    assert quantities["Management switch, 48 ports"] == 2
    assert quantities["800G twin-port transceiver (switch)"] == 96
    assert quantities["MPO fibre 400G (links)"] == 128
    # 8 servers of 10.2 kW, two a 30 kW rack: four racks; 81.6 kW of power distribution
    assert quantities["Rack with cabling"] == 4
    assert quantities["Rack power distribution, kW"] == 82
    assert quantities["Management and login server"] == 2
    # one in fifty of 224 optics and cables, rounded up
    assert quantities["spare: transceiver or cable"] == 5
    # a complete server's price holds its adapters
    assert not [item for item in lines if "adapter" in item]
    assert lines["QM9700 (leaf, spine, core)"].total_usd is not None
    assert lines["QM9700 (leaf, spine, core)"].total_usd.mid == Decimal("108000.00")


def test_what_exists_is_listed_and_costs_nothing() -> None:
    lines = lines_of(training(8), Fabric(), owned=True, network_exists=True)
    assert lines["8x H100 server (in place)"].quantity == 8
    for item in ("8x H100 server (in place)", "InfiniBand NDR network (in place)"):
        assert lines[item].total_usd is not None
        assert lines[item].total_usd.high == 0
    assert "MPO fibre 400G (links)" not in lines


@pytest.mark.parametrize(("servers", "availability", "spares"), [(8, "none", 0), (8, "n_plus_1", 1), (64, "n_plus_1", 2), (8, "2n", 8)])
def test_spare_servers_of_a_run(servers: int, availability: str, spares: int) -> None:
    assert spare_servers(training(servers), availability) == spares
    lines = lines_of(training(servers), None, availability=availability)
    assert (lines["spare: 8x H100 server"].quantity if spares else 0) == spares


def test_serving_gets_redundancy_as_replicas_not_spares() -> None:
    assert spare_servers(serving(H100, HGX, tp=8, replicas=2), "n_plus_1") == 0


def test_cards_in_use_are_bought_not_empty_slots() -> None:
    lines = lines_of(serving(L4, EDGE, replicas=5))
    # five cards in two servers of four slots
    assert lines["L4"].quantity == 5
    assert lines["4x L4 server: chassis, board, power supplies"].quantity == 2
    assert lines["RAM module 64 GB"].quantity == 8
    assert lines["Top-of-rack switch, 48 ports 25 GbE"].quantity == 1


def test_licence_is_optional_unless_bought() -> None:
    optional = lines_of(serving(H100, HGX, tp=8))["NVIDIA AI Enterprise subscription, 3 years (optional)"]
    assert optional.total_usd is not None
    assert (optional.total_usd.mid, optional.total_usd.high) == (0, 8 * 13_500)
    bought = lines_of(serving(H100, HGX, tp=8), licences=True)["NVIDIA AI Enterprise subscription, 3 years"]
    assert bought.total_usd is not None
    assert bought.total_usd.mid == 8 * 13_500


def test_every_line_says_where_its_price_comes_from() -> None:
    lines = lines_of(training(8), Fabric())
    assert all(line.source for line in lines.values())
    assert total_usd(tuple(lines.values()))[1]
