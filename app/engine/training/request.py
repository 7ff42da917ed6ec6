"""One training run on request: what the request may say, whether its layout is legal, and the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

import numpy as np

from app.catalog.loader import Catalog
from app.engine.compute import peak_flops
from app.engine.platform import PCIE_BYTES_PER_S_PER_LANE, FabricKind
from app.engine.training.explicit import LAYOUT_FIELDS, PRECISIONS, ExplicitRun, Prediction, explicit_run, positive_number, predict
from app.engine.training.front import OBJECTIVES, Choice, described, precisions_of, search_training
from app.engine.training.goodput import (
    RESTART_S,
    best_checkpoint_interval_s,
    checkpoint_time_s,
    goodput_fraction,
    time_between_failures_s,
)
from app.engine.training.layouts import divides_heads, nearly_equal
from app.engine.training.search import usable_bytes
from app.engine.training.sizing import MEMORY_SPREAD, TIME_SPREAD, saved_bytes
from app.ranges import Range
from app.units import GB, SECONDS_PER_DAY, SECONDS_PER_HOUR, TFLOP
from app.workload.profile import FieldError, ProfileError

MODEL_FIELDS = (
    "catalog_model", "model", "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "n_experts", "top_k", "gated_mlp",
)  # fmt: skip
PLATFORM_FIELDS = (
    "gpu_id", "gpu", "n_gpus", "gpus_per_node", "intra_kind", "intra_link", "intra_p2p", "inter_kind", "inter_link", "inter_gbit_per_node",
)  # fmt: skip
WORK_FIELDS = ("task", "tokens_b", "seq_len", "global_batch_seqs", "precision", "optimizer", "lora_rank", "year", "software", "notes")
MEASURED_FIELDS = (
    "id", "source_title", "source_locator", "source_key", "comparable", "tflops_kind", "metric_tokens_s_gpu", "metric_tflops_gpu",
    "metric_mfu", "metric_step_s", "metric_time_to_train_min", "metric_peak_mem_gb",
)  # fmt: skip
"""Columns of a measured row that say nothing about the run itself, so that a row can be sent as it stands."""
FIELDS = (*MODEL_FIELDS, *PLATFORM_FIELDS, *WORK_FIELDS, *LAYOUT_FIELDS, *MEASURED_FIELDS)
NUMBERS = (
    "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "n_experts", "top_k", "inter_gbit_per_node", "tokens_b", "seq_len",
    "global_batch_seqs", "year", "lora_rank", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "shard_ranks",
)  # fmt: skip
WHOLE = ("n_gpus", "gpus_per_node", "tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "seq_len", "lora_rank", "shard_ranks")
MOST_GPUS = 131_072
FIRST_YEAR, LAST_YEAR = 2016, 2035
"""From the first tensor cores' frameworks on, and as far ahead as anyone plans."""
SAME_SIZE = 0.2
"""Most that a stated size may differ from the catalogue's: published counts leave out embeddings or round."""
INTRA_KINDS = (
    "none", "nvlink", "nvlink2", "nvlink3", "nvlink4", "nvlink5", "nvlink5-nvl72", "nvlink6", "infinity_fabric", "gaudi_ethernet",
    "xe_link", "neuronlink", "ici", "pcie", *(f"pcie{generation}" for generation in PCIE_BYTES_PER_S_PER_LANE),
)  # fmt: skip
INTER_KINDS = ("none", *get_args(FabricKind))


def estimate_layout(request: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Step time, rates and memory (ranges) of one explicit training layout; keys are the columns of ``training.csv``.

    With ``tokens_b`` (billions of tokens of the run) the answer has ``days``, failures, checkpoints and restarts included:
    tokens / rate / goodput. ``mfu`` is useful FLOP over the GPU's dense 16-bit peak, whatever the precision. ``fits`` is False
    where even the low end of the memory range exceeds ``usable_gb``; ``fits_at_mid`` says the same of the prediction itself.

    Raises:
        ProfileError: a field is unknown, missing or out of bounds, or the layout is not legal; every fault is named.
    """
    run = _understood(request, catalog)
    errors = [*_count_faults(request), *_size_faults(run, request), *_layout_faults(run), *_precision_faults(run, request)]
    if errors:
        raise ProfileError(errors)
    found = predict(run)
    inverse = (1 / TIME_SPREAD[1], 1 / TIME_SPREAD[0])
    rate = found.tokens_s_gpu
    tflops = found.step.model_flop / found.optimizer_step_s / found.gpus / TFLOP
    peak = peak_flops(run.platform.gpu, "bf16") or math.nan
    goodput = _goodput(found)
    memory = {name: Range.around(value / GB, *MEMORY_SPREAD).model_dump() for name, value in found.memory_bytes.items() if value > 0}
    return {
        "step_s": Range.around(found.step_s, *TIME_SPREAD).model_dump(),
        "tokens_per_s": Range.around(rate * found.gpus, *inverse).model_dump(),
        "tokens_s_gpu": Range.around(rate, *inverse).model_dump(),
        "tflops_gpu": Range.around(tflops, *inverse).model_dump(),
        "mfu": Range.around(tflops * TFLOP / peak, *inverse).model_dump(),
        "peak_mem_gb": Range.around(found.total_bytes / GB, *MEMORY_SPREAD).model_dump(),
        "memory_gb": memory,
        "usable_gb": usable_bytes(run.platform) / GB,
        "fits": found.fits,
        "fits_at_mid": found.total_bytes <= usable_bytes(run.platform),
        "layout": {**described(found.layout), "global_batch_seqs": run.job.global_batch_sequences},
        "run": _run_entry(found),
        "goodput": goodput,
        **_days(request, rate * found.gpus, goodput["fraction"]),
        **({"search": _searched(run, request)} if _leaves_layout_open(request) else {}),
    }


def _understood(request: Mapping[str, Any], catalog: Catalog) -> ExplicitRun:
    """The run of a request all of whose fields are known and in bounds.

    Raises:
        ProfileError: naming every field that is not.
    """
    errors = list(_field_faults(request, catalog))
    run = None
    try:
        run = explicit_run(request, catalog)
    except ProfileError as error:
        named = {fault.field for fault in errors}
        errors += [fault for fault in error.errors if fault.field not in named]
    except KeyError:  # a kind of link that does not exist; without a fault to name it would be ours
        if not errors:
            raise
    if errors or run is None:
        raise ProfileError(errors)
    return run


def _given(request: Mapping[str, Any], field: str) -> str:
    """A field as lower-case text; empty where it is absent or null."""
    value = request.get(field)
    return "" if value is None else str(value).strip().lower()


def _number(request: Mapping[str, Any], field: str) -> float | None:
    """A field already known to be a number or blank."""
    text = _given(request, field)
    return float(text) if text else None


def _field_faults(request: Mapping[str, Any], catalog: Catalog) -> Iterator[FieldError]:
    """Unknown fields, numbers out of bounds, link and network kinds that do not exist, and a model that is not in the catalogue."""
    for name in request:
        if name not in FIELDS:
            near = get_close_matches(str(name), FIELDS, n=1)
            yield FieldError(str(name), f"is not a known field; did you mean {near[0]}?" if near else "is not a known field")
    errors: list[FieldError] = []
    for name in NUMBERS:
        positive_number(request, name, errors)
    yield from errors
    for field, kinds in (("intra_kind", INTRA_KINDS), ("inter_kind", INTER_KINDS)):
        kind = _given(request, field)
        if kind and kind not in kinds:
            yield FieldError(field, f"{request[field]!r} is not known", ", ".join(kinds))
    if _given(request, "inter_gbit_per_node") and not _given(request, "inter_kind"):
        yield FieldError("inter_kind", "is missing: inter_gbit_per_node needs the kind of network", ", ".join(INTER_KINDS))
    name = str(request.get("catalog_model") or "")
    known = catalog.find_model(name) if name else None
    if name and known is None:
        near_models = ", ".join(catalog.suggest_models(name))
        yield FieldError(
            "catalog_model", f"{name!r} is not in the catalogue; leave it out to give layers and hidden, or params_b", near_models
        )
    elif known is not None and not known.has_layers and not _given(request, "layers"):
        yield FieldError("catalog_model", f"the layers of {known.name} are not known, so training it cannot be estimated")


def _count_faults(request: Mapping[str, Any]) -> Iterator[FieldError]:
    """Counts that are not whole, and degrees whose product is not the number of GPUs."""
    numbers = {name: _number(request, name) for name in (*WHOLE, "n_experts", "top_k")}
    for name, value in numbers.items():
        if value is not None and value % 1:
            yield FieldError(name, f"{value:g} is not a whole number")
    year = _number(request, "year")
    if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
        yield FieldError("year", f"{year:g} is not a year of training software", f"{FIRST_YEAR} to {LAST_YEAR}")
    gpus = numbers["n_gpus"]
    if gpus is not None and gpus > MOST_GPUS:
        yield FieldError("n_gpus", f"{gpus:g} is more than a run can have here", f"at most {MOST_GPUS}")
    product = math.prod(numbers[name] or 1 for name in ("tp", "pp", "dp", "cp"))
    stated = numbers["dp"] is not None
    if gpus is not None and (product != gpus if stated else gpus % product):
        text = "tp x pp x dp x cp" if stated else "tp x pp x cp"
        yield FieldError("n_gpus", f"{gpus:g} is not {'' if stated else 'a multiple of '}{text} = {product:g}")
    experts, top_k = numbers["n_experts"], numbers["top_k"]
    if experts is not None and experts > 1 and (top_k is None or top_k > experts):
        yield FieldError("top_k", "is missing or above n_experts: experts a token visits", f"1 to {experts:g}")


def _layout_faults(run: ExplicitRun) -> Iterator[FieldError]:
    """What no framework would run or no network carries: :mod:`app.engine.training.layouts` offers the search no such layout
    either. Heads and layers of a shape that is only described may be guesses, so that they refuse nothing but more stages
    than layers."""
    shape, layout = run.job.shape, run.layouts
    tp, pp, dp, ep, cp, vp = (int(getattr(layout, name)[0]) for name in ("tp", "pp", "dp", "ep", "cp", "vp"))
    platform = run.platform
    if platform.scale_out is None and float(np.max(layout.gpus)) > platform.gpus_per_server:
        text = f"no network is usual for {platform.gpu.name}: give its kind and inter_gbit_per_node"
        yield FieldError("inter_kind", text, ", ".join(INTER_KINDS))
    guessed = shape.origin == "inferred"
    if tp > 1 and not guessed and not divides_heads(tp, shape.heads, shape.kv_heads):
        yield FieldError("tp", f"{tp} does not divide the {shape.heads} heads ({shape.kv_heads} KV heads) of {shape.name}")
    if pp > 1 and (pp * vp > shape.layers if guessed else not nearly_equal(shape.layers, np.array(pp * vp))):
        cut = f"{pp} stages" if vp == 1 else f"{pp} stages x {vp} virtual stages"
        yield FieldError("pp", f"the {shape.layers} layers of {shape.name} do not split into {cut} of equal length")
    if ep > 1 and not shape.is_moe:
        yield FieldError("ep", f"{shape.name} has no experts to spread", "1")
    elif ep > 1 and (shape.experts % ep or (tp * dp * cp) % ep):
        yield FieldError("ep", f"{ep} does not divide the {shape.experts} experts and the tp x dp x cp = {tp * dp * cp} ranks")
    if run.job.seq_len % cp:
        yield FieldError("cp", f"{cp} does not divide the {run.job.seq_len} tokens of a sequence")
    taken = float(np.min(layout.dp * layout.micro_batch))
    if taken > run.job.global_batch_sequences:
        text = f"{run.job.global_batch_sequences:g} is less than one micro-batch on each data-parallel rank: {taken:g} sequences"
        yield FieldError("global_batch_seqs", text, f"at least {taken:g}")


def _size_faults(run: ExplicitRun, request: Mapping[str, Any]) -> Iterator[FieldError]:
    """A stated size that is not the catalogue model's."""
    shape, stated = run.job.shape, _number(request, "params_b")
    if shape.origin == "catalog" and stated is not None and abs(stated / shape.params_b - 1) > SAME_SIZE:
        yield FieldError("params_b", f"{stated:g} is not the size of {shape.name}: {shape.params_b:g} billion; leave one of the two out")


def _precision_faults(run: ExplicitRun, request: Mapping[str, Any]) -> Iterator[FieldError]:
    """A precision that the GPU has no arithmetic for."""
    gpu, asked = run.platform.gpu, PRECISIONS[_given(request, "precision")]
    rates = {"bf16": gpu.bf16_tflops, "fp8": gpu.fp8_tflops, "fp4": gpu.fp4_tflops}
    if _given(request, "precision") not in ("", "auto") and asked in rates and rates[asked] is None:
        known = [name for name, rate in {"fp16": gpu.fp16_tflops, **rates}.items() if rate is not None]
        yield FieldError("precision", f"{gpu.name} has no {asked} rate in the catalogue", ", ".join(known))


def _run_entry(found: Prediction) -> dict[str, Any]:
    """What was understood of the request, defaults included."""
    job, platform = found.run.job, found.run.platform
    network = platform.scale_out
    return {
        "model": job.shape.name,
        "model_origin": job.shape.origin,
        "params_b": job.shape.params_b,
        "active_params_b": job.shape.active_params_b,
        "task": job.task,
        "seq_len": job.seq_len,
        "precision": job.precision,
        "optimizer": job.optimizer,
        **({"lora_rank": job.lora_rank, "base_bits": job.base_bits} if job.frozen_base else {}),
        "flash_attention": job.flash_attention,
        "software_year": job.software_year,
        "gpu": platform.gpu.id,
        "n_gpus": int(found.gpus),
        "gpus_per_node": platform.gpus_per_server,
        "intra_kind": platform.scale_up.kind if found.gpus > 1 else "none",
        "inter_kind": network.kind if network else "none",
        **({"inter_gbit_per_node": network.nic_gbit_per_s * network.nics_per_server} if network else {}),
    }


def _goodput(found: Prediction) -> dict[str, float]:
    """What failures and checkpoints leave of the run's time, and how often both come; see :mod:`app.engine.training.goodput`."""
    gpus = found.gpus
    checkpoint_s = checkpoint_time_s(saved_bytes(found.run.job), gpus)
    return {
        "fraction": float(goodput_fraction(gpus, checkpoint_s)),
        "hours_between_failures": float(time_between_failures_s(gpus)) / SECONDS_PER_HOUR,
        "checkpoint_s": float(checkpoint_s),
        "checkpoint_every_s": float(best_checkpoint_interval_s(gpus, checkpoint_s)),
        "restart_s": RESTART_S,
    }


def _days(request: Mapping[str, Any], tokens_per_s: float, goodput: float) -> dict[str, Any]:
    """``days`` of the run where its tokens are stated."""
    tokens_b = _number(request, "tokens_b")
    if tokens_b is None:
        return {}
    return {"days": Range.around(tokens_b * 1e9 / tokens_per_s / goodput / SECONDS_PER_DAY, *TIME_SPREAD).model_dump()}


def _leaves_layout_open(request: Mapping[str, Any]) -> bool:
    """Whether nothing is said of how the work is laid out."""
    return not any(str(request.get(name) or "") for name in LAYOUT_FIELDS)


def _searched(run: ExplicitRun, request: Mapping[str, Any]) -> dict[str, Any]:
    """All legal layouts of the GPU count, in all precisions of the GPU where none is asked for: the front, the best by each
    objective, and how many were refused for want of memory, by the component that needs most."""
    open_precision = str(request.get("precision") or "auto") == "auto"
    precisions = precisions_of(run.platform.gpu) if open_precision else (run.job.precision,)
    found = search_training(run.job, run.platform, (int(run.layouts.gpus[0]),), precisions)
    best = {objective: found.best(objective) for objective in OBJECTIVES}
    return {
        "layouts": found.evaluated,
        "refused": {name: each.by_component() for name, each in found.refused.items()},
        "best": {objective: _choice_entry(choice) for objective, choice in best.items() if choice is not None},
        "front": [_choice_entry(choice) for choice in found.front],
    }


def _choice_entry(choice: Choice) -> dict[str, Any]:
    return {
        "layout": {"precision": choice.precision, **described(choice.found.layout)},
        "step_s": Range.around(choice.step_s, *TIME_SPREAD).model_dump(),
        "peak_mem_gb": Range.around(choice.total_bytes / GB, *MEMORY_SPREAD).model_dump(),
    }
