"""What a profile states and its kind of work does not read: said, never silently dropped."""

from __future__ import annotations

from pydantic import BaseModel

from app.workload.filling import Filler
from app.workload.profile import DEMANDS, LOADS, NEEDS_MODEL, WorkloadProfile

WORK_PARTS = ("serving", "batch", "training", "vision_training", "hpc", "data_science")
TRAINED = ("tokens_b", "epochs", "deadline_days", "seq_len", "global_batch_tokens", "optimizer")
READ: dict[tuple[str, str], tuple[str, ...]] = {
    ("embedding", "serving"): (
        *LOADS, "input_tokens", "shared_prefix_tokens", "max_context_tokens", "ttft_ms", "percentile", "engine", "engine_version",
        "images_per_request", "image_pixels", "prefix_reuse",
    ),
    ("embedding", "batch"): ("items", "tokens_total", "input_tokens", "deadline_h"),
    ("speech", "serving"): LOADS,
    ("speech", "batch"): ("items", "deadline_h"),
    ("image_generation", "serving"): (*LOADS, "image_pixels"),
    ("image_generation", "batch"): ("items", "deadline_h"),
    ("pretraining", "training"): TRAINED,
    ("finetuning", "training"): TRAINED,
}  # fmt: skip
"""Fields read of a part that several kinds of work share; a part not listed is read whole."""
PRECISION_READ = {
    "online_inference": ("weights", "kv_cache"),
    "batch_inference": ("weights", "kv_cache"),
    "embedding": ("weights", "kv_cache"),
    "pretraining": ("training",),
    "finetuning": ("training",),
    "lora": ("weights", "training"),
}
NO_GROWTH = "A job of a stated size does not grow; state the larger size to plan for it"


def note_unused(profile: WorkloadProfile, filler: Filler) -> None:
    """Every stated part or field that does not enter the answer, with the reason."""
    readable = [part for part, _ in DEMANDS[profile.workload]]
    for name in WORK_PARTS:
        part = getattr(profile, name)
        if part is None:
            continue
        if name == profile.demand_part:
            read = READ.get((profile.workload, name), tuple(type(part).model_fields))
            _note_fields(part, name, read, profile.workload, filler)
        elif name in readable:
            _note_second_part(profile, name, part, filler)
        else:
            filler.note(name, "not used", "", f"{profile.workload} does not read this part")
    _note_fields(profile.precision, "precision", PRECISION_READ.get(profile.workload, ()), profile.workload, filler)
    if profile.model is not None and profile.workload not in NEEDS_MODEL:
        filler.note("model", "not used", "", f"{profile.workload} has no model")
    _note_idle(profile, filler)


def _note_fields(part: BaseModel, path: str, read: tuple[str, ...], workload: str, filler: Filler) -> None:
    for name in sorted(part.model_fields_set - set(read)):
        value = getattr(part, name)
        if value is not None and value != type(part).model_fields[name].default:
            filler.note(f"{path}.{name}", "not used", "", f"{workload} does not depend on it")


def _note_second_part(profile: WorkloadProfile, name: str, part: BaseModel, filler: Filler) -> None:
    """A part beside the one that states the demand; images take their size from it."""
    taken = ("image_pixels",) if (profile.workload, name) == ("image_generation", "serving") else ()
    loads = dict(DEMANDS[profile.workload])[name]
    if any(getattr(part, field) is not None for field in loads):
        filler.note(name, "not used", "", f"The load is stated in {profile.demand_part} already; a second one is not added to it")
        return
    _note_fields(part, name, taken, profile.workload, filler)


def _note_idle(profile: WorkloadProfile, filler: Filler) -> None:
    """Fields that are read but decide nothing in this combination."""
    serving = profile.serving
    if profile.workload == "online_inference" and serving is not None:
        if serving.think_time_s and serving.turns <= 1:
            why = "There is one turn only; state turns"
            filler.note("serving.think_time_s", "not used", "", why)
        if serving.new_tokens_per_turn is not None and serving.turns <= 1:
            filler.note("serving.new_tokens_per_turn", "not used", "", "There is one turn only; state turns")
        if serving.image_pixels is not None and not serving.images_per_request:
            filler.note("serving.image_pixels", "not used", "", "No request has an image; state images_per_request")
    if profile.workload in ("pretraining", "finetuning", "lora", "vision_training", "hpc", "data_science"):
        growth = profile.constraints.growth_per_year
        if growth > 0:
            filler.note("constraints.growth_per_year", "not used", "", NO_GROWTH)
    for number, owned in enumerate(profile.constraints.owned):
        if owned.bought is not None:
            why = "Kept for the record; what is owned counts at no purchase cost whatever its age"
            filler.note(f"constraints.owned.{number}.bought", "not used", "", why)
