"""A floor under the cost of a candidate, from memory and roofline alone: what cannot win is never searched."""

from __future__ import annotations

import math
from dataclasses import replace

from app.advice.candidates import Candidate
from app.catalog.loader import Catalog
from app.costing.quick import quick_usd
from app.engine.compute import peak_flops
from app.engine.result import Parallel, Shortfall, Sized
from app.engine.serving.memory import usable_bytes as serving_bytes
from app.engine.serving.memory import weight_bytes_total
from app.engine.serving.replica import serving_job
from app.engine.training.search import usable_bytes as training_bytes
from app.engine.training.sizing import state_bytes, training_job
from app.engine.training.step import model_flop_per_token
from app.units import SECONDS_PER_DAY
from app.workload.architecture import parameter_counts
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile

BEST_MFU = 0.85
"""No published training run uses more of the dense peak."""
IDLE_ALLOWANCE = 0.8
"""A serving design is charged the power of its load, the bare one that of full load."""


def fewest_gpus(demand: Demand, candidate: Candidate) -> int:
    """GPUs no design on the candidate can do without: memory for the weights or the training state, and the arithmetic
    at 100% of peak. 1 for work that has no such bound."""
    platform, gpu = candidate.platform, candidate.platform.gpu
    narrow = demand.precision.weights == "fp4" or (demand.shape is not None and demand.shape.native_precision == "fp4")
    peak = peak_flops(gpu, "fp4" if narrow else "fp8") or 0.0
    if gpu.memory_gb is None or peak <= 0 or demand.shape is None:
        return 1
    least = {"one_gpu": 1, "one_server": 2, "many_servers": platform.gpus_per_server + 1}[candidate.span]
    if demand.training is not None:
        job = training_job(demand.training, demand.shape, demand.precision.training)
        needed = state_bytes(job) / training_bytes(platform)
        rate = peak_flops(gpu, job.precision)
        if demand.training.deadline_days is not None and rate is not None:
            work = demand.training.tokens.mid * model_flop_per_token(job)
            needed = max(needed, work / (BEST_MFU * rate * demand.training.deadline_days * SECONDS_PER_DAY))
        return max(math.ceil(needed), least)
    if demand.serving is not None:
        weights = weight_bytes_total(serving_job(demand.serving, demand.shape, demand.precision))
        rate = demand.serving.requests_per_s.mid if demand.serving.requests_per_s is not None else 0.0
        tokens = demand.serving.input_tokens * (1 - demand.serving.prefix_reuse) - demand.serving.shared_prefix_tokens
        return max(math.ceil(weights / serving_bytes(platform)), _arithmetic(demand, rate * max(tokens, 0.0), peak), least)
    if demand.batch is not None:
        rate = demand.batch.items / (demand.batch.deadline_h * 3600)
        return max(_arithmetic(demand, rate * demand.batch.input_tokens, peak), least)
    return least


def out_of_reach(demand: Demand, candidate: Candidate) -> Shortfall | None:
    """Why a job kept within one GPU or one server cannot do the work whatever its layout, or None when it might."""
    if candidate.span == "many_servers" or demand.training is None:
        return None
    have = 1 if candidate.span == "one_gpu" else candidate.platform.gpus_per_server
    needed = fewest_gpus(demand, candidate)
    if needed <= have:
        return None
    where = "one GPU is" if have == 1 else f"one server has {have} and is"
    return Shortfall(
        constraint="gpus",
        needed=float(needed),
        available=float(have),
        unit="GPUs",
        message=f"at least {needed:,} {candidate.platform.gpu.name} are needed by memory and arithmetic alone; {where} too little",
    )


def _arithmetic(demand: Demand, tokens_per_s: float, peak: float) -> int:
    """GPUs for ``tokens_per_s`` at 2 FLOP per active parameter and token and 100% of ``peak``, FLOP/s."""
    assert demand.shape is not None
    counts = parameter_counts(demand.shape)
    active = max(counts.active - counts.embedding - counts.output_head, 0.0)
    return math.ceil(tokens_per_s * 2 * active / peak)


def cost_floor_usd(demand: Demand, candidate: Candidate, profile: WorkloadProfile, catalog: Catalog) -> float:
    """Lifetime cost of the fewest GPUs the candidate could ever need, USD."""
    gpus = fewest_gpus(demand, candidate)
    per_server = candidate.platform.gpus_per_server
    replicas = gpus if candidate.span == "one_gpu" else 1
    job = 1 if candidate.span == "one_gpu" else min(gpus, per_server) if candidate.span == "one_server" else gpus
    bare = replace(_BARE, platform=candidate.platform, span=candidate.span, parallel=Parallel(dp=job), replicas=replicas)
    cost = quick_usd(bare, catalog, profile.constraints, owned=candidate.owned is not None, network_exists=candidate.network_exists)
    return (IDLE_ALLOWANCE if demand.training is None else 1.0) * cost.horizon_usd


def _bare() -> Sized:
    from app.catalog.schema import Gpu
    from app.engine.platform import platform_of

    gpu = Gpu(
        id="none", vendor="nvidia", name="none", form_factor="pcie", generation="ampere", architecture="", year=2020,
        source="placeholder", as_of="2026", kind="assumption",
    )  # fmt: skip
    return Sized(platform=platform_of(gpu), span="one_gpu", parallel=Parallel(), replicas=1, memory_gb={}, capacity_gb=1.0)


_BARE = _bare()
"""A design with nothing but a platform and a count, to be costed."""
