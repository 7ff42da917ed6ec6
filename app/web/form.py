"""The questionnaire as data: one table of fields, used to render the form and to read it back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel

from app.workload.profile import (
    Batch,
    Constraints,
    DataScience,
    FieldError,
    Hpc,
    ModelChoice,
    Owned,
    People,
    Precision,
    ProfileError,
    Serving,
    Training,
    VisionTraining,
    Workload,
    WorkloadProfile,
    parse_profile,
)

Kind = Literal["text", "number", "integer", "select", "check", "list", "json"]
MAX_TEXT = 200
MAX_CONFIG = 200_000

WORKLOADS: dict[str, str] = {
    "online_inference": "Chat, agents or questions over documents",
    "batch_inference": "Batch generation without waiting users",
    "embedding": "Embeddings or reranking",
    "image_generation": "Image generation",
    "speech": "Speech to text",
    "lora": "Adapt a model (LoRA, QLoRA)",
    "finetuning": "Full fine-tuning",
    "pretraining": "Pretraining",
    "vision_training": "Train an image model",
    "hpc": "Simulation (MD, CFD, ...)",
    "data_science": "Analytics on tables",
}
assert set(WORKLOADS) == set(get_args(Workload))

LLM_SERVING = ("online_inference",)
SERVED = ("online_inference", "embedding", "speech", "image_generation")
TRAINED = ("lora", "finetuning", "pretraining")
WITH_MODEL = (*SERVED, "batch_inference", *TRAINED)
ALL = tuple(WORKLOADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One quick question: a group of fields with the reason it is asked."""

    key: str
    title: str
    why: str


QUESTIONS = (
    Question(key="model", title="Which model or application?", why="Its size and shape set the memory, and most of the speed."),
    Question(
        key="load", title="How much work?", why="The load sets how many GPUs or copies are needed beyond what the model itself takes."
    ),
    Question(
        key="size",
        title="How large is one piece of work?",
        why="Long prompts cost arithmetic, long answers memory bandwidth; problem size sets memory.",
    ),
    Question(key="speed", title="How fast must it be?", why="A tight limit can need more GPUs per copy; a loose one saves them."),
    Question(
        key="place",
        title="Where may it run, and what is there?",
        why="A network in place may be enough, and power or cooling can rule designs out.",
    ),
    Question(key="limits", title="What limits the decision?", why="Budget, makers and redundancy narrow the choice."),
)
SUBJECTS = {
    "model": "Model and precision",
    "traffic": "Traffic and conversations",
    "training": "Training",
    "hardware": "GPUs and hardware you own",
    "site": "Site, power and cost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field. ``path`` is the profile's dotted path and the form's name; ``part`` is a question or a subject."""

    path: str
    label: str
    part: str
    kind: Kind
    workloads: tuple[str, ...] = ALL
    unit: str = ""
    options: tuple[tuple[str, str], ...] = ()
    example: str = ""
    advanced: bool = False
    help: str = ""
    datalist: str = ""

    @property
    def id(self) -> str:
        """HTML id, for labels and error links."""
        return "f-" + self.path.replace(".", "-")


def _names(model: type[BaseModel], name: str, labels: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """Options of a literal field, with its own value as label unless one is given."""
    annotation = model.model_fields[name].annotation
    values = [value for value in get_args(annotation) if isinstance(value, str)]
    return tuple((value, (labels or {}).get(value, value.replace("_", " "))) for value in values)


def _help(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].description or ""


def _field(path: str, label: str, part: str, kind: Kind, model: type[BaseModel], **more: Any) -> FormField:
    name = path.rsplit(".", 1)[-1]
    options = more.pop("options", None)
    if kind == "select" and options is None:
        options = _names(model, name, more.pop("labels", None))
    return FormField(path=path, label=label, part=part, kind=kind, options=options or (), help=more.pop("help", _help(model, name)), **more)


NETWORKS = {
    "none": "none that GPUs could use",
    "ib_hdr": "InfiniBand HDR 200",
    "ib_ndr": "InfiniBand NDR 400",
    "ib_xdr": "InfiniBand XDR 800",
}
NETWORKS |= {f"{speed}gbe": f"{speed} Gbit Ethernet" for speed in (1, 10, 25, 100, 200, 400, 800)}

FIELDS: tuple[FormField, ...] = (
    _field("model.id", "Model", "model", "text", ModelChoice, workloads=WITH_MODEL, example="meta-llama/Llama-3.3-70B-Instruct", datalist="models"),
    _field("model.params_b", "or its size", "model", "number", ModelChoice, workloads=WITH_MODEL, unit="billion parameters", example="70"),
    _field("hpc.code", "Application", "model", "select", Hpc, workloads=("hpc",)),
    _field("serving.people.count", "People who will use it", "load", "number", People, workloads=LLM_SERVING, unit="people", example="500"),
    _field("serving.concurrent_users", "or requests in flight at the peak", "load", "number", Serving, workloads=SERVED, unit="requests", example="50"),
    _field("serving.requests_per_s", "or requests per second", "load", "number", Serving, workloads=SERVED, unit="per second"),
    _field("batch.items", "Items to process", "load", "number", Batch, workloads=("batch_inference", "embedding", "speech", "image_generation"), unit="items", help="Documents, passages, recordings or images"),
    _field("training.tokens_b", "Training data, one pass", "load", "number", Training, workloads=TRAINED, unit="billion tokens", example="0.5"),
    _field("vision_training.images_m", "Images", "load", "number", VisionTraining, workloads=("vision_training",), unit="million"),
    _field("hpc.runs_per_day", "Runs per day", "load", "number", Hpc, workloads=("hpc",), unit="runs"),
    _field("data_science.users", "People at work at once", "load", "number", DataScience, workloads=("data_science",), unit="people"),
    _field("serving.input_tokens", "Prompt", "size", "number", Serving, workloads=("online_inference", "embedding"), unit="tokens", example="1000"),
    _field("serving.output_tokens", "Answer", "size", "number", Serving, workloads=LLM_SERVING, unit="tokens", example="300"),
    _field("batch.input_tokens", "Length of an item", "size", "number", Batch, workloads=("batch_inference", "embedding"), unit="tokens", help="Tokens read per item"),
    _field("batch.output_tokens", "Written per item", "size", "number", Batch, workloads=("batch_inference",), unit="tokens", help="Tokens written per item"),
    _field("training.seq_len", "Sequence length", "size", "integer", Training, workloads=TRAINED, unit="tokens", example="4096"),
    _field("vision_training.flop_per_image_g", "Forward pass of one image", "size", "number", VisionTraining, workloads=("vision_training",), unit="GFLOP", example="4.1"),
    _field("hpc.problem_size_m", "Problem size", "size", "number", Hpc, workloads=("hpc",), unit="million atoms or cells"),
    _field("data_science.dataset_gb", "Data worked on at once", "size", "number", DataScience, workloads=("data_science",), unit="GB"),
    _field("serving.ttft_ms", "First token within", "speed", "number", Serving, workloads=LLM_SERVING, unit="ms", example="2000"),
    _field("serving.tpot_ms", "Then a token every", "speed", "number", Serving, workloads=LLM_SERVING, unit="ms", example="100"),
    _field("batch.deadline_h", "Finished within", "speed", "number", Batch, workloads=("batch_inference", "embedding", "speech", "image_generation"), unit="hours", help="Hours the batch may take"),
    _field("training.deadline_days", "Finished within", "speed", "number", Training, workloads=TRAINED, unit="days"),
    _field("vision_training.deadline_days", "Finished within", "speed", "number", VisionTraining, workloads=("vision_training",), unit="days"),
    _field("hpc.deadline_h", "One run within", "speed", "number", Hpc, workloads=("hpc",), unit="hours"),
    _field("data_science.in_memory", "All data in GPU memory", "speed", "check", DataScience, workloads=("data_science",)),
    _field("constraints.deployment", "Where", "place", "select", Constraints, labels={"on_prem": "our own site", "cloud": "cloud", "either": "either"}),
    _field("constraints.existing_network", "Network between servers", "place", "select", Constraints, labels=NETWORKS),
    _field("constraints.rack_power_kw", "Power per rack", "place", "number", Constraints, unit="kW"),
    _field("constraints.budget_usd", "Budget", "limits", "number", Constraints, unit="USD"),
    _field("constraints.availability", "If a server fails", "limits", "select", Constraints, labels={"none": "wait for repair", "n_plus_1": "carry on (N+1)", "2n": "full second set (2N)"}),
    _field("constraints.objective", "Choose by", "limits", "select", Constraints, labels={"cost": "lowest lifetime cost", "latency": "lowest latency", "energy": "least energy", "time": "shortest time"}),
    # Advanced
    _field("model.active_params_b", "Active parameters", "model", "number", ModelChoice, workloads=WITH_MODEL, unit="billion", advanced=True),
    _field("model.hf_config", "config.json of the model", "model", "json", ModelChoice, workloads=WITH_MODEL, advanced=True, help="Paste the published config.json, or choose the file; use instead of the model's name"),
    _field("precision.weights", "Weights", "model", "select", Precision, workloads=WITH_MODEL, advanced=True),
    _field("precision.kv_cache", "KV cache", "model", "select", Precision, workloads=("online_inference", "batch_inference"), advanced=True),
    _field("precision.training", "Training arithmetic", "model", "select", Precision, workloads=TRAINED, advanced=True),
    _field("serving.people.active_share", "Share active in the busy hour", "traffic", "number", People, workloads=LLM_SERVING, unit="0 to 1", advanced=True),
    _field("serving.people.requests_per_active_hour", "Requests an active person sends", "traffic", "number", People, workloads=LLM_SERVING, unit="per hour", advanced=True),
    _field("serving.tokens_per_day", "or output per day", "traffic", "number", Serving, workloads=LLM_SERVING, unit="tokens", advanced=True),
    _field("serving.max_context_tokens", "Longest request to serve", "traffic", "number", Serving, workloads=LLM_SERVING, unit="tokens", advanced=True),
    _field("serving.shared_prefix_tokens", "Same start of every prompt", "traffic", "number", Serving, workloads=LLM_SERVING, unit="tokens", advanced=True),
    _field("serving.prefix_reuse", "Prompt found in the cache", "traffic", "number", Serving, workloads=LLM_SERVING, unit="0 to 1", advanced=True),
    _field("serving.percentile", "Limits hold for", "traffic", "number", Serving, workloads=LLM_SERVING, unit="% of requests", advanced=True),
    _field("serving.engine", "Serving engine", "traffic", "select", Serving, workloads=LLM_SERVING, advanced=True),
    _field("serving.images_per_request", "Images in a request", "traffic", "number", Serving, workloads=LLM_SERVING, unit="images", advanced=True),
    _field("training.epochs", "Passes over the data", "training", "number", Training, workloads=TRAINED, advanced=True),
    _field("training.global_batch_tokens", "Tokens per optimizer step", "training", "number", Training, workloads=TRAINED, unit="tokens", advanced=True),
    _field("training.optimizer", "Optimizer", "training", "select", Training, workloads=TRAINED, advanced=True),
    _field("training.lora_rank", "Adapter rank", "training", "integer", Training, workloads=("lora",), advanced=True),
    _field("training.quantized_base", "Base in 4 bits (QLoRA)", "training", "check", Training, workloads=("lora",), advanced=True),
    _field("vision_training.epochs", "Passes over the images", "training", "number", VisionTraining, workloads=("vision_training",), advanced=True),
    _field("vision_training.params_m", "Parameters", "training", "number", VisionTraining, workloads=("vision_training",), unit="million", advanced=True),
    _field("vision_training.sample_mb", "Size of a stored image", "training", "number", VisionTraining, workloads=("vision_training",), unit="MB", advanced=True),
    _field("hpc.memory_gb", "Memory of one run", "training", "number", Hpc, workloads=("hpc",), unit="GB", advanced=True),
    _field("hpc.mpi", "One run may use several GPUs (MPI)", "training", "check", Hpc, workloads=("hpc",), advanced=True),
    _field("hpc.fp64", "Double precision", "training", "check", Hpc, workloads=("hpc",), advanced=True),
    _field("constraints.gpus", "Only these GPUs", "hardware", "list", Constraints, example="h100-sxm-80gb, h200-sxm-141gb", advanced=True),
    _field("constraints.exclude_gpus", "None of these GPUs", "hardware", "list", Constraints, advanced=True),
    _field("constraints.vendors", "Only these makers", "hardware", "list", Constraints, example="nvidia, amd", advanced=True),
    _field("constraints.max_gpus", "GPUs at most", "hardware", "integer", Constraints, unit="GPUs", advanced=True),
    _field("owned.gpu", "GPU you own", "hardware", "text", Owned, datalist="gpus", advanced=True),
    _field("owned.count", "how many", "hardware", "integer", Owned, advanced=True),
    _field("owned.per_server", "per server", "hardware", "integer", Owned, advanced=True),
    _field("owned.link", "joined by", "hardware", "select", Owned, options=(("", "not stated"), ("none", "nothing"), ("pcie", "PCIe"), ("nvlink_bridge", "NVLink bridge"), ("nvswitch", "NVSwitch")), advanced=True),
    _field("owned.p2p", "direct over PCIe (P2P)", "hardware", "select", Owned, advanced=True),
    _field("constraints.network_preference", "Network wanted", "site", "select", Constraints, advanced=True),
    _field("constraints.cooling", "Cooling", "site", "select", Constraints, advanced=True),
    _field("constraints.air_gapped", "Air-gapped site", "site", "check", Constraints, advanced=True),
    _field("constraints.growth_per_year", "Growth of the load", "site", "number", Constraints, unit="per year, 0.3 = 30%", advanced=True),
    _field("constraints.horizon_years", "Cost counted over", "site", "number", Constraints, unit="years", advanced=True),
    _field("constraints.region", "Country or region", "site", "text", Constraints, advanced=True),
    _field("constraints.electricity_usd_per_kwh", "Electricity", "site", "number", Constraints, unit="USD per kWh", advanced=True),
)  # fmt: skip

BY_PATH = {item.path: item for item in FIELDS}


def fields_for(workload: str) -> tuple[FormField, ...]:
    """Fields a kind of work uses, in the order of the form."""
    return tuple(item for item in FIELDS if workload in item.workloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A form as it stands: what was typed, what is wrong with it, and the profile when nothing is."""

    workload: str
    values: dict[str, str]
    errors: tuple[FieldError, ...] = ()
    profile: WorkloadProfile | None = None
    messages: dict[str, str] = field(default_factory=dict)


def default_of(item: FormField) -> str:
    """The value a field has when nothing is said, as the form shows it."""
    models: dict[str, type[BaseModel]] = {
        "precision": Precision, "serving": Serving, "training": Training, "constraints": Constraints, "hpc": Hpc,
        "data_science": DataScience, "vision_training": VisionTraining, "owned": Owned, "model": ModelChoice,
    }  # fmt: skip
    head, _, name = item.path.rpartition(".")
    model = models.get(head)
    if model is None or name not in model.model_fields:
        return ""
    value = model.model_fields[name].get_default()
    if isinstance(value, bool):
        return "on" if value else ""
    return f"{value:g}" if isinstance(value, float) else "" if value is None or value == () else str(value)


def values_of(profile: WorkloadProfile) -> dict[str, str]:
    """What the form shows for a profile."""
    document = profile.to_json()
    owned = document.get("constraints", {}).get("owned") or [{}]
    values = {}
    for item in FIELDS:
        source = {"owned": owned[0]} if item.path.startswith("owned.") else document
        value = _get(source, item.path)
        if value is not None:
            values[item.path] = _shown(value)
    values["name"] = profile.name
    return values


def _get(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, Mapping) and set(value) == {"low", "mid", "high"}:
        low, mid, high = (f"{value[end]:.15g}" for end in ("low", "mid", "high"))
        return mid if low == high else f"{low} / {mid} / {high}"
    if isinstance(value, Mapping):
        return json.dumps(value, indent=2)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def read_form(form: Mapping[str, str]) -> Filled:
    """Read what was typed. Every value is kept for showing again; faults name their field."""
    workload = form.get("workload", "")
    if workload not in WORKLOADS:
        error = FieldError("workload", "choose one of the kinds of work listed", "")
        return Filled(workload="online_inference", values=dict(form), errors=(error,))
    raw: dict[str, Any] = {"workload": workload}
    errors: list[FieldError] = []
    name = form.get("name", "").strip()
    if name:
        raw["name"] = name
    for item in fields_for(workload):
        text = form.get(item.path, "").strip()
        if item.kind == "check":
            _check(raw, item, text, bool(form.get("form", "")))
            continue
        if not text or text == default_of(item):
            continue
        try:
            _put(raw, item.path, _parsed(item, text))
        except ValueError as error:
            errors.append(FieldError(item.path, str(error), ""))
    _fold_owned(raw)
    values = {key: value[:MAX_CONFIG] for key, value in form.items()}
    profile = None
    if not errors:
        try:
            profile = parse_profile(raw)
        except ProfileError as error:
            errors = error.errors
    errors = [_to_form(error, workload) for error in errors]
    return Filled(
        workload=workload,
        values=values,
        errors=tuple(errors),
        profile=profile,
        messages={error.field: error.message for error in reversed(errors)},
    )


def _check(raw: dict[str, Any], item: FormField, text: str, submitted: bool) -> None:
    """A box: ticked is true; not ticked is false where the default is true and the form was really sent."""
    ticked = text not in ("", "0", "false", "off")
    if ticked != (default_of(item) == "on") and (ticked or submitted):
        _put(raw, item.path, ticked)


def _parsed(item: FormField, text: str) -> Any:
    if item.kind == "number":
        parts = [part.strip() for part in text.split("/")]
        if len(parts) == 3:
            low, mid, high = (_number(part) for part in parts)
            return {"low": low, "mid": mid, "high": high}
        return _number(text)
    if item.kind == "integer":
        value = _number(text)
        if value != int(value):
            raise ValueError("must be a whole number")
        return int(value)
    if item.kind == "list":
        return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
    if item.kind == "json":
        if len(text) > MAX_CONFIG:
            raise ValueError(f"is too long: at most {MAX_CONFIG:,} characters")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not valid JSON: {str(error)[:120]}") from None
        if not isinstance(value, dict):
            raise ValueError("must be a JSON object, as in a config.json")
        return value
    return text


def _number(text: str) -> float:
    """A number as people type it: 1,000 or 1 000 or 0.5; three with slashes are a range."""
    cleaned = text.replace(",", "").replace(" ", "").replace("_", "").removesuffix("%")
    try:
        value = float(cleaned)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number; type digits such as 1500 or 0.5, or low / mid / high") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _put(raw: dict[str, Any], path: str, value: Any) -> None:
    target = raw
    *steps, last = path.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value


def _fold_owned(raw: dict[str, Any]) -> None:
    """The one owned machine of the form becomes the list of the profile, when a GPU is named."""
    owned = raw.pop("owned", None)
    if owned and owned.get("gpu"):
        raw.setdefault("constraints", {})["owned"] = [{"count": 1, **owned}]


def _to_form(error: FieldError, workload: str) -> FieldError:
    """A fault of the profile at the form's field that can mend it."""
    path = error.field.replace("constraints.owned.0.", "owned.")
    while path and path not in BY_PATH and path not in ("workload", "name"):
        path = path.rpartition(".")[0]
    if not path:
        first = {"model": "model.id"}.get(error.message.split(":")[0], "")
        path = first or next(item.path for item in fields_for(workload) if item.part == "load")
    if path in ("model",):
        path = "model.id"
    return FieldError(path, error.message, error.limit)
