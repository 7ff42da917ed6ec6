"""What the OpenAPI document says beside FastAPI's own: request bodies, and the errors an operation can answer with."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.problems import MEDIA_TYPE, Problem

SCHEMA = "#/components/schemas/"
DESCRIPTIONS = {
    400: "The body is not JSON, or not acceptable JSON",
    403: "A browser sent this from a page of another origin",
    404: "There is no such thing",
    409: "Changed by somebody else since it was read",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    422: "A field is missing, unknown or out of its limits; `errors` names each",
    429: "Too many requests from this address",
    500: "The server failed; the log has the details",
    503: "The database is busy or does not answer",
}
READS = (422, 500)
COMPUTES = (400, 403, 413, 415, 422, 429, 500)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Entries of ``responses`` for errors."""
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{SCHEMA}Problem"}}}
    return {status: {"description": DESCRIPTIONS[status], "content": content} for status in statuses}


def takes(*models: type[BaseModel] | str, example: dict[str, Any]) -> dict[str, Any]:
    """``openapi_extra`` for an operation that reads its own JSON body."""
    references = [{"$ref": f"{SCHEMA}{model if isinstance(model, str) else model.__name__}"} for model in models]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}


def answers(model: type[BaseModel], description: str = "Done") -> dict[str, Any]:
    """An entry of ``responses`` for an answer that is written without FastAPI's own serialisation."""
    return {"description": description, "content": {"application/json": {"schema": {"$ref": f"{SCHEMA}{model.__name__}"}}}}


def document_with(app: FastAPI, read: tuple[type[BaseModel], ...], written: tuple[type[BaseModel], ...], extra: dict[str, Any]) -> None:
    """Make ``app.openapi`` describe the models that operations read and write themselves; the document is made once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
            )
            pairs = [(model, "validation") for model in read] + [(model, "serialization") for model in (*written, Problem)]
            _, definitions = models_json_schema(pairs, ref_template=SCHEMA + "{model}")  # type: ignore[arg-type]
            components = document.setdefault("components", {}).setdefault("schemas", {})
            components.update(definitions["$defs"] | extra)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
