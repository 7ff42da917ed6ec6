"""Latency where requests arrive at random.

``n`` requests run in the mean of the steps, each step taking S(n) = a + s n seconds; prompts come with a rate and hold all
others up for b seconds each, so that the reader is busy for the share u = rate b of the time. An answer takes k = L - 1
steps after its first token; a prompt fills K steps of the token budget. M: places.

Sources: Takagi, "Queueing Analysis" vol. 1 (1991, gated vacations); Conway, Maxwell, Miller, "Theory of Scheduling" (1967, delay
cycles); Cohen, "The multiple phase service network with generalized processor sharing" (Acta Informatica 12, 1979); Eckberg,
"Generalized peakedness of teletraffic processes" (1983); Bhatia and Davis, "A better bound on the variance" (2000).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.engine.serving.job import FloatArray, ServingJob
from app.engine.serving.latency import MOST_USE, Decoding, Latency, Reading, answer_gaps, context_variation, crowded_gaps, own_reading
from app.engine.serving.queueing import TINY, Delay, Mixture, Moments4, Shares, Waited, gamma_overlap, gated_cycle, place_wait, queue_wait

MOST_CALM = 0.95
"""Share of the largest chance of no delay at all that its mean and variance allow (Cauchy-Schwarz)."""
NONE = np.zeros(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """The stream of requests at n running: rate, prompts' seconds, steps a prompt fills, loads, variance of n, and the mean time
    between tokens over all steps; seconds of a step and the part of it that does not grow with n."""

    running: FloatArray
    step_s: FloatArray
    alone_s: FloatArray
    rate: FloatArray
    seconds: Moments4
    chunks: Moments4
    budget: FloatArray
    packed: FloatArray
    use: FloatArray
    variance: FloatArray
    gap_s: FloatArray

    @property
    def idle(self) -> FloatArray:
        """Share of the time not spent on prompts."""
        return 1 - self.use

    @property
    def variance_rate(self) -> FloatArray:
        """Growth of the variance of the reading that arrives, s^2 per second."""
        return self.rate * self.seconds[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """How a request starts: the time to its first token (without the wait for a place), and the time in which those came who
    are read right after it, with its variance."""

    token: Delay
    behind_s: FloatArray
    behind_variance: FloatArray
    backlogged: FloatArray


def open_latency(job: ServingJob, decoding: Decoding, reading: Reading, places: FloatArray) -> Latency:
    """Requests arrive at random (Poisson), so that ``decoding.running`` = n run in the mean of the steps, of M places."""
    flow = _flow(job, decoding, reading, places)
    start = _start(job, decoding, reading, flow)
    mean_gaps, _ = answer_gaps(job)
    opening = (start.behind_s - flow.gap_s) * flow.use * (1 - flow.use**mean_gaps) / flow.idle
    decoded, waiting = flow.rate * (mean_gaps * flow.gap_s + opening), flow.rate * start.token.mean
    held = mean_gaps * decoding.at(places)
    full = places * reading.seconds[0] * reading.packed(places / mean_gaps) + held
    # Of the time a place is taken, the steps vary with the answers and the rest with all the prompts.
    varied = (held / full * job.output_cv) ** 2 + (1 - held / full) ** 2 * (flow.seconds[1] / flow.seconds[0] ** 2 - 1)
    place = place_wait(flow.rate, places / full, decoded + waiting, flow.variance + waiting, places, varied)
    before = Delay(np.asarray(reading.before_s), NONE, NONE)
    fullest = crowded_gaps(job, decoding.at(places), places / mean_gaps, reading.packed_seconds(places / mean_gaps))
    between = _between(job, decoding, flow, start, fullest)
    return Latency(first=Waited(start.token + before, place), between=between, requests_per_s=flow.rate)


def _flow(job: ServingJob, decoding: Decoding, reading: Reading, places: FloatArray) -> _Flow:
    """Rate: n tokens come in a cycle ``C = S / (1 - u)`` of a step and the prompts read with it, so that ``n = rate k C`` and
    ``rate = n / (n b + k S)``, exact for steps linear in n. More than the reader can follow never run.

    For random arrivals to steps a + s n the variance of n is ``n S / a`` (negative binomial, whatever the lengths: Cohen). Prompts
    come to the decoding in the clusters of the reading, ``I = (1 + u^2 c^2) / (1 - u)^2`` (busy periods), which raises it by
    ``1 + eta (I - 1)`` with ``eta = E[min(L1, L2)] / E[L]`` (peakedness, Eckberg), up to the ``n (M - n)`` of anything between
    0 and M (Bhatia and Davis); the two join harmonically. A request sees ``n + Var(n) / n`` others and itself.
    """
    mean_gaps, _ = answer_gaps(job)
    running = np.minimum(decoding.running, reading.most_running(mean_gaps))
    step = decoding.at(running)
    budget = reading.free(running)
    seconds = reading.packed_seconds(running / mean_gaps)
    rate = running / (running * seconds[0] + mean_gaps * step)
    use = rate * seconds[0]
    # A tangent below the steps leaves little or nothing that does not grow; a twentieth is a batch twenty times the roofline's.
    alone = np.maximum(step - decoding.slope_s * running, step / 20)
    cluster = (1 + use**2 * (seconds[1] / seconds[0] ** 2 - 1)) / (1 - use) ** 2
    variance = running * step / alone * (1 + gamma_overlap(job.output_cv) * (cluster - 1))
    variance = 1 / (1 / variance + 1 / np.maximum(running * (places - running), TINY))
    return _Flow(
        running=running,
        step_s=step,
        alone_s=alone,
        rate=rate,
        seconds=seconds,
        chunks=reading.chunk_moments(budget),
        budget=budget,
        packed=reading.packed(running / mean_gaps),
        use=use,
        variance=variance,
        gap_s=(step + decoding.slope_s * variance / running) / (1 - use),
    )


def _start(job: ServingJob, decoding: Decoding, reading: Reading, flow: _Flow) -> _Start:
    """While the token budget does not bind, prompts that come in one step are read together in the next (gated vacations):
    what is left of the cycle that is found, then a step, the own reading and that of all who came in the same cycle.
    Where it binds: the queue M/G/1 with ``K S + b`` per prompt, and a last step that those behind fill up.
    An arrival finds the requests of a moment, not of a step, and with ``e^-n`` none, and no step to wait for.
    """
    rate, use, idle = flow.rate, flow.use, flow.idle
    mean_gaps, _ = answer_gaps(job)
    present = decoding.at(rate * mean_gaps * flow.gap_s)
    empty = np.exp(-flow.running)
    step = present - (present - reading.gap_s) * empty
    step_variance = decoding.slope_s**2 * flow.variance + (present - reading.gap_s) ** 2 * empty * (1 - empty)
    moving = Delay(NONE, step_variance * (1 + 0.5 / idle) ** 2, NONE)
    own = own_reading(reading, step, flow.chunks[0])

    cycle = gated_cycle(step, rate, flow.seconds)
    waits = 0.5 + use
    gated = Delay(
        waits * cycle.mean,
        (cycle.variance + cycle.mean**2) / 12 + flow.variance_rate * cycle.mean + waits**2 * cycle.variance,
        rate * flow.seconds[2] * cycle.mean
        + 3 * waits * cycle.variance * (cycle.mean / 6 + flow.variance_rate)
        + waits * (waits**2 + 0.25) * cycle.third,
    )

    service = reading.service(step, flow.budget, flow.packed)
    reader = np.minimum(rate * service[0], MOST_USE)
    last = step + reading.seconds[0] / np.maximum(flow.chunks[0], 1.0)
    queue = queue_wait(rate, service, reader) + Delay(step * (1 - reader) / 2, step**2 / 12, NONE)
    filled = -np.expm1(-rate * (queue.mean + own.mean)) / 2
    queue = queue + Delay(filled * last, last**2 / 12, NONE)

    backlogged = _backlogged(reader, flow.chunks)
    token = gated.towards(queue, backlogged) + own + moving
    together = step + reading.seconds[0] + use * cycle.mean
    return _Start(
        token=token,
        behind_s=together + backlogged * (token.mean - step / 2 - together),
        behind_variance=(1 - backlogged) * (own.variance + flow.variance_rate * cycle.mean) + backlogged * token.variance,
        backlogged=backlogged,
    )


def _backlogged(use: FloatArray, chunks: Moments4) -> FloatArray:
    """0 where the prompts of one step fit into its budget, 1 where they queue for it, by the mean backlog of a busy reader
    in steps, ``E[K^2] / (2 E[K] (1 - u))`` (Pollaczek-Khinchine): up to half a budget it hardly ever binds, from a whole
    one it always does."""
    backlog = chunks[1] / (2 * chunks[0] * (1 - use))
    result: FloatArray = np.clip(2 * backlog - 1, 0.0, 1.0)
    return result


def _between(job: ServingJob, decoding: Decoding, flow: _Flow, start: _Start, fullest: Delay) -> Mixture:
    """The k steps of a request with the prompts that come in them are a delay cycle: ``k S / (1 - u)`` with variance
    ``k S rate E[b^2] / (1 - u)^3`` (less at the end: what comes in the last step is not read before it), and those who
    came while it waited are read first. n forgets its past within ``L S / a`` steps, so that a request averages over
    some of its swings; clusters of prompts also raise n.

    No step reads more than its budget, so the mean time between tokens lies between S and a full step, which bounds its
    variance (Bhatia and Davis) and the reading left behind (as of an exponential amount). With no prompt coming in all that
    time, nothing but n moves it; the chance is that of a Poisson number in a gamma time. With every place taken, prompts
    come only as answers end, which is worse than any lower load and far more even.
    """
    rate, use, idle, slope = flow.rate, flow.use, flow.idle, decoding.slope_s
    mean_gaps, gaps = answer_gaps(job)
    power = use**gaps
    response = (1 - power) / idle
    settling = 1 - (2 * use * response - use**2 * (1 - power * power) / (1 - use * use)) / gaps
    lag = flow.alone_s / ((mean_gaps + 1) * flow.step_s)
    span = gaps * lag
    settled = (span + np.expm1(-span)) / span
    contexts = decoding.cache_slope_s**2 * context_variation(job) * flow.running
    swings = (slope**2 * flow.variance + contexts) / idle**2
    together = 2 * slope * use * flow.step_s / (lag * gaps * idle**4)
    within = flow.variance_rate * flow.gap_s * settling / (gaps * idle**2)
    opening = (flow.variance_rate * start.behind_s + use**2 * start.backlogged * start.token.variance) * (response / gaps) ** 2

    calm = Delay(flow.gap_s * idle, settled * 2 * swings / span, NONE)
    clumped = np.maximum(rate * start.behind_variance / start.behind_s, TINY)
    chance = np.exp(-rate * (start.behind_s * np.log1p(clumped) / clumped + gaps * calm.mean))
    most = flow.seconds[0] / (flow.chunks[0] * flow.packed)
    whole = (flow.gap_s * use + (start.behind_s - flow.gap_s) * use * response / gaps) / (1 - chance)
    mean = whole * -np.expm1(-most / whole) * (1 - chance)
    variance = 1 / (1 / (within + opening + settled * together) + 1 / (mean * (most - mean)))
    third = rate * flow.seconds[2] * flow.step_s / (gaps**2 * idle**4) + 3 * variance**2 / (calm.mean + mean)
    read = Delay(mean, variance, np.minimum(third, variance * np.maximum(most - 2 * mean, 0.0)))
    chance = np.minimum(chance, MOST_CALM * variance / (variance + mean**2))
    return Mixture(chance, calm, calm + read.given(1 - chance), calm.mean + most, Shares(fullest, fullest.mean[0] + most))
