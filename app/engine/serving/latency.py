"""How long single requests wait on one replica: laws of the time to the first token and of the time between tokens.

Each step every running request takes one token (S seconds, growing with the number n that run) and what is left of the
step's token budget reads prompts, b seconds each. So decoding slows down with the reading, and it varies from request to
request for reasons that are all in the load itself: requests that happen to run together, prompts that happen to
come, prompts and answers of different length. Nothing here is fitted to measurements.
The open loop stands in :mod:`app.engine.serving.open_loop`, the closed one in :mod:`app.engine.serving.closed_loop`; both are
checked against a simulation of the steps (``tests/engine/serving/test_percentiles.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.engine.serving.job import FloatArray, ServingJob
from app.engine.serving.queueing import TINY, Delay, Mixture, Moments4, Shares, Waited, gamma_strata

MOST_USE = 0.97
"""Load up to which the formulas of a queue are used; beyond, waiting is only bounded from below."""
LEAST_FREE = 1 / 8
"""Share of a step's tokens that prompts get however many requests run; assumption, out of reach of the usual limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Prompts of one layout, per row of layouts: lengths in ``tokens`` with ``weights`` (last axis), and for each the seconds b
    that it holds up the others (layouts x lengths).

    lengths, seconds: raw moments of P and of b; alone: a prompt's own reading against b (stages of a pipeline work at the same
    time); next_s: seconds for one more prompt in the same pass; budget: tokens of a step; gap_s: the overhead of a step that
    only reads; before_s: once per request.
    """

    tokens: FloatArray
    weights: FloatArray
    held_s: FloatArray
    lengths: tuple[float, float, float, float]
    seconds: Moments4
    alone: FloatArray
    next_s: FloatArray
    budget: float
    gap_s: FloatArray
    before_s: float

    def packed(self, per_step: FloatArray) -> FloatArray:
        """Reading time of a prompt against alone, where a Poisson number of them shares a step: ``1 - e^-x`` of x steps
        pay for the first prompt."""
        first = self.seconds[0]
        shared = -np.expm1(-per_step) / np.maximum(per_step, TINY)
        result: FloatArray = (self.next_s + (first - self.next_s) * shared) / first
        return result

    def packed_seconds(self, per_step: FloatArray) -> Moments4:
        """Raw moments of b where a Poisson number of prompts shares a step."""
        packed = self.packed(per_step)
        first, second, third, fourth = self.seconds
        return first * packed, second * packed**2, third * packed**3, fourth * packed**4

    def free(self, running: FloatArray) -> FloatArray:
        """Tokens of a step that running requests leave for prompts; an engine keeps some for them."""
        result: FloatArray = np.maximum(self.budget - running, self.budget * LEAST_FREE)
        return result

    def most_running(self, mean_gaps: float) -> float:
        """Requests whose answers of k steps a reader can follow with prompts, at nearly full steps: ``n K / k`` of one step's
        budget ``C - n``."""
        return MOST_USE * mean_gaps * self.budget / (self.lengths[0] + MOST_USE * mean_gaps)

    def chunk_moments(self, budget: FloatArray) -> Moments4:
        """Raw moments of the steps that one prompt fills."""
        share = 1 / budget
        square = share * share
        first, second, third, fourth = self.lengths
        return first * share, second * square, third * square * share, fourth * square * square

    def _mixed(self, tokens_power: int, power: int) -> FloatArray:
        """``E[P^i b^j]``."""
        if tokens_power == 0 or len(self.weights) == 1:
            result: FloatArray = self.seconds[power - 1] * self.tokens[0] ** tokens_power
            return result
        return (self.held_s**power @ (self.weights * self.tokens**tokens_power))[..., np.newaxis]

    def service(self, step_s: FloatArray, budget: FloatArray, packed: FloatArray) -> Moments4:
        """Raw moments of the server's time for one prompt where steps are full: ``K S + b`` with K = P / budget."""
        pause = step_s / (budget * packed)
        moments = []
        for order, weights in enumerate(((1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1)), start=1):
            total = np.asarray(self.lengths[order - 1])
            for power, weight in enumerate(weights[1:], start=1):
                total = total * pause + weight * self._mixed(order - power, power)
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
    by the length of their answers on the first axis; requests_per_s."""

    first: Delay | Waited
    between: Shares | Mixture
    requests_per_s: FloatArray


def answer_gaps(job: ServingJob) -> tuple[float, FloatArray]:
    """(times between tokens of a mean answer, of each share of the answers on a new first axis)."""
    mean = max(job.output_tokens, 2.0)
    each = np.maximum(mean * gamma_strata(job.output_cv), 2.0) - 1
    return mean - 1, each[:, np.newaxis, np.newaxis]


def context_variation(job: ServingJob) -> float:
    """Squared coefficient of variation of the contexts that run: prompts vary by themselves, and an answer in flight is a
    uniform age of a length-biased one (gamma moments, between all alike and exponential)."""
    ages = (1 + job.output_cv**2) * (1 + 2 * job.output_cv**2) / 3 - (1 + job.output_cv**2) ** 2 / 4
    return float(((job.input_tokens * job.input_cv) ** 2 + job.output_tokens**2 * ages) / job.running_context_tokens**2)


def own_reading(reading: Reading, step_s: FloatArray, chunks: FloatArray) -> Delay:
    """A request's own reading: at least one step, as many as it fills, and its reading time."""
    seconds = Delay.of(reading.seconds).scaled(reading.alone)
    wider = 1 + np.maximum(chunks - 1, 0.0) * step_s / np.maximum(seconds.mean, TINY)
    return Delay(np.maximum(chunks, 1.0) * step_s + seconds.mean, seconds.variance * wider**2, seconds.third * wider**3)


def crowded_gaps(job: ServingJob, step_s: FloatArray, asking: FloatArray, seconds: Moments4) -> Delay:
    """Mean time between the tokens of a request where ``asking`` = x answers end with each step and are followed by a prompt
    at once: ``S + x b``, by shares of the answers.

    In the k steps of a request the prompts of others are as irregular as their answers: Poisson in a time short against an
    answer, ``c^2`` of that in a long one (Cox, "Renewal Theory", 1962); between, by the share ``e^-(k / L)`` that lasts.
    """
    mean_gaps, gaps = answer_gaps(job)
    irregular = job.output_cv**2 + (1 - job.output_cv**2) * np.exp(-gaps / (mean_gaps + 1))
    variance = asking * (seconds[1] - seconds[0] ** 2 + irregular * seconds[0] ** 2) / gaps
    return Delay(step_s + asking * seconds[0] + 0.0 * gaps, variance, asking * seconds[2] / gaps**2)
