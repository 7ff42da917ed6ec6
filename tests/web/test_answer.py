"""The answer page: what it holds, what can be changed where it stands, and that nothing typed is lost on the way."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database
from app.web.form import values_of
from app.web.templating import label_of
from app.workload.presets import preset


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('answer') / 'web.sqlite3'}")
    database.migrate()
    with TestClient(create_app(Settings(log_level="ERROR"), database=database), headers={"accept": "text/html"}) as client:
        yield client
    database.dispose()


def typed(preset_id: str, **changes: str) -> dict[str, str]:
    chosen = preset(preset_id)
    assert chosen is not None
    return {**values_of(chosen.profile), "workload": chosen.profile.workload, "form": "1", **changes}


def hidden(page: LexborHTMLParser, selector: str) -> dict[str, str]:
    """What a form of the page sends without being touched."""
    return {node.attributes["name"]: node.attributes.get("value") or "" for node in page.css(f'{selector} input[type="hidden"]')}


def answer(client, form: dict[str, str]) -> LexborHTMLParser:
    response = client.post("/recommendation", data=form)
    assert response.status_code == 200
    return LexborHTMLParser(response.text)


@pytest.mark.parametrize("preset_id", ["chat-500-staff", "code-assistant", "pretrain-7b", "cfd"])
def test_the_parts_a_reader_looks_for_are_there(client, preset_id):
    page = answer(client, typed(preset_id))
    for part in ("why", "alternatives", "memory", "network-matters", "cost", "bill", "site", "assumptions", "acceptance"):
        assert page.css_first(f"h2#{part}") is not None, part
    assert page.css_first("svg.picture desc").text()
    identities = [node.attributes["id"] for node in page.css("[id]")]
    assert len(identities) == len(set(identities))


def test_a_profile_without_a_name_is_answered(client):
    page = answer(client, typed("rag-documents", name=""))
    assert page.css_first("#save-name").attributes["value"] == ""


def test_changing_the_answers_keeps_every_one_of_them(client):
    form = typed("code-assistant", **{"constraints.region": "Iceland"})
    page = LexborHTMLParser(client.post("/new", data=hidden(answer(client, form), "#change")).text)
    for name, value in form.items():
        if name in ("workload", "form"):
            continue
        control = page.css_first(f'[name="{name}"]')
        if control.tag == "select":
            assert control.css_first("option[selected]").attributes["value"] == value, name
        elif control.attributes.get("type") != "checkbox":
            assert control.attributes.get("value") == value, name


def test_an_assumption_typed_over_is_used_and_no_longer_assumed(client):
    page = answer(client, typed("chat-500-staff", **{"serving.people.active_share": ""}))
    assert "serving.people.active_share" in {node.attributes["name"] for node in page.css('input[form="again"]')}
    again = answer(client, {**hidden(page, "#again"), "serving.people.active_share": "0.4"})
    assert "serving.people.active_share" not in {node.attributes["name"] for node in again.css('input[form="again"]')}
    assert again.css_first("#save-name").attributes["value"] == "Chat assistant for 500 staff"


def test_a_stored_answer_can_be_asked_again_with_other_figures_and_saved_as_the_next_version(client):
    saved = client.post("/profiles", data={**typed("chat-500-staff"), "customer": "Beta"}, follow_redirects=False)
    stored = LexborHTMLParser(client.get(saved.headers["location"]).text)
    assert "Beta" in stored.css_first(".verdict").text()
    link = next(node for node in stored.css("#assumptions ~ .scroll a") if "#f-" in node.attributes["href"]).attributes["href"]
    address, _, field = link.partition("#")
    assert LexborHTMLParser(client.get(address).text).css_first(f"#{field}") is not None
    again = answer(client, {**hidden(stored, "#again"), "serving.people.active_share": "0.4"})
    sent = {**hidden(again, "form[action='/profiles']"), "name": "Chat", "customer": "Beta"}
    next_version = client.post("/profiles", data=sent, follow_redirects=False)
    assert next_version.status_code == 303
    profile = address.removesuffix("/edit")
    assert "Version 2" in client.get(profile).text


def test_labels_keep_their_capitals():
    assert label_of("constraints.gpus") == "Only these GPUs"
    assert label_of("serving.concurrent_users") == "Requests in flight at the peak"
    assert label_of("no.such_field") == "Such field"


def test_enter_in_a_field_asks_for_the_answer_not_for_other_questions(client):
    # A browser presses the first submit button of the form.
    first = LexborHTMLParser(client.get("/new").text).css_first('#profile button[type="submit"]')
    assert "formaction" not in first.attributes


def test_heads_are_shown_as_requests_in_flight_beside_the_form_with_links_to_what_changes_them(client):
    preview = LexborHTMLParser(client.post("/preview", data=typed("chat-500-staff")).text)
    note = preview.css_first(".note")
    assert "500 people" in note.text()
    assert "in flight" in note.text()
    form = LexborHTMLParser(client.get("/new?preset=chat-500-staff").text)
    targets = [node.attributes["href"] for node in note.css("a")]
    assert len(targets) == 2
    assert all(form.css_first(target) is not None for target in targets)
    assert LexborHTMLParser(client.post("/preview", data=typed("rag-documents")).text).css_first(".note") is None
