"""Error figures by hand: four predictions of two sources."""

from __future__ import annotations

import pytest

from app.validation.statistics import Point, Skipped, by_source, figures, summarise

POINTS = (
    Point("a", "one", "rate", 100.0, 110.0, 90.0, 130.0),
    Point("b", "one", "rate", 200.0, 180.0, 150.0, 190.0),
    Point("c", "one", "rate", 300.0, 330.0, 290.0, 360.0),
    Point("d", "two", "rate", 400.0, 280.0, 200.0, 300.0),
    Point("a", "one", "memory_gb", 10.0, 20.0, 5.0, 30.0),
)


def test_figures_of_four_errors() -> None:
    """Errors 0.1, -0.1, 0.1, -0.3: median absolute 0.1, p90 = 0.1 + 0.7 * 0.2 = 0.24, sources 0.1 and 0.3."""
    result = summarise(POINTS, [Skipped("e", "no size")], apart=["memory_gb"]).as_dict()
    assert result["rows"] == 5
    assert result["predicted"] == 4
    assert result["median_abs_error"] == pytest.approx(0.1)
    assert result["p90_abs_error"] == pytest.approx(0.24)
    assert result["source_median_abs_error"] == pytest.approx(0.2)
    assert result["bias"] == pytest.approx(0.0, abs=1e-12)
    assert result["interval_coverage"] == pytest.approx(0.5)
    # Ranks of 110, 180, 330, 280 against 1..4: 1, 2, 4, 3: 1 - 6 * 2 / (4 * 15) = 0.8.
    assert result["spearman"] == pytest.approx(0.8)
    assert result["by_metric"]["memory_gb"]["median_abs_error"] == pytest.approx(1.0)
    assert result["skipped"] == [{"id": "e", "why": "no size"}]


def test_nothing_predicted_is_unknown_not_zero() -> None:
    assert figures(()) == {
        "median_abs_error": None,
        "p90_abs_error": None,
        "source_median_abs_error": None,
        "bias": None,
        "spearman": None,
        "interval_coverage": None,
    }


def test_by_source_counts_rows() -> None:
    assert by_source(POINTS[:4])["two"] == {"rows": 1, "median_abs_error": pytest.approx(0.3)}
