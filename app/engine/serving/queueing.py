"""Queues in closed form, on arrays: moments of waiting times and quantiles of what they add up to.

Sources: Kleinrock, "Queueing Systems" vol. 1 (1975, Pollaczek-Khinchine and Takacs); Takagi, "Queueing Analysis" vol. 1
(1991, gated vacations); Conway, Maxwell, Miller, "Theory of Scheduling" (1967, delay cycles); Halfin and Whitt,
"Heavy-traffic limits for queues with many exponential servers" (1981); Allen, "Probability, Statistics and Queueing
Theory" (1990, Allen-Cunneen); Johnson, Kotz, Balakrishnan, "Continuous Univariate Distributions" vol. 1 (1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from app.engine.serving.job import FloatArray

Moments4 = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""E[X], E[X^2], E[X^3], E[X^4]."""
TINY = 1e-12
STRATA = 12
"""Equal shares of the requests by length that a quantile is averaged over."""
BISECTIONS = 12
"""Halvings of the range in which the quantile of a mixture is looked for."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A random time by mean, variance and third central moment (seconds, s^2, s^3); independent ones add up."""

    mean: FloatArray
    variance: FloatArray
    third: FloatArray

    @classmethod
    def of(cls, raw: tuple[FloatArray, FloatArray, FloatArray] | Moments4) -> Delay:
        """From the raw moments E[X], E[X^2], E[X^3]."""
        first, second, cube = raw[:3]
        return cls(first, second - first**2, cube - 3 * first * second + 2 * first**3)

    def __add__(self, other: Delay) -> Delay:
        return Delay(self.mean + other.mean, self.variance + other.variance, self.third + other.third)

    def scaled(self, factor: FloatArray | float) -> Delay:
        """``factor`` times the delay."""
        return Delay(self.mean * factor, self.variance * factor**2, self.third * factor**3)

    def towards(self, other: Delay, share: FloatArray) -> Delay:
        """Between this delay (share 0) and another limit of it (share 1)."""
        return Delay(
            self.mean + share * (other.mean - self.mean),
            self.variance + share * (other.variance - self.variance),
            self.third + share * (other.third - self.third),
        )

    def given(self, chance: FloatArray) -> Delay:
        """Of a delay that there is only with ``chance``, once there is one."""
        first, variance = self.mean, self.variance
        second = variance + first**2
        return Delay.of((first / chance, second / chance, (self.third + 3 * first * variance + first**3) / chance))

    def quantile(self, percentile: float) -> FloatArray:
        """Of the shifted log-normal law with these three moments, which is the normal law without skew."""
        return self.at_normal(np.asarray(normal_quantile(percentile)))

    def at_normal(self, normal: FloatArray) -> FloatArray:
        """Quantile at the level of a quantile of the standard normal law."""
        deviation, shape, width = _log_normal(self)
        result: FloatArray = self.mean + deviation * _stretched(normal, shape, width)
        return result


@dataclass(frozen=True, slots=True)
class Waited:
    """A delay and a wait before it that few have: no quantile is shorter than without the wait."""

    delay: Delay
    wait: Delay

    def quantile(self, percentile: float) -> FloatArray:
        """Of both together."""
        return np.maximum(self.delay.quantile(percentile), (self.delay + self.wait).quantile(percentile))


@dataclass(frozen=True, slots=True)
class Shares:
    """Delays of requests of equal shares (first axis), none longer than ``most``."""

    each: Delay
    most: FloatArray

    def quantile(self, percentile: float) -> FloatArray:
        """Of all requests."""
        even = np.full((len(self.each.variance), 1, 1), 1 / len(self.each.variance))
        return np.minimum(_weighted_quantile(self.each, even, np.asarray(percentile / 100)), self.most)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Delays of requests of equal shares, some of which nothing disturbs: ``calm`` with probability ``chance`` of each share,
    else ``busy``, which is longer. Quantiles lie below ``most``, the longest delay of all, and below those of ``fullest``."""

    chance: FloatArray
    calm: Delay
    busy: Delay
    most: FloatArray
    fullest: Shares

    def quantile(self, percentile: float) -> FloatArray:
        """Of those disturbed, above the calm ones; else of the calm ones."""
        share = percentile / 100
        chance = np.mean(self.chance, axis=0)
        disturbed = 1 - self.chance
        weight = disturbed / np.maximum(np.sum(disturbed, axis=0), TINY)
        level = _inside((share - chance) / np.maximum(1 - chance, TINY))
        found = np.minimum(_weighted_quantile(self.busy, weight, level), self.most)
        low = self.calm.at_normal(inverse_normal_share(_inside(share / np.maximum(chance, TINY))))
        return np.where(share > chance, np.minimum(found, self.fullest.quantile(percentile)), np.mean(low, axis=0))


def _inside(share: FloatArray) -> FloatArray:
    """A share that has a quantile."""
    result: FloatArray = np.minimum(np.maximum(share, 1e-4), 1 - 1e-4)
    return result


def _weighted_quantile(each: Delay, weight: FloatArray, level: FloatArray) -> FloatArray:
    """Quantile at ``level`` of a law that is ``each`` entry of the first axis with a weight."""
    normal = inverse_normal_share(level)
    deviation, shape, width = _log_normal(each)
    quantiles = each.mean + deviation * _stretched(normal, shape, width)
    if len(weight) == 1:
        return np.asarray(quantiles[0])
    low, high = quantiles.min(axis=0), quantiles.max(axis=0)
    scale, half = shape / deviation, width / 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = np.log(np.maximum((middle - each.mean) * scale + 1, TINY)) / width + half
        below = np.sum(weight * normal_share(np.clip(reached, -8.0, 8.0)), axis=0) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def _log_normal(delay: Delay) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(standard deviation, t, w) of the shifted log-normal: skew ``t^3 + 3 t`` (solved for t), ``w = sqrt(ln(1 + t^2))``."""
    deviation = np.sqrt(np.maximum(delay.variance, TINY**2))
    skew = np.clip(delay.third / deviation**3, 1e-3, 40.0)
    root = np.cbrt((skew + np.sqrt(skew * skew + 4)) / 2)
    shape = root - 1 / root
    return deviation, shape, np.sqrt(np.log1p(shape * shape))


def _stretched(normal: FloatArray, shape: FloatArray, width: FloatArray) -> FloatArray:
    """Standard deviations from the mean at which the law has the quantile of a normal one."""
    result: FloatArray = (np.exp(normal * width - width * width / 2) - 1) / shape
    return result


def inverse_normal_share(share: FloatArray) -> FloatArray:
    """Standard normal quantile, within 0.00045 (Abramowitz and Stegun 26.2.23)."""
    tail = np.sqrt(-2 * np.log(np.minimum(share, 1 - share)))
    above = tail - (2.515517 + tail * (0.802853 + tail * 0.010328)) / (1 + tail * (1.432788 + tail * (0.189269 + tail * 0.001308)))
    result: FloatArray = np.where(share > 0.5, above, -above)
    return result


def normal_share(value: FloatArray) -> FloatArray:
    """Standard normal distribution function, within 0.0002 (Bowling et al. 2009, logistic approximation)."""
    result: FloatArray = 1 / (1 + np.exp(-value * (1.5976 + 0.07056 * value * value)))
    return result


def normal_quantile(percentile: float) -> float:
    """Standard normal quantile of a percentile."""
    return NormalDist().inv_cdf(min(max(percentile / 100, 0.01), 0.9999))


@cache
def gamma_strata(variation: float) -> FloatArray:
    """Middles of :data:`STRATA` equal shares of a gamma law of mean 1 with that coefficient of variation (1 = exponential),
    off its summed density."""
    if variation <= 0:
        return np.ones(1)
    shape = 1 / variation**2
    values = np.geomspace(1e-5, 1 + 30 * variation, 8192)
    heights = np.exp(shape * (np.log(values) - values) - math.lgamma(shape) + shape * math.log(shape))
    shares = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2 * np.diff(np.log(values)))])
    middles = (np.arange(STRATA) + 0.5) / STRATA
    return np.interp(middles, shares / shares[-1], values)


@cache
def gamma_overlap(variation: float) -> float:
    """``E[min(X1, X2)] / E[X]`` of two independent ones of that law: 1 where all are alike, 1/2 for the exponential."""
    if variation <= 0:
        return 1.0
    shape = 1 / variation**2
    return 1 - math.exp(math.lgamma(shape + 0.5) - math.lgamma(shape + 1)) / math.sqrt(math.pi)


@cache
def log_normal_nodes(variation: float) -> tuple[FloatArray, FloatArray]:
    """(values, weights) of a log-normal law of mean 1, nearly exact for its first four moments: Gauss-Hermite with nine points."""
    if variation <= 0:
        return np.ones(1), np.ones(1)
    width = math.sqrt(math.log1p(variation**2))
    points, weights = np.polynomial.hermite_e.hermegauss(9)
    return np.exp(width * points - width**2 / 2), weights / weights.sum()


def queue_wait(rate: FloatArray, service: Moments4, use: FloatArray) -> Delay:
    """Wait in an M/G/1 queue: ``E[W^n] = rate / (1 - use) sum C(n, i) E[S^(i+1)] / (i + 1) E[W^(n-i)]`` (Takacs); the first
    is Pollaczek and Khinchine's."""
    _, second, third, fourth = service
    factor = rate / (1 - use)
    one = factor * second / 2
    two = factor * (third / 3 + second * one)
    three = factor * (fourth / 4 + third * one + 1.5 * second * two)
    return Delay.of((one, two, three))


def gated_cycle(pause_s: FloatArray, rate: FloatArray, service: Moments4) -> Delay:
    """The cycle that a request finds when it arrives, where a server pauses and then serves all that came in the cycle
    before (gated vacations).

    The cumulants k_n of the cycle follow from ``C' = pause + sum of Poisson(rate C) services``: ``k1 = pause / (1 - u)``,
    ``k2 = rate E[S^2] k1 / (1 - u^2)`` and so on with the load u = rate E[S]; a random arrival finds a cycle of length c
    ``c / E[C]`` times as often.
    """
    first, second, third, fourth = (rate * moment for moment in service)
    mean = pause_s / (1 - first)
    k2 = second * mean / (1 - first**2)
    k3 = (third * mean + 3 * first * second * k2) / (1 - first**3)
    k4 = (fourth * mean + (4 * first * third + 3 * second**2) * k2 + 6 * first**2 * second * k3) / (1 - first**4)
    square = mean * mean
    found = mean + k2 / mean
    found_2 = k3 / mean + 3 * k2 + square
    found_3 = (k4 + 3 * k2 * k2) / mean + 4 * k3 + 6 * mean * k2 + square * mean
    return Delay.of((found, found_2, found_3))


def place_wait(
    rate: FloatArray, most_rate: FloatArray, taken: FloatArray, variance: FloatArray, places: FloatArray, varied: FloatArray
) -> Delay:
    """Wait for one of ``places``: the number of requests is normal below them and falls off exponentially above.

    Joined at the limit (Halfin and Whitt), with the mean wait of Allen and Cunneen, ``(1 + c^2) / 2 / (most rate - rate)``,
    for holding times of squared coefficient of variation c^2 (``varied``).
    """
    mean = (1 + varied) / 2 / np.maximum(most_rate - rate, 0.02 * most_rate)
    distance = (places - taken) / np.sqrt(variance)
    above = mean * rate * np.exp(-np.minimum(distance * distance, 100.0) / 2) / math.sqrt(2 * math.pi)
    below = np.sqrt(variance) * normal_share(np.clip(distance, -8.0, 8.0))
    waits = above / (above + below)
    return Delay.of((waits * mean, 2 * waits * mean**2, 6 * waits * mean**3))
