"""A toy model and small platforms whose figures can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.training.job import TrainingJob

TOY = ModelShape(
    id="toy", name="toy", origin="inferred", layers=4, hidden=32, heads=4, kv_heads=4, head_dim=8, ffn_dense=128, gated_mlp=False,
    vocab=100, tied_embeddings=False, full_attention_layers=4, mlp_layers=4, params_b=56e-6, active_params_b=56e-6,
)  # fmt: skip


def toy_job(**changes: Any) -> TrainingJob:
    """Pretraining of the toy: 16 tokens a sequence, 8 sequences a step."""
    base = TrainingJob(shape=TOY, task="pretraining", seq_len=16, global_batch_sequences=8)
    return replace(base, **changes)


def model_job(name: str, **changes: Any) -> TrainingJob:
    """Pretraining of a catalogue model."""
    shape = load_catalog().find_model(name)
    assert shape is not None
    return replace(TrainingJob(shape=shape, task="pretraining", seq_len=4096, global_batch_sequences=512), **changes)


def cluster(gpu: str = "h100-sxm-80gb", gbit: float = 400.0) -> Platform:
    """Servers of eight GPUs with one NIC per GPU."""
    network = ScaleOut(kind="infiniband", nic_gbit_per_s=gbit, nics_per_server=8)
    return platform_of(load_catalog().gpus[gpu], None, gpus_per_server=8, scale_out=network)


@pytest.fixture(name="h100")
def _h100() -> Platform:
    return cluster()
