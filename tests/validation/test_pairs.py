"""Does the link matter: published pairs that differ in the interconnect alone, one or two of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.catalog.loader import load_catalog
from app.validation.pairs import class_right, validate_pairs

CLUB = {
    "gpu_id": "rtx-3090", "n_gpus_total": "2", "tp": "2", "pp": "1", "catalog_model": "Qwen/Qwen3.6-27B", "weight_kind": "int4",
    "kv_kind": "fp8", "engine": "vLLM", "year": "2026", "mode": "single_stream",
    "source": "github.com/noonghunna/club-3090 BENCHMARKS.md",
}  # fmt: skip
SCALING = {
    "pp": "1", "catalog_model": "meta-llama/Meta-Llama-3-8B", "weight_kind": "bf16", "engine": "vLLM", "engine_version": "0.7.3",
    "year": "2026", "mode": "offline_max_throughput", "isl": "247", "osl": "352",
    "notes": "all 150 requests queued; ShareGPT, cap 512", "source": "github.com/FreedomIntelligence/AccelMark verified results, suite E",
}  # fmt: skip
SERVERS = {
    "engine": "vLLM", "year": "2025", "mode": "fixed_concurrency", "isl": "998", "osl": "1000", "intra_kind": "pcie5",
    "notes": "1024 random prompts", "source": "github.com/cloudrift-ai/server-benchmark",
}  # fmt: skip
NODES = {
    "n_gpus_total": "2", "tp": "2", "pp": "1", "catalog_model": "Qwen/Qwen2-7B", "weight_kind": "bf16", "engine": "vLLM",
    "engine_version": "0.10.1.1", "year": "2025", "mode": "fixed_concurrency", "isl": "1024", "osl": "1024", "concurrency_or_batch": "10",
    "source": "github.com/dennislee22/vLLM-benchmarking README.md",
}  # fmt: skip


def _scaled(gpu: str, tp: int, **link: str) -> dict[str, str]:
    return {**SCALING, "gpu_id": gpu, "n_gpus_total": str(tp), "tp": str(tp), **link}


PAIRS: dict[str, tuple[dict[str, str], dict[str, str], str, float]] = {
    # kind: (row a, row b, metric, published b / a)
    "NVLink bridge or PCIe without peer-to-peer": (
        {**CLUB, "intra_link": "NVLink3 bridge (NV4)", "intra_kind": "nvlink3"},
        {**CLUB, "intra_kind": "pcie", "intra_p2p": "no"},
        "output_tok_s_total",
        89.24 / 102.09,
    ),
    "PCIe peer-to-peer on or off": (
        {**CLUB, "intra_link": "PCIe 4.0 x4/x4, patched-driver P2P on", "intra_kind": "pcie4", "intra_p2p": "yes"},
        {**CLUB, "intra_link": "PCIe 4.0 x4/x4, no P2P", "intra_kind": "pcie4", "intra_p2p": "no"},
        "output_tok_s_total",
        0.909,
    ),
    "tensor or pipeline parallel over PCIe, eight GPUs": (
        {**SERVERS, "gpu_id": "rtx-pro-6000-workstation", "n_gpus_total": "8", "tp": "1", "pp": "8", "concurrency_or_batch": "256",
         "catalog_model": "zai-org/GLM-4.6", "weight_kind": "fp8"},
        {**SERVERS, "gpu_id": "rtx-pro-6000-workstation", "n_gpus_total": "8", "tp": "8", "pp": "1", "concurrency_or_batch": "256",
         "catalog_model": "zai-org/GLM-4.6", "weight_kind": "fp8"},
        "output_tok_s_total",
        1349.16 / 832.22,
    ),
    "tensor or pipeline parallel over PCIe, two replicas of four": (
        {**SERVERS, "gpu_id": "rtx-pro-6000-workstation", "n_gpus_total": "8", "tp": "1", "pp": "4", "dp": "2",
         "concurrency_or_batch": "256", "catalog_model": "Qwen/Qwen3-Coder-480B-A35B-Instruct", "weight_kind": "int4"},
        {**SERVERS, "gpu_id": "rtx-pro-6000-workstation", "n_gpus_total": "8", "tp": "4", "pp": "1", "dp": "2", "ep": "4",
         "concurrency_or_batch": "256", "catalog_model": "Qwen/Qwen3-Coder-480B-A35B-Instruct", "weight_kind": "int4"},
        "output_tok_s_total",
        2248.18 / 1355.32,
    ),
    "four RTX 5090, tensor or pipeline parallel": (
        {**SERVERS, "gpu_id": "rtx-5090", "n_gpus_total": "4", "tp": "1", "pp": "4", "concurrency_or_batch": "400",
         "catalog_model": "zai-org/GLM-4.5-Air", "weight_kind": "int4"},
        {**SERVERS, "gpu_id": "rtx-5090", "n_gpus_total": "4", "tp": "4", "pp": "1", "ep": "4", "concurrency_or_batch": "200",
         "catalog_model": "zai-org/GLM-4.5-Air", "weight_kind": "int4"},
        "output_tok_s_total",
        1153.51 / 2312.83,
    ),
    "two RTX 3090 over PCIe": (
        _scaled("rtx-3090", 1), _scaled("rtx-3090", 2, intra_kind="pcie"), "output_tok_s_total", 1524.1 / 1063.7,
    ),
    "two RTX 4090 over PCIe": (_scaled("rtx-4090", 1), _scaled("rtx-4090", 2, intra_kind="pcie"), "output_tok_s_total", 1.885),
    "two RTX A6000 over PCIe": (
        _scaled("rtx-a6000", 1), _scaled("rtx-a6000", 2, intra_kind="pcie"), "output_tok_s_total", 2761.69 / 1911.28,
    ),
    "two A100 over NVSwitch": (
        _scaled("a100-sxm-40gb", 1), _scaled("a100-sxm-40gb", 2, intra_kind="nvlink3"), "output_tok_s_total", 4342.14 / 2995.02,
    ),
    "two H200 over NVSwitch": (
        _scaled("h200-sxm-141gb", 1), _scaled("h200-sxm-141gb", 2, intra_kind="nvlink4"), "output_tok_s_total", 7894.6 / 6510.19,
    ),
    "one node or two over a pod network": (
        {**NODES, "gpu_id": "a100-sxm-80gb", "intra_p2p": "no"},
        {**NODES, "gpu_id": "a100-sxm-40gb", "inter_link": "inter-node pod network (Kubernetes)"},
        "output_tok_s_total",
        218.04 / 735.47,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    pairs, rows = [], []
    for name, (first, second, metric, ratio) in PAIRS.items():
        rows += [{"id": f"{name} a", **first}, {"id": f"{name} b", **second}]
        pairs.append({"group": name, "id_a": f"{name} a", "id_b": f"{name} b", "metric": metric, "ratio_b_over_a": str(ratio)})
    return validate_pairs(pairs, rows, load_catalog())


@pytest.mark.parametrize("name", PAIRS)
def test_the_link_matters_as_published(report: dict[str, Any], name: str) -> None:
    found = next(item for item in report["per_row"] if item["group"] == name)
    assert class_right(found["measured"], found["predicted"]), found


def test_ratios_are_near_the_published_ones(report: dict[str, Any]) -> None:
    assert not report["skipped"]
    assert np.median([abs(item["error"]) for item in report["per_row"]]) < 0.12
