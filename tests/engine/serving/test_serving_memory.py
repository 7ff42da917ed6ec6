"""Memory of a replica against published start-up logs and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.serving.engine_log import engine_log
from app.engine.serving.job import ServingLayout
from app.engine.serving.memory import (
    activation_bytes,
    cache_bytes_per_request,
    draft_weight_bytes,
    encoder_bytes,
    graph_bytes,
    kv_bytes_per_token_per_gpu,
    kv_pool_bytes,
    position_table_bytes,
    runtime_bytes,
    sequence_limit,
    weight_bytes_per_gpu,
)
from app.engine.serving.memory_rules import memory_rules, version_number, visible_bytes
from app.engine.serving.static_share import static_share
from app.units import GIB
from tests.engine.serving.conftest import box, job, model, split


@pytest.mark.parametrize(
    ("gpu", "gib"), [("h100-sxm-80gb", 79.19), ("l40s", 44.42), ("a100-sxm-40gb", 39.38), ("rtx-3090", 23.58)], ids=lambda v: str(v)
)
def test_visible_memory_is_what_cuda_shows(gpu: str, gib: float) -> None:
    assert visible_bytes(box(gpu).gpu) / GIB == pytest.approx(gib, rel=0.01)


def test_pool_of_llama_8b_on_h100_matches_the_log() -> None:
    # vLLM 0.19, utilisation 0.95: 79.2 x 0.95 - 14.96 weights - 1.93 activations - 0.25 = 58.1 GiB, 476,016 tokens.
    log = engine_log(job(engine_version="0.19.0"), box(gpus=1), split(), longest=8192, fraction=0.95, sequences=1024)
    assert log.weights / GIB == pytest.approx(14.99, rel=0.01)
    assert log.activations / GIB == pytest.approx(1.89, rel=0.05)
    assert log.pool / GIB == pytest.approx(58.11, rel=0.01)
    assert log.tokens == pytest.approx(476_016, rel=0.01)
    assert log.tokens % 16 == 0
    assert log.concurrency == pytest.approx(58.11, rel=0.01)
    assert log.fits


def test_an_fp8_cache_doubles_the_tokens_and_not_the_pool() -> None:
    wide, narrow = (engine_log(job(kv_cache=kind, engine_version="0.19.0"), box(gpus=1), split(), longest=8192) for kind in ("bf16", "fp8"))
    assert narrow.pool == pytest.approx(wide.pool)
    assert narrow.tokens == pytest.approx(2 * wide.tokens, rel=1e-3)


def test_equal_groups_of_layers_in_older_releases() -> None:
    # gemma-2-9b, 21 window and 21 full layers: two groups of 21; log: 168,880 tokens, 20.60 requests of 8,192.
    log = engine_log(
        job("google/gemma-2-9b-it", engine_version="0.19.0"), box(gpus=1), split(), longest=8192, fraction=0.95, sequences=1024
    )
    assert log.tokens == pytest.approx(168_880, rel=0.02)
    assert log.concurrency == pytest.approx(20.6, rel=0.02)


def test_windows_count_as_large_as_they_are_in_newer_releases() -> None:
    old, new = (
        engine_log(job("openai/gpt-oss-20b", weights="fp4", engine_version=version), box(gpus=1), split(), longest=131_072)
        for version in ("0.19.0", "0.21.0")
    )
    # Half of the layers keep 128 + 8,192 tokens at most, so the printed tokens nearly double.
    assert new.tokens > 1.7 * old.tokens
    assert new.tokens == pytest.approx(new.concurrency * 131_072)


def test_mla_latent_is_whole_on_every_rank_and_gqa_heads_divide() -> None:
    deepseek, llama = job("deepseek-ai/DeepSeek-R1", weights="fp8"), job()
    # (512 + 64) x 61 layers x 2 bytes = 70,272 on every rank; 2 x 8 heads x 128 x 32 layers x 2 bytes = 131,072 over 4 ranks.
    assert kv_bytes_per_token_per_gpu(deepseek, split(8)) == pytest.approx(70_272)
    assert kv_bytes_per_token_per_gpu(llama, split(4)) == pytest.approx(131_072 / 4)
    assert kv_bytes_per_token_per_gpu(llama, split(16)) == pytest.approx(131_072 / 8)


def test_stages_hold_whole_layers_and_one_end() -> None:
    # Log of vLLM 0.19, first of four stages: 4.26 GiB = 8 layers and the embedding.
    assert weight_bytes_per_gpu(job(), split(1, 4)) / GIB == pytest.approx(4.26, rel=0.02)
    assert weight_bytes_per_gpu(job(), split(1, 2)) / GIB == pytest.approx(7.51, rel=0.01)


def test_activations_fell_between_releases_and_grow_with_the_vocabulary() -> None:
    qwen = "Qwen/Qwen3-14B"
    before, after = (activation_bytes(job(qwen, engine_version=version), split(), box(gpus=1)) / GIB for version in ("0.16.0", "0.17.0"))
    assert before == pytest.approx(5.64, rel=0.03)
    assert after == pytest.approx(2.23, rel=0.03)
    assert activation_bytes(job("google/gemma-2-9b-it"), split(), box(gpus=1)) > after * GIB


def test_tables_of_rotary_positions_are_whole_on_every_rank() -> None:
    # 131,072 positions x 128 x 2 bytes = 32 MiB: logs print 14.99 GiB for 14.96 GiB of parameters. 10,485,760 x 128 x 2
    # bytes = 2.5 GiB: Llama 4 Scout takes 53.12 GiB on each of four GPUs, a quarter of its parameters is 50.8.
    assert position_table_bytes(job()) == 2**25
    assert position_table_bytes(job("meta-llama/Llama-4-Scout-17B-16E-Instruct")) == 2.5 * GIB
    scout = engine_log(
        job("meta-llama/Llama-4-Scout-17B-16E-Instruct", engine_version="0.19.0"),
        box(gpus=4), split(4), longest=8192, fraction=0.95, batch_tokens=8192, sequences=1024,
    )  # fmt: skip
    assert scout.weights / GIB == pytest.approx(53.12, rel=0.01)
    assert scout.pool / GIB == pytest.approx(16.75, rel=0.02)
    assert scout.concurrency == pytest.approx(44.68, rel=0.01)


def test_the_profile_runs_a_vision_tower_over_the_largest_picture() -> None:
    # 16,384 tokens of 4 patches: output 16,384 x 2,048 x 2 = 64 MiB, pixels 65,536 x 1,536 x 2 = 192 MiB; one tower layer
    # 65,536 x 2 x (2 x 4,304 + 3 x 1,152) = 1.47 GiB on one rank, half on two.
    qwen = job("Qwen/Qwen3.6-35B-A3B").shape
    kept, peak = encoder_bytes(qwen, 8192, np.array([1.0, 2.0]))
    assert kept == 256 * 2**20
    assert (peak - kept) / GIB == pytest.approx([1.473, 0.737], abs=0.001)
    assert encoder_bytes(job().shape, 8192, np.array(1.0)) == (0.0, 0.0)
    # Tiles of one size: only what is kept, 8,192 x (2 x 3,840 + 8 x 1,536) bytes = 0.15 GiB; a log prints 3.94 GiB.
    gemma = job("google/gemma-3-12b-it", engine_version="0.19.0")
    assert encoder_bytes(gemma.shape, 8192, np.array(1.0))[1] / GIB == pytest.approx(0.152, abs=0.001)
    assert activation_bytes(gemma, split(), box(gpus=1), sequences=1024) / GIB == pytest.approx(3.94, rel=0.01)


def test_graphs_follow_the_batch_sizes_captured() -> None:
    # Twice the sequences to 512: 3 + 31 + 1 + 16 = 51 sizes; 64 sequences capture to 128: 3 + 16 = 19; one captures 2.
    full, some, one = (graph_bytes(job(), sequences) for sequences in (1024.0, 64.0, 1.0))
    assert full == graph_bytes(job()) == pytest.approx(0.9 * GIB)
    assert (some / full, one / full) == (pytest.approx(19 / 51), pytest.approx(2 / 51))


def test_other_memory_with_tensor_parallel_depends_on_the_link() -> None:
    hopper, ampere, plain = (runtime_bytes(job(), split(2), box(gpu)) / GIB for gpu in ("h100-sxm-80gb", "a100-sxm-80gb", "l40s"))
    assert (hopper, ampere, plain) == (pytest.approx(2.1), pytest.approx(0.7), pytest.approx(0.7))


def test_sglang_shares_what_is_free_before_the_weights() -> None:
    # Log of Qwen3-235B FP8 on four H100, static share 0.93: 0.93 x (79.2 - 2.4) - 55.1 = 16.3 GiB; 16.46 and 367,404 tokens.
    log = engine_log(
        job("Qwen/Qwen3-235B-A22B-Instruct-2507", weights="fp8", engine="sglang"), box(gpus=4), split(4), longest=40_960, fraction=0.93
    )
    assert log.pool / GIB == pytest.approx(16.46, rel=0.02)
    assert log.tokens == pytest.approx(367_404, rel=0.02)


def test_a_draft_layer_is_one_more_layer_in_16_bits() -> None:
    # Llama-3.1-8B: attention 2 x 4,096^2 + 2 x 4,096 x 1,024 = 41.9e6, MLP 3 x 4,096 x 14,336 = 176.2e6, projection
    # 2 x 4,096^2 = 33.6e6: 251.7e6 x 2 bytes.
    assert draft_weight_bytes(job(), split()) == pytest.approx(503.3e6, rel=1e-3)
    assert draft_weight_bytes(job(), split(2)) == pytest.approx(251.7e6, rel=1e-3)


def test_sorting_samplers_leave_no_room_where_other_releases_run() -> None:
    # gpt-oss-120b on one H100 (issue 33155: runs in 0.11, runs out of memory in 0.14). 1,024 sequences x 201,088 entries x
    # 37.9 bytes = 7.3 GiB against 14.5 bytes = 2.8 GiB; 79.2 x 0.9 - 64 GiB of weights leaves 7.3.
    fits = [
        engine_log(job("openai/gpt-oss-120b", weights="fp4", engine_version=version), box(gpus=1), split(), longest=8192).fits
        for version in ("0.11.0", "0.14.1", "0.19.0")
    ]
    assert fits == [True, False, True]


def test_the_a100_starts_with_the_small_batches_since_pull_17885() -> None:
    a100 = box("a100-sxm-80gb", gpus=1)
    assert [sequence_limit(a100, memory_rules("vllm", version)) for version in ("0.8.5", "0.9.0", "0.19.0")] == [1024, 256, 256]
    assert sequence_limit(box(gpus=1), memory_rules("vllm", "0.9.0")) == 1024


def test_data_parallel_pools_do_not_add_up_for_one_request() -> None:
    # Eight groups of one GPU each: 262,144 tokens x 62 layers x 2 x 8 heads x 128 x 2 bytes = 62 GiB, as the engine refused.
    coder = job("Qwen/Qwen3-Coder-480B-A35B-Instruct", weights="fp8", engine_version="0.10.1")
    groups = ServingLayout(tp=np.array(8.0), pp=np.array(1.0), attention_dp=np.array(8.0))
    log = engine_log(coder, box("h200-sxm-141gb"), groups, longest=262_144)
    assert float(kv_bytes_per_token_per_gpu(coder, groups)) * 262_144 / GIB == pytest.approx(62.0)
    assert 0 < log.pool / GIB < 62
    assert log.concurrency > 1
    assert not log.fits


def test_a_model_too_large_has_a_negative_pool_and_does_not_fit() -> None:
    log = engine_log(job("meta-llama/Llama-3.3-70B-Instruct"), box(gpus=1), split(), longest=4096)
    assert log.pool < 0
    assert not log.fits
    assert (log.tokens, log.concurrency) == (0.0, 0.0)


def test_releases_as_numbers() -> None:
    assert [version_number(text) for text in ("0.19.1", "0.8.5", "v1.2.0rc2", "nightly", "")] == [0.19, 0.08, 1.02, None, None]
    assert memory_rules("vllm").before > 1e6
    assert memory_rules("unheard-of") == memory_rules("vllm")


@settings(deadline=None, max_examples=50)
@given(tokens=st.integers(1, 200_000), more=st.integers(0, 200_000), prefix=st.integers(0, 50_000))
def test_longer_requests_never_need_less_cache(tokens: int, more: int, prefix: int) -> None:
    served = job("google/gemma-2-9b-it", shared_prefix_tokens=float(prefix))
    assert cache_bytes_per_request(served, tokens + more, split()) >= cache_bytes_per_request(served, tokens, split())


@settings(deadline=None, max_examples=50)
@given(tp=st.sampled_from([1, 2, 4]), pp=st.sampled_from([1, 2, 4]))
def test_more_gpus_never_leave_a_smaller_pool_for_the_weights(tp: int, pp: int) -> None:
    llama = job("meta-llama/Llama-3.3-70B-Instruct", weights="fp8")
    assert weight_bytes_per_gpu(llama, split(2 * tp, pp)) < weight_bytes_per_gpu(llama, split(tp, pp))
    assert weight_bytes_per_gpu(llama, split(tp, 2 * pp)) < weight_bytes_per_gpu(llama, split(tp, pp))
    assert kv_pool_bytes(llama, box(), split(2 * tp, 2 * pp)) > kv_pool_bytes(llama, box(), split(tp, pp)) or tp * pp == 1


def test_sglang_reserves_for_chunks_graphs_and_ranks_unless_told() -> None:
    shape, one, four = job().shape, split(), split(4)
    # One H100 of 79.2 GiB: 512 + 1.5 x 8,192 + 2 x 256 + 128 = 13,440 of 81,101 MiB; four: 2 x 512 + 512 = 14,336.
    share = static_share(shape, 79.2 * GIB, one, by_ranks=False)
    assert float(share) == pytest.approx(1 - 13_440 / (79.2 * 1024))
    assert float(static_share(shape, 79.2 * GIB, four, by_ranks=False)) == pytest.approx(1 - 14_336 / (79.2 * 1024))
    # 24 GB card: 512 + 1.5 x 2,048 + 2 x 24 + 128 = 3,760 MiB. Vision towers take 9% more.
    assert float(static_share(shape, 23.6 * GIB, one, by_ranks=False)) == pytest.approx(1 - 3_760 / (23.6 * 1024))
    vision = model("google/gemma-3-27b-it")
    assert float(static_share(vision, 79.2 * GIB, one, by_ranks=False)) == pytest.approx(0.9101 * float(share))
    ranks = ServingLayout(tp=np.array([1.0, 2.0, 4.0, 8.0, 16.0]), pp=np.array(1.0))
    assert static_share(shape, 79.2 * GIB, ranks, by_ranks=True).tolist() == [0.88, 0.87, 0.85, 0.81, 0.79]
    assert memory_rules("sglang", "0.4.6").share_by_ranks
    assert not memory_rules("sglang").share_by_ranks
