# ruff: noqa: E501
# One field a line: the table is read across.
"""The questionnaire as data: one table of fields, used to render the form and to read it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel

from app.workload.profile import (
    Batch,
    Constraints,
    DataScience,
    Hpc,
    ModelChoice,
    Owned,
    People,
    Precision,
    Serving,
    Training,
    VisionTraining,
    Workload,
)

Kind = Literal["text", "number", "integer", "select", "check", "list", "json"]

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
if set(WORKLOADS) != set(get_args(Workload)):
    raise RuntimeError("every kind of work needs a name on the form")

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
    hint: str = ""


QUESTIONS = (
    Question(key="model", title="Which model or application?", why="Its size and shape set the memory, and most of the speed."),
    Question(
        key="load",
        title="How much work?",
        why="The load sets how many GPUs or copies are needed beyond what the model itself takes. People are not requests: a share of them is "
        "active at the peak, and each request lasts some seconds; the answer shows what your heads became.",
        hint="State the load once: fields that begin with “or” say the same in another way.",
    ),
    Question(
        key="speed",
        title="How fast must it be?",
        why="A tight limit can need more GPUs per copy; a loose one saves them.",
        hint="Leave empty what you do not know: a usual limit is taken and listed.",
    ),
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
    "training": "Details of the job",
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
    def either(self) -> bool:
        """Whether it says what another field says in another way."""
        return self.label.startswith("or ")

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
    _field("model.params_b", "or its size", "model", "number", ModelChoice, workloads=WITH_MODEL, unit="billion parameters", example="70", help="Where the model has no name yet; its shape is then inferred"),
    _field("hpc.code", "Application", "model", "select", Hpc, workloads=("hpc",), help="Its published speeds are used; custom is any other program"),
    _field("serving.people.count", "People who will use it", "load", "number", People, workloads=LLM_SERVING, unit="people", example="500", help="Everyone with access; what the busy hour needs is worked out from it"),
    _field("serving.concurrent_users", "or requests in flight at the peak", "load", "number", Serving, workloads=SERVED, unit="requests", example="50", help="Requests being answered at the same moment"),
    _field("serving.requests_per_s", "or requests per second", "load", "number", Serving, workloads=SERVED, unit="per second"),
    _field("batch.items", "Items to process", "load", "number", Batch, workloads=("batch_inference", "embedding", "speech", "image_generation"), unit="items", help="Documents, passages, recordings or images"),
    _field("training.tokens_b", "Training data, one pass", "load", "number", Training, workloads=TRAINED, unit="billion tokens", example="0.5"),
    _field("vision_training.images_m", "Images", "load", "number", VisionTraining, workloads=("vision_training",), unit="million"),
    _field("hpc.runs_per_day", "Runs per day", "load", "number", Hpc, workloads=("hpc",), unit="runs", help="Finished runs the machine must deliver each day"),
    _field("data_science.users", "People at work at once", "load", "number", DataScience, workloads=("data_science",), unit="people", help="They share the same data and GPUs"),
    _field("serving.input_tokens", "Prompt", "load", "number", Serving, workloads=("online_inference", "embedding"), unit="tokens", example="1000", help="Mean length with all documents and history; 1,000 tokens are about 750 English words"),
    _field("serving.output_tokens", "Answer", "load", "number", Serving, workloads=LLM_SERVING, unit="tokens", example="300", help="Mean length of what the model writes"),
    _field("batch.input_tokens", "Length of an item", "load", "number", Batch, workloads=("batch_inference", "embedding"), unit="tokens", help="Tokens read per item"),
    _field("batch.output_tokens", "Written per item", "load", "number", Batch, workloads=("batch_inference",), unit="tokens", help="Tokens written per item"),
    _field("training.seq_len", "Sequence length", "load", "integer", Training, workloads=TRAINED, unit="tokens", example="4096", help="Tokens the model sees at once"),
    _field("vision_training.flop_per_image_g", "Forward pass of one image", "load", "number", VisionTraining, workloads=("vision_training",), unit="GFLOP", example="4.1"),
    _field("hpc.problem_size_m", "Problem size", "load", "number", Hpc, workloads=("hpc",), unit="million atoms or cells", help="Atoms of the system or cells of the mesh"),
    _field("data_science.dataset_gb", "Data worked on at once", "load", "number", DataScience, workloads=("data_science",), unit="GB"),
    _field("serving.ttft_ms", "First token within", "speed", "number", Serving, workloads=LLM_SERVING, unit="ms", example="2000", help="The wait until the answer begins"),
    _field("serving.tpot_ms", "Then a token every", "speed", "number", Serving, workloads=LLM_SERVING, unit="ms", example="100", help="The pace after that; people read a token in about 200 ms"),
    _field("batch.deadline_h", "Finished within", "speed", "number", Batch, workloads=("batch_inference", "embedding", "speech", "image_generation"), unit="hours", help="Hours the batch may take"),
    _field("training.deadline_days", "Finished within", "speed", "number", Training, workloads=TRAINED, unit="days"),
    _field("vision_training.deadline_days", "Finished within", "speed", "number", VisionTraining, workloads=("vision_training",), unit="days"),
    _field("hpc.deadline_h", "One run within", "speed", "number", Hpc, workloads=("hpc",), unit="hours"),
    _field("data_science.in_memory", "All data in GPU memory", "speed", "check", DataScience, workloads=("data_science",)),
    _field("constraints.deployment", "Where", "place", "select", Constraints, labels={"on_prem": "our own site", "cloud": "cloud", "either": "either"}, help="Either takes whichever serves better"),
    _field("constraints.existing_network", "Network between servers", "place", "select", Constraints, labels=NETWORKS, help="What joins your servers today; it may be enough"),
    _field("constraints.rack_power_kw", "Power per rack", "place", "number", Constraints, unit="kW", help="What one rack may draw; empty takes what the cooling allows"),
    _field("constraints.budget_usd", "Budget", "limits", "number", Constraints, unit="USD", help="For buying, not for running; designs above it are ruled out"),
    _field("constraints.availability", "If a server fails", "limits", "select", Constraints, labels={"none": "wait for repair", "n_plus_1": "carry on (N+1)", "2n": "full second set (2N)"}, help="N+1 adds a spare server, 2N a full second set"),
    _field("constraints.objective", "Choose by", "limits", "select", Constraints, labels={"cost": "lowest lifetime cost", "latency": "lowest latency", "energy": "least energy", "time": "shortest time"}, help="Decides between designs that all meet the need"),
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
    _field("serving.speculative_tokens", "Tokens drafted ahead", "traffic", "number", Serving, workloads=("online_inference",), unit="tokens", advanced=True),
    _field("serving.acceptance_rate", "of which accepted", "traffic", "number", Serving, workloads=("online_inference",), unit="0 to 0.99", advanced=True),
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
    value = None if model.model_fields[name].is_required() else model.model_fields[name].get_default()
    if isinstance(value, bool):
        return "on" if value else ""
    return f"{value:g}" if isinstance(value, float) else "" if value is None or value == () else str(value)
