"""What endpoints ask for: the catalogue, the acting user, a transaction, the body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from app.advice.recommendation import Recommendation
from app.catalog.loader import Catalog
from app.store.actor import LOCAL_ACTOR, Actor
from app.store.database import Database, Store
from app.workload.profile import WorkloadProfile


class Recommend(Protocol):
    """The advice entry point, :func:`app.advice.advisor.recommend`."""

    def __call__(
        self, profile: WorkloadProfile, catalog: Catalog, *, created_at: Any, recommendation_id: str, include_trace: bool = False
    ) -> Recommendation: ...


def catalog_of(request: Request) -> Catalog:
    """The catalogue the application was made with."""
    catalog: Catalog = request.app.state.catalog
    return catalog


def recommend_of(request: Request) -> Recommend:
    """The advice entry point the application was made with."""
    recommend: Recommend = request.app.state.recommend
    return recommend


def database_of(request: Request) -> Database:
    """The database, for an endpoint that makes its own transactions."""
    database: Database = request.app.state.database
    return database


def acting_user() -> Actor:
    """Who acts; the local user, as there are no accounts yet."""
    return LOCAL_ACTOR


def reading(request: Request) -> Iterator[Store]:
    """Repositories for an endpoint that only reads."""
    with database_of(request).transaction(read_only=True) as store:
        yield store


def writing(request: Request) -> Iterator[Store]:
    """Repositories for an endpoint that writes: one transaction, committed before the answer is sent."""
    with database_of(request).transaction() as store:
        yield store


async def json_body(request: Request) -> bytes:
    """The body of a JSON request, not yet parsed: that is work for a thread."""
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json" and not (media_type.startswith("application/") and media_type.endswith("+json")):
        raise HTTPException(415, "The body must be JSON: send the header Content-Type: application/json.")
    return await request.body()


DatabaseParameter = Annotated[Database, Depends(database_of)]
CatalogParameter = Annotated[Catalog, Depends(catalog_of)]
RecommendParameter = Annotated[Recommend, Depends(recommend_of)]
ActorParameter = Annotated[Actor, Depends(acting_user)]
ReadingStore = Annotated[Store, Depends(reading, scope="function")]
WritingStore = Annotated[Store, Depends(writing, scope="function")]
JsonBody = Annotated[bytes, Depends(json_body)]
