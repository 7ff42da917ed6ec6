"""The profile: what is accepted, what is refused and how, and that it reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ranges import Range
from app.workload.presets import PRESETS
from app.workload.profile import ProfileError, parse_profile

LEAST = [
    {"workload": "online_inference", "model": {"params_b": 8}, "serving": {"concurrent_users": 1}},
    {"workload": "embedding", "model": {"params_b": 0.3}, "serving": {"requests_per_s": 2}},
    {"workload": "embedding", "model": {"params_b": 0.3}, "batch": {"tokens_total": 1e9}},
    {"workload": "batch_inference", "model": {"params_b": 8}, "batch": {"items": 10}},
    {"workload": "speech", "model": {"id": "openai/whisper-small"}, "serving": {"concurrent_users": 3}},
    {"workload": "image_generation", "model": {"id": "black-forest-labs/FLUX.1-dev"}, "serving": {"requests_per_s": 0.1}},
    {"workload": "pretraining", "model": {"params_b": 1}, "training": {"tokens_b": 10}},
    {"workload": "finetuning", "model": {"params_b": 7}, "training": {"tokens_b": 0.1}},
    {"workload": "lora", "model": {"params_b": 7}, "training": {"tokens_b": 0.1}},
    {"workload": "vision_training", "vision_training": {"images_m": 1}},
    {"workload": "hpc", "hpc": {"problem_size_m": 1}},
    {"workload": "data_science", "data_science": {"dataset_gb": 10}},
]


@pytest.mark.parametrize("raw", LEAST, ids=lambda raw: raw["workload"])
def test_workload_model_and_one_demand_number_are_enough(raw):
    assert parse_profile(raw).workload == raw["workload"]


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.id)
def test_a_profile_reads_back(item):
    assert parse_profile(item.profile.to_json()) == item.profile


def test_a_number_and_its_exact_range_are_the_same():
    plain = parse_profile(LEAST[0])
    ranged = parse_profile({**LEAST[0], "serving": {"concurrent_users": {"low": 1, "mid": 1, "high": 1}}})
    assert plain.serving.concurrent_users == ranged.serving.concurrent_users == Range.exact(1)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"serving": {"concurrent_users": 1, "requests_per_s": 1}}, "serving", "once"),
        ({"serving": {"concurrent_users": 1, "max_context_tokens": 100, "input_tokens": 90, "output_tokens": 20}}, "serving", "110"),
        ({"model": {"id": "x", "params_b": 1}}, "model", "only one"),
        ({"model": {"params_b": 1, "active_params_b": 2}}, "model", "at most params_b"),
        ({"constraints": {"gpus": ["l4"], "exclude_gpus": ["l4"]}}, "constraints", "both"),
        ({"constraints": {"air_gapped": True, "deployment": "cloud"}}, "constraints", "contradict"),
        ({"serving": {"concurent_users": 1}}, "serving.concurent_users", "concurrent_users"),
        ({"servin": {}}, "servin", "serving"),
        ({"model": None}, "profile", "needs a model"),
    ],
)
def test_contradictions_and_typing_errors_are_named(change, field, words):
    with pytest.raises(ProfileError) as caught:
        parse_profile({**LEAST[0], **change})
    named = {error.field: error.message for error in caught.value.errors}
    assert field in named
    assert words in named[field]


@given(
    st.dictionaries(
        st.text(max_size=12),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3), max_leaves=6
        ),
        max_size=6,
    )
)
def test_anything_else_is_refused_never_a_crash(raw):
    with pytest.raises(ProfileError):
        parse_profile({"extra": raw, **raw})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "NaN", '{"workload": NaN}', "[" * 100_000, '{"a":' * 2_000, "\ud800".encode("utf-8", "surrogatepass")]
)
def test_text_that_is_no_profile(text):
    with pytest.raises(ProfileError):
        parse_profile(text)
