"""Percentiles of the steady state against the simulation, on random workloads below 85% load."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.serving.replica import IN_FLIGHT
from app.engine.serving.steady import steady_state
from tests.engine.serving.simulator import Trace, simulate
from tests.engine.serving.workloads import Workload, random_workload

WORKLOADS = range(1000, 1030)
"""Seeds that played no part in finding the formulas."""
BAR = 0.15
REQUESTS = 6_000


def simulated(workload: Workload) -> Trace:
    """The workload at its share of what the replica carries with every place taken; longer where the queue has a long memory."""
    steps, places = workload.steps(), workload.places
    if workload.closed:
        return simulate(steps, workload.lengths, requests=REQUESTS, places=places, users=workload.users, seed=workload.seed)
    full = simulate(steps, workload.lengths, requests=max(600, 4 * places), places=places, users=places, seed=workload.seed + 1)
    rate = workload.load * full.requests_per_s
    requests = int(REQUESTS * min((1 - workload.load) ** -1.5, 12.0))
    return simulate(steps, workload.lengths, requests=requests, places=places, requests_per_s=rate, seed=workload.seed)


def predicted(workload: Workload, rate: float, percentile: float) -> tuple[float, float, float]:
    """(first token, between tokens, rate), seconds and requests a second, found as the sizing finds them."""

    def steady(flight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = steady_state(
            workload.job,
            workload.platform,
            workload.layout,
            flight[np.newaxis, :],
            percentile,
            at_random=not workload.closed,
            places=workload.places,
        )
        return found.ttft_s[0], found.tpot_s[0], found.requests_per_s[0]

    if workload.closed:
        flight = float(workload.users)
    else:
        rates = steady(IN_FLIGHT)[2]
        peak = int(np.argmax(rates)) + 1
        flight = float(np.interp(rate, rates[:peak], IN_FLIGHT[:peak])) if rate > rates[0] else rate / float(rates[0])
    first, between, found = steady(np.array([flight]))
    return float(first[0]), float(between[0]), float(found[0])


@pytest.mark.parametrize("seed", WORKLOADS)
def test_percentiles_agree_with_the_simulation(seed: int) -> None:
    workload = random_workload(seed)
    trace = simulated(workload)
    first, between, rate = predicted(workload, trace.requests_per_s, 95.0)
    assert rate == pytest.approx(trace.requests_per_s, rel=0.04)
    assert first == pytest.approx(np.quantile(trace.ttft_s, 0.95), rel=BAR)
    assert between == pytest.approx(np.quantile(trace.tpot_s, 0.95), rel=BAR)
    first, between, _ = predicted(workload, trace.requests_per_s, 50.0)
    assert first == pytest.approx(np.quantile(trace.ttft_s, 0.5), rel=2 * BAR)
    assert between == pytest.approx(np.quantile(trace.tpot_s, 0.5), rel=2 * BAR)
