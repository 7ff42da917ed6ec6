"""The smallest GPU count of a span that trains the job in time."""

from __future__ import annotations

import math
from dataclasses import replace

from app.catalog.model_shape import ModelShape
from app.engine.compute import peak_flops
from app.engine.platform import Platform
from app.engine.result import (
    Bottleneck,
    CommunicationTerm,
    Parallel,
    ScalingPoint,
    Shortfall,
    Sized,
    Span,
    TrainingFigures,
)
from app.engine.training.goodput import goodput_fraction
from app.engine.training.job import OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob
from app.engine.training.search import search, usable_bytes
from app.engine.training.step import model_flop_per_token
from app.ranges import Range
from app.units import GB, SECONDS_PER_DAY
from app.workload.demand import TrainingDemand

PRETRAINING_BATCH_TOKENS = 4_000_000.0
"""Tokens per step of published pretraining runs of 7B to 400B models: 4 million (Llama 2) to 16 million (Llama 3)."""
FINETUNING_BATCH_SEQUENCES = 128.0
"""Sequences per step in published fine-tuning recipes: 64 to 256."""
TIME_SPREAD = (0.80, 1.25)
"""Four published runs in five lie within this factor of the prediction (validation by source)."""
MEMORY_SPREAD = (0.85, 1.20)
COLLECTIVE_NAMES = {"tp": "all_reduce", "cp": "all_gather", "ep": "all_to_all", "pp": "send_recv", "dp": "all_reduce"}


def training_job(demand: TrainingDemand, shape: ModelShape, precision: str) -> TrainingJob:
    """The engine's job of a demand; a global batch left open takes the usual size of the task."""
    if demand.global_batch_tokens is not None:
        sequences = max(demand.global_batch_tokens / demand.seq_len, 1.0)
    elif demand.task == "pretraining":
        sequences = max(PRETRAINING_BATCH_TOKENS / demand.seq_len, 64.0)
    else:
        sequences = FINETUNING_BATCH_SEQUENCES
    return TrainingJob(
        shape=shape,
        task=demand.task,
        seq_len=demand.seq_len,
        global_batch_sequences=2.0 ** round(math.log2(sequences)) if demand.global_batch_tokens is None else sequences,
        optimizer=demand.optimizer,
        precision="bf16" if precision == "auto" else precision,
        lora_rank=demand.lora_rank,
        base_bits=demand.base_bits,
    )


def size_training(
    demand: TrainingDemand, shape: ModelShape, platform: Platform, span: Span, precision: str, max_gpus: int
) -> Sized | Shortfall:
    """Smallest count of the span whose best layout fits and, where a deadline is stated, meets it."""
    gpu = platform.gpu
    if gpu.memory_gb is None or gpu.memory_bandwidth_gb_per_s is None or peak_flops(gpu, "bf16") is None:
        return _shortfall("support", None, None, "", f"the catalogue lacks memory, bandwidth or 16-bit rate of {gpu.name}")
    if shape.layers == 0 or shape.hidden == 0:
        return _shortfall("support", None, None, "", f"the layers of {shape.name} are not known, so training it cannot be sized")
    job = training_job(demand, shape, precision)
    counts = [count for count in _counts(span, platform, max_gpus, job)]
    if not counts:
        return _shortfall(
            "gpus",
            float(platform.gpus_per_server + 1),
            float(max_gpus),
            "GPUs",
            f"a job of this reach needs more GPUs than the {max_gpus} allowed",
        )
    floor = max(_by_memory(job, platform), 1)
    reachable = [count for count in counts if count >= floor * 0.9] or counts[-1:]
    first = next((position for position, count in enumerate(reachable) if _fits(job, platform, count)), None)
    if first is None:
        return _does_not_fit(job, platform, reachable)
    if demand.deadline_days is None:
        return _sized(demand, job, platform, span, reachable[first]) or _does_not_fit(job, platform, reachable)
    return _in_time(demand, job, platform, span, reachable[first:], demand.deadline_days)


def _shortfall(constraint: str, needed: float | None, available: float | None, unit: str, message: str) -> Shortfall:
    return Shortfall(constraint=constraint, needed=needed, available=available, unit=unit, message=message)


def _counts(span: Span, platform: Platform, max_gpus: int, job: TrainingJob) -> list[int]:
    """GPU counts worth trying: one; powers of two and the whole server; whole servers in steps of at most half."""
    per_server = platform.gpus_per_server
    if span == "one_gpu":
        return [1] if max_gpus >= 1 else []
    if span == "one_server":
        inside = sorted({2, 4, 8, 16, 32, 36, 64, 72, per_server})
        return [count for count in inside if 2 <= count <= min(per_server, max_gpus)]
    most = min(max_gpus, int(job.global_batch_sequences) * 64 * max(platform.scale_up.domain_gpus, 1))
    found = []
    for exponent in range(1, 18):
        for factor in (2, 3):
            servers = factor * 2 ** (exponent - 1)
            if servers * per_server <= most:
                found.append(servers * per_server)
    return sorted(set(found))


def _does_not_fit(job: TrainingJob, platform: Platform, counts: list[int]) -> Shortfall:
    """Memory of the largest count that has a legal split, against what a GPU has."""
    have = usable_bytes(platform) / GB
    for count in reversed(counts):
        found = search(job, platform, count)
        if found is not None:
            need = float(found.total_bytes.min()) / GB
            text = f"{count} {platform.gpu.name} need {need:.0f} GB each and {have:.0f} GB are usable"
            return _shortfall("memory", need, have, "GB per GPU", text)
    return _shortfall("heads", None, None, "", f"no legal split of the model over the allowed counts of {platform.gpu.name}")


def _in_time(
    demand: TrainingDemand, job: TrainingJob, platform: Platform, span: Span, counts: list[int], limit_days: float
) -> Sized | Shortfall:
    """The first count that meets the deadline. Starts where perfect scaling from the first count would, so that few
    counts are searched; never below the answer since scaling is at most linear (up to one step of memory relief)."""
    days = _days(demand, job, platform, counts[0])
    if days <= limit_days:
        chosen = _sized(demand, job, platform, span, counts[0])
        assert chosen is not None
        return chosen
    wanted = counts[0] * days / limit_days
    start = next((position for position, count in enumerate(counts) if count >= wanted * 0.8), len(counts) - 1)
    last = counts[0]
    for count in counts[max(start, 1) :] if len(counts) > 1 else []:
        days = _days(demand, job, platform, count)
        if days == math.inf:
            break
        last = count
        if days <= limit_days:
            chosen = _sized(demand, job, platform, span, count)
            assert chosen is not None
            return chosen
    nearest = _sized(demand, job, platform, span, last)
    days = _days(demand, job, platform, last)
    where = f"{last} {platform.gpu.name}"
    text = f"{where} would take {days:,.3g} days; {limit_days:g} are allowed"
    return replace(_shortfall("deadline", days, limit_days, "days", text), nearest=nearest)


def _fits(job: TrainingJob, platform: Platform, count: int) -> bool:
    found = search(job, platform, count)
    return found is not None and found.best() is not None


def _days(demand: TrainingDemand, job: TrainingJob, platform: Platform, count: int) -> float:
    found = search(job, platform, count)
    index = found.best() if found is not None else None
    if found is None or index is None:
        return math.inf
    rate = job.global_batch_sequences * job.seq_len / float(found.step.step_s[index])
    return demand.tokens.mid / rate / SECONDS_PER_DAY / float(goodput_fraction(count))


def state_bytes(job: TrainingJob) -> float:
    """Weights, gradients and optimizer state of the whole job, bytes, without activations."""
    total = job.shape.params_b * 1e9
    if job.frozen_base:
        return total * job.base_bits / 8
    master = 0.0 if job.optimizer in ("adamw_8bit", "adafactor") else 4.0
    return total * (4 + OPTIMIZER_BYTES[job.optimizer] + master)


def _by_memory(job: TrainingJob, platform: Platform) -> int:
    """GPUs whose memory holds weights, gradients and optimizer state, nothing else."""
    return max(math.ceil(state_bytes(job) / usable_bytes(platform)), 1)


def _sized(demand: TrainingDemand, job: TrainingJob, platform: Platform, span: Span, count: int) -> Sized | None:
    found = search(job, platform, count)
    index = found.best() if found is not None else None
    if found is None or index is None:
        return None
    layout, step = found.layout, found.step
    seconds = float(step.step_s[index])
    rate = job.global_batch_sequences * job.seq_len / seconds
    goodput = float(goodput_fraction(count))
    days = demand.tokens.mid / rate / SECONDS_PER_DAY / goodput
    peak = peak_flops(platform.gpu, "bf16") or 1.0
    mfu = step.model_flop / seconds / (count * peak)
    exposed = float(step.exposed_s[index])
    parts = {
        "compute": float(step.compute_s[index]),
        "memory_bandwidth": float(step.memory_s[index] + step.optimizer_s[index]),
        "pipeline_bubble": float(step.bubble_s[index]),
        "host": float(step.host_s[index]),
        "scale_up": float(sum(item.exposed_s[index] for item in step.exchanges if not item.across[index])),
        "scale_out": float(sum(item.exposed_s[index] for item in step.exchanges if item.across[index])),
    }
    inverse = (1 / TIME_SPREAD[1], 1 / TIME_SPREAD[0])
    bound = demand.tokens.mid * model_flop_per_token(job) / peak
    roofline = 1 if demand.deadline_days is None else math.ceil(bound / (demand.deadline_days * SECONDS_PER_DAY))
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(
            tp=int(layout.tp[index]), pp=int(layout.pp[index]), dp=int(layout.dp[index]), ep=int(layout.ep[index]), cp=int(layout.cp[index])
        ),
        replicas=1,
        memory_gb={
            name: Range.around(float(value[index]) / GB, *MEMORY_SPREAD) for name, value in found.memory_bytes.items() if value[index] > 0
        },
        capacity_gb=usable_bytes(platform) / GB,
        training=TrainingFigures(
            step_s=Range.around(seconds, *TIME_SPREAD),
            tokens_per_s=Range.around(rate, *inverse),
            mfu=Range.around(mfu, *inverse),
            days=Range.around(days, *TIME_SPREAD),
            goodput_fraction=goodput,
        ),
        communication=tuple(
            CommunicationTerm(
                collective=COLLECTIVE_NAMES[item.name],
                purpose=item.purpose,
                level="scale_out" if item.across[index] else "scale_up",
                bytes=float(item.bytes[index]),
                time_s=float(item.time_s[index]),
                exposed_s=float(item.exposed_s[index]),
            )
            for item in step.exchanges
            if item.time_s[index] > 0
        ),
        communication_fraction=exposed / seconds,
        time_parts_s=parts,
        bottleneck=_bottleneck(parts),
        scaling=_scaling(job, platform, span, count, rate),
        micro_batch=int(layout.micro_batch[index]),
        global_batch=int(job.global_batch_sequences),
        recompute=RECOMPUTE[int(layout.recompute[index])],
        sharding=SHARDING[int(layout.sharding[index])],
        precision={"training": job.precision, **({"base_bits": f"{job.base_bits:g}"} if job.frozen_base else {})},
        bounds_gpus_by_memory=_by_memory(job, platform),
        bounds_gpus_by_roofline=max(roofline, 1),
    )


def _bottleneck(parts: dict[str, float]) -> Bottleneck:
    largest = max(parts, key=lambda name: parts[name])
    names: dict[str, Bottleneck] = {
        "compute": "compute",
        "memory_bandwidth": "memory_bandwidth",
        "pipeline_bubble": "latency",
        "host": "host",
        "scale_up": "scale_up",
        "scale_out": "scale_out",
    }
    return names[largest]


def _scaling(job: TrainingJob, platform: Platform, span: Span, count: int, rate: float) -> tuple[ScalingPoint, ...]:
    """Throughput at half, the same and double the count, per GPU against the smallest of them that fits."""
    points = []
    for trial in (count // 2, count, count * 2):
        if trial < 1 or (span == "one_server" and trial > platform.gpus_per_server) or (span == "one_gpu" and trial != 1):
            continue
        if span == "many_servers" and trial < 2 * platform.gpus_per_server:
            continue
        if trial == count:
            points.append((trial, rate))
            continue
        found = search(job, platform, trial)
        index = found.best() if found is not None else None
        if found is not None and index is not None:
            points.append((trial, job.global_batch_sequences * job.seq_len / float(found.step.step_s[index])))
    base = points[0][1] / points[0][0]
    return tuple(ScalingPoint(gpus=gpus, throughput=value, efficiency=value / gpus / base) for gpus, value in points)
