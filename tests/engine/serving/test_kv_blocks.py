"""Blocks, tokens and concurrency of a pool, by hand and against published start-up logs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.serving.engine_log import engine_log
from app.engine.serving.job import ServingJob
from app.engine.serving.kv_blocks import Server, block_plan, layer_token_bytes, pool_tokens
from app.units import GIB
from tests.engine.serving.conftest import box, job, split


def test_states_take_pages_of_the_attention_block() -> None:
    # Qwen3.6-35B-A3B, fp8: 2 x 2 heads x 256 = 1,024 bytes per token and layer; a state of 2,146,304 bytes fills
    # ceil(2,146,304 / 16,384) = 131 times 16 = 2,096 tokens. 10 full and 30 linear layers: 1 + 3 groups of 10.
    # 131,072 tokens: ceil(131,072 / 2,096) = 63 blocks and 3 x 2 states = 69.
    served = job("Qwen/Qwen3.6-35B-A3B", kv_cache="fp8", engine_version="0.24.0")
    plan = block_plan(served, split(), Server(longest=131_072, batch_tokens=8192, prefix_caching=True))
    assert (plan.tokens, plan.groups, plan.needed) == (2096, 4, 69)
    assert plan.block_bytes == 10 * 2096 * 1024
    # A log of release 0.24 prints 5.98 GiB, 567,978 tokens and 4.33 requests: 299 / 69 x 131,072.
    tokens, requests = pool_tokens(
        served, split(), 299.2 * plan.block_bytes, Server(longest=131_072, batch_tokens=8192, prefix_caching=True)
    )
    assert (tokens, round(requests, 2)) == (567_978, 4.33)


def test_each_draft_token_keeps_one_more_state() -> None:
    # Qwen3.6-27B on two GPUs, fp8, three draft tokens, 262,144 tokens: a state of 1,603,584 bytes takes 1,568 tokens of
    # 1,024 bytes; ceil(262,144 / 1,568) = 168 blocks and 3 groups x (2 + 3) states = 183.
    served = job("Qwen/Qwen3.6-27B", kv_cache="fp8", engine_version="0.24.0")
    server = Server(longest=262_144, batch_tokens=8192, prefix_caching=True, draft_tokens=3)
    assert block_plan(served, split(2), server).needed == 183
    without = Server(longest=262_144, batch_tokens=8192)
    assert block_plan(served, split(2), without).needed == 168 + 3


def test_pages_of_layers_with_other_heads_are_made_equal() -> None:
    # gemma-4-31B: window layers 2 x 16 heads x 256 x 2 bytes = 16,384 per token, full layers 2 x 4 x 512 x 2 = 8,192, so
    # full layers put 32 tokens in a page. 10 full, 50 window layers: 6 groups of 10; 16 x 16,384 x 10 bytes per block.
    served = job("google/gemma-4-31B-it", engine_version="0.20.0")
    assert [layer_token_bytes(served, split(), sliding=sliding) for sliding in (True, False)] == [16_384, 8_192]
    server = Server(longest=262_144, batch_tokens=8192)
    plan = block_plan(served, split(), server)
    # 262,144 / 32 + 5 x (ceil(9,215 / 16) + 1) = 8,192 + 5 x 577 = 11,077 blocks.
    assert (plan.tokens, plan.groups, plan.needed, plan.block_bytes) == (16, 6, 11_077, 2_621_440)
    # A log prints 26,800 tokens of 24.54 GiB: 10,051 blocks // 6 x 16 = 26,800.
    tokens, _ = pool_tokens(served, split(), 24.54 * GIB, server)
    assert tokens == 26_800
    # From 0.21 tokens are concurrency x longest: ten times as many of the same pool.
    newer = job("google/gemma-4-31B-it", engine_version="0.21.0")
    assert pool_tokens(newer, split(), 24.54 * GIB, server)[0] == pytest.approx(10_051 / 11_077 * 262_144, abs=1)


def test_nearly_equal_kinds_are_padded_to_one_group_each() -> None:
    # gpt-oss-20b, 12 full and 12 window layers, with a draft layer 13 and 12: two groups of 13, not three of 12.
    served = job("openai/gpt-oss-20b", engine_version="0.24.0")
    plan = block_plan(served, split(), Server(longest=8192, batch_tokens=8192, draft_tokens=1))
    assert plan.groups == 2
    assert plan.block_bytes == 13 * 16 * 2 * 8 * 64 * 2


def test_before_groups_every_layer_counts_as_full_attention() -> None:
    # gemma-2-9b: 42 layers x 2 x 8 heads x 256 x 2 bytes = 344,064 per token, windows or not.
    served = job("google/gemma-2-9b-it", engine_version="0.8.5")
    tokens, requests = pool_tokens(served, split(), 344_064 * 16_384.0, Server(longest=8192, batch_tokens=8192))
    assert (tokens, requests) == (16_384, 2.0)


def test_sglang_splits_its_pool_in_a_fixed_proportion() -> None:
    # gemma-2-9b: 21 x 8,192 bytes full + 0.8 x 21 x 8,192 window per token.
    served = job("google/gemma-2-9b-it", engine="sglang")
    tokens, _ = pool_tokens(served, split(), 1.8 * 21 * 8192 * 1000.0, Server(longest=8192, batch_tokens=8192))
    assert tokens == pytest.approx(1000)
    # Linear-attention hybrids: states get 0.9 bytes for each byte of the KV pool.
    hybrid = job("Qwen/Qwen3.6-27B", engine="sglang")
    dense = job("Qwen/Qwen3-32B", engine="sglang")
    logs = [engine_log(each, box(gpus=1), split(), longest=8192, fraction=0.88) for each in (hybrid, dense)]
    static = 0.88 * (79.2 - 0.6)
    assert [log.pool / GIB + log.weights / GIB for log in logs][1] == pytest.approx(static, rel=0.001)
    assert 1.9 * logs[0].pool / GIB + logs[0].weights / GIB == pytest.approx(static, rel=0.001)


MODELS = ("google/gemma-4-31B-it", "google/gemma-3-12b-it", "openai/gpt-oss-20b", "Qwen/Qwen3.6-27B", "meta-llama/Llama-3.1-8B-Instruct")


@settings(deadline=None, max_examples=60)
@given(
    model=st.sampled_from(MODELS),
    version=st.sampled_from(["0.7.3", "0.8.5", "0.15.0", "0.24.0"]),
    pool=st.floats(1.0, 120.0),
    longest=st.integers(1024, 131_072),
    tp=st.sampled_from([1, 2, 8]),
)
def test_a_pool_never_holds_more_than_its_bytes_and_grows_with_them(model: str, version: str, pool: float, longest: int, tp: int) -> None:
    served: ServingJob = job(model, engine_version=version)
    server = Server(longest=float(longest), batch_tokens=2048)
    _, requests = pool_tokens(served, split(tp), pool * GIB, server)
    _, more = pool_tokens(served, split(tp), 2 * pool * GIB, server)
    full = served.shape.full_attention_layers * layer_token_bytes(served, split(tp), sliding=False)
    assert requests * full * longest <= pool * GIB * (1 + 1e-9)
    assert more >= 2 * requests * (1 - 1e-9)
    assert np.isfinite(requests)
