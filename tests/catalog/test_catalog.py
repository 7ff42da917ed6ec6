"""The shipped catalogue: complete, joined up, and honest about what it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from app.catalog.loader import load_catalog
from app.catalog.schema import Row

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("gpus", 67),
        ("servers", 56 + 121),  # vendors' and published builds, and classes described by us
        ("models", 143 + 34),  # the model table, and models known from measurements only
        ("switches", 23),
        ("nics", 21),
        ("cables", 26),
        ("prices", 162),
        ("running_costs", 276),
        ("cloud_prices", 299),
        ("api_prices", 546),
        ("sources", 29),
    ],
)
def test_every_row_of_the_collected_data_is_there(table: str, rows: int) -> None:
    assert len(getattr(CATALOG, table)) == rows


def test_server_classes_of_our_own_are_marked() -> None:
    generic = [server for server in CATALOG.servers.values() if server.generic]
    assert len(generic) == 121
    assert all(server.kind == "assumption" and "power = " in server.source for server in generic)


def test_every_gpu_that_can_be_bought_has_a_server() -> None:
    for gpu in CATALOG.gpus.values():
        if gpu.lifecycle not in ("cloud_only", "roadmap"):
            assert CATALOG.servers_for(gpu.id), gpu.id


def test_servers_are_no_newer_than_their_gpus() -> None:
    order = ("current", "previous", "end_of_sale", "roadmap", "cloud_only")
    for server in CATALOG.servers.values():
        newest = min(order.index(CATALOG.gpus[gpu_id].lifecycle) for gpu_id in server.gpu_ids)
        assert order.index(server.lifecycle) >= newest, server.id


def test_server_power_covers_its_gpus() -> None:
    """A server cannot draw less than half of its GPUs' rated power at its own maximum."""
    for server in CATALOG.servers.values():
        tdp_w = CATALOG.gpus[server.gpu_ids[0]].tdp_w
        if tdp_w and server.max_power_w:
            assert server.max_power_w >= 0.5 * server.gpus * tdp_w, server.id


def test_four_gpu_boards_without_a_switch_are_meshes() -> None:
    for server in CATALOG.servers.values():
        if "no NVSwitch" in server.scale_up_description:
            assert server.scale_up == "nvlink_mesh", server.id


def test_scale_up_bandwidth_is_both_directions_summed() -> None:
    # Data sheets: H100 SXM 900 GB/s, A100 600, V100 300, B200 1,800; MI300X 7 x 128 = 896.
    printed = {"h100-sxm-80gb": 900, "a100-sxm-80gb": 600, "v100-sxm2-32gb": 300, "b200-sxm-180gb": 1800, "mi300x": 896}
    for gpu_id, gb_per_s in printed.items():
        assert CATALOG.gpus[gpu_id].scale_up_gb_per_s_bidirectional == gb_per_s
    # The link table has one direction.
    assert CATALOG.links["nvlink4"].gb_per_s == 900 / 2
    assert CATALOG.links["infinity_fabric"].gb_per_s == 896 / 2
    assert CATALOG.links["ib_ndr"].gb_per_s == 400 / 8
    assert CATALOG.links["pcie5"].gb_per_s == pytest.approx(16 * 32 * 128 / 130 / 8, abs=0.1)


def test_tensor_rates_are_dense() -> None:
    # H100 SXM: 1,979 BF16 with sparsity is printed, dense is half: 989.
    gpu = CATALOG.gpus["h100-sxm-80gb"]
    assert gpu.bf16_tflops is not None
    assert 980 < gpu.bf16_tflops < 1000
    for row in CATALOG.gpus.values():
        if row.bf16_tflops and row.fp8_tflops and row.lifecycle != "roadmap":
            assert 1 <= row.fp8_tflops / row.bf16_tflops <= 2.2, row.id


def _rows() -> Iterator[Row]:
    for table in (CATALOG.gpus, CATALOG.servers, CATALOG.model_sources, CATALOG.switches, CATALOG.nics, CATALOG.cables, CATALOG.links):
        yield from table.values()
    yield from (*CATALOG.prices, *CATALOG.running_costs, *CATALOG.cloud_prices, *CATALOG.api_prices)


def test_every_row_says_where_it_comes_from() -> None:
    for row in _rows():
        assert re.search(r"\w{2}", row.source), row


def test_source_keys_are_explained() -> None:
    """A citation that begins with a word in capitals is a key of the sources table, or a company's own name."""
    companies = {"AMD", "ASUS", "HF", "KV", "DGX", "MI300X", "NVIDIA", "GPU"}
    used = set()
    for table in (CATALOG.gpus, CATALOG.servers, CATALOG.model_sources):
        for row in table.values():
            bare = re.sub(r"\([^)]*\)", "", row.source)
            used |= {match.group(1) for piece in bare.split(";") if (match := re.match(r"\s*([A-Z][A-Z0-9]+)\b", piece))}
    assert used - companies <= set(CATALOG.sources)
    text = " ".join(row.source + row.notes for table in (CATALOG.gpus, CATALOG.servers, CATALOG.model_sources) for row in table.values())
    assert set(CATALOG.sources) <= set(re.findall(r"\b[A-Z]+\b", text))


def test_prices_without_a_figure_stay_unknown() -> None:
    without = [row.item for row in CATALOG.prices if row.low_usd is None and row.typical_usd is None and row.high_usd is None]
    assert without == ["8x B300 SXM server, complete"]


def test_prices_join_their_products() -> None:
    joined = {row.item: row.item_id for row in CATALOG.prices if row.item_id}
    assert joined["DGX B200"] == "nvidia-dgx-b200"
    assert CATALOG.switches[joined["QM9700 NDR InfiniBand 64x400G"]].name == "QM9700"
    assert CATALOG.nics[joined["ConnectX-8 800G"]].port_gbit_per_s == 800


def test_a_period_is_dated_by_its_end() -> None:
    rows = {row.item: row for row in CATALOG.prices}
    assert rows["8x H100 SXM server, complete"].as_of == "2026"
    assert rows["RTX 5090 32GB"].as_of in ("2026", "2026-06")
    half_years = [row for row in CATALOG.running_costs if "2025-H1" in row.notes]
    assert half_years
    assert all(row.as_of == "2025-06" for row in half_years)


def test_shares_of_a_gpu_are_kept() -> None:
    shares = {row.instance: row.gpus for row in CATALOG.cloud_prices if row.gpus and row.gpus < 1}
    # 24 GB / 6 GB = a quarter, 1/6 and 1/8 of one GPU.
    assert shares == {"g6f.xlarge": 0.25, "Standard_NV6ads_A10_v5": 0.1667, "g4-standard-6": 0.125}


def test_version_is_the_month_and_a_hash() -> None:
    assert re.fullmatch(r"20\d\d\.\d\d\+[0-9a-f]{8}", CATALOG.version)
    assert load_catalog() is CATALOG
