"""One explicit serving point: a layout at a load, and what a benchmark would measure there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.constants import PassConstants, pass_constants
from app.engine.serving.job import FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory import cache_bytes_per_request, kv_pool_bytes, prefill_chunk
from app.engine.serving.steady import Turn, closed_turn
from app.engine.serving.step import Rates, pass_time, rates_of
from app.engine.serving.work import PassWork, decode_work, prefill_work

RATE_ITERATIONS = 40
SATURATED = 0.97
"""Share of its capacity at which an open queue is called saturated."""
USUAL_WAVES = 10.0
"""Requests of a benchmark run over those in flight where the run does not say (InferenceX sends ten times its concurrency)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint:
    """Load of one replica. Exactly one of ``in_flight`` (closed loop) and ``requests_per_s`` is set; neither: as many
    requests as memory and the engine's limit allow.

    requests: requests of a run in a closed loop, which all begin together; burst: requests of a run that has an end;
    uneven: answers differ in length as people's do, so that the run ends with ever fewer requests in flight;
    longest_output: tokens of the longest answer allowed; beams: sequences decoded for each request. served: requests pass
    a server (network, tokeniser); False: a benchmark calls the engine inside its own process.
    """

    job: ServingJob
    platform: Platform
    layout: ServingLayout
    replicas: int = 1
    in_flight: float | None = None
    requests_per_s: float | None = None
    batch_limit: float = 1024.0
    requests: float | None = None
    burst: float | None = None
    uneven: bool = False
    longest_output: float | None = None
    beams: float = 1.0
    served: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PointWork:
    """A point as arrays: one entry, or many points stacked for a fit. stages: pipeline stages at work at the same time;
    closed: 1 in a closed loop, 0 where requests arrive at random; waves: times the loop turns from beginning to end; packed:
    prompts that one pass reads together in a burst.
    """

    decode: PassWork
    prompt: PassWork
    chunks: FloatArray
    outputs: FloatArray
    inputs: FloatArray
    running: FloatArray
    waiting: FloatArray
    stages: FloatArray
    replicas: FloatArray
    served: FloatArray
    closed: FloatArray
    waves: FloatArray
    packed: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the engine says about a point. Rates are of all replicas together; latencies are means, as benchmarks print.

    saturated: the offered rate exceeds what the replicas carry, so that waiting grows with the length of the run.
    """

    output_tokens_per_s: float
    input_tokens_per_s: float
    ttft_s: float
    tpot_s: float
    turn_s: float
    prompt_tokens_per_s: float
    running: float
    fits: bool
    saturated: bool


def held_by_memory(point: ServingPoint) -> float:
    """Requests of mean length whose caches one replica holds; 0 where weights and one request do not fit."""
    job, layout = point.job, point.layout
    pool = float(np.ravel(kv_pool_bytes(job, point.platform, layout))[0])
    groups = float(np.ravel(layout.attention_dp)[0])
    mean = point.beams * float(np.ravel(cache_bytes_per_request(job, job.input_tokens + job.output_tokens / 2, layout))[0])
    return max(pool / mean * groups, 0.0) if mean > 0 else (np.inf if pool > 0 else 0.0)


def running_requests(point: ServingPoint) -> tuple[float, float]:
    """(requests decoded together, requests waiting for a place) of one replica in a closed loop."""
    held = max(held_by_memory(point), 1.0)
    asked = point.in_flight if point.in_flight is not None else (point.burst or np.inf)
    groups = float(np.ravel(point.layout.attention_dp)[0])
    running = max(min(asked, held, point.batch_limit * groups / point.beams), 1.0 if asked >= 1 else asked)
    return float(running), float(max(asked - running, 0.0)) if np.isfinite(asked) else 0.0


def point_work(point: ServingPoint, running: float, waiting: float = 0.0) -> PointWork:
    """Work of a point with ``running`` requests decoded together."""
    job, platform, layout = point.job, point.platform, point.layout
    # One static batch moves through the stages as a whole; a server keeps a batch in every stage.
    stages = float(np.ravel(layout.pp)[0]) if point.served else 1.0
    context = np.array(job.input_tokens + job.output_tokens / 2)
    per_pass = np.array(max(running / stages, 1.0) * point.beams)
    length = job.computed_input_tokens
    # Short prompts that arrive together share a pass; a lone stream has none to share with.
    together = min(length * max(running / max(job.output_tokens, 1.0), 1.0), prefill_chunk(platform))
    chunk = max(min(length, prefill_chunk(platform)), together)
    return PointWork(
        decode=decode_work(job, platform, layout, per_pass, context),
        prompt=prefill_work(job, platform, layout, np.array(chunk), np.array(length / 2)),
        chunks=np.array(length / chunk),
        outputs=np.array(max(job.output_tokens, 1.0)),
        inputs=np.array(job.input_tokens),
        running=np.array(running),
        waiting=np.array(waiting),
        stages=np.array(stages),
        replicas=np.array(float(point.replicas)),
        served=np.array(float(point.served)),
        closed=np.array(float(point.requests_per_s is None)),
        waves=np.array(max(point.requests / running, 1.0) if point.requests else USUAL_WAVES),
        packed=np.array(prefill_chunk(platform) / length),
    )


def point_turn(work: PointWork, rates: Rates, constants: PassConstants) -> tuple[Turn, FloatArray]:
    """Closed-loop turn of stacked points, and the seconds one prompt takes alone.

    Every request of the first of W waves waits for a burst, of the later ones the share that stays in step: engines that
    read prompts in passes of their own end them together, those that mix prompts with decoding spread them out.
    """
    step = pass_time(work.decode, rates, constants, prompt=False)
    one = pass_time(work.prompt, rates, constants, prompt=True)
    alone = one.total_s * np.maximum(work.chunks, 1.0)
    busy = (one.total_s - one.overhead_s) * work.chunks / work.stages
    in_step = constants.burst_share * np.maximum(work.running, 1.0) ** -constants.burst_decay
    burst = (in_step + (1 - in_step) / work.waves) * work.closed
    turn = closed_turn(work.running, work.outputs, step.total_s, alone, busy, constants.prompt_gap_s * work.served, burst, work.packed)
    return turn, alone


def serve(point: ServingPoint) -> Served:
    """Prediction of one point with the fitted constants."""
    constants = pass_constants(point.platform.gpu, point.job.engine, point.job.year)
    rates = rates_of(point.job, point.platform.gpu)
    if point.requests_per_s is not None:
        return _open_loop(point, rates, constants)
    running, waiting = running_requests(point)
    return _closed_loop(point, running, waiting, rates, constants)


def _closed_loop(point: ServingPoint, running: float, waiting: float, rates: Rates, constants: PassConstants) -> Served:
    work = point_work(point, running, waiting)
    turn, alone = point_turn(work, rates, constants)
    job = point.job
    seconds = float(turn.turn_s)
    per_s = running / seconds * point.replicas
    if point.burst is not None and point.uneven and point.requests_per_s is None:
        per_s = point.burst / run_s(point, running, turn, rates, constants) * point.replicas
    return Served(
        output_tokens_per_s=per_s * job.output_tokens,
        input_tokens_per_s=per_s * job.input_tokens,
        ttft_s=float(turn.first_s) + waiting * seconds / running,
        tpot_s=float(turn.gap_s),
        turn_s=seconds + waiting * seconds / running,
        prompt_tokens_per_s=job.input_tokens / float(alone),
        running=running,
        fits=held_by_memory(point) >= 1.0,
        saturated=waiting > 0,
    )


def run_s(point: ServingPoint, running: float, turn: Turn, rates: Rates, constants: PassConstants) -> float:
    """Seconds of a run of R requests whose answers differ in length, N of them in flight.

    While requests wait all N places are taken: ``(R - N) / N`` turns. The last N then end one by one. Lengths taken as
    exponential, k requests last ``L / k`` steps until the next ends, so the end takes ``L (S1 H_N + s N)`` with the
    step time ``S1 + s k`` and H_N the harmonic number; where answers are capped, at most the cap at the mean step.
    """
    assert point.burst is not None
    places = min(running, point.burst)
    outputs = point.job.output_tokens
    single = float(pass_time(point_work(point, 1.0).decode, rates, constants, prompt=False).total_s)
    full = float(pass_time(point_work(point, places).decode, rates, constants, prompt=False).total_s)
    slope = max(full - single, 0.0) / max(places - 1, 1.0)
    drain = outputs * (single * (np.log(places) + 0.577) + slope * places)
    if point.longest_output is not None:
        longest = max(point.longest_output, outputs)
        drain = min(drain, longest * single + slope * places * outputs)
    prompts = max(float(turn.turn_s) - outputs * full, 0.0)
    return float((point.burst - places) / places * float(turn.turn_s) + prompts + max(drain, outputs * single))


def _open_loop(point: ServingPoint, rates: Rates, constants: PassConstants) -> Served:
    """Requests in flight that an arrival rate keeps up (Little's law), by bisection on the closed-loop curve."""
    assert point.requests_per_s is not None
    wanted = point.requests_per_s
    most, _ = running_requests(replace(point, in_flight=None, burst=None))
    # Of R requests that come too fast, half are in flight in the mean.
    most = min(most, 65_536.0 if point.burst is None else max(point.burst / 2, 1.0))
    top = _closed_loop(point, most, 0.0, rates, constants)
    carried = most / top.turn_s
    if wanted >= carried * SATURATED:
        ended = 1.0 if point.burst is None else 1 / (1 + carried * top.turn_s / point.burst)
        return replace(
            top,
            output_tokens_per_s=top.output_tokens_per_s * ended,
            input_tokens_per_s=top.input_tokens_per_s * ended,
            saturated=True,
        )
    low, high = 1e-3, most
    for _ in range(RATE_ITERATIONS):
        middle = (low * high) ** 0.5
        found = _closed_loop(point, max(middle, 1.0), 0.0, rates, constants)
        low, high = (middle, high) if middle / found.turn_s < wanted else (low, middle)
        if high / low < 1.01:
            break
    found = _closed_loop(point, max(high, 1.0), 0.0, rates, constants)
    total = wanted * point.replicas
    if point.burst is not None:
        # A run of R requests ends when the last is answered: R / rate and one turn more.
        total *= 1 / (1 + wanted * found.turn_s / point.burst)
    return replace(
        found,
        output_tokens_per_s=total * point.job.output_tokens,
        input_tokens_per_s=total * point.job.input_tokens,
        running=high,
    )
