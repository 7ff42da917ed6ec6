"""Storage: what is held, how fast it is read, and how a checkpoint's write speed follows from its size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.model_shape import ModelShape
from app.design.storage import adapter_parameters, checkpoint_bytes, checkpoint_interval_h, storage_plan
from app.ranges import Range
from app.workload.demand import DataScienceDemand, Demand, HpcDemand, PrecisionDemand, ServingDemand, TrainingDemand, VisionDemand
from tests.costing.small_catalog import EDGE, H100, HGX, L4, serving, training

SHAPE = ModelShape(
    id="llama-70b", name="Llama 70B", origin="catalog", layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn_dense=28_672,
    vocab=128_256, full_attention_layers=80, mlp_layers=80, params_b=70.0, active_params_b=70.0,
)  # fmt: skip
AUTO = PrecisionDemand(weights="auto", kv_cache="auto", training="auto")


def run(task: Any = "pretraining", optimizer: Any = "adamw", tokens: float = 1e12, rank: int = 16) -> TrainingDemand:
    return TrainingDemand(
        task=task, tokens=Range.exact(tokens), deadline_days=None, seq_len=4096, global_batch_tokens=None, optimizer=optimizer,
        lora_rank=rank, base_bits=16,
    )  # fmt: skip


def demand(**kind: Any) -> Demand:
    return Demand(workload="any", shape=SHAPE, precision=AUTO, **kind)


@pytest.mark.parametrize(("optimizer", "gb"), [("adamw", 980), ("adamw_8bit", 560), ("sgd", 700), ("muon", 700), ("adafactor", 420)])
def test_checkpoint_size_by_optimizer(optimizer: str, gb: float) -> None:
    # 70e9 parameters x (2 weights + 4 master + state): Adam 14 B = 980 GB
    assert checkpoint_bytes(SHAPE, run(optimizer=optimizer)) == pytest.approx(gb * 1e9)


def test_adapter_checkpoint_is_small() -> None:
    # per layer: q and o 2 x (8,192 + 8,192), k and v 2 x (8,192 + 1,024), MLP 3 x (8,192 + 28,672): 161,792
    # x rank 16 x 80 layers = 207.1 M parameters
    assert adapter_parameters(SHAPE, 16) == pytest.approx(16 * 80 * 161_792)
    assert checkpoint_bytes(SHAPE, run(task="lora")) < 5e9


@pytest.mark.parametrize(("gpus", "hours"), [(8, 4.0), (512, 1.98), (16_384, 0.25)])
def test_interval_follows_the_time_between_interruptions(gpus: int, hours: float) -> None:
    # 2 x 1% x 50,700 / 512 = 1.98 h; bounded to 0.25..4
    assert checkpoint_interval_h(gpus) == pytest.approx(hours, abs=0.005)


def test_write_speed_keeps_the_stall_below_its_share() -> None:
    plan = storage_plan(demand(training=run()), training(64), stall_fraction=0.01)
    assert plan.checkpoint_s is not None
    assert plan.checkpoint_interval_h is not None
    # 512 GPUs: every 1.98 h; 980 GB in at most 71.3 s needs 13.7 GB/s
    assert plan.write_gb_per_s == pytest.approx(980 / (0.01 * 1.98047 * 3600), rel=1e-3)
    assert plan.checkpoint_s <= 0.01 * plan.checkpoint_interval_h * 3600 * (1 + 1e-9)
    # 1e12 tokens x 8 bytes = 8 TB and five checkpoints of 0.98 TB, 0.2 TB of images: 13.1
    assert plan.capacity_tb == pytest.approx(13.1)
    assert plan.shared


def test_read_speed_by_kind_of_work() -> None:
    text = storage_plan(demand(training=run()), training(32))
    # 256 GPUs, tier good: 15 GB/s
    assert text.read_gb_per_s == pytest.approx(15)
    vision = VisionDemand(images=Range.exact(100e6), epochs=1, deadline_days=None, flop_per_image=1e10, params=1e8, sample_bytes=500_000)
    images = storage_plan(demand(vision=vision), training(32))
    # 50 TB of images is over 30 TB: tier best, 125 GB/s
    assert images.read_gb_per_s == pytest.approx(125)


def test_serving_keeps_models_near() -> None:
    part = ServingDemand(
        concurrent=Range.exact(8), requests_per_s=None, stated_by="concurrent_users", input_tokens=1000, output_tokens=500,
        shared_prefix_tokens=0, max_context_tokens=8192, ttft_ms=1000, tpot_ms=50, percentile=95, engine="auto", engine_version="",
        turns=1, think_time_s=0, prefix_reuse=0, images_per_request=0, image_pixels=0,
    )  # fmt: skip
    plan = storage_plan(demand(serving=part), serving(H100, HGX, tp=8))
    # 8 x 17.5 GB of weights = 140 GB, three versions 420 GB and 0.2 TB: 0.7 TB; fits on the server's own drives
    assert plan.capacity_tb == pytest.approx(0.7)
    assert plan.checkpoint_s is None
    assert not plan.shared
    assert storage_plan(demand(serving=part), serving(L4, EDGE, replicas=40)).shared


def test_other_kinds_have_a_plan() -> None:
    hpc = HpcDemand(
        code="openfoam", problem_size=1e7, memory_gb=200, halo_fraction=0.1, deadline_h=None, runs_per_day=2, mpi=True, fp64=True
    )
    # 200 GB x 2 a day x 30 days = 12 TB, five restart files of 0.2 TB, 0.2 TB
    assert storage_plan(demand(hpc=hpc), training(1, None)).capacity_tb == pytest.approx(13.2)
    science = DataScienceDemand(dataset_gb=Range.exact(500), users=5, in_memory=True)
    assert storage_plan(demand(data_science=science), serving(L4, EDGE)).capacity_tb == pytest.approx(1.2)


def test_stall_share_must_be_a_share() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        storage_plan(demand(training=run()), training(2), stall_fraction=0)


@given(st.integers(1, 512), st.floats(1e9, 1e14), st.floats(0.1, 2000), st.floats(0.001, 0.5))
def test_more_data_and_larger_models_never_need_less(servers: int, tokens: float, params_b: float, stall: float) -> None:
    shape = replace(SHAPE, params_b=params_b)
    base = replace(demand(training=run(tokens=tokens)), shape=shape)
    plan = storage_plan(base, training(servers), stall_fraction=stall)
    assert plan.checkpoint_s is not None
    assert plan.checkpoint_interval_h is not None
    assert plan.checkpoint_s <= stall * plan.checkpoint_interval_h * 3600 * (1 + 1e-9)
    larger = replace(base, shape=replace(shape, params_b=2 * params_b))
    more = storage_plan(larger, training(servers), stall_fraction=stall)
    assert more.capacity_tb >= plan.capacity_tb
    assert more.write_gb_per_s >= plan.write_gb_per_s
    assert min(plan.capacity_tb, plan.read_gb_per_s, plan.write_gb_per_s) > 0
