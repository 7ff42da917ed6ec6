"""Models, platforms and jobs whose figures can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.engine.platform import Platform, platform_of
from app.engine.serving.job import ServingJob, ServingLayout
from app.ranges import Range
from app.workload.demand import PrecisionDemand, ServingDemand

TOY = ModelShape(
    id="toy", name="toy", origin="inferred", layers=4, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn_dense=128, gated_mlp=True,
    vocab=100, tied_embeddings=False, full_attention_layers=4, mlp_layers=4, params_b=74e-6, active_params_b=74e-6,
)  # fmt: skip
AUTO = PrecisionDemand(weights="auto", kv_cache="auto", training="auto")


def model(name: str) -> ModelShape:
    shape = load_catalog().find_model(name)
    assert shape is not None
    return shape


def job(name: str = "meta-llama/Llama-3.1-8B-Instruct", **changes: Any) -> ServingJob:
    return replace(ServingJob(shape=model(name), weights="bf16"), **changes)


def box(gpu: str = "h100-sxm-80gb", gpus: int = 8) -> Platform:
    return platform_of(load_catalog().gpus[gpu], None, gpus_per_server=gpus)


def split(tp: float = 1, pp: float = 1, attention_dp: float = 1) -> ServingLayout:
    return ServingLayout(tp=np.array(float(tp)), pp=np.array(float(pp)), attention_dp=np.array(float(attention_dp)))


def demand(**changes: Any) -> ServingDemand:
    base = ServingDemand(
        concurrent=Range.exact(16), requests_per_s=None, stated_by="concurrent_users", input_tokens=1000, output_tokens=300,
        shared_prefix_tokens=0, max_context_tokens=4096, ttft_ms=2000, tpot_ms=100, percentile=95, engine="auto", engine_version="",
        turns=1, think_time_s=0, prefix_reuse=0, images_per_request=0, image_pixels=0,
    )  # fmt: skip
    return replace(base, **changes)
