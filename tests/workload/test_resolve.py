"""From a profile to its demand: the arithmetic of heads and rates, defaults that are listed, models that are found."""

from __future__ import annotations

import pytest

from app.catalog.loader import load_catalog
from app.workload.architecture import parameter_counts
from app.workload.inferred import shape_from_size
from app.workload.presets import PRESETS
from app.workload.profile import ProfileError, parse_profile
from app.workload.resolve import demand_of

CATALOG = load_catalog()


def demand(profile: dict):
    return demand_of(parse_profile(profile), CATALOG)


def chat(**serving):
    return {"workload": "online_inference", "model": {"id": "Qwen/Qwen3-8B"}, "serving": serving}


def test_heads_become_requests_in_flight_by_littles_law():
    """400 heads x 0.5 active x 18 requests/h x (1 s + 250 tokens x 0.04 s) / 3600 s = 11."""
    found = demand(chat(people={"count": 400, "active_share": 0.5, "requests_per_active_hour": 18}, output_tokens=250))
    assert found.serving.concurrent.mid == pytest.approx(11.0)
    assert found.serving.stated_by == "people"
    assert any(item.field == "serving.concurrent_users" for item in found.assumptions)


def test_heads_alone_give_a_range():
    found = demand(chat(people={"count": 1000})).serving.concurrent
    assert found.low < found.mid < found.high


def test_tokens_per_day_become_a_peak_rate():
    """8.64 million output tokens a day are 100/s on average, 300/s at three times that; at 100 tokens each, 3 requests/s."""
    found = demand(chat(tokens_per_day=8_640_000, output_tokens=100))
    assert found.serving.requests_per_s.mid == pytest.approx(3.0)


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.id)
def test_every_default_has_a_reason(item):
    found = demand_of(item.profile, CATALOG)
    assert found.assumptions
    assert all(entry.why and entry.field for entry in found.assumptions)


def test_a_limit_not_stated_is_marked_as_such():
    assert not demand(chat(concurrent_users=1)).serving.ttft_stated
    assert demand(chat(concurrent_users=1, ttft_ms=500)).serving.ttft_stated


def test_parts_not_used_are_said():
    found = demand({**chat(concurrent_users=1), "hpc": {"problem_size_m": 1}})
    assert any(item.field == "hpc" and item.value == "not used" for item in found.assumptions)


@pytest.mark.parametrize("name", ["qwen/qwen3-8b", "Qwen3-8B", "Qwen3-8B-FP8", "someone/Qwen3-8B-Instruct"])
def test_models_are_found_by_the_names_people_use(name):
    assert demand({**chat(concurrent_users=1), "model": {"id": name}}).shape.id == "Qwen/Qwen3-8B"


def test_an_unknown_model_is_refused_with_the_nearest():
    with pytest.raises(ProfileError) as caught:
        demand({**chat(concurrent_users=1), "model": {"id": "Qwen/Qwen3-8C"}})
    assert caught.value.errors[0].field == "model.id"
    assert "Qwen3-8B" in caught.value.errors[0].message


def test_an_unknown_gpu_is_refused_with_the_nearest():
    with pytest.raises(ProfileError) as caught:
        demand({**chat(concurrent_users=1), "constraints": {"gpus": ["h100-sxm"], "exclude_gpus": ["l400"]}})
    assert "constraints.exclude_gpus.0" in [error.field for error in caught.value.errors]


@pytest.mark.parametrize("billions", [0.01, 0.1, 0.5, 1, 3, 7, 13, 32, 70, 123, 405, 1000])
def test_a_size_alone_gives_an_architecture_of_that_size(billions):
    shape = shape_from_size(billions)
    assert parameter_counts(shape).total / 1e9 == pytest.approx(billions, rel=0.01)
    assert shape.origin == "inferred"
    assert shape.heads % shape.kv_heads == 0


@pytest.mark.parametrize(("total", "active"), [(30, 3), (47, 13), (120, 12), (671, 37), (1000, 32)])
def test_a_mixture_meets_both_sizes(total, active):
    counts = parameter_counts(shape_from_size(total, active))
    assert counts.total / 1e9 == pytest.approx(total, rel=0.01)
    assert counts.active / 1e9 == pytest.approx(active, rel=0.05)


def test_a_years_growth_is_added_to_the_load():
    """40 requests in flight growing 25% a year are 50 in a year."""
    found = demand({**chat(concurrent_users=40), "constraints": {"growth_per_year": 0.25}})
    assert found.serving.concurrent.mid == pytest.approx(50.0)
    assert any(item.field == "constraints.growth_per_year" for item in found.assumptions)
