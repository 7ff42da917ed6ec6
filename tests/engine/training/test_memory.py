"""Memory of training, component by component, against figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.training.constants import training_table
from app.engine.training.job import RECOMPUTE, SHARDING, TrainingLayout
from app.engine.training.memory import activation_bytes_per_token, parameters_per_gpu, training_memory_bytes
from app.units import GB
from tests.engine.training.conftest import TOY, model_job, toy_job

FULL = RECOMPUTE.index("full")


def total(parts: dict[str, np.ndarray]) -> float:
    return float(sum(part[0] for part in parts.values()))


def test_kept_activations_of_a_layer() -> None:
    # 16-bit: 2 q + 2 kv + MLP (up and its GELU: 2 x 128) = 64 + 64 + 256 = 384 elements, 4 norms of 32 = 128: 2 x 512 = 1,024 bytes
    kept, boundary = activation_bytes_per_token(toy_job(), TrainingLayout.of())
    assert kept[0] == pytest.approx(1024)
    assert boundary[0] == 64  # the layer's input: 2 x 32


def test_latent_attention_keeps_values_at_their_own_width() -> None:
    # 4 heads: q and k of 8 + 4, v and output of 8: 2 x 48 + 2 x 32 = 160; MLP 256 and norms 128 as above: 2 x 544 bytes
    shape = replace(TOY, attention="mla", qk_nope_dim=8, qk_rope_dim=4, v_head_dim=8, kv_lora_rank=16)
    assert activation_bytes_per_token(toy_job(shape=shape), TrainingLayout.of())[0][0] == pytest.approx(1088)


def test_state_space_layers_keep_their_own() -> None:
    # One of four layers attends (128 / 4), three keep 8 x 32 = 256 (x 3 / 4 = 192): 32 + 192 + 256 + 128 = 608 elements
    shape = replace(TOY, full_attention_layers=1, linear_layers=3)
    assert activation_bytes_per_token(toy_job(shape=shape), TrainingLayout.of())[0][0] == pytest.approx(1216)


@pytest.mark.parametrize(("year", "recompute", "elements"), [(2026, 0, 512), (2024, 0, 576), (2026, 1, 352)])
def test_experts_keep_their_inputs_and_their_own_widths(year: int, recompute: int, elements: int) -> None:
    # Two of eight experts of 32 (up and GELU: 128) and a shared one (64), 2 x 32 into the experts: 256; out of them 64 more before 2025.
    # q, k, v, output 128 and norms 128. Selective recomputation drops GELU's 64 + 32 and the norm outputs' 64, not the experts' inputs.
    shape = replace(TOY, ffn_dense=0, mlp_layers=0, moe_layers=4, experts=8, top_k=2, moe_ffn=32, shared_experts=1)
    kept, _ = activation_bytes_per_token(toy_job(shape=shape, software_year=year), TrainingLayout.of(recompute=recompute))
    assert kept[0] == pytest.approx(2 * elements)


def test_sequence_parallelism_splits_norms_from_2023_on() -> None:
    layout = TrainingLayout.of(tp=2)
    assert activation_bytes_per_token(toy_job(), layout)[0][0] == pytest.approx(512)
    # 2022: 768 / 2 + 256 of norms + 64 of dropout masks, whole on every rank
    assert activation_bytes_per_token(toy_job(software_year=2022), layout)[0][0] == pytest.approx(384 + 256 + 64)


def test_scores_are_kept_without_fused_attention() -> None:
    # 5 a s = 5 x 4 x 16 = 320 bytes per token (arXiv 2205.05198); selective recomputation drops them
    job = toy_job(flash_attention=False)
    none = activation_bytes_per_token(job, TrainingLayout.of())[0][0]
    selective = activation_bytes_per_token(job, TrainingLayout.of(recompute=1))[0][0]
    assert none == pytest.approx(1024 + 320)
    assert selective == pytest.approx(1024)


def test_selective_recompute_with_fused_attention_drops_norm_outputs_and_product() -> None:
    # 2 x (384 - 128) + 2 x 2 x 32 = 512 + 128
    assert activation_bytes_per_token(toy_job(), TrainingLayout.of(recompute=1))[0][0] == pytest.approx(640)


def test_parameters_of_one_rank() -> None:
    # layer: 4 x 32 x 32 + 2 x 32 x 128 = 12,288; norms (2 x 4 + 1) x 32 = 288; embedding and head 3,200 each
    dense, experts = parameters_per_gpu(toy_job(), TrainingLayout.of())
    assert dense[0] == 4 * 12_288 + 288 + 2 * 3_200
    assert experts[0] == 0
    # two stages of two ranks: body / 4 and the fuller end / 2
    assert parameters_per_gpu(toy_job(), TrainingLayout.of(tp=2, pp=2))[0][0] == (4 * 12_288 + 288) / 4 + 1_600


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "optimizer"), [("none", 1, 1, 1), ("zero1", 1, 1, 4), ("zero2", 1, 4, 4), ("zero3", 4, 4, 4)]
)
def test_zero_stages_divide_in_order(sharding: str, weights: int, gradients: int, optimizer: int) -> None:
    # 55,840 parameters: 2 bytes of weight, 4 of gradient, 8 of Adam's moments, each over 1 or 4 ranks (arXiv 1910.02054)
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(dp=4, sharding=SHARDING.index(sharding)))
    assert parts["weights"][0] == pytest.approx(55_840 * 2 / weights)
    assert parts["gradients"][0] == pytest.approx(55_840 * 4 / gradients)
    assert parts["optimizer"][0] == pytest.approx(55_840 * 8 / optimizer)


def test_zero3_holds_sixteen_or_eighteen_bytes_a_parameter() -> None:
    # sharded fp32 master (its 16-bit copy is gathered on demand): 2 + 2 + 4 + 8 = 16 bytes over 4 ranks
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(dp=4, sharding=3))
    held = sum(float(parts[name][0]) for name in ("weights", "gradients", "optimizer", "master_weights"))
    assert held == pytest.approx(55_840 * (2 + 4 + 8 + 2) / 4)


@pytest.mark.parametrize(("precision", "year", "expected"), [("bf16", 2025, 4.0), ("bf16", 2022, 6.0), ("fp16", 2022, 2.0)])
def test_gradients_by_precision_and_year(precision: str, year: int, expected: float) -> None:
    assert toy_job(precision=precision, software_year=year).gradient_bytes == expected


def test_lora_trains_two_factors_beside_every_layer() -> None:
    # per layer: attention 4 x 32 + 2 x 32 + 2 x 32 = 256, MLP without gate 2 x (32 + 128) = 320; rank 2 and four layers: 8 x 576
    job = toy_job(task="lora", lora_rank=2)
    assert job.trained_parameters == 4_608
    parts = training_memory_bytes(job, TrainingLayout.of())
    assert parts["weights"][0] == pytest.approx(2 * 55_840)
    assert parts["optimizer"][0] == pytest.approx(8 * 4_608)


def test_a_four_bit_base_takes_its_bits() -> None:
    # 49,440 parameters of the blocks at 4.5 bits; embedding and head, 3,200 each, stay in 16
    parts = training_memory_bytes(toy_job(task="qlora", lora_rank=2, base_bits=4.5), TrainingLayout.of())
    assert parts["weights"][0] == pytest.approx(49_440 * 4.5 / 8 + 6_400 * 2)
    sharded = training_memory_bytes(toy_job(task="qlora", lora_rank=2, base_bits=4.5), TrainingLayout.of(dp=4, sharding=3))
    assert sharded["weights"][0] == pytest.approx((49_440 * 4.5 / 8 + 6_400 * 2) / 4)


def test_a_frozen_base_keeps_no_inputs_of_its_mlp() -> None:
    # of 1,024 bytes: without the norm output before the MLP (2 x 32) and GELU's output (2 x 128)
    assert activation_bytes_per_token(toy_job(task="lora", lora_rank=2), TrainingLayout.of())[0][0] == pytest.approx(1024 - 64 - 256)


def test_eager_operations_keep_their_operands() -> None:
    # gated: 2 q + 2 kv + 3 x 128 = 512 elements and 4 norm tensors of 32: 1,280 bytes. Eager: SiLU's output (256); per norm the
    # input in fp32 (128) and, where its weight is trained, what that multiplies (64)
    gated = replace(TOY, gated_mlp=True)
    fused, eager, frozen = (
        activation_bytes_per_token(job, TrainingLayout.of())[0][0]
        for job in (toy_job(shape=gated), toy_job(shape=gated, eager=True), toy_job(shape=gated, eager=True, task="lora", lora_rank=2))
    )
    assert fused == pytest.approx(1280)
    assert eager == pytest.approx(1280 + 256 + 2 * (128 + 64))
    assert frozen == pytest.approx(1280 + 256 + 2 * 128 - 256 - 64)
    # selective recomputation makes norms and activation functions again, fused or not
    selective = TrainingLayout.of(recompute=1)
    assert activation_bytes_per_token(toy_job(shape=gated, eager=True), selective)[0][0] == pytest.approx(1280 - 256 - 128)


def test_32_bit_jobs_keep_one_wide_copy_of_all() -> None:
    parts = training_memory_bytes(toy_job(precision="fp32"), TrainingLayout.of())
    assert parts["weights"][0] == parts["gradients"][0] == pytest.approx(4 * 55_840)
    assert parts["master_weights"][0] == 0
    assert activation_bytes_per_token(toy_job(precision="fp32"), TrainingLayout.of())[0][0] == pytest.approx(2048)


def test_buckets_hold_no_more_than_the_gradients() -> None:
    c = training_table()["memory"]
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(dp=2))
    assert parts["communication"][0] == pytest.approx(c["communicator_gb"] * GB + 4 * 55_840)
    large = training_memory_bytes(model_job("meta-llama/Llama-3.1-8B"), TrainingLayout.of(dp=2))
    assert large["communication"][0] == pytest.approx((c["communicator_gb"] + c["bucket_gb"]) * GB)


def test_sharded_weights_are_gathered_two_layers_at_a_time() -> None:
    # two layers of 49,440 / 4 and the outermost unit, embedding and head of 3,200 each, 16-bit
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(dp=4, sharding=3))
    assert parts["gathered_layers"][0] == pytest.approx(2 * (2 * 49_440 / 4 + 6_400))


def test_micro_batches_in_flight() -> None:
    # pp = 4, one layer a stage: first stage keeps 4 micro-batches of 16 tokens x 1,024 bytes; interleaved by 2: 4 + 3/2
    factor = training_table()["memory"]["activation_factor"]
    plain = training_memory_bytes(toy_job(), TrainingLayout.of(pp=4))["activations"][0]
    interleaved = training_memory_bytes(toy_job(), TrainingLayout.of(pp=4, vp=2))["activations"][0]
    assert plain == pytest.approx(16 * 1024 * 4 * factor)
    assert interleaved == pytest.approx(16 * 1024 * 5.5 * factor)


def test_full_recompute_keeps_inputs_and_one_layer() -> None:
    factor = training_table()["memory"]["activation_factor"]
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(recompute=FULL))
    assert parts["activations"][0] == pytest.approx(16 * (4 * 64 + 1024 * factor))


def test_logits_of_one_micro_batch() -> None:
    # 16 tokens x 100 entries; a fused loss stores none, an encoder scores 15% of its tokens
    each = training_table()["memory"]["logit_bytes"]
    assert training_memory_bytes(toy_job(), TrainingLayout.of())["logits"][0] == pytest.approx(1600 * each)
    assert training_memory_bytes(toy_job(fused_loss=True), TrainingLayout.of())["logits"][0] == 0
    encoder = toy_job(shape=replace(TOY, modality="encoder"))
    assert training_memory_bytes(encoder, TrainingLayout.of())["logits"][0] == pytest.approx(240 * each)


def test_offload_leaves_no_optimizer_state() -> None:
    parts = training_memory_bytes(toy_job(), TrainingLayout.of(dp=2, sharding=1, offload=1))
    assert parts["optimizer"][0] == 0
    assert parts["master_weights"][0] == 0


def test_llama_70b_state_on_eight_ranks() -> None:
    # 70.6e9 x (2 + 4 + 8 + 2) / 64 ranks = 17.6 GB of sharded state
    parts = training_memory_bytes(model_job("meta-llama/Meta-Llama-3-70B"), TrainingLayout.of(dp=64, sharding=3))
    held = sum(float(parts[name][0]) for name in ("weights", "gradients", "optimizer", "master_weights"))
    assert held / GB == pytest.approx(70.6 * 16 / 64, rel=0.01)


degrees = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=60, deadline=None)
@given(
    micro=st.integers(1, 16),
    more=st.integers(1, 16),
    tp=degrees,
    pp=degrees,
    dp=degrees,
    recompute=st.integers(0, 2),
    sharding=st.integers(0, 3),
)
def test_more_micro_batch_never_needs_less(micro: int, more: int, tp: int, pp: int, dp: int, recompute: int, sharding: int) -> None:
    job = model_job("meta-llama/Llama-3.1-8B-Instruct", global_batch_sequences=1e6)
    layouts = [
        TrainingLayout.of(micro_batch=size, tp=tp, pp=pp, dp=dp, recompute=recompute, sharding=sharding) for size in (micro, micro + more)
    ]
    few, many = (total(training_memory_bytes(job, layout)) for layout in layouts)
    assert many >= few


@settings(max_examples=40, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 4]),
    pp=degrees,
    sharding=st.integers(0, 3),
    name=st.sampled_from(["Llama-3.1-8B", "Qwen3-30B-A3B", "DeepSeek-V3"]),
)
def test_tensor_parallelism_never_raises_weights(tp: int, pp: int, sharding: int, name: str) -> None:
    job = model_job(name)
    fewer, more = (
        training_memory_bytes(job, TrainingLayout.of(tp=value, pp=pp, dp=8, sharding=sharding))["weights"][0] for value in (tp, 2 * tp)
    )
    assert more <= fewer


def test_narrow_inputs_keep_fewer_bytes() -> None:
    # inputs are half of what is kept: 8-bit halves them (0.75); FP4 keeps 0.5 byte and 1/16 of scale of 2 bytes (0.640625)
    kept = {name: training_memory_bytes(toy_job(precision=name), TrainingLayout.of())["activations"][0] for name in ("bf16", "fp8", "fp4")}
    assert kept["fp8"] / kept["bf16"] == pytest.approx(0.75)
    assert kept["fp4"] / kept["bf16"] == pytest.approx(0.640625, rel=0.01)
