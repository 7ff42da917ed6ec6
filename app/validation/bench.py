"""Speed of a whole recommendation for every preset, and of the layout search: ``make bench``."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
from rich.console import Console
from rich.table import Table

from app.advice.advisor import recommend
from app.catalog.loader import Catalog, load_catalog
from app.engine.links import recommended_network
from app.engine.platform import Platform, platform_of
from app.engine.serving.front import serving_front, weights_of
from app.engine.serving.job import ServingJob
from app.engine.training.front import EVERYTHING, search_training
from app.engine.training.job import TrainingJob
from app.engine.training.layouts import joined, legal_layouts
from app.engine.training.search import best_by_count, evaluate
from app.engine.training.search import forget as forget_searches
from app.workload.presets import PRESETS

RUNS = 21
"""Enough for a 95th percentile."""
GPT3_BATCH, GPT3_TOKENS, GPT3_GPUS = 1536, 2048, 4096
"""Sequences a step and tokens a sequence of GPT-3 175B (arXiv 2104.04473, table 1), on a cluster of the paper's size."""


def forget() -> None:
    """Empty what the engine remembers of earlier questions; constants and the catalogue stay, as in a running server."""
    forget_searches()
    for item in gc.get_objects():
        module = getattr(item, "__module__", "") or ""
        ours = isinstance(item, functools._lru_cache_wrapper) and module.startswith(("app.engine", "app.workload", "app.advice"))
        if ours and not item.__name__.endswith(("constants", "rules", "law", "data", "table", "tables")):
            item.cache_clear()


def timed(work: Callable[[], object], runs: int = RUNS) -> list[float]:
    """Seconds of each run after one warm-up, each from nothing remembered."""
    seconds = []
    for run in range(runs + 1):
        forget()
        start = time.perf_counter()
        work()
        if run:
            seconds.append(time.perf_counter() - start)
    return seconds


def recommendations(catalog: Catalog) -> Table:
    """Milliseconds per preset, training and others."""
    table = Table("preset", "workload", "architecture", "min ms", "median ms", "p95 ms", "max ms", title="Whole recommendation, uncached")
    for preset in PRESETS:
        ask = functools.partial(
            recommend, preset.profile, catalog, created_at=datetime(2026, 1, 1, tzinfo=UTC), recommendation_id=preset.id
        )
        milliseconds = 1000 * np.array(timed(ask))
        figures = np.quantile(milliseconds, (0.0, 0.5, 0.95, 1.0))
        table.add_row(preset.id, str(preset.profile.workload), str(ask().architecture), *(f"{value:.0f}" for value in figures))
    return table


def layout_search(catalog: Catalog) -> Table:
    """One core's rate over legal layouts of 64 to 4,096 GPUs, and the time to search GPT-3 175B on 4,096 A100."""
    gpu = catalog.gpus["a100-sxm-80gb"]
    platform = platform_of(gpu, gpus_per_server=8).with_network(recommended_network(gpu, "infiniband"))
    table = Table("layout search", "layouts", "median ms", "p95 ms", "layouts/s", title="Layout search on one core")

    def add(name: str, layouts: int, seconds: list[float]) -> None:
        median, high = np.quantile(seconds, (0.5, 0.95))
        table.add_row(name, f"{layouts:,}", f"{1000 * median:.1f}", f"{1000 * high:.1f}", f"{layouts / median:,.0f}")

    for model, batch, tokens in (("GPT-3 175B", GPT3_BATCH, GPT3_TOKENS), ("DeepSeek-V3", 8192, 4096)):
        job = _pretraining(catalog, model, batch, tokens)
        many = joined([found for gpus in range(64, 4097, 64) if (found := legal_layouts(job, platform, gpus, EVERYTHING)) is not None])
        add(f"{model}, 64 to 4,096 A100, memory and step", many.tp.size, timed(functools.partial(evaluate, job, platform, many), 5))
    job = _pretraining(catalog, "GPT-3 175B", GPT3_BATCH, GPT3_TOKENS)
    whole = search_training(job, platform, (GPT3_GPUS,))
    add("GPT-3 175B, 4,096 A100, Pareto front", whole.evaluated, timed(lambda: search_training(job, platform, (GPT3_GPUS,)), 5))
    add("GPT-3 175B, 4,096 A100, fastest", _legal_count(job, platform), timed(lambda: best_by_count(job, platform, (GPT3_GPUS,)), 5))
    return table


def _pretraining(catalog: Catalog, model: str, batch: int, tokens: int) -> TrainingJob:
    shape = catalog.find_model(model)
    if shape is None:
        raise LookupError(f"{model} is not in the catalogue")
    return TrainingJob(shape=shape, task="pretraining", seq_len=tokens, global_batch_sequences=batch)


def _legal_count(job: TrainingJob, platform: Platform) -> int:
    layout = legal_layouts(job, platform, GPT3_GPUS)
    return 0 if layout is None else layout.tp.size


def serving_search(catalog: Catalog) -> Table:
    """Pareto front of throughput per GPU against per-user speed, one model on up to 16 GPUs of one type."""
    table = Table("Pareto front", "points", "median ms", "p95 ms", title="Serving: one model on one GPU type, all formats")
    for model, name in (("meta-llama/Llama-3.3-70B-Instruct", "h200-sxm-141gb"), ("deepseek-ai/DeepSeek-V3", "b200-sxm-180gb")):
        shape, gpu = catalog.find_model(model), catalog.gpus[name]
        assert shape is not None
        platform = platform_of(gpu, gpus_per_server=8).with_network(recommended_network(gpu, "infiniband"))
        job = ServingJob(shape=shape, weights=shape.native_precision, input_tokens=2000, output_tokens=500)
        work = functools.partial(serving_front, job, platform, 16, weights_of(gpu, job.weights))
        median, high = np.quantile(timed(work), (0.5, 0.95))
        table.add_row(f"{shape.name}, {gpu.name}", str(len(work())), f"{1000 * median:.1f}", f"{1000 * high:.1f}")
    return table


def main() -> None:
    """Print all tables."""
    catalog = load_catalog()
    console = Console()
    console.print(recommendations(catalog))
    console.print(layout_search(catalog))
    console.print(serving_search(catalog))


if __name__ == "__main__":
    main()
