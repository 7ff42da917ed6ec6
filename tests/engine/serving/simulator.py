"""A discrete-event simulation of one replica, to hold the formulas of the steady state against.

What an engine with continuous batching and chunked prefill does (Yu et al., "Orca", OSDI 2022; Agrawal et al.,
"Sarathi-Serve", arXiv 2403.02310), step by step: every running request takes one token, what is left of the step's
token budget reads prompts first come, first served, and a prompt read to its end gives its first token with that step.
The times of the steps are the product's own formulas, read off a grid.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log, sqrt

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.constants import pass_constants
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory import prefill_chunk
from app.engine.serving.step import decode_step, pass_time, rates_of
from app.engine.serving.work import prefill_work

Seconds = Callable[[float, float], float]
CONTEXTS = 24
TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """``decode(n, context)``: a step of n running requests of that mean context; ``read(tokens, context)``: what prompt
    tokens that attend to so many others add to it; overhead_s: the gap of a step that only reads; budget: tokens of a step;
    before_s: once per request, before it reaches the scheduler."""

    decode: Seconds
    read: Seconds
    overhead_s: float
    budget: float
    before_s: float = 0.0


def constant_steps(step_s: float, token_s: float, *, budget: float = inf, overhead_s: float = 0.0, per_request_s: float = 0.0) -> StepTimes:
    """Steps that can be followed by hand: ``step_s + n per_request_s``, and ``token_s`` a prompt token."""
    return StepTimes(
        decode=lambda running, _: step_s + running * per_request_s,
        read=lambda tokens, _: tokens * token_s,
        overhead_s=overhead_s,
        budget=budget,
    )


def product_steps(job: ServingJob, platform: Platform, layout: ServingLayout, places: int, longest: float) -> StepTimes:
    """The product's step formulas on a grid: running requests x context, and prompt tokens x attended context."""
    constants = pass_constants(platform.gpu, job.engine, job.year)
    running = np.unique(np.round(np.geomspace(1, max(places, 2), 48)))
    contexts = np.linspace(1.0, longest, CONTEXTS)
    decode = decode_step(job, platform, layout, running[:, None], contexts[None, :]).total_s
    budget = prefill_chunk(platform)
    tokens = np.unique(np.round(np.geomspace(1, budget, TOKENS)))
    work = prefill_work(job, platform, layout, tokens[:, None] + 0.0 * contexts, contexts[None, :] + 0.0 * tokens[:, None])
    passes = pass_time(work, rates_of(job, platform.gpu), constants, prompt=True)
    return StepTimes(
        decode=_interpolated(running, contexts, np.broadcast_to(decode, (len(running), CONTEXTS))),
        read=_interpolated(tokens, contexts, passes.total_s - passes.overhead_s),
        overhead_s=float(np.ravel(passes.overhead_s)[0]),
        budget=budget,
        before_s=float(constants.prompt_gap_s),
    )


def _interpolated(first: np.ndarray, second: np.ndarray, table: np.ndarray) -> Seconds:
    """Bilinear interpolation: whole numbers on the first axis, an even grid on the second."""
    whole = np.arange(int(first[-1]) + 1)
    rows = np.stack([np.interp(whole, first, column) for column in table.T], axis=1).tolist()
    start, width, last = float(second[0]), float(second[1] - second[0]), len(second) - 2

    def at(count: float, value: float) -> float:
        place = max((value - start) / width, 0.0)
        index = min(int(place), last)
        row = rows[int(count)]
        return float(row[index] + (row[index + 1] - row[index]) * (place - index))

    return at


@dataclass(slots=True)
class _Request:
    asked_s: float
    prompt: int
    answer: int
    read: int = 0
    first_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Prompts (log-normal) and answers (gamma; exponential at 1): means in tokens and coefficients of variation, 0 = alike."""

    prompt: float
    answer: float
    prompt_cv: float = 0.0
    answer_cv: float = 0.0

    def drawn(self, generator: random.Random) -> tuple[int, int]:
        """Tokens of one prompt and of one answer (at least 2, so that there is a time between tokens)."""
        prompt, answer = self.prompt, self.answer
        if self.prompt_cv > 0:
            sigma = sqrt(log(1 + self.prompt_cv**2))
            prompt *= exp(generator.gauss(-sigma * sigma / 2, sigma))
        if self.answer_cv > 0:
            shape = 1 / self.answer_cv**2
            answer = generator.gammavariate(shape, answer / shape)
        return max(round(prompt), 1), max(round(answer), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What clients of one run saw after the warm-up: seconds per request, requests per second, mean requests in flight."""

    ttft_s: np.ndarray
    tpot_s: np.ndarray
    requests_per_s: float
    in_flight: float


def simulate(
    steps: StepTimes,
    lengths: Lengths,
    *,
    requests: int,
    places: int,
    requests_per_s: float | None = None,
    users: int | None = None,
    seed: int = 1,
) -> Trace:
    """Run ``requests`` requests that arrive at random (Poisson), or from ``users`` who ask again once answered.

    The first third is left out: the replica starts empty.
    """
    generator = random.Random(seed)
    arrivals: list[tuple[float, int]] = []
    sent = 0

    def send(at: float) -> None:
        nonlocal sent
        sent += 1
        heapq.heappush(arrivals, (at, sent))

    if users is not None:
        for _ in range(users):
            send(0.0)
    else:
        assert requests_per_s is not None
        send(generator.expovariate(requests_per_s))
    waiting: deque[_Request] = deque()
    reading: deque[_Request] = deque()
    ending: dict[int, list[_Request]] = {}
    clock, taken, running, context, done = 0.0, 0, 0, 0, 0
    skipped = requests // 3
    started_s, area = 0.0, 0.0
    first: list[float] = []
    between: list[float] = []
    while done < requests:
        while arrivals and arrivals[0][0] + steps.before_s <= clock:
            at, _ = heapq.heappop(arrivals)
            prompt, answer = lengths.drawn(generator)
            if users is not None and sent <= users:
                # Users did not start together: each one's first answer is part done.
                answer = max(round(answer * generator.random()), 2)
            waiting.append(_Request(at, prompt, answer))
            if requests_per_s is not None:
                send(at + generator.expovariate(requests_per_s))
        while waiting and running + len(reading) < places:
            reading.append(waiting.popleft())
        if not running and not reading:
            clock = arrivals[0][0] + steps.before_s
            continue
        left = max(int(min(steps.budget, 1e12)) - running, 1)
        tokens, attended, ready = 0, 0.0, []
        for request in reading:
            part = min(request.prompt - request.read, left - tokens)
            if part <= 0:
                break
            attended += part * (request.read + part / 2)
            tokens += part
            request.read += part
            if request.read == request.prompt:
                ready.append(request)
        seconds = steps.decode(running, context / running) if running else steps.overhead_s
        if tokens:
            seconds += steps.read(tokens, attended / tokens)
        clock += seconds
        taken += 1
        context += running
        for request in ending.pop(taken, ()):
            running -= 1
            context -= request.prompt + request.answer
            done += 1
            if done > skipped:
                between.append((clock - request.first_s) / (request.answer - 1))
                first.append(request.first_s - request.asked_s)
                area += clock - request.asked_s
            else:
                started_s = clock
            if users is not None:
                send(clock)
        for request in ready:
            reading.popleft()
            request.first_s = clock
            running += 1
            context += request.prompt + 1
            ending.setdefault(taken + request.answer - 1, []).append(request)
    measured = clock - started_s
    return Trace(ttft_s=np.array(first), tpot_s=np.array(between), requests_per_s=len(first) / measured, in_flight=area / measured)
