"""All SQL of the application. A repository reads what its actor may read and never commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Select, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.advice.recommendation import Recommendation
from app.store.actor import Actor
from app.store.tables import Customer, Profile, ProfileVersion, StoredRecommendation

MAX_PAGE = 200


class NotFoundError(LookupError):
    """There is no such thing, or the actor may not read it; which of the two is not told."""


class ConflictError(RuntimeError):
    """Somebody else changed it since it was read."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the profile is at version {current} by now; read it again and repeat the change")
        self.current = current


@dataclass(frozen=True, slots=True)
class SavedProfile:
    """A profile as its newest version says it, ``document`` being a WorkloadProfile in JSON."""

    id: str
    name: str
    customer: str | None
    version: int
    archived: bool
    created_at: datetime
    updated_at: datetime
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedVersion:
    """One state a profile had."""

    number: int
    created_at: datetime
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecommendationLine:
    """One stored answer in a list."""

    id: str
    profile_id: str
    profile_name: str
    profile_version: int
    architecture: str | None
    summary: str
    catalog_version: str
    engine_version: str
    created_at: datetime


class Customers:
    """Customers of an actor, by name."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def names(self, actor: Actor) -> list[str]:
        """Every name, in order."""
        return list(self._session.scalars(select(Customer.name).where(Customer.owner_id == actor.user_id).order_by(Customer.name)))

    def id_of(self, actor: Actor, name: str | None) -> str | None:
        """The customer of this name, made when there is none; no name, no customer."""
        if not name:
            return None
        insert = postgresql.insert if self._session.get_bind().dialect.name == "postgresql" else sqlite.insert
        values = {"id": str(uuid4()), "owner_id": actor.user_id, "name": name, "created_at": datetime.now(UTC)}
        # Two writers may meet a new customer at the same moment; the second then uses the first one's row.
        self._session.execute(insert(Customer).values(values).on_conflict_do_nothing(index_elements=["owner_id", "name"]))
        return self._session.scalars(select(Customer.id).where(Customer.owner_id == actor.user_id, Customer.name == name)).one()


class Profiles:
    """Saved profiles and their versions."""

    def __init__(self, session: Session, customers: Customers) -> None:
        self._session = session
        self._customers = customers

    def add(self, actor: Actor, *, name: str, customer: str | None, document: dict[str, Any]) -> SavedProfile:
        """Save a new profile as version 1."""
        now = datetime.now(UTC)
        profile = Profile(
            id=str(uuid4()),
            owner_id=actor.user_id,
            customer_id=self._customers.id_of(actor, customer),
            name=name,
            version=1,
            archived=False,
            created_at=now,
            updated_at=now,
        )
        self._session.add(profile)
        self._session.flush()
        self._add_version(actor, profile.id, 1, document, now)
        return self.get(actor, profile.id)

    def get(self, actor: Actor, profile_id: str) -> SavedProfile:
        """One profile.

        Raises:
            NotFoundError: there is none that the actor may read.
        """
        row = self._session.execute(_readable(actor).where(Profile.id == profile_id)).one_or_none()
        if row is None:
            raise NotFoundError(f"no profile {profile_id}")
        return _saved(row)

    def page(
        self, actor: Actor, *, archived: bool | None = False, customer: str | None = None, offset: int = 0, limit: int = 50
    ) -> list[SavedProfile]:
        """Profiles, the last changed first; ``archived`` None = both kinds."""
        query = self._filtered(_readable(actor), archived, customer)
        query = query.order_by(Profile.updated_at.desc(), Profile.id).offset(offset).limit(min(limit, MAX_PAGE))
        return [_saved(row) for row in self._session.execute(query)]

    def count(self, actor: Actor, *, archived: bool | None = False, customer: str | None = None) -> int:
        """How many profiles :meth:`page` goes through."""
        readable = self._filtered(_readable(actor), archived, customer)
        return self._session.scalars(select(func.count()).select_from(readable.subquery())).one()

    def change(
        self,
        actor: Actor,
        profile_id: str,
        *,
        expected_version: int,
        name: str,
        customer: str | None,
        document: dict[str, Any],
    ) -> SavedProfile:
        """Write the next version of a profile that is still at ``expected_version``.

        Raises:
            NotFoundError: there is none that the actor may read.
            ConflictError: it is at another version.
        """
        now = datetime.now(UTC)
        changed = self._session.execute(
            update(Profile)
            .where(Profile.id == profile_id, Profile.owner_id == actor.user_id, Profile.version == expected_version)
            .values(
                version=expected_version + 1,
                name=name,
                customer_id=self._customers.id_of(actor, customer),
                updated_at=now,
            )
            .returning(Profile.id)
        ).scalar_one_or_none()
        if changed is None:
            raise ConflictError(self.get(actor, profile_id).version)
        self._add_version(actor, profile_id, expected_version + 1, document, now)
        self._session.expire_all()
        return self.get(actor, profile_id)

    def archive(self, actor: Actor, profile_id: str, *, archived: bool = True) -> None:
        """Put a profile away, or bring it back; nothing is lost.

        Raises:
            NotFoundError: there is none that the actor may read.
        """
        changed = self._session.execute(
            update(Profile)
            .where(Profile.id == profile_id, Profile.owner_id == actor.user_id)
            .values(archived=archived, updated_at=datetime.now(UTC))
            .returning(Profile.id)
        ).scalar_one_or_none()
        if changed is None:
            raise NotFoundError(f"no profile {profile_id}")

    def versions(self, actor: Actor, profile_id: str) -> list[SavedVersion]:
        """Every state the profile had, the newest first.

        Raises:
            NotFoundError: there is none that the actor may read.
        """
        self.get(actor, profile_id)
        query = select(ProfileVersion).where(ProfileVersion.profile_id == profile_id).order_by(ProfileVersion.number.desc())
        return [SavedVersion(row.number, row.created_at, row.document) for row in self._session.scalars(query)]

    def _add_version(self, actor: Actor, profile_id: str, number: int, document: dict[str, Any], now: datetime) -> None:
        self._session.add(
            ProfileVersion(
                id=str(uuid4()), profile_id=profile_id, number=number, document=document, created_by=actor.user_id, created_at=now
            )
        )
        self._session.flush()

    @staticmethod
    def _filtered(query: Select[Any], archived: bool | None, customer: str | None) -> Select[Any]:
        if archived is not None:
            query = query.where(Profile.archived.is_(archived))
        return query if customer is None else query.where(Customer.name == customer)


class Recommendations:
    """Stored answers: written once, read as they were."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, actor: Actor, *, profile_id: str, version: int, recommendation: Recommendation) -> None:
        """Keep an answer to one version of a profile.

        Raises:
            NotFoundError: there is no such version that the actor may read.
        """
        query = (
            select(ProfileVersion.id)
            .join(Profile, Profile.id == ProfileVersion.profile_id)
            .where(Profile.owner_id == actor.user_id, Profile.id == profile_id, ProfileVersion.number == version)
        )
        version_id = self._session.scalars(query).one_or_none()
        if version_id is None:
            raise NotFoundError(f"no version {version} of profile {profile_id}")
        self._session.add(
            StoredRecommendation(
                id=recommendation.id,
                profile_version_id=version_id,
                architecture=recommendation.architecture,
                summary=recommendation.summary,
                catalog_version=recommendation.versions.catalog,
                engine_version=recommendation.versions.engine,
                document=recommendation.model_dump(mode="json"),
                created_by=actor.user_id,
                created_at=recommendation.created_at,
            )
        )
        self._session.flush()

    def document(self, actor: Actor, recommendation_id: str) -> dict[str, Any]:
        """The whole answer, as it was given.

        Raises:
            NotFoundError: there is none that the actor may read.
        """
        query = (
            select(StoredRecommendation.document)
            .join(ProfileVersion, ProfileVersion.id == StoredRecommendation.profile_version_id)
            .join(Profile, Profile.id == ProfileVersion.profile_id)
            .where(Profile.owner_id == actor.user_id, StoredRecommendation.id == recommendation_id)
        )
        found: dict[str, Any] | None = self._session.scalars(query).one_or_none()
        if found is None:
            raise NotFoundError(f"no recommendation {recommendation_id}")
        return found

    def page(self, actor: Actor, *, profile_id: str | None = None, offset: int = 0, limit: int = 50) -> list[RecommendationLine]:
        """Answers, the last given first; of one profile where its id is given."""
        query = (
            select(StoredRecommendation, Profile, ProfileVersion.number)
            .join(ProfileVersion, ProfileVersion.id == StoredRecommendation.profile_version_id)
            .join(Profile, Profile.id == ProfileVersion.profile_id)
            .where(Profile.owner_id == actor.user_id)
            .order_by(StoredRecommendation.created_at.desc(), StoredRecommendation.id)
            .offset(offset)
            .limit(min(limit, MAX_PAGE))
        )
        if profile_id is not None:
            query = query.where(Profile.id == profile_id)
        return [_line(row) for row in self._session.execute(query)]

    def line(self, actor: Actor, recommendation_id: str) -> RecommendationLine:
        """Which profile and version an answer belongs to.

        Raises:
            NotFoundError: there is none that the actor may read.
        """
        query = (
            select(StoredRecommendation, Profile, ProfileVersion.number)
            .join(ProfileVersion, ProfileVersion.id == StoredRecommendation.profile_version_id)
            .join(Profile, Profile.id == ProfileVersion.profile_id)
            .where(Profile.owner_id == actor.user_id, StoredRecommendation.id == recommendation_id)
        )
        row = self._session.execute(query).one_or_none()
        if row is None:
            raise NotFoundError(f"no recommendation {recommendation_id}")
        return _line(row)


def _line(row: Any) -> RecommendationLine:
    stored, profile, number = row
    return RecommendationLine(
        id=stored.id,
        profile_id=profile.id,
        profile_name=profile.name,
        profile_version=number,
        architecture=stored.architecture,
        summary=stored.summary,
        catalog_version=stored.catalog_version,
        engine_version=stored.engine_version,
        created_at=stored.created_at,
    )


def _readable(actor: Actor) -> Select[Any]:
    """What the actor may read: own profiles, with customer and newest version."""
    return (
        select(Profile, Customer.name, ProfileVersion.document)
        .join(ProfileVersion, (ProfileVersion.profile_id == Profile.id) & (ProfileVersion.number == Profile.version))
        .outerjoin(Customer, Customer.id == Profile.customer_id)
        .where(Profile.owner_id == actor.user_id)
    )


def _saved(row: Any) -> SavedProfile:
    profile, customer, document = row
    return SavedProfile(
        id=profile.id,
        name=profile.name,
        customer=customer,
        version=profile.version,
        archived=profile.archived,
        created_at=profile.created_at,
        updated_at=profile.updated_at,
        document=document,
    )
