"""The price book over the catalogue that ships: everything on sale has a price, and published costs come out."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from app.catalog.loader import Catalog, load_catalog
from app.costing import market
from app.costing.cost import cost_of
from app.costing.price_book import PriceBook, price_book
from app.costing.quick import quick_usd
from app.design.bill import bill_of_materials
from app.design.fabric import design_fabric
from app.design.facility import FacilityPlan, facility_plan
from app.engine.platform import ScaleOut, platform_of
from app.engine.result import Parallel, Sized
from app.validation.tco import validate_tco


@cache
def catalog() -> Catalog:
    return load_catalog()


def book() -> PriceBook:
    return price_book(catalog())


def test_every_named_price_row_exists() -> None:
    named = {
        *market.CARD_ROWS.values(),
        *market.LATE_RETAIL_ROWS.values(),
        *market.WHOLE_SERVER_ROWS.values(),
        *(key for key, _ in market.KIT_ROWS.values()),
        market.ALL_IN_RACK,
        market.BARE_RACK,
    }
    missing = [key for key in named if book().row_price(key) is None]
    assert missing == []
    assert [gpu_id for gpu_id in market.CARD_ROWS if gpu_id not in catalog().gpus] == []


def test_everything_on_sale_has_a_finite_cost() -> None:
    for gpu in catalog().gpus.values():
        if gpu.lifecycle != "current":
            continue
        for server in catalog().servers_for(gpu.id):
            sized = Sized(
                platform=platform_of(gpu, server), span="one_gpu", parallel=Parallel(), replicas=server.gpus, memory_gb={}, capacity_gb=1
            )
            quick = quick_usd(sized, catalog())
            assert quick.capex_usd is not None, server.id
            assert quick.capex_usd > 1000, server.id
            assert math.isfinite(quick.horizon_usd), server.id


@pytest.mark.parametrize(
    ("better", "worse"),
    [("h200-sxm-141gb", "h100-sxm-80gb"), ("b200-sxm-180gb", "h200-sxm-141gb"), ("b300-sxm-288gb", "b200-sxm-180gb"), ("l40s", "l4")],
)
def test_the_stronger_gpu_costs_more(better: str, worse: str) -> None:
    def per_gpu(gpu_id: str) -> float:
        gpu = catalog().gpus[gpu_id]
        parts = book().server_parts(None, gpu, 8)
        host = sum(float(part.price.usd.mid) * part.quantity for part in parts.per_server if part.price is not None) / 8
        return host + (float(parts.per_gpu.price.usd.mid) if parts.per_gpu is not None and parts.per_gpu.price is not None else 0.0)

    assert per_gpu(better) > per_gpu(worse)


def test_estimates_hold_the_published_price_about_as_often_as_stated() -> None:
    # each published GPU is estimated from the others; a range must hold the truth four times in five
    low, high = market.ESTIMATE_RANGE
    ratios = []
    for gpu_id in market.CARD_ROWS:
        gpu = catalog().gpus[gpu_id]
        published, estimate = book().card(gpu), book()._estimated_card(gpu)
        if published is not None and estimate is not None:
            ratios.append(float(published.usd.mid) / float(estimate.usd.mid))
    held = sum(low <= ratio <= high for ratio in ratios) / len(ratios)
    assert len(ratios) >= 20
    assert held >= 0.75


@pytest.mark.parametrize("gpu_id", ["l40s", "h100-sxm-80gb", "b200-sxm-180gb", "mi300x", "rtx-pro-6000-server", "gb200"])
@pytest.mark.parametrize("protocol", ["", "infiniband", "ethernet"])
def test_quick_cost_is_near_the_full_cost(gpu_id: str, protocol: str) -> None:
    gpu = catalog().gpus[gpu_id]
    server = max(catalog().servers_for(gpu_id), key=lambda row: (row.gpus, row.max_power_w or 0))
    for servers in (1, 8, 64):
        nics = min(server.gpus, 8)
        network = ScaleOut(kind="infiniband" if protocol == "infiniband" else "roce", nic_gbit_per_s=400, nics_per_server=nics)
        spans = bool(protocol) and servers > 1
        sized = Sized(
            platform=platform_of(gpu, server, scale_out=network if spans else None),
            span="many_servers" if spans else "one_server",
            parallel=Parallel(dp=server.gpus * (servers if spans else 1)),
            replicas=1 if spans else servers,
            memory_gb={},
            capacity_gb=1,
        )
        side: Any = protocol
        fabric = design_fabric(servers, nics, 400, side, catalog(), gpus_per_server=server.gpus) if spans else None
        room = facility_plan(sized, switches=fabric.leaf_switches if fabric else 0, switch_w=fabric.switch_power_w if fabric else 0)
        assert isinstance(room, FacilityPlan)
        bill = bill_of_materials(sized, fabric, None, room, book())
        full = cost_of(sized, bill, room, None, catalog())
        assert full.complete
        assert quick_usd(sized, catalog()).horizon_usd == pytest.approx(float(full.tco_usd.mid), rel=0.15)


BENCHMARK = [
    # USD per GPU-hour of hyperscaler and neocloud, all-in kW per GPU (SemiAnalysis, published May 2026 in InferenceX)
    ("H100", 1.30, 1.69, 1.73),
    ("B200", 1.95, 2.34, 2.17),
    ("GB200", 2.21, 2.75, 2.10),
    ("MI300X", 1.12, 1.40, 1.79),
    ("MI355X", 1.48, 1.90, 2.65),
]


def test_published_all_in_costs_come_out() -> None:
    rows = []
    for name, hyperscaler, neocloud, kw in BENCHMARK:
        for item, value in (
            ("TCO per GPU-hour, hyperscaler-owned", hyperscaler),
            ("TCO per GPU-hour, neocloud-owned", neocloud),
            ("all-in power per GPU", kw),
            ("3-year rental per GPU-hour", 9.99),
        ):
            rows.append({"category": "all-in-benchmark", "item": item, "region": name, "typical": str(value)})
    found = validate_tco(rows, catalog())
    assert (found["rows"], found["predicted"], len(found["skipped"])) == (20, 15, 5)
    assert found["max_abs_error"] < 0.15
    assert found["median_abs_error"] < 0.08


def test_validation_says_why_a_row_is_skipped() -> None:
    rows = [
        {"category": "electricity", "item": "commercial average", "region": "US-TX", "typical": "0.09"},
        {"category": "all-in-benchmark", "item": "TCO per GPU-hour, neocloud-owned", "region": "Unheard-of 9", "typical": "1"},
        {"category": "all-in-benchmark", "item": "TCO per GPU-hour, family-owned", "region": "H100", "typical": "1"},
    ]
    found = validate_tco(rows, catalog())
    assert (found["rows"], found["predicted"]) == (2, 0)
    assert ["not in the catalogue" in found["skipped"][0]["why"], "kind of owner" in found["skipped"][1]["why"]] == [True, True]
