"""How long single requests wait on one replica: laws of the time to the first token and of the time between tokens.

Each step every running request takes one token (S seconds, growing with the number n that run) and what is left of the
step's token budget reads prompts, b seconds each. So decoding slows down with the reading, and it varies from request to
request for reasons that are all in the load itself: requests that happen to run together, prompts that happen to
come, prompts and answers of different length. Nothing here is fitted to measurements.
Checked against a simulation of the steps in ``tests/engine/serving/test_percentiles.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.engine.serving.job import FloatArray, ServingJob
from app.engine.serving.queueing import (
    TINY,
    Delay,
    Mixture,
    Moments4,
    gated_cycle,
    gamma_overlap,
    gamma_strata,
    place_wait,
    queue_wait,
)

MOST_CALM = 0.95
"""Share of the largest chance of no delay at all that its mean and variance allow (Cauchy-Schwarz)."""
MOST_USE = 0.97
"""Load up to which the formulas of an open queue are used; beyond, waiting is only bounded from below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Prompts of one layout, per row of layouts.

    mixed: ``E[P^i b^j]`` by (i, j) for tokens P and seconds b that a prompt holds up the others, i + j up to 4; alone: its
    own reading against b (stages of a pipeline work at the same time); next_s: seconds for one more prompt in the same
    pass; budget: tokens of a step; gap_s: the overhead of a step that only reads; before_s: once per request.
    """

    mixed: dict[tuple[int, int], FloatArray]
    alone: FloatArray
    next_s: FloatArray
    budget: float
    gap_s: FloatArray
    before_s: float

    @property
    def seconds(self) -> Moments4:
        """Raw moments of b."""
        return self.mixed[0, 1], self.mixed[0, 2], self.mixed[0, 3], self.mixed[0, 4]

    def packed(self, per_step: FloatArray) -> FloatArray:
        """Reading time of a prompt against alone, where a Poisson number of them shares a step: ``1 - e^-x`` of x steps
        pay for the first prompt."""
        first = self.mixed[0, 1]
        shared = -np.expm1(-per_step) / np.maximum(per_step, TINY)
        result: FloatArray = (self.next_s + (first - self.next_s) * shared) / first
        return result

    def chunk_moments(self, budget: FloatArray) -> Moments4:
        """Raw moments of the steps that one prompt fills."""
        return tuple(self.mixed[order, 0] / budget**order for order in (1, 2, 3, 4))  # type: ignore[return-value]

    def service(self, step_s: FloatArray, budget: FloatArray, packed: FloatArray) -> Moments4:
        """Raw moments of the server's time for one prompt where steps are full: ``K S + b`` with K = P / budget."""
        pause = step_s / (budget * packed)
        moments = []
        for order, weights in enumerate(((1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1)), start=1):
            total = self.mixed[order, 0]
            for power, weight in enumerate(weights[1:], start=1):
                total = total * pause + weight * self.mixed[order - power, power]
            moments.append(total * packed**order)
        return moments[0], moments[1], moments[2], moments[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Steps at the requests tried, arrays layouts x requests: seconds of a step and its growth per request (at the mean
    context), and the part of the growth that is cache read."""

    running: FloatArray
    step_s: FloatArray
    slope_s: FloatArray
    cache_slope_s: FloatArray

    def at(self, running: FloatArray) -> FloatArray:
        """Seconds of a step with another number of requests, along the tangent."""
        result: FloatArray = np.maximum(self.step_s + self.slope_s * (running - self.running), self.step_s / 10)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """first: time to the first token; between: mean time between the tokens of one request, in equal shares of the requests
    by the length of their answers on the first axis; requests_per_s; running: requests decoding in the time mean;
    reading: share of the time spent on prompts."""

    first: Delay
    between: Mixture
    requests_per_s: FloatArray
    running: FloatArray
    reading: FloatArray


def _gaps(job: ServingJob) -> tuple[float, FloatArray]:
    """(times between tokens of a mean answer, of each share of the answers on a new first axis)."""
    mean = max(job.output_tokens, 2.0)
    each = np.maximum(mean * gamma_strata(job.output_cv), 2.0) - 1
    return mean - 1, each[:, np.newaxis, np.newaxis]


def _context_variation(job: ServingJob) -> float:
    """Squared coefficient of variation of the contexts that run: prompts vary by themselves, and an answer in flight is a
    uniform age of a length-biased one (gamma moments, between all alike and exponential)."""
    ages = (1 + job.output_cv**2) * (1 + 2 * job.output_cv**2) / 3 - (1 + job.output_cv**2) ** 2 / 4
    return float(((job.input_tokens * job.input_cv) ** 2 + job.output_tokens**2 * ages) / job.running_context_tokens**2)


def _own(reading: Reading, step_s: FloatArray, chunks: FloatArray) -> Delay:
    """A request's own reading: at least one step, as many as it fills, and its reading time."""
    seconds = Delay.of(reading.seconds).scaled(reading.alone)
    wider = 1 + np.maximum(chunks - 1, 0.0) * step_s / np.maximum(seconds.mean, TINY)
    return Delay(np.maximum(chunks, 1.0) * step_s + seconds.mean, seconds.variance * wider**2, seconds.third * wider**3)


def _backlogged(use: FloatArray, chunks: Moments4) -> FloatArray:
    """0 where the prompts of one step fit into its budget, 1 where they queue for it, by the mean backlog of a busy reader
    in steps, ``E[K^2] / (2 E[K] (1 - u))`` (Pollaczek-Khinchine): up to half a budget it hardly ever binds, from a whole
    one it always does."""
    backlog = chunks[1] / (2 * chunks[0] * (1 - use))
    result: FloatArray = np.clip(2 * backlog - 1, 0.0, 1.0)
    return result


def open_latency(job: ServingJob, decoding: Decoding, reading: Reading, places: FloatArray) -> Latency:
    """Requests arrive at random (Poisson), so that ``decoding.running`` = n run in the mean of the steps.

    Rate: all n take a token each step and k = L - 1 make an answer, so ``n = rate k (S + rate C b)`` with the cycle
    ``C = S / (1 - rate b)``: ``rate = n / (n b + k S)``, exact for steps linear in n, and never more than the reader carries.

    First token, while the budget does not bind: prompts that come in one step are read together in the next (gated
    vacations): what is left of the cycle, then S, its own reading and that of all who came in the same cycle. Where it
    binds: the queue M/G/1 with ``K S + b`` per prompt, and a last step that others fill up.

    Between tokens: the k steps of a request with the prompts that come in them are a delay cycle,
    ``k S / (1 - u)`` with variance ``k S rate E[b^2] / (1 - u)^3``; those that came during its own first step are read
    first. S moves with n, which a request sees ``n + Var(n) / n`` of: for random arrivals to steps ``a + s n`` the
    variance is ``n S / a`` (negative binomial, whatever the lengths: Cohen 1979); prompts come to the decoding in
    the clusters of the reading, ``I = (1 + u^2 c^2) / (1 - u)^2``, which raises it by ``1 + eta (I - 1)`` with
    ``eta = E[min(L1, L2)] / E[L]`` (peakedness, Eckberg 1983), up to the ``n (M - n)`` of M places (Bhatia and Davis
    2000). n forgets its past within ``L S / a`` steps, so that a request averages over some of it.
    """
    running, step, slope = decoding.running, decoding.step_s, decoding.slope_s
    mean_gaps, gaps = _gaps(job)
    outputs = mean_gaps + 1
    first, second, third, _ = reading.seconds
    budget = np.maximum(reading.budget - running, reading.budget / 8)
    chunks = reading.chunk_moments(budget)
    packed = reading.packed(running / mean_gaps)
    seconds = tuple(moment * packed**order for order, moment in enumerate(reading.seconds, start=1))
    rate = running / (running * seconds[0] + mean_gaps * step)
    rate = np.minimum(rate, MOST_USE / (chunks[0] * step + seconds[0]))
    use = rate * seconds[0]
    idle = 1 - use

    alone = np.maximum(step - slope * running, step / 20)
    cluster = (1 + use**2 * (second / first**2 - 1)) / idle**2
    variance = running * step / alone * (1 + gamma_overlap(job.output_cv) * (cluster - 1))
    variance = 1 / (1 / variance + 1 / np.maximum(running * (places - running), TINY))
    gap = (step + slope * variance / running) / idle

    present = decoding.at(rate * mean_gaps * gap)
    empty = np.exp(-running)
    found_step = present - (present - reading.gap_s) * empty
    step_variance = slope**2 * variance + (present - reading.gap_s) ** 2 * empty * (1 - empty)
    moving = Delay(np.zeros(()), step_variance * (1 + 0.5 / idle) ** 2, np.zeros(()))
    own = _own(reading, found_step, chunks[0])
    cycle, _ = gated_cycle(found_step, rate, seconds)  # type: ignore[arg-type]
    behind = 0.5 + use
    arrivals = rate * seconds[1]
    gated = Delay(
        behind * cycle.mean,
        (cycle.variance + cycle.mean**2) / 12 + arrivals * cycle.mean + behind**2 * cycle.variance,
        rate * seconds[2] * cycle.mean
        + 3 * behind * cycle.variance * (cycle.mean / 6 + arrivals)
        + behind * (behind**2 + 0.25) * cycle.third,
    )
    service = reading.service(found_step, budget, packed)
    reader = np.minimum(rate * service[0], MOST_USE)
    last = found_step + first / np.maximum(chunks[0], 1.0)
    queue = queue_wait(rate, service, reader) + Delay(found_step * (1 - reader) / 2, found_step**2 / 12, np.zeros(()))
    sojourn = queue.mean + own.mean
    filled = -np.expm1(-rate * sojourn) / 2
    queue = queue + Delay(filled * last, last**2 / 12, np.zeros(()))
    backlogged = _backlogged(reader, chunks)
    token = gated.towards(queue, backlogged) + own + moving
    own_step = (1 - backlogged) * (found_step + first + use * cycle.mean) + backlogged * (token.mean - found_step / 2)

    power = use**gaps
    response = (1 - power) / idle
    settling = 1 - (2 * use * response - use**2 * (1 - power * power) / (1 - use * use)) / gaps
    lag = alone / (outputs * step)
    span = gaps * lag
    settled = (span + np.expm1(-span)) / span
    swings = (slope / idle) ** 2 * variance + (decoding.cache_slope_s / idle) ** 2 * _context_variation(job) * running
    within = arrivals * gap * settling / (gaps * idle**2)
    opening = (arrivals * own_step + use**2 * backlogged * token.variance) * (response / gaps) ** 2
    together = 2 * slope * rate * seconds[0] * step / (lag * gaps * idle**4)
    chunk = within + opening
    undisturbed = Delay(gap * idle, settled * 2 * swings / span, np.zeros(()))
    most = first / chunks[0]
    wide = (1 - backlogged) * (own.variance + arrivals * cycle.mean) + backlogged * token.variance
    clumped = np.maximum(rate * wide / own_step, TINY)
    calm = np.exp(-rate * (own_step * np.log1p(clumped) / clumped + gaps * undisturbed.mean))
    whole = (gap - undisturbed.mean + (own_step - gap) * use * response / gaps) / (1 - calm)
    mean = whole * -np.expm1(-most / whole) * (1 - calm)
    spread = 1 / (1 / (chunk + settled * together) + 1 / (mean * (most - mean)))
    third = rate * seconds[2] * step / (gaps**2 * idle**4) + 3 * spread**2 / (undisturbed.mean + mean)
    read = Delay(mean, spread, np.minimum(third, spread * np.maximum(most - 2 * mean, 0.0)))
    calm = np.minimum(calm, MOST_CALM * spread / (spread + mean**2))
    between = Mixture(calm, undisturbed, undisturbed + read.given(1 - calm), undisturbed.mean + most)
    taken = mean_gaps * gap + (own_step - gap) * use * (1 - use**mean_gaps) / idle
    decoded = rate * taken
    full = places * first * reading.packed(places / mean_gaps) + mean_gaps * decoding.at(places)
    waiting = place_wait(rate, places / full, decoded + rate * token.mean, variance + rate * token.mean, places, job.output_cv)
    before = Delay(np.asarray(reading.before_s), np.zeros(()), np.zeros(()))
    return Latency(first=token + waiting + before, between=between, requests_per_s=rate, running=decoded, reading=use)


def closed_latency(job: ServingJob, decoding: Decoding, reading: Reading) -> Latency:
    """N requests in flight always: who is answered asks again (``decoding.running`` = N, :class:`Decoding` at N).

    Answers end at the end of steps, so that of n running requests a Poisson number of mean ``x = n / k`` asks again with
    each (binomial, of many), whatever the step took. A new request comes just after a step has begun (the time before the
    scheduler), sits it out, and is read in the next with the others that came: ``S + x b`` and ``S + b + x b``. Where
    prompts queue for the budget of a step: the discrete M/G/1 queue of x prompts a step that fill K steps each.
    Between tokens ``S + x b``; the prompts of others that come in the k steps of a request are as irregular as their
    answers: Poisson over a time short against an answer, ``c^2`` of that over a long one (renewal theory, Cox 1962).
    n and the rate follow from Little's law, ``N = rate (first + k between)``.
    """
    users = decoding.running
    mean_gaps, gaps = _gaps(job)
    first = reading.seconds[0]
    others = (users - 1) / users
    running = _closed_running(decoding, reading, mean_gaps)
    token, step, asking, seconds = _closed_first(decoding, reading, running, mean_gaps)
    between = step + asking * others * seconds[0]
    rate = users / (token.mean + mean_gaps * between)
    run = gaps / (mean_gaps + 1)
    irregular = job.output_cv**2 + (1 - job.output_cv**2) * np.exp(-run)
    varied = asking * others * (seconds[1] - seconds[0] ** 2 + irregular * seconds[0] ** 2) / gaps
    contexts = decoding.cache_slope_s**2 * _context_variation(job) * running
    most = first / reading.chunk_moments(np.asarray(reading.budget))[0]
    spread = Delay(between + 0.0 * gaps, varied + contexts, asking * others * seconds[2] / gaps**2)
    between_tokens = Mixture(0.0 * gaps, spread, spread, step + most)
    return Latency(first=token, between=between_tokens, requests_per_s=rate, running=running, reading=rate * first)


def _closed_running(decoding: Decoding, reading: Reading, mean_gaps: float) -> FloatArray:
    """Requests that decode while the rest of N waits for a first token, by Little's law with the mean wait: two cycles, the
    own prompt and the queue for the budget. Two rounds from all N; never more than the reader feeds, ``n K / k`` of whose
    steps are full."""
    users = decoding.running
    first = reading.mixed[0, 1]
    chunks, squares, *_ = reading.chunk_moments(np.asarray(reading.budget))
    most = MOST_USE * mean_gaps / chunks
    full = decoding.step_s + first / chunks
    running = users
    for _ in range(2):
        asking = np.minimum(running, most) / mean_gaps
        cycle = decoding.at(running) + asking * first
        queue = asking * squares / (2 * (1 - np.minimum(asking * chunks, MOST_USE))) * full
        decoded = mean_gaps * cycle
        running = users * decoded / (cycle * (1 + np.maximum(chunks, 1.0)) + first + queue + decoded)
    result: FloatArray = np.minimum(running, most)
    return result


def _closed_first(
    decoding: Decoding, reading: Reading, running: FloatArray, mean_gaps: float
) -> tuple[Delay, FloatArray, FloatArray, tuple[FloatArray, ...]]:
    """(time to the first token, seconds of a step as a request sees it, prompts a step, moments of their reading) of a
    closed loop in which ``running`` of N requests decode."""
    users = decoding.running
    budget = np.maximum(reading.budget - running, reading.budget / 8)
    chunks = reading.chunk_moments(budget)
    asking = running / mean_gaps
    packed = reading.packed(asking)
    seconds = tuple(moment * packed**order for order, moment in enumerate(reading.seconds, start=1))
    met = running * (users - 1) / users
    step = decoding.at(1 + met)
    empty = np.where(users > 1, np.exp(-met), 1.0)
    found_step = step - (step - reading.gap_s) * empty
    own = _own(reading, found_step, chunks[0])
    came = asking * (users - 1) / users
    cycle = (found_step + came * seconds[0]) * (1 - empty)
    before = np.maximum(cycle, reading.before_s + cycle / 2)
    gated = Delay(came * seconds[0], 2 * came * seconds[1], 2 * came * seconds[2])
    use = np.minimum(came * chunks[0], MOST_USE)
    queue = queue_wait(came, chunks, use)
    beyond = 1 - (1 - use) / np.maximum(chunks[1] / chunks[0], 1.0)
    left = queue.given(1 / beyond).scaled(found_step + reading.seconds[0] / chunks[0])
    token = own + gated + left + Delay(before, np.zeros(()), np.zeros(()))
    return token, step, asking, seconds
