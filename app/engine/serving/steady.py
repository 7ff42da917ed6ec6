"""Continuous batching in steady state: latency and throughput of one replica at a number of requests in flight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.constants import Number, pass_constants
from app.engine.serving.job import FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory import prefill_chunk
from app.engine.serving.step import PassTime, decode_step, prompt_pass

TPOT_SPREAD = 0.10
"""Relative standard deviation of the time between tokens: batch size and prompt chunks vary from step to step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request's turn in a closed loop, seconds: from sending to the last token, and what it is made of."""

    turn_s: FloatArray
    first_s: FloatArray
    wait_s: FloatArray
    gap_s: FloatArray
    prompt_share: FloatArray


def closed_turn(
    in_flight: FloatArray,
    outputs: Number,
    step_s: FloatArray,
    prompt_s: FloatArray,
    busy_s: FloatArray,
    prompt_gap_s: Number,
    burst_share: Number,
    packed: Number = 1.0,
    burst_decay: Number = 0.0,
) -> Turn:
    """A closed loop of N requests, each reading its prompt and then taking L steps.

    While all N make one turn the replica reads N prompts (``busy_s`` each) and takes L steps of N sequences, so
    ``turn = N b + L S + g``. Between two steps the engine reads up to ``packed`` prompts (a share of
    one where a prompt takes several passes), and N / L come, so that ``u = N / (L packed)`` of the passes are taken
    and a prompt waits ``u / 2 (1 - u)`` services in the mean (M/D/1, Pollaczek-Khinchine): decoding slows down with the
    reading, which holds the queue short. It never waits longer than in a burst, for half of the passes:
    ``(min(N, (N + packed) / 2) - 1) b``; the two limits join harmonically.
    Requests of one length that start together stay in step: a share of them, ``burst_share N^-burst_decay``, waits for
    a burst.
    What is left of the turn after the first token is shared by the other L - 1 (Little's law holds).
    """
    turn = in_flight * busy_s + outputs * step_s + prompt_gap_s
    share = np.minimum(in_flight * busy_s / turn, 0.995)
    most = np.maximum(np.minimum(in_flight, (in_flight + np.maximum(packed, 1.0)) / 2) - 1, 0.0) * busy_s
    taken = np.minimum(in_flight / (np.asarray(outputs) * packed), 0.995)
    service = busy_s + step_s / np.minimum(packed, 1.0)
    open_wait = taken * service / (2 * (1 - taken))
    spread = np.where(most > 0, open_wait * most / np.maximum(open_wait + most, 1e-30), 0.0)
    wait = spread + burst_share * np.maximum(in_flight, 1.0) ** -burst_decay * np.maximum(most - spread, 0.0)
    first = prompt_gap_s + prompt_s + step_s + wait
    after = (turn - first) / np.maximum(np.asarray(outputs) - 1, 1.0)
    return Turn(turn_s=turn, first_s=first, wait_s=wait, gap_s=np.maximum(after, step_s), prompt_share=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One replica at ``in_flight`` requests, arrays over layouts x in_flight. Times in seconds at the percentile asked.

    prefill_share: share of the replica's time spent on prompts. prefill_s: a prompt read alone.
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

    Pipeline stages hold different batches: with p stages each step carries N/p sequences and p of them overlap.
    Waiting is taken as exponential beyond its mean, so its percentile q is ``-ln(1 - q)`` times the mean.
    """
    context = np.array(job.input_tokens + job.output_tokens / 2)
    stages = layout.pp
    step = decode_step(job, platform, layout, np.maximum(in_flight / stages, 1.0), context)
    one, chunks = prompt_pass(job, platform, layout, np.full_like(in_flight[..., :1], job.computed_input_tokens))
    prompt = one.total_s * chunks
    busy = np.maximum(one.total_s - one.overhead_s, 0.0) * chunks / stages
    constants = pass_constants(platform.gpu, job.engine, job.year)
    outputs = max(job.output_tokens / job.tokens_per_pass, 1.0)
    # People do not start together as a benchmark's requests do, so nobody waits for a burst.
    packed = prefill_chunk(platform) / job.computed_input_tokens
    turn = closed_turn(in_flight, outputs, step.total_s, prompt, busy, constants.prompt_gap_s, 0.0, packed)
    tail = -math.log(max(1 - percentile / 100, 1e-6))
    ttft = turn.first_s + turn.wait_s * (tail - 1)
    tpot = turn.gap_s / job.tokens_per_pass * (1 + TPOT_SPREAD * normal_quantile(percentile))
    rate = in_flight / turn.turn_s
    shape = np.broadcast_shapes(turn.turn_s.shape, ttft.shape)
    ttft, tpot, rate, share, flight = (np.broadcast_to(value, shape) for value in (ttft, tpot, rate, turn.prompt_share, in_flight))
    return Steady(
        in_flight=flight,
        ttft_s=ttft,
        tpot_s=tpot,
        requests_per_s=rate,
        prefill_share=share,
        step=step,
        prefill_s=np.broadcast_to(prompt, shape),
    )


def normal_quantile(percentile: float) -> float:
    """Standard normal quantile of a percentile."""
    return NormalDist().inv_cdf(min(max(percentile / 100, 0.01), 0.9999))
