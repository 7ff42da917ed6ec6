"""Speed of a whole recommendation for every preset: ``make bench``."""

from __future__ import annotations

import functools
import gc
import statistics
import time
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from app.advice.advisor import recommend
from app.catalog.loader import load_catalog
from app.engine.training.search import forget as forget_searches
from app.workload.presets import PRESETS

RUNS = 7


def forget() -> None:
    """Empty what the engine remembers of earlier questions; constants and the catalogue stay, as in a running server."""
    forget_searches()
    for item in gc.get_objects():
        module = getattr(item, "__module__", "") or ""
        ours = isinstance(item, functools._lru_cache_wrapper) and module.startswith(("app.engine", "app.workload", "app.advice"))
        if ours and not item.__name__.endswith(("constants", "rules", "law", "data", "table", "tables")):
            item.cache_clear()


def main() -> None:
    """Print minimum, median and maximum milliseconds per preset over :data:`RUNS` runs after one warm-up, each from
    nothing remembered."""
    catalog = load_catalog()
    table = Table("preset", "architecture", "min ms", "median ms", "max ms", title="Whole recommendation, uncached")
    for preset in PRESETS:
        timings = []
        answer = None
        for run in range(RUNS + 1):
            forget()
            start = time.perf_counter()
            answer = recommend(preset.profile, catalog, created_at=datetime(2026, 1, 1, tzinfo=UTC), recommendation_id=preset.id)
            if run:
                timings.append(1000 * (time.perf_counter() - start))
        label = str(answer.architecture) if answer is not None else ""
        table.add_row(preset.id, label, *(f"{value:.0f}" for value in (min(timings), statistics.median(timings), max(timings))))
    Console().print(table)


if __name__ == "__main__":
    main()
