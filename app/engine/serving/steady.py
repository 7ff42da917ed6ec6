"""Continuous batching in steady state: latency and throughput of one replica at a number of requests in flight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.platform import Platform
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.step import PassTime, decode_step, prefill

FloatArray = NDArray[np.float64]

TPOT_SPREAD = 0.10
"""Relative standard deviation of the time between tokens: batch size and prompt chunks vary from step to step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One replica at ``in_flight`` requests, arrays over layouts x in_flight. Times in seconds at the percentile asked.

    prefill_share: share of the replica's time spent on prompts.
    """

    in_flight: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    requests_per_s: FloatArray
    prefill_share: FloatArray
    step: PassTime
    prefill_s: FloatArray


def steady_state(job: ServingJob, platform: Platform, layout: ServingLayout, in_flight: FloatArray, percentile: float) -> Steady:
    """Closed loop with N requests always in flight.

    In the time all N make one full turn the replica reads N prompts and takes ``output`` steps of N sequences, so a
    request lasts ``N P + L S(N)`` and N / that are finished per second. Pipeline stages hold different batches: with
    p stages each step carries N/p sequences and p of them overlap. TTFT is the prompt's own time, the step it
    waits for and the prompts queued before it: arrivals during others' prompts wait ``rho P / 2 (1 - rho)``
    in the mean (M/D/1 with rho the share of time spent on prompts), exponentially distributed beyond it.
    """
    context = job.input_tokens + job.output_tokens / 2
    stages = layout.pp
    per_step = np.maximum(in_flight / stages, 1.0)
    step = decode_step(job, platform, layout, per_step, np.array(context))
    one_prefill = prefill(
        job, platform, layout, np.array([[job.computed_input_tokens]]) if in_flight.ndim > 1 else np.array([job.computed_input_tokens])
    )
    busy_prefill = one_prefill / stages
    steps = max(job.output_tokens, 1.0)
    turn = in_flight * busy_prefill + steps * step.total_s
    rate = in_flight / turn
    share = np.minimum(rate * busy_prefill, 0.98)
    tail = -math.log(max(1 - percentile / 100, 1e-6))
    wait = share * one_prefill / (2 * (1 - share))
    ttft = one_prefill + step.total_s + wait * tail
    tpot = (step.total_s + in_flight * busy_prefill / steps) * (1 + TPOT_SPREAD * _normal_quantile(percentile))
    shape = np.broadcast_shapes(turn.shape, ttft.shape)
    ttft, tpot, rate, share, flight = (np.broadcast_to(value, shape) for value in (ttft, tpot, rate, share, in_flight))
    return Steady(
        in_flight=flight,
        ttft_s=ttft,
        tpot_s=tpot,
        requests_per_s=rate,
        prefill_share=share,
        step=step,
        prefill_s=np.broadcast_to(one_prefill, shape),
    )


def _normal_quantile(percentile: float) -> float:
    """Standard normal quantile (Acklam's central approximation through statistics.NormalDist)."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(min(max(percentile / 100, 0.01), 0.9999))
