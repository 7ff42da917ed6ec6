"""How an engine of a given version divides a GPU's memory."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from app.catalog.schema import Gpu
from app.units import GIB

LARGE_GPU_GB = 70.0
"""Engines take their larger default batches on GPUs of at least this size (vLLM engine arguments)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    """One engine's rules from some version on; the fields are described in ``data/serving_memory.toml``."""

    before: float
    fraction: float
    batch_tokens: float
    small_batch_tokens: float
    sequences: float
    small_sequences: float
    small_batch_names: tuple[str, ...]
    logit_bytes: float
    base_gib: float
    hidden_copies: float
    encoder_profiled: bool
    other_gib: float
    other_tp_gib: float
    other_tp_plain_gib: float
    other_pp_gib: float
    graphs_gib: float
    graphs_counted: bool
    whole_prompt: bool
    layer_groups: bool
    tokens_by_request: bool
    windows_capped: bool
    window_share: float
    state_share: float
    share_by_ranks: bool


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((resources.files("app.engine") / "data" / "serving_memory.toml").read_text(encoding="utf-8"))


def version_number(text: str) -> float | None:
    """A release as one number: 0.19.1 is 0.19, 0.8.5 is 0.08, 1.2.0rc2 is 1.02; None where no release is named."""
    found = re.match(r"\D{0,2}(\d+)\.(\d+)", text.strip())
    return int(found.group(1)) + int(found.group(2)) / 100 if found else None


@lru_cache(maxsize=256)
def memory_rules(engine: str, version: str = "") -> MemoryRules:
    """Rules of an engine's version; the newest where none is named, vLLM's for engines without rules of their own."""
    number = version_number(version)
    known: dict[str, Any] = {}
    for row in _table().get(engine, _table()["vllm"]):
        known |= row
        if number is not None and number < row["before"]:
            break
    return MemoryRules(**{**known, "small_batch_names": tuple(known["small_batch_names"])})


def takes_large_batches(gpu: Gpu, rules: MemoryRules) -> bool:
    """Whether an engine starts with its larger default batches on this GPU."""
    return (gpu.memory_gb or 0.0) >= LARGE_GPU_GB and not gpu.id.startswith(rules.small_batch_names)


def has_multicast(gpu: Gpu) -> bool:
    """Whether engines set up multicast and fused all-reduce buffers on this GPU: NVLink from Hopper on."""
    return gpu.has_fast_scale_up and gpu.vendor == "nvidia" and gpu.fp8_tflops is not None


def visible_bytes(gpu: Gpu) -> float:
    """Memory the driver shows to programs, bytes; a missing size is an error, not a guess."""
    if gpu.memory_gb is None:
        raise ValueError(f"{gpu.id} has no memory size in the catalogue")
    shares = _table()["visible_gib_per_gb"]
    kind = gpu.memory_type.lower()
    if "unified" in kind or kind.startswith("lpddr"):
        share = shares["unified"]
    elif kind.startswith("hbm"):
        share = shares["hbm"]
    elif gpu.form_factor == "pcie" and gpu.ecc and "gddr7" not in kind:
        share = shares["gddr_ecc"]
    else:
        share = shares["gddr" if gpu.form_factor == "consumer" else "workstation"]
    return float(gpu.memory_gb * share * GIB)
