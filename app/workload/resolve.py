"""From a profile to a Demand: the model found, every default filled in and listed."""

from __future__ import annotations

from typing import Any

from app.catalog.loader import Catalog
from app.catalog.model_shape import ModelShape
from app.workload import defaults, service
from app.workload.demand import DataScienceDemand, Demand, HpcDemand, PrecisionDemand, TrainingDemand, VisionDemand
from app.workload.filling import Filler
from app.workload.hf_config import ConfigError, shape_from_hf_config
from app.workload.inferred import shape_from_size
from app.workload.profile import NEEDS_MODEL, FieldError, ProfileError, WorkloadProfile
from app.workload.unused import note_unused

SERVED_TEXT = ("online_inference", "batch_inference", "embedding")
TRAINED_TEXT = ("pretraining", "finetuning", "lora")
TRAINING_DEFAULTS = {
    "epochs": ("passes", "One pass over the data"),
    "optimizer": ("", "The usual optimizer of language models; it keeps two more values for each weight"),
}
HPC_DEFAULTS = {
    "code": ("", "No application was named: a memory-bound code of the usual kind"),
    "mpi": ("", "One run stays on one GPU unless you say it can spread"),
    "fp64": ("", "Single precision is taken unless double is asked for"),
}
DATA_DEFAULTS = {
    "users": ("people", "One person at work"),
    "in_memory": ("", "Analytics on GPUs pays where the data stay in their memory"),
}
WITHOUT_LAYERS = ("asr", "diffusion_image", "diffusion_video", "other")
"""Kinds of models that are sized from their parameters alone."""


def demand_of(profile: WorkloadProfile, catalog: Catalog) -> Demand:
    """Understand a profile against a catalogue.

    Raises:
        ProfileError: unknown model or GPU (with the nearest names), a model without a usable shape, or a part
            without its demand number.
    """
    _check_gpus(profile, catalog)
    filler = Filler()
    shape = _shape(profile, catalog, filler) if profile.workload in NEEDS_MODEL else None
    if shape is not None:
        _check_kind(profile, shape)
    demand = _BUILDERS[profile.workload](profile, shape, filler)
    note_unused(profile, filler)
    _note_constraints(profile, filler)
    _note_precision(profile, shape, filler)
    precision = profile.precision
    return Demand(
        workload=profile.workload,
        shape=shape,
        precision=PrecisionDemand(weights=precision.weights, kv_cache=precision.kv_cache, training=precision.training),
        assumptions=tuple(filler.assumed),
        questions=tuple(filler.questions),
        **demand,
    )


def _check_gpus(profile: WorkloadProfile, catalog: Catalog) -> None:
    constraints = profile.constraints
    named = [(f"constraints.gpus.{number}", name) for number, name in enumerate(constraints.gpus)]
    named += [(f"constraints.exclude_gpus.{number}", name) for number, name in enumerate(constraints.exclude_gpus)]
    named += [(f"constraints.owned.{number}.gpu", item.gpu) for number, item in enumerate(constraints.owned)]
    errors = []
    found = {path: catalog.find_gpu(name) for path, name in named}
    for path, name in named:
        if found[path] is None:
            near = ", ".join(catalog.suggest_gpus(name))
            errors.append(FieldError(path, f"{name!r} is not in the catalogue" + (f"; nearest: {near}" if near else ""), "catalogue ids"))
    if errors:
        raise ProfileError(errors)
    # The same GPU under two names, and makers that leave none of the GPUs asked for, show only now.
    wanted = [gpu for path, gpu in found.items() if gpu is not None and path.startswith("constraints.gpus.")]
    excluded = {gpu.id for path, gpu in found.items() if gpu is not None and path.startswith("constraints.exclude_gpus.")}
    if wanted and all(gpu.id in excluded for gpu in wanted):
        message = "leaves none of the GPUs named in gpus; take one out of the two lists"
        raise ProfileError([FieldError("constraints.exclude_gpus", message, "not all of gpus")])
    if wanted and constraints.vendors and not any(gpu.vendor in constraints.vendors for gpu in wanted):
        makers = ", ".join(sorted({gpu.vendor for gpu in wanted}))
        raise ProfileError([FieldError("constraints.vendors", f"leaves none of the GPUs named in gpus; they are made by {makers}", makers)])


def _check_kind(profile: WorkloadProfile, shape: ModelShape) -> None:
    """A model that cannot do this kind of work is refused, where its own kind is known.

    Raises:
        ProfileError: naming the kind of work it is for.
    """
    if shape.origin == "inferred":
        return
    workload, modality = profile.workload, shape.modality
    can = {
        "asr": ("speech", *TRAINED_TEXT),
        "diffusion_image": ("image_generation", *TRAINED_TEXT),
        "diffusion_video": ("image_generation", *TRAINED_TEXT),
        "encoder": ("embedding", *TRAINED_TEXT),
        "embedding": ("embedding", *TRAINED_TEXT),
        "text": (*SERVED_TEXT, *TRAINED_TEXT),
        "text+vision": (*SERVED_TEXT, *TRAINED_TEXT, "speech"),
    }.get(modality)
    if can is not None and workload not in can:
        others = f"name a model made for {workload}, or set workload to {' or '.join(can)}"
        message = f"{shape.id} is a model for {_MADE_FOR[modality]}, not for {workload}; {others}"
        raise ProfileError([FieldError("model", message, f"workload {can[0]}")])
    if workload in TRAINED_TEXT and not (shape.has_layers and shape.vocab):
        message = f"{shape.id} cannot be sized for training, which is counted in text tokens and layers; give params_b for a text model"
        raise ProfileError([FieldError("model", message, "a model of text tokens with known layers")])


_MADE_FOR = {
    "asr": "transcription",
    "diffusion_image": "images",
    "diffusion_video": "videos",
    "encoder": "embeddings or ranking",
    "embedding": "embeddings or ranking",
    "text": "text",
    "text+vision": "text and pictures",
}


def _shape(profile: WorkloadProfile, catalog: Catalog, filler: Filler) -> ModelShape | None:
    choice = profile.model
    if choice is None:
        return None
    if choice.hf_config is not None:
        try:
            return shape_from_hf_config(choice.hf_config, params_b=choice.params_b)
        except ConfigError as error:
            raise ProfileError(
                [FieldError(f"model.hf_config.{error.key}" if error.key else "model.hf_config", error.message, error.limit)]
            ) from None
    if choice.id is None:
        assert choice.params_b is not None
        shape = shape_from_size(choice.params_b, choice.active_params_b)
        filler.note(
            "model", shape.name, "", "Only a size was given: depth, width and KV heads of published models of that size", "catalogue"
        )
        return shape
    found = catalog.find_model(choice.id)
    if found is None:
        near = ", ".join(catalog.suggest_models(choice.id))
        tried = f"; nearest: {near}" if near else ""
        raise ProfileError(
            [
                FieldError(
                    "model.id", f"{choice.id!r} is not in the catalogue{tried}; or paste its config.json or give params_b", "catalogue ids"
                )
            ]
        )
    if found.params_b <= 0 or (not found.has_layers and found.modality not in WITHOUT_LAYERS):
        if found.params_b <= 0:
            raise ProfileError([FieldError("model.id", f"the catalogue has no size for {found.id}; give params_b", "known size")])
        shape = shape_from_size(found.params_b, found.active_params_b if found.active_params_b < found.params_b else None)
        filler.note(
            "model",
            shape.name,
            "",
            f"The layers of {found.id} are not published in the catalogue; a typical architecture of its size",
            "catalogue",
        )
        return shape
    if found.id.lower() != choice.id.lower():
        filler.note("model.id", found.id, "", "Catalogue row used for the model named", "catalogue")
    return found


def _training(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    training = profile.training
    assert training is not None
    if training.tokens_b is None:
        raise ProfileError([FieldError("training.tokens_b", "is required: tokens of one pass over the data, in billions", "> 0")])
    task = {"pretraining": "pretraining", "finetuning": "finetuning", "lora": "qlora" if training.quantized_base else "lora"}[
        profile.workload
    ]
    base_bits = 16.0
    if profile.workload == "lora":
        if profile.precision.weights in ("int4", "fp4") or training.quantized_base:
            base_bits, task = 4.5, "qlora"
            filler.note("training.quantized_base", 4.5, "bits per parameter", "NF4 with its block scales", "QLoRA, arXiv 2305.14314")
        elif profile.precision.weights in ("int8", "fp8"):
            base_bits = 8.0
    filler.defaults_of(training, "training", TRAINING_DEFAULTS)
    seq_len = training.seq_len
    if seq_len is None:
        seq_len = int(filler.number(None, "training.seq_len", defaults.SEQ_LEN))
    if training.deadline_days is None:
        filler.note("training.deadline_days", "none", "days", "No deadline was given: the smallest design that holds the job is enough")
    rank = training.lora_rank
    if rank is None:
        rank = int(filler.number(None, "training.lora_rank", defaults.LORA_RANK)) if profile.workload == "lora" else 0
    return {
        "training": TrainingDemand(
            task=task,  # type: ignore[arg-type]
            tokens=training.tokens_b.scaled(1e9 * training.epochs),
            deadline_days=training.deadline_days,
            seq_len=seq_len,
            global_batch_tokens=training.global_batch_tokens,
            optimizer=training.optimizer,
            lora_rank=rank,
            base_bits=base_bits,
        )
    }


def _vision(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    vision = profile.vision_training
    assert vision is not None
    filler.defaults_of(vision, "vision_training", {"epochs": ("passes", "One pass over the data")})
    forward = filler.number(vision.flop_per_image_g, "vision_training.flop_per_image_g", defaults.VISION_GFLOP)
    return {
        "vision": VisionDemand(
            images=vision.images_m.scaled(1e6),
            epochs=vision.epochs,
            deadline_days=vision.deadline_days,
            flop_per_image=forward * 1e9 * 3,
            params=filler.number(vision.params_m, "vision_training.params_m", defaults.VISION_PARAMS_M) * 1e6,
            sample_bytes=filler.number(vision.sample_mb, "vision_training.sample_mb", defaults.SAMPLE_MB) * 1e6,
        )
    }


def _hpc(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    hpc = profile.hpc
    assert hpc is not None
    filler.defaults_of(hpc, "hpc", HPC_DEFAULTS)
    if hpc.mpi and hpc.halo_fraction is None:
        why = "Not stated: the surface of a cube of the cells each GPU holds, 6 x cells^(2/3)"
        filler.note("hpc.halo_fraction", "from the shape", "share of cells", why, "geometry")
    if hpc.problem_size_m is None and hpc.memory_gb is None:
        raise ProfileError([FieldError("hpc.problem_size_m", "is required: millions of atoms or cells (or memory_gb of one run)", "> 0")])
    return {
        "hpc": HpcDemand(
            code=hpc.code,
            problem_size=None if hpc.problem_size_m is None else hpc.problem_size_m * 1e6,
            memory_gb=hpc.memory_gb,
            halo_fraction=hpc.halo_fraction or 0.0,
            deadline_h=hpc.deadline_h,
            runs_per_day=filler.number(hpc.runs_per_day, "hpc.runs_per_day", defaults.RUNS_PER_DAY),
            mpi=hpc.mpi,
            fp64=hpc.fp64,
        )
    }


def _data_science(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    data = profile.data_science
    assert data is not None
    filler.defaults_of(data, "data_science", DATA_DEFAULTS)
    return {"data_science": DataScienceDemand(dataset_gb=data.dataset_gb, users=data.users, in_memory=data.in_memory)}


_BUILDERS = {
    "pretraining": _training,
    "finetuning": _training,
    "lora": _training,
    "online_inference": service.online,
    "batch_inference": service.offline,
    "embedding": service.embedding,
    "image_generation": service.image,
    "speech": service.speech,
    "vision_training": _vision,
    "hpc": _hpc,
    "data_science": _data_science,
}


def _note_precision(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> None:
    precision = profile.precision
    if profile.workload in SERVED_TEXT and shape is not None:
        if precision.weights == "auto":
            filler.note("precision.weights", shape.native_precision, "", "The precision the checkpoint ships in", "model card")
        if precision.kv_cache == "auto" and profile.workload != "embedding":
            filler.note("precision.kv_cache", "bf16", "", "The cache is not narrowed unless asked: narrowing can change answers")
    if profile.workload in TRAINED_TEXT and precision.training == "auto":
        filler.note("precision.training", "bf16", "", "The usual arithmetic of training; fp8 is taken when asked for")


def _note_constraints(profile: WorkloadProfile, filler: Filler) -> None:
    constraints = profile.constraints
    stated = constraints.model_fields_set
    if "horizon_years" not in stated:
        filler.note(
            "constraints.horizon_years", constraints.horizon_years, "years", "Usual depreciation of IT equipment starts at three years"
        )
    if constraints.max_gpus is None and not constraints.gpus:
        filler.note(
            "constraints.gpus", "any on sale", "", "No GPU was named, so every current one with a known server is considered", "catalogue"
        )
    if "availability" not in stated:
        filler.note("constraints.availability", "none", "", "No redundancy was asked for; N+1 adds a server")
    if "objective" not in stated:
        filler.note("constraints.objective", constraints.objective, "", "The cheapest design that meets every limit comes first")
    if "deployment" not in stated:
        filler.note("constraints.deployment", constraints.deployment, "", "Bought and rented hardware are compared")
    if "growth_per_year" not in stated:
        filler.note("constraints.growth_per_year", 0, "per year", "Sized for today's load")
