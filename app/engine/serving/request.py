"""One explicit serving point on request: columns of the public measurement files in, predictions with ranges out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.catalog.loader import Catalog
from app.engine.serving.answer import MEMORY_SPREAD
from app.engine.serving.constants import spread
from app.engine.serving.explicit import explicit_point, explicit_server
from app.engine.serving.front import described, serving_front, weights_of
from app.engine.serving.point import ServingPoint, serve
from app.ranges import Range
from app.units import GB, MS


def estimate_point(request: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Latencies (means, TPOT without the first token), rates, memory per GPU and the KV pool of one replica.

    Raises:
        ProfileError: naming every column at fault.
    """
    point = explicit_point(request, catalog)
    found = serve(point)
    answer: dict[str, Any] = {
        "ttft_ms": _range(found.ttft_s / MS, spread("ttft")),
        "tpot_ms": _range(found.tpot_s / MS, spread("tpot")),
        "output_tok_s_total": _range(found.output_tokens_per_s, spread("rate")),
        "tok_s_per_user": _range(1 / found.tpot_s, _inverse(spread("tpot"))) if found.tpot_s > 0 else None,
        "e2e_latency_s": _range(found.turn_s, spread("tpot")),
        "prefill_tok_s": _range(found.prompt_tokens_per_s, spread("rate")),
        "fits": found.fits,
        "saturated": found.saturated,
    }
    gpus = float(np.ravel(point.layout.gpus)[0]) * point.replicas
    answer["output_tok_s_per_gpu"] = _range(found.output_tokens_per_s / gpus, spread("rate"))
    return answer | _memory(request, catalog) | ({} if any(request.get(name) for name in LAYOUT) else _front(point, int(gpus)))


LAYOUT = ("tp", "pp", "dp", "ep")


def _front(point: ServingPoint, gpus: int) -> dict[str, Any]:
    """What else the GPUs named could do, where the request leaves the layout open."""
    formats = weights_of(point.platform.gpu, point.job.weights)
    return {"front": described(serving_front(point.job, point.platform, gpus, formats), point.job)}


def _memory(request: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Memory of one GPU by component, and what the KV pool holds, as the engine logs them at its start."""
    _, log = explicit_server(request, catalog)
    parts = {
        "weights": log.weights,
        "activations": log.activations,
        "cuda_graphs": log.graphs,
        "runtime": log.runtime,
        "kv_pool": max(log.pool, 0.0),
    }
    return {
        "memory_gb": {name: _range(value / GB, MEMORY_SPREAD) for name, value in parts.items()},
        "kv_cache_tokens": _range(log.tokens, MEMORY_SPREAD),
        "max_concurrency": _range(log.concurrency, MEMORY_SPREAD),
    }


def _inverse(factors: tuple[float, float]) -> tuple[float, float]:
    return 1 / factors[1], 1 / factors[0]


def _range(value: float, spread: tuple[float, float]) -> dict[str, float] | None:
    """A range as JSON; None where the value is not finite: the point is not served."""
    if not np.isfinite(value):
        return None
    return Range.around(float(value), *spread).model_dump()
