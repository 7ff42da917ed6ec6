"""The catalogue as data, read-only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from app.api.dependencies import CatalogParameter
from app.api.operations import READS, SCHEMA, problems
from app.catalog.loader import Catalog

router = APIRouter(prefix="/api/v1/catalog", tags=["Catalogue"])

Table = Literal["gpus", "servers", "models", "links", "switches", "prices"]
SCHEMAS = [{"$ref": f"{SCHEMA}CatalogAnswer"}, {"$ref": f"{SCHEMA}PriceAnswer"}]


@router.get(
    "/{table}",
    summary="Rows of one table of the catalogue",
    operation_id="read_catalog",
    responses=problems(*READS)
    | {
        200: {"description": "The rows", "content": {"application/json": {"schema": {"anyOf": SCHEMAS}}}},
        304: {"description": "Unchanged since the version named in If-None-Match"},
    },
)
def rows(table: Table, request: Request, catalog: CatalogParameter) -> Response:
    """Every row names its source, date and kind. The ETag changes with the catalogue."""
    etag = f'"{catalog.version}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return JSONResponse({"version": catalog.version} | _content(table, catalog), headers=headers)


def _content(table: Table, catalog: Catalog) -> dict[str, Any]:
    match table:
        case "gpus":
            return {"items": _documents(catalog.gpus.values())}
        case "servers":
            return {"items": _documents(catalog.servers.values())}
        case "switches":
            return {"items": _documents(catalog.switches.values())}
        case "links":
            return {"items": _documents(catalog.links.values())}
        case "models":
            return {"items": _models(catalog)}
        case "prices":
            return {
                "items": _documents(catalog.prices),
                "running_costs": _documents(catalog.running_costs),
                "cloud": _documents(catalog.cloud_prices),
                "hosted_api": _documents(catalog.api_prices),
            }


def _documents(found: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [row.model_dump(mode="json") for row in found]


def _models(catalog: Catalog) -> list[dict[str, Any]]:
    """Shapes, each with where it comes from."""
    sources = catalog.model_sources
    return [
        dataclasses.asdict(shape) | {"source": sources[shape.id].model_dump(mode="json") if shape.id in sources else None}
        for shape in catalog.models.values()
    ]
