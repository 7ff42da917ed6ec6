"""Bytes and FLOP of a pass by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.serving.job import ServingJob
from app.engine.serving.work import attention_flop_per_token, decode_work, prefill_work, touched_experts
from tests.engine.serving.conftest import TOY, box, job, model, split

TOY_JOB = ServingJob(shape=TOY, weights="bf16")
# One layer of the toy: Q 32x32, K and V 32x16 each, output 32x32 = 3,072; MLP 3 x 32 x 128 = 12,288.
ATTENTION, MLP = 4 * 3_072, 4 * 12_288
NORMS = (2 * 4 + 1) * 32


def test_decode_reads_every_matrix_once_and_the_cache_of_each_sequence() -> None:
    work = decode_work(TOY_JOB, box(), split(), 3, 10)
    assert work.dense_bytes == pytest.approx((ATTENTION + MLP + NORMS) * 2)
    assert work.head_bytes == pytest.approx(100 * 32 * 2)
    # K and V, 2 heads of 8, 4 layers, 2 bytes = 256 bytes a token; 3 sequences of 10 tokens.
    assert work.cache_bytes == pytest.approx(3 * 10 * 256)
    assert work.dense_flop == pytest.approx(2 * 3 * (ATTENTION + MLP + NORMS))


def test_attention_flop_is_four_times_width_times_context() -> None:
    # 2 x 4 heads x (8 + 8) x 10 tokens x 4 layers
    assert attention_flop_per_token(TOY_JOB, np.array(10.0), absorbed=False) == pytest.approx(2 * 4 * 16 * 10 * 4)


def test_windows_cap_attention() -> None:
    windowed = ServingJob(shape=replace(TOY, full_attention_layers=1, sliding_layers=3, sliding_window=5), weights="bf16")
    # One full layer over 10 tokens, three windows over 5: (10 + 15) x 2 x 4 x 16
    assert attention_flop_per_token(windowed, np.array(10.0), absorbed=False) == pytest.approx(25 * 2 * 4 * 16)


def test_absorbed_mla_works_on_the_latent() -> None:
    deepseek = job("deepseek-ai/DeepSeek-R1")
    # 2 x 128 heads x (2 x 512 + 64) x 61 layers per token of context
    assert attention_flop_per_token(deepseek, np.array(1.0), absorbed=True) == pytest.approx(2 * 128 * 1088 * 61)


def test_tensor_parallel_halves_the_weights_but_copies_kv_heads_beyond_their_number() -> None:
    one, four = decode_work(TOY_JOB, box(), split(1), 1, 10), decode_work(TOY_JOB, box(), split(4), 1, 10)
    assert four.dense_bytes == pytest.approx(one.dense_bytes / 4)
    assert four.cache_bytes == pytest.approx(one.cache_bytes / 2)  # two KV heads: four ranks hold each twice


def test_attention_groups_hold_whole_attention_and_share_the_sequences() -> None:
    deepseek = job("deepseek-ai/DeepSeek-R1", weights="fp8")
    plain, grouped = (decode_work(deepseek, box("h200-sxm-141gb"), split(8, 1, groups), 64, 1000) for groups in (1, 8))
    assert grouped.dense_bytes > plain.dense_bytes
    assert grouped.cache_bytes == pytest.approx(plain.cache_bytes / 8)
    assert grouped.expert_bytes == pytest.approx(plain.expert_bytes)


def test_one_token_touches_its_experts_and_many_touch_all() -> None:
    mixtral = job("mistralai/Mixtral-8x7B-Instruct-v0.1")
    assert touched_experts(mixtral, 1) == pytest.approx(2 / 8)
    assert touched_experts(mixtral, 2) == pytest.approx(1 - 0.75**2)
    assert touched_experts(mixtral, 1000) == pytest.approx(1.0)


def test_four_bit_experts_leave_attention_wide() -> None:
    oss = ServingJob(shape=model("openai/gpt-oss-120b"), weights="fp4")
    assert (oss.dense_bits, oss.bits, oss.end_bits) == (16.0, 4.5, 16.0)
    llama = job("meta-llama/Llama-3.3-70B-Instruct", weights="fp4")
    assert llama.dense_bits == 4.5


@settings(deadline=None, max_examples=50)
@given(batch=st.integers(1, 512), more=st.integers(1, 512), context=st.integers(1, 100_000))
def test_more_sequences_never_mean_less_work(batch: int, more: int, context: int) -> None:
    mixtral = job("mistralai/Mixtral-8x7B-Instruct-v0.1")
    small, large = (decode_work(mixtral, box(), split(2), count, context) for count in (batch, batch + more))
    for name in ("dense_bytes", "expert_bytes", "dense_flop", "expert_flop", "cache_bytes", "exchange_s", "attention_flop"):
        assert getattr(large, name) >= getattr(small, name) * (1 - 1e-12), name


@settings(deadline=None, max_examples=50)
@given(tokens=st.integers(1, 8192))
def test_prefill_flop_is_two_per_parameter_and_token(tokens: int) -> None:
    work = prefill_work(TOY_JOB, box(), split(), tokens, tokens / 2)
    assert work.dense_flop == pytest.approx(2 * tokens * (ATTENTION + MLP + NORMS))


def test_split_layers_exchange_and_single_gpus_do_not() -> None:
    assert decode_work(TOY_JOB, box(), split(1), 1, 10).exchange_s == 0
    assert decode_work(TOY_JOB, box(), split(2), 1, 10).exchange_s > 0
    assert decode_work(TOY_JOB, box(), split(1, 2), 1, 10).hop_s > 0


def test_a_slow_link_costs_more_than_a_fast_one() -> None:
    llama = job("meta-llama/Llama-3.3-70B-Instruct")
    fast, slow = box("h100-sxm-80gb"), box("l40s")
    pcie = decode_work(llama, slow, split(4), 64, 1000)
    assert pcie.exchange_s > 2 * decode_work(llama, fast, split(4), 64, 1000).exchange_s
    assert decode_work(llama, slow, split(2), 64, 1000).exchange_s > 0
