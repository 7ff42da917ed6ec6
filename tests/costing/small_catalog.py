"""A catalogue of a handful of rows with round figures, so that expected costs can be worked by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from app.catalog.schema import ApiPrice, CloudPrice, Gpu, Price, RunningCost, Server
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.result import Parallel, ServingFigures, Sized, TrainingFigures
from app.ranges import Range

ROW: dict[str, Any] = {"source": "test", "as_of": "2026-06", "kind": "street_price"}

H100 = Gpu(
    id="h100-sxm-80gb", vendor="nvidia", name="H100 SXM5 80GB", form_factor="sxm", generation="hopper", architecture="hopper", year=2022,
    memory_gb=80, memory_bandwidth_gb_per_s=3350, bf16_tflops=989, tdp_w=700, scale_up_link="nvlink4",
    scale_up_gb_per_s_bidirectional=900, scale_up_domain_gpus=8, **ROW,
)  # fmt: skip
A6000 = Gpu(
    id="rtx-a6000", vendor="nvidia", name="RTX A6000", form_factor="workstation", generation="ampere", architecture="ampere", year=2020,
    memory_gb=48, memory_bandwidth_gb_per_s=768, bf16_tflops=155, tdp_w=300, **ROW,
)  # fmt: skip
L4 = Gpu(
    id="l4", vendor="nvidia", name="L4", form_factor="pcie", generation="ada", architecture="ada", year=2023,
    memory_gb=24, memory_bandwidth_gb_per_s=300, bf16_tflops=121, tdp_w=72, **ROW,
)  # fmt: skip
TPU = Gpu(
    id="tpu-v6e", vendor="google", name="TPU v6e", form_factor="cloud", generation="tpu_v6", architecture="tpu", year=2024,
    lifecycle="cloud_only", **ROW,
)  # fmt: skip

HGX = Server(
    id="hgx-h100", name="8x H100 server", gpu_ids=("h100-sxm-80gb",), gpus=8, scale_up="nvswitch", form="rack_server", cpu="2x Xeon",
    cpu_cores=112, ram_gb=2048, nvme_tb=30.72, max_power_w=10_200, typical_power_w=8500, rack_units=8, cooling="air", year=2023, **ROW,
)  # fmt: skip
EDGE = Server(
    id="edge-l4", name="4x L4 server", gpu_ids=("l4",), gpus=4, scale_up="pcie", form="rack_server", cpu="1x EPYC", cpu_cores=32,
    ram_gb=256,
    nvme_tb=3.84, max_power_w=900, rack_units=2, cooling="air", year=2024, **ROW,
)  # fmt: skip
TOWER = Server(
    id="tower-a6000", name="Workstation", gpu_ids=("rtx-a6000",), gpus=2, scale_up="pcie", form="tower", cpu="1x Threadripper",
    cpu_cores=24,
    ram_gb=128, nvme_tb=3.84, cooling="air", year=2022, **ROW,
)  # fmt: skip


def price(category: str, item: str, low: str | None, typical: str | None, high: str | None, **changes: Any) -> Price:
    """A price row with the given figures."""
    low_usd, typical_usd, high_usd = (Decimal(value) if value is not None else None for value in (low, typical, high))
    figures = {"low_usd": low_usd, "typical_usd": typical_usd, "high_usd": high_usd}
    return Price(category=category, item=item, unit="each", **{**figures, **ROW, **changes})


PRICES = (
    price("planning-band", "8x H100 SXM server, complete", "230000", "290000", "375000"),
    price("gpu", "RTX A6000 48GB", None, "4000", None),
    price("nic", "ConnectX-7 400G OSFP", "1599", "1900", "2188"),
    price("switch", "QM9700 NDR InfiniBand 64x400G", "32870", "36000", "50000"),
    price("optics", "800G OSFP transceiver, third-party", None, "919", None),
    price("optics", "Cable or transceiver, generic", "400", None, "900"),
    price("cable", "200G QSFP56 DAC", "66", None, "159"),
    price("facility", "Rack and cabling", "5000", None, "10000"),
    price("facility", "PDU", "50", None, "100"),
    price("facility", "Direct liquid cooling (CDU, manifolds)", "300", None, "500"),
)

CLOUD = (
    CloudPrice(
        provider="alpha", instance="gpu8", gpu_id="h100-sxm-80gb", gpu="H100", gpus=8, interconnect="NVLink; IB NDR 3200G",
        on_demand_usd_per_hour=Decimal("40"), reserved_3y_usd_per_hour=Decimal("20"), usd_per_gpu_hour=Decimal("5"), region="eu", **ROW,
    ),
    CloudPrice(
        provider="beta", instance="gpu8-plain", gpu_id="h100-sxm-80gb", gpu="H100", gpus=8, interconnect="NVLink; no IB",
        on_demand_usd_per_hour=Decimal("16"), usd_per_gpu_hour=Decimal("2"), region="us", **ROW,
    ),
    CloudPrice(
        provider="gamma", instance="single", gpu_id="h100-sxm-80gb", gpu="H100", gpus=1, interconnect="",
        on_demand_usd_per_hour=Decimal("2.5"), usd_per_gpu_hour=Decimal("2.5"), region="us", **ROW,
    ),
    CloudPrice(
        provider="delta", instance="gpu8 (Capacity Block)", gpu_id="h100-sxm-80gb", gpu="H100", gpus=8, interconnect="NVLink; EFA 3200G",
        on_demand_usd_per_hour=Decimal("8"), usd_per_gpu_hour=Decimal("1"), region="us", **ROW,
    ),
    CloudPrice(
        provider="google", instance="v6e", gpu_id="tpu-v6e", gpu="TPU v6e", gpus=1, interconnect="ICI torus",
        on_demand_usd_per_hour=Decimal("2"), usd_per_gpu_hour=Decimal("2"), region="us", **ROW,
    ),
)  # fmt: skip

APIS = (
    ApiPrice(
        provider="one", provider_model="one/llama", model_id="meta-llama/Llama-3.3-70B-Instruct", input_usd_per_million=Decimal("0.6"),
        output_usd_per_million=Decimal("0.8"), cached_input_usd_per_million=Decimal("0.3"), licence="open", **ROW,
    ),
    ApiPrice(
        provider="two", provider_model="two/llama", model_id="meta-llama/Llama-3.3-70B-Instruct", input_usd_per_million=Decimal("0.2"),
        output_usd_per_million=Decimal("2.0"), licence="open", **ROW,
    ),
    ApiPrice(
        provider="three", provider_model="three/other", model_id="meta-llama/Llama-3.1-8B-Instruct", input_usd_per_million=Decimal("0.01"),
        output_usd_per_million=Decimal("0.01"), licence="open", **ROW,
    ),
)  # fmt: skip


@dataclass
class SmallCatalog:
    """The attributes of the catalogue that costing reads."""

    prices: tuple[Price, ...] = PRICES
    gpus: dict[str, Gpu] = field(default_factory=lambda: {row.id: row for row in (H100, A6000, L4, TPU)})
    cloud_prices: tuple[CloudPrice, ...] = CLOUD
    api_prices: tuple[ApiPrice, ...] = APIS
    running_costs: tuple[RunningCost, ...] = ()

    def servers_for(self, gpu_id: str) -> list[Server]:
        """Servers that take a GPU."""
        return [row for row in (HGX, EDGE, TOWER) if gpu_id in row.gpu_ids]


INFINIBAND = ScaleOut(kind="infiniband", nic_gbit_per_s=400, nics_per_server=8)


def serving(gpu: Gpu, server: Server, *, tp: int = 1, replicas: int = 1, utilisation: float = 0.5, hours: float | None = None) -> Sized:
    """A served model: 1,000 input and 500 output tokens a second."""
    figures = ServingFigures(
        percentile=95,
        ttft_ms=Range.exact(300),
        tpot_ms=Range.exact(20),
        output_tokens_per_s=Range.exact(500),
        input_tokens_per_s=Range.exact(1000),
        requests_per_s=Range.exact(1),
        max_concurrent=32,
        concurrent_per_replica=32,
        utilisation=utilisation,
        hours=Range.exact(hours) if hours is not None else None,
    )
    return Sized(
        platform=platform_of(gpu, server),
        span="one_gpu" if tp == 1 else "one_server",
        parallel=Parallel(tp=tp),
        replicas=replicas,
        memory_gb={"weights": Range.exact(17.5)},
        capacity_gb=(gpu.memory_gb or 0) * 0.9,
        serving=figures,
    )


def training(servers: int, scale_out: ScaleOut | None = INFINIBAND) -> Sized:
    """A run over whole 8x H100 servers: 100,000 tokens a second, ten days."""
    platform: Platform = platform_of(H100, HGX, scale_out=scale_out)
    return Sized(
        platform=platform,
        span="many_servers" if servers > 1 else "one_server",
        parallel=Parallel(tp=8, dp=servers),
        replicas=1,
        memory_gb={"weights": Range.exact(40)},
        capacity_gb=72,
        training=TrainingFigures(step_s=Range.exact(1), tokens_per_s=Range.exact(100_000), mfu=Range.exact(0.4), days=Range.exact(10)),
    )


def replace_platform(sized: Sized, platform: Platform) -> Sized:
    """The same design on another platform."""
    return replace(sized, platform=platform)
