"""Who acts. Every call of a repository takes the actor, and every read starts from what the actor may read."""

from __future__ import annotations

from dataclasses import dataclass

from app.store.tables import LOCAL_USER_ID


@dataclass(frozen=True, slots=True)
class Actor:
    """The user on whose behalf something is read or written."""

    user_id: str


LOCAL_ACTOR = Actor(LOCAL_USER_ID)
"""The user of an installation without accounts."""
