"""Storage of a design: what it holds, how fast it must be read, and how fast a checkpoint must be written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from app.catalog.model_shape import ModelShape
from app.engine.result import Sized
from app.units import GB, SECONDS_PER_HOUR, TB
from app.workload.demand import Demand, TrainingDemand

CHECKPOINT_BYTES_PER_PARAMETER = {"adamw": 14.0, "adamw_8bit": 8.0, "adafactor": 6.0, "sgd": 10.0, "muon": 10.0}
"""BF16 weights 2 + FP32 master 4 + optimizer state: Adam 8, 8-bit Adam 2, Adafactor about 0 (row and column means),
SGD with momentum 4, Muon one momentum 4."""
ADAPTER_BYTES_PER_PARAMETER = 14.0

GPU_HOURS_PER_INTERRUPTION = 50_700.0
"""419 stops of 16,384 GPUs in 54 days (Llama 3 paper)."""
LOST_WORK_FRACTION = 0.01
"""Checkpoint often enough that redone work stays below this share: interval = 2 x 1% x time between interruptions."""
INTERVAL_H = (0.25, 4.0)
"""Shortest and longest interval people use."""
STALL_FRACTION = 0.03
"""Share of time a checkpoint may stop the run, unless stated otherwise."""
CHECKPOINTS_KEPT = 5
"""Assumption: three recent ones and two milestones."""
TOKENS = "tokens as ids and as text, base model where there is one"
BYTES_PER_TOKEN_ON_DISK = 4.0
"""Token ids as 32-bit integers; text before tokenising is about as large (4-5 characters a token)."""
TEXT_COPIES = 2.0
"""Tokenised and raw side by side."""

READ_GB_PER_S_PER_GPU = {"good": 15 / 256, "better": 40 / 256, "best": 125 / 256}
"""DGX SuperPOD H100 reference architecture, one unit of 256 GPUs: good text with cached data, better compressed images
or a mix, best large uncompressed images, video and simulation."""
NODE_READ_GB_PER_S = {"good": 4.0, "better": 8.0, "best": 40.0}
"""Least for one node, same source."""
MODEL_LOAD_S = 300.0
"""A server should be back within five minutes: the model is read in that time. Assumption."""
MODEL_VERSIONS_KEPT = 3
IMAGES_AND_LOGS_TB = 0.2
"""Container images, caches and logs (RAG blueprint: at least 200 GB of disk)."""

Tier = Literal["good", "better", "best"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """Shared storage. checkpoint_s: how long one checkpoint takes at ``write_gb_per_s``; None where there is none."""

    capacity_tb: float
    read_gb_per_s: float
    write_gb_per_s: float
    checkpoint_s: float | None
    notes: tuple[str, ...]
    checkpoint_gb: float | None = None
    checkpoint_interval_h: float | None = None
    shared: bool = True
    """False: fits on the servers' own drives and no other server needs it."""


def checkpoint_bytes(shape: ModelShape, training: TrainingDemand) -> float:
    """Bytes of one checkpoint: parameters trained x bytes of weights, master copy and optimizer state."""
    if training.task in ("lora", "qlora"):
        return adapter_parameters(shape, training.lora_rank) * ADAPTER_BYTES_PER_PARAMETER
    return shape.params_b * 1e9 * CHECKPOINT_BYTES_PER_PARAMETER[training.optimizer]


def adapter_parameters(shape: ModelShape, rank: int) -> float:
    """Parameters of LoRA adapters on all linear layers: rank x (inputs + outputs) summed over attention and MLP."""
    attention_out = shape.heads * shape.head_dim
    kv_out = shape.kv_heads * shape.head_dim
    per_attention = 2 * (shape.hidden + attention_out) + 2 * (shape.hidden + kv_out)
    per_mlp = (3 if shape.gated_mlp else 2) * (shape.hidden + (shape.ffn_dense or shape.moe_ffn))
    return max(rank, 1) * shape.layers * float(per_attention + per_mlp)


def checkpoint_interval_h(gpus: int) -> float:
    """Hours between checkpoints: 2 x lost share x mean time between interruptions, within the usual bounds.

    On average half an interval is redone per interruption: lost share = interval / (2 x MTBI); MTBI = 50,700 h / GPUs.
    """
    interval = 2 * LOST_WORK_FRACTION * GPU_HOURS_PER_INTERRUPTION / max(gpus, 1)
    return min(max(interval, INTERVAL_H[0]), INTERVAL_H[1])


def storage_plan(demand: Demand, sized: Sized, *, stall_fraction: float = STALL_FRACTION) -> StoragePlan:
    """Storage for a demand on a design; ``stall_fraction``: share of the run a checkpoint may stop it."""
    if demand.training is not None and demand.shape is not None:
        return _training(demand.shape, demand.training, sized, stall_fraction)
    if demand.vision is not None:
        vision = demand.vision
        data = vision.images.mid * vision.sample_bytes
        state = vision.params * CHECKPOINT_BYTES_PER_PARAMETER["adamw"]
        tier: Tier = "best" if data > 30 * TB else "better"
        rate = sized.training.samples_per_s.mid * vision.sample_bytes if sized.training and sized.training.samples_per_s else 0.0
        return _with_checkpoints(data, state, sized, stall_fraction, tier, rate, "images as stored")
    if demand.hpc is not None:
        memory = (demand.hpc.memory_gb or 0.0) * GB or sized.gpus * sized.capacity_gb * GB * 0.5
        return _with_checkpoints(memory * demand.hpc.runs_per_day * 30, memory, sized, stall_fraction, "best", 0.0, "results of 30 days")
    if demand.data_science is not None:
        data = demand.data_science.dataset_gb.mid * GB * 2
        return _plain(data, sized, "better", "dataset and one working copy")
    return _serving(demand, sized)


def _training(shape: ModelShape, training: TrainingDemand, sized: Sized, stall_fraction: float) -> StoragePlan:
    data = training.tokens.mid * BYTES_PER_TOKEN_ON_DISK * TEXT_COPIES
    rate = sized.training.tokens_per_s.mid * BYTES_PER_TOKEN_ON_DISK if sized.training else 0.0
    base = shape.params_b * 1e9 * 2 if training.task in ("lora", "qlora", "finetuning") else 0.0
    return _with_checkpoints(
        data + base,
        checkpoint_bytes(shape, training),
        sized,
        stall_fraction,
        "good",
        rate,
        "tokens as ids and as text, base model where there is one",
    )


def _with_checkpoints(
    data_bytes: float, state_bytes: float, sized: Sized, stall_fraction: float, tier: Tier, rate_bytes_per_s: float, what: str
) -> StoragePlan:
    """Write speed from checkpoint size, interval and allowed stall; read speed the larger of need and tier."""
    if not 0 < stall_fraction < 1:
        raise ValueError(f"stall_fraction must lie between 0 and 1, got {stall_fraction}")
    interval_h = checkpoint_interval_h(sized.gpus)
    allowed_s = stall_fraction * interval_h * SECONDS_PER_HOUR
    needed = state_bytes / GB / allowed_s
    read, floor = _tier_read(sized, tier)
    write = max(needed, floor / 2)
    read = max(read, rate_bytes_per_s / GB, state_bytes / GB / MODEL_LOAD_S)
    seconds = state_bytes / GB / write
    capacity = data_bytes + CHECKPOINTS_KEPT * state_bytes
    return StoragePlan(
        capacity_tb=_tb(capacity / TB + IMAGES_AND_LOGS_TB),
        read_gb_per_s=read,
        write_gb_per_s=write,
        checkpoint_s=seconds,
        notes=(
            f"Holds {data_bytes / TB:,.2f} TB of data ({what}) and {CHECKPOINTS_KEPT} checkpoints of {state_bytes / GB:,.0f} GB",
            f"A checkpoint every {interval_h:.2g} h redoes about {LOST_WORK_FRACTION:.0%} of the work or less; written in {seconds:.0f} s "
            f"it stops the run {seconds / (interval_h * SECONDS_PER_HOUR):.2%} of the time (limit {stall_fraction:.0%})",
            f"Read speed: tier '{tier}' of the DGX SuperPOD guidance, or what the job reads where that is more",
        ),
        checkpoint_gb=state_bytes / GB,
        checkpoint_interval_h=interval_h,
        shared=_is_shared(sized, capacity),
    )


def _serving(demand: Demand, sized: Sized) -> StoragePlan:
    weights = next((value.mid for name, value in sized.memory_gb.items() if name.startswith("weight")), None)
    per_replica_gb = weights * sized.parallel.gpus if weights is not None else (demand.shape.params_b * 2 if demand.shape else 0.0)
    capacity = per_replica_gb * GB * MODEL_VERSIONS_KEPT
    read = max(per_replica_gb / MODEL_LOAD_S, 0.5)
    return StoragePlan(
        capacity_tb=_tb(capacity / TB + IMAGES_AND_LOGS_TB),
        read_gb_per_s=read,
        write_gb_per_s=read / 2,
        checkpoint_s=None,
        notes=(
            f"Model cache: {MODEL_VERSIONS_KEPT} versions of {per_replica_gb:,.0f} GB, container images and logs",
            f"Read at {read:.2g} GB/s a replica is back within {MODEL_LOAD_S / 60:.0f} minutes; a copy on each NVMe removes the rush",
        ),
        shared=_is_shared(sized, capacity),
    )


def _plain(data_bytes: float, sized: Sized, tier: Tier, what: str) -> StoragePlan:
    read, floor = _tier_read(sized, tier)
    return StoragePlan(
        capacity_tb=_tb(data_bytes / TB + IMAGES_AND_LOGS_TB),
        read_gb_per_s=read,
        write_gb_per_s=floor / 2,
        checkpoint_s=None,
        notes=(f"Holds {data_bytes / TB:,.2f} TB: {what}", f"Read speed: tier '{tier}' of the DGX SuperPOD guidance"),
        shared=_is_shared(sized, data_bytes),
    )


def _tier_read(sized: Sized, tier: Tier) -> tuple[float, float]:
    """Read rate of the tier for the whole design and the tier's floor for one node, scaled below eight GPUs, GB/s."""
    floor = NODE_READ_GB_PER_S[tier] * min(sized.gpus, 8) / 8
    return max(READ_GB_PER_S_PER_GPU[tier] * sized.gpus, floor), floor


def _is_shared(sized: Sized, capacity_bytes: float) -> bool:
    """Whether a storage system of its own is needed: several servers, or more than the server's drives hold."""
    local_tb = (sized.platform.server.nvme_tb if sized.platform.server else None) or 3.84 * min(sized.platform.gpus_per_server, 8)
    one_server = sized.servers <= 1
    return not (one_server and capacity_bytes / TB <= 0.8 * local_tb)


def _tb(value: float) -> float:
    """Rounded up to a tenth of a TB."""
    return math.ceil(value * 10 - 1e-9) / 10
