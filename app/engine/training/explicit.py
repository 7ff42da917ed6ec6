"""One explicit training run: from the columns of a request or a measured row to a prediction."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from app.catalog.loader import Catalog
from app.catalog.model_shape import ModelShape
from app.catalog.schema import Gpu
from app.engine.collective_request import link_kind, network_from, scale_up_from
from app.engine.compute import peak_flops
from app.engine.links import recommended_network
from app.engine.platform import FabricKind, Platform, ScaleOut
from app.engine.training.job import OFFLOAD, OPTIMIZER_BYTES, RECOMPUTE, SHARDING, TrainingJob, TrainingLayout
from app.engine.training.layouts import INTERLEAVED, MICRO_BATCHES, legal_splits
from app.engine.training.memory import training_memory_bytes
from app.engine.training.search import usable_bytes
from app.engine.training.sizing import MEMORY_SPREAD
from app.engine.training.step import StepTime, step_time
from app.workload.architecture import parameter_counts
from app.workload.inferred import shape_from_size
from app.workload.profile import FieldError, ProfileError

NUMBERS = (
    "n_gpus", "gpus_per_node", "tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "global_batch_seqs", "year", "lora_rank", "shard_ranks",
)  # fmt: skip
LAYOUT_FIELDS = ("tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "recompute", "sharding", "shard_ranks", "offload")
"""Columns that say how the work is laid out."""
PRECISIONS = {"": "bf16", "auto": "bf16", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "fp4": "fp4",
              "mxfp4": "fp4", "tf32": "fp32", "fp32": "fp32"}  # fmt: skip
SHARDING_NAMES = {"none": "none", "ddp": "none", "zero1": "zero1", "zero2": "zero2", "zero3": "zero3", "fsdp": "zero3", "hsdp": "zero3"}
TASKS = {"": "pretraining", "pretrain": "pretraining", "pretraining": "pretraining", "sft": "full", "full": "full",
         "finetuning": "full", "lora": "lora", "qlora": "qlora"}  # fmt: skip
DEFAULT_LORA_RANK = 16
"""Rank of most published recipes: 8 to 64."""
QLORA_BITS = 4.5
"""NF4 with its block scales (arXiv 2305.14314: 4 bits and 0.127 to 0.5 bits of constants)."""
UNPADDED_FILL = 0.45
"""Mean length over the maximum of BERT pretraining sequences where padding is not computed (MLPerf training, BERT)."""
NARROW_BY_HABIT = ("hopper", "blackwell")
"""Generations on which record attempts that do not state a precision are taken to use fp8, as those that state it do."""
FILLED_PIPELINE = 8.0
"""Micro-batches per pipeline stage where no batch is stated: enough to make the bubble small, as runs are set up."""
FUSED_LOGIT_SHARE = 0.4
"""Share of the logits' memory a fused loss leaves: one 16-bit and half a 32-bit copy of three or four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitRun:
    """A run as described. ``layouts`` holds one layout, or every one the description leaves open."""

    job: TrainingJob
    platform: Platform
    layouts: TrainingLayout
    micro_step: bool = False
    """The step asked for is one micro-batch, not an optimizer step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the engine says about a run; plain numbers of its one (or best) layout."""

    run: ExplicitRun
    layout: TrainingLayout
    step: StepTime
    step_s: float
    memory_bytes: dict[str, float]
    fits: bool
    """Whether the low end of the memory range fits: False means it surely does not."""

    @property
    def gpus(self) -> float:
        """GPUs of the layout."""
        return float(self.layout.gpus[0])

    @property
    def tokens_s_gpu(self) -> float:
        """Tokens (positions, padding included) per second and GPU."""
        return self.run.job.global_batch_sequences * self.run.job.seq_len / self.optimizer_step_s / self.gpus

    @property
    def optimizer_step_s(self) -> float:
        """Seconds of a whole optimizer step."""
        return float(self.step.step_s[0])

    @property
    def total_bytes(self) -> float:
        """Memory of one GPU, all components."""
        return sum(self.memory_bytes.values())


def predict(run: ExplicitRun) -> Prediction:
    """Step time and memory of a run. What it leaves open (micro-batch, recomputation, splits) is chosen: the fastest
    layout that fits, or the smallest where none does."""
    memory = training_memory_bytes(run.job, run.layouts)
    total = np.sum(list(memory.values()), axis=0)
    usable = usable_bytes(run.platform)
    fits = total <= usable
    if total.size == 1:
        index = 0
    elif fits.any():
        index = int(np.argmin(np.where(fits, step_time(run.job, run.platform, run.layouts).step_s, np.inf)))
    else:
        index = int(np.argmin(total))
    layout = run.layouts.take(np.array([index]))
    step = step_time(run.job, run.platform, layout)
    seconds = float(step.step_s[0])
    if run.micro_step:
        seconds /= max(run.job.global_batch_sequences / float(layout.dp[0] * layout.micro_batch[0]), 1.0)
    parts = {name: float(value[index]) for name, value in memory.items()}
    lean = sum(parts.values()) - (1 - FUSED_LOGIT_SHARE) * parts["logits"]
    may_fit = lean * MEMORY_SPREAD[0] <= usable
    return Prediction(run=run, layout=layout, step=step, step_s=seconds, memory_bytes=parts, fits=may_fit)


def explicit_run(columns: Mapping[str, Any], catalog: Catalog) -> ExplicitRun:
    """The run that columns of ``training.csv`` (as text or numbers) describe.

    Raises:
        ProfileError: something a prediction needs is missing or wrong; every fault is named.
    """
    errors: list[FieldError] = []
    gpu = _gpu(columns, catalog, errors)
    shape = _shape(columns, catalog, errors)
    text = f"{columns.get('software') or ''} {columns.get('notes') or ''}".lower()
    seq_len = positive_number(columns, "seq_len", errors) or _longest_sample(text)
    if seq_len is None:
        errors.append(FieldError("seq_len", "is missing: tokens of one sequence", "greater than 0"))
    names = {
        "precision": PRECISIONS,
        "task": TASKS,
        "sharding": {**SHARDING_NAMES, "": ""},
        "recompute": {name: name for name in ("", *RECOMPUTE)},
        "offload": {"": _offloaded(text), **{name: name for name in OFFLOAD}},
        "optimizer": {"": "adamw", **{name: name for name in OPTIMIZER_BYTES}},
    }
    chosen = {field: _choice(columns, field, table, errors) for field, table in names.items()}
    numbers = {field: positive_number(columns, field, errors) for field in NUMBERS}
    if errors or gpu is None or shape is None or seq_len is None:
        raise ProfileError(errors)
    if gpu.bf16_tflops is None and gpu.fp16_tflops is not None and str(columns.get("precision") or "auto") == "auto":
        chosen["precision"] = "fp16"
    gpus = numbers["n_gpus"] or math.prod(numbers[name] or 1 for name in ("tp", "pp", "dp", "cp"))
    platform = _platform(columns, gpu, int(gpus), numbers["gpus_per_node"])
    frozen = chosen["task"] in ("lora", "qlora")
    # A time to a quality target is what audited competition entries report, and those run hand-tuned software.
    if "assumed for sharding" in text:  # what a table does not state, whoever copied it, is open
        chosen["sharding"] = ""
    tuned = bool(columns.get("metric_time_to_train_min"))
    if tuned and not columns.get("precision") and gpu.vendor == "nvidia" and gpu.fp8_tflops and gpu.generation in NARROW_BY_HABIT:
        chosen["precision"] = "fp8"
    unpadded = shape.modality == "encoder" and bool(columns.get("global_batch_seqs")) and "unpadded" in text
    job = TrainingJob(
        shape=shape,
        task=chosen["task"],
        seq_len=int(seq_len),
        global_batch_sequences=numbers["global_batch_seqs"] or 0.0,
        optimizer=chosen["optimizer"],
        precision=chosen["precision"],
        lora_rank=int(numbers["lora_rank"] or DEFAULT_LORA_RANK) if frozen else 0,
        base_bits=QLORA_BITS if chosen["task"] == "qlora" else 8.0 if chosen["precision"] in ("fp8", "fp4") else 16.0,
        flash_attention=unpadded or (shape.modality != "encoder" and (numbers["year"] or 2026) >= 2023) or "flash" in text,
        software_year=numbers["year"] or 2026.0,
        fill=UNPADDED_FILL if unpadded else 1.0,
        tuned=tuned,
        eager=_runs_eagerly(text),
        fused_loss="liger" in text and "without liger" not in text,
    )
    if not numbers["shard_ranks"]:
        hybrid = str(columns.get("sharding") or "").lower() == "hsdp"
        numbers["shard_ranks"] = float(platform.gpus_per_server) if hybrid else stated_shard_group(text)
    layouts = _layouts(job, platform, int(gpus), numbers, chosen)
    if job.global_batch_sequences == 0.0:
        filled = layouts.dp * layouts.micro_batch * np.where(layouts.pp > 1, FILLED_PIPELINE * layouts.pp, 1.0)
        job = replace(job, global_batch_sequences=float(np.max(filled)))
    return ExplicitRun(job=job, platform=platform, layouts=layouts, micro_step="micro iteration" in text)


def _layouts(
    job: TrainingJob, platform: Platform, gpus: int, numbers: Mapping[str, float | None], chosen: Mapping[str, str]
) -> TrainingLayout:
    """The described layout, with every choice for what is left open."""
    rows: list[tuple[float, ...]] = []
    for tp, pp, dp, ep, cp in _splits(job, platform, gpus, numbers):
        batch = job.global_batch_sequences
        stated = numbers["micro_batch"]
        if stated and pp > 1 and batch and batch <= stated * dp:
            stated = 1.0  # a pipeline fed with one micro-batch would idle: what is stated is the batch of a rank
        limit = max(batch / dp, 1.0) if batch else 1.0
        micro = [stated] if stated else [float(value) for value in MICRO_BATCHES if value <= limit]
        recompute = [chosen["recompute"]] if chosen["recompute"] else list(RECOMPUTE)
        sharding = [chosen["sharding"]] if chosen["sharding"] else _shardings(job, dp * cp, pp)
        for size, kept, shared in itertools.product(micro, recompute, sharding):
            for vp in _interleavings(job, pp, batch / (dp * size), numbers["vp"]):
                rows.append((tp, pp, dp, ep, cp, vp, size, float(RECOMPUTE.index(kept)), float(SHARDING.index(shared))))
    columns = np.array(rows, dtype=float).T
    names = ("tp", "pp", "dp", "ep", "cp", "vp", "micro_batch", "recompute", "sharding")
    everywhere = {"shard_ranks": numbers["shard_ranks"] or 0.0, "offload": float(OFFLOAD.index(chosen["offload"]))}
    return TrainingLayout(
        **dict(zip(names, columns, strict=True)), **{name: np.full(len(rows), value) for name, value in everywhere.items()}
    )


def _shardings(job: TrainingJob, replicas: float, pp: float) -> list[str]:
    """How replicas share state where nothing is said: a distributed optimizer; without a pipeline, weights and gradients, too,
    should they not fit whole. Adapters need neither."""
    if replicas == 1 or job.frozen_base:
        return ["none"]
    return ["zero1", "zero3"] if pp == 1 else ["zero1"]


def _splits(job: TrainingJob, platform: Platform, gpus: int, numbers: Mapping[str, float | None]) -> list[tuple[float, ...]]:
    """(tp, pp, dp, ep, cp) as stated, absent ones 1 and dp the rest; all legal ones where none is stated."""
    given = {name: numbers[name] for name in ("tp", "pp", "dp", "cp") if numbers[name] is not None}
    if not given and gpus > 1:
        batch = job.global_batch_sequences or float(gpus)
        legal = legal_splits(replace(job, global_batch_sequences=batch), platform, gpus)
        if legal is not None:
            return legal.rows()
    tp, pp, cp = (given.get(name) or 1.0 for name in ("tp", "pp", "cp"))
    return [(tp, pp, given.get("dp") or max(gpus / (tp * pp * cp), 1.0), numbers["ep"] or 1.0, cp)]


def _interleavings(job: TrainingJob, pp: float, micro_batches: float, stated: float | None) -> list[float]:
    """Virtual stages per rank: as stated; from 2023 on any usual number that divides the stage's layers, where the
    micro-batches (0: not stated) make whole rounds over the stages."""
    if stated or pp <= 1 or job.software_year < 2023 or micro_batches % pp:
        return [stated or 1.0]
    return [float(value) for value in INTERLEAVED if job.shape.layers // max(int(pp), 1) % value == 0]


def _platform(columns: Mapping[str, Any], gpu: Gpu, gpus: int, per_node: float | None) -> Platform:
    """GPU, links and network as stated; a network left open is the one such servers are usually bought with."""
    usual = 8 if gpu.has_fast_scale_up else 4
    count = int(per_node or min(gpus, usual))
    stated = str(columns.get("intra_kind") or "").replace("none", "") or link_kind(str(columns.get("intra_link") or ""))
    scale_up = scale_up_from("" if stated == "nvlink" else stated, str(columns.get("intra_p2p") or ""), gpu, max(count, 2))
    assert scale_up is not None
    network: ScaleOut | None = None
    if gpus > count or gpus > scale_up.domain_gpus:
        kind = str(columns.get("inter_kind") or "")
        rate = positive_number(columns, "inter_gbit_per_node", [])
        if kind not in ("", "none") and rate is not None:
            network = ScaleOut(kind=cast(FabricKind, kind), nic_gbit_per_s=rate, nics_per_server=1, gpudirect=kind != "tcp")
        else:
            network = network_from(str(columns.get("inter_link") or ""), gpu) if columns.get("inter_link") else None
            network = network or recommended_network(gpu, "ethernet" if kind in ("ethernet", "roce") else "infiniband")
            network = network or recommended_network(gpu, "ethernet")
    inside = max(count, min(scale_up.domain_gpus, gpus)) if scale_up.kind.endswith("nvl72") else count
    if network is not None and inside > count:
        network = replace(network, nics_per_server=network.nics_per_server * max(round(inside / count), 1))
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
    """Catalogue shape of ``catalog_model``, else the stated widths, else an architecture inferred from ``params_b``."""
    named = str(columns.get("catalog_model") or "")
    known = catalog.find_model(named) if named else None
    layers, hidden, params = (positive_number(columns, name, errors) for name in ("layers", "hidden", "params_b"))
    if known is not None and known.layers and (layers is None or layers == known.layers or known.linear_layers):
        return known
    if layers and hidden:
        return _stated_shape(columns, int(layers), int(hidden), params, errors)
    if known is None:
        model = str(columns.get("model") or "")
        known = catalog.find_model(model) if model else None
        if known is not None and known.layers and (params is None or abs(known.params_b / params - 1) < 0.1):
            return known
    if params is None:
        errors.append(FieldError("params_b", "is missing: give catalog_model, layers and hidden, or params_b", "greater than 0"))
        return None
    return shape_from_size(params)


def _stated_shape(columns: Mapping[str, Any], layers: int, hidden: int, params: float | None, errors: list[FieldError]) -> ModelShape:
    """A shape from widths; blanks take the usual value (head width 128, one KV head a head, MLP of 4 h, GPT vocabulary)."""
    number = {name: positive_number(columns, name, errors) for name in ("heads", "kv_heads", "ffn", "vocab", "n_experts", "top_k")}
    heads = int(number["heads"] or max(hidden // 128, 1))
    experts = int(number["n_experts"] or 0)
    gated = str(columns.get("gated_mlp") or "no").lower() in ("yes", "true", "1")
    ffn = int(number["ffn"] or 4 * hidden)
    model = str(columns.get("model") or "stated shape")
    encoder = "bert" in model.lower()
    shape = ModelShape(
        id=model,
        name=model,
        origin="inferred",
        modality="encoder" if encoder else "text",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=int(number["kv_heads"] or heads),
        head_dim=max(hidden // heads, 1),
        ffn_dense=0 if experts else ffn,
        gated_mlp=gated,
        vocab=int(number["vocab"] or 51_200),
        tied_embeddings=not gated,
        full_attention_layers=layers,
        mlp_layers=0 if experts else layers,
        moe_layers=layers if experts else 0,
        experts=experts,
        top_k=int(number["top_k"] or 0),
        moe_ffn=ffn if experts else 0,
        params_b=1.0,
        active_params_b=1.0,
    )
    counts = parameter_counts(shape)
    if not gated and params is None:
        params = counts.total / 1e9
    return replace(shape, params_b=params or counts.total / 1e9, active_params_b=counts.active / 1e9)


def _offloaded(text: str) -> str:
    """What the description says waits in host memory (and not that it does not)."""
    if "offload" not in re.sub(r"\b(no|without) ([a-z]+,? )?offload", "", text):
        return "none"
    return "parameters" if "offload of parameters" in text else "optimizer"


EAGER = re.compile(r"\b(deepspeed|lit-?gpt|torchtune|torchtitan|peft|transformers|accelerate|fsdp|trl|axolotl|hf)\b|fsdp_")
"""Software that runs a model as plain PyTorch modules, operation by operation."""
FUSED = re.compile(r"megatron|nemo|liger|unsloth|fused ops|(?<!no )\bcompil")
"""Software that replaces norms and activation functions by fused kernels, or compiles them."""


def _runs_eagerly(text: str) -> bool:
    """Whether the description names software that keeps what each single operation needs."""
    return bool(EAGER.search(text)) and not FUSED.search(text.replace("without liger", ""))


def stated_shard_group(text: str) -> float | None:
    """GPUs of the group that shares one copy of sharded state, where the description names one."""
    found = re.search(r"shard group [^;]*\((\d+) gpus", text)
    return float(found.group(1)) if found else None


def _longest_sample(text: str) -> float | None:
    """Longest sample of a data set of variable length, which sets the peak memory."""
    found = re.search(r"longest sample (\d+) tokens", text)
    return float(found.group(1)) if found else None


def _choice(columns: Mapping[str, Any], field: str, table: Mapping[str, str], errors: list[FieldError]) -> str:
    value = columns.get(field)
    text = "" if value is None else str(value).strip().lower()
    if text not in table:
        errors.append(FieldError(field, f"{value!r} is not known", ", ".join(name for name in table if name)))
        return ""
    return table[text]


def positive_number(columns: Mapping[str, Any], field: str, errors: list[FieldError]) -> float | None:
    """A positive number; blank is None, anything else is a fault."""
    value = columns.get(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number <= 0 or number > 1e12:
        errors.append(FieldError(field, f"{value!r} is not a number above 0", "at most 1e12"))
        return None
    return number
