"""Failures and checkpoints, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.training.goodput import (
    GPU_HOURS_BETWEEN_FAILURES,
    best_checkpoint_interval_s,
    checkpoint_time_s,
    goodput_fraction,
    time_between_failures_s,
)


def test_failures_of_the_run_the_rate_comes_from() -> None:
    """16,384 GPUs x 54 days x 24 h / 50,700 h = 419 interruptions."""
    seconds = float(time_between_failures_s(16_384))
    assert 54 * 86_400 / seconds == pytest.approx(419, rel=0.005)


def test_checkpoint_written_by_all_gpus_at_once() -> None:
    """A 70B model with AdamW keeps 14 bytes per parameter: 980 GB over 128 GPUs x 0.25 GB/s = 30.6 s; never under 5 s."""
    assert float(checkpoint_time_s(70e9 * 14, 128)) == pytest.approx(30.625)
    assert float(checkpoint_time_s(1e6, 128)) == 5.0


def test_interval_and_goodput_of_a_thousand_gpus() -> None:
    """M = 50,700 h / 1,000 = 182,520 s; C = 50 s: T = sqrt(2 x 50 x 182,520) = 4,272 s;
    1 / (1 + 50/4272 + (2136 + 600)/182,520) = 1 / 1.02669 = 0.9740."""
    assert float(best_checkpoint_interval_s(1000, 50.0)) == pytest.approx(4272.2, rel=1e-4)
    assert float(goodput_fraction(1000, 50.0)) == pytest.approx(0.9740, abs=2e-4)


@given(st.integers(1, 100_000), st.floats(1.0, 600.0))
def test_more_gpus_never_more_goodput(gpus: int, checkpoint_s: float) -> None:
    few, many = float(goodput_fraction(gpus, checkpoint_s)), float(goodput_fraction(2 * gpus, checkpoint_s))
    assert 0 < many < few < 1
    assert math.isfinite(GPU_HOURS_BETWEEN_FAILURES)


@given(st.integers(1, 20_000), st.floats(5.0, 300.0), st.floats(0.2, 5.0))
def test_no_other_interval_beats_the_best_one_by_much(gpus: int, checkpoint_s: float, factor: float) -> None:
    """The first-order loss C/T + T/2M has its minimum at T = sqrt(2 C M)."""
    best = float(best_checkpoint_interval_s(gpus, checkpoint_s))
    between = float(time_between_failures_s(gpus))

    def loss(interval: float) -> float:
        return checkpoint_s / interval + interval / (2 * between)

    assert loss(best) <= loss(best * factor) * (1 + 1e-12)
