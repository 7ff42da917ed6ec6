"""Saved profiles: versions that are never rewritten, and recommendations made from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Header, Path, Query
from pydantic import ValidationError
from starlette.responses import Response

from app.advice.recommendation import Recommendation
from app.api.advice import EXAMPLE, Include
from app.api.dependencies import (
    ActorParameter,
    CatalogParameter,
    DatabaseParameter,
    JsonBody,
    ReadingStore,
    RecommendParameter,
    WritingStore,
)
from app.api.operations import COMPUTES, READS, answers, problems, takes
from app.api.schemas import ProfileAnswer, ProfilePage, ProfileToSave, RecommendationList, RecommendationSummary, VersionAnswer, VersionList
from app.json_text import load_object
from app.store.repositories import MAX_PAGE, ConflictError
from app.workload.profile import FieldError, ProfileError, WorkloadProfile, parse_profile, profile_errors

router = APIRouter(prefix="/api/v1/profiles", tags=["Profiles"])

MAX_OFFSET = 1_000_000
ProfileId = Annotated[str, Path(description="Id of the profile", max_length=100)]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out at the start")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many to list")]
TO_SAVE = {"name": "Support assistant", "customer": "Example customer", "profile": EXAMPLE}


@router.get("", summary="List saved profiles", operation_id="list_profiles", response_model=ProfilePage, responses=problems(503, *READS))
def listed(
    actor: ActorParameter,
    store: ReadingStore,
    archived: Annotated[Literal["true", "false", "any"], Query(description="Those put away, the others, or both")] = "false",
    customer: Annotated[str | None, Query(max_length=200, description="Only those for this customer")] = None,
    offset: Offset = 0,
    limit: Limit = 50,
) -> ProfilePage:
    """The last changed first."""
    kept = {"true": True, "false": False, "any": None}[archived]
    customer = customer.replace("\x00", "") if customer else None
    found = store.profiles.page(actor, archived=kept, customer=customer, offset=offset, limit=limit)
    total = store.profiles.count(actor, archived=kept, customer=customer)
    return ProfilePage(items=[ProfileAnswer.of(saved) for saved in found], total=total, offset=offset, limit=limit)


@router.post(
    "",
    status_code=201,
    summary="Save a profile",
    operation_id="save_profile",
    response_model=ProfileAnswer,
    responses=problems(503, *COMPUTES),
    openapi_extra=takes(WorkloadProfile, ProfileToSave, example=TO_SAVE),
)
def saved(body: JsonBody, actor: ActorParameter, store: WritingStore, response: Response) -> ProfileAnswer:
    """The body is a WorkloadProfile, or one under `profile` beside a name and a customer."""
    wanted = _to_save(body)
    made = store.profiles.add(actor, name=_name(wanted), customer=wanted.customer, document=wanted.profile.to_json())
    response.headers["Location"] = f"/api/v1/profiles/{made.id}"
    response.headers["ETag"] = f'"{made.version}"'
    return ProfileAnswer.of(made)


@router.get(
    "/{profile_id}",
    summary="A saved profile",
    operation_id="read_profile",
    response_model=ProfileAnswer,
    responses=problems(404, 503, *READS),
)
def one(profile_id: ProfileId, actor: ActorParameter, store: ReadingStore, response: Response) -> ProfileAnswer:
    """The newest version; its number is also the ETag."""
    found = store.profiles.get(actor, profile_id)
    response.headers["ETag"] = f'"{found.version}"'
    return ProfileAnswer.of(found)


@router.put(
    "/{profile_id}",
    summary="Replace a saved profile",
    operation_id="replace_profile",
    response_model=ProfileAnswer,
    responses=problems(404, 409, 503, *COMPUTES),
    openapi_extra=takes(WorkloadProfile, ProfileToSave, example=TO_SAVE | {"version": 1}),
)
def replaced(
    profile_id: ProfileId,
    body: JsonBody,
    actor: ActorParameter,
    store: WritingStore,
    response: Response,
    if_match: Annotated[str | None, Header(description='The version it was read at, as in the ETag: `"3"`')] = None,
) -> ProfileAnswer:
    """Writes the next version. With `If-Match` or `version` it is refused (409) when somebody else was first; without, the last wins.

    A body without name or customer leaves them as they are.
    """
    wanted = _to_save(body)
    current = store.profiles.get(actor, profile_id)
    expected = _expected(if_match, wanted.version, current.version)
    changed = store.profiles.change(
        actor,
        profile_id,
        expected_version=expected,
        name=_name(wanted, current.name),
        customer=wanted.customer if "customer" in wanted.model_fields_set else current.customer,
        document=wanted.profile.to_json(),
    )
    response.headers["ETag"] = f'"{changed.version}"'
    return ProfileAnswer.of(changed)


@router.delete(
    "/{profile_id}",
    status_code=204,
    summary="Put a profile away",
    operation_id="archive_profile",
    responses=problems(403, 404, 429, 503, *READS),
)
def archived(profile_id: ProfileId, actor: ActorParameter, store: WritingStore) -> None:
    """It leaves the list but stays readable, as do its versions and recommendations."""
    store.profiles.archive(actor, profile_id)


@router.get(
    "/{profile_id}/versions",
    summary="Every version of a profile",
    operation_id="list_profile_versions",
    response_model=VersionList,
    responses=problems(404, 503, *READS),
)
def versions(profile_id: ProfileId, actor: ActorParameter, store: ReadingStore) -> VersionList:
    """The newest first."""
    return VersionList(items=[VersionAnswer.of(version) for version in store.profiles.versions(actor, profile_id)])


@router.get(
    "/{profile_id}/recommendations",
    summary="Recommendations made from a profile",
    operation_id="list_profile_recommendations",
    response_model=RecommendationList,
    responses=problems(404, 503, *READS),
)
def recommendations(
    profile_id: ProfileId, actor: ActorParameter, store: ReadingStore, offset: Offset = 0, limit: Limit = 50
) -> RecommendationList:
    """The last given first."""
    store.profiles.get(actor, profile_id)
    lines = store.recommendations.page(actor, profile_id=profile_id, offset=offset, limit=limit)
    return RecommendationList(items=[RecommendationSummary.of(line) for line in lines])


@router.post(
    "/{profile_id}/recommendations",
    status_code=201,
    summary="Recommend for a saved profile and keep the answer",
    operation_id="recommend_for_profile",
    responses=problems(403, 404, 429, 503, *READS) | {201: answers(Recommendation)},
)
def recommended(
    profile_id: ProfileId,
    actor: ActorParameter,
    database: DatabaseParameter,
    catalog: CatalogParameter,
    recommend: RecommendParameter,
    include: Include = None,
) -> Response:
    """The answer is stored whole, with the versions of profile, catalogue and engine behind it. A body is ignored."""
    # Computed between two transactions: on SQLite a writer would keep all others waiting meanwhile.
    with database.transaction(read_only=True) as store:
        profile = store.profiles.get(actor, profile_id)
    answer = recommend(
        parse_profile(profile.document),
        catalog,
        created_at=datetime.now(UTC),
        recommendation_id=str(uuid4()),
        include_trace=include == "trace",
    )
    with database.transaction() as store:
        store.recommendations.add(actor, profile_id=profile_id, version=profile.version, recommendation=answer)
    location = {"Location": f"/api/v1/recommendations/{answer.id}"}
    return Response(answer.model_dump_json(), 201, headers=location, media_type="application/json")


def _to_save(body: bytes) -> ProfileToSave:
    """The body as given, or a bare profile within what it stands for."""
    raw: dict[str, Any] = load_object(body)
    if "profile" not in raw:
        return ProfileToSave(profile=parse_profile(raw))
    try:
        return ProfileToSave.model_validate(raw)
    except ValidationError as error:
        raise ProfileError(profile_errors(error)) from None


def _name(wanted: ProfileToSave, current: str = "") -> str:
    return wanted.name or wanted.profile.name or current or wanted.profile.workload.replace("_", " ")


def _expected(if_match: str | None, stated: int | None, current: int) -> int:
    """The version the writer read; If-Match before the body, the current one when neither says.

    Raises:
        ConflictError: If-Match and the body name different versions.
    """
    if if_match is None or if_match.strip() == "*":
        return current if stated is None else stated
    text = if_match.strip().removeprefix("W/").strip('"')
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ProfileError([FieldError("If-Match", 'must be the version in quotes, such as "3"')])
    if stated is not None and stated != int(text):
        raise ConflictError(current)
    return int(text)
