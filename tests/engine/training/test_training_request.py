"""One explicit training run from columns, and the validation that reads such columns."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.loader import load_catalog
from app.engine.training.explicit import estimate_layout
from app.validation.training import validate_training
from app.workload.profile import ProfileError

CATALOG = load_catalog()
RUN: dict[str, Any] = {
    "catalog_model": "meta-llama/Llama-3.1-8B", "gpu_id": "h100-sxm-80gb", "n_gpus": 16, "gpus_per_node": 8, "inter_kind": "infiniband",
    "inter_gbit_per_node": 3200, "tp": 2, "pp": 1, "dp": 8, "cp": 1, "micro_batch": 1, "global_batch_seqs": 128, "seq_len": 8192,
    "precision": "bf16", "recompute": "none", "sharding": "zero1", "task": "pretrain",
}  # fmt: skip


def row(**changes: str) -> dict[str, str]:
    """The run as a line of a reference file: text in every column."""
    values = {name: str(value) for name, value in RUN.items()}
    return {"id": "r1", "source_key": "s1", "comparable": "yes", "notes": "", **values, **changes}


def test_rates_agree_with_the_step() -> None:
    """tokens/s = batch x seq / step; per GPU a 16th of it; every figure a range."""
    found = estimate_layout(RUN, CATALOG)
    tokens = 128 * 8192 / found["step_s"]["mid"]
    assert found["tokens_per_s"]["mid"] == pytest.approx(tokens)
    assert found["tokens_s_gpu"]["mid"] == pytest.approx(tokens / 16)
    for name in ("step_s", "tokens_per_s", "tflops_gpu", "mfu", "peak_mem_gb"):
        assert found[name]["low"] < found[name]["mid"] < found[name]["high"]
    assert 0.2 < found["mfu"]["mid"] < 0.7
    assert found["fits"] is True
    assert sum(part["mid"] for part in found["memory_gb"].values()) == pytest.approx(found["peak_mem_gb"]["mid"])


def test_text_and_numbers_mean_the_same() -> None:
    assert estimate_layout(row(), CATALOG)["step_s"] == estimate_layout(RUN, CATALOG)["step_s"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpu_id": "h1000"}, "gpu_id"),
        ({"tp": -2}, "tp"),
        ({"seq_len": "long"}, "seq_len"),
        ({"precision": "int3"}, "precision"),
        ({"recompute": "maybe"}, "recompute"),
        ({"micro_batch": True}, "micro_batch"),
        ({"micro_batch": float("nan")}, "micro_batch"),
    ],
)
def test_faults_are_named_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ProfileError) as error:
        estimate_layout({**RUN, **change}, CATALOG)
    assert field in {item.field for item in error.value.errors}


def test_model_neither_known_nor_described_is_refused() -> None:
    with pytest.raises(ProfileError):
        estimate_layout({**RUN, "catalog_model": "", "model": "unheard of"}, CATALOG)


def test_published_runs_are_compared_as_stated() -> None:
    """Measured twice the predicted rate: error 0.5 - 1 = -0.5. A row that is not comparable stays out of the headline."""
    predicted = estimate_layout(RUN, CATALOG)["tokens_s_gpu"]["mid"]
    rows = [
        row(metric_tokens_s_gpu=str(2 * predicted)),
        row(id="r2", comparable="no: suspect", metric_tokens_s_gpu=str(predicted)),
        row(id="r3"),
        row(id="r4", gpu_id="none-such", metric_tokens_s_gpu="1"),
    ]
    report = validate_training(rows, CATALOG)
    assert report["rows"] == 4
    assert report["median_abs_error"] == pytest.approx(0.5)
    assert report["by_source"] == {"s1": {"rows": 1, "median_abs_error": pytest.approx(0.5)}}
    assert {item["id"] for item in report["skipped"]} == {"r3", "r4"}
    assert report["training_other"]["rows"] == 1
    assert report["per_row"][0]["metric"] == "tokens_s_gpu"


def test_memory_is_reported_apart() -> None:
    rows = [row(metric_tokens_s_gpu="10000", metric_peak_mem_gb="60")]
    report = validate_training(rows, CATALOG)
    assert set(report["by_metric"]) == {"tokens_s_gpu", "peak_mem_gb"}
    assert report["by_source"]["s1"]["rows"] == 1
