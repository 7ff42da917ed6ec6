"""The API does what its own description says: Schemathesis on /openapi.json, and a few answers read whole."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from app.advice.recommendation import Recommendation
from app.main import create_app
from app.settings import Settings
from app.store.database import Database
from app.workload.presets import PRESETS


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    """Every operation of the description, by its label."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('schema') / 'schema.sqlite3'}")
    database.migrate()
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(log_level="ERROR"), database=database))
    found = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        found[operation.label] = operation
    yield found
    database.dispose()


LABELS = sorted(
    f"{method.upper()} {path}"
    for path, methods in create_app(Settings(log_level="ERROR"), database=Database("sqlite://")).openapi()["paths"].items()
    for method in methods
)


@pytest.mark.parametrize("label", LABELS)
def test_no_failure_and_no_undocumented_status(operations, label):
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], derandomize=True)
    @given(case=operations[label].as_strategy())
    def holds(case):
        case.call_and_validate(checks=[not_a_server_error, status_code_conformance, response_schema_conformance])

    holds()


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.id)
def test_the_api_answers_every_preset(client, item):
    answer = client.post("/api/v1/recommendations", json=item.profile.to_json())
    assert answer.status_code == 200
    document = Recommendation.model_validate(answer.json())
    assert document.profile == item.profile.to_json()
    assert document.architecture is not None


def test_a_profile_through_its_life(client):
    profile = PRESETS[0].profile.to_json()
    made = client.post("/api/v1/profiles", json={"name": "Life", "customer": "Customer", "profile": profile})
    assert made.status_code == 201
    path = made.headers["location"]
    answer = client.post(f"{path}/recommendations")
    assert answer.status_code in (200, 201)
    stored = client.get(f"/api/v1/recommendations/{answer.json()['id']}")
    assert stored.json() == answer.json()
    changed = client.put(path, json={"profile": {**profile, "name": "Changed"}, "version": 1})
    assert changed.status_code == 200
    assert client.put(path, json={"profile": profile, "version": 1}).status_code == 409
    assert len(client.get(f"{path}/versions").json()["items"]) == 2
    assert client.delete(path).status_code in (200, 204)


@pytest.mark.parametrize("kind", ["gpus", "servers", "models", "links", "switches", "prices"])
def test_the_catalogue_is_served_with_sources(client, kind):
    rows = client.get(f"/api/v1/catalog/{kind}").json()
    items = rows["items"] if isinstance(rows, dict) else rows
    assert len(items) > 15


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"])
def test_the_servers_own_addresses_answer(client, path):
    assert client.get(path).status_code == 200
