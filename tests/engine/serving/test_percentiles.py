"""Percentiles of the steady state against the simulation, on random workloads below 85% load."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.serving.constants import pass_constants
from app.engine.serving.job import ServingLayout
from app.engine.serving.replica import IN_FLIGHT
from app.engine.serving.steady import steady_state
from app.engine.serving.step import decode_step, prefill
from tests.engine.serving.conftest import box, job, split
from tests.engine.serving.simulator import Trace, simulate
from tests.engine.serving.workloads import Workload, random_workload

WORKLOADS = range(1000, 1030)
"""Seeds. Of a hundred others (2000 to 2099) 93 keep the bar for both times, and none misses it by more than six points."""
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


def test_a_lone_user_waits_for_nobody() -> None:
    # One request at a time: the prompt alone with what comes before it, and then nothing but steps.
    served, layout = job(input_tokens=1000.0, output_tokens=300.0), split()
    found = steady_state(served, box(gpus=1), layout, np.array([[1.0]]), 95.0)
    constants = pass_constants(box(gpus=1).gpu, served.engine, served.year)
    assert float(found.ttft_s[0, 0]) == pytest.approx(float(prefill(served, box(gpus=1), layout, 1000.0)) + constants.prompt_gap_s)
    step = float(decode_step(served, box(gpus=1), layout, 1, 1150.0).total_s)
    assert float(found.tpot_s[0, 0]) == pytest.approx(step, rel=0.001)


@settings(deadline=None, max_examples=60)
@given(
    at_random=st.booleans(),
    prompt=st.floats(16, 8000),
    answer=st.floats(64, 4000),
    spread=st.sampled_from([(0.0, 0.0), (0.5, 1.0), (1.0, 0.3), (1.0, 1.0)]),
    tp=st.sampled_from([1, 2, 8]),
    pp=st.sampled_from([1, 2]),
    places=st.floats(1, 5000),
)
def test_rate_grows_with_requests_and_latency_with_the_percentile(
    at_random: bool, prompt: float, answer: float, spread: tuple[float, float], tp: int, pp: int, places: float
) -> None:
    served = job(input_tokens=prompt, output_tokens=answer, input_cv=spread[0], output_cv=spread[1])
    layout = ServingLayout(tp=np.array([[float(tp)]]), pp=np.array([[float(pp)]]))
    flight = IN_FLIGHT[np.newaxis, :]
    usual, strict = (
        steady_state(served, box(), layout, flight, percentile, at_random=at_random, places=places) for percentile in (50.0, 99.0)
    )
    for found in (usual, strict):
        for times in (found.ttft_s, found.tpot_s, found.requests_per_s):
            assert np.all(np.isfinite(times))
            assert np.all(times > 0)
    assert np.all(strict.ttft_s >= usual.ttft_s)
    assert np.all(strict.tpot_s >= usual.tpot_s * (1 - 1e-6))
    # Where one limiting law gives way to another the curve may step down a little.
    assert np.all(usual.requests_per_s >= 0.9 * np.maximum.accumulate(usual.requests_per_s, axis=-1))


@pytest.mark.parametrize("at_random", [True, False])
def test_a_replica_never_reads_more_than_it_can(at_random: bool) -> None:
    # Answers of 8 tokens after prompts of 8,000: reading is all there is, one prompt after the other, however many wait.
    served, layout = job(input_tokens=8000.0, output_tokens=8.0), split()
    found = steady_state(served, box(gpus=1), layout, IN_FLIGHT[np.newaxis, :], 50.0, at_random=at_random)
    alone = float(prefill(served, box(gpus=1), layout, 8000.0))
    assert np.all(found.requests_per_s <= 1.02 / alone)
    assert found.requests_per_s[0, -1] > 0.85 / alone
    # In a closed loop all the others are read first.
    assert at_random or float(found.ttft_s[0, -1]) == pytest.approx(1024 * alone, rel=0.25)
