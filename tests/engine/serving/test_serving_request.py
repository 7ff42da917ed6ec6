"""Explicit points from columns, the estimate's public form, and the validations' own arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.loader import load_catalog
from app.engine.serving.explicit import explicit_point, explicit_server, release_year
from app.engine.serving.request import estimate_point
from app.validation.inference import completed, points_of, validate_inference
from app.validation.pairs import class_right, ratio_class, validate_pairs
from app.validation.serving_memory import validate_serving_memory
from app.workload.profile import ProfileError

ROW: dict[str, Any] = {
    "id": "x-1", "source_key": "x", "catalog_model": "meta-llama/Llama-3.1-8B-Instruct", "weight_kind": "bf16", "gpu_id": "h100-sxm-80gb",
    "tp": 1, "n_gpus_per_replica": 1, "n_gpus_total": 1, "isl": 1000, "osl": 300, "concurrency_or_batch": 16,
    "mode": "fixed_concurrency", "engine_kind": "vllm", "comparable": "yes",
}  # fmt: skip


def text_row(**changes: Any) -> dict[str, str]:
    return {name: str(value) for name, value in {**ROW, **changes}.items()}


def test_estimate_answers_every_public_figure() -> None:
    found = estimate_point(ROW, load_catalog())
    for name in ("ttft_ms", "tpot_ms", "output_tok_s_total", "output_tok_s_per_gpu", "tok_s_per_user", "e2e_latency_s", "prefill_tok_s",
                 "kv_cache_tokens", "max_concurrency"):  # fmt: skip
        part = found[name]
        assert 0 < part["low"] <= part["mid"] <= part["high"], name
    assert {"weights", "kv_pool", "activations", "runtime"} <= set(found["memory_gb"])
    # Little: 16 in flight = requests per second x seconds of one.
    assert found["output_tok_s_total"]["mid"] / 300 * found["e2e_latency_s"]["mid"] == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpu_id": "h200000"}, "gpu_id"),
        ({"isl": None}, "isl"),
        ({"isl": -5}, "isl"),
        ({"osl": "many"}, "osl"),
        ({"weight_kind": "fp3"}, "weight_kind"),
        ({"catalog_model": "no/such-model"}, "catalog_model"),
        ({"tp": True}, "tp"),
    ],
)
def test_faults_name_the_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ProfileError) as caught:
        estimate_point({**ROW, **change}, load_catalog())
    assert [error.field for error in caught.value.errors] == [field]


def test_layouts_from_columns() -> None:
    catalog = load_catalog()
    replicas = explicit_point({**ROW, "tp": 2, "n_gpus_per_replica": 2, "n_gpus_total": 8}, catalog)
    assert (float(replicas.layout.tp), replicas.replicas, replicas.in_flight) == (2.0, 4, 4.0)
    wide = explicit_point(
        {**ROW, "catalog_model": "deepseek-ai/DeepSeek-R1", "weight_kind": "fp8", "tp": 1, "dp": 8, "ep": 8, "n_gpus_per_replica": 8,
         "n_gpus_total": 8, "gpu_id": "h200-sxm-141gb"}, catalog
    )  # fmt: skip
    assert (float(wide.layout.tp), float(wide.layout.attention_dp), wide.replicas) == (8.0, 8.0, 1)
    open_layout = explicit_point({**ROW, "tp": None, "n_gpus_per_replica": None, "n_gpus_total": 8}, catalog)
    assert float(open_layout.layout.gpus) * open_layout.replicas == 8


def test_links_from_words() -> None:
    catalog = load_catalog()
    narrow = explicit_point({**ROW, "tp": 2, "n_gpus_per_replica": 2, "n_gpus_total": 2, "gpu_id": "rtx-3090", "intra_kind": "pcie4",
                             "intra_link": "PCIe 4.0 x4/x4, patched-driver P2P on", "intra_p2p": "yes", "weight_kind": "int4"}, catalog)  # fmt: skip
    assert narrow.platform.scale_up.pcie_lanes == 4
    assert narrow.platform.scale_up.bandwidth_bytes_per_s == pytest.approx(4 * 1.969e9)
    pods = explicit_point({**ROW, "tp": 2, "n_gpus_per_replica": 2, "n_gpus_total": 2, "inter_link": "inter-node pod network"}, catalog)
    assert pods.platform.gpus_per_server == 1
    assert pods.platform.scale_out is not None
    assert pods.platform.scale_out.kind == "tcp"


def test_releases_are_dated() -> None:
    assert release_year("vllm", "0.6.3", 2026) == pytest.approx(2024.75)
    assert release_year("vllm", "latest", 2025) == 2025.5
    assert release_year("vllm", "", None) == 2026.5


def test_a_started_server_from_columns() -> None:
    _, log = explicit_server(
        {"catalog_model": "meta-llama/Llama-3.1-8B-Instruct", "weight_kind": "bf16", "gpu_id": "h100-sxm-80gb", "tp": 1, "max_model_len": 8192,
         "gpu_memory_utilization": 0.95, "engine_kind": "vllm", "engine_version": "0.19.0", "max_num_seqs": 1024}, load_catalog()
    )  # fmt: skip
    assert log.tokens == pytest.approx(476_016, rel=0.01)


def test_mlperf_rows_take_the_data_set_s_lengths() -> None:
    found = completed(text_row(isl="", osl="", source_title="MLPerf Inference v4.1", catalog_model="meta-llama/Llama-2-70b-hf",
                               weight_kind="fp16", engine_version="TensorRT 9.3.0"))  # fmt: skip
    assert (found["isl"], found["osl"], found["weight_kind"]) == (294.0, 294.0, "fp8")


def test_validation_reports_errors_by_metric_and_keeps_others_apart() -> None:
    catalog = load_catalog()
    found = estimate_point(ROW, catalog)
    measured = {"output_tok_s_total": found["output_tok_s_total"]["mid"] * 1.25, "tpot_ms": found["tpot_ms"]["mid"], "notes": ""}
    rows = [
        text_row(**measured),
        text_row(**measured, id="x-2", comparable="no: power cap") | {"comparable": "no: power cap"},
        text_row(id="x-3", gpu_id="no-such-gpu"),
        text_row(id="x-4"),
    ]
    report = validate_inference(rows, catalog)
    assert (report["rows"], report["predicted"]) == (3, 1)
    assert report["by_metric"]["throughput"]["median_abs_error"] == pytest.approx(0.2, abs=1e-3)
    assert report["by_metric"]["tpot_ms"]["median_abs_error"] == pytest.approx(0.0, abs=1e-3)
    assert {item["id"] for item in report["skipped"]} == {"x-3", "x-4"}
    assert report["inference_other"]["predicted"] == 1


def test_a_burst_s_wait_is_not_compared() -> None:
    points, _ = points_of(text_row(mode="offline_max_throughput", ttft_ms=50_000, output_tok_s_total=1000, notes=""), load_catalog())
    assert [point.metric for point in points] == ["throughput"]


def test_pair_classes() -> None:
    assert [ratio_class(ratio) for ratio in (0.9, 1.0, 1.1)] == ["slower", "same", "faster"]
    assert class_right(0.94, 0.96)
    assert not class_right(0.8, 1.0)


def test_pairs_compare_ratios_of_rows_they_name() -> None:
    rows = [text_row(id="a", tp=1), text_row(id="b", tp=2, n_gpus_per_replica=2, n_gpus_total=2, notes="")]
    pairs = [
        {"group": "g", "id_a": "a", "id_b": "b", "metric": "output_tok_s_total", "ratio_b_over_a": "1.4"},
        {"group": "g", "id_a": "a", "id_b": "missing", "metric": "tpot_ms", "ratio_b_over_a": "1.4"},
    ]
    report = validate_pairs(pairs, rows, load_catalog())
    assert (report["rows"], report["predicted"], len(report["skipped"])) == (2, 1, 1)
    assert report["per_row"][0]["predicted"] > 1.05
    assert report["class_agreement"] == 1.0


def test_memory_validation_names_servers_it_misjudges() -> None:
    started = text_row(id="m-1", max_model_len=8192, fits="yes", weights_gib_per_gpu=14.99, engine_version="0.19.0")
    impossible = text_row(
        id="m-2", max_model_len=8192, fits="yes", catalog_model="meta-llama/Llama-3.3-70B-Instruct", weights_gib_per_gpu=131.4
    )
    report = validate_serving_memory([started, impossible], load_catalog())
    assert report["called_infeasible"] == ["m-2"]
    assert report["by_metric"]["weights_gib_per_gpu"]["median_abs_error"] < 0.02
