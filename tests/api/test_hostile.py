"""Malformed, hostile and absurd input over the API: each a clear 4xx that names the field, none slow, none a 5xx."""

from __future__ import annotations

import copy
import json
import time

import pytest

PATH = "/api/v1/recommendations"
BASE = {
    "workload": "online_inference",
    "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
    "serving": {"concurrent_users": 5, "input_tokens": 1000, "output_tokens": 300},
}
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip
HTML = "<script>alert(1)</script>"


def with_value(path: str, value):
    """The base profile with one value changed, parts made as needed."""
    document = copy.deepcopy(BASE)
    target = document
    *steps, last = path.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value
    return document


WRONG = [
    None,
    True,
    "",
    "ten",
    HTML,
    [],
    [1],
    {},
    {"low": 1},
    {"low": 3, "mid": 2, "high": 1},
    {"low": "1", "mid": 2, "high": 3},
    -1,
    -0.5,
    1e308,
    1e30,
]
NUMBERS = [
    "serving.concurrent_users",
    "serving.input_tokens",
    "serving.output_tokens",
    "serving.ttft_ms",
    "serving.tpot_ms",
    "serving.max_context_tokens",
]
PLAIN = [
    "constraints.budget_usd",
    "constraints.rack_power_kw",
    "constraints.horizon_years",
    "constraints.growth_per_year",
    "constraints.electricity_usd_per_kwh",
    "serving.percentile",
    "serving.prefix_reuse",
    "serving.shared_prefix_tokens",
    "serving.speculative_tokens",
]
CHOICES = [
    "workload",
    "precision.weights",
    "precision.kv_cache",
    "serving.engine",
    "constraints.deployment",
    "constraints.objective",
    "constraints.availability",
    "constraints.cooling",
    "constraints.existing_network",
    "constraints.network_preference",
]
ALLOWED_NULL = "null means not given"


def cases():
    for path in (*NUMBERS, *PLAIN):
        for value in WRONG:
            if value is None and path not in (
                "constraints.horizon_years",
                "constraints.growth_per_year",
                "serving.percentile",
                "serving.prefix_reuse",
                "serving.shared_prefix_tokens",
                "serving.concurrent_users",
                "serving.speculative_tokens",
            ):
                continue
            yield path, value
    for path in CHOICES:
        for value in (None, "", "moon", HTML, 1, True, [], {}, "x" * 5000):
            yield path, value
    for value in (None, "", "no/such-model", HTML, 7, True, [], {}, "x" * 300, "../../etc/passwd", "' OR 1=1 --", "\u0000", "🤖" * 50):
        yield "model.id", value
    for path, value in (
        ("model.params_b", 70), ("model.hf_config", {}), ("model", None), ("model", []), ("model", "Llama"), ("serving", None), ("serving", []),
        ("serving", {}), ("serving.concurent_users", 5), ("name", "x" * 201), ("name", 5), ("unknown_field", 1), ("constraints", []),
        ("constraints.gpus", "h100"), ("constraints.gpus", ["no-such-gpu"]), ("constraints.gpus", [HTML]), ("constraints.gpus", [1]),
        ("constraints.gpus", ["h100-sxm-80gb"] * 101), ("constraints.exclude_gpus", ["nope"]), ("constraints.vendors", ["acme"]),
        ("constraints.max_gpus", -1), ("constraints.max_gpus", 1.5), ("constraints.max_gpus", "8"), ("constraints.max_gpus", True),
        ("constraints.max_gpus", 10**12), ("constraints.owned", [{}]), ("constraints.owned", [{"gpu": "x", "count": 1}]),
        ("constraints.owned", [{"gpu": "l4", "count": 0}]), ("constraints.owned", [{"gpu": "l4", "count": 1, "bought": "yesterday"}]),
        ("constraints.owned", [{"gpu": "l4", "count": 1, "pcie_lanes": 3}]), ("constraints.region", "x" * 500), ("serving.people", {}),
        ("serving.people", {"count": 10}), ("serving.requests_per_s", 1), ("serving.max_context_tokens", 10), ("serving.turns", 0),
        ("serving.images_per_request", -1), ("constraints.air_gapped", "yes"), ("constraints.air_gapped", 1),
    ):  # fmt: skip
        yield path, value
    for key, values in {
        "num_hidden_layers": [0, -1, 1e9, "80", None, True, 3.5, [], {}],
        "hidden_size": [0, -4096, 1e12, "x", None, 4095],
        "num_attention_heads": [0, -1, 31, 1e9, None],
        "num_key_value_heads": [0, -8, 7, 64, "8"],
        "vocab_size": [0, -1, 1e12, None],
        "intermediate_size": [-1, 1e12, "wide"],
        "num_experts_per_tok": [1e9],
    }.items():
        for value in values:
            yield "model", {"hf_config": {**LLAMA, key: value, **({"num_experts": 8} if key == "num_experts_per_tok" else {})}}
    for value in (0, -7, 1e308, "70", True, None, {"low": 1, "mid": 2, "high": 3}):
        yield "model", {"params_b": value}
    yield "model", {"params_b": 7, "active_params_b": 70}
    yield "model", {"hf_config": "{}"}
    yield "model", {"hf_config": {"text_config": {"text_config": {}}}}


CASES = list(cases())


@pytest.mark.parametrize(("path", "value"), CASES, ids=range(len(CASES)))
def test_a_wrong_value_is_refused_by_name(client, path, value):
    started = time.monotonic()
    answer = client.post(PATH, json=with_value(path, value))
    assert time.monotonic() - started < 1
    assert 400 <= answer.status_code < 500, answer.text[:300]
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["errors"], body
    assert all(item["field"] and item["message"] for item in body["errors"])
    # The message names the field at fault, or the part it stands in.
    named = " ".join(item["field"] + " " + item["message"] for item in body["errors"])
    assert path.split(".")[0] in named or path.split(".")[-1] in named
    assert "Traceback" not in answer.text


BODIES = [
    b"", b" ", b"{", b"}", b"null", b"[]", b"1", b'"text"', b"{'a': 1}", b"\xff\xfe\x00", b"\x00" * 100, b"{" * 50_000, b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b'{"workload": NaN}', b'{"workload": Infinity}', b'{"serving": {"concurrent_users": -Infinity}}',
    b'{"workload": "hpc", "workload": "lora"}', b'{"workload": "hpc",}', b'{"a": 1e999}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}',
    b"workload: hpc", b"<profile/>", json.dumps({"name": "x" * 900_000}).encode(), json.dumps({f"k{n}": n for n in range(20_000)}).encode(),
    json.dumps({**BASE, "model": {"hf_config": {f"k{n}": n for n in range(30_000)}}}).encode(), b'{"a": ' + b"9" * 5_000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_body_that_is_no_profile_is_refused(client, body):
    started = time.monotonic()
    answer = client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert time.monotonic() - started < 1
    assert 400 <= answer.status_code < 500
    assert answer.json()["errors"]


def test_a_body_of_ten_megabytes_is_refused_quickly(client):
    started = time.monotonic()
    answer = client.post(PATH, content=b'{"name": "' + b"x" * 10_000_000 + b'"}', headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
)
def test_other_media_types_are_refused(client, media_type):
    answer = client.post(PATH, content=json.dumps(BASE), headers={"content-type": media_type})
    assert answer.status_code == 415


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(client, method):
    answer = client.request(method, PATH)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


def test_html_in_a_name_stays_text(client):
    answer = client.post(PATH, json={**BASE, "name": HTML})
    assert answer.status_code == 200
    assert answer.json()["profile"]["name"] == HTML
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("kind", ["collective", "fabric", "training", "serving"])
@pytest.mark.parametrize(
    "body", [{}, {"gpu": "none"}, {"x": 1}, {"n_gpus": -1}, {"n_nodes": 1e308}, {"message_bytes": "much"}, {"gpu": [], "n_nodes": {}}]
)
def test_estimates_refuse_by_name(client, kind, body):
    answer = client.post(f"/api/v1/estimates/{kind}", json=body)
    assert answer.status_code == 422
    assert all(item["field"] for item in answer.json()["errors"])


def test_there_are_enough_of_them():
    assert len(CASES) + len(BODIES) >= 400
