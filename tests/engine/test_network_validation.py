"""Validation of collectives and networks on a few rows in the format of the public reference files."""

from __future__ import annotations

import pytest

from app.catalog.loader import load_catalog
from app.validation.collectives import case_of, validate_collectives
from app.validation.fabrics import validate_fabrics

CATALOG = load_catalog()


def row(**columns: str) -> dict[str, str]:
    base = {
        "id": "A", "source_title": "one", "gpu_id": "h100-sxm-80gb", "n_gpus": "8", "n_nodes": "1", "gpus_per_node": "8",
        "intra_kind": "nvlink4", "intra_p2p": "", "inter_kind": "", "inter_gbit_per_node": "", "collective": "all_reduce",
        "message_bytes": "536870912", "algbw_GBps": "", "busbw_GBps": "", "latency_us": "2111", "software": "", "notes": "",
    }  # fmt: skip
    return {**base, **columns}


def test_a_measured_time_is_compared_with_the_predicted_one():
    report = validate_collectives([row()], CATALOG)
    entry = report["per_row"][0]
    assert entry["metric"] == "time_s"
    assert entry["measured"] == pytest.approx(2111e-6)
    assert abs(entry["error"]) < 0.2
    assert entry["low"] < entry["predicted"] < entry["high"]
    assert report["rows"] == report["predicted"] == 1
    assert report["by_source"] == {"one": {"rows": 1, "median_abs_error": pytest.approx(abs(entry["error"]))}}


def test_bandwidth_of_a_peak_without_size():
    peak = row(message_bytes="", latency_us="", busbw_GBps="370", n_gpus="32", n_nodes="4", inter_kind="rdma", inter_gbit_per_node="3200")
    entry = validate_collectives([peak], CATALOG)["per_row"][0]
    assert entry["metric"] == "busbw_gb_per_s"
    assert abs(entry["error"]) < 0.1


def test_rows_that_lack_something_are_skipped_with_the_reason():
    rows = [
        row(id="no-network", n_nodes="2", n_gpus="16"),
        row(id="no-figure", latency_us=""),
        row(id="average", message_bytes="", notes="average over sizes", latency_us="", busbw_GBps="231"),
        row(id="unknown", collective="barrier"),
        row(id="routing", notes="logical bandwidth incl. local-rank traffic"),
    ]
    report = validate_collectives(rows, CATALOG)
    assert report["predicted"] == 0
    assert [entry["id"] for entry in report["skipped"]] == [entry["id"] for entry in rows]
    assert "network" in report["skipped"][0]["why"]


def test_faulty_and_incomparable_rows_stand_apart():
    rows = [row(), row(id="B", notes="degraded case"), row(id="C", comparable="no: power cap")]
    report = validate_collectives(rows, CATALOG)
    assert [entry["id"] for entry in report["per_row"]] == ["A"]
    assert report["other"]["ids"] == ["B", "C"]


def test_peer_to_peer_off_and_engine_kernels_are_read_from_the_row():
    hosted = case_of(row(intra_kind="pcie", intra_p2p="no", n_gpus="2"), CATALOG)
    assert hosted.platform.scale_up.p2p == "no"
    assert hosted.platform.scale_up.kind == "pcie5"
    custom = case_of(row(software="vLLM_custom_graph custom all-reduce"), CATALOG)
    assert custom.custom_kernel


FABRIC = {
    "id": "F", "gpu": "DGX H100", "n_nodes": "127", "n_gpus": "1016", "nics_per_node": "8", "nic_gbps": "400", "tier_count": "2",
    "leaf_count": "32", "spine_count": "16", "core_count": "", "switch_model": "QM9700", "switch_ports": "64", "node_leaf_cables": "1016",
    "leaf_spine_cables": "1024", "spine_core_cables": "", "oversubscription": "1:1", "notes": "", "design": "",
}  # fmt: skip


def test_equal_counts_and_each_difference():
    report = validate_fabrics([FABRIC, {**FABRIC, "id": "G", "leaf_count": "33"}], CATALOG)
    assert (report["rows"], report["correct"], report["accuracy"]) == (2, 1, 0.5)
    assert report["per_row"][1]["differences"] == {"leaf_switches": [33, 32]}
    assert report["count_accuracy"] == pytest.approx(9 / 10)  # five counts a row, one wrong


def test_ways_of_counting_are_read_from_the_row():
    with_managers = {**FABRIC, "node_leaf_cables": "1020", "notes": "node_leaf counts compute plus UFM links (4 UFM links)"}
    assert validate_fabrics([with_managers], CATALOG)["correct"] == 1
    twin = {
        **FABRIC, "gpu": "GB300 NVL72", "n_nodes": "2", "n_gpus": "144", "nics_per_node": "72", "nic_gbps": "800", "leaf_count": "8",
        "spine_count": "4", "switch_model": "SN5600", "switch_ports": "128", "node_leaf_cables": "288", "leaf_spine_cables": "288",
    }  # fmt: skip
    assert validate_fabrics([twin], CATALOG)["correct"] == 1


def test_flagged_and_unanswerable_rows_stand_apart():
    flagged = {**FABRIC, "id": "X", "notes": "published GPU count disagrees with the nodes", "leaf_count": "1"}
    vague = {**FABRIC, "id": "Y", "n_nodes": "256 two-tier / 8192 three-tier"}
    report = validate_fabrics([flagged, vague], CATALOG)
    assert report["predicted"] == 0
    assert report["flagged"][0]["id"] == "X"
    assert report["skipped"][0]["id"] == "Y"
