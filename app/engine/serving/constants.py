"""Fitted constants of serving engines and of serving kernels, by engine, year and GPU generation."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import numpy as np

from app.catalog.schema import Gpu
from app.engine.serving.job import FloatArray, ServingJob
from app.engine.serving.memory_rules import version_number

REFERENCE_YEAR = 2025.5
"""Year the engine figures are stated for."""

LATEST_YEAR = 2026.5
"""Year taken where neither release nor year is stated."""
BEYOND_FACTOR = 1.25
"""How much wider a range is for a release newer than any the constants were fitted on; assumption."""

Number = float | FloatArray


@cache
def serving_constants() -> dict[str, Any]:
    """The data file with the fit that produced it."""
    return tomllib.loads((resources.files("app.engine") / "data" / "serving.toml").read_text(encoding="utf-8"))


def spread(name: str) -> tuple[float, float]:
    """Factors on a predicted ``rate``, ``tpot`` or ``ttft`` between which four published points in five lie."""
    low, high = serving_constants()["spread"][name]
    return float(low), float(high)


def release_year(engine: str, version: str, stated: float | None) -> float:
    """When the engine's release came out, as a year with fraction; else the middle of the year stated; else the latest."""
    number = version_number(version)
    releases = serving_constants().get("releases", {}).get(engine, {})
    if number is not None and releases:
        known = sorted((version_number(text) or 0.0, year) for text, year in releases.items())
        if number <= known[-1][0] + 0.2:
            return float(np.interp(number, [first for first, _ in known], [year for _, year in known]))
    return min(stated + 0.5, LATEST_YEAR) if stated else LATEST_YEAR


def beyond_calibrated(engine: str, version: str) -> bool:
    """Whether a release is newer than every one the constants were fitted on."""
    number = version_number(version)
    newest = version_number(str(engine_row(serving_constants(), engine)["version"]))
    return number is not None and newest is not None and number > newest


def time_spread(job: ServingJob) -> tuple[float, float]:
    """Factors on a predicted time per token."""
    return _widened("tpot", job)


def first_spread(job: ServingJob) -> tuple[float, float]:
    """Factors on a predicted time to first token: it holds queueing, and is known less well than the time per token."""
    return _widened("ttft", job)


def rate_spread(job: ServingJob) -> tuple[float, float]:
    """Factors on a predicted rate."""
    return _widened("rate", job)


def _widened(kind: str, job: ServingJob) -> tuple[float, float]:
    """The fitted factors of a kind of figure; wider for a release nobody has measured."""
    low, high = spread(kind)
    wider = BEYOND_FACTOR if beyond_calibrated(job.engine, job.engine_version) else 1.0
    return low / wider, high * wider


@dataclass(frozen=True, slots=True, kw_only=True)
class PassConstants:
    """What turns work into time; floats, or arrays in the shape of the work.

    *_share: share of peak FLOP/s or bandwidth; rows_half: rows of a product at which half the rate is reached
    (widened_rows_half: of kernels that unpack stored weights, whose tiles are smaller);
    *_gap_s: time per step, layer, MoE layer, layer split over GPUs and sequence that no arithmetic explains; burst_share:
    how far requests stay in step with each other, ``burst_share N^-burst_decay``; group_repeat: how often decoding reads
    a cache again for each further query head that shares it; gguf_share: rate of GGUF kernels against
    the engine's own; join: exponent of the norm
    that joins arithmetic and traffic (infinite = the longer counts alone); prompt_gap_s: once per request.
    """

    memory_share: Number
    cache_share: Number
    product_share: Number
    narrow_product_share: Number
    expert_share: Number
    attention_share: Number
    group_repeat: Number
    rows_half: Number
    widened_rows_half: Number
    expert_rows_half: Number
    side_half: Number
    widened_share: Number
    gguf_share: Number
    step_gap_s: Number
    layer_gap_s: Number
    moe_gap_s: Number
    parallel_gap_s: Number
    sequence_gap_s: Number
    prompt_gap_s: Number
    burst_share: Number
    burst_decay: Number
    kernel_progress: Number
    join: Number


GENERATION_KEYS = (
    "memory_share",
    "cache_share",
    "product_share",
    "narrow_product_share",
    "attention_share",
    "group_repeat",
    "gap_factor",
    "gap_growth_per_year",
)
COMMON_KEYS = (
    "expert_share",
    "rows_half",
    "widened_rows_half",
    "expert_rows_half",
    "side_half",
    "widened_share",
    "gguf_share",
    "join",
)


def generation_row(table: dict[str, Any], generation: str) -> dict[str, float]:
    """Constants of a GPU generation; of the one named under ``like`` or ``default`` where it has none of its own."""
    row = table["generation"].get(generation, {})
    base = table["generation"]["default"]
    return {**base, **row}


def engine_row(table: dict[str, Any], engine: str) -> dict[str, Any]:
    """Constants of an engine; engines that were not fitted take vLLM's."""
    row: dict[str, Any] = {**table["engine"]["vllm"], **table["engine"].get(engine, {})}
    return row


def pass_constants_from(table: dict[str, Any], gpu_generation: str, engine: str, year: float) -> PassConstants:
    """Constants for one GPU generation, engine and year of release out of a table like ``serving.toml``.

    A gap g of the reference year was ``g r^(2025.5 - year)``; kernels gave ``1 - p (2025.5 - year)`` of today's rate, and
    read a cache ``1 + q (2025.5 - year) (h - 1)`` times for h query heads that share it, which today's read once.
    """
    hardware, software, common = generation_row(table, gpu_generation), engine_row(table, engine), table["common"]
    age = min(max(REFERENCE_YEAR - year, -1.0), 2.5)
    slower = software["gap_growth_per_year"] ** age
    factor = hardware["gap_factor"] * hardware["gap_growth_per_year"] ** age
    return PassConstants(
        memory_share=hardware["memory_share"],
        cache_share=hardware["cache_share"] * software["cache_factor"],
        product_share=hardware["product_share"],
        narrow_product_share=hardware["narrow_product_share"],
        expert_share=common["expert_share"],
        attention_share=hardware["attention_share"],
        group_repeat=hardware["group_repeat"] * max(age, 0.0),
        rows_half=common["rows_half"],
        widened_rows_half=common["widened_rows_half"],
        expert_rows_half=common["expert_rows_half"],
        side_half=common["side_half"],
        widened_share=common["widened_share"],
        gguf_share=common["gguf_share"],
        burst_decay=software["burst_decay"],
        step_gap_s=software["step_gap_s"] * slower * factor,
        layer_gap_s=software["layer_gap_s"] * factor,
        moe_gap_s=software["moe_gap_s"] * slower * factor,
        parallel_gap_s=software["parallel_gap_s"] * factor,
        sequence_gap_s=software["sequence_gap_s"] * slower * factor,
        prompt_gap_s=software["prompt_gap_s"] * slower * factor,
        burst_share=software["burst_share"],
        kernel_progress=1 - software["kernel_loss_per_year"] * max(age, 0.0),
        join=common["join"],
    )


@lru_cache(maxsize=512)
def _cached(generation: str, engine: str, year: float) -> PassConstants:
    return pass_constants_from(serving_constants(), generation, engine, year)


def pass_constants(gpu: Gpu, engine: str, year: float) -> PassConstants:
    """Fitted constants for a GPU, an engine and its year of release."""
    return _cached(gpu.generation, engine, year)
