"""Errors as ``application/problem+json`` (RFC 9457): what is wrong, which field, the limit, what to try."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.json_text import JsonTextError
from app.store.repositories import ConflictError, NotFoundError
from app.workload.profile import FieldError, ProfileError

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 50

log = structlog.get_logger("app.api")


class ProblemField(BaseModel):
    """One field at fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str = Field(description="Path of the field, steps joined by dots")
    message: str = Field(description="What is wrong and what to try")
    limit: str = Field(description="The limit that was broken; empty where there is none")


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str = Field(description="Always about:blank: the status says what kind of error it is")
    title: str = Field(description="The status in words")
    status: int = Field(description="HTTP status")
    detail: str = Field(description="What happened")
    instance: str = Field(description="Path of the request")
    request_id: str = Field(description="Also in the X-Request-ID header and the server's log")
    errors: list[ProblemField] = Field(description="Every field at fault")


def problem(
    request: Request, status: int, detail: str, errors: Sequence[FieldError] = (), headers: dict[str, str] | None = None
) -> Response:
    """The response for one error: a page for a browser on the pages' side, else a problem document."""
    error_page = getattr(request.app.state, "error_page", None)
    if error_page is not None and not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", ""):
        shown: Response = error_page(status, detail)
        return shown
    content = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path[:500],
        request_id=request.scope.get("sizing_request_id", ""),
        errors=[ProblemField(field=item.field[:200], message=item.message[:500], limit=item.limit[:200]) for item in errors[:MAX_ERRORS]],
    )
    return JSONResponse(content.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Every error of the application becomes a problem document."""

    @app.exception_handler(ProfileError)
    def refused(request: Request, error: ProfileError) -> Response:
        return problem(request, 422, "The input cannot be used; every field at fault is listed.", error.errors)

    @app.exception_handler(JsonTextError)
    def malformed(request: Request, error: JsonTextError) -> Response:
        return problem(request, 400, f"{error.field} {error}.", [FieldError(error.field, str(error))])

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        return problem(
            request, 422, "The request cannot be used; every field at fault is listed.", [_field(item) for item in error.errors()]
        )

    @app.exception_handler(NotFoundError)
    def missing(request: Request, error: NotFoundError) -> Response:
        return problem(request, 404, f"There is {error}.")

    @app.exception_handler(ConflictError)
    def conflict(request: Request, error: ConflictError) -> Response:
        return problem(request, 409, f"Not changed: {error}.", [FieldError("version", str(error), f"version {error.current}")])

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers) if error.headers else None
        errors = [FieldError("body", error.detail, "")] if error.status_code in (413, 415) else []
        return problem(request, error.status_code, _sentence(error), errors, headers)

    @app.exception_handler(OperationalError)
    def unavailable(request: Request, error: OperationalError) -> Response:
        log.error("database_unavailable", error=str(error.orig)[:300])
        return problem(request, 503, "The database does not answer or is busy; try again shortly.", headers={"Retry-After": "2"})

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        log.error("request_failed", exc_info=error)
        return problem(request, 500, "The server failed on this request. The log has the details under this request id.")


def _sentence(error: HTTPException) -> str:
    if error.status_code == 404 and error.detail == HTTPStatus.NOT_FOUND.phrase:
        return "There is nothing at this address."
    if error.status_code == 405 and error.detail == HTTPStatus.METHOD_NOT_ALLOWED.phrase:
        return "This address does not answer to this method; the Allow header lists those it answers to."
    return error.detail


def _field(item: dict[str, Any]) -> FieldError:
    # The first step says where the field came from (query, path, header, body), which the name alone does not need.
    steps = [str(step) for step in item["loc"]]
    context = item.get("ctx") or {}
    limit = next(
        (f"{key} {context[key]}" for key in ("le", "ge", "gt", "lt", "max_length", "min_length", "expected") if key in context), ""
    )
    return FieldError(".".join(steps[1:]) or steps[0], str(item["msg"]), limit)
