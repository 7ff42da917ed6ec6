"""Scaling efficiency of runs that differ in the GPU count only."""

from __future__ import annotations

import pytest

from app.validation.scaling import scaling_report, scaling_sets
from app.validation.statistics import Point


def run(gpus: int, batch: float, measured: float, predicted: float, **changes: str) -> tuple[dict[str, str], Point]:
    """A row in tokens per second and GPU."""
    row = {"source_key": "s", "model": "m", "gpu_id": "g", "n_gpus": str(gpus), "global_batch_seqs": str(batch), "tp": "2", **changes}
    return row, Point(str(gpus), "s", changes.get("metric", "tokens_s_gpu"), measured, predicted, 0.0, 1e9)


def test_efficiency_against_the_smallest_count() -> None:
    """90/100 and 70/100 measured, 95 and 80 of 100 predicted: 10 points at worst."""
    (found,) = scaling_sets([run(8, 64, 100, 200), run(32, 256, 70, 160), run(16, 128, 90, 190)])
    assert found.kind == "weak"
    assert found.layout == "tp2"
    assert found.gpus == (8, 16, 32)
    assert found.measured == pytest.approx((1, 0.9, 0.7))
    assert found.predicted == pytest.approx((1, 0.95, 0.8))
    assert found.worst_points == pytest.approx(10)


def test_seconds_of_a_step_are_turned_into_rates() -> None:
    """64 sequences on 8, 16 and 32 GPUs in 8, 4 and 2.5 s: 1, 1 and 0.8 a second and GPU."""
    rows = [run(8, 64, 8, 8, metric="step_s"), run(16, 64, 4, 4, metric="step_s"), run(32, 64, 2.5, 2, metric="step_s")]
    (found,) = scaling_sets(rows)
    assert found.kind == "strong"
    assert found.measured == pytest.approx((1, 1, 0.8))
    assert found.predicted == pytest.approx((1, 1, 1))


def test_runs_of_one_count_take_their_mean_and_other_layouts_stand_apart() -> None:
    rows = [run(8, 64, 100, 100), run(16, 128, 80, 90), run(16, 128, 90, 90), run(32, 256, 90, 90), run(64, 512, 1, 1, tp="4")]
    (found,) = scaling_sets(rows)
    assert found.gpus == (8, 16, 32)
    assert found.measured[1] == pytest.approx((0.8 * 0.9) ** 0.5)


def test_two_counts_and_unknown_batches_are_no_set() -> None:
    assert scaling_sets([run(8, 64, 1, 1), run(16, 128, 1, 1), run(32, 0, 1, 1)]) == []


def test_shard_groups_stand_apart() -> None:
    rows = [run(gpus, 8 * gpus, 1, 1, notes=f"optimizer shard group of {group} ({group} GPUs)") for gpus in (8, 16, 32) for group in (4, 8)]
    assert [found.layout for found in scaling_sets(rows)] == ["tp2 group4", "tp2 group8"]


def test_report_counts_sets_and_sources() -> None:
    rows = [run(8, 64, 100, 100), run(16, 128, 90, 95), run(32, 256, 80, 85)]
    off = [run(gpus, 8.0 * gpus, 100 / gpus, 100, source_key="t") for gpus in (8, 16, 32)]
    report = scaling_report([*rows, *off])
    assert (report["sets"], report["within_6_points"], report["sources"], report["sources_within"]) == (2, 1, 2, 1)
