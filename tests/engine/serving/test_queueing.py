"""Queues and quantiles against cases that can be worked out by hand and against known laws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.serving.queueing import (
    Delay,
    Mixture,
    Moments4,
    Shares,
    gamma_overlap,
    gamma_strata,
    gated_cycle,
    inverse_normal_share,
    log_normal_nodes,
    normal_share,
    place_wait,
    queue_wait,
)


def _delay(mean: float, variance: float, third: float = 0.0) -> Delay:
    return Delay(np.array([[mean]]), np.array([[variance]]), np.array([[third]]))


def _moments(*values: float) -> Moments4:
    first, second, third, fourth = (np.array([[value]]) for value in values)
    return first, second, third, fourth


def test_quantile_of_laws_that_are_known() -> None:
    # Normal, mean 10, deviation 2: 10 + 1.645 x 2 = 13.29. Log-normal, mean 1 and variance 1: ln has variance ln 2 = 0.6931 and
    # mean -0.3466; skew 3 + 1 = 4; exp(-0.3466 + 1.645 x 0.8326) = 2.78.
    assert _delay(10, 4).quantile(95) == pytest.approx(13.29, abs=0.01)
    assert _delay(1, 1, 4).quantile(95) == pytest.approx(2.781, abs=0.005)
    # Exponential of mean 1 (third moment 2): -ln 0.05 = 3.0; the log-normal with its moments comes within 4%.
    assert _delay(1, 1, 2).quantile(95) == pytest.approx(3.0, rel=0.04)


def test_moments_by_hand() -> None:
    # 0 or 2 with equal chance: mean 1, variance 1, no skew; once there is one it is 2.
    both = Delay.of((np.array(1.0), np.array(2.0), np.array(4.0)))
    assert (both.mean, both.variance, both.third) == (1.0, 1.0, 0.0)
    only = both.given(np.array(0.5))
    assert (only.mean, only.variance, only.third) == (2.0, 0.0, 0.0)
    doubled = (both + both).scaled(2.0)
    assert (doubled.mean, doubled.variance) == (4.0, 8.0)


def test_waits_of_queues_that_are_known() -> None:
    # M/D/1 at half load waits half a service. M/M/1 at half load: wait 0 or an exponential of mean 2, each with chance 1/2:
    # mean 1, second moment 4, so variance 3.
    half = np.array([[0.5]])
    assert queue_wait(half, _moments(1, 1, 1, 1), half).mean == pytest.approx(0.5)
    exponential = queue_wait(half, _moments(1, 2, 6, 24), half)
    assert exponential.mean == pytest.approx(1.0)
    assert exponential.variance == pytest.approx(3.0)


def test_gated_cycle_by_hand() -> None:
    # A pause of 1 s and half a service of 1 s per second: k1 = 1 / 0.5 = 2, k2 = 0.5 x 2 / (1 - 0.25) = 4/3; the cycle that an
    # arrival finds is 2 + (4/3) / 2 = 2.667 s long in the mean.
    cycle = gated_cycle(np.array([[1.0]]), np.array([[0.5]]), _moments(1, 1, 1, 1))
    assert cycle.mean == pytest.approx(2 + 2 / 3)


def test_wait_for_a_place_is_erlangs() -> None:
    # M/M/100 at 90 requests in flight: Erlang's C formula gives 0.2170, and 10 places a second that are free above the rate.
    offered, places = 90.0, 100
    terms = [1.0]
    for count in range(1, places + 1):
        terms.append(terms[-1] * offered / count)
    full = terms[-1] * places / (places - offered)
    chance = full / (sum(terms[:-1]) + full)
    wait = place_wait(*(np.array([[value]]) for value in (90.0, 100.0, 90.0, 90.0, 100.0, 1.0)))
    assert chance == pytest.approx(0.2170, abs=0.0005)
    assert wait.mean == pytest.approx(chance / 10, rel=0.1)


def test_mixed_delays() -> None:
    # Nine in ten are calm at 1, so the median is there; the 95th percentile is the median of the others.
    ones = np.ones((1, 1, 1))
    calm, busy = Delay(ones, 1e-12 * ones, 0 * ones), Delay(3 * ones, 0.01 * ones, 0 * ones)
    wide = Shares(Delay(99 * ones, ones, 0 * ones), np.array([[99.0]]))
    mixture = Mixture(0.9 * ones, calm, busy, np.array([[9.0]]), wide)
    assert mixture.quantile(50) == pytest.approx(1.0, abs=1e-3)
    assert mixture.quantile(95) == pytest.approx(3.0, abs=1e-3)
    # Two equal shares at 1 and 3: the 95th percentile is the 90th of the upper one, 3 + 1.2816 x 0.1, and never above the most.
    two = Delay(np.array([[[1.0]], [[3.0]]]), np.full((2, 1, 1), 0.01), np.zeros((2, 1, 1)))
    assert Shares(two, np.array([[9.0]])).quantile(95) == pytest.approx(3.128, abs=0.005)
    assert Shares(two, np.array([[3.05]])).quantile(95) == pytest.approx(3.05)


@given(st.floats(1e-4, 1 - 1e-4))
def test_normal_law_and_its_inverse(share: float) -> None:
    exact = NormalDist().inv_cdf(share)
    assert float(inverse_normal_share(np.array(share))) == pytest.approx(exact, abs=5e-4)
    assert float(normal_share(np.array(exact))) == pytest.approx(share, abs=2e-4)


def test_lengths() -> None:
    # Shares of an exponential law: the first of twelve has its middle at -ln(1 - 1/24).
    assert gamma_strata(1.0)[0] == pytest.approx(-math.log(1 - 1 / 24), rel=1e-3)
    assert gamma_strata(0.5).mean() == pytest.approx(1.0, rel=0.02)
    # The shorter of two exponential answers is half as long; of two that are alike, as long.
    assert gamma_overlap(1.0) == pytest.approx(0.5)
    assert gamma_overlap(0.0) == 1.0
    # A log-normal law of mean 1 with variation 1: E[X^2] = 2, E[X^3] = 8.
    values, weights = log_normal_nodes(1.0)
    assert np.sum(weights * values**2) == pytest.approx(2.0, rel=1e-3)
    assert np.sum(weights * values**3) == pytest.approx(8.0, rel=0.02)
