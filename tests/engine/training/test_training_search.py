"""Legal layouts, the search over them, and the sizing that rests on it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.engine.links import recommended_network
from app.engine.pareto import pareto_front
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.result import Shortfall, Sized, Span
from app.engine.training.front import EVERYTHING, precisions_of, search_training
from app.engine.training.job import OFFLOAD, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.layouts import first_that_fits, legal_layouts
from app.engine.training.memory import training_memory_bytes
from app.engine.training.request import estimate_layout
from app.engine.training.search import best_by_count, search, total_bytes, usable_bytes
from app.engine.training.sizing import size_training
from app.ranges import Range
from app.units import GB
from app.workload.demand import TrainingDemand

CATALOG = load_catalog()


def model(name: str) -> ModelShape:
    found = CATALOG.find_model(name)
    assert found is not None
    return found


def cluster(gpu: str = "h100-sxm-80gb", network: str = "infiniband", per_server: int = 8) -> Platform:
    row = CATALOG.gpus[gpu]
    return platform_of(row, gpus_per_server=per_server).with_network(recommended_network(row, network))


def pretraining(shape: ModelShape, batch: float = 512, seq_len: int = 4096) -> TrainingJob:
    return TrainingJob(shape=shape, task="pretraining", seq_len=seq_len, global_batch_sequences=batch)


def demand(**changes: object) -> TrainingDemand:
    values: dict[str, object] = {
        "task": "pretraining", "tokens": Range.exact(200e9), "deadline_days": 30.0, "seq_len": 4096, "global_batch_tokens": None,
        "optimizer": "adamw", "lora_rank": 0, "base_bits": 16.0,
    }  # fmt: skip
    return TrainingDemand(**{**values, **changes})  # type: ignore[arg-type]


def test_every_layout_uses_all_gpus_and_divides_the_model() -> None:
    shape = model("meta-llama/Llama-3.1-70B")
    layout = legal_layouts(pretraining(shape), cluster(), 64)
    assert layout is not None
    assert set(layout.gpus) == {64.0}
    assert layout.tp.max() <= 8
    assert (shape.heads % layout.tp == 0).all()
    assert (shape.layers % layout.pp == 0).all()
    assert (layout.dp * layout.micro_batch <= 512).all()


def test_stages_may_be_a_layer_short_where_little_is_lost() -> None:
    """126 layers on 16 stages leave 2 of 128 places free, 1.6%; 80 layers on 32 would leave 16 of 96: too many."""
    large, usual = model("meta-llama/Llama-3.1-405B"), model("meta-llama/Llama-3.1-70B")
    layout = legal_layouts(pretraining(large), cluster(), 512)
    assert layout is not None
    assert {8.0, 16.0} <= set(layout.pp)
    assert set(layout.vp[layout.pp == 16]) == {1.0, 2.0, 4.0, 8.0}
    rounds = 512 // (layout.dp * layout.micro_batch) % layout.pp
    assert (rounds[layout.vp > 1] == 0).all()
    other = legal_layouts(pretraining(usual), cluster(), 256)
    assert other is not None
    assert 32.0 not in set(other.pp)


def test_experts_divide_over_expert_ranks() -> None:
    shape = model("Qwen/Qwen3-30B-A3B")
    layout = legal_layouts(pretraining(shape), cluster(), 32)
    assert layout is not None
    assert (shape.experts % layout.ep == 0).all()
    assert (layout.dp * layout.tp % layout.ep == 0).all()
    assert layout.ep.max() > 1


def test_search_is_deterministic_and_the_batch_agrees_with_single_counts() -> None:
    job, platform = pretraining(model("meta-llama/Llama-3.1-8B")), cluster()
    together = best_by_count(job, platform, (8, 16, 32))
    for count, best in together.items():
        alone = search(job, platform, count)
        assert alone is not None
        assert best is not None
        index = alone.best()
        assert index is not None
        assert best.step_s == pytest.approx(float(alone.step.step_s[index]), rel=1e-12)
        assert best.fits
        assert float(best.alone().layout.gpus[0]) == count


def test_every_choice_is_searched() -> None:
    """Sharding, recomputation and offload of each kind; hybrid sharding keeps one copy in a server of eight, over tp."""
    layout = legal_layouts(pretraining(model("meta-llama/Llama-3.1-8B"), seq_len=8192), cluster(), 32, EVERYTHING)
    assert layout is not None
    assert {SHARDING[int(value)] for value in layout.sharding} == set(SHARDING)
    assert {RECOMPUTE[int(value)] for value in layout.recompute} == set(RECOMPUTE)
    assert {OFFLOAD[int(value)] for value in layout.offload} == {"none", "optimizer"}
    hybrid = layout.take(layout.shard_ranks > 0)
    assert set(zip(hybrid.tp, hybrid.shard_ranks, strict=True)) == {(1.0, 8.0), (2.0, 4.0), (4.0, 2.0)}
    assert set(layout.cp) == {1.0, 2.0}  # 8,192 tokens: halves of 4,096, no less
    assert set(layout.vp[layout.pp == 4]) == {1.0, 2.0, 4.0, 8.0}  # 8 layers a stage
    assert not ((layout.sharding >= SHARDING.index("zero2")) & (layout.pp > 1)).any()


def test_only_what_may_be_fastest_is_timed() -> None:
    """Two pairs of (zero1, zero2), three recomputations each. Where zero1 fits without recomputation, all else goes; where it
    fits with full recomputation only, zero2 stays with less."""
    sharding = np.repeat([1.0, 2.0, 1.0, 2.0], 3)
    ones = np.ones(12)
    layout = TrainingLayout(
        tp=ones, pp=ones, dp=ones, ep=ones, cp=ones, vp=ones, micro_batch=ones, recompute=ones, sharding=sharding, shard_ranks=ones, offload=ones
    )  # fmt: skip
    fits = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1], dtype=bool)
    assert np.flatnonzero(first_that_fits(layout, fits, 3)).tolist() == [0, 8, 10]


def test_pruned_search_finds_what_the_whole_one_does() -> None:
    job, platform = pretraining(model("meta-llama/Llama-3.1-8B"), seq_len=8192), cluster()
    for count in (8, 16):
        whole, pruned = search(job, platform, count), best_by_count(job, platform, (count,))[count]
        assert whole is not None
        assert pruned is not None
        assert pruned.step_s == pytest.approx(float(whole.step.step_s[whole.fits].min()), rel=1e-12)


def test_front_holds_the_best_by_every_objective() -> None:
    job, platform = pretraining(model("meta-llama/Llama-3.1-8B")), cluster()
    found = search_training(job, platform, (8, 16), ("bf16", "fp8"))
    every = [
        each
        for precision in ("bf16", "fp8")
        for count in (8, 16)
        if (each := search_training(job, platform, (count,), (precision,)).best()) is not None
    ]
    fastest, cheapest, leanest = (found.best(objective) for objective in ("step_s", "gpu_seconds", "memory"))
    assert fastest is not None
    assert cheapest is not None
    assert leanest is not None
    assert fastest.step_s == min(each.step_s for each in every)
    assert cheapest.step_s * cheapest.gpus == min(each.step_s * each.gpus for each in every)
    assert leanest.total_bytes == min(each.total_bytes for each in found.front)
    assert all(each.total_bytes <= usable_bytes(platform) for each in found.front)
    assert {each.gpus for each in found.front} == {8.0, 16.0}


def test_layouts_without_room_say_what_they_need() -> None:
    """8.03e9 parameters on one GPU: 2 + 4 bytes of weights and gradients and 12 of AdamW's: 145 GB, most of it moments."""
    job, platform = pretraining(model("meta-llama/Llama-3.1-8B"), seq_len=1024), cluster()
    found = search_training(job, platform, (1, 2))
    left = found.refused["bf16"]
    index = int(np.flatnonzero((left.layout.gpus == 1) & (left.layout.micro_batch == 1) & (left.layout.recompute == 2))[0])
    assert left.total_bytes[index] > 8.03e9 * 18
    reason = left.reason(index)
    assert "optimizer" in reason
    assert f"{usable_bytes(platform) / GB:.0f} GB are usable" in reason
    assert sum(left.by_component().values()) == left.total_bytes.size
    fitting = [layout for count in (1, 2) if (layout := legal_layouts(job, platform, count, EVERYTHING)) is not None]
    sizes = np.concatenate([total_bytes(training_memory_bytes(job, layout)) for layout in fitting])
    assert (sizes > usable_bytes(platform)).sum() == left.total_bytes.size
    assert found.evaluated == sizes.size


def test_narrow_precisions_where_the_hardware_has_them() -> None:
    assert precisions_of(CATALOG.gpus["a100-sxm-80gb"]) == ("bf16",)
    assert precisions_of(CATALOG.gpus["h100-sxm-80gb"]) == ("bf16", "fp8")
    assert "fp4" in precisions_of(CATALOG.gpus["b200-sxm-180gb"])


def test_an_estimate_that_leaves_the_layout_open_shows_the_front() -> None:
    request = {
        "catalog_model": "meta-llama/Llama-3.1-8B", "gpu_id": "h100-sxm-80gb", "n_gpus": 8, "gpus_per_node": 8, "seq_len": 4096,
        "global_batch_seqs": 128,
    }  # fmt: skip
    found = estimate_layout(request, CATALOG)["search"]
    times, sizes = ([entry[name]["mid"] for entry in found["front"]] for name in ("step_s", "peak_mem_gb"))
    assert times == sorted(times)
    assert sizes == sorted(sizes, reverse=True)
    assert found["best"]["step_s"]["step_s"]["mid"] == times[0]
    assert found["best"]["memory"]["peak_mem_gb"]["mid"] == sizes[-1]
    assert found["layouts"] > sum(sum(each.values()) for each in found["refused"].values()) > 0
    assert {entry["layout"]["precision"] for entry in found["front"]} <= {"bf16", "fp8"}
    # One entry asked for by itself is estimated the same.
    entry = found["front"][0]
    alone = estimate_layout({**request, **entry["layout"]}, CATALOG)
    assert alone["step_s"]["mid"] == pytest.approx(entry["step_s"]["mid"])
    assert alone["peak_mem_gb"]["mid"] == pytest.approx(entry["peak_mem_gb"]["mid"])
    assert "search" not in alone


def test_no_layout_of_the_front_is_beaten_by_another() -> None:
    """(1, 1) beats (2, 2); (3, 0.5) stays for its second column; an equal row counts once."""
    points = np.array([[2.0, 2.0], [1.0, 1.0], [3.0, 0.5], [1.0, 1.0]])
    assert sorted(pareto_front(points)) == [1, 2]


def test_largest_published_case_is_searched_in_under_a_second() -> None:
    job = pretraining(model("GPT-3 175B"), batch=1536, seq_len=2048)
    search(job, cluster("a100-sxm-80gb"), 4096)
    start = time.process_time()
    found = search(job, cluster("a100-sxm-80gb"), 4096)
    assert time.process_time() - start < 1.0
    assert found is not None
    assert found.best() is not None


def test_deadline_is_kept_with_failures_counted() -> None:
    sized = size_training(demand(), model("meta-llama/Llama-3.1-8B"), cluster(), "many_servers", "auto", 4096)
    assert isinstance(sized, Sized)
    assert sized.training is not None
    assert sized.training.days is not None
    assert sized.training.days.mid <= 30.0
    assert sized.training.goodput_fraction < 1
    days = 200e9 / sized.training.tokens_per_s.mid / 86_400 / sized.training.goodput_fraction
    assert sized.training.days.mid == pytest.approx(days)
    assert sized.gpus >= sized.bounds_gpus_by_roofline
    assert sum(part.mid for part in sized.memory_gb.values()) <= sized.capacity_gb
    assert sized.gpus % 8 == 0


def test_half_the_time_needs_more_gpus() -> None:
    shape, platform = model("meta-llama/Llama-3.1-8B"), cluster()
    slow = size_training(demand(deadline_days=10.0), shape, platform, "many_servers", "auto", 4096)
    fast = size_training(demand(deadline_days=5.0), shape, platform, "many_servers", "auto", 4096)
    assert isinstance(slow, Sized)
    assert isinstance(fast, Sized)
    assert fast.gpus > slow.gpus


def test_out_of_reach_deadline_names_the_nearest_design() -> None:
    found = size_training(demand(deadline_days=0.01), model("meta-llama/Llama-3.1-8B"), cluster(), "many_servers", "auto", 64)
    assert isinstance(found, Shortfall)
    assert found.constraint == "deadline"
    assert found.needed is not None
    assert found.needed > 0.01
    assert found.nearest is not None


def test_model_too_large_for_one_gpu_says_how_much_memory_it_needs() -> None:
    found = size_training(demand(deadline_days=None), model("meta-llama/Llama-3.1-70B"), cluster(per_server=1), "one_gpu", "auto", 1)
    assert isinstance(found, Shortfall)
    assert found.constraint == "memory"
    assert found.needed is not None
    assert found.available is not None
    assert found.needed > found.available == pytest.approx(usable_bytes(cluster()) / GB)


@pytest.mark.parametrize("span", ["one_gpu", "one_server"])
def test_quantised_adapters_of_70b_fit_a_server(span: Span) -> None:
    """68.45e9 x 4.5 bits and 2.1e9 of embedding and head in 16 = 42.7 GB: one 80 GB GPU holds them with adapters and activations."""
    wanted = demand(task="qlora", lora_rank=16, base_bits=4.5, tokens=Range.exact(10e6), seq_len=2048, deadline_days=None)
    found = size_training(wanted, model("meta-llama/Llama-3.1-70B"), cluster(), span, "auto", 8)
    assert isinstance(found, Sized)
    assert found.memory_gb["weights"].mid == pytest.approx((68.45 * 4.5 / 8 + 2.1 * 2) / found.parallel.tp / found.parallel.pp, rel=0.03)


def test_slow_sockets_show_in_the_time() -> None:
    """Gradients of 8B (16 GB) over one 10 GbE port per server take 13 s and more: the best layout keeps data-parallel ranks
    inside the servers and is still far slower than over InfiniBand."""
    job = pretraining(model("meta-llama/Llama-3.1-8B"), batch=64)
    slow = cluster().with_network(ScaleOut(kind="tcp", nic_gbit_per_s=10.0, nics_per_server=1, gpudirect=False))
    fast_best, slow_best = best_by_count(job, cluster(), (16,))[16], best_by_count(job, slow, (16,))[16]
    assert fast_best is not None
    assert slow_best is not None
    assert slow_best.step_s > 1.5 * fast_best.step_s
