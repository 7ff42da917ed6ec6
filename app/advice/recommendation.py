"""The Recommendation: the immutable document every adapter formats (public format, see docs/api.md)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.ranges import Range


class Architecture(StrEnum):
    """The decision."""

    CPU_ONLY = "cpu_only"
    SINGLE_GPU = "single_gpu"
    MULTI_GPU_PCIE = "multi_gpu_pcie"
    NVLINK_SERVER = "nvlink_server"
    INFINIBAND_CLUSTER = "infiniband_cluster"
    ETHERNET_CLUSTER = "ethernet_cluster"


class Document(BaseModel):
    """Base of all parts: frozen, no unknown fields, JSON without NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class UsdRange(Document):
    """Money, USD, to the cent."""

    low: Decimal
    mid: Decimal
    high: Decimal


class ParallelPlan(Document):
    tp: int
    pp: int
    dp: int
    ep: int
    cp: int


class Design(Document):
    """What is built. ``gpus`` = replicas x GPUs per replica; spares are in the bill of materials."""

    gpu: str | None
    gpu_name: str
    gpus: int
    gpus_per_server: int
    gpus_per_replica: int
    servers: int
    server: str | None
    server_name: str
    replicas: int
    scale_up: str
    scale_out: str
    nics_per_server: int
    nic_gbit_per_s: float
    parallel: ParallelPlan
    micro_batch: int
    global_batch: int
    recompute: str
    sharding: str
    precision: dict[str, str]
    engine: str
    engine_version: str
    scale_up_gb_per_s: float | None = Field(default=None, description="Link between GPUs of a server: GB/s of one GPU, one direction")
    scale_up_domain_gpus: int | None = Field(default=None, description="GPUs that reach each other over that link")


class TrainingEstimate(Document):
    step_s: Range
    tokens_per_s: Range
    mfu: Range
    days: Range | None
    goodput_fraction: float
    samples_per_s: Range | None


class ServingEstimate(Document):
    percentile: float
    ttft_ms: Range | None
    tpot_ms: Range | None
    output_tokens_per_s: Range
    input_tokens_per_s: Range
    requests_per_s: Range
    max_concurrent: int
    concurrent_per_replica: float
    kv_cache_tokens: int
    utilisation: float
    hours: Range | None


class Communication(Document):
    collective: str
    purpose: str
    level: Literal["scale_up", "scale_out"]
    bytes: float
    time_s: float
    exposed_s: float


class Scaling(Document):
    gpus: int
    throughput: float
    efficiency: float


class Estimate(Document):
    """What it does. ``memory_gb`` is per GPU: components, ``total`` (Range) and ``capacity`` (number)."""

    memory_gb: dict[str, Range | float]
    training: TrainingEstimate | None
    serving: ServingEstimate | None
    hpc: dict[str, Range] | None = Field(description="HPC and other jobs: named figures, unit in the name")
    communication: list[Communication]
    communication_fraction: float
    time_parts_s: dict[str, float]
    scaling: list[Scaling]
    bottleneck: str


class BillLine(Document):
    category: str
    item: str
    quantity: int
    unit_usd: UsdRange | None = Field(description="null = price not known; the total is then incomplete")
    total_usd: UsdRange | None
    source: str


class Optic(Document):
    item: str
    quantity: int
    where: str


class Network(Document):
    """The east-west fabric plus storage and management switches."""

    fabric: str
    tiers: int
    rails: int
    leaf_switches: int
    spine_switches: int
    core_switches: int
    node_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    oversubscription: float
    storage_switches: int
    management_switches: int
    switch_model: str
    nic_gbit_per_s: float
    optics: list[Optic]
    notes: list[str]


class Facility(Document):
    it_kw: float
    peak_kw: float
    racks: int
    cooling: str
    heat_btu_per_h: float
    energy_kwh_per_year: float
    co2_t_per_year: float | None
    pue: float
    notes: list[str]


class Storage(Document):
    capacity_tb: float
    read_gb_per_s: float
    write_gb_per_s: float
    checkpoint_s: float | None
    notes: list[str]


class CloudOffer(Document):
    provider: str
    instance: str
    instances: int
    usd_per_hour: Decimal
    usd_over_horizon: Decimal
    price_kind: str
    region: str
    source: str
    as_of: str


class HostedApi(Document):
    provider: str
    model: str
    usd_per_million_input: Decimal
    usd_per_million_cached_input: Decimal | None
    usd_per_million_output: Decimal
    usd_over_horizon: Decimal
    break_even_tokens_per_day: float | None
    source: str
    note: str


class Cost(Document):
    """Lifetime cost. ``complete`` is false when any price is not known."""

    complete: bool
    capex_usd: UsdRange
    opex_usd_per_year: UsdRange
    opex_parts_usd_per_year: dict[str, UsdRange]
    tco_usd: UsdRange
    horizon_years: float
    usd_per_gpu_hour: UsdRange | None
    usd_per_million_tokens: UsdRange | None
    usd_per_run: UsdRange | None
    cloud: CloudOffer | None
    break_even_utilisation: float | None
    break_even_months: float | None
    hosted_api: HostedApi | None
    residual_usd: Decimal = Field(description="Value left at the end: lifetime cost = purchase - this + yearly cost x horizon")
    notes: list[str]


class Alternative(Document):
    label: str
    architecture: Architecture | None
    design: Design
    estimate: Estimate
    cost: Cost | None
    why_not_first: str


class Rejected(Document):
    architecture: Architecture
    constraint: str
    needed: float | None
    available: float | None
    unit: str
    message: str


class Finding(Document):
    rule: str
    effect: Literal["veto", "require", "prefer", "warn", "info"]
    message: str
    values: dict[str, Any]
    sources: list[str]


class FlipCondition(Document):
    input: str
    unit: str
    value: float
    direction: Literal["above", "below"]
    architecture: Architecture | None
    design_change: str


class Bounds(Document):
    gpus_by_memory: int
    gpus_by_roofline: int
    gpus: int
    reason: str


class Launch(Document):
    engine: str
    engine_version: str
    arguments: list[str]
    manifest: str


class AcceptanceCheck(Document):
    check: str
    command: str
    expected: Range | None
    unit: str
    if_missed: str


class Assumption(Document):
    """A default that was filled in: which field, the value taken and why."""

    field: str
    value: Any
    unit: str
    why: str
    source: str


class Versions(Document):
    app: str
    engine: str
    catalog: str


class Recommendation(Document):
    id: str
    created_at: datetime
    architecture: Architecture | None
    summary: str
    runner_up: str
    confidence: float
    confidence_why: str
    reasons: list[str]
    profile: dict[str, Any] = Field(description="The profile as given, every field echoed")
    design: Design | None
    estimate: Estimate | None
    bill_of_materials: list[BillLine]
    network: Network | None
    facility: Facility | None
    storage: Storage | None
    cost: Cost | None
    alternatives: list[Alternative]
    rejected: list[Rejected]
    findings: list[Finding]
    flip_conditions: list[FlipCondition]
    bounds: Bounds | None
    launch: list[Launch]
    acceptance: list[AcceptanceCheck]
    assumptions: list[Assumption]
    trace: dict[str, Any] | None
    versions: Versions
