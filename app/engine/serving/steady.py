"""Continuous batching in steady state: latency and throughput of one replica at a number of requests in flight."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.closed_loop import closed_latency
from app.engine.serving.constants import Number, pass_constants
from app.engine.serving.job import FloatArray, ServingJob, ServingLayout
from app.engine.serving.latency import Decoding, Reading
from app.engine.serving.memory import prefill_chunk
from app.engine.serving.open_loop import open_latency
from app.engine.serving.queueing import log_normal_nodes
from app.engine.serving.step import PassTime, decode_step, prompt_pass

NO_LIMIT = 65_536.0
"""Places of a replica on which nothing limits them."""
SLOPE_STEP = 0.02
"""Relative distance over which the growth of a step is taken where only one number of requests is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request's turn in a closed loop, seconds: from sending to the last token, and what it is made of."""

    turn_s: FloatArray
    first_s: FloatArray
    wait_s: FloatArray
    gap_s: FloatArray


def closed_turn(
    in_flight: FloatArray,
    outputs: Number,
    step_s: FloatArray,
    prompt_s: FloatArray,
    busy_s: FloatArray,
    prompt_gap_s: Number,
    burst_share: Number,
    packed: Number = 1.0,
) -> Turn:
    """A closed loop of N requests, each reading its prompt and then taking L steps.

    While all N make one turn the replica reads N prompts (``busy_s`` each) and takes L steps of N sequences, so
    ``turn = N b + L S + g``. Between two steps the engine reads up to ``packed`` prompts (a share of
    one where a prompt takes several passes), and N / L come, so that ``u = N / (L packed)`` of the passes are taken
    and a prompt waits ``u / 2 (1 - u)`` services in the mean (M/D/1, Pollaczek-Khinchine): decoding slows down with the
    reading, which holds the queue short. It never waits longer than in a burst, for half of the passes:
    ``(min(N, (N + packed) / 2) - 1) b``; the two limits join harmonically.
    Requests that start together may stay in step: a share of them, ``burst_share``, waits for a burst.
    What is left of the turn after the first token is shared by the other L - 1 (Little's law), which take a step each at
    the least, so that a turn is never shorter than that.
    """
    turn = in_flight * busy_s + outputs * step_s + prompt_gap_s
    most = np.maximum(np.minimum(in_flight, (in_flight + np.maximum(packed, 1.0)) / 2) - 1, 0.0) * busy_s
    taken = np.minimum(in_flight / (np.asarray(outputs) * packed), 0.995)
    service = busy_s + step_s / np.minimum(packed, 1.0)
    open_wait = taken * service / (2 * (1 - taken))
    spread = np.where(most > 0, open_wait * most / np.maximum(open_wait + most, 1e-30), 0.0)
    wait = spread + burst_share * np.maximum(most - spread, 0.0)
    first = prompt_gap_s + prompt_s + step_s + wait
    gaps = np.maximum(np.asarray(outputs) - 1, 1.0)
    turn = np.maximum(turn, first + gaps * step_s)
    return Turn(turn_s=turn, first_s=first, wait_s=wait, gap_s=(turn - first) / gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One replica at ``in_flight`` requests, arrays over layouts x in_flight. Times in seconds at the percentile asked.

    prefill_s: a prompt read alone.
    """

    in_flight: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    requests_per_s: FloatArray
    step: PassTime
    prefill_s: FloatArray


def steady_state(
    job: ServingJob,
    platform: Platform,
    layout: ServingLayout,
    in_flight: FloatArray,
    percentile: float,
    *,
    at_random: bool = False,
    places: FloatArray | float = NO_LIMIT,
) -> Steady:
    """Latency at a percentile of the requests, and rate, for numbers of requests in flight.

    In a closed loop N requests are always in flight; ``at_random`` they arrive as they please (Poisson) and N of them are
    decoded together in the mean step, of at most ``places``. The laws stand in :mod:`app.engine.serving.latency`.
    Pipeline stages hold different batches: with p stages each step carries N/p sequences and p of them overlap.
    """
    decoding, step = _decoding(job, platform, layout, in_flight)
    reading, prompt = _reading(job, platform, layout)
    most = np.asarray(places, dtype=float)
    # The laws count passes: with drafts a request takes fewer of them, and each gives several tokens.
    passes = replace(job, output_tokens=max(job.output_tokens / job.tokens_per_pass, 1.0)) if job.output_tokens else job
    found = open_latency(passes, decoding, reading, most) if at_random else closed_latency(passes, decoding, reading)
    shape = step.total_s.shape
    between = found.between.quantile(percentile) / job.tokens_per_pass
    values = (in_flight, found.first.quantile(percentile), between, found.requests_per_s)
    flight, ttft, tpot, rate = (np.broadcast_to(value, shape) for value in values)
    return Steady(
        in_flight=flight,
        ttft_s=ttft,
        tpot_s=tpot,
        requests_per_s=rate,
        step=step,
        prefill_s=np.broadcast_to(prompt, shape),
    )


def _decoding(job: ServingJob, platform: Platform, layout: ServingLayout, in_flight: FloatArray) -> tuple[Decoding, PassTime]:
    """Steps at the numbers of requests asked for, with their growth between neighbours; and the steps by part."""
    asked = np.asarray(in_flight, dtype=float)
    columns = asked.shape[-1]
    tried = asked if columns > 1 else np.concatenate([np.maximum(asked, 1.0), np.maximum(asked, 1.0) * (1 + SLOPE_STEP)], axis=-1)
    batch = np.maximum(tried / layout.pp, 1.0)
    whole = decode_step(job, platform, layout, batch, np.array(job.running_context_tokens))
    apart = np.maximum(np.diff(tried, axis=-1), 1e-9)
    slope, cache = (np.maximum(np.diff(part, axis=-1) / apart, 0.0) for part in (whole.total_s, whole.attention_s))
    if columns > 1:
        slope, cache = (
            np.concatenate([part[..., :1], (part[..., :-1] + part[..., 1:]) / 2, part[..., -1:]], axis=-1) for part in (slope, cache)
        )
        step = whole
    else:
        step = PassTime(**{field.name: getattr(whole, field.name)[..., :1] for field in fields(PassTime)})
    # Where less than one request runs in the mean, steps still carry one or more: the tangent through one.
    seconds = step.total_s - slope * np.maximum(1.0 - asked, 0.0)
    return Decoding(running=asked + 0.0 * seconds, step_s=seconds, slope_s=slope, cache_slope_s=cache), step


def _reading(job: ServingJob, platform: Platform, layout: ServingLayout) -> tuple[Reading, FloatArray]:
    """Prompts of the job's lengths, and the seconds one of mean length takes alone."""
    constants = pass_constants(platform.gpu, job.engine, job.year)
    budget = prefill_chunk(platform)
    values, weights = log_normal_nodes(job.input_cv)
    mean = job.computed_input_tokens
    tokens = np.maximum(mean * values, 1.0)
    together = max(min(4 * mean, budget), mean)
    one, chunks = prompt_pass(job, platform, layout, np.append(tokens, [mean, together]) + 0.0 * layout.tp)
    held = np.maximum(one.total_s - one.overhead_s, 0.0) * chunks / layout.pp
    each, single, joint = held[..., :-2], held[..., -2:-1], held[..., -1:]
    powers = [each]
    for _ in range(3):
        powers.append(powers[-1] * each)
    first, second, third, fourth = (power if len(weights) == 1 else (power @ weights)[..., np.newaxis] for power in powers)
    further = np.minimum((joint - single) / max(together / mean - 1, 1e-9), single) if together > 1.5 * mean else single
    reading = Reading(
        tokens=tokens,
        weights=weights,
        held_s=each,
        lengths=_length_moments(tokens, weights),
        seconds=(first, second, third, fourth),
        alone=np.asarray(layout.pp),
        next_s=further * first / single,
        budget=budget,
        gap_s=one.overhead_s[..., -2:-1],
        before_s=float(constants.prompt_gap_s),
    )
    return reading, one.total_s[..., -2:-1] * chunks[..., -2:-1]


def _length_moments(tokens: FloatArray, weights: FloatArray) -> tuple[float, float, float, float]:
    """``E[P^n]`` for n up to 4."""
    first, second, third, fourth = (float(np.dot(weights, tokens**order)) for order in (1, 2, 3, 4))
    return first, second, third, fourth
