"""Whether the server works, its figures, and the API's documentation for people."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import HTMLResponse, JSONResponse, Response

from app.api.reference import reference_page
from app.api.schemas import Health
from app.store.database import Database

router = APIRouter(tags=["System"])


@router.get("/healthz", summary="Is the process alive", operation_id="health", response_model=Health)
def health() -> Health:
    """Answers as long as the process does."""
    return Health(status="ok", detail="the process answers")


@router.get(
    "/readyz",
    summary="Can the server do its work",
    operation_id="readiness",
    response_model=Health,
    responses={503: {"description": "Not yet: the database does not answer or its schema is another one", "model": Health}},
)
def readiness(request: Request) -> Any:
    """Checks the database and its schema."""
    database: Database = request.app.state.database
    try:
        current = database.is_current()
    except SQLAlchemyError:
        return _not_ready("the database does not answer")
    return (
        Health(status="ok", detail="the database answers")
        if current
        else _not_ready("the schema is not current; run: python -m app migrate")
    )


def _not_ready(detail: str) -> Response:
    return JSONResponse(Health(status="unavailable", detail=detail).model_dump(), 503)


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    operation_id="metrics",
    responses={200: {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
def metrics(request: Request) -> Response:
    """Requests and their times by route, of this process."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """The API for people, made from the OpenAPI document."""
    return HTMLResponse(reference_page(request.app.openapi()))
