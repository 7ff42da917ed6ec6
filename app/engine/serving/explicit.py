"""One explicit serving point from the columns of a request or a measured row to a prediction."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from app.catalog.loader import Catalog
from app.catalog.model_shape import ModelShape
from app.catalog.schema import Gpu
from app.engine.collective_request import link_kind, network_from, scale_up_from
from app.engine.compute import peak_flops
from app.engine.links import recommended_network
from app.engine.platform import FabricKind, Platform, ScaleOut
from app.engine.serving.constants import LATEST_YEAR, engine_row, release_year, serving_constants
from app.engine.serving.engine_log import EngineLog, engine_log
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory_rules import version_number
from app.engine.serving.point import ServingPoint, held_by_memory, serve
from app.workload.inferred import shape_from_size
from app.workload.profile import FieldError, ProfileError

WEIGHTS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "fp8": "fp8", "int8": "int8", "int4": "int4", "fp4": "fp4",
           "nvfp4": "fp4", "mxfp4": "fp4", "gguf": "gguf", "exl": "int4", "mixed": "int8"}  # fmt: skip
CACHES = {"bf16": "bf16", "fp16": "bf16", "fp32": "fp32", "fp8": "fp8", "": "", "auto": ""}
ENGINES = ("vllm", "sglang", "tensorrt_llm", "lmdeploy")
RELEASE_BY_YEAR = {"vllm": {2023: "0.2", 2024: "0.6", 2025: "0.10"}, "sglang": {2023: "0.1", 2024: "0.3", 2025: "0.4"}}
"""Release in the middle of a year; other engines have one set of memory rules."""
DEFAULT_LENGTH = 8192.0
SOCKETS = r"pod network|kubernetes|sockets|tcp"
"""How descriptions name a network without RDMA."""
PCIE_SWITCHES = r"\bpix\b|\bpxb\b|pcie switch"
"""Topology words for GPUs that reach each other through PCIe switches (nvidia-smi topo)."""
PCIE_WIDTHS = (1, 2, 4, 8, 16)
UNSTATED_TCP_GBIT = 25.0
"""A sockets network whose speed nobody states is the ordinary one of a server: 25 GbE (assumption)."""
IN_PROCESS = r"static batch|first-token latency|run to completion|batch latency|tokens.*/ ?latency|total tokens \(input"
"""How descriptions name a benchmark without a server."""
PIPELINES = (1, 2, 4, 8)
TENSORS = (1, 2, 4, 8, 16)


def explicit_point(columns: Mapping[str, Any], catalog: Catalog) -> ServingPoint:
    """The point that columns of ``inference.csv`` (as text or numbers) describe; an open layout becomes the best one.

    Raises:
        ProfileError: something a prediction needs is missing or wrong; every fault is named.
    """
    errors: list[FieldError] = []
    gpu = _gpu(columns, catalog, errors)
    shape = _shape(columns, catalog, errors)
    names = (
        "isl",
        "osl",
        "concurrency_or_batch",
        "request_rate_rps",
        "n_gpus_per_replica",
        "n_gpus_total",
        "tp",
        "pp",
        "ep",
        "dp",
        "year",
        "beams",
    )
    number = {name: _number(columns, name, errors) for name in names}
    if number["isl"] is None and not any(error.field == "isl" for error in errors):
        errors.append(FieldError("isl", "is missing: prompt tokens of one request", "at least 1"))
    weights = _weights(columns, shape, errors)
    cache = CACHES.get(str(columns.get("kv_kind") or columns.get("kv_precision") or "").strip().lower(), "")
    if errors or gpu is None or shape is None:
        raise ProfileError(errors)
    engine = str(columns.get("engine_kind") or columns.get("engine") or "vllm").strip().lower().replace("-", "_") or "vllm"
    outputs = number["osl"] or 1.0
    job = ServingJob(
        shape=shape,
        weights=weights,
        kv_cache=cache or "bf16",
        input_tokens=number["isl"] or 1.0,
        output_tokens=outputs,
        max_context_tokens=(number["isl"] or 1.0) + outputs,
        engine=engine if engine in ENGINES else "vllm",
        engine_version=engine_version(columns),
        year=release_year(engine, str(columns.get("engine_version") or ""), number["year"]),
    )
    points = [_loaded(point, number, columns) for point in _points(job, gpu, columns, number)]
    if len(points) == 1:
        return points[0]
    fitting = [point for point in points if held_by_memory(point) >= 1.0] or points[-1:]
    return max(fitting, key=lambda point: serve(point).output_tokens_per_s)


def engine_version(columns: Mapping[str, Any]) -> str:
    """The release named, or the one that was current in the year stated; empty = the newest known."""
    named = str(columns.get("engine_version") or "")
    if version_number(named) is not None:
        return named
    year = _number(columns, "year", []) or LATEST_YEAR
    engine = str(columns.get("engine_kind") or columns.get("engine") or "vllm").strip().lower()
    releases = RELEASE_BY_YEAR.get(engine, RELEASE_BY_YEAR["vllm"])
    return "" if year >= int(LATEST_YEAR) else releases[max(min(int(year), 2025), 2023)]


def explicit_server(columns: Mapping[str, Any], catalog: Catalog) -> tuple[ServingPoint, EngineLog]:
    """The server that columns of ``serving_memory.csv`` describe, and what it logs when it starts.

    Raises:
        ProfileError: something a prediction needs is missing or wrong; every fault is named.
    """
    errors: list[FieldError] = []
    names = ("max_model_len", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "isl", "osl", "tp", "ep", "n_gpus")
    number = {name: _number(columns, name, errors) for name in names}
    if errors:
        raise ProfileError(errors)
    asked = (number["isl"] or 0.0) + (number["osl"] or 0.0)
    filled = {**columns, "isl": number["isl"] or 1.0}
    if not columns.get("n_gpus_per_replica") and number["tp"] is None and number["n_gpus"] is not None:
        filled["tp"] = number["n_gpus"]
    point = explicit_point(filled, catalog)
    longest = number["max_model_len"] or asked or float(point.job.shape.max_context or DEFAULT_LENGTH)
    job = replace(point.job, max_context_tokens=longest)
    notes = str(columns.get("notes") or "").lower()
    draft = re.search(r"\bmtp (\d)", notes)
    log = engine_log(
        job,
        point.platform,
        point.layout,
        longest=longest,
        fraction=number["gpu_memory_utilization"],
        batch_tokens=number["max_num_batched_tokens"],
        sequences=number["max_num_seqs"],
        captures=str(columns.get("cuda_graphs") or "yes") != "no",
        prefix_caching="prefix caching" in notes and "prefix caching off" not in notes,
        draft_tokens=int(draft.group(1)) if draft else 0,
    )
    if number["max_model_len"] is None and not asked and log.pool > 0:
        # The length a server was started with is not known: it was one that fits.
        log = replace(log, fits=True)
    return replace(point, job=job), log


def _points(job: ServingJob, gpu: Gpu, columns: Mapping[str, Any], number: Mapping[str, float | None]) -> list[ServingPoint]:
    """The stated layout, or every one that a stated number of GPUs leaves open, without a load."""
    pp = number["pp"] or 1.0
    tp, ep, dp = number["tp"], number["ep"] or 1.0, number["dp"] or 1.0
    per = number["n_gpus_per_replica"]
    total = number["n_gpus_total"] or (per or (tp or 1.0) * pp) * (dp if per is None else 1.0)
    heads = job.shape.heads or 1
    if tp is None and ep <= 1:
        whole = per or total
        widths = [float(n) for n in TENSORS if n <= whole and heads % n == 0 and whole % n == 0]
        stated_one = per is not None and per == total
        widths = widths[-1:] if stated_one and columns.get("mode") == "single_stream" else widths
        choices = [(width, pp, 1.0) for width in widths]
    elif ep > 1 and dp > 1:
        width = max(tp or 1.0, ep)
        choices = [(width, pp, min(dp, width))]
    elif tp is not None and dp == tp == (per or 0.0) and dp > 1:
        choices = [(tp, pp, dp)]
    else:
        choices = [(tp or ep, pp, 1.0)]
    found = []
    for width, stages, groups in choices:
        gpus = width * stages
        platform = _platform(columns, gpu, int(gpus))
        layout = ServingLayout(tp=np.array(width), pp=np.array(stages), attention_dp=np.array(groups))
        found.append(ServingPoint(job=job, platform=platform, layout=layout, replicas=max(int(total // gpus), 1)))
    return found


def _loaded(point: ServingPoint, number: Mapping[str, float | None], columns: Mapping[str, Any]) -> ServingPoint:
    """The point with its load: concurrency, rate or a burst, shared evenly by the replicas."""
    mode = str(columns.get("mode") or "")
    flight, rate = number["concurrency_or_batch"], number["request_rate_rps"]
    notes = str(columns.get("notes") or "").lower()
    limit = _batch_limit(point, str(columns.get("engine_version") or ""))
    point = replace(point, batch_limit=limit, served=re.search(IN_PROCESS, notes) is None)
    beams = number.get("beams") or 1.0
    point = replace(point, beams=beams)
    if mode == "single_stream":
        return replace(point, in_flight=1.0)
    burst = _burst(notes)
    if burst:
        longest = re.search(r"cap (\d+)", notes)
        point = replace(
            point,
            burst=max(burst / point.replicas, 1.0),
            uneven="sharegpt" in notes and not _round_lengths(number),
            longest_output=float(longest.group(1)) if longest else None,
        )
    if mode != "offline_max_throughput" and rate and not flight:
        return replace(point, requests_per_s=rate / point.replicas)
    if not flight:
        return point
    asked = re.search(r"\b(\d+) (?:prompts|requests)\b", notes)
    requests = float(asked.group(1)) / point.replicas if asked else None
    return replace(point, in_flight=max(flight / point.replicas, 1.0), requests=requests)


def _round_lengths(number: Mapping[str, float | None]) -> bool:
    """Whether prompt and answer are synthetic: whole tens of tokens."""
    lengths = [number[name] for name in ("isl", "osl") if number[name] is not None]
    return all(length is not None and length % 10 == 0 for length in lengths)


def _batch_limit(point: ServingPoint, version: str) -> float:
    """Sequences an engine decodes together by default in the version named; the newest calibrated one's where none is."""
    row = engine_row(serving_constants(), point.job.engine)
    small = (point.platform.gpu.memory_gb or 0.0) < 70.0
    if point.job.engine == "vllm" and (small or point.job.year < 2025):
        return float(row["small_batch_limit"])
    return float(row["batch_limit"])


def _burst(notes: str) -> float | None:
    found = re.search(r"(?:all|over|sharegpt) (\d+) (?:prompts|requests)|(\d+)/\d+ requests", notes)
    return float(found.group(1) or found.group(2)) if found else None


def _platform(columns: Mapping[str, Any], gpu: Gpu, gpus: int) -> Platform:
    """GPU, links and network as stated; a network left open is the one such servers are usually bought with."""
    usual = 8 if gpu.has_fast_scale_up else 1 if gpu.id == "gb10" else 8
    stated = str(columns.get("intra_kind") or "").replace("none", "") or link_kind(str(columns.get("intra_link") or ""))
    across = str(columns.get("inter_kind") or columns.get("inter_link") or "") not in ("", "none")
    count = min(gpus, usual)
    if across and gpus <= usual:
        count = max(gpus // 2, 1) if gpu.id != "gb10" else 1
    scale_up = scale_up_from("" if stated == "nvlink" else stated, str(columns.get("intra_p2p") or ""), gpu, max(count, 2))
    assert scale_up is not None
    if scale_up.kind.startswith("pcie") and re.search(PCIE_SWITCHES, str(columns.get("intra_link") or "").lower()):
        scale_up = replace(scale_up, switched=True)
    lanes = re.search(r"pcie[^,;]*?x(\d+)", str(columns.get("intra_link") or "").lower())
    if lanes and scale_up.kind.startswith("pcie") and int(lanes.group(1)) in PCIE_WIDTHS:
        width = int(lanes.group(1))
        rate_now = scale_up.bandwidth_bytes_per_s * width / scale_up.pcie_lanes
        scale_up = replace(scale_up, pcie_lanes=width, bandwidth_bytes_per_s=rate_now)
    network: ScaleOut | None = None
    inside = max(count, min(scale_up.domain_gpus, gpus)) if scale_up.kind.endswith("nvl72") else count
    if gpus > inside or across:
        kind, rate = str(columns.get("inter_kind") or ""), _number(columns, "inter_gbit_per_node", [])
        if kind not in ("", "none") and rate is not None:
            network = ScaleOut(kind=cast(FabricKind, kind), nic_gbit_per_s=rate, nics_per_server=1, gpudirect=kind != "tcp")
        elif re.search(SOCKETS, str(columns.get("inter_link") or "").lower()) and rate is None:
            network = ScaleOut(kind="tcp", nic_gbit_per_s=UNSTATED_TCP_GBIT, nics_per_server=1, gpudirect=False)
        else:
            network = network_from(str(columns.get("inter_link") or ""), gpu) if columns.get("inter_link") else None
            network = network or recommended_network(gpu, "ethernet" if kind in ("ethernet", "roce") else "infiniband")
            network = network or recommended_network(gpu, "ethernet")
            if kind == "tcp" and network is not None:
                network = ScaleOut(kind="tcp", nic_gbit_per_s=UNSTATED_TCP_GBIT, nics_per_server=1, gpudirect=False)
    return Platform(gpu=gpu, gpus_per_server=inside, scale_up=scale_up, scale_out=network)


def _gpu(columns: Mapping[str, Any], catalog: Catalog, errors: list[FieldError]) -> Gpu | None:
    name = str(columns.get("gpu_id") or columns.get("gpu") or "")
    gpu = catalog.find_gpu(name) if name else None
    if gpu is None:
        near = ", ".join(catalog.suggest_gpus(name)) if name else ""
        errors.append(FieldError("gpu_id", f"{name!r} is not in the catalogue" if name else "is missing", near))
    elif gpu.memory_gb is None or gpu.memory_bandwidth_gb_per_s is None or peak_flops(gpu, "bf16") is None:
        errors.append(FieldError("gpu_id", f"the catalogue lacks memory, bandwidth or 16-bit rate of {gpu.name}"))
        return None
    return gpu


def _shape(columns: Mapping[str, Any], catalog: Catalog, errors: list[FieldError]) -> ModelShape | None:
    """Catalogue shape of ``catalog_model`` or ``model``, else an architecture inferred from ``params_b``."""
    for field in ("catalog_model", "model"):
        name = str(columns.get(field) or "")
        known = catalog.find_model(name) if name else None
        if known is not None and known.has_layers:
            return known
    params, active = (_number(columns, name, errors) for name in ("params_b", "active_params_b"))
    if params is None:
        errors.append(FieldError("catalog_model", "is not in the catalogue: give a known model or params_b", "greater than 0"))
        return None
    return shape_from_size(params, active)


def _weights(columns: Mapping[str, Any], shape: ModelShape | None, errors: list[FieldError]) -> str:
    text = str(columns.get("weight_kind") or columns.get("weight_precision") or "auto").strip().lower()
    if text == "auto":
        return shape.native_precision if shape is not None else "bf16"
    if text not in WEIGHTS:
        errors.append(FieldError("weight_kind", f"{text!r} is not known", ", ".join(sorted(WEIGHTS))))
        return "bf16"
    return WEIGHTS[text]


def _number(columns: Mapping[str, Any], field: str, errors: list[FieldError]) -> float | None:
    """A positive number; blank is None, anything else is a fault."""
    value = columns.get(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number <= 0 or number > 1e9:
        errors.append(FieldError(field, f"{value!r} is not a number above 0", "at most 1e9"))
        return None
    return number
