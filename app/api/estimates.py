"""Estimates of one explicit thing: a training or serving run, a collective, a network."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from app.api.dependencies import CatalogParameter, JsonBody
from app.api.operations import COMPUTES, problems, takes
from app.design.fabric_request import estimate_fabric
from app.engine.collective_request import estimate_collective
from app.engine.serving.request import estimate_point
from app.engine.training.request import estimate_layout
from app.json_text import load_object

router = APIRouter(prefix="/api/v1/estimates", tags=["Estimates"])

COLLECTIVE = {
    "collective": "all_reduce", "message_bytes": 1_073_741_824, "gpu": "h100-sxm-80gb", "n_gpus": 16, "n_nodes": 2, "gpus_per_node": 8,
    "inter_link": "8x 400G InfiniBand",
}  # fmt: skip
FABRIC = {"gpu": "h100-sxm-80gb", "n_nodes": 32, "gpus_per_node": 8, "nics_per_node": 8, "nic_gbps": 400, "oversubscription": 1}


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


TRAINING = {
    "catalog_model": "meta-llama/Llama-2-7b-hf", "gpu_id": "h100-sxm-80gb", "n_gpus": 8, "gpus_per_node": 8, "seq_len": 4096, "dp": 8,
    "micro_batch": 2, "global_batch_seqs": 128, "precision": "bf16", "sharding": "zero3", "task": "pretrain",
}  # fmt: skip


@router.post(
    "/training",
    summary="Step time, rate and memory of one training run",
    operation_id="estimate_training",
    responses=_answer("step_s, tokens_per_s, mfu, peak_mem_gb and more, each as low, mid and high"),
    openapi_extra=takes("Request", example=TRAINING),
)
def training(body: JsonBody, catalog: CatalogParameter) -> Response:
    """One explicit layout; the keys are the columns of the published training measurements, and `offload` (none, optimizer,
    parameters) and `shard_ranks` (GPUs that share one copy of sharded state; sharding `hsdp` is one server's). A request
    that says nothing of the layout also gets `search`: the layouts no other beats in time and memory, the best by each
    objective, and how many were refused for want of memory. `goodput` is what failures
    and checkpoints leave of the time; with `tokens_b` (billions of tokens of the run) the answer has `days`, which include them.
    `run` echoes what was understood, defaults included; `fits` is
    false where even the low end of the memory range exceeds `usable_gb`, `fits_at_mid` where the prediction itself does."""
    return JSONResponse(estimate_layout(load_object(body), catalog))


SERVING = {
    "catalog_model": "meta-llama/Llama-3.1-8B-Instruct", "gpu_id": "h100-sxm-80gb", "tp": 1, "isl": 1000, "osl": 300,
    "concurrency_or_batch": 16, "weight_kind": "bf16", "engine_kind": "vllm",
}  # fmt: skip


@router.post(
    "/serving",
    summary="Latency, rate and memory of one serving point",
    operation_id="estimate_serving",
    responses=_answer("ttft_ms, tpot_ms, output_tok_s_total and more, each as low, mid and high"),
    openapi_extra=takes("Request", example=SERVING),
)
def serving(body: JsonBody, catalog: CatalogParameter) -> Response:
    """One explicit replica; the keys are the columns of the published serving measurements. A request that says nothing of
    the layout also gets `front`: the layouts, formats and loads that no other beats in both throughput per GPU and the speed
    one user sees."""
    return JSONResponse(estimate_point(load_object(body), catalog))
