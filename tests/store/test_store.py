"""The same store on SQLite and on a real PostgreSQL: versions, customers, owners, conflicts, concurrent writers."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.advice.advisor import recommend
from app.catalog.loader import load_catalog
from app.store.actor import LOCAL_ACTOR
from app.store.database import Database
from app.store.repositories import ConflictError, NotFoundError, SavedProfile
from app.workload.presets import preset

DOCUMENT = preset("embeddings").profile.to_json()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    if request.param == "sqlite":
        made = Database(f"sqlite:///{tmp_path / 'store.sqlite3'}")
    else:
        made = Database(request.getfixturevalue("postgres_url"))
    made.migrate()
    yield made
    made.dispose()


def test_a_profile_keeps_every_version(database):
    with database.transaction() as store:
        first = store.profiles.add(LOCAL_ACTOR, name="one", customer="A customer", document=DOCUMENT)
        changed = {**DOCUMENT, "name": "other"}
        second = store.profiles.change(LOCAL_ACTOR, first.id, expected_version=1, name="two", customer=None, document=changed)
    assert (first.version, second.version, second.name, second.customer) == (1, 2, "two", None)
    with database.transaction(read_only=True) as store:
        versions = store.profiles.versions(LOCAL_ACTOR, first.id)
        assert [item.number for item in versions] == [2, 1]
        assert versions[1].document == DOCUMENT
        assert store.profiles.get(LOCAL_ACTOR, first.id).document == changed


def test_a_stale_version_is_refused(database):
    with database.transaction() as store:
        made = store.profiles.add(LOCAL_ACTOR, name="one", customer=None, document=DOCUMENT)
        store.profiles.change(LOCAL_ACTOR, made.id, expected_version=1, name="one", customer=None, document=DOCUMENT)
    with pytest.raises(ConflictError) as caught, database.transaction() as store:
        store.profiles.change(LOCAL_ACTOR, made.id, expected_version=1, name="late", customer=None, document=DOCUMENT)
    assert caught.value.current == 2


def test_another_actor_sees_nothing(database):
    stranger = replace(LOCAL_ACTOR, user_id="00000000-0000-0000-0000-00000000dead")
    with database.transaction() as store:
        made = store.profiles.add(LOCAL_ACTOR, name="private", customer="C", document=DOCUMENT)
    with database.transaction(read_only=True) as store:
        assert made.id not in [item.id for item in store.profiles.page(stranger)]
        assert store.customers.names(stranger) == []
        with pytest.raises(NotFoundError):
            store.profiles.get(stranger, made.id)
        with pytest.raises(NotFoundError):
            store.profiles.versions(stranger, made.id)


def test_an_answer_is_stored_whole(database):
    answer = recommend(preset("embeddings").profile, load_catalog(), created_at=datetime.now(UTC), recommendation_id=f"r-{id(database)}")
    with database.transaction() as store:
        made = store.profiles.add(LOCAL_ACTOR, name="kept", customer=None, document=DOCUMENT)
        store.recommendations.add(LOCAL_ACTOR, profile_id=made.id, version=1, recommendation=answer)
    with database.transaction(read_only=True) as store:
        assert store.recommendations.document(LOCAL_ACTOR, answer.id) == answer.model_dump(mode="json")
        line = store.recommendations.line(LOCAL_ACTOR, answer.id)
        assert (line.profile_id, line.profile_version, line.catalog_version) == (made.id, 1, load_catalog().version)


def test_an_archived_profile_leaves_the_list_and_can_come_back(database):
    with database.transaction() as store:
        made = store.profiles.add(LOCAL_ACTOR, name="away", customer=None, document=DOCUMENT)
        store.profiles.archive(LOCAL_ACTOR, made.id)
        assert made.id not in [item.id for item in store.profiles.page(LOCAL_ACTOR)]
        store.profiles.archive(LOCAL_ACTOR, made.id, archived=False)
        assert made.id in [item.id for item in store.profiles.page(LOCAL_ACTOR)]


def test_a_failed_transaction_leaves_nothing(database):
    def half_way() -> None:
        with database.transaction() as store:
            made.append(store.profiles.add(LOCAL_ACTOR, name="half", customer="New one", document=DOCUMENT))
            raise RuntimeError("stop")

    made: list[SavedProfile] = []
    with pytest.raises(RuntimeError, match="stop"):
        half_way()
    with database.transaction(read_only=True) as store:
        with pytest.raises(NotFoundError):
            store.profiles.get(LOCAL_ACTOR, made[0].id)
        assert "New one" not in store.customers.names(LOCAL_ACTOR)


def test_two_writers_at_once_lose_nothing(database):
    with database.transaction() as store:
        made = store.profiles.add(LOCAL_ACTOR, name="shared", customer=None, document=DOCUMENT)
    outcomes: list[str] = []

    def write(name: str) -> None:
        try:
            with database.transaction() as store:
                store.profiles.change(LOCAL_ACTOR, made.id, expected_version=1, name=name, customer="Same", document=DOCUMENT)
            outcomes.append("written")
        except ConflictError:
            outcomes.append("refused")

    threads = [threading.Thread(target=write, args=(f"writer {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(outcomes) == ["refused"] * 5 + ["written"]
    with database.transaction(read_only=True) as store:
        assert store.profiles.get(LOCAL_ACTOR, made.id).version == 2


def test_migrating_twice_changes_nothing(database):
    database.migrate()
    assert database.is_current()
