"""Recommendations: stateless, and stored ones by id."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from app.advice.recommendation import Recommendation
from app.api.dependencies import ActorParameter, CatalogParameter, JsonBody, ReadingStore, RecommendParameter
from app.api.operations import COMPUTES, READS, answers, problems, takes
from app.json_text import load_object
from app.workload.profile import WorkloadProfile, parse_profile

router = APIRouter(prefix="/api/v1/recommendations", tags=["Recommendations"])

EXAMPLE = {
    "workload": "online_inference",
    "model": {"id": "meta-llama/Llama-3.1-70B-Instruct"},
    "serving": {"concurrent_users": 50, "input_tokens": 2000, "output_tokens": 300},
}

Include = Annotated[Literal["trace"] | None, Query(description="`trace` adds how each number came about")]


@router.post(
    "",
    summary="Recommend an architecture for a profile",
    operation_id="recommend",
    responses=problems(*COMPUTES)
    | {200: answers(Recommendation, "The recommendation; architecture null when nothing can meet the demand")},
    openapi_extra=takes(WorkloadProfile, example=EXAMPLE),
)
def recommendation(body: JsonBody, catalog: CatalogParameter, recommend: RecommendParameter, include: Include = None) -> Response:
    """Nothing is stored. The least that works: workload, model and the one demand number of its kind."""
    profile = parse_profile(load_object(body))
    answer = recommend(profile, catalog, created_at=datetime.now(UTC), recommendation_id=str(uuid4()), include_trace=include == "trace")
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get(
    "/{recommendation_id}",
    summary="A stored recommendation",
    operation_id="read_recommendation",
    responses=problems(404, 503, *READS) | {200: answers(Recommendation)},
)
def stored(recommendation_id: str, actor: ActorParameter, store: ReadingStore) -> Response:
    """As it was given; nothing is computed again."""
    return JSONResponse(store.recommendations.document(actor, recommendation_id))
