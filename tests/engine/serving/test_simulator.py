"""The simulation against cases that can be followed by hand, and against laws of queues."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.serving.step import decode_step, prompt_pass
from tests.engine.serving.conftest import box, job, split
from tests.engine.serving.simulator import Lengths, constant_steps, product_steps, simulate


def test_a_lone_request() -> None:
    # A prompt of 100 tokens at 1 ms each with a gap of 5 ms: 105 ms; then 9 steps of 10 ms each.
    steps = constant_steps(0.010, 0.001, overhead_s=0.005)
    trace = simulate(steps, Lengths(prompt=100, answer=10), requests=30, places=4, requests_per_s=0.01)
    assert trace.ttft_s == pytest.approx(np.full(20, 0.105))
    assert trace.tpot_s == pytest.approx(np.full(20, 0.010))


def test_a_long_prompt_takes_a_step_for_each_budget() -> None:
    # 1,000 tokens, 256 a step: 4 steps with a gap of 5 ms each and 1 s of reading.
    steps = constant_steps(0.010, 0.001, budget=256, overhead_s=0.005)
    trace = simulate(steps, Lengths(prompt=1000, answer=10), requests=30, places=4, requests_per_s=1e-4)
    assert trace.ttft_s == pytest.approx(np.full(20, 1.020))


def test_running_requests_wait_for_a_prompt_and_leave_it_what_is_left_of_the_budget() -> None:
    # Two users, budget 101: while one decodes (1 token), the other's 200 tokens take two steps of 10 + 100 ms. Each user
    # reads while the other decodes: answers of 3 tokens, so the turn of two steps with 100 tokens each is seen by the other.
    steps = constant_steps(0.010, 0.001, budget=101, overhead_s=0.010)
    trace = simulate(steps, Lengths(prompt=200, answer=3), requests=40, places=2, users=2)
    assert set(np.round(trace.ttft_s, 9)) == {0.22}
    assert set(np.round(trace.tpot_s, 9)) == {0.11}


def test_a_request_without_a_place_waits_for_one() -> None:
    # Three users on one place: 100 ms of reading, 2 gaps of 10 ms: every turn takes 120 ms and two others come first.
    steps = constant_steps(0.010, 0.001)
    trace = simulate(steps, Lengths(prompt=100, answer=3), requests=60, places=1, users=3)
    assert trace.ttft_s == pytest.approx(np.full(40, 0.340))
    assert trace.requests_per_s == pytest.approx(1 / 0.120)


def test_littles_law_and_the_poisson_number_in_flight() -> None:
    # Steps of 10 ms whatever runs and prompts that cost nothing: M/G/infinity, N = rate x (first + answer - 1 steps).
    # A prompt waits half a step in the mean (residual life of a constant) and is read with the next.
    steps = constant_steps(0.010, 0.0, overhead_s=0.010)
    trace = simulate(steps, Lengths(prompt=100, answer=50, answer_cv=1.0), requests=20_000, places=1000, requests_per_s=20.0)
    assert trace.requests_per_s == pytest.approx(20.0, rel=0.03)
    assert trace.ttft_s.mean() == pytest.approx(0.015, rel=0.02)
    assert trace.tpot_s == pytest.approx(np.full(len(trace.tpot_s), 0.010))
    assert trace.in_flight == pytest.approx(20.0 * (0.015 + 49 * 0.010), rel=0.05)


def test_pollaczek_khinchine() -> None:
    # Short answers at no cost and short steps leave one server that reads: M/D/1 at half load waits half a service.
    steps = constant_steps(0.0, 0.001, budget=20)
    trace = simulate(steps, Lengths(prompt=1000, answer=2), requests=12_000, places=1000, requests_per_s=0.5)
    assert trace.ttft_s.mean() == pytest.approx(1.000 * (1 + 0.5 / (2 * 0.5)), rel=0.04)


def test_steps_are_the_products_own() -> None:
    # 7 running with 900 tokens; 500 tokens of a prompt of 500.
    steps = product_steps(job(), box(), split(), 16, 4000.0)
    assert steps.decode(7, 900.0) == pytest.approx(float(decode_step(job(), box(), split(), 7, 900.0).total_s), rel=0.005)
    one, _ = prompt_pass(job(), box(), split(), np.array(500.0))
    assert steps.read(500, 250.0) == pytest.approx(float(one.total_s - one.overhead_s), rel=0.02)
