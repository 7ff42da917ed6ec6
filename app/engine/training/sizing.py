"""The smallest GPU count of a span that trains the job in time."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
from app.engine.training.goodput import checkpoint_time_s, goodput_fraction
from app.engine.training.job import OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob
from app.engine.training.search import Best, best_by_count, usable_bytes
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
MEMORY_SPREAD = (0.78, 1.25)
COUNTS_AT_ONCE = 4
"""GPU counts worked out in one evaluation: enough to share its fixed cost, few enough to stop early."""
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
    counts = _counts(span, platform, max_gpus, job)
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
    if demand.deadline_days is None:
        return _smallest(demand, job, platform, span, reachable)
    return _in_time(demand, job, platform, span, reachable, demand.deadline_days)


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


def _batches(job: TrainingJob, platform: Platform, span: Span, counts: list[int]) -> Iterator[dict[int, Best | None]]:
    """Counts a few at a time, ascending: one evaluation each, stopped at the first that will do. The counts their
    scaling will be shown against are worked out along with them."""
    for start in range(0, len(counts), COUNTS_AT_ONCE):
        batch = counts[start : start + COUNTS_AT_ONCE]
        around = {trial for count in batch for trial in _neighbours(platform, span, count)}
        found = best_by_count(job, platform, sorted(around | set(batch)))
        yield {count: found[count] for count in batch}


def _does_not_fit(job: TrainingJob, platform: Platform, counts: list[int]) -> Shortfall:
    """Memory of the largest count that has a legal split, against what a GPU has."""
    have = usable_bytes(platform) / GB
    for count in reversed(counts):
        found = best_by_count(job, platform, (count,))[count]
        if found is not None:
            need = found.total_bytes / GB
            text = f"{count} {platform.gpu.name} need {need:.0f} GB each and {have:.0f} GB are usable"
            return _shortfall("memory", need, have, "GB per GPU", text)
    return _shortfall("heads", None, None, "", f"no legal split of the model over the allowed counts of {platform.gpu.name}")


def _smallest(demand: TrainingDemand, job: TrainingJob, platform: Platform, span: Span, counts: list[int]) -> Sized | Shortfall:
    """The first count whose memory holds the job."""
    for batch in _batches(job, platform, span, counts):
        for count, found in batch.items():
            if found is not None and found.fits:
                return _sized(demand, job, platform, span, count, found)
    return _does_not_fit(job, platform, counts)


def _in_time(
    demand: TrainingDemand, job: TrainingJob, platform: Platform, span: Span, counts: list[int], limit_days: float
) -> Sized | Shortfall:
    """The first count that meets the deadline; counts too small even at the GPU's peak are passed over."""
    ideal = _by_roofline(demand, job, platform, limit_days)
    wanted = [count for count in counts if count >= ideal]
    nearest: tuple[int, Best] | None = None
    fewest = math.inf
    for batch in _batches(job, platform, span, wanted):
        for count, found in batch.items():
            if found is None or not found.fits:
                continue
            days = _days(demand, job, count, found)
            if days <= limit_days:
                return _sized(demand, job, platform, span, count, found)
            if days < fewest:
                nearest, fewest = (count, found), days
        if nearest is not None and nearest[0] not in batch:
            break
    if nearest is None:
        largest = best_by_count(job, platform, counts[-1:])[counts[-1]]
        if largest is None or not largest.fits:
            return _does_not_fit(job, platform, counts)
        nearest, fewest = (counts[-1], largest), _days(demand, job, counts[-1], largest)
    count, found = nearest
    text = f"{count} {platform.gpu.name} would take {fewest:,.3g} days; {limit_days:g} are allowed"
    return replace(_shortfall("deadline", fewest, limit_days, "days", text), nearest=_sized(demand, job, platform, span, count, found))


def _tokens_per_s(job: TrainingJob, found: Best) -> float:
    """Tokens of a step over its seconds."""
    return job.global_batch_sequences * job.seq_len / found.step_s


def _days(demand: TrainingDemand, job: TrainingJob, count: int, found: Best) -> float:
    """Days of all tokens at the step's rate and the goodput of the count: failures, checkpoints and restarts included."""
    goodput = float(goodput_fraction(count, checkpoint_time_s(saved_bytes(job), count)))
    return demand.tokens.mid / _tokens_per_s(job, found) / SECONDS_PER_DAY / goodput


def _by_roofline(demand: TrainingDemand, job: TrainingJob, platform: Platform, limit_days: float) -> int:
    """GPUs that meet the deadline at the peak of the job's precision, nothing lost."""
    peak = peak_flops(platform.gpu, job.precision) or 1.0
    seconds = demand.tokens.mid * model_flop_per_token(job) / peak
    return max(math.ceil(seconds / (limit_days * SECONDS_PER_DAY)), 1)


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


def saved_bytes(job: TrainingJob) -> float:
    """Bytes of one checkpoint: 16-bit weights, fp32 master copy and optimizer state; of adapters only where the base is frozen."""
    return job.trained_parameters * (6.0 + OPTIMIZER_BYTES[job.optimizer])


def _sized(demand: TrainingDemand, job: TrainingJob, platform: Platform, span: Span, count: int, found: Best) -> Sized:
    """The design of a count and its fastest layout."""
    alone, index = found.alone(), 0
    layout, step, seconds = alone.layout, alone.step, found.step_s
    rate = _tokens_per_s(job, found)
    goodput = float(goodput_fraction(count, checkpoint_time_s(saved_bytes(job), count)))
    days = demand.tokens.mid / rate / SECONDS_PER_DAY / goodput
    peak = peak_flops(platform.gpu, "bf16") or 1.0
    mfu = step.model_flop / seconds / (count * peak)
    exposed = float(step.exposed_s[0])
    parts = {
        "compute": float(step.compute_s[index]),
        "memory_bandwidth": float(step.memory_s[index] + step.optimizer_s[index]),
        "pipeline_bubble": float(step.bubble_s[index]),
        "host": float(step.host_s[index]),
        "scale_up": float(sum(item.exposed_s[index] for item in step.exchanges if not item.across[index])),
        "scale_out": float(sum(item.exposed_s[index] for item in step.exchanges if item.across[index])),
    }
    inverse = (1 / TIME_SPREAD[1], 1 / TIME_SPREAD[0])
    roofline = 1 if demand.deadline_days is None else _by_roofline(demand, job, platform, demand.deadline_days)
    return Sized(
        platform=platform,
        span=span,
        parallel=Parallel(
            tp=int(layout.tp[index]), pp=int(layout.pp[index]), dp=int(layout.dp[index]), ep=int(layout.ep[index]), cp=int(layout.cp[index])
        ),
        replicas=1,
        memory_gb={
            name: Range.around(float(value[index]) / GB, *MEMORY_SPREAD) for name, value in alone.memory_bytes.items() if value[index] > 0
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
        virtual_stages=int(layout.vp[index]),
        shard_groups=int(layout.replicas[index] / layout.shard_group[index]),
        precision={"training": job.precision, **({"base_bits": f"{job.base_bits:g}"} if job.frozen_base else {})},
        bounds_gpus_by_memory=_by_memory(job, platform),
        bounds_gpus_by_roofline=roofline,
    )


def _bottleneck(parts: dict[str, float]) -> Bottleneck:
    """What the largest part of a step waits for."""
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


def _neighbours(platform: Platform, span: Span, count: int) -> list[int]:
    """Half, the same and double the count, as far as the span reaches."""
    low = 2 * platform.gpus_per_server if span == "many_servers" else 1
    high = {"one_gpu": 1, "one_server": platform.gpus_per_server}.get(span, math.inf)
    return [trial for trial in (count // 2, count, count * 2) if low <= trial <= high]


def _scaling(job: TrainingJob, platform: Platform, span: Span, count: int, rate: float) -> tuple[ScalingPoint, ...]:
    """Throughput at half, the same and double the count, per GPU against the smallest of them that fits."""
    trials = _neighbours(platform, span, count)
    points = []
    for trial, found in best_by_count(job, platform, trials).items():
        if trial == count:
            points.append((trial, rate))
        elif found is not None and found.fits:
            points.append((trial, _tokens_per_s(job, found)))
    base = points[0][1] / points[0][0]
    return tuple(ScalingPoint(gpus=gpus, throughput=value, efficiency=value / gpus / base) for gpus, value in points)
