"""Designs for drawing: small changes to one hand-made design."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.advice.recommendation import (
    Architecture,
    CloudOffer,
    Cost,
    Design,
    Estimate,
    HostedApi,
    Network,
    ParallelPlan,
    Recommendation,
    Scaling,
    UsdRange,
    Versions,
)


def usd(mid: float) -> UsdRange:
    """A range of half to twice a value."""
    return UsdRange(low=Decimal(mid) / 2, mid=Decimal(mid), high=Decimal(mid) * 2)


def design(**changes: Any) -> Design:
    """One server of eight GPUs on NVLink, one job."""
    base: dict[str, Any] = {
        "gpu": "h200", "gpu_name": "H200 SXM", "gpus": 8, "gpus_per_server": 8, "gpus_per_replica": 8, "servers": 1, "server": None,
        "server_name": "8x H200 server", "replicas": 1, "scale_up": "nvlink4", "scale_out": "none", "nics_per_server": 1,
        "nic_gbit_per_s": 25.0, "parallel": ParallelPlan(tp=8, pp=1, dp=1, ep=1, cp=1), "micro_batch": 1, "global_batch": 1,
        "recompute": "", "sharding": "", "precision": {}, "engine": "", "engine_version": "", "scale_up_gb_per_s": 450.0,
    }  # fmt: skip
    return Design(**(base | changes))


def network(**changes: Any) -> Network:
    """A rail-optimised fabric of eight leaf and four spine switches."""
    base: dict[str, Any] = {
        "fabric": "InfiniBand NDR", "tiers": 2, "rails": 8, "leaf_switches": 8, "spine_switches": 4, "core_switches": 0, "node_cables": 128,
        "leaf_spine_cables": 128, "spine_core_cables": 0, "oversubscription": 1.0, "storage_switches": 0, "management_switches": 1,
        "switch_model": "QM9700", "nic_gbit_per_s": 400.0, "optics": [], "notes": [],
    }  # fmt: skip
    return Network(**(base | changes))


def cost(capex: float, opex: float, **changes: Any) -> Cost:
    """Three years, nothing left of the hardware at the end."""
    base: dict[str, Any] = {
        "complete": True, "capex_usd": usd(capex), "opex_usd_per_year": usd(opex), "opex_parts_usd_per_year": {},
        "tco_usd": usd(capex + 3 * opex), "horizon_years": 3.0, "usd_per_gpu_hour": None, "usd_per_million_tokens": None,
        "usd_per_run": None, "cloud": None, "break_even_utilisation": None, "break_even_months": None, "hosted_api": None,
        "residual_usd": Decimal(0), "notes": [],
    }  # fmt: skip
    return Cost(**(base | changes))


def cloud(usd_over_horizon: float) -> CloudOffer:
    """A rented instance."""
    return CloudOffer(
        provider="p", instance="i", instances=1, usd_per_hour=Decimal(1), usd_over_horizon=Decimal(usd_over_horizon),
        price_kind="on_demand", region="r", source="s", as_of="2026-01-01",
    )  # fmt: skip


def hosted(usd_over_horizon: float) -> HostedApi:
    """A service paid by the token."""
    return HostedApi(
        provider="p", model="m", usd_per_million_input=Decimal(1), usd_per_million_cached_input=None, usd_per_million_output=Decimal(1),
        usd_over_horizon=Decimal(usd_over_horizon), break_even_tokens_per_day=None, source="s", note="",
    )  # fmt: skip


def estimate(scaling: list[Scaling]) -> Estimate:
    """Only what the scaling chart reads."""
    return Estimate(
        memory_gb={}, training=None, serving=None, hpc=None, communication=[], communication_fraction=0.0, time_parts_s={},
        scaling=scaling, bottleneck="compute",
    )  # fmt: skip


def recommendation(architecture: Architecture | None, chosen: Design | None, **changes: Any) -> Recommendation:
    """A document with the parts given."""
    base: dict[str, Any] = {
        "id": "x", "created_at": datetime(2026, 1, 1, tzinfo=UTC), "architecture": architecture, "summary": "s", "runner_up": "",
        "confidence": 0.5, "confidence_why": "", "reasons": [], "profile": {}, "design": chosen, "estimate": None, "bill_of_materials": [],
        "network": None, "facility": None, "storage": None, "cost": None, "alternatives": [], "rejected": [], "findings": [],
        "flip_conditions": [], "bounds": None, "launch": [], "acceptance": [], "assumptions": [], "trace": None,
        "versions": Versions(app="0", engine="0", catalog="0"),
    }  # fmt: skip
    return Recommendation(**(base | changes))
