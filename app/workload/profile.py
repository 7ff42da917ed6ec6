"""The workload profile: what a customer states, validated. Public format; units are in the names.

Field descriptions serve form help, OpenAPI and docs alike.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from app.json_text import JsonTextError, load_object
from app.ranges import Range
from app.workload import faults
from app.workload.faults import FieldError, ProfileError, fault
from app.workload.numbers import Within, number

__all__ = ["FieldError", "ProfileError", "WorkloadProfile", "parse_profile", "profile_errors"]

MAX_BODY_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_LIST = 100
MAX_VALUES = 10_000
"""Values in one profile; with its config.json it has a few thousand at most."""


class Part(BaseModel):
    """Base of every part: frozen, unknown fields refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


CLEAN = r"^[^\x00-\x1f\x7f]*$"
"""No control characters: they cannot be stored everywhere, or shown."""
Text = Annotated[str, Field(max_length=200, pattern=CLEAN)]
ShortText = Annotated[str, Field(max_length=100, pattern=CLEAN)]
GpuName = Annotated[str, Field(min_length=1, max_length=100, pattern=CLEAN)]


class ModelChoice(Part):
    """The model: a catalogue or Hugging Face id, a published config.json, or a size."""

    id: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$")] | None = Field(
        default=None, description="Catalogue or Hugging Face id, such as meta-llama/Llama-3.3-70B-Instruct"
    )
    hf_config: dict[str, Any] | None = Field(default=None, description="A config.json as published")
    params_b: Annotated[float, number(100_000)] | None = Field(default=None, description="Size, billions of parameters")
    active_params_b: Annotated[float, number(100_000)] | None = Field(
        default=None, description="Parameters used per token, billions (mixture of experts)"
    )

    @model_validator(mode="after")
    def _one_way(self) -> ModelChoice:
        if self.id is None and self.hf_config is None and self.params_b is None:
            raise fault("name the model by id, paste its hf_config, or give params_b", limit="one of id, hf_config, params_b")
        if self.id is not None and (self.hf_config is not None or self.params_b is not None):
            raise fault("give only one of id, hf_config and params_b (params_b may stand beside hf_config)", limit="one way to name it")
        if self.active_params_b is not None:
            if self.params_b is None or self.hf_config is not None:
                raise fault(
                    "is read beside params_b alone; an id or a config.json says by itself how many are active", field="active_params_b"
                )
            if self.active_params_b > self.params_b:
                limit = f"at most params_b = {self.params_b:g}"
                raise fault(f"must be {limit}", field="active_params_b", limit=limit)
        return self


class Precision(Part):
    """Number formats; auto takes what the checkpoint ships in."""

    weights: Literal["auto", "fp32", "bf16", "fp16", "fp8", "int8", "int4", "fp4"] = Field(
        default="auto", description="Weights when serving, or of a frozen base"
    )
    kv_cache: Literal["auto", "bf16", "fp8"] = Field(default="auto", description="KV cache when serving")
    training: Literal["auto", "bf16", "fp8"] = Field(default="auto", description="Arithmetic when training")


class People(Part):
    """Heads instead of requests in flight, for those who know only heads."""

    count: Annotated[Range, Within(100_000_000)] = Field(description="People who have access")
    active_share: Annotated[Range, Within(1.0)] | None = Field(default=None, description="Share of them active in the busy hour, 0 to 1")
    requests_per_active_hour: Annotated[Range, Within(100_000)] | None = Field(
        default=None, description="Requests an active person sends in that hour"
    )


LOADS = ("concurrent_users", "requests_per_s", "tokens_per_day", "people")
"""The ways to state an online load; exactly one is given."""


class Serving(Part):
    """Online requests."""

    concurrent_users: Annotated[Range, Within(10_000_000)] | None = Field(default=None, description="Requests in flight at the peak")
    requests_per_s: Annotated[Range, Within(10_000_000)] | None = Field(default=None, description="Requests per second at the peak")
    tokens_per_day: Annotated[Range, Within(1e16)] | None = Field(default=None, description="Output tokens per day")
    people: People | None = Field(default=None, description="Heads, turned into requests in flight")
    input_tokens: Annotated[Range, Within(10_000_000)] | None = Field(default=None, description="Tokens of a prompt, mean")
    output_tokens: Annotated[Range, Within(10_000_000, zero=True)] | None = Field(default=None, description="Tokens of an answer, mean")
    shared_prefix_tokens: Annotated[float, number(10_000_000, zero=True)] = Field(
        default=0.0, description="Tokens at the start of every prompt that are the same"
    )
    max_context_tokens: Annotated[float, number(100_000_000)] | None = Field(
        default=None, description="Longest prompt plus answer to serve"
    )
    ttft_ms: Annotated[float, number(86_400_000)] | None = Field(default=None, description="Limit on time to first token, ms")
    tpot_ms: Annotated[float, number(3_600_000)] | None = Field(
        default=None, description="Limit on time per output token after the first, ms"
    )
    percentile: Annotated[float, number(99.99, minimum=1.0)] = Field(default=95.0, description="Percentile at which the limits must hold")
    engine: Literal["auto", "vllm", "sglang", "tensorrt_llm"] = Field(default="auto", description="Serving engine")
    engine_version: ShortText = Field(default="", description="Engine version; empty = the newest calibrated")
    images_per_request: Annotated[float, number(1_000, zero=True)] = Field(default=0.0, description="Images in a request")
    image_pixels: Annotated[float, number(1e9)] | None = Field(default=None, description="Pixels of an image")
    turns: Annotated[float, number(10_000, minimum=1.0)] = Field(default=1.0, description="Turns of a conversation")
    new_tokens_per_turn: Annotated[float, number(10_000_000)] | None = Field(default=None, description="New prompt tokens each turn adds")
    think_time_s: Annotated[float, number(86_400, zero=True)] | None = Field(default=None, description="Pause between turns, seconds")
    prefix_reuse: Annotated[float, number(1.0, zero=True)] = Field(
        default=0.0, description="Share of prompt tokens found in the cache, 0 to 1"
    )

    speculative_tokens: Annotated[float, number(16, zero=True)] = Field(
        default=0.0, description="Tokens a draft head proposes for each pass (speculative decoding); 0 = none"
    )
    acceptance_rate: Annotated[float, number(0.99, zero=True)] | None = Field(
        default=None, description="Share of the proposed tokens the model accepts, 0 to 0.99; measured on your own prompts"
    )

    @model_validator(mode="after")
    def _acceptance_stated(self) -> Serving:
        if self.speculative_tokens and self.acceptance_rate is None:
            raise fault("is needed with speculative_tokens: what it gains depends on it", field="acceptance_rate", limit="0 to 0.99")
        return self

    @model_validator(mode="after")
    def _one_load(self) -> Serving:
        stated = [name for name in LOADS if getattr(self, name) is not None]
        if len(stated) > 1:
            raise fault(f"states the load again: {' and '.join(stated)} were given; keep one of them", field=stated[1], limit="one of them")
        return self

    @model_validator(mode="after")
    def _lengths_fit(self) -> Serving:
        if self.input_tokens is None:
            return self
        needed = self.input_tokens.mid + (self.output_tokens.mid if self.output_tokens is not None else 0.0)
        if self.max_context_tokens is not None and self.max_context_tokens < needed:
            limit = f"at least input_tokens + output_tokens = {needed:,.0f}"
            raise fault(f"must be {limit}; raise it or shorten the request", field="max_context_tokens", limit=limit)
        if self.shared_prefix_tokens > self.input_tokens.high:
            limit = f"at most input_tokens = {self.input_tokens.high:,.0f}"
            raise fault(f"must be {limit}, as it is a part of the prompt", field="shared_prefix_tokens", limit=limit)
        return self


class Batch(Part):
    """Work without a waiting user."""

    tokens_total: Annotated[Range, Within(1e18)] | None = Field(default=None, description="All tokens, prompt and answer")
    items: Annotated[Range, Within(1e15)] | None = Field(default=None, description="Documents, images or recordings")
    input_tokens: Annotated[Range, Within(10_000_000)] | None = Field(default=None, description="Tokens of an item")
    output_tokens: Annotated[Range, Within(10_000_000, zero=True)] | None = Field(default=None, description="Tokens written per item")
    deadline_h: Annotated[float, number(1_000_000)] | None = Field(default=None, description="Hours it may take")


class Training(Part):
    """LLM training or fine-tuning."""

    tokens_b: Annotated[Range, Within(10_000_000)] | None = Field(default=None, description="Tokens of one epoch, billions")
    epochs: Annotated[float, number(10_000)] = Field(default=1.0, description="Passes over the data")
    deadline_days: Annotated[float, number(100_000)] | None = Field(default=None, description="Days it may take")
    seq_len: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] | None = Field(default=None, description="Tokens per sequence")
    global_batch_tokens: Annotated[float, number(1e12)] | None = Field(default=None, description="Tokens per optimizer step")
    optimizer: Literal["adamw", "adamw_8bit", "adafactor", "sgd", "muon"] = Field(default="adamw", description="Optimizer")
    lora_rank: Annotated[int, Field(ge=1, le=65_536, strict=True)] | None = Field(default=None, description="Rank of the adapters")
    quantized_base: StrictBool = Field(default=False, description="Frozen base in 4 bits (QLoRA)")


class VisionTraining(Part):
    """Training of an image model."""

    images_m: Annotated[Range, Within(10_000_000)] = Field(description="Images, millions")
    epochs: Annotated[float, number(100_000)] = Field(default=1.0, description="Passes over the data")
    deadline_days: Annotated[float, number(100_000)] | None = Field(default=None, description="Days it may take")
    flop_per_image_g: Annotated[float, number(1e9)] | None = Field(default=None, description="Forward pass of one image, GFLOP")
    params_m: Annotated[float, number(1e8)] | None = Field(default=None, description="Parameters, millions")
    sample_mb: Annotated[float, number(1e6)] | None = Field(default=None, description="Size of a stored image, MB")


class Hpc(Part):
    """Simulation."""

    code: Literal["gromacs", "lammps", "amber", "namd", "openfoam", "fluent", "vasp", "wrf", "custom"] = Field(
        default="custom", description="Application"
    )
    problem_size_m: Annotated[float, number(1e9)] | None = Field(default=None, description="Atoms or cells, millions")
    memory_gb: Annotated[float, number(1e9)] | None = Field(default=None, description="Memory of one run, GB")
    halo_fraction: Annotated[float, number(1.0, zero=True)] | None = Field(
        default=None, description="Share of cells exchanged with neighbours each step"
    )
    deadline_h: Annotated[float, number(1_000_000)] | None = Field(default=None, description="Hours one run may take")
    runs_per_day: Annotated[float, number(10_000_000)] | None = Field(default=None, description="Runs per day")
    mpi: StrictBool = Field(default=False, description="One run may spread over several GPUs")
    fp64: StrictBool = Field(default=False, description="Double precision is needed")


class DataScience(Part):
    """Tables and analytics on GPUs."""

    dataset_gb: Annotated[Range, Within(1e9)] = Field(description="Data worked on at once, GB")
    users: Annotated[float, number(1_000_000)] = Field(default=1.0, description="People at work at the same time")
    in_memory: StrictBool = Field(default=True, description="The data must fit the GPUs' memory")


class Owned(Part):
    """Hardware already paid for."""

    gpu: GpuName = Field(description="GPU, catalogue id")
    count: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(description="GPUs in all")
    per_server: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(default=None, description="GPUs in one server")
    link: Literal["none", "pcie", "nvlink_bridge", "nvswitch"] | None = Field(default=None, description="Link between them")
    pcie_gen: Annotated[int, Field(ge=2, le=7, strict=True)] | None = Field(default=None, description="PCIe generation of the slots")
    pcie_lanes: Literal[1, 2, 4, 8, 16] | None = Field(default=None, description="Lanes of the slots")
    p2p: Literal["yes", "no", "unknown"] = Field(default="unknown", description="Whether GPUs reach each other directly over PCIe")
    bought: date | None = Field(default=None, description="Date of purchase")

    @model_validator(mode="after")
    def _servers_within_count(self) -> Owned:
        if self.per_server is not None and self.per_server > self.count:
            limit = f"at most count = {self.count}"
            raise fault(f"must be {limit}, the GPUs in all", field="per_server", limit=limit)
        return self


class Constraints(Part):
    """Limits and wishes."""

    deployment: Literal["on_prem", "cloud", "either"] = Field(default="either", description="Where it may run")
    gpus: Annotated[tuple[GpuName, ...], Field(max_length=MAX_LIST)] = Field(default=(), description="Only these GPUs")
    exclude_gpus: Annotated[tuple[GpuName, ...], Field(max_length=MAX_LIST)] = Field(default=(), description="None of these GPUs")
    vendors: Annotated[tuple[Literal["nvidia", "amd", "intel"], ...], Field(max_length=3)] = Field(
        default=(), description="Only these makers"
    )
    max_gpus: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] | None = Field(default=None, description="GPUs at most; 0 = none")
    budget_usd: Annotated[float, number(1e12)] | None = Field(default=None, description="Purchase budget, USD")
    rack_power_kw: Annotated[float, number(10_000)] | None = Field(default=None, description="Power of one rack, kW")
    cooling: Literal["air", "liquid", "any"] = Field(default="any", description="Cooling of the room")
    existing_network: Literal["none", "1gbe", "10gbe", "25gbe", "100gbe", "200gbe", "400gbe", "800gbe", "ib_hdr", "ib_ndr", "ib_xdr"] = (
        Field(default="none", description="Network in place between servers")
    )
    network_preference: Literal["any", "infiniband", "ethernet"] = Field(default="any", description="Network wanted between servers")
    availability: Literal["none", "n_plus_1", "2n"] = Field(default="none", description="Redundancy")
    growth_per_year: Annotated[float, number(100.0, zero=True)] = Field(default=0.0, description="Growth of the load per year, 0.3 = 30%")
    horizon_years: Annotated[float, number(20.0, minimum=0.25)] = Field(default=3.0, description="Years the cost is counted over")
    region: ShortText | None = Field(default=None, description="Country or region of the site")
    electricity_usd_per_kwh: Annotated[float, number(10.0, zero=True)] | None = Field(
        default=None, description="Price of electricity, USD per kWh"
    )
    objective: Literal["cost", "latency", "energy", "time"] = Field(default="cost", description="What to optimise")
    air_gapped: StrictBool = Field(default=False, description="No connection to the outside")
    owned: Annotated[tuple[Owned, ...], Field(max_length=MAX_LIST)] = Field(default=(), description="Hardware already paid for")

    @model_validator(mode="after")
    def _consistent(self) -> Constraints:
        both = sorted(set(self.gpus) & set(self.exclude_gpus))
        if both:
            raise fault(f"has {', '.join(both)}, which gpus names too; take it out of one", field="exclude_gpus", limit="not in gpus")
        if self.air_gapped and self.deployment == "cloud":
            raise fault("contradicts deployment cloud; drop one of the two", field="air_gapped", limit="on_prem or either")
        return self


Workload = Literal[
    "pretraining", "finetuning", "lora", "online_inference", "batch_inference", "embedding",
    "image_generation", "speech", "vision_training", "hpc", "data_science",
]  # fmt: skip

DEMANDS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "pretraining": (("training", ("tokens_b",)),),
    "finetuning": (("training", ("tokens_b",)),),
    "lora": (("training", ("tokens_b",)),),
    "online_inference": (("serving", LOADS),),
    "batch_inference": (("batch", ("items", "tokens_total")),),
    "embedding": (("batch", ("items", "tokens_total")), ("serving", LOADS)),
    "image_generation": (("serving", LOADS), ("batch", ("items",))),
    "speech": (("serving", LOADS), ("batch", ("items",))),
    "vision_training": (("vision_training", ("images_m",)),),
    "hpc": (("hpc", ("problem_size_m", "memory_gb")),),
    "data_science": (("data_science", ("dataset_gb",)),),
}
"""The parts each workload reads and the numbers one of which states its demand; of two parts with one, the first counts."""

NEEDS_MODEL = ("pretraining", "finetuning", "lora", "online_inference", "batch_inference", "embedding", "image_generation", "speech")


class WorkloadProfile(Part):
    """A customer's workload."""

    name: Text = Field(default="", description="A name for this profile")
    workload: Workload = Field(description="Kind of work")
    model: ModelChoice | None = Field(default=None, description="The model")
    precision: Precision = Field(default=Precision(), description="Number formats")
    serving: Serving | None = Field(default=None, description="Online requests")
    batch: Batch | None = Field(default=None, description="Work without a waiting user")
    training: Training | None = Field(default=None, description="LLM training")
    vision_training: VisionTraining | None = Field(default=None, description="Image-model training")
    hpc: Hpc | None = Field(default=None, description="Simulation")
    data_science: DataScience | None = Field(default=None, description="Tables and analytics")
    constraints: Constraints = Field(default=Constraints(), description="Limits and wishes")

    @model_validator(mode="after")
    def _complete(self) -> WorkloadProfile:
        if self.workload in NEEDS_MODEL and self.model is None:
            raise fault(
                f"is required: {self.workload} needs a model; give its id, hf_config or params_b",
                field="model",
                limit="one of id, hf_config, params_b",
            )
        if self.demand_part is None:
            wanted = [f"{part}.{name}" for part, names in DEMANDS[self.workload] for name in names]
            others = f"; give it or {' or '.join(wanted[1:])}" if wanted[1:] else ""
            raise fault(f"is required: the amount of work of {self.workload}{others}", field=wanted[0], limit="one demand number")
        return self

    @property
    def demand_part(self) -> str | None:
        """The part that states the demand; None where none does, which no valid profile has."""
        for part, names in DEMANDS[self.workload]:
            stated = getattr(self, part)
            if stated is not None and any(getattr(stated, name) is not None for name in names):
                return part
        return None

    def to_json(self) -> dict[str, Any]:
        """The profile as JSON, without what was left out; reads back to the same profile."""
        return self.model_dump(mode="json", exclude_unset=True)


def parse_profile(raw: bytes | str | dict[str, Any]) -> WorkloadProfile:
    """A profile from JSON text or an object.

    Raises:
        ProfileError: naming every field at fault. Size and depth are checked before anything else.
    """
    if isinstance(raw, bytes | str):
        raw = _loaded(raw)
    if not isinstance(raw, dict):
        raise ProfileError([FieldError("profile", "must be a JSON object, written in braces")])
    _check_size(raw)
    try:
        return WorkloadProfile.model_validate(raw)
    except ValidationError as error:
        raise ProfileError(profile_errors(error)) from None


def profile_errors(error: ValidationError, root: type[BaseModel] = WorkloadProfile) -> list[FieldError]:
    """Field, message and limit of every problem pydantic found in a profile, or in a ``root`` that holds one."""
    return faults.profile_errors(error, root)


def _loaded(raw: bytes | str) -> dict[str, Any]:
    if len(raw) > MAX_BODY_BYTES:
        raise ProfileError([FieldError("profile", "is too large; send the profile alone", f"{MAX_BODY_BYTES:,} bytes")])
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    if data.count(b",") > MAX_VALUES:
        raise _too_many_values()
    try:
        return load_object(data)
    except JsonTextError as error:
        raise ProfileError([FieldError("profile" if error.field == "body" else error.field, str(error))]) from None


def _too_many_values() -> ProfileError:
    limit = f"{MAX_VALUES:,} values"
    return ProfileError([FieldError("profile", f"has more than {limit}; with its config.json it has a few thousand at most", limit)])


def _check_size(profile: dict[str, Any]) -> None:
    """Depth, number of values, number of fields and characters, before any of them is looked at.

    Iterative, so that hostile nesting cannot exhaust the stack; objects arrive here without having been JSON text.
    """
    parts = [("profile", profile), *((str(name)[:MAX_LIST], part) for name, part in profile.items() if isinstance(part, dict))]
    for path, part in parts:
        if len(part) > MAX_LIST:
            raise ProfileError([FieldError(path, "has too many fields; the known ones are in the documentation", f"{MAX_LIST} fields")])
    stack: list[tuple[Any, int]] = [(profile, 1)]
    seen = 0
    while stack:
        item, depth = stack.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise ProfileError([FieldError("profile", "is nested too deeply; send the profile alone", f"{MAX_DEPTH} levels")])
        if seen > MAX_VALUES or (isinstance(item, dict | list | tuple) and len(item) > MAX_VALUES):
            raise _too_many_values()
        if isinstance(item, str) and len(item) > MAX_BODY_BYTES:
            raise ProfileError([FieldError("profile", "has a text that is too long", f"{MAX_BODY_BYTES:,} characters")])
        if isinstance(item, dict):
            stack.extend((name, depth) for name in item if isinstance(name, str) and len(name) > MAX_LIST)
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list | tuple):
            stack.extend((child, depth + 1) for child in item)
