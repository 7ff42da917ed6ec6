"""Shapes of requests and answers that are the API's own; the WorkloadProfile and the Recommendation are defined further down."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.store.repositories import RecommendationLine, SavedProfile, SavedVersion
from app.workload.profile import WorkloadProfile


class Answer(BaseModel):
    """Base of answers: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProfileToSave(Answer):
    """A profile with the customer it is for. A bare WorkloadProfile is accepted in its place."""

    profile: WorkloadProfile = Field(description="What the customer needs")
    name: str | None = Field(default=None, max_length=200, description="Name in lists; absent = the name within the profile")
    customer: str | None = Field(default=None, max_length=200, description="Whom it is for; a new name makes a new customer")
    version: int | None = Field(default=None, ge=1, description="When replacing: the version it was read at (or If-Match)")


class ProfileAnswer(Answer):
    """A saved profile at its newest version."""

    id: str
    name: str
    customer: str | None
    version: int
    archived: bool
    created_at: datetime
    updated_at: datetime
    profile: dict[str, Any] = Field(description="A WorkloadProfile, as it was given")

    @classmethod
    def of(cls, saved: SavedProfile) -> ProfileAnswer:
        """From the store's row."""
        return cls(
            id=saved.id,
            name=saved.name,
            customer=saved.customer,
            version=saved.version,
            archived=saved.archived,
            created_at=saved.created_at,
            updated_at=saved.updated_at,
            profile=saved.document,
        )


class ProfilePage(Answer):
    """Some of the saved profiles, the last changed first."""

    items: list[ProfileAnswer]
    total: int = Field(description="How many there are in all")
    offset: int
    limit: int


class VersionAnswer(Answer):
    """One state a profile had."""

    number: int
    created_at: datetime
    profile: dict[str, Any]

    @classmethod
    def of(cls, saved: SavedVersion) -> VersionAnswer:
        """From the store's row."""
        return cls(number=saved.number, created_at=saved.created_at, profile=saved.document)


class VersionList(Answer):
    """Every state a profile had, the newest first."""

    items: list[VersionAnswer]


class RecommendationSummary(Answer):
    """One stored answer in a list."""

    id: str
    profile_id: str
    profile_version: int
    architecture: str | None
    summary: str
    catalog_version: str
    engine_version: str
    created_at: datetime

    @classmethod
    def of(cls, line: RecommendationLine) -> RecommendationSummary:
        """From the store's row."""
        return cls(
            id=line.id,
            profile_id=line.profile_id,
            profile_version=line.profile_version,
            architecture=line.architecture,
            summary=line.summary,
            catalog_version=line.catalog_version,
            engine_version=line.engine_version,
            created_at=line.created_at,
        )


class RecommendationList(Answer):
    """Stored answers, the last given first."""

    items: list[RecommendationSummary]


class CatalogAnswer(Answer):
    """Rows of the catalogue. Every row names its source, date and kind."""

    version: str = Field(description="Changes with any byte of the catalogue's data")
    items: list[dict[str, Any]]


class PriceAnswer(CatalogAnswer):
    """Prices: purchase prices under ``items``."""

    running_costs: list[dict[str, Any]]
    cloud: list[dict[str, Any]]
    hosted_api: list[dict[str, Any]]


class Health(Answer):
    """Whether the server works."""

    status: str
    detail: str
