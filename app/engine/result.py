"""What every sizing function returns: a design that meets the demand, or the limit that stopped it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.engine.platform import Platform
from app.ranges import Range

Span = Literal["one_gpu", "one_server", "many_servers"]
"""How far one job (one replica) reaches: the architecture is the label of platform and span together."""

Bottleneck = Literal["compute", "memory_bandwidth", "memory_capacity", "scale_up", "scale_out", "latency", "host", "storage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Parallel layout of one job. ``dp`` counts data-parallel ranks inside the job, never replicas."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one job; EP ranks are taken from TP x DP and add none."""
        return self.tp * self.pp * self.dp * self.cp


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationTerm:
    """One collective of one step: payload bytes per GPU, its whole time and the part not hidden."""

    collective: str
    purpose: str
    """What it is for: ``TP all-reduce of activations``."""
    level: Literal["scale_up", "scale_out"]
    bytes: float
    time_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFigures:
    """Predicted training: one optimizer step, whole-system rate, MFU on dense peak, days for the run (with failures)."""

    step_s: Range
    tokens_per_s: Range
    mfu: Range
    days: Range | None
    goodput_fraction: float = 1.0
    samples_per_s: Range | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFigures:
    """Predicted serving of the whole installation at the asked load; latencies at ``percentile``.

    ttft_ms: arrival to first token. tpot_ms: mean gap between tokens after the first. max_concurrent:
    requests in flight that all replicas hold within the limits.
    """

    percentile: float
    ttft_ms: Range | None
    tpot_ms: Range | None
    output_tokens_per_s: Range
    input_tokens_per_s: Range
    requests_per_s: Range
    max_concurrent: int
    concurrent_per_replica: float
    kv_cache_tokens: int = 0
    utilisation: float = 0.0
    """Offered load over capacity, 0..1."""
    hours: Range | None = None
    """Batch work: hours to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """Predicted HPC, data-science, vision, speech or image work: named figures with unit in the name."""

    figures: dict[str, Range]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Throughput (the workload's own unit per second) and efficiency against linear at a GPU count."""

    gpus: int
    throughput: float
    efficiency: float


SessionTier = Literal["gpu", "host", "nvme", "recompute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """Where the cache of conversations is kept between their turns; see :mod:`app.engine.serving.sessions`.

    waiting: conversations between two turns; load_s, recompute_s: seconds to bring one back, and to read it again.
    """

    tier: SessionTier
    waiting: float
    gb_per_session: float
    gb_per_server: float
    """Of host memory or drives; 0 in the other tiers."""
    load_s: float
    recompute_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One design that meets the demand on ``platform``: ``replicas`` independent jobs of ``parallel.gpus`` GPUs."""

    platform: Platform
    span: Span
    parallel: Parallel
    replicas: int
    memory_gb: dict[str, Range]
    """Per GPU by component, without a total; the worst rank."""
    capacity_gb: float
    """Usable per GPU."""
    training: TrainingFigures | None = None
    serving: ServingFigures | None = None
    job: JobFigures | None = None
    communication: tuple[CommunicationTerm, ...] = ()
    communication_fraction: float = 0.0
    """Exposed communication over step time, 0..1."""
    time_parts_s: dict[str, float] = field(default_factory=dict)
    """Where one step goes: compute, memory_bandwidth, scale_up, scale_out, latency, host ..."""
    bottleneck: Bottleneck = "compute"
    scaling: tuple[ScalingPoint, ...] = ()
    micro_batch: int = 1
    global_batch: int = 1
    recompute: str = ""
    sharding: str = ""
    virtual_stages: int = 1
    """Interleaved pipeline stages per rank."""
    shard_groups: int = 1
    """Copies of what ``sharding`` splits: more than one with hybrid sharding."""
    precision: dict[str, str] = field(default_factory=dict)
    engine: str = ""
    engine_version: str = ""
    bounds_gpus_by_memory: int = 1
    """GPUs if only memory counted."""
    bounds_gpus_by_roofline: int = 1
    """GPUs at 100% efficiency of the roofline."""
    sessions: SessionPlan | None = None
    notes: tuple[str, ...] = ()
    keeps_usual_limits: bool = True
    """False: a latency limit that was assumed, not stated, cannot be kept; designs that keep it go first."""

    @property
    def gpus(self) -> int:
        """GPUs of the whole installation."""
        return self.replicas * self.parallel.gpus

    @property
    def servers(self) -> int:
        """Servers needed; a replica never straddles servers unless it spans many."""
        per_server = self.platform.gpus_per_server
        job = self.parallel.gpus
        if job > per_server:
            return self.replicas * -(-job // per_server)
        return -(-self.replicas // (per_server // job))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why no design on ``platform`` with this ``span`` meets the demand; a value, not an exception."""

    constraint: str
    """Closed set: memory, throughput, ttft, tpot, deadline, heads, gpus, budget, rack_power, power, fabric, precision, support,
    not_needed, preference, constraints, and rule:<id> for a veto."""
    needed: float | None
    available: float | None
    unit: str
    message: str
    nearest: Sized | None = None
    """The design that came closest, where there is one."""
