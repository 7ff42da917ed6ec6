"""The closed loop against its own laws and a small simulation; times of a step against their bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.serving.job import ServingJob
from app.engine.serving.point import ServingPoint, running_requests, serve
from app.engine.serving.steady import closed_turn, steady_state
from app.engine.serving.step import decode_step, prefill
from tests.engine.serving.conftest import box, job, split


def test_turn_by_hand() -> None:
    # 4 requests, 100 steps of 10 ms, prompts of 20 ms: 4 x 0.02 + 100 x 0.01 = 1.08 s.
    # One pass in 25 is taken: 0.04 x (20 + 10) / (2 x 0.96) = 0.625 ms; burst (min(4, 2.5) - 1) x 20 = 30 ms; joined
    # 0.625 x 30 / 30.625 = 0.612245 ms; first token 20 + 10 + 0.612245 ms; gap (1080 - 30.612245) / 99 = 10.599877 ms.
    turn = closed_turn(np.array(4.0), 100.0, np.array(0.01), np.array(0.02), np.array(0.02), 0.0, 0.0)
    assert turn.turn_s == pytest.approx(1.08)
    assert turn.first_s == pytest.approx(0.030612245, rel=1e-6)
    assert turn.gap_s == pytest.approx(0.010599877, rel=1e-6)


def test_requests_that_stay_in_step_wait_for_the_burst() -> None:
    # 8 prompts read together in one pass: all wait for all, 7 x 20 ms more than their own.
    loose, tight = (
        closed_turn(np.array(8.0), 100.0, np.array(0.01), np.array(0.02), np.array(0.02), 0.0, share, 8.0) for share in (0.0, 1.0)
    )
    assert tight.wait_s == pytest.approx(0.14)
    assert loose.wait_s < 0.005


@settings(deadline=None)
@given(
    requests=st.integers(1, 500),
    outputs=st.integers(2, 4000),
    step=st.floats(1e-4, 0.2),
    prompt=st.floats(1e-4, 5.0),
    share=st.floats(0, 1),
)
def test_littles_law_holds(requests: int, outputs: int, step: float, prompt: float, share: float) -> None:
    turn = closed_turn(np.array(float(requests)), float(outputs), np.array(step), np.array(prompt), np.array(prompt), 0.0, share)
    assert turn.first_s + (outputs - 1) * turn.gap_s == pytest.approx(float(turn.turn_s))
    assert turn.gap_s >= step * (1 - 1e-9)
    assert turn.first_s >= prompt


def _simulated(requests: int, outputs: int, step: float, prompt: float, turns: int) -> tuple[float, float]:
    """(mean first token, requests per second) of an engine that reads one prompt between steps, with uneven answers."""
    generator = random.Random(5)
    clock, left, asked = 0.0, {}, {}
    waiting = []
    for user in range(requests):
        waiting.append(user)
        asked[user] = 0.0
    first, done = [], 0
    while done < turns * requests:
        if waiting:
            user = waiting.pop(0)
            clock += prompt
            left[user] = max(int(generator.expovariate(1 / outputs)), 2)
            if done > requests:
                first.append(clock + step - asked[user])
        clock += step
        for user in list(left):
            left[user] -= 1
            if left[user] == 0:
                del left[user]
                done += 1
                waiting.append(user)
                asked[user] = clock
    return sum(first) / len(first), done / clock


@pytest.mark.parametrize(("requests", "outputs", "prompt"), [(8, 100, 0.02), (32, 200, 0.02), (64, 300, 0.05), (16, 50, 0.1)])
def test_simulation_agrees(requests: int, outputs: int, prompt: float) -> None:
    step = 0.01
    turn = closed_turn(np.array(float(requests)), float(outputs), np.array(step), np.array(prompt), np.array(prompt), 0.0, 0.0)
    first, rate = _simulated(requests, outputs, step, prompt, 60)
    assert requests / turn.turn_s == pytest.approx(rate, rel=0.15)
    assert turn.first_s == pytest.approx(first, rel=0.35)


def test_one_stream_is_not_faster_than_its_weights() -> None:
    # 8.03 billion parameters less 0.525 of the input embedding, 2 bytes each, over 3.35 TB/s: 4.48 ms at the very least.
    step = decode_step(job(), box(gpus=1), split(), 1, 100)
    assert 4.48e-3 < float(step.total_s) < 9e-3


@settings(deadline=None, max_examples=40)
@given(batch=st.integers(1, 512), more=st.integers(0, 512), context=st.integers(1, 30_000))
def test_more_sequences_never_make_a_step_faster(batch: int, more: int, context: int) -> None:
    small, large = (decode_step(job(), box(), split(2), count, context).total_s for count in (batch, batch + more))
    assert large >= small


def test_fp8_saves_memory_but_no_arithmetic_where_there_are_no_units() -> None:
    a100 = box("a100-sxm-80gb")
    wide, narrow = (float(prefill(job(weights=kind), a100, split(), 4096)) for kind in ("bf16", "fp8"))
    assert narrow > 0.9 * wide
    hopper_wide, hopper_narrow = (float(prefill(job(weights=kind), box(), split(), 4096)) for kind in ("bf16", "fp8"))
    assert hopper_narrow < 0.75 * hopper_wide


def test_weight_only_int4_speeds_decode_and_not_prefill() -> None:
    wide, narrow = (job(weights=kind) for kind in ("bf16", "int4"))
    assert decode_step(narrow, box(), split(), 1, 100).total_s < 0.7 * decode_step(wide, box(), split(), 1, 100).total_s
    assert prefill(narrow, box(), split(), 8192) > 0.95 * prefill(wide, box(), split(), 8192)


def test_older_engines_are_slower() -> None:
    old, new = (decode_step(job(year=year), box(), split(), 128, 1000).total_s for year in (2024.0, 2026.0))
    assert old > 1.1 * new


def test_steady_state_grows_with_requests_and_percentile() -> None:
    flight = np.array([[1.0, 8.0, 64.0]])
    layout = split()
    usual, strict = (steady_state(job(), box(), layout, flight, percentile) for percentile in (50, 99))
    assert np.all(np.diff(usual.requests_per_s) > 0)
    assert np.all(np.diff(usual.tpot_s) > 0)
    assert np.all(strict.tpot_s >= usual.tpot_s)
    assert np.all(strict.tpot_s[:, 1:] > usual.tpot_s[:, 1:])
    assert np.all(strict.ttft_s >= usual.ttft_s)


def _point(**changes: object) -> ServingPoint:
    values: dict[str, object] = {"job": job(), "platform": box(gpus=1), "layout": split(), **changes}
    return ServingPoint(**values)  # type: ignore[arg-type]


def test_an_open_queue_carries_what_it_is_offered_until_it_is_full() -> None:
    calm, full = serve(_point(requests_per_s=1.0)), serve(_point(requests_per_s=1000.0))
    assert calm.output_tokens_per_s == pytest.approx(300.0)
    assert not calm.saturated
    assert full.saturated
    assert full.output_tokens_per_s < 300_000


def test_replicas_multiply_the_rate_and_nothing_else() -> None:
    one, four = (serve(_point(in_flight=8.0, replicas=count)) for count in (1, 4))
    assert four.output_tokens_per_s == pytest.approx(4 * one.output_tokens_per_s)
    assert four.tpot_s == one.tpot_s


def test_memory_bounds_the_requests_decoded_together() -> None:
    running, waiting = running_requests(_point(in_flight=5000.0, job=job(input_tokens=8000.0, output_tokens=1000.0)))
    assert running < 200
    assert running + waiting == pytest.approx(5000.0)


def test_uneven_answers_end_a_run_slowly() -> None:
    even = serve(_point(in_flight=64.0))
    uneven = serve(_point(in_flight=64.0, burst=128.0, uneven=True))
    assert uneven.output_tokens_per_s < 0.8 * even.output_tokens_per_s
    long = serve(_point(in_flight=64.0, burst=100_000.0, uneven=True))
    assert long.output_tokens_per_s == pytest.approx(even.output_tokens_per_s, rel=0.05)


def test_speculative_decoding_gains_what_acceptance_allows() -> None:
    """3 proposed, 70% accepted: (1 - 0.7^4) / (1 - 0.7) = 2.533 tokens a pass (Leviathan et al., arXiv 2211.17192)."""
    plain = job()
    drafted = replace(plain, speculative_tokens=3.0, acceptance_rate=0.7)
    assert drafted.tokens_per_pass == pytest.approx(2.533, abs=1e-3)

    def gain(in_flight: float, spoken: ServingJob) -> float:
        lone, helped = (steady_state(one, box(), split(), np.array([[in_flight]]), 50).tpot_s.item() for one in (plain, spoken))
        return lone / helped

    # One request reads the weights once for 2.5 tokens; a full batch is arithmetic, and rejected tokens are work for nothing.
    assert 1.8 < gain(1.0, drafted) < 2.533
    assert gain(512.0, drafted) < gain(1.0, drafted)
    assert gain(1.0, replace(drafted, acceptance_rate=0.0)) < 1
