"""Typed rows of the catalogue. Units are in the names; absent figures are ``None``, never 0.

GB = 1e9 bytes; TFLOPS are dense (without sparsity); NVLink-class bandwidth is stored as vendors print
it, both directions summed, and converted once in :mod:`app.engine.platform`.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["measured", "datasheet", "benchmark", "list_price", "street_price", "estimate", "derived", "assumption"]
Confidence = Literal["high", "medium", "low"]
Lifecycle = Literal["current", "previous", "end_of_sale", "roadmap", "cloud_only"]
Generation = Literal[
    "volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_workstation", "rubin",
    "cdna2", "cdna3", "cdna4", "cdna5", "rdna3", "rdna4", "gaudi2", "gaudi3", "xe_hpc", "xe2",
    "tpu_v5", "tpu_v6", "tpu_v7", "trainium2",
]  # fmt: skip
LinkKind = Literal[
    "none", "nvlink2", "nvlink3", "nvlink4", "nvlink5", "nvlink5-nvl72", "nvlink6",
    "infinity_fabric", "gaudi_ethernet", "xe_link", "ici", "neuronlink",
    "pcie3", "pcie4", "pcie5", "pcie6",
]  # fmt: skip


class Row(BaseModel):
    """Base of every catalogue row: where its figures come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1, description="Where the figures are printed")
    as_of: str = Field(pattern=r"^20\d{2}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$", description="Date the figures hold for")
    kind: Kind = Field(description="What sort of figure this is")
    confidence: Confidence = "medium"
    notes: str = ""
    figure_sources: dict[str, str] = Field(
        default_factory=dict, description="Source of single figures that differ from the row's, by field name"
    )
    figure_kinds: dict[str, Kind] = Field(
        default_factory=dict, description="Kind of single figures that differ from the row's, by field name"
    )

    @model_validator(mode="after")
    def _figures_are_columns(self) -> Self:
        if not (self.figure_sources or self.figure_kinds):
            return self
        unknown = sorted((set(self.figure_sources) | set(self.figure_kinds)) - set(type(self).model_fields))
        if unknown:
            raise ValueError(f"figure_sources and figure_kinds name columns of this row, {unknown[0]!r} is none")
        return self


def _refuse_disorder(names: tuple[str, str, str], values: tuple[object, ...]) -> None:
    """Low, typical and high of one row rise, as far as they are known."""
    known = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    for (left, low), (right, high) in pairwise(known):
        if low > high:  # type: ignore[operator]
            raise ValueError(f"{left} {low} is more than {right} {high}")


class Gpu(Row):
    """One GPU or accelerator."""

    id: str
    vendor: Literal["nvidia", "amd", "intel", "google", "aws"]
    name: str
    form_factor: Literal["pcie", "workstation", "consumer", "sxm", "oam", "superchip", "cloud"]
    generation: Generation
    architecture: str
    year: int = Field(ge=2010, le=2040)
    memory_gb: float | None = Field(default=None, gt=0)
    memory_type: str = ""
    memory_bandwidth_gb_per_s: float | None = Field(default=None, gt=0)
    fp32_tflops: float | None = Field(default=None, gt=0)
    tf32_tflops: float | None = Field(default=None, gt=0)
    bf16_tflops: float | None = Field(default=None, gt=0)
    fp16_tflops: float | None = Field(default=None, gt=0)
    fp8_tflops: float | None = Field(default=None, gt=0)
    fp4_tflops: float | None = Field(default=None, gt=0)
    int8_tops: float | None = Field(default=None, gt=0)
    fp64_tflops: float | None = Field(default=None, gt=0)
    tdp_w: float | None = Field(default=None, gt=0)
    scale_up_link: LinkKind = "none"
    scale_up_bridge: bool = Field(default=False, description="True: a bridge between PCIe cards, not a switched board")
    scale_up_description: str = ""
    scale_up_gb_per_s_bidirectional: float | None = Field(default=None, gt=0, description="Per GPU, both directions")
    scale_up_domain_gpus: int = Field(default=1, ge=1)
    pcie_gen: int | None = Field(default=None, ge=2, le=7)
    pcie_lanes: int | None = Field(default=None, ge=1, le=16)
    p2p_over_pcie: Literal["yes", "no", "unknown"] = "unknown"
    mig_max_instances: int = Field(default=0, ge=0)
    ecc: bool | None = None
    lifecycle: Lifecycle = "current"

    @property
    def has_fast_scale_up(self) -> bool:
        """Whether all GPUs of a server share a switched or fully meshed scale-up link (not a bridge)."""
        return self.scale_up_link != "none" and not self.scale_up_link.startswith("pcie") and not self.scale_up_bridge


ServerLink = Literal[
    "none", "pcie", "pcie_switch", "nvlink_bridge", "nvlink_mesh", "nvswitch", "infinity_fabric", "gaudi_ethernet", "xe_link"
]


class Server(Row):
    """One server, workstation or rack-scale system, as one purchasable unit."""

    id: str
    name: str
    gpu_ids: tuple[str, ...] = Field(min_length=1, description="Catalogue GPUs it is sold with")
    gpus: int = Field(ge=1)
    scale_up: ServerLink
    scale_up_description: str = ""
    form: Literal["rack_server", "tower", "desktop", "rack_scale"]
    cpu: str = ""
    cpu_cores: int | None = Field(default=None, ge=1)
    ram_gb: float | None = Field(default=None, gt=0)
    nvme_tb: float | None = Field(default=None, gt=0)
    nics: int | None = Field(default=None, ge=0, description="East-west (GPU) NICs; None = not stated")
    nic_gbit_per_s: float | None = Field(default=None, gt=0)
    nic_description: str = ""
    max_power_w: float | None = Field(default=None, gt=0)
    typical_power_w: float | None = Field(default=None, gt=0)
    rack_units: float | None = Field(default=None, gt=0)
    cooling: Literal["air", "liquid", "hybrid", "immersion", "unknown"] = "unknown"
    weight_kg: float | None = Field(default=None, gt=0)
    heat_btu_per_h: float | None = Field(default=None, gt=0)
    year: int = Field(ge=2010, le=2040)
    cpu_architecture: str = "x86_64"
    lifecycle: Lifecycle = "current"
    generic: bool = Field(default=False, description="A class of servers described by us, not one vendor's product")


class Switch(Row):
    """One network switch."""

    id: str
    vendor: str
    name: str
    asic: str = ""
    ports: int | None = Field(default=None, ge=1, description="Logical ports at ``port_gbit_per_s``")
    port_gbit_per_s: float = Field(gt=0)
    protocol: Literal["infiniband", "ethernet"]
    generation: str = Field(default="", description="hdr, ndr, xdr, spectrum_x ...")
    throughput_tbit_per_s: float | None = Field(default=None, gt=0)
    height_u: float | None = Field(default=None, gt=0)
    typical_power_w: float | None = Field(default=None, gt=0)
    max_power_w: float | None = Field(default=None, gt=0)
    latency_ns: float | None = Field(default=None, gt=0)
    year: int | None = Field(default=None, ge=2010, le=2040)
    radix_at_400g: int | None = Field(default=None, ge=1)


class Nic(Row):
    """One network adapter."""

    id: str
    vendor: str
    name: str
    protocols: tuple[Literal["infiniband", "ethernet"], ...] = Field(min_length=1)
    ports: int = Field(ge=1)
    port_gbit_per_s: float = Field(gt=0)
    pcie: str = ""
    power_w: float | None = Field(default=None, gt=0)


class Cable(Row):
    """One transceiver, cable or fibre."""

    id: str
    vendor: str
    name: str
    type: str
    speed_gbit_per_s: float = Field(ge=0, description="0 = a passive part without a rate of its own, such as fibre")
    connector: str = ""
    medium: Literal["copper", "mmf", "smf", "unknown"]
    max_reach_m: float | None = Field(default=None, gt=0)
    power_w: float | None = Field(default=None, ge=0, description="0 = passive")
    fabrics: tuple[Literal["infiniband", "ethernet"], ...] = Field(min_length=1)


class Price(Row):
    """One dated purchase price; ``item_id`` joins it to a catalogue row where one exists.

    Amounts are US dollars per ``unit``, unless the unit itself says otherwise: ``EUR each`` (shelf prices with
    VAT, converted in :mod:`app.costing.price_book`) and ``percent`` (of the cost the item names).
    """

    category: str
    item: str
    item_id: str = ""
    unit: str
    low_usd: Decimal | None = Field(default=None, ge=0)
    typical_usd: Decimal | None = Field(default=None, ge=0)
    high_usd: Decimal | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _refuse_disorder(("low_usd", "typical_usd", "high_usd"), (self.low_usd, self.typical_usd, self.high_usd))
        return self


class RunningCost(Row):
    """One dated running-cost fact (electricity, hosting, staff, PUE, ...)."""

    category: str
    item: str
    region: str = ""
    unit: str
    low: float | None = None
    typical: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _refuse_disorder(("low", "typical", "high"), (self.low, self.typical, self.high))
        return self


class CloudPrice(Row):
    """One cloud instance's prices."""

    provider: str
    instance: str
    gpu_id: str = Field(default="", description="Catalogue GPU; empty = not in the catalogue")
    gpu: str = Field(default="", description="As the provider names it; empty = not stated")
    gpus: float | None = Field(default=None, gt=0, description="GPUs of the instance; below 1 = a share of one")
    interconnect: str = ""
    on_demand_usd_per_hour: Decimal | None = Field(default=None, ge=0)
    reserved_1y_usd_per_hour: Decimal | None = Field(default=None, ge=0)
    reserved_3y_usd_per_hour: Decimal | None = Field(default=None, ge=0)
    spot_usd_per_hour: Decimal | None = Field(default=None, ge=0)
    usd_per_gpu_hour: Decimal | None = Field(default=None, ge=0)
    region: str = ""


class ApiPrice(Row):
    """One hosted model's price per million tokens."""

    provider: str
    provider_model: str
    model_id: str = ""
    input_usd_per_million: Decimal | None = Field(default=None, ge=0)
    output_usd_per_million: Decimal | None = Field(default=None, ge=0)
    cached_input_usd_per_million: Decimal | None = Field(default=None, ge=0)
    batch_input_usd_per_million: Decimal | None = Field(default=None, ge=0)
    batch_output_usd_per_million: Decimal | None = Field(default=None, ge=0)
    max_input_tokens: int | None = Field(default=None, ge=1)
    licence: Literal["open", "closed", "unknown"] = "unknown"


class ModelSource(Row):
    """Where a model's shape comes from; the shape itself is :class:`app.catalog.model_shape.ModelShape`."""

    family: str = ""
    licence: str = ""
    params_basis: str = ""


class Source(BaseModel):
    """What a short key in the ``source`` column stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(pattern=r"^[A-Z]+$")
    title: str = Field(min_length=1)
    trust: Confidence = Field(description="Our judgement: how often it agreed with others where figures could be compared")
