"""The fitted constants of the training engine (``data/training.toml``) for one GPU."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from app.catalog.schema import Gpu

BY_GENERATION = ("gemm_share", "gemm_share_8bit", "attention_share", "watts_per_tflop")


@cache
def training_table() -> dict[str, Any]:
    """The data file: ``common`` constants, tables by GPU generation, and the fit that produced them."""
    text = (resources.files("app.engine") / "data" / "training.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def generation_key(gpu: Gpu) -> str:
    """The generation whose constants hold: workstation Blackwell is Ada's successor in kind, CDNA4 follows CDNA3."""
    same = {"blackwell_workstation": "ada", "cdna4": "cdna3", "cdna5": "cdna3", "rubin": "blackwell", "gaudi3": "gaudi2"}
    return same.get(gpu.generation, gpu.generation)


def training_constants(gpu: Gpu) -> Mapping[str, float]:
    """Common constants and those of the GPU's generation (``default`` where it has none)."""
    return _of_generation(generation_key(gpu))


@cache
def _of_generation(key: str) -> Mapping[str, float]:
    table = training_table()
    return {**table["common"], **{name: table[name].get(key, table[name]["default"]) for name in BY_GENERATION}}
