"""Estimates of one explicit thing: a collective or a network."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from app.api.dependencies import CatalogParameter, JsonBody
from app.api.operations import COMPUTES, problems, takes
from app.design.fabric_request import estimate_fabric
from app.engine.collective_request import estimate_collective
from app.json_text import load_object

router = APIRouter(prefix="/api/v1/estimates", tags=["Estimates"])

COLLECTIVE = {"collective": "all_reduce", "message_bytes": 1_073_741_824, "gpu": "h100-sxm", "n_gpus": 16, "n_nodes": 2, "gpus_per_node": 8}
FABRIC = {"gpu": "h100-sxm", "n_nodes": 32, "gpus_per_node": 8, "nics_per_node": 8, "nic_gbps": 400, "oversubscription": 1}


def _answer(description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": description, "content": {"application/json": {"schema": {"type": "object"}}}}} | problems(*COMPUTES)


@router.post(
    "/collective",
    summary="Time of one collective",
    operation_id="estimate_collective",
    responses=_answer("time_s, algbw_gb_per_s and busbw_gb_per_s, each as low, mid and high"),
    openapi_extra=takes("Request", example=COLLECTIVE),
)
def collective(body: JsonBody, catalog: CatalogParameter) -> Response:
    """Counted as nccl-tests counts: message_bytes is its size column, busbw its bus bandwidth."""
    return JSONResponse(estimate_collective(load_object(body), catalog))


@router.post(
    "/fabric",
    summary="Switches and cables of a network",
    operation_id="estimate_fabric",
    responses=_answer("network: tiers, rails, switches by tier, cables by tier"),
    openapi_extra=takes("Request", example=FABRIC),
)
def fabric(body: JsonBody, catalog: CatalogParameter) -> Response:
    """NICs and their rate default to what the GPU is usually bought with."""
    return JSONResponse(estimate_fabric(load_object(body), catalog))
