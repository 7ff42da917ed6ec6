"""What is kept. Documents are stored whole as JSON and never rewritten; names and states live in columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, ForeignKey, Index, MetaData, String, TypeDecorator, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

LOCAL_USER_ID = "local"
"""The one user of an installation without accounts; seeded by the first migration."""

ID = String(36)
NAME = String(200)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware moment in UTC on every database; SQLite itself forgets the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("a moment needs a time zone")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables. Constraints have names, so that a migration can change them on every database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class User(Base):
    """Somebody who owns profiles."""

    __tablename__ = "users"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Customer(Base):
    """Whom a profile is made for; a name its owner chose."""

    __tablename__ = "customers"
    __table_args__ = (UniqueConstraint("owner_id", "name"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str] = mapped_column(NAME)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Profile(Base):
    """A saved profile: its name and state. What it says is in its versions; ``version`` is the newest."""

    __tablename__ = "profiles"
    __table_args__ = (Index(None, "owner_id", "archived", "updated_at"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    customer_id: Mapped[str | None] = mapped_column(ForeignKey("customers.id"), index=True)
    name: Mapped[str] = mapped_column(NAME)
    version: Mapped[int]
    archived: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ProfileVersion(Base):
    """One state of a profile, never changed."""

    __tablename__ = "profile_versions"
    __table_args__ = (UniqueConstraint("profile_id", "number"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    profile_id: Mapped[str] = mapped_column(ForeignKey("profiles.id"))
    number: Mapped[int]
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_by: Mapped[str] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class StoredRecommendation(Base):
    """One answer, whole, with what produced it: profile version, catalogue and engine."""

    __tablename__ = "recommendations"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    profile_version_id: Mapped[str] = mapped_column(ForeignKey("profile_versions.id"), index=True)
    architecture: Mapped[str | None] = mapped_column(String(40))
    summary: Mapped[str]
    catalog_version: Mapped[str] = mapped_column(String(100))
    engine_version: Mapped[str] = mapped_column(String(40))
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_by: Mapped[str] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
