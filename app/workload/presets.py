"""Starting points people recognise. Each is a complete, valid profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.workload.profile import WorkloadProfile, parse_profile


@dataclass(frozen=True, slots=True)
class Preset:
    """One starting point: what it is called, the question it answers, and its profile."""

    id: str
    title: str
    sentence: str
    profile: WorkloadProfile


def _preset(id_: str, title: str, sentence: str, profile: dict[str, Any]) -> Preset:
    return Preset(id_, title, sentence, parse_profile({"name": title, **profile}))


PRESETS: tuple[Preset, ...] = (
    _preset(
        "chat-500-staff",
        "Chat assistant for 500 staff",
        "A 70B model for everyone in the company: what carries the busy hour?",
        {
            "workload": "online_inference",
            "model": {"id": "meta-llama/Llama-3.3-70B-Instruct"},
            "precision": {"weights": "fp8"},
            "serving": {
                "people": {"count": 500},
                "input_tokens": 1500,
                "output_tokens": 350,
                "max_context_tokens": 16384,
                "ttft_ms": 2000,
                "tpot_ms": 60,
            },
        },
    ),
    _preset(
        "rag-documents",
        "Questions over our documents (RAG)",
        "Long prompts with retrieved passages, short answers.",
        {
            "workload": "online_inference",
            "model": {"id": "Qwen/Qwen3-32B"},
            "serving": {
                "concurrent_users": 20,
                "input_tokens": 6000,
                "output_tokens": 400,
                "shared_prefix_tokens": 600,
                "max_context_tokens": 32768,
                "ttft_ms": 4000,
                "tpot_ms": 80,
            },
        },
    ),
    _preset(
        "code-assistant",
        "Code assistant",
        "Developers with large files in context and quick completions.",
        {
            "workload": "online_inference",
            "model": {"id": "Qwen/Qwen3-Coder-480B-A35B-Instruct"},
            "precision": {"weights": "fp8"},
            "serving": {
                "people": {"count": 100, "active_share": 0.4, "requests_per_active_hour": 30},
                "input_tokens": 8000,
                "output_tokens": 500,
                "max_context_tokens": 65536,
                "prefix_reuse": 0.5,
                "ttft_ms": 3000,
                "tpot_ms": 50,
            },
        },
    ),
    _preset(
        "lora-our-data",
        "LoRA on our data",
        "Adapt an 8B model to our own texts.",
        {
            "workload": "lora",
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
            "training": {"tokens_b": 0.05, "epochs": 3, "deadline_days": 2, "seq_len": 4096, "lora_rank": 16},
        },
    ),
    _preset(
        "finetune-70b",
        "Full fine-tune of a 70B model",
        "All weights trained: does it still fit one server?",
        {
            "workload": "finetuning",
            "model": {"id": "meta-llama/Llama-3.1-70B-Instruct"},
            "training": {"tokens_b": 0.5, "deadline_days": 7, "seq_len": 4096},
        },
    ),
    _preset(
        "pretrain-7b",
        "Pretrain a 7B model",
        "From scratch on a trillion tokens within a month.",
        {
            "workload": "pretraining",
            "model": {"params_b": 7},
            "training": {"tokens_b": 1000, "deadline_days": 30, "seq_len": 4096},
        },
    ),
    _preset(
        "batch-documents",
        "Batch document processing",
        "A million documents summarised overnight.",
        {
            "workload": "batch_inference",
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
            "batch": {"items": 1_000_000, "input_tokens": 1500, "output_tokens": 200, "deadline_h": 12},
        },
    ),
    _preset(
        "image-generation",
        "Image generation",
        "A studio's image model with a few people waiting at a time.",
        {
            "workload": "image_generation",
            "model": {"id": "black-forest-labs/FLUX.1-dev"},
            "serving": {"concurrent_users": 6},
        },
    ),
    _preset(
        "molecular-dynamics",
        "Molecular dynamics",
        "Many medium-sized GROMACS trajectories a day.",
        {
            "workload": "hpc",
            "hpc": {"code": "gromacs", "problem_size_m": 0.15, "runs_per_day": 8, "mpi": False, "fp64": False},
        },
    ),
    _preset(
        "cfd",
        "CFD",
        "A 100-million-cell flow simulation in double precision, every night.",
        {
            "workload": "hpc",
            "hpc": {"code": "openfoam", "problem_size_m": 100, "deadline_h": 12, "runs_per_day": 1, "mpi": True, "fp64": True},
        },
    ),
    _preset(
        "embeddings",
        "Embedding a document store",
        "Fifty million passages embedded within a week.",
        {
            "workload": "embedding",
            "model": {"id": "BAAI/bge-m3"},
            "batch": {"items": 50_000_000, "input_tokens": 400, "deadline_h": 168},
        },
    ),
    _preset(
        "transcription",
        "Live transcription",
        "Forty calls transcribed as they are spoken.",
        {
            "workload": "speech",
            "model": {"id": "openai/whisper-large-v3-turbo"},
            "serving": {"concurrent_users": 40},
        },
    ),
    _preset(
        "vision-training",
        "Training an image model",
        "Ten million pictures, a classifier trained within three days.",
        {
            "workload": "vision_training",
            "vision_training": {
                "images_m": 10,
                "epochs": 30,
                "deadline_days": 3,
                "flop_per_image_g": 17.6,
                "params_m": 86.6,
                "sample_mb": 0.3,
            },
        },
    ),
    _preset(
        "tabular-analytics",
        "Analytics on GPU",
        "A hundred gigabytes of tables, a few analysts at work.",
        {
            "workload": "data_science",
            "data_science": {"dataset_gb": 100, "users": 3, "in_memory": True},
        },
    ),
)


def preset(preset_id: str) -> Preset | None:
    """The preset with an id, or None."""
    return next((item for item in PRESETS if item.id == preset_id), None)
