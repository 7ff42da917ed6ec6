"""FLOP, parameters and memory of training by hand, and the properties every layout keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.engine.links import recommended_network
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.training.constants import training_table
from app.engine.training.job import OFFLOAD, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.memory import parameters_per_gpu, training_memory_bytes
from app.engine.training.quantities import attention_flop_per_token, local_ranks, quantities
from app.engine.training.step import Exchange, model_flop_per_token, published_flop_per_token, step_time
from app.units import GB

CATALOG = load_catalog()
ZERO1, ZERO3 = float(SHARDING.index("zero1")), float(SHARDING.index("zero3"))
FULL = float(RECOMPUTE.index("full"))


def small(**changes: object) -> ModelShape:
    """Two layers, hidden 1,024, 8 heads of 128, MLP of 4,096 without gate, vocabulary 10,000, untied.

    Attention 4 x 1024^2 = 4,194,304; MLP 2 x 1024 x 4096 = 8,388,608; a layer 12,582,912; two layers 25,165,824;
    embedding and head 10,240,000 each.
    """
    values: dict[str, object] = {
        "id": "small", "name": "small", "origin": "inferred", "layers": 2, "hidden": 1024, "heads": 8, "kv_heads": 8, "head_dim": 128,
        "ffn_dense": 4096, "gated_mlp": False, "vocab": 10_000, "full_attention_layers": 2, "mlp_layers": 2, "params_b": 0.045650944,
        "active_params_b": 0.045650944,
    }  # fmt: skip
    return ModelShape(**{**values, **changes})  # type: ignore[arg-type]


def job(**changes: object) -> TrainingJob:
    values: dict[str, object] = {"shape": small(), "task": "pretraining", "seq_len": 2048, "global_batch_sequences": 64.0}
    return TrainingJob(**{**values, **changes})  # type: ignore[arg-type]


def llama() -> ModelShape:
    found = CATALOG.find_model("meta-llama/Llama-3.1-8B")
    assert found is not None
    return found


def cluster(gbit: float = 400.0) -> Platform:
    gpu = CATALOG.gpus["h100-sxm-80gb"]
    network = recommended_network(gpu, "infiniband")
    assert network is not None
    return platform_of(gpu, gpus_per_server=8).with_network(replace(network, nic_gbit_per_s=gbit))


def test_attention_meets_half_the_sequence_when_causal() -> None:
    """4 x 1,024 wide x 1,024 keys x 2 layers = 8,388,608 FLOP a token; an encoder meets all 2,048 keys: twice that."""
    assert attention_flop_per_token(job()) == pytest.approx(8_388_608)
    assert attention_flop_per_token(job(shape=small(modality="encoder"))) == pytest.approx(2 * 8_388_608)


def test_window_caps_the_keys_met() -> None:
    """Window 512 of 2,048: 512 x (1 - 512/4096) = 448 keys; 4 x 1024 x 448 x 2 layers = 3,670,016."""
    shape = small(full_attention_layers=0, sliding_layers=2, sliding_window=512)
    assert attention_flop_per_token(job(shape=shape)) == pytest.approx(3_670_016)


def test_useful_flop_of_a_token() -> None:
    """6 x (25,165,824 + 10,240,000 head + 5,120 norms) + 3 x 8,388,608 attention = 237.6e6; the look-up costs nothing."""
    assert model_flop_per_token(job()) == pytest.approx(6 * (25_165_824 + 10_240_000 + 5_120) + 3 * 8_388_608, rel=1e-3)


def test_published_counts_take_attention_whole_and_recomputation_a_third_more() -> None:
    useful = model_flop_per_token(job())
    assert published_flop_per_token(job(), hardware=False) == pytest.approx(useful + 3 * 8_388_608)
    assert published_flop_per_token(job(), hardware=True, causal=True) == pytest.approx(useful * 4 / 3)


def test_parameters_of_one_gpu() -> None:
    """tp 2, pp 2: body (25,165,824 + 5,120 norms) / 4 plus the embedding or the head, 10,240,000 / 2."""
    dense, experts = parameters_per_gpu(job(), TrainingLayout.of(tp=2, pp=2))
    assert float(dense[0]) == pytest.approx(25_170_944 / 4 + 5_120_000, rel=1e-3)
    assert float(experts[0]) == 0.0


def test_experts_are_divided_by_their_own_ranks() -> None:
    """8 experts of 2 x 1024 x 512 in 2 layers = 16,777,216; over ep 4: 4,194,304, whatever tp is."""
    shape = small(mlp_layers=0, moe_layers=2, experts=8, top_k=2, moe_ffn=512, ffn_dense=0)
    for tp in (1, 2):
        _, experts = parameters_per_gpu(job(shape=shape), TrainingLayout.of(tp=tp, dp=8, ep=4))
        assert float(experts[0]) == pytest.approx(4_194_304)


def test_states_of_adamw_and_what_zero_divides() -> None:
    """Per parameter: 2 bytes of weights, 8 of moments, 4 of master copy; ZeRO-1 over 4 replicas divides the last two."""
    parameters = float(parameters_per_gpu(job(), TrainingLayout.of(dp=4))[0][0])
    plain = training_memory_bytes(job(), TrainingLayout.of(dp=4))
    assert float(plain["weights"][0]) == pytest.approx(2 * parameters)
    assert float(plain["optimizer"][0]) == pytest.approx(8 * parameters)
    assert float(plain["master_weights"][0]) == pytest.approx(4 * parameters)
    split = training_memory_bytes(job(), TrainingLayout.of(dp=4, sharding=ZERO1))
    assert float(split["weights"][0]) == pytest.approx(2 * parameters)
    assert float(split["optimizer"][0]) == pytest.approx(2 * parameters)


def test_quantised_base_takes_its_stored_bits() -> None:
    """4.5 bits: 0.5625 bytes per parameter of the blocks; the ends (2 x 10,240,000) stay in 16; only adapters have state."""
    quantised = job(task="qlora", lora_rank=8, base_bits=4.5)
    parts = training_memory_bytes(quantised, TrainingLayout.of())
    total = float(parameters_per_gpu(quantised, TrainingLayout.of())[0][0])
    assert float(parts["weights"][0]) == pytest.approx(0.5625 * (total - 20_480_000) + 2 * 20_480_000)
    assert float(parts["optimizer"][0]) == pytest.approx(8 * quantised.trained_parameters)


def test_ranks_of_a_group_in_one_server() -> None:
    """8 GPUs a server: 16 data-parallel ranks with 4 tensor ranks between neighbours put 2 in each server."""
    found = local_ranks(np.array([16.0, 4.0]), np.array([4.0, 1.0]), 8)
    assert found.tolist() == [2.0, 4.0]


def test_linear_layers_count_two_flop_a_parameter_and_token() -> None:
    """MLP of two layers, 16,777,216 parameters: 2 x that x 2,048 tokens, over tp 2."""
    found = quantities(job(), cluster(), TrainingLayout.of(tp=2))
    assert float(found.mlp_flop[0]) == pytest.approx(2 * 16_777_216 * 2048 / 2)


layouts = st.fixed_dictionaries({
    "tp": st.sampled_from([1, 2, 4, 8]),
    "pp": st.sampled_from([1, 2, 4]),
    "dp": st.sampled_from([1, 2, 4, 8]),
    "micro_batch": st.sampled_from([1, 2, 4]),
    "recompute": st.sampled_from([0, 1, 2]),
    "sharding": st.sampled_from([0, 1, 2, 3]),
    "shard_ranks": st.sampled_from([0, 4]),
    "offload": st.sampled_from([0, 1]),
})  # fmt: skip


def total(of: TrainingJob, layout: dict[str, int]) -> float:
    return float(np.sum([part[0] for part in training_memory_bytes(of, TrainingLayout.of(**layout)).values()]))


@given(layouts)
@settings(max_examples=60, deadline=None)
def test_larger_micro_batch_never_takes_less_memory(layout: dict[str, int]) -> None:
    of = job(shape=llama(), global_batch_sequences=1024.0)
    assert total(of, {**layout, "micro_batch": 2 * layout["micro_batch"]}) >= total(of, layout)


@given(layouts)
@settings(max_examples=60, deadline=None)
def test_tensor_parallelism_never_raises_weights(layout: dict[str, int]) -> None:
    of = job(shape=llama(), global_batch_sequences=1024.0)
    narrow = training_memory_bytes(of, TrainingLayout.of(**layout))["weights"]
    wide = training_memory_bytes(of, TrainingLayout.of(**{**layout, "tp": 2 * layout["tp"]}))["weights"]
    assert float(wide[0]) <= float(narrow[0])


@given(layouts)
@settings(max_examples=60, deadline=None)
def test_full_recomputation_never_takes_more_memory_nor_less_time(layout: dict[str, int]) -> None:
    of = job(shape=llama(), seq_len=8192, global_batch_sequences=1024.0)
    kept, again = {**layout, "recompute": 0}, {**layout, "recompute": 2}
    assert total(of, again) <= total(of, kept) * (1 + 1e-9)
    slow = step_time(of, cluster(), TrainingLayout.of(**again)).step_s
    fast = step_time(of, cluster(), TrainingLayout.of(**kept)).step_s
    assert float(slow[0]) >= float(fast[0])


@given(layouts, st.sampled_from([100.0, 200.0, 400.0]))
@settings(max_examples=40, deadline=None)
def test_faster_network_is_never_slower(layout: dict[str, int], gbit: float) -> None:
    of = job(shape=llama(), global_batch_sequences=1024.0)
    slow = step_time(of, cluster(gbit), TrainingLayout.of(**layout)).step_s
    fast = step_time(of, cluster(2 * gbit), TrainingLayout.of(**layout)).step_s
    assert float(fast[0]) <= float(slow[0]) * (1 + 1e-9)


@given(layouts)
@settings(max_examples=40, deadline=None)
def test_parts_add_up_and_repeat(layout: dict[str, int]) -> None:
    of = job(shape=llama(), global_batch_sequences=1024.0)
    first, second = (step_time(of, cluster(), TrainingLayout.of(**layout)) for _ in range(2))
    assert float(first.step_s[0]) == float(second.step_s[0])
    parts = first.compute_s + first.memory_s + first.bubble_s + first.optimizer_s + first.host_s + first.exposed_s
    assert float(first.step_s[0]) == pytest.approx(float(parts[0]))
    assert all(float(item.exposed_s[0]) <= float(item.time_s[0]) * (1 + 1e-9) + 1e-12 for item in first.exchanges if item.name != "ep")


def test_pipeline_waits_for_its_fill_and_drain() -> None:
    """1F1B with p stages and m micro-batches loses (p-1)/m of the busy time (arXiv 2104.04473): 3/64 against 3/8."""
    of = job(shape=llama(), global_batch_sequences=64.0)
    many = step_time(of, cluster(), TrainingLayout.of(pp=4, micro_batch=1))
    few = step_time(of, cluster(), TrainingLayout.of(pp=4, micro_batch=8))
    assert float(many.bubble_s[0] / many.step_s[0]) < 0.06
    assert 0.2 < float(few.bubble_s[0] / few.step_s[0]) < 0.35


def test_sockets_expose_gradients_that_infiniband_hides() -> None:
    of = job(shape=llama(), seq_len=4096, global_batch_sequences=16.0)
    layout = TrainingLayout.of(dp=16, sharding=ZERO1, recompute=FULL)
    tcp = cluster().with_network(ScaleOut(kind="tcp", nic_gbit_per_s=25.0, nics_per_server=1, gpudirect=False))
    slow, fast = step_time(of, tcp, layout), step_time(of, cluster(), layout)
    exposed = {item.name: float(item.exposed_s[0]) for item in slow.exchanges}
    # 8.03e9 parameters x 2 bytes, sent and received once round: at least 2 x 16 GB over 3.1 GB/s, less what is hidden.
    assert exposed["dp"] > 5.0
    assert float(slow.step_s[0]) > 2 * float(fast.step_s[0])


def test_sharded_weights_travel_for_every_micro_batch() -> None:
    of = job(shape=llama(), global_batch_sequences=64.0)
    once = step_time(of, cluster(), TrainingLayout.of(dp=16, micro_batch=4, sharding=ZERO3))
    often = step_time(of, cluster(), TrainingLayout.of(dp=16, micro_batch=1, sharding=ZERO3))
    assert next(item for item in often.exchanges if item.name == "dp").bytes[0] == pytest.approx(
        4 * next(item for item in once.exchanges if item.name == "dp").bytes[0]
    )


def test_pipeline_stages_keep_sharded_weights_gathered() -> None:
    """ZeRO-3 over 8 replicas in 2 stages: the stage's weights stand gathered (2 bytes) and its gradients whole (4 bytes)
    beside an eighth of the 16-bit weights; without a pipeline gradients are an eighth, too."""
    layout = TrainingLayout.of(pp=2, dp=8, sharding=ZERO3)
    held = float(parameters_per_gpu(job(), layout)[0][0])
    parts = training_memory_bytes(job(), layout)
    assert float(parts["gathered_layers"][0]) == pytest.approx(2 * held)
    assert float(parts["gradients"][0]) == pytest.approx(4 * held)
    flat = TrainingLayout.of(dp=8, sharding=ZERO3)
    whole = float(parameters_per_gpu(job(), flat)[0][0])
    assert float(training_memory_bytes(job(), flat)["gradients"][0]) == pytest.approx(4 * whole / 8)


def exchange(name: str, of: TrainingJob, layout: TrainingLayout, platform: Platform | None = None) -> Exchange:
    return next(item for item in step_time(of, platform or cluster(), layout).exchanges if item.name == name)


def test_hybrid_sharding_divides_by_its_group_only() -> None:
    """16 replicas in groups of 8: an eighth of 2 bytes of weights, 4 of gradients, 8 of moments and 2 of master copy."""
    held = float(parameters_per_gpu(job(), TrainingLayout.of(dp=16))[0][0])
    parts = training_memory_bytes(job(), TrainingLayout.of(dp=16, sharding=ZERO3, shard_ranks=8))
    for name, each in (("weights", 2), ("gradients", 4), ("optimizer", 8), ("master_weights", 2)):
        assert float(parts[name][0]) == pytest.approx(each * held / 8)


def test_hybrid_sharding_keeps_weights_off_the_network() -> None:
    """Over 25 Gbit/s sockets gathering 8B weights (16 GB) twice takes seconds; between groups goes an eighth, once a step."""
    of = job(shape=llama(), global_batch_sequences=64.0)
    tcp = cluster().with_network(ScaleOut(kind="tcp", nic_gbit_per_s=25.0, nics_per_server=1, gpudirect=False))
    whole, hybrid = (
        float(exchange("dp", of, TrainingLayout.of(dp=16, sharding=ZERO3, shard_ranks=ranks), tcp).time_s[0]) for ranks in (0, 8)
    )
    assert hybrid < whole / 3


def test_one_group_is_plain_sharding() -> None:
    of = job(shape=llama(), global_batch_sequences=64.0)
    plain, whole = (step_time(of, cluster(), TrainingLayout.of(dp=16, sharding=ZERO3, shard_ranks=ranks)) for ranks in (0, 16))
    assert float(plain.step_s[0]) == float(whole.step_s[0])


def test_zero2_reduces_gradients_of_every_micro_batch() -> None:
    """64 sequences, 8 replicas, micro-batch 2: four reductions and one gather, five halves of ZeRO-1's all-reduce."""
    of = job(shape=llama(), global_batch_sequences=64.0)
    first, second = (
        exchange("dp", of, TrainingLayout.of(dp=8, micro_batch=2, sharding=SHARDING.index(name))) for name in ("zero1", "zero2")
    )
    assert float(second.bytes[0]) == pytest.approx(2.5 * float(first.bytes[0]))
    # ZeRO-2 goes layer by layer (32 messages of 0.5 GB, not 161 of 0.1 GB), which over NVLink is nearly the same.
    assert float(second.time_s[0]) == pytest.approx(2.5 * float(first.time_s[0]), rel=0.1)
    once = [
        exchange("dp", of, TrainingLayout.of(dp=8, micro_batch=8, sharding=SHARDING.index(name))).bytes[0] for name in ("zero1", "zero2")
    ]
    assert once[0] == once[1]


def test_zero1_in_groups_gathers_inside_them() -> None:
    """16 replicas in groups of 8: gradients cross the network as before; weights come over NVLink, far faster than over sockets."""
    of = job(shape=llama(), global_batch_sequences=64.0)
    tcp = cluster().with_network(ScaleOut(kind="tcp", nic_gbit_per_s=25.0, nics_per_server=1, gpudirect=False))
    whole, grouped = (quantities(of, tcp, TrainingLayout.of(dp=16, sharding=ZERO1, shard_ranks=ranks)) for ranks in (0, 8))
    assert float(whole.gathered_share[0]) == 0.5
    late = [float((found.dp_s * found.gathered_share)[0]) for found in (whole, grouped)]
    assert late[1] < late[0] / 10
    # 2 bytes of weights gathered, 2 of gradients scattered, and twice an eighth of those between the groups.
    held = float(parameters_per_gpu(of, TrainingLayout.of(dp=16))[0][0])
    assert float(grouped.bytes_dp[0]) == pytest.approx(held * (2 + 2 + 2 * 2 / 8))


def test_gradients_of_32_bit_jobs_travel_in_32_bits() -> None:
    narrow, wide = (exchange("dp", job(precision=name), TrainingLayout.of(dp=8)) for name in ("bf16", "fp32"))
    assert float(wide.bytes[0]) == 2 * float(narrow.bytes[0])


def test_selective_recomputation_costs_its_traffic() -> None:
    """Two layers, 2,048 tokens: norms read and write 4 x 1,024 x 2 bytes, GELU reads and writes 2 x 4,096 x 2: 24,576 a token."""
    found = quantities(job(), cluster(), TrainingLayout.of(recompute=RECOMPUTE.index("selective")))
    assert float(found.again_bytes[0]) == pytest.approx(2048 * 2 * 24_576)
    assert float(quantities(job(), cluster(), TrainingLayout.of()).again_bytes[0]) == 0


def test_offloaded_optimizer_works_at_the_host_link() -> None:
    """28 bytes a parameter (weights, gradients, both ways of 12 bytes of state) at the fitted rate, instead of memory's."""
    of = job(shape=llama())
    held = float(parameters_per_gpu(of, TrainingLayout.of())[0][0])
    step = step_time(of, cluster(), TrainingLayout.of(offload=OFFLOAD.index("optimizer")))
    assert float(step.optimizer_s[0]) == pytest.approx(28 * held / (training_table()["common"]["offload_gb_per_s"] * GB))


def test_streamed_weights_of_a_micro_batch() -> None:
    """Two bytes a parameter, forward and backward: 4; an eighth where ZeRO-3 splits them over eight; none at home."""
    of = job(shape=llama(), global_batch_sequences=8)
    held = float(parameters_per_gpu(of, TrainingLayout.of())[0][0])
    away = OFFLOAD.index("parameters")
    whole, split, home = (
        quantities(of, cluster(), TrainingLayout.of(dp=8, sharding=kind, offload=where)).streamed_bytes
        for kind, where in ((0, away), (3, away), (0, 0))
    )
    assert [float(np.max(each)) for each in (whole, split, home)] == pytest.approx([4 * held, held / 2, 0])


def test_adapters_are_counted() -> None:
    """Rank 16 beside every linear layer: attention 4 x (1,024 + 1,024), MLP without gate 2 x (1,024 + 4,096), two layers:
    589,824 parameters; two FLOP each and token forward."""
    of = job(task="lora", lora_rank=16)
    assert of.trained_parameters == 589_824
    assert float(quantities(of, cluster(), TrainingLayout.of()).adapter_flop[0]) == pytest.approx(2 * 589_824 * 2048)


def test_a_model_without_heads_is_not_taken_for_one_column_wide() -> None:
    """Mamba 2.8B, 32 sequences of 4,096 on one H100: between one and five times 6 FLOP a parameter and token at 989 TFLOP/s."""
    mamba = CATALOG.find_model("state-spaces/mamba-2.8b-hf")
    of = job(shape=mamba, seq_len=4096, global_batch_sequences=32)
    seconds = float(step_time(of, cluster(), TrainingLayout.of()).step_s[0])
    ideal = model_flop_per_token(of) * 32 * 4096 / 989e12
    assert ideal < seconds < 5 * ideal
