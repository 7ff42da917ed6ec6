"""From a profile to its demand: the arithmetic of heads and rates, defaults that are listed, models that are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.loader import load_catalog
from app.workload.architecture import parameter_counts
from app.workload.inferred import shape_from_size
from app.workload.presets import PRESETS, preset
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


def noted(found, field: str):
    """The values recorded as assumed for a field."""
    return [item.value for item in found.assumptions if item.field == field]


def test_a_conversation_sends_its_history_again():
    """5 turns of 80 new tokens and answers of 120: prompts of 1000, 1200, 1400, 1600 and 1800, mean 1400; the longest with its
    answer is 1920, twice that is the context served."""
    found = demand(chat(concurrent_users=1, input_tokens=1000, output_tokens=120, turns=5, new_tokens_per_turn=80)).serving
    assert found.input_tokens == pytest.approx(1400)
    assert found.max_context_tokens == pytest.approx(2 * 1920)


def test_images_become_tokens():
    """2 images of 784,000 pixels at one token per 28 x 28 = 784 pixels are 2,000 tokens beside the 100 of the text."""
    raw = chat(concurrent_users=1, input_tokens=100, images_per_request=2, image_pixels=784_000)
    assert demand(raw).serving.input_tokens == pytest.approx(2100)


def test_usual_lengths_are_shortened_to_the_longest_request_stated():
    """1,000 and 300 tokens do not fit 650: both are halved."""
    found = demand(chat(concurrent_users=1, max_context_tokens=650))
    assert (found.serving.input_tokens, found.serving.output_tokens) == (500, 150)
    assert "shortened" in next(item.why for item in found.assumptions if item.field == "serving.input_tokens")


def test_the_objective_and_the_place_are_said_unless_stated():
    asked = chat(concurrent_users=1)
    found = demand(asked)
    assert (noted(found, "constraints.objective"), noted(found, "constraints.deployment")) == (["cost"], ["either"])
    found = demand({**asked, "constraints": {"objective": "latency", "deployment": "on_prem"}})
    assert (noted(found, "constraints.objective"), noted(found, "constraints.deployment")) == ([], [])


def test_a_context_beyond_the_model_is_asked_about():
    assert not demand(chat(concurrent_users=1)).questions
    assert "tokens" in demand(chat(concurrent_users=1, max_context_tokens=2_000_000)).questions[0]


def test_the_middle_of_a_range_is_said():
    found = demand(chat(concurrent_users=1, input_tokens={"low": 500, "mid": 900, "high": 2000}))
    assert found.serving.input_tokens == 900
    assert noted(found, "serving.input_tokens") == [900]
    assert noted(demand(chat(concurrent_users=1, input_tokens=900)), "serving.input_tokens") == []


def embedding(part: str, **values):
    return {"workload": "embedding", "model": {"id": "BAAI/bge-m3"}, part: values}


def test_tokens_a_day_of_embeddings_are_tokens_read():
    """86.4 million tokens a day are 1,000/s on average, 3,000/s at the peak; at 500 tokens each, 6 requests/s."""
    found = demand(embedding("serving", tokens_per_day=86_400_000, input_tokens=500))
    assert found.serving.requests_per_s.mid == pytest.approx(6.0)


def test_all_tokens_of_a_batch_divide_into_items():
    """A billion tokens in passages of 400 are 2.5 million items."""
    assert demand(embedding("batch", tokens_total=1e9, input_tokens=400)).batch.items == pytest.approx(2.5e6)


def speech(part: str, **values):
    return {"workload": "speech", "model": {"id": "openai/whisper-large-v3"}, part: values}


def test_people_who_dictate_are_in_flight_for_the_whole_recording():
    """60 people, half active, 2 recordings an hour of 600 s each: 60 x 0.5 x 2 x 600 / 3600 = 10 streams."""
    found = demand(speech("serving", people={"count": 60, "active_share": 0.5, "requests_per_active_hour": 2}))
    assert found.speech.streams.mid == pytest.approx(10)


def test_speech_is_not_counted_in_tokens():
    with pytest.raises(ProfileError) as caught:
        demand(speech("serving", tokens_per_day=1e6))
    assert caught.value.errors[0].field == "serving.tokens_per_day"


def test_pictures_in_a_batch_take_their_size_from_the_serving_part():
    raw = {"workload": "image_generation", "model": {"id": "black-forest-labs/FLUX.1-dev"}, "batch": {"items": 100}}
    found = demand({**raw, "serving": {"image_pixels": 500_000}})
    assert (found.image.images, found.image.pixels) == (100, 500_000)
    assert not noted(found, "serving.image_pixels")


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (chat(concurrent_users=1, think_time_s=20), "serving.think_time_s"),
        (chat(concurrent_users=1, new_tokens_per_turn=20), "serving.new_tokens_per_turn"),
        (chat(concurrent_users=1, image_pixels=1e6), "serving.image_pixels"),
        ({**chat(concurrent_users=1), "precision": {"training": "fp8"}}, "precision.training"),
        (speech("serving", concurrent_users=3, ttft_ms=100), "serving.ttft_ms"),
        (embedding("batch", items=3, output_tokens=100), "batch.output_tokens"),
        ({**embedding("batch", items=3), "serving": {"concurrent_users": 1}}, "serving"),
        ({"workload": "pretraining", "model": {"params_b": 1}, "training": {"tokens_b": 1, "lora_rank": 8}}, "training.lora_rank"),
        ({"workload": "hpc", "model": {"params_b": 1}, "hpc": {"problem_size_m": 1}}, "model"),
        ({"workload": "hpc", "hpc": {"problem_size_m": 1}, "constraints": {"growth_per_year": 0.3}}, "constraints.growth_per_year"),
        ({**chat(concurrent_users=1), "constraints": {"owned": [{"gpu": "l4", "count": 1, "bought": "2024-05-01"}]}}, "constraints.owned.0.bought"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)  # fmt: skip
def test_what_decides_nothing_is_said(raw, field):
    assert noted(demand(raw), field) == ["not used"]


@pytest.mark.parametrize(
    ("workload", "model", "part"),
    [
        ("online_inference", "black-forest-labs/FLUX.1-dev", {"serving": {"concurrent_users": 1}}),
        ("online_inference", "BAAI/bge-m3", {"serving": {"concurrent_users": 1}}),
        ("batch_inference", "openai/whisper-large-v3", {"batch": {"items": 1}}),
        ("image_generation", "Qwen/Qwen3-8B", {"serving": {"concurrent_users": 1}}),
        ("speech", "Qwen/Qwen3-8B", {"serving": {"concurrent_users": 1}}),
        ("embedding", "openai/whisper-large-v3", {"batch": {"items": 1}}),
        ("lora", "black-forest-labs/FLUX.1-dev", {"training": {"tokens_b": 1}}),
    ],
)
def test_a_model_of_another_kind_is_refused(workload, model, part):
    with pytest.raises(ProfileError) as caught:
        demand({"workload": workload, "model": {"id": model}, **part})
    assert caught.value.errors[0].field == "model"


@pytest.mark.parametrize(
    ("constraints", "field"),
    [
        ({"gpus": ["h100-sxm-80gb"], "exclude_gpus": ["NVIDIA H100-SXM-80GB"]}, "constraints.exclude_gpus"),
        ({"gpus": ["l4"], "vendors": ["amd"]}, "constraints.vendors"),
    ],
)
def test_limits_that_leave_no_gpu_are_refused(constraints, field):
    with pytest.raises(ProfileError) as caught:
        demand({**chat(concurrent_users=1), "constraints": constraints})
    assert [error.field for error in caught.value.errors] == [field]


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.id)
def test_a_preset_uses_all_that_it_states(item):
    found = demand_of(item.profile, CATALOG)
    assert [entry.field for entry in found.assumptions if entry.value == "not used"] == []
    assert preset(item.id) is item


def test_presets_have_names_of_their_own():
    assert len({item.id for item in PRESETS}) == len({item.title for item in PRESETS}) == len(PRESETS) >= 10
    assert preset("no-such-preset") is None


@given(st.floats(min_value=0.001, max_value=100_000), st.none() | st.floats(min_value=0.001, max_value=1.0))
def test_any_size_gives_a_countable_architecture(billions, share):
    shape = shape_from_size(billions, None if share is None else billions * share)
    counts = parameter_counts(shape)
    assert 0 < counts.active <= counts.total
    assert shape.layers > 0
    assert shape.heads % shape.kv_heads == 0
    if billions >= 0.01 and share is None:
        assert counts.total / 1e9 == pytest.approx(billions, rel=0.01)
