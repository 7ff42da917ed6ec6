"""Legal layouts, the search over them, and the sizing that rests on it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.engine.links import recommended_network
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.result import Shortfall, Sized, Span
from app.engine.training.job import TrainingJob
from app.engine.training.search import best_by_count, legal_layouts, pareto_front, search, search_training, usable_bytes
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


def test_best_layout_fits_and_is_the_fastest_that_does() -> None:
    job, platform = pretraining(model("meta-llama/Llama-3.1-8B")), cluster()
    found = search_training(job, platform, (8, 16))
    assert set(found.best) == {8, 16}
    for best in found.best.values():
        assert float(best.total_bytes[0]) <= usable_bytes(platform)
    fastest = min(float(each.step.step_s[0]) for each in found.front)
    assert fastest == pytest.approx(float(found.best[16].step.step_s[0]))


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
    """70.6e9 x 4.5 bits = 39.7 GB of weights: one 80 GB GPU holds them with adapters and activations."""
    wanted = demand(task="qlora", lora_rank=16, base_bits=4.5, tokens=Range.exact(10e6), seq_len=2048, deadline_days=None)
    found = size_training(wanted, model("meta-llama/Llama-3.1-70B"), cluster(), span, "auto", 8)
    assert isinstance(found, Sized)
    assert found.memory_gb["weights"].mid == pytest.approx(70.55e9 * 4.5 / 8 / 1e9 / found.parallel.tp / found.parallel.pp, rel=0.03)


def test_slow_sockets_show_in_the_time() -> None:
    """Gradients of 8B (16 GB) over one 10 GbE port per server take 13 s and more: the best layout keeps data-parallel ranks
    inside the servers and is still far slower than over InfiniBand."""
    job = pretraining(model("meta-llama/Llama-3.1-8B"), batch=64)
    slow = cluster().with_network(ScaleOut(kind="tcp", nic_gbit_per_s=10.0, nics_per_server=1, gpudirect=False))
    fast_best, slow_best = best_by_count(job, cluster(), (16,))[16], best_by_count(job, slow, (16,))[16]
    assert fast_best is not None
    assert slow_best is not None
    assert slow_best.step_s > 1.5 * fast_best.step_s
