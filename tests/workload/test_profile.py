"""The profile: what is accepted, what is refused and how, and that it reads back."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ranges import Range
from app.workload.presets import PRESETS
from app.workload.profile import ProfileError, WorkloadProfile, parse_profile

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


FAULTS = [
    ({"serving": {"concurrent_users": 1, "requests_per_s": 1}}, "serving.requests_per_s", "keep one"),
    ({"serving": {"requests_per_s": 1, "people": {"count": 9}}}, "serving.people", "keep one"),
    # 90 + 20 tokens do not fit 100
    ({"serving": {"concurrent_users": 1, "max_context_tokens": 100, "input_tokens": 90, "output_tokens": 20}}, "serving.max_context_tokens", "110"),
    ({"serving": {"concurrent_users": 1, "input_tokens": 90, "shared_prefix_tokens": 91}}, "serving.shared_prefix_tokens", "at most input_tokens = 90"),
    ({"model": {"id": "x", "params_b": 1}}, "model", "only one"),
    ({"model": {}}, "model", "params_b"),
    ({"model": {"params_b": 1, "active_params_b": 2}}, "model.active_params_b", "at most params_b"),
    ({"model": {"id": "x", "active_params_b": 2}}, "model.active_params_b", "beside params_b"),
    ({"constraints": {"gpus": ["l4"], "exclude_gpus": ["l4"]}}, "constraints.exclude_gpus", "l4"),
    ({"constraints": {"air_gapped": True, "deployment": "cloud"}}, "constraints.air_gapped", "contradicts"),
    ({"constraints": {"owned": [{"gpu": "l4", "count": 2, "per_server": 4}]}}, "constraints.owned.0.per_server", "at most count = 2"),
    ({"constraints": {"owned": [{"gpu": "l4", "count": 2, "bought": "spring"}]}}, "constraints.owned.0.bought", "2026-01-31"),
    ({"serving": {"concurent_users": 1}}, "serving.concurent_users", "did you mean concurrent_users?"),
    ({"serving": {"concurrent_users": 1, "max_gpu": 1}}, "serving.max_gpu", "did you mean constraints.max_gpus?"),
    ({"servin": {}}, "servin", "did you mean serving?"),
    ({"model": None}, "model", "needs a model"),
    ({"serving": None}, "serving.concurrent_users", "serving.tokens_per_day"),
    ({"serving": {"concurrent_users": None}}, "serving.concurrent_users", "is required"),
    ({"workload": "chat"}, "workload", "online_inference"),
    ({"workload": "finetunning"}, "workload", "did you mean finetuning?"),
    ({"serving": {"concurrent_users": True}}, "serving.concurrent_users", "number"),
    ({"serving": {"concurrent_users": "12"}}, "serving.concurrent_users", "without quotes"),
    ({"serving": {"concurrent_users": 0}}, "serving.concurrent_users", "greater than 0"),
    ({"serving": {"concurrent_users": -1}}, "serving.concurrent_users", "greater than 0"),
    ({"serving": {"concurrent_users": 1e308}}, "serving.concurrent_users", "at most 10,000,000"),
    ({"serving": {"concurrent_users": float("nan")}}, "serving.concurrent_users", "finite"),
    ({"serving": {"concurrent_users": 10**400}}, "serving.concurrent_users", "finite"),
    ({"serving": {"concurrent_users": {"low": 3, "mid": 2, "high": 1}}}, "serving.concurrent_users", "in order"),
    ({"serving": {"concurrent_users": {"low": 1, "mid": 2}}}, "serving.concurrent_users.high", "is required"),
    ({"serving": {"concurrent_users": {"low": 1, "mid": 2, "high": "3"}}}, "serving.concurrent_users", "without quotes"),
    ({"serving": {"concurrent_users": 1, "percentile": 100}}, "serving.percentile", "at most 99.99"),
    ({"constraints": {"budget_usd": float("inf")}}, "constraints.budget_usd", "finite"),
    ({"constraints": {"budget_usd": "1"}}, "constraints.budget_usd", "without quotes"),
    ({"constraints": {"max_gpus": 1.5}}, "constraints.max_gpus", "whole number"),
    ({"constraints": {"air_gapped": 1}}, "constraints.air_gapped", "true or false"),
    ({"constraints": {"gpus": "h100-sxm"}}, "constraints.gpus", "list"),
    ({"constraints": {"gpus": ["l4"] * 101}}, "constraints.gpus", "at most 100"),
    ({"constraints": []}, "constraints", "object"),
    ({"name": "n" * 201}, "name", "at most 200"),
    ({"name": "a\x00b"}, "name", "control characters"),
    ({"model": {"id": "  "}}, "model.id", "visible"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field", "words"), FAULTS, ids=lambda item: str(item)[:50])
def test_a_fault_names_its_field_and_what_to_try(change, field, words):
    with pytest.raises(ProfileError) as caught:
        parse_profile({**LEAST[0], **change})
    named = {error.field: error.message for error in caught.value.errors}
    assert list(named) == [field]
    assert words in named[field]


def test_every_fault_is_told_at_once():
    with pytest.raises(ProfileError) as caught:
        parse_profile({"workload": "chat", "serving": {"concurrent_users": -1}, "extra": 1})
    assert {error.field for error in caught.value.errors} == {"workload", "serving.concurrent_users", "extra"}


def test_the_limit_is_named_beside_the_message():
    with pytest.raises(ProfileError) as caught:
        parse_profile({**LEAST[0], "serving": {"concurrent_users": 1, "percentile": 0}})
    assert caught.value.errors[0].limit == "at least 1"


def test_lengths_for_a_batch_of_images_do_not_need_a_second_load():
    raw = {"workload": "image_generation", "model": {"params_b": 12}, "serving": {"image_pixels": 1e6}, "batch": {"items": 100}}
    assert parse_profile(raw).demand_part == "batch"


NESTED: dict = {}
for _ in range(10_000):
    NESTED = {"a": NESTED}
HOSTILE = {
    "ten megabytes of text": '"' + "a" * 10**7 + '"',
    "a name of ten megabytes": {**LEAST[0], "name": "a" * 10**7},
    "a key of ten megabytes": {**LEAST[0], "a" * 10**7: 1},
    "a key of 900 kB": json.dumps({**LEAST[0], "a" * 900_000: 1}),
    "a config 10,000 levels deep": {**LEAST[0], "model": {"hf_config": NESTED}},
    "text 10,000 levels deep": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "900,000 open brackets": "[" * 900_000,
    "60,000 fields as text": json.dumps({**LEAST[0], **{f"k{number}": 1 for number in range(60_000)}}),
    "60,000 fields": {**LEAST[0], **{f"k{number}": 1 for number in range(60_000)}},
    "60,000 fields of a part": {**LEAST[0], "serving": {f"k{number}": 1 for number in range(60_000)}},
    "a list of 900,000 numbers": {**LEAST[0], "constraints": {"gpus": [1] * 900_000}},
    "a number of 900,000 digits": '{"workload": 1' + "0" * 900_000 + "}",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_refused_quickly(raw):
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        with pytest.raises(ProfileError) as caught:
            parse_profile(raw)
        taken.append(time.perf_counter() - start)
    assert all(len(error.field) <= 200 and len(error.message) <= 500 for error in caught.value.errors)
    assert min(taken) < 0.1


def test_an_ordinary_profile_is_read_within_5_ms():
    text = json.dumps(PRESETS[0].profile.to_json())
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        parse_profile(text)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.005


def test_the_schema_accepts_a_number_or_a_range():
    schema = WorkloadProfile.model_json_schema()
    users = schema["$defs"]["Serving"]["properties"]["concurrent_users"]
    kinds = [item.get("type") or item.get("$ref") for item in users["anyOf"]]
    kinds += [inner.get("type") or inner.get("$ref") for item in users["anyOf"] for inner in item.get("anyOf", [])]
    assert "number" in kinds
    assert "#/$defs/Range" in kinds


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
