"""Layouts published as running, or as running out of memory, on one size of GPU."""

from __future__ import annotations

from typing import Any

import pytest

from app.catalog.loader import load_catalog
from app.engine.training.explicit import Prediction, explicit_run, predict
from app.engine.training.search import usable_bytes

CATALOG = load_catalog()


def predicted(gpu: str, layers: int, hidden: int, heads: int, **columns: Any) -> Prediction:
    """A run on 8-GPU servers; micro-batch of one sequence, 16-bit, everything recomputed unless said otherwise."""
    usual = {
        "gpu_id": gpu, "layers": layers, "hidden": hidden, "heads": heads, "gpus_per_node": 8, "tp": 1, "pp": 1, "cp": 1, "micro_batch": 1,
        "precision": "bf16", "recompute": "full", "global_batch_seqs": 512, "n_gpus": 1, "sharding": "none", "seq_len": 1024,
    }  # fmt: skip
    return predict(explicit_run({**usual, **columns}, CATALOG))


def room(run: Prediction) -> float:
    """Usable memory over what the run needs: under 1 it runs out."""
    return usable_bytes(run.run.platform) / run.total_bytes


V100 = {"gpu": "v100-sxm2-32gb", "precision": "fp16", "year": 2019, "vocab": 50_257, "inter_kind": "infiniband", "inter_gbit_per_node": 800}


def test_data_parallelism_ends_at_1_4b_on_32_gb() -> None:
    """ZeRO (arXiv 1910.02054, section 10.2): plain data parallelism runs up to 1.4B parameters on 32 GB V100s; 16 bytes each."""
    assert room(predicted(layers=40, hidden=1664, heads=16, n_gpus=16, **V100)) > 1  # 12 x 40 x 1664^2 + 84e6 = 1.41e9
    assert room(predicted(layers=40, hidden=2048, heads=16, n_gpus=16, **V100)) < 1  # 2.1e9


def test_zero2_trains_13b_where_data_parallelism_cannot() -> None:
    """Section 10.4 of the same: 13B on 128 V100s without model parallelism; 26 GB of weights, the rest divided."""
    shape = {"layers": 62, "hidden": 4096, "heads": 32, "n_gpus": 128, **V100}
    assert predicted(**shape, sharding="zero2").fits
    assert room(predicted(**shape)) < 0.2


def test_one_v100_trains_1_2b() -> None:
    """Megatron-LM (arXiv 1909.08053, section 5.1): 1.2B, 40 layers of 1,536, is what one 32 GB GPU holds."""
    assert room(predicted(layers=40, hidden=1536, heads=16, **V100)) > 1


BLOOM = {"layers": 30, "hidden": 4096, "heads": 32, "vocab": 250_880, "micro_batch": 8, "seq_len": 128, "model": "bloomz-7b1"}


def test_full_fine_tuning_of_7b_is_too_much_for_80_gb() -> None:
    """PEFT's README: bloomz-7b1 runs out of an 80 GB A100 with full fine-tuning and runs with LoRA. 7.1e9 x 16 = 113 GB of
    weights, gradients, master copy and moments; 14 GB of frozen weights."""
    full = predicted("a100-sxm-80gb", task="full", **BLOOM)
    assert not full.fits
    assert full.total_bytes > 113e9
    assert room(predicted("a100-sxm-80gb", task="lora", lora_rank=16, **BLOOM)) > 2


@pytest.mark.parametrize(
    ("task", "gpu", "fits"), [("full", "a100-sxm-80gb", False), ("lora", "rtx-4090", True), ("qlora", "rtx-4090", True)]
)
def test_llama_2_7b(task: str, gpu: str, fits: bool) -> None:
    """Hugging Face's model memory anatomy: 18 bytes a parameter with AdamW and mixed precision, 120 GB and more; LitGPT's table:
    21.3 GB with LoRA, 14 GB with NF4, no recomputation, the longest sample 1,304 tokens."""
    llama = {"ffn": 11_008, "vocab": 32_000, "gated_mlp": "yes", "seq_len": 1304, "recompute": "none", "software": "LitGPT"}
    run = predicted(gpu, 32, 4096, 32, task=task, lora_rank=8, **llama)
    assert run.fits is fits
    assert (room(run) > 1) is fits


def test_65b_in_48_gb_by_four_bits_only() -> None:
    """QLoRA (arXiv 2305.14314, abstract and section 1): 65B on one 48 GB GPU; 16-bit full fine-tuning takes over 780 GB."""
    llama = {"ffn": 22_016, "vocab": 32_000, "gated_mlp": "yes", "seq_len": 512, "lora_rank": 64}
    assert predicted("rtx-a6000", 80, 8192, 64, task="qlora", **llama).fits
    assert not predicted("rtx-a6000", 80, 8192, 64, task="lora", **llama).fits
    assert not predicted("a100-sxm-80gb", 80, 8192, 64, task="lora", **llama).fits
    assert predicted("a100-sxm-80gb", 80, 8192, 64, task="full", **llama).total_bytes > 780e9
