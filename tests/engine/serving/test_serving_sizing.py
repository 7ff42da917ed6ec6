"""Sizes that meet a limit: properties over demands, and what refuses them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.platform import Platform
from app.engine.result import Shortfall, Sized
from app.engine.serving.cpu import cpu_serving
from app.engine.serving.replica import Replica, evaluate
from app.engine.serving.sizing import size_batch, size_serving
from app.ranges import Range
from app.workload.demand import BatchDemand, PrecisionDemand, ServingDemand
from tests.engine.serving.conftest import AUTO, box, demand, job, model

LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"


def sized(wanted: ServingDemand, name: str = LLAMA_8B, platform: Platform | None = None, span: Any = "one_gpu", **more: Any) -> Sized:
    found = size_serving(wanted, model(name), platform or box(), span, AUTO, more.pop("max_gpus", 64), **more)
    assert isinstance(found, Sized), found
    return found


def test_a_small_load_takes_one_gpu_and_every_part_is_filled() -> None:
    found = sized(demand())
    assert (found.gpus, found.replicas) == (1, 1)
    assert {"weights", "kv_cache", "activations", "cuda_graphs", "runtime"} <= set(found.memory_gb)
    assert sum(part.mid for part in found.memory_gb.values()) <= found.capacity_gb
    assert found.serving is not None
    assert found.serving.ttft_ms is not None
    assert found.serving.ttft_ms.mid <= 2000
    assert found.serving.tpot_ms is not None
    assert found.serving.tpot_ms.mid <= 100
    assert found.serving.max_concurrent >= 16
    assert found.precision["weights"] == "bf16"
    assert (found.engine, found.engine_version) == ("vllm", found.engine_version)
    assert found.communication_fraction == 0.0


def test_70b_needs_several_gpus_and_they_talk() -> None:
    refused = size_serving(demand(), model(LLAMA_70B), box(), "one_gpu", AUTO, 64)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "memory"
    assert refused.needed is not None
    assert refused.available is not None
    assert refused.needed > 140 > refused.available
    found = sized(demand(), LLAMA_70B, span="one_server")
    assert found.parallel.gpus >= 2
    assert found.communication
    assert 0 < found.communication_fraction < 0.6
    assert found.bounds_gpus_by_memory <= found.gpus


@pytest.mark.parametrize("span", ["one_gpu", "one_server", "many_servers"])
def test_no_gpus_is_a_shortfall(span: Any) -> None:
    refused = size_serving(demand(), model(LLAMA_8B), box(), span, AUTO, 0)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "gpus"


def test_a_limit_that_physics_forbids_is_named_with_what_the_hardware_gives() -> None:
    refused = size_serving(demand(tpot_ms=1.0), model(LLAMA_8B), box("l4"), "one_gpu", AUTO, 64)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "tpot"
    assert refused.available == 1.0
    assert refused.needed is not None
    assert refused.needed > 20


def test_a_limit_nobody_stated_gives_way() -> None:
    found = sized(demand(tpot_ms=1.0, tpot_stated=False), platform=box("l4"))
    assert not found.keeps_usual_limits
    assert found.notes


def test_asked_precision_is_kept_and_saves_gpus() -> None:
    eight = PrecisionDemand(weights="fp8", kv_cache="fp8", training="auto")
    found = size_serving(demand(), model(LLAMA_70B), box(), "one_server", eight, 64)
    assert isinstance(found, Sized)
    assert (found.precision["weights"], found.precision["kv_cache"]) == ("fp8", "fp8")
    assert found.gpus <= sized(demand(), LLAMA_70B, span="one_server").gpus


def test_the_longest_request_must_fit() -> None:
    long = demand(concurrent=Range.exact(1), max_context_tokens=600_000)
    assert isinstance(size_serving(long, model(LLAMA_8B), box(), "one_gpu", AUTO, 64), Shortfall)


def test_a_shared_prefix_saves_time_and_memory() -> None:
    apart = sized(demand(input_tokens=8000, concurrent=Range.exact(64)))
    shared = sized(demand(input_tokens=8000, shared_prefix_tokens=7000, concurrent=Range.exact(64)))
    assert shared.memory_gb["kv_cache"].mid < apart.memory_gb["kv_cache"].mid
    assert shared.gpus <= apart.gpus
    assert shared.serving is not None
    assert apart.serving is not None
    assert shared.serving.ttft_ms is not None
    assert apart.serving.ttft_ms is not None
    assert shared.serving.ttft_ms.mid < apart.serving.ttft_ms.mid


@settings(deadline=None, max_examples=30)
@given(users=st.integers(1, 2000), more=st.integers(0, 2000), tokens=st.integers(50, 4000))
def test_more_users_never_need_fewer_gpus(users: int, more: int, tokens: int) -> None:
    small, large = (
        sized(demand(concurrent=Range.exact(count), output_tokens=tokens, max_context_tokens=8000), max_gpus=100_000)
        for count in (users, users + more)
    )
    assert large.gpus >= small.gpus


@settings(deadline=None, max_examples=30)
@given(rate=st.floats(0.01, 200), looser=st.floats(1, 5))
def test_a_looser_limit_never_needs_more_gpus(rate: float, looser: float) -> None:
    base = demand(concurrent=None, requests_per_s=Range.exact(rate), stated_by="requests_per_s", tpot_ms=30)
    strict, loose = (sized(demand_, max_gpus=100_000) for demand_ in (base, demand(
        concurrent=None, requests_per_s=Range.exact(rate), stated_by="requests_per_s", tpot_ms=30 * looser, ttft_ms=2000 * looser
    )))  # fmt: skip
    assert loose.gpus <= strict.gpus
    assert strict.serving is not None
    assert strict.serving.requests_per_s.mid == pytest.approx(rate)


def test_latency_objective_spends_gpus_on_speed() -> None:
    cheap, fast = (sized(demand(), LLAMA_70B, span="one_server", objective=aim) for aim in ("cost", "latency"))
    assert cheap.serving is not None
    assert fast.serving is not None
    assert cheap.serving.tpot_ms is not None
    assert fast.serving.tpot_ms is not None
    assert fast.serving.tpot_ms.mid < cheap.serving.tpot_ms.mid
    assert fast.gpus >= cheap.gpus


def test_batch_work_ends_in_time() -> None:
    work = BatchDemand(items=1_000_000, input_tokens=1000, output_tokens=200, deadline_h=24)
    found = size_batch(work, model(LLAMA_8B), box(), "one_gpu", AUTO, 64)
    assert isinstance(found, Sized)
    assert found.serving is not None
    assert found.serving.hours is not None
    assert 0 < found.serving.hours.mid <= 24
    tight = size_batch(
        BatchDemand(items=1_000_000, input_tokens=1000, output_tokens=200, deadline_h=2), model(LLAMA_8B), box(), "one_gpu", AUTO, 64
    )
    assert isinstance(tight, Sized)
    assert tight.gpus > found.gpus


def test_embedding_reads_and_writes_nothing() -> None:
    online = demand(output_tokens=0, concurrent=None, requests_per_s=Range.exact(50), stated_by="requests_per_s", input_tokens=512)
    found = sized(online)
    assert found.serving is not None
    assert found.serving.tpot_ms is None
    assert found.serving.output_tokens_per_s.mid == 0
    assert found.serving.input_tokens_per_s.mid == pytest.approx(50 * 512)


def test_a_cpu_carries_a_small_model_and_not_a_large_one() -> None:
    light = demand(concurrent=Range.exact(1), input_tokens=200, output_tokens=100, ttft_ms=5000, tpot_ms=200)
    assert not isinstance(cpu_serving(light, model("Qwen/Qwen2.5-0.5B-Instruct"), "auto"), Shortfall)
    refused = cpu_serving(light, model("meta-llama/Llama-3.1-405B-Instruct"), "auto")
    assert isinstance(refused, Shortfall)


def test_one_platform_takes_less_than_ten_milliseconds_in_the_middle() -> None:
    times = []
    for number in range(15):
        wanted = demand(concurrent=Range.exact(16 + number))
        began = time.perf_counter()
        size_serving(wanted, model(LLAMA_70B), box(), "one_server", AUTO, 64)
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 4] < 0.02


def test_attention_groups_hold_what_tensor_parallelism_would_copy() -> None:
    """MLA's latent cannot be split: on 8 ranks of tensor parallelism each holds every sequence, in 8 groups an eighth of them.

    So 8 groups hold 8 times the requests per byte of pool; their pool is smaller by the attention weights they copy.
    """
    deepseek = job("deepseek-ai/DeepSeek-V3", weights="fp8", input_tokens=4000, output_tokens=500, max_context_tokens=8192)
    found = evaluate(deepseek, box("h200-sxm-141gb"), "one_server", 8, 95)
    assert isinstance(found, Replica)
    by_groups = {int(groups): most for groups, most in zip(found.layout.attention_dp[:, 0], found.most_by_memory, strict=True)}
    assert 4 < by_groups[8] / by_groups[1] < 8
    dense = evaluate(job("meta-llama/Llama-3.1-70B-Instruct"), box(), "one_server", 8, 95)
    assert isinstance(dense, Replica)
    assert (dense.layout.attention_dp == 1).all()
