"""The serving designs worth choosing between: throughput per GPU against the speed one user sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.schema import Gpu
from app.engine.compute import narrow_formats
from app.engine.pareto import pareto_front
from app.engine.platform import Platform
from app.engine.result import Shortfall, Span
from app.engine.serving.constants import first_spread, rate_spread, time_spread
from app.engine.serving.job import ServingJob
from app.engine.serving.replica import IN_FLIGHT, evaluate
from app.ranges import Range
from app.units import MS

MEDIAN = 50.0
"""The front compares typical speeds; limits at a percentile are the sizing's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChoice:
    """One layout of one replica at one load."""

    weights: str
    tp: int
    pp: int
    attention_dp: int
    gpus: int
    in_flight: int
    tokens_per_s_per_gpu: float
    """Output tokens of all requests."""
    tokens_per_s_per_user: float
    """1 / TPOT."""
    ttft_s: float


def weights_of(gpu: Gpu, native: str) -> tuple[str, ...]:
    """The checkpoint's own format, and the narrower ones the GPU multiplies in."""
    order = ("bf16", "fp8", "fp4")
    wide = order[: order.index(native) + 1] if native in order else ()
    return (native, *(name for name in narrow_formats(gpu) if name not in wide and native in order))


def serving_front(job: ServingJob, platform: Platform, max_gpus: int, weights: Sequence[str] = ()) -> tuple[ServingChoice, ...]:
    """Layouts, formats and loads that no other beats in both output tokens/s per GPU and tokens/s of one user (Pareto), the
    fastest for a user first. Loads that do not fit in memory are left out. ``weights``: formats; the job's where none."""
    rows: list[tuple[str, NDArray[np.float64]]] = []
    spans: tuple[Span, ...] = ("one_gpu", "one_server", "many_servers")
    for name in weights or (job.weights,):
        for span in spans:
            found = evaluate(replace(job, weights=name), platform, span, max_gpus, MEDIAN)
            if isinstance(found, Shortfall):
                continue
            steady, layout = found.steady, found.layout
            fits = IN_FLIGHT[np.newaxis, :] <= found.most_by_memory[:, np.newaxis]
            figures = np.broadcast_arrays(
                layout.tp, layout.pp, layout.attention_dp, layout.gpus, IN_FLIGHT[np.newaxis, :],
                steady.requests_per_s * job.output_tokens / layout.gpus, 1 / steady.tpot_s, steady.ttft_s,
            )  # fmt: skip
            rows.append((name, np.stack([each[fits] for each in figures], axis=1)))
    if not rows:
        return ()
    names = np.concatenate([np.full(len(block), index) for index, (_, block) in enumerate(rows)])
    table = np.concatenate([block for _, block in rows])
    return tuple(_choice(rows[names[index]][0], table[index]) for index in pareto_front(-table[:, [6, 5]]))


def _choice(weights: str, row: NDArray[np.float64]) -> ServingChoice:
    tp, pp, groups, gpus, in_flight = (int(value) for value in row[:5])
    return ServingChoice(
        weights=weights, tp=tp, pp=pp, attention_dp=groups, gpus=gpus, in_flight=in_flight,
        tokens_per_s_per_gpu=float(row[5]), tokens_per_s_per_user=float(row[6]), ttft_s=float(row[7]),
    )  # fmt: skip


def described(front: Sequence[ServingChoice], job: ServingJob) -> list[dict[str, Any]]:
    """The front as JSON, predicted figures as ranges."""
    rate, time = rate_spread(job), time_spread(job)
    return [
        {
            "weight_kind": each.weights,
            "tp": each.tp // each.attention_dp,
            "pp": each.pp,
            "dp": each.attention_dp,
            "n_gpus": each.gpus,
            "concurrency": each.in_flight,
            "output_tok_s_per_gpu": Range.around(each.tokens_per_s_per_gpu, *rate).model_dump(),
            "tok_s_per_user": Range.around(each.tokens_per_s_per_user, 1 / time[1], 1 / time[0]).model_dump(),
            "ttft_ms": Range.around(each.ttft_s / MS, *first_spread(job)).model_dump(),
        }
        for each in front
    ]
