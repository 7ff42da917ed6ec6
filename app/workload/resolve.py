"""From a profile to a Demand: the model found, every default filled in and listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.catalog.loader import Catalog
from app.catalog.model_shape import ModelShape
from app.ranges import Range
from app.workload import defaults
from app.workload.demand import (
    Assumed,
    BatchDemand,
    DataScienceDemand,
    Demand,
    HpcDemand,
    ImageDemand,
    PrecisionDemand,
    ServingDemand,
    SpeechDemand,
    TrainingDemand,
    VisionDemand,
)
from app.workload.hf_config import ConfigError, shape_from_hf_config
from app.workload.inferred import shape_from_size
from app.workload.profile import DEMANDS, FieldError, ProfileError, Serving, WorkloadProfile


@dataclass
class Filler:
    """Collects what was assumed while values are filled in."""

    assumed: list[Assumed] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    def note(self, field_name: str, value: Any, unit: str, why: str, source: str = "convention") -> None:
        """Record an assumption."""
        self.assumed.append(Assumed(field=field_name, value=value, unit=unit, why=why, source=source))

    def number(self, stated: float | None, field_name: str, default: defaults.Default) -> float:
        """The stated value, or the default with its reason recorded."""
        if stated is not None:
            return float(stated)
        self.note(field_name, default.value, default.unit, default.why, default.source)
        return float(default.value)

    def mid(self, stated: Range | None, field_name: str, default: defaults.Default) -> float:
        """Middle of a stated range, or the default."""
        return self.number(None if stated is None else stated.mid, field_name, default)


def demand_of(profile: WorkloadProfile, catalog: Catalog) -> Demand:
    """Understand a profile against a catalogue.

    Raises:
        ProfileError: unknown model or GPU (with the nearest names), a model without a usable shape, or a part
            without its demand number.
    """
    _check_gpus(profile, catalog)
    filler = Filler()
    shape = _shape(profile, catalog, filler)
    demand = _BUILDERS[profile.workload](profile, shape, filler)
    _note_unused(profile, filler)
    _note_constraints(profile, filler)
    precision = profile.precision
    if precision.weights == "auto" and shape is not None and profile.workload in ("online_inference", "batch_inference", "embedding"):
        filler.note("precision.weights", shape.native_precision, "", "The precision the checkpoint ships in", "model card")
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
    for path, name in named:
        if catalog.find_gpu(name) is None:
            near = ", ".join(catalog.suggest_gpus(name))
            errors.append(FieldError(path, f"{name!r} is not in the catalogue" + (f"; nearest: {near}" if near else ""), "catalogue ids"))
    if errors:
        raise ProfileError(errors)


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
    if found.params_b <= 0 or (not found.has_layers and found.modality not in ("asr", "diffusion_image", "diffusion_video", "other")):
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


def _load(serving: Serving, filler: Filler, output_tokens: float) -> tuple[Range | None, Range | None, str]:
    """Requests in flight, or requests/s, and which of the four ways stated it."""
    if serving.concurrent_users is not None:
        return serving.concurrent_users, None, "concurrent_users"
    if serving.requests_per_s is not None:
        return None, serving.requests_per_s, "requests_per_s"
    if serving.tokens_per_day is not None:
        peak = defaults.PEAK_TO_AVERAGE
        filler.note("serving.tokens_per_day", peak.value, peak.unit, peak.why, peak.source)
        per_token = peak.value / (86_400 * max(output_tokens, 1.0))
        return None, serving.tokens_per_day.scaled(per_token), "tokens_per_day"
    if serving.people is not None:
        return _people(serving, filler, output_tokens), None, "people"
    raise ProfileError(
        [
            FieldError(
                "serving.concurrent_users", "is required: requests in flight at the peak (or requests_per_s, tokens_per_day, people)", "> 0"
            )
        ]
    )


def _people(serving: Serving, filler: Filler, output_tokens: float) -> Range:
    """Heads to requests in flight by Little's law: arrivals per second x seconds a request is in the system."""
    people = serving.people
    assert people is not None
    share = people.active_share
    if share is None:
        share = defaults.ACTIVE_SHARE
        filler.note(
            "serving.people.active_share",
            share.model_dump(),
            "share of heads",
            "Busy-hour share of staff with access",
            defaults.PEOPLE_SOURCE,
        )
    rate = people.requests_per_active_hour
    if rate is None:
        rate = defaults.REQUESTS_PER_ACTIVE_HOUR
        filler.note(
            "serving.people.requests_per_active_hour",
            rate.model_dump(),
            "requests/h",
            "An active person's requests in the busy hour",
            defaults.PEOPLE_SOURCE,
        )
    seconds = defaults.SECONDS_BEFORE_FIRST_TOKEN + output_tokens * defaults.SECONDS_PER_TOKEN
    filler.note(
        "serving.concurrent_users",
        f"{people.count.mid:,.0f} heads x {share.mid:.0%} active x {rate.mid:g} requests/h x {seconds:.0f} s / 3600",
        "requests in flight",
        "Little's law with the time one answer takes at a comfortable reading speed",
        defaults.PEOPLE_SOURCE,
    )

    def in_flight(count: float, active: float, hourly: float) -> float:
        return max(count * active * hourly * seconds / 3600, 1.0)

    return Range(
        low=in_flight(people.count.low, share.low, rate.low),
        mid=in_flight(people.count.mid, share.mid, rate.mid),
        high=in_flight(people.count.high, share.high, rate.high),
    )


def _serving_demand(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler, *, writes: bool) -> ServingDemand:
    serving = profile.serving
    assert serving is not None
    inputs = filler.mid(serving.input_tokens, "serving.input_tokens", defaults.INPUT_TOKENS if writes else defaults.EMBED_TOKENS)
    outputs = filler.mid(serving.output_tokens, "serving.output_tokens", defaults.OUTPUT_TOKENS) if writes else 0.0
    if serving.images_per_request:
        pixels = filler.number(serving.image_pixels, "serving.image_pixels", defaults.IMAGE_PIXELS)
        extra = serving.images_per_request * pixels / defaults.PIXELS_PER_TOKEN
        filler.note("serving.images_per_request", round(extra), "tokens", "Images become tokens: one per 28 x 28 pixels", "Qwen2-VL report")
        inputs += extra
    context = serving.max_context_tokens
    if context is None:
        context = min(max(2 * (inputs + outputs), 1024.0), float(shape.max_context or 1e9)) if shape is not None else 2 * (inputs + outputs)
        context = max(context, inputs + outputs)
        filler.note("serving.max_context_tokens", context, "tokens", "Twice the mean request, within what the model was made for")
    concurrent, rate, stated_by = _load(serving, filler, outputs)
    growth = _growth(profile, filler)
    return ServingDemand(
        concurrent=None if concurrent is None else concurrent.scaled(growth),
        requests_per_s=None if rate is None else rate.scaled(growth),
        stated_by=stated_by,  # type: ignore[arg-type]
        input_tokens=inputs,
        output_tokens=outputs,
        shared_prefix_tokens=min(serving.shared_prefix_tokens, inputs),
        max_context_tokens=context,
        ttft_ms=filler.number(serving.ttft_ms, "serving.ttft_ms", defaults.ttft_limit(inputs)),
        tpot_ms=filler.number(serving.tpot_ms, "serving.tpot_ms", defaults.TPOT),
        percentile=serving.percentile,
        engine=serving.engine,
        engine_version=serving.engine_version,
        turns=serving.turns,
        think_time_s=serving.think_time_s or 0.0,
        prefix_reuse=serving.prefix_reuse,
        images_per_request=serving.images_per_request,
        image_pixels=serving.image_pixels or 0.0,
        ttft_stated=serving.ttft_ms is not None,
        tpot_stated=serving.tpot_ms is not None,
    )


def _batch_demand(profile: WorkloadProfile, filler: Filler, *, writes: bool) -> BatchDemand:
    batch = profile.batch
    assert batch is not None
    inputs = filler.mid(batch.input_tokens, "batch.input_tokens", defaults.BATCH_INPUT if writes else defaults.EMBED_TOKENS)
    outputs = filler.mid(batch.output_tokens, "batch.output_tokens", defaults.BATCH_OUTPUT) if writes else 0.0
    if batch.items is not None:
        items = batch.items.mid
    elif batch.tokens_total is not None:
        items = batch.tokens_total.mid / max(inputs + outputs, 1.0)
    else:
        raise ProfileError([FieldError("batch.items", "is required: how many items (or tokens_total)", "> 0")])
    return BatchDemand(
        items=items * _growth(profile, filler),
        input_tokens=inputs,
        output_tokens=outputs,
        deadline_h=filler.number(batch.deadline_h, "batch.deadline_h", defaults.BATCH_HOURS),
    )


def _growth(profile: WorkloadProfile, filler: Filler) -> float:
    """One year's growth of the load: what is ordered today serves until the next order can arrive."""
    growth = profile.constraints.growth_per_year
    if growth > 0:
        filler.note("constraints.growth_per_year", 1 + growth, "x today's load", "Sized for the load one year from now")
    return 1 + growth


def _online(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    return {"serving": _serving_demand(profile, shape, filler, writes=True)}


def _offline(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    return {"batch": _batch_demand(profile, filler, writes=True)}


def _embedding(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    if profile.batch is not None:
        return {"batch": _batch_demand(profile, filler, writes=False)}
    return {"serving": _serving_demand(profile, shape, filler, writes=False)}


def _speech(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    serving, batch = profile.serving, profile.batch
    if serving is not None:
        streams, rate, _ = _load(serving, filler, 0.0)
        if streams is None:
            assert rate is not None
            seconds = defaults.RECORDING_MINUTES.value * 60
            filler.note(
                "serving.requests_per_s", seconds, "s of audio each", defaults.RECORDING_MINUTES.why, defaults.RECORDING_MINUTES.source
            )
            streams = rate.scaled(seconds)
        return {"speech": SpeechDemand(streams=streams, audio_hours=None, deadline_h=None)}
    assert batch is not None
    if batch.items is None:
        raise ProfileError([FieldError("batch.items", "is required: how many recordings", "> 0")])
    minutes = filler.number(None, "batch.items", defaults.RECORDING_MINUTES)
    deadline = filler.number(batch.deadline_h, "batch.deadline_h", defaults.BATCH_HOURS)
    return {"speech": SpeechDemand(streams=None, audio_hours=batch.items.mid * minutes / 60, deadline_h=deadline)}


def _image(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    serving, batch = profile.serving, profile.batch
    pixels = filler.number(serving.image_pixels if serving is not None else None, "serving.image_pixels", defaults.GENERATED_PIXELS)
    steps = int(filler.number(None, "image.steps", defaults.DIFFUSION_STEPS))
    if serving is not None:
        latency = filler.number(None, "image.latency_s", defaults.IMAGE_SECONDS)
        streams, rate, _ = _load(serving, filler, 1.0)
        if rate is None:
            assert streams is not None
            filler.note("serving.concurrent_users", latency, "s per image", "People waiting for an image each receive one within the limit")
            rate = streams.scaled(1 / latency)
        return {"image": ImageDemand(images_per_s=rate, images=None, deadline_h=None, steps=steps, pixels=pixels, latency_s=latency)}
    assert batch is not None
    if batch.items is None:
        raise ProfileError([FieldError("batch.items", "is required: how many images", "> 0")])
    deadline = filler.number(batch.deadline_h, "batch.deadline_h", defaults.BATCH_HOURS)
    return {
        "image": ImageDemand(images_per_s=None, images=batch.items.mid, deadline_h=deadline, steps=steps, pixels=pixels, latency_s=None)
    }


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
    return {"data_science": DataScienceDemand(dataset_gb=data.dataset_gb, users=data.users, in_memory=data.in_memory)}


_BUILDERS = {
    "pretraining": _training,
    "finetuning": _training,
    "lora": _training,
    "online_inference": _online,
    "batch_inference": _offline,
    "embedding": _embedding,
    "image_generation": _image,
    "speech": _speech,
    "vision_training": _vision,
    "hpc": _hpc,
    "data_science": _data_science,
}


def _note_unused(profile: WorkloadProfile, filler: Filler) -> None:
    """Parts this workload does not read are said, never silently dropped."""
    readable = [part for part, _ in DEMANDS[profile.workload]]
    for name in ("serving", "batch", "training", "vision_training", "hpc", "data_science"):
        if getattr(profile, name) is None or name == profile.demand_part:
            continue
        if name in readable:
            why = f"The load is stated in {profile.demand_part} already; a second one is not added to it"
        else:
            why = f"{profile.workload} does not read this part"
        filler.note(name, "not used", "", why)


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
    if constraints.growth_per_year > 0 and profile.workload not in ("online_inference", "batch_inference", "embedding"):
        filler.note("constraints.growth_per_year", "not used", "", f"Growth of the load does not size {profile.workload} yet")
    if "growth_per_year" not in stated:
        filler.note("constraints.growth_per_year", 0, "per year", "Sized for today's load")
