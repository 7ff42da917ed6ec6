"""Power, racks, cooling and carbon of designs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.schema import Server
from app.design.facility import RACK_UNITS, FacilityPlan, cpu_facility_plan, facility_plan
from app.design.power import server_power
from app.engine.platform import platform_of
from app.engine.result import Shortfall
from tests.costing.small_catalog import A6000, EDGE, H100, HGX, INFINIBAND, L4, TOWER, replace_platform, serving, training


def plan(*args: Any, **options: Any) -> FacilityPlan:
    found = facility_plan(*args, **options)
    assert isinstance(found, FacilityPlan)
    return found


def test_power_of_a_server_row() -> None:
    power = server_power(HGX, H100, 8)
    assert (power.peak_w, power.typical_w) == (10_200, 8500)
    # idle 28% of 10,200 = 2,856; half load 2,856 + 0.5 x 5,644 = 5,678
    assert power.average_w(0.5) == pytest.approx(5678)


def test_power_by_rule() -> None:
    bare = HGX.model_copy(update={"max_power_w": None, "typical_power_w": None})
    # 8 x 700 + 8 x 575 = 10,200: the rule returns the DGX H100 it is taken from
    assert server_power(bare, H100, 8).peak_w == pytest.approx(10_200)
    # two A6000 in a tower: (600 + 350) x 1.15 = 1,092.5
    assert server_power(TOWER, A6000, 2).peak_w == pytest.approx(1092.5)
    # typical only: nameplate by rule, typical kept (MI300X class: 7.0 kW measured)
    measured = HGX.model_copy(update={"max_power_w": None, "typical_power_w": 7000.0})
    assert server_power(measured, H100, 8).typical_w == 7000


def test_missing_cards_draw_nothing() -> None:
    # 900 W with four 72 W cards; with one: 900 - 3 x 72 = 684
    assert server_power(EDGE, L4, 1).peak_w == pytest.approx(684)


def test_one_dgx_by_hand() -> None:
    found = plan(serving(H100, HGX, tp=8, utilisation=1.0), region="DE")
    assert found.it_kw == pytest.approx(8.5)
    assert found.peak_kw == pytest.approx(10.2)
    assert (found.racks, found.cooling_class, found.pue) == (1, "air", 1.4)
    assert found.heat_btu_per_h == pytest.approx(10.2 * 3412.14)
    # 8.5 x 1.4 x 8,760 = 104,244 kWh; x 381 g = 39.7 t
    assert found.energy_kwh_per_year == pytest.approx(104_244)
    assert found.co2_t_per_year == pytest.approx(39.717, abs=0.01)


@pytest.mark.parametrize(
    ("region", "known"),
    [("DE", True), ("germany", True), ("US-TX", True), ("eu-fr", True), ("Atlantis", False), ("", False), (None, False)],
)
def test_carbon_only_where_the_grid_is_known(region: str | None, known: bool) -> None:
    assert (plan(serving(H100, HGX), region=region).co2_t_per_year is not None) is known


def test_servers_per_rack_follow_the_limit() -> None:
    # 10.2 kW each: 10 kW none, 15 kW one, 25 kW two, 40.8 kW four (38 free units / 8 U = 4)
    assert isinstance(facility_plan(training(8), rack_power_kw=10), Shortfall)
    assert [plan(training(8), rack_power_kw=limit).servers_per_rack for limit in (15, 25, 40.8, 100)] == [1, 2, 4, 4]
    assert [plan(training(8), rack_power_kw=limit).racks for limit in (15, 25, 40.8)] == [8, 4, 2]


def test_a_server_over_the_limit_is_a_shortfall() -> None:
    found = facility_plan(serving(H100, HGX, tp=8), rack_power_kw=8)
    assert isinstance(found, Shortfall)
    assert (found.constraint, found.needed, found.available, found.unit) == ("rack_power", 10.2, 8, "kW")


def test_air_cooling_holds_even_where_the_rack_could_draw_more() -> None:
    # four servers of 8 U fit by height, but 30 kW of contained air takes two of 10.2 kW
    assert plan(training(8), rack_power_kw=100, cooling="air").servers_per_rack == 2


def test_workstation_needs_no_rack() -> None:
    found = plan(serving(A6000, TOWER), rack_power_kw=1)
    assert (found.racks, found.cooling_class) == (0, "office")


def test_dense_server_needs_liquid() -> None:
    changes = {"id": "nvl72", "gpus": 72, "form": "rack_scale", "max_power_w": 132_000, "typical_power_w": 120_000, "cooling": "hybrid"}
    rack = Server.model_validate({**HGX.model_dump(), **changes})
    found = plan(serving(H100, rack, tp=8, replicas=9, utilisation=1.0))
    assert (found.racks, found.cooling_class, found.pue) == (1, "liquid", 1.2)
    assert found.it_kw == pytest.approx(120)


def test_switches_beyond_the_reserved_units_take_racks() -> None:
    # 8 servers in four racks hold 8 switches; 27 leave 19 of 2 U: one rack of 38 U more
    assert plan(training(8), switches=8).racks == 4
    assert plan(training(8), switches=27).racks == 5
    assert plan(training(8), switches=28).racks == 6


def test_spare_servers_idle() -> None:
    base, more = plan(training(4)), plan(training(4), spare_servers=1)
    assert more.peak_kw - base.peak_kw == pytest.approx(10.2)
    assert more.it_kw - base.it_kw == pytest.approx(2.856)


def test_cpu_servers() -> None:
    found = cpu_facility_plan(2, 96)
    assert isinstance(found, FacilityPlan)
    # (4 x 96 + 300) x 1.15 = 786.6 W each
    assert found.peak_kw == pytest.approx(2 * 0.7866)


@given(
    servers=st.integers(1, 300),
    limit=st.floats(1, 200),
    watts=st.floats(300, 20_000),
    units=st.sampled_from([1.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
    cooling=st.sampled_from(["air", "liquid", "any"]),
    other_w=st.floats(0, 50_000),
)
def test_no_rack_exceeds_its_power_or_height(servers: int, limit: float, watts: float, units: float, cooling: str, other_w: float) -> None:
    server = HGX.model_copy(update={"max_power_w": watts, "typical_power_w": None, "rack_units": units})
    sized = replace_platform(training(servers), platform_of(H100, server, scale_out=INFINIBAND))
    found = facility_plan(sized, rack_power_kw=limit, cooling=cooling, switch_w=other_w)
    if isinstance(found, Shortfall):
        assert watts / 1000 > limit
        return
    assert found.fullest_rack_kw <= limit * (1 + 1e-9)
    assert found.servers_per_rack * units <= RACK_UNITS
    assert found.racks * limit >= found.peak_kw * (1 - 1e-9)
    assert found.racks * found.servers_per_rack >= servers
    assert 0 < found.it_kw <= found.peak_kw
