"""All families of published measurements by file, in one call."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.catalog.loader import Catalog, load_catalog

FILES = ("training", "inference", "memory", "pairs", "tco", "collectives", "fabrics", "scenarios")
"""Families in the order of the command's options."""


def validate_files(files: Mapping[str, Path]) -> dict[str, Any]:
    """``{family: figures}`` for every file; rows set apart appear as ``<family>_other``.

    Raises:
        ValueError: ``pairs`` without ``inference``, whose rows its ids name.
    """
    if "pairs" in files and "inference" not in files:
        raise ValueError("--pairs needs --inference: its ids name rows of that file")
    catalog = load_catalog()
    result: dict[str, Any] = {}
    for family, path in files.items():
        if family == "pairs" and "inference" not in files:
            raise ValueError("--pairs names rows of the inference file: give --inference as well")
        figures = _pairs(path, files["inference"], catalog) if family == "pairs" else dict(_family(family, path, files, catalog))
        for key in ("other", "flagged", f"{family}_other"):
            if figures.get(key):
                result[f"{family}_other"] = figures.pop(key)
        result[family] = figures
    return {name: result[name] for name in sorted(result)}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _pairs(path: Path, inference: Path, catalog: Catalog) -> dict[str, Any]:
    from app.validation.pairs import validate_pairs

    return validate_pairs(_rows(path), _rows(inference), catalog)


def _family(family: str, path: Path, files: Mapping[str, Path], catalog: Catalog) -> dict[str, Any]:
    """Figures of one family; each validator is imported when asked for."""
    if family == "scenarios":
        from app.validation.scenarios import validate_scenarios

        with path.open(encoding="utf-8") as lines:
            return validate_scenarios(lines, catalog)
    if family == "pairs":
        from app.validation.pairs import validate_pairs

        return validate_pairs(list(_rows(path)), list(_rows(files["inference"])), catalog)
    return _validator(family)(_rows(path), catalog)


def _validator(family: str) -> Callable[[Iterator[dict[str, str]], Catalog], dict[str, Any]]:
    if family == "training":
        from app.validation.training import validate_training

        return validate_training
    if family == "inference":
        from app.validation.inference import validate_inference

        return validate_inference
    if family == "memory":
        from app.validation.serving_memory import validate_serving_memory

        return validate_serving_memory
    if family == "memory":
        from app.validation.serving_memory import validate_serving_memory

        return validate_serving_memory
    if family == "tco":
        from app.validation.tco import validate_tco

        return validate_tco
    if family == "collectives":
        from app.validation.collectives import validate_collectives

        return validate_collectives
    from app.validation.fabrics import validate_fabrics

    return validate_fabrics
