"""The demand a profile states, with every default filled in and listed as an assumption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.catalog.model_shape import ModelShape
from app.ranges import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A default that was filled in. ``field`` is the profile's dotted path, ``source`` a title or "convention"."""

    field: str
    value: Any
    unit: str
    why: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingDemand:
    """Online work. Exactly one of ``concurrent`` and ``requests_per_s`` is the stated one (``stated_by``);
    the other is None until an engine's latency ties them together (Little's law)."""

    concurrent: Range | None
    requests_per_s: Range | None
    stated_by: Literal["concurrent_users", "requests_per_s", "tokens_per_day", "people"]
    input_tokens: float
    output_tokens: float
    shared_prefix_tokens: float
    max_context_tokens: float
    ttft_ms: float
    """Limit at ``percentile``."""
    tpot_ms: float
    """Limit at ``percentile``."""
    percentile: float
    engine: Literal["auto", "vllm", "sglang", "tensorrt_llm"]
    engine_version: str
    turns: float
    think_time_s: float
    prefix_reuse: float
    images_per_request: float
    image_pixels: float
    speculative_tokens: float = 0.0
    acceptance_rate: float = 0.0
    reuse_assumed: bool = False
    """``prefix_reuse`` is what a conversation's history allows, not what the customer stated."""
    ttft_stated: bool = True
    """False: ``ttft_ms`` is a default, which guides the size but cannot refuse a design."""
    tpot_stated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDemand:
    """Offline work: all tokens or items within ``deadline_h`` hours."""

    items: float
    input_tokens: float
    """Per item."""
    output_tokens: float
    """Per item; 0 for embeddings."""
    deadline_h: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDemand:
    """LLM training. ``tokens`` is the whole run (all epochs). deadline_days None = no deadline stated."""

    task: Literal["pretraining", "finetuning", "lora", "qlora"]
    tokens: Range
    deadline_days: float | None
    seq_len: int
    global_batch_tokens: float | None
    """None = the search picks one within the usual range."""
    optimizer: Literal["adamw", "adamw_8bit", "adafactor", "sgd", "muon"]
    lora_rank: int
    base_bits: float
    """Stored bits per parameter of a frozen base (QLoRA about 4.5), else 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionDemand:
    images: Range
    epochs: float
    deadline_days: float | None
    flop_per_image: float
    """Forward and backward of one image."""
    params: float
    sample_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechDemand:
    """Live streams, or an archive of ``audio_hours`` within ``deadline_h``."""

    streams: Range | None
    audio_hours: float | None
    deadline_h: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDemand:
    """Image generation at a peak rate, or ``images`` within ``deadline_h``."""

    images_per_s: Range | None
    images: float | None
    deadline_h: float | None
    steps: int
    pixels: float
    latency_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HpcDemand:
    code: Literal["gromacs", "lammps", "amber", "namd", "openfoam", "fluent", "vasp", "wrf", "custom"]
    problem_size: float | None
    """Atoms or cells."""
    memory_gb: float | None
    halo_fraction: float
    deadline_h: float | None
    runs_per_day: float
    mpi: bool
    fp64: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataScienceDemand:
    dataset_gb: Range
    users: float
    in_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionDemand:
    """``auto`` is still ``auto`` here: what it becomes depends on the checkpoint and the GPU."""

    weights: str
    kv_cache: str
    training: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One profile, understood. Exactly one of the kind-specific parts fits ``workload``."""

    workload: str
    shape: ModelShape | None
    precision: PrecisionDemand
    serving: ServingDemand | None = None
    batch: BatchDemand | None = None
    training: TrainingDemand | None = None
    vision: VisionDemand | None = None
    speech: SpeechDemand | None = None
    image: ImageDemand | None = None
    hpc: HpcDemand | None = None
    data_science: DataScienceDemand | None = None
    assumptions: tuple[Assumed, ...] = ()
    questions: tuple[str, ...] = ()
    """What the customer should be asked because the answer rests on it."""
