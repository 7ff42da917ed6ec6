"""Formulas of lifetime cost against hand-worked cases; the arithmetic stands beside each."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.costing import tco


def test_published_8x_a100_example_costs_12397_a_month() -> None:
    # depreciation (160,000 x 0.8 + 11,200) / 48            = 2,900.00
    # capital: book 171,200 -> 66,800, mean 119,000 x 8%/12 =   793.33
    # maintenance 160,000 x 5% / 12                         =   666.67
    # energy (0.45 + 8 x 0.4) kW x 730 h x 1.4 x 0.12       =   447.64
    # room 1,700 + staff 4,500                              = 6,200.00
    # once 50,000 / 36                                      = 1,388.89   sum 12,396.52
    owning = tco.straight_line_usd_per_month(160_000, 11_200, life_years=4, residual_fraction=0.2, rate_per_year=0.08, months=36)
    assert owning == pytest.approx(2900 + 793.333, abs=0.01)
    energy = tco.energy_usd_per_year(0.45 + 8 * 0.4, 1.4, 0.12) / 12
    month = owning + 160_000 * 0.05 / 12 + energy + 1700 + 4500 + 50_000 / 36
    assert round(month) == 12_397


@pytest.mark.parametrize(("price", "percent"), [(8.64, 22), (5.18, 37), (5.11, 37), (3.45, 55)])
def test_published_break_even_of_a_hosted_api(price: float, percent: int) -> None:
    # 19,000 tokens/s x 3,600 x 720 h (that example's month has 30 days) = 49,248 M tokens; 93,683 / (49,248 x 8.64) = 0.2202
    share = tco.api_break_even_utilisation(93_683, 13_000 + 6_000, price, hours_per_month=720)
    assert round(share * 100) == percent


@pytest.mark.parametrize(
    ("rate", "years", "factor"),
    [
        (0.08, 5, 0.250456),  # 0.08 / (1 - 1.08^-5) = 0.08 / 0.319417
        (0.06, 6, 0.203363),  # 0.06 / (1 - 1.06^-6) = 0.06 / 0.295039
        (0.10, 1, 1.10),
        (0.0, 4, 0.25),
    ],
)
def test_capital_recovery_factor(rate: float, years: float, factor: float) -> None:
    assert tco.capital_recovery_factor(rate, years) == pytest.approx(factor, abs=1e-6)


def test_capital_recovery_refuses_no_life() -> None:
    with pytest.raises(ValueError, match="years must be positive"):
        tco.capital_recovery_factor(0.08, 0)


def test_capital_cost_with_residual() -> None:
    # 100,000, 30% left after 3 years, 9%: 70,000 x 0.395055 + 30,000 x 0.09 = 27,653.83 + 2,700
    assert tco.capital_cost_per_year(100_000, 0.3, 0.09, 3) == pytest.approx(30_353.8, abs=0.1)
    # without interest only the loss of value remains: 70,000 / 3
    assert tco.capital_cost_per_year(100_000, 0.3, 0.0, 3) == pytest.approx(23_333.33, abs=0.01)


def test_residual_declines_at_a_constant_rate() -> None:
    # 0.30 after 3 years: 0.30^(1/3) = 0.669 after one, 0.30^2 = 0.09 after six
    assert tco.residual_fraction(0.30, 3) == pytest.approx(0.30)
    assert tco.residual_fraction(0.30, 1) == pytest.approx(0.6694, abs=1e-4)
    assert tco.residual_fraction(0.30, 6) == pytest.approx(0.09)


def test_energy_of_a_dgx() -> None:
    # 8.5 kW x 1.4 x 8,760 h x 0.10 = 10,424.40
    assert tco.energy_usd_per_year(8.5, 1.4, 0.10) == pytest.approx(10_424.4)


@pytest.mark.parametrize(
    ("kw", "fte"),
    [
        (0, 0.0),
        (5.1, 0.125),  # half a node of 10.2 kW
        (10.2, 0.25),  # the published single node
        (61.2, 0.6124),  # 6 nodes: 0.25 x sqrt(6), inside the published 0.5-1.5
        (6120, 8.0),  # 600 nodes: one per 75 nodes is more than 0.25 x sqrt(600) = 6.1
    ],
)
def test_staff(kw: float, fte: float) -> None:
    assert tco.staff_fte(kw) == pytest.approx(fte, abs=1e-3)


def test_unit_costs() -> None:
    # 87,600 USD a year / (10 GPUs x 8,760 h) = 1.00; at half use 2.00
    assert tco.usd_per_gpu_hour(87_600, 10) == pytest.approx(1.0)
    assert tco.usd_per_gpu_hour(87_600, 10, 0.5) == pytest.approx(2.0)
    # 36 USD an hour at 10,000 tokens/s = 36 M tokens an hour: 1.00 per million
    assert tco.usd_per_million_tokens(36, 10_000) == pytest.approx(1.0)


def test_break_even_against_renting() -> None:
    # own 43,800 a year against 10 USD/h: 43,800 / 87,600 = 0.5 of the year
    assert tco.break_even_utilisation(43_800, 10) == pytest.approx(0.5)
    # 100,000 first, then 43,800 against 87,600 a year: saves 3,650 a month, 27.4 months
    assert tco.break_even_months(100_000, 43_800, 10) == pytest.approx(27.397, abs=0.001)
    # renting is cheaper than even the running cost: never
    assert tco.break_even_months(100_000, 90_000, 10) is None


@given(st.floats(0, 1e9), st.floats(0, 1), st.floats(0, 0.5), st.floats(0.5, 20), st.floats(0, 1e8))
def test_owning_costs_at_least_the_loss_of_value_and_rises_with_price(
    price: float, residual: float, rate: float, years: float, more: float
) -> None:
    cost = tco.capital_cost_per_year(price, residual, rate, years)
    assert math.isfinite(cost)
    assert cost >= price * (1 - residual) / years * (1 - 1e-9)
    assert tco.capital_cost_per_year(price + more, residual, rate, years) >= cost * (1 - 1e-12)


@given(st.floats(1, 100_000), st.floats(1, 100_000))
def test_more_power_never_needs_less_staff(one: float, other: float) -> None:
    few, many = sorted((one, other))
    assert tco.staff_fte(few) <= tco.staff_fte(many) + 1e-12
