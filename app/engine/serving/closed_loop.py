"""Latency where a number of requests is always in flight: who is answered asks again.

Sources: Little's law; the discrete queue M/G/1 (Takagi, "Queueing Analysis" vol. 3, 1993).
"""

from __future__ import annotations

import numpy as np

from app.engine.serving.job import FloatArray, ServingJob
from app.engine.serving.latency import MOST_USE, Decoding, Latency, Reading, answer_gaps, context_variation, crowded_gaps, own_reading
from app.engine.serving.queueing import TINY, Delay, Moments4, Shares, queue_wait

ROUNDED = 0.95
"""How well the running requests are known, which are found in two rounds: a turn shorter than it can be by less than that is
no reason to lengthen the wait."""


def closed_latency(job: ServingJob, decoding: Decoding, reading: Reading) -> Latency:
    """``decoding.running`` = N requests are in flight, n of them past their first token; k = L - 1 steps follow it.

    Between tokens ``S + x b`` for the ``x = n / k`` of n that end with each step and are followed by a prompt of b seconds.
    The rate follows from Little's law, ``N = rate (first + k between)``.
    """
    users = decoding.running
    mean_gaps, _ = answer_gaps(job)
    running = _running(decoding, reading, mean_gaps)
    asking = running / mean_gaps * (users - 1) / users
    step = decoding.at(1 + running * (users - 1) / users)
    seconds = reading.packed_seconds(running / mean_gaps)
    token = _first_token(decoding, reading, running, asking, step, seconds)
    decoded = mean_gaps * (step + asking * seconds[0])
    shortest, longest = _turn_bounds(decoding, reading, step, seconds[0], mean_gaps)
    turn = np.minimum(np.maximum(token.mean + decoded, shortest * ROUNDED), longest)
    token = token.scaled(np.maximum(turn - decoded, 0.0) / token.mean)
    rate = users / np.maximum(turn, shortest)
    contexts = decoding.cache_slope_s**2 * context_variation(job) * running
    each = crowded_gaps(job, step, asking, seconds) + Delay(np.zeros(()), contexts, np.zeros(()))
    most = step + reading.seconds[0] / reading.chunk_moments(np.asarray(reading.budget))[0]
    return Latency(first=token, between=Shares(each, most), requests_per_s=rate)


def _turn_bounds(
    decoding: Decoding, reading: Reading, step_s: FloatArray, prompt_s: FloatArray, mean_gaps: float
) -> tuple[FloatArray, FloatArray]:
    """(shortest, longest) turn of a request. In one turn the replica reads N prompts and takes the k steps of an answer, or
    the N K that the prompts fill, ``N b + max(k, N K) S``; and nobody waits longer than for all others, one by one."""
    users = decoding.running
    chunks = reading.chunk_moments(np.asarray(reading.budget))[0]
    shortest = users * prompt_s + np.maximum(mean_gaps, users * chunks) * step_s
    longest = users * (reading.seconds[0] + np.maximum(chunks, 1.0) * decoding.step_s) + mean_gaps * decoding.step_s
    return shortest, np.maximum(longest + reading.before_s, shortest)


def _running(decoding: Decoding, reading: Reading, mean_gaps: float) -> FloatArray:
    """Requests that decode while the rest of N waits for a first token, by Little's law with the mean wait: two cycles, the
    own prompt and the queue for the token budget. Two rounds from all N; never more than the reader feeds, which has full
    steps at ``n = k / K``."""
    users = decoding.running
    first = reading.seconds[0]
    chunks, squares, *_ = reading.chunk_moments(np.asarray(reading.budget))
    most = reading.most_running(mean_gaps)
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


def _first_token(
    decoding: Decoding, reading: Reading, running: FloatArray, asking: FloatArray, step_s: FloatArray, seconds: Moments4
) -> Delay:
    """Answers end with steps: with each, a Poisson number of mean x asks again (binomial, of many), whatever the step took.

    A new request comes just after a step has begun, as the time before the scheduler passes; it sits that step out,
    ``S + x b``, and is read in the next with the others that came, ``S + b + x b``. What the budget did not hold waits on:
    of the wait in the queue M/G/1 of x prompts a step that fill K steps each, all but the part that is those who came
    together: ``u``, or ``1 - (1 - u) E[K] / E[K^2]`` where prompts fill more than a step. Alone, there is no step to wait for.
    """
    users = decoding.running
    chunks = reading.chunk_moments(reading.free(running))
    empty = np.where(users > 1, np.exp(-running * (users - 1) / users), 1.0)
    step = step_s - (step_s - reading.gap_s) * empty
    cycle = (step + asking * seconds[0]) * (1 - empty)
    before = Delay(np.maximum(cycle, reading.before_s + cycle / 2), asking * seconds[1], asking * seconds[2])
    shared = Delay(asking * seconds[0], asking * seconds[1], asking * seconds[2])
    use = np.clip(asking * chunks[0], TINY, MOST_USE)
    beyond = 1 - (1 - use) / np.maximum(chunks[1] / chunks[0], 1.0)
    left = queue_wait(asking, chunks, use).given(1 / beyond).scaled(step + reading.seconds[0] / chunks[0])
    return before + own_reading(reading, step, chunks[0]) + shared + left
