"""One explicit training run from columns, and the validation that reads such columns."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.loader import load_catalog
from app.engine.training.explicit import explicit_run, predict
from app.engine.training.request import estimate_layout
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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n_gpus": 8}, "n_gpus"),  # 2 x 1 x 8 x 1 = 16
        ({"n_gpus": 16, "dp": None, "tp": 3}, "n_gpus"),
        ({"tp": 2.5}, "tp"),
        ({"n_gpus": 1e9, "dp": None, "global_batch_seqs": 1e10}, "n_gpus"),
        ({"tp": 16, "dp": 1, "catalog_model": "google/gemma-3-4b-it"}, "tp"),  # 8 heads
        ({"tp": 1, "pp": 8, "dp": 2, "vp": 8}, "pp"),  # 64 stages, 32 layers
        ({"tp": 1, "pp": 7, "dp": 2, "n_gpus": 14}, "pp"),  # 32 layers: stages of 4 or 5
        ({"ep": 4}, "ep"),
        ({"catalog_model": "mistralai/Mixtral-8x7B-Instruct-v0.1", "ep": 16}, "ep"),  # 8 experts
        ({"tp": 1, "cp": 2, "seq_len": 8191}, "cp"),
        ({"global_batch_seqs": 7}, "global_batch_seqs"),
        ({"microbatch": 4}, "microbatch"),
        ({"inter_kind": "pigeon"}, "inter_kind"),
        ({"inter_kind": None}, "inter_kind"),
        ({"intra_kind": "pcie9"}, "intra_kind"),
        ({"gpu_id": "a100-sxm-80gb", "precision": "fp8"}, "precision"),
        ({"precision": "fp4"}, "precision"),
        ({"gpu_id": "v100-sxm2-32gb"}, "precision"),
        ({"catalog_model": "unheard/of"}, "catalog_model"),
        ({"catalog_model": "stabilityai/stable-diffusion-xl-base-1.0"}, "catalog_model"),
        ({"catalog_model": "google/gemma-4-E2B-it", "tp": 1, "dp": 16}, "catalog_model"),  # layers without widths
        ({"catalog_model": None, "layers": 32, "hidden": 4096, "n_experts": 8}, "top_k"),
        ({"params_b": 70}, "params_b"),
        ({"gpu_id": "tpu-v5p", "gpus_per_node": 4, "inter_kind": None, "inter_gbit_per_node": None}, "inter_kind"),
        ({"year": 1900}, "year"),
    ],
)
def test_layouts_no_framework_would_run_are_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ProfileError) as error:
        estimate_layout({**RUN, **change}, CATALOG)
    assert field in {item.field for item in error.value.errors}


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ProfileError) as error:
        estimate_layout({**RUN, "gpu_id": "h1000", "microbatch": 4, "intra_kind": "pcie9", "n_experts": "some", "seq_len": 0}, CATALOG)
    assert {item.field for item in error.value.errors} == {"gpu_id", "microbatch", "intra_kind", "n_experts", "seq_len"}
    with pytest.raises(ProfileError):
        estimate_layout({**RUN, "intra_kind": "pcie9"}, CATALOG)


@pytest.mark.parametrize(
    "change",
    [
        {"catalog_model": "meta-llama/Llama-3.1-405B-Instruct", "tp": 8, "pp": 16, "dp": 2, "n_gpus": 256},  # 126 layers on 16 stages
        {"catalog_model": None, "layers": 78, "hidden": 13312, "tp": 1, "pp": 12, "dp": 4, "n_gpus": 48},  # described: taken at its word
        {"gpu_id": "b200-sxm-180gb", "precision": "nvfp4"},
        {"gpu_id": "v100-sxm2-32gb", "precision": None},
        {"catalog_model": "mistralai/Mixtral-8x7B-Instruct-v0.1", "ep": 8},
    ],
)
def test_layouts_that_were_run_are_answered(change: dict[str, Any]) -> None:
    assert estimate_layout({**RUN, **change}, CATALOG)["step_s"]["mid"] > 0


def test_sharding_left_open_shards_weights_only_where_they_do_not_fit_whole() -> None:
    """70e9 parameters on 64 GPUs without tensor parallelism: 6 bytes each whole are 420 GB, sharded 16 / 64 each 18 GB; 8e9 over two: 24 GB."""
    whole = {"sharding": None, "recompute": "full"}
    big = {**RUN, **whole, "catalog_model": "meta-llama/Llama-2-70b-hf", "tp": 1, "dp": 64, "n_gpus": 64, "seq_len": 4096}
    small = {**RUN, **whole}
    assert estimate_layout(big, CATALOG)["layout"]["sharding"] == "zero3"
    assert estimate_layout(small, CATALOG)["layout"]["sharding"] == "zero1"
    assumed = explicit_run({**big, "sharding": "zero1", "notes": "distributed optimizer assumed for sharding=zero1"}, CATALOG)
    assert predict(assumed).fits
    assert not predict(explicit_run({**big, "sharding": "zero1"}, CATALOG)).fits


def test_the_answer_says_what_was_understood() -> None:
    """Defaults are shown: AdamW, the bf16 of the request, the network's kind and rate; a V100 left to itself runs fp16."""
    found = estimate_layout(RUN, CATALOG)
    assert found["run"]["optimizer"] == "adamw"
    assert (found["run"]["inter_kind"], found["run"]["inter_gbit_per_node"], found["run"]["n_gpus"]) == ("infiniband", 3200, 16)
    old = estimate_layout({**RUN, "gpu_id": "v100-sxm2-32gb", "precision": None}, CATALOG)
    assert old["run"]["precision"] == "fp16"


def test_days_include_failures_and_checkpoints() -> None:
    """50,700 / 16 = 3,169 h between failures; 8.03e9 x 14 bytes / (16 x 0.25e9) = 28.1 s a checkpoint, every sqrt(2 x 28.1 x 3,169 h)."""
    found = estimate_layout({**RUN, "tokens_b": 100}, CATALOG)
    goodput = found["goodput"]
    assert goodput["hours_between_failures"] == pytest.approx(3168.75)
    assert goodput["checkpoint_s"] == pytest.approx(28.1, rel=0.01)
    assert goodput["checkpoint_every_s"] == pytest.approx((2 * 28.1 * 3168.75 * 3600) ** 0.5, rel=0.01)
    assert found["days"]["mid"] == pytest.approx(100e9 / found["tokens_per_s"]["mid"] / 86400 / goodput["fraction"])
    assert "days" not in estimate_layout(RUN, CATALOG)
    with pytest.raises(ProfileError):
        estimate_layout({**RUN, "tokens_b": "many"}, CATALOG)


def test_memory_above_the_card_is_not_called_safe() -> None:
    """8.03e9 parameters under ZeRO-1 on 8 GPUs with tp 1: 2 + 4 bytes whole and 12/8 sharded = 60 GB, plus activations of one
    sequence of 8,192: above the 80 GB card, though the low end of the range may fit."""
    found = estimate_layout({**RUN, "tp": 1, "n_gpus": 8, "recompute": "selective"}, CATALOG)
    assert found["peak_mem_gb"]["mid"] > found["usable_gb"] > 75
    assert found["fits_at_mid"] is False


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
