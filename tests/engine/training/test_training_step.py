"""Counts of a step and the time made of them, worked out by hand; faster links and narrower searches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.training.job import RECOMPUTE, SHARDING, TrainingLayout
from app.engine.training.quantities import BUCKET_BYTES, QUANTITY_NAMES, Quantities, quantities
from app.engine.training.search import best_by_count, forget, usable_bytes
from app.engine.training.sizing import saved_bytes, state_bytes
from app.engine.training.step import assemble, step_time
from tests.engine.training.conftest import TOY, cluster, model_job, toy_job

FULL = RECOMPUTE.index("full")
# The toy: 4 layers, hidden 32, 4 heads of 8, MLP of 128 without gate, vocabulary 100; 16 tokens, 8 sequences a step.
# Attention 4 x 32 x 32 x 4 = 16,384 parameters, MLP 2 x 32 x 128 x 4 = 32,768, norms 288, embedding and head 3,200 each.


def counted(**layout: float) -> Quantities:
    return quantities(toy_job(), cluster(), TrainingLayout.of(**layout))


def test_flop_of_one_micro_batch() -> None:
    """Two FLOP a parameter and token, 16 tokens; a quarter with two stages of two tensor ranks, the head over tp only."""
    found = counted(tp=2, pp=2)
    assert found.attention_linear_flop[0] == pytest.approx(2 * 16_384 * 16 / 4)
    assert found.mlp_flop[0] == pytest.approx(2 * 32_768 * 16 / 4)
    assert found.head_flop[0] == pytest.approx(2 * 3_200 * 16 / 2)
    # 4 x 32 wide x 8 keys on average x 4 layers = 4,096 a token
    assert found.scores_flop[0] == pytest.approx(4_096 * 16 / 4)


@pytest.mark.parametrize(("recompute", "linear", "scores"), [(0, 3.0, 3.5), (1, 3.0, 3.5), (2, 4.0, 4.5)])
def test_passes(recompute: int, linear: float, scores: float) -> None:
    """Backward costs twice the forward; fused attention makes its scores again: 2.5 products' worth beside the forward's one."""
    found = counted(recompute=recompute)
    assert found.passes[0] == linear
    assert found.scores_passes[0] == scores


def test_frozen_bases_skip_weight_gradients() -> None:
    found = quantities(toy_job(task="lora", lora_rank=2), cluster(), TrainingLayout.of())
    assert found.passes[0] == 2.0
    # adapters read and write 4 x 32 + 2 x (4 + 4) x 8 = 256 elements of each of 4 layers, 16 tokens, 2 bytes
    assert found.adapter_bytes[0] == pytest.approx(256 * 4 * 16 * 2)
    # 28 bytes (2 + 2 + 2 x 12) a parameter updated: 4,608 of the adapters
    assert found.optimizer_bytes[0] == pytest.approx(28 * 4_608)


def test_bytes_of_memory_bound_parts() -> None:
    """16 tokens, 4 layers, 2 bytes: 32 wide of the residual stream, 128 of the MLP; 100 logits a token."""
    found = counted()
    assert found.hidden_bytes[0] == 16 * 4 * 32 * 2
    assert found.wide_bytes[0] == 16 * 4 * 128 * 2
    assert found.logit_bytes[0] == 16 * 100 * 2
    # whole scores without fused attention: 4 heads x 16 keys
    assert quantities(toy_job(flash_attention=False), cluster(), TrainingLayout.of()).score_bytes[0] == 16 * 4 * 4 * 16 * 2


def test_a_quantised_base_is_converted_in_every_pass() -> None:
    found = quantities(toy_job(task="qlora", lora_rank=2, base_bits=4.5), cluster(), TrainingLayout.of(tp=2))
    assert found.dequantised[0] == pytest.approx((16_384 + 32_768 + 288) / 2)


def test_tensor_pipeline_and_context_traffic() -> None:
    """Residual of 16 x 32 x 2 = 1,024 bytes. TP: 4 all-reduces a layer, 8 micro-batches (6 when recomputed). PP: there and
    back. CP over 2: keys and values of 8 tokens, 4 x 32 bytes each, times 2 ranks, 3 times a layer."""
    assert counted(tp=2).bytes_tp[0] == 1_024 * 4 * 4 * 8
    assert counted(tp=2, recompute=FULL).bytes_tp[0] == 1_024 * 4 * 8 * 6
    assert counted(pp=2, vp=2).bytes_pp[0] == 1_024 * 2 * 8 * 2
    assert counted(cp=2).bytes_cp[0] == 8 * 4 * 32 * 2 * 3 * 4 * 8


@pytest.mark.parametrize(("year", "ep", "share"), [(2024, 16, 1.0), (2025, 16, 0.75), (2025, 8, 1.0)])
def test_expert_traffic(year: int, ep: int, share: float) -> None:
    """2 experts a token: 16 x 32 x 2 x 2 = 2,048 bytes, 4 times in each of 4 layers, half a micro-batch per rank counted as one;
    over two servers a token goes to 2 (1 - (1/2)^2) = 1.5 of 2 on average."""
    shape = replace(TOY, mlp_layers=0, moe_layers=4, experts=16, top_k=2, moe_ffn=64, ffn_dense=0)
    found = quantities(toy_job(shape=shape, software_year=year), cluster(), TrainingLayout.of(dp=16, ep=ep))
    assert found.bytes_ep[0] == pytest.approx(2_048 * 4 * 4 * share)
    # tokens of one expert: 16 x ep x 2 / 16
    assert found.expert_rows[0] == pytest.approx(16 * ep * 2 / 16)
    assert found.expert_flop[0] == pytest.approx(2 * 2 * (2 * 32 * 64) * 4 * 16)


def test_data_parallel_traffic() -> None:
    """55,840 parameters. An all-reduce counts its 2 bytes twice; ZeRO-3 gathers twice and reduces once a micro-batch."""
    assert counted(dp=4).bytes_dp[0] == 4 * 55_840
    assert counted(dp=4, sharding=SHARDING.index("zero3")).bytes_dp[0] == 2 * 6 * 55_840  # two micro-batches
    large = quantities(model_job("meta-llama/Llama-3.1-8B"), cluster(), TrainingLayout.of(dp=8))
    once = quantities(model_job("meta-llama/Llama-3.1-8B"), cluster(), TrainingLayout.of(dp=8, micro_batch=2))
    assert large.dp_s[0] == once.dp_s[0] > 8.03e9 * 2 / BUCKET_BYTES * 100e-6


def by_hand(**values: float) -> Quantities:
    return Quantities(**{name: np.array(values.get(name, 0.0)) for name in QUANTITY_NAMES})


EXAMPLE = {
    "peak16": 1e14, "peak_linear": 1e14, "bandwidth": 1e12 / 0.85, "watts_per_tflop": math.nan, "year": 2026, "software_age": 9,
    "micro_batches": 8, "rows": 100, "expert_rows": 100, "hidden": 100, "attention_width": 100, "mlp_width": 100, "expert_width": 100,
    "attention_linear_flop": 2e12, "mlp_flop": 3e12, "head_flop": 1e12, "scores_flop": 1e12, "scores_passes": 3.5, "passes": 3,
    "head_passes": 3, "hidden_bytes": 1e9, "wide_bytes": 1e9, "again_bytes": 1e9, "logit_bytes": 1e9, "layers": 2, "span": 100,
    "head_dim": 100, "stages": 4, "interleaved": 2, "tp_s": 0.8, "pp_s": 1, "dp_s": 4, "gathered_share": 0.5, "optimizer_bytes": 1e10,
    "servers": 4,
}  # fmt: skip
PLAIN = {
    "immaturity": 0.0, "maturity_years": 2.0, "watts_per_tflop": 1.0, "power_exponent": 1.0, "gemm_share": 0.5, "gemm_share_8bit": 0.5,
    "half_side": 0.0, "half_power": 1.0, "half_narrow": 1.0, "attention_age": 0.3, "attention_share": 0.5, "half_span": 0.0,
    "half_head": 0.0, "stream_fusion": 0.0, "streams": 10.0, "wide_streams": 2.0, "expert_streams": 1.0, "adapter_streams": 1.0,
    "cast_streams": 1.0, "score_passes": 1.0, "dequantise_bytes": 1.0, "host_layer_us": 1e5, "host_moe_us": 1.0, "host_tuned": 1.0,
    "head_share": 0.5, "tp_exposed": 0.5, "cp_exposed": 0.5, "ep_exposed": 0.5, "pp_exposed": 0.5, "dp_cover": 1.0,
    "dp_exposed_floor": 0.3, "dp_gather_exposed": 0.5, "jitter": 0.01, "offload_gb_per_s": 10.0, "step_overhead_ms": 5.0, "wait_ms": 1.0,
}  # fmt: skip


def test_parts_of_a_step() -> None:
    """Arithmetic at 5e13 FLOP/s, memory at 1e12 bytes/s; four stages, two virtual, eight micro-batches, four servers.

    Linear 5e12 x 3 / 5e13 = 0.3 s, scores 1e12 x 3.5 / 5e13 = 0.07; head 1e12 x 3 / 5e13 = 0.06, half of it for the stage.
    Memory (10 + 2 + 1) GB / 1e12 = 0.013, head 6 GB: 0.006. Host 2 layers x 0.1 s x 3 = 0.6, less the 0.383 s at work: 0.217.
    Bubble (0.383 + 0.217 + 0.8 x 0.5 / 8) x 3 / 2 = 0.975. Gradients 2 s less 2/3 of 0.383, and half of 2 s of gathering.
    """
    parts = assemble(by_hand(**EXAMPLE), PLAIN)
    assert float(parts.compute) == pytest.approx((0.37 + 0.03) * 8 * 1.02)
    assert float(parts.memory) == pytest.approx((0.013 + 0.003) * 8)
    assert float(parts.host) == pytest.approx(0.217 * 8 + 0.005 + 0.002)
    assert float(parts.bubble) == pytest.approx(0.975)
    assert float(parts.optimizer) == pytest.approx(0.01)
    assert float(parts.tp) == pytest.approx(0.4)
    assert float(parts.pp) == pytest.approx(0.5)
    assert float(parts.dp) == pytest.approx(2 - 0.383 * 2 / 3 + 1)
    assert float(parts.total) == pytest.approx(sum(float(getattr(parts, name)) for name in ("compute", "memory", "host", "bubble", "optimizer", "tp", "pp", "dp")))  # fmt: skip


def test_hidden_gradients_still_cost_their_floor() -> None:
    """0.2 s reduced under 0.255 s of arithmetic: 30% stays exposed."""
    parts = assemble(by_hand(**{**EXAMPLE, "dp_s": 0.2, "gathered_share": 0.0}), PLAIN)
    assert float(parts.dp) == pytest.approx(0.06)


def test_products_shorter_than_the_half_side_run_slower() -> None:
    """half_side 100 at the A100's ridge: rows and hidden of 100 run at half speed each, and the other side adds 100/100."""
    even = {**EXAMPLE, "bandwidth": 1e14 / 153.0}
    whole, short = (assemble(by_hand(**even), {**PLAIN, "half_side": side}) for side in (0.0, 100.0))
    linear, scores, head = 0.3 * 8 * 1.02, 0.07 * 8 * 1.02, 0.03 * 8 * 1.02
    assert float(whole.compute) == pytest.approx(linear + scores + head)
    assert float(short.compute) == pytest.approx(8 * linear + scores + 4 * head)


def test_optimizer_on_the_host_moves_at_the_host_link() -> None:
    parts = assemble(by_hand(**{**EXAMPLE, "optimizer_bytes": 0.0, "offload_bytes": 1e10}), PLAIN)
    assert float(parts.optimizer) == pytest.approx(1.0)


def test_weights_in_host_memory_are_waited_for() -> None:
    """8 GB a micro-batch at 10 GB/s take 0.8 s, 0.417 of them beside 0.383 s of arithmetic; 2 GB hide behind launches (0.217)."""
    many, few = (assemble(by_hand(**{**EXAMPLE, "streamed_bytes": size}), PLAIN) for size in (8e9, 2e9))
    assert float(many.host) == pytest.approx(0.417 * 8 + 0.005 + 0.002)
    assert float(few.host) == pytest.approx(0.217 * 8 + 0.005 + 0.002)


def test_adapters_take_three_passes_at_the_rate_of_wide_products() -> None:
    """5e11 x 3 / 5e13 = 0.03 s beside the 0.4 s of the example."""
    parts = assemble(by_hand(**{**EXAMPLE, "adapter_flop": 5e11}), PLAIN)
    assert float(parts.compute) == pytest.approx((0.37 + 0.03 + 0.03) * 8 * 1.02)


def test_state_and_checkpoint_of_a_job() -> None:
    """Weights and gradients 2 each, moments 8, master copy 4: 16 bytes; a checkpoint leaves out gradients. Adapters: their own."""
    job = model_job("meta-llama/Llama-3.1-8B")
    assert state_bytes(job) == pytest.approx(16 * job.trained_parameters)
    assert saved_bytes(job) == pytest.approx(14 * job.trained_parameters)
    adapters = replace(job, task="qlora", lora_rank=16, base_bits=4.5)
    assert state_bytes(adapters) == pytest.approx(8.03e9 * 4.5 / 8, rel=0.001)
    assert saved_bytes(adapters) == pytest.approx(14 * adapters.trained_parameters)


def test_usable_memory() -> None:
    """80 GiB, of which the driver leaves 97%: 83.3 GB."""
    assert usable_bytes(cluster()) == pytest.approx(80 * 2**30 * 0.97)


layouts = st.fixed_dictionaries({
    "tp": st.sampled_from([1, 2, 4, 8]),
    "pp": st.sampled_from([1, 2]),
    "dp": st.sampled_from([1, 2, 4]),
    "cp": st.sampled_from([1, 2]),
    "ep": st.sampled_from([1, 2]),
    "micro_batch": st.sampled_from([1, 2, 4]),
    "sharding": st.sampled_from([0, 1, 2, 3]),
    "shard_ranks": st.sampled_from([0, 2]),
})  # fmt: skip


@given(layouts, st.floats(1.0, 8.0))
@settings(max_examples=50, deadline=None)
def test_faster_links_inside_a_server_are_never_slower(layout: dict[str, float], factor: float) -> None:
    job = model_job("Qwen/Qwen3-30B-A3B", global_batch_sequences=64)
    usual = cluster()
    faster = replace(usual, scale_up=replace(usual.scale_up, bandwidth_bytes_per_s=factor * usual.scale_up.bandwidth_bytes_per_s))
    slow, fast = (float(step_time(job, platform, TrainingLayout.of(**layout)).step_s[0]) for platform in (usual, faster))
    assert fast <= slow * (1 + 1e-9)


@given(st.sampled_from([25.0, 50.0, 100.0, 200.0]), st.sampled_from([16, 24, 32]))
@settings(max_examples=10, deadline=None)
def test_the_best_layout_over_a_faster_network_is_never_slower(gbit: float, gpus: int) -> None:
    job = model_job("meta-llama/Llama-3.1-8B", global_batch_sequences=64)
    slow, fast = (best_by_count(job, cluster(gbit=rate), (gpus,))[gpus] for rate in (gbit, 2 * gbit))
    assert slow is not None
    assert fast is not None
    assert fast.step_s <= slow.step_s * (1 + 1e-9)


def test_a_search_from_nothing_repeats() -> None:
    job = model_job("Qwen/Qwen3-30B-A3B")
    answers = []
    for _ in range(2):
        forget()
        found = best_by_count(job, cluster(), (32,))[32]
        assert found is not None
        answers.append((found.step_s, found.total_bytes, found.index))
    assert answers[0] == answers[1]
