"""Time of one decode step and of a prefill, per replica, arrays over layouts and batches.

Roofline with efficiencies (Williams et al. 2009; Yuan et al., "LLM Inference Unveiled", arXiv 2402.16363):
``time = (traffic^p + arithmetic^p)^(1/p)`` for each group of matrix products, attention and the output head,
plus activations, collectives and the gaps no arithmetic explains. A product of few rows still works through whole tiles
of matrix units, so its arithmetic counts ``rows + rows_half``: GPUs with much bandwidth for their FLOP/s feel it first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from app.catalog.schema import Gpu
from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.serving.constants import Number, PassConstants, pass_constants
from app.engine.serving.job import FloatArray, ServingJob, ServingLayout
from app.engine.serving.memory import prefill_chunk
from app.engine.serving.work import PassWork, decode_work, draft_work, prefill_work
from app.units import GB

NARROW = ("fp8", "fp4", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Peaks of the GPU in the formats a job uses: FLOP/s outside and inside the experts, of attention (16 bits), bytes/s;
    1 where a group multiplies in 8 bits or fewer, where it widens stored weights first, and where weights are GGUF."""

    dense: Number
    expert: Number
    wide: Number
    bandwidth: Number
    dense_narrow: Number
    expert_narrow: Number
    widens: Number
    gguf: Number


def rates_of(job: ServingJob, gpu: Gpu) -> Rates:
    """Peaks for one job on one GPU; a missing figure is an error, not a guess."""
    inside, outside = job.arithmetic(gpu), job.dense_arithmetic(gpu)
    peaks = [peak_flops(gpu, name) for name in (outside, inside, "bf16")]
    if gpu.memory_bandwidth_gb_per_s is None or None in peaks:
        raise ValueError(f"{gpu.id} has no memory bandwidth or no {inside} rate in the catalogue")
    dense, expert, wide = (peak or 0.0 for peak in peaks)
    return Rates(
        dense=dense,
        expert=expert,
        wide=wide,
        bandwidth=gpu.memory_bandwidth_gb_per_s * GB,
        dense_narrow=float(outside in NARROW),
        expert_narrow=float(inside in NARROW),
        widens=float(job.weights in ("int4", "fp4", "fp8", "int8") and inside not in NARROW),
        gguf=float(job.weights == "gguf"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Seconds of one pass through the replica by part; ``total_s`` is their sum.

    products_s is split for the explanation: weights_s is what the traffic alone would take, arithmetic_s the FLOP.
    """

    weights_s: FloatArray
    arithmetic_s: FloatArray
    products_s: FloatArray
    attention_s: FloatArray
    exchange_s: FloatArray
    hop_s: FloatArray
    overhead_s: FloatArray
    total_s: FloatArray

    def plus(self, other: PassTime, times: float) -> PassTime:
        """This pass and another, so many times, part by part."""
        names = [field.name for field in fields(self)]
        return PassTime(**{name: getattr(self, name) + times * getattr(other, name) for name in names})


def _joined(first: FloatArray, second: FloatArray, power: Number) -> FloatArray:
    """Two resources used at once: their p-norm, between the longer one and the sum."""
    longer = np.maximum(first, second)
    shorter = np.minimum(first, second)
    ratio = shorter / np.maximum(longer, 1e-30)
    result: FloatArray = longer * (1 + ratio**power) ** (1 / power)
    return result


def pass_time(work: PassWork, rates: Rates, constants: PassConstants, *, prompt: bool | FloatArray) -> PassTime:
    """Seconds of a pass from its work. ``prompt``: several rows of one sequence, so attention is arithmetic."""
    unfused = 1 + (constants.gguf_share - 1) * rates.gguf
    memory = rates.bandwidth * constants.memory_share * unfused
    dense_share = constants.product_share + (constants.narrow_product_share - constants.product_share) * rates.dense_narrow
    expert_top = constants.product_share + (constants.narrow_product_share - constants.product_share) * rates.expert_narrow
    slower = 1 + (constants.widened_share - 1) * rates.widens
    progress = constants.kernel_progress * slower * unfused
    side = work.dense_side / (work.dense_side + constants.side_half)
    half = constants.rows_half + (constants.widened_rows_half - constants.rows_half) * rates.widens
    dense_rate = rates.dense * dense_share * progress * side * work.dense_rows / (work.dense_rows + half)
    filled = work.expert_rows / (work.expert_rows + constants.expert_rows_half)
    expert_side = work.expert_side / (work.expert_side + constants.side_half)
    expert_rate = rates.expert * expert_top * constants.expert_share * progress * expert_side * filled
    head_rate = rates.wide * constants.product_share * work.sequences / (work.sequences + constants.rows_half)
    dense_traffic, expert_traffic, head_traffic = (part / memory for part in (work.dense_bytes, work.expert_bytes, work.head_bytes))
    dense_flop, expert_flop, head_flop = work.dense_flop / dense_rate, work.expert_flop / expert_rate, work.head_flop / head_rate
    products = (
        _joined(dense_traffic, dense_flop, constants.join)
        + _joined(expert_traffic, expert_flop, constants.join)
        + _joined(head_traffic, head_flop, constants.join)
    )
    again = 1 + constants.group_repeat * (work.sharing - 1)
    cache = work.cache_bytes * again / (rates.bandwidth * constants.cache_share)
    scores = work.attention_flop / (rates.wide * constants.attention_share * constants.kernel_progress)
    attention = np.where(prompt, scores, _joined(cache, scores, constants.join)) + work.stream_bytes / (
        rates.bandwidth * constants.memory_share
    )
    overhead = (
        constants.step_gap_s
        + constants.layer_gap_s * work.layers
        + constants.moe_gap_s * work.moe_layers
        + constants.parallel_gap_s * work.parallel_layers
        + constants.sequence_gap_s * work.sequences
    )
    total = products + attention + work.exchange_s + work.hop_s + overhead
    parts = {
        "weights_s": dense_traffic + expert_traffic + head_traffic,
        "arithmetic_s": dense_flop + expert_flop + head_flop,
        "products_s": products,
        "attention_s": attention,
        "exchange_s": work.exchange_s,
        "hop_s": work.hop_s,
        "overhead_s": overhead,
        "total_s": total,
    }
    shape = np.shape(total)
    # Broadcasting costs more than the sums; nearly every part has the full shape already.
    whole = {name: value if np.shape(value) == shape else np.broadcast_to(value, shape) for name, value in parts.items()}
    return PassTime(**{name: np.asarray(value, dtype=float) for name, value in whole.items()})


def decode_step(job: ServingJob, platform: Platform, layout: ServingLayout, batch: ArrayLike, context: ArrayLike) -> PassTime:
    """One pass over ``batch`` sequences of ``context`` tokens, with the drafts it checks: k proposals, one after the other."""
    rates, constants = rates_of(job, platform.gpu), pass_constants(platform.gpu, job.engine, job.year)
    checked = pass_time(decode_work(job, platform, layout, batch, context), rates, constants, prompt=False)
    if not job.speculative_tokens:
        return checked
    # Drafts are proposed inside the same step of the scheduler.
    inside = replace(constants, step_gap_s=0.0, sequence_gap_s=0.0)
    drafted = pass_time(draft_work(job, platform, layout, batch, context), rates, inside, prompt=False)
    return checked.plus(drafted, job.speculative_tokens)


def prompt_pass(job: ServingJob, platform: Platform, layout: ServingLayout, tokens: ArrayLike) -> tuple[PassTime, FloatArray]:
    """One chunk of a prompt of ``tokens``, and the number of chunks (at least 1)."""
    length = np.asarray(tokens, dtype=float)
    chunk = np.minimum(length, prefill_chunk(platform))
    work = prefill_work(job, platform, layout, chunk, length / 2)
    constants = pass_constants(platform.gpu, job.engine, job.year)
    return pass_time(work, rates_of(job, platform.gpu), constants, prompt=True), length / chunk


def prefill(job: ServingJob, platform: Platform, layout: ServingLayout, tokens: ArrayLike) -> FloatArray:
    """Seconds to read a prompt of ``tokens`` alone, in the engine's chunks."""
    one, chunks = prompt_pass(job, platform, layout, tokens)
    whole: FloatArray = one.total_s * chunks
    return whole


def constant_names() -> tuple[str, ...]:
    """Names of the pass constants, for reports of a fit."""
    return tuple(field.name for field in fields(PassConstants))
