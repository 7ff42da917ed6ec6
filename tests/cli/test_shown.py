"""How an answer reads on a terminal."""

from __future__ import annotations

from app.cli.shown import shown_lines


def test_every_kind_of_field_is_readable():
    answer = {
        "ttft_ms": {"low": 243.3, "mid": 622.24, "high": 1664.0},
        "cost": {"low": 1.0, "mid": 2.0, "high": 3.0, "unit": "USD"},
        "memory_gb": {"weights": {"low": 17.0, "mid": 18.0, "high": 19.0}},
        "fits": True,
        "network": None,
        "ratio": 0.25,
        "links": [{"gpus": 2}, {"gpus": 4}],
        "notes": [],
    }
    assert list(shown_lines(answer)) == [
        "ttft_ms: 622.2 (243.3 to 1,664)",
        "cost: 2 (1 to 3) USD",
        "memory_gb:",
        "  weights: 18 (17 to 19)",
        "fits: yes",
        "network: -",
        "ratio: 0.25",
        "links:",
        "  1:",
        "    gpus: 2",
        "  2:",
        "    gpus: 4",
        "notes: none",
    ]
