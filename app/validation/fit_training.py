"""Refit the constants of the training engine from published runs.

``python -m app.validation.fit_training TRAINING.csv [--write] [--cross]`` prints residuals (and, with ``--cross``, those of
leaving each source out), and with ``--write`` replaces the fitted numbers in ``app/engine/data/training.toml``. Needs
SciPy (the ``test`` extra). Sources weigh by the square root of their rows; no constant belongs to a row, source or model.
The fit starts from, and is held to, the fixed values of ``data/training_prior.toml``: what the rows cannot tell stays there.
"""

from __future__ import annotations

import argparse
import csv
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.loader import Catalog, load_catalog
from app.engine.training.constants import BY_GENERATION, generation_key, training_table
from app.engine.training.explicit import explicit_run, predict
from app.engine.training.job import TrainingJob, TrainingLayout
from app.engine.training.memory import training_memory_bytes
from app.engine.training.quantities import QUANTITY_NAMES, Quantities, quantities
from app.engine.training.search import usable_bytes
from app.engine.training.sizing import MEMORY_SPREAD
from app.engine.training.step import assemble
from app.units import GB
from app.validation.training import MEMORY_METRIC, points_of
from app.workload.profile import ProfileError

FloatArray = NDArray[np.float64]
DATA_FILE = Path("app/engine/data/training.toml")
PRIOR_FILE = DATA_FILE.with_name("training_prior.toml")
PRIOR_SPREAD = 0.35
"""Standard deviation of the prior on the logarithm of a constant: physical values, loosely held."""
PRIOR_WEIGHT = 0.21
"""Of the whole prior beside all rows. Half as much fits the rows as well but sources left out worse; four times as much,
the rows worse and sources left out no better."""
ROBUST_SCALE = 0.2
"""Logarithmic errors beyond this count linearly, not squared."""
MEMORY_UPPER = {"communicator_gb": 2.0}
"""NCCL channels and user buffers of one communicator take 1 to 2 GB; more would stand for something else."""
NEAR_LIMIT = 0.6
"""Runs predicted to need less than this share of their GPU say nothing about memory unless they state a peak."""
UPPER = {
    "gemm_share": 0.9, "gemm_share_8bit": 0.9, "attention_share": 0.85, "tp_exposed": 1.3, "cp_exposed": 1.3, "ep_exposed": 1.3,
    "pp_exposed": 1.5, "dp_exposed_floor": 0.8, "dp_cover": 1.0, "dp_gather_exposed": 1.0, "immaturity": 0.45, "head_share": 1.2,
}  # fmt: skip
LOWER = {"gemm_share": 0.35, "gemm_share_8bit": 0.3, "attention_share": 0.15}
"""Less than a library reaches on any of these GPUs would stand for something else."""
FIXED = ("watts_per_tflop",)


@dataclass(frozen=True)
class Sample:
    """Comparable rows as arrays: counts, measured step seconds, generation and source of each."""

    counts: Quantities
    measured_s: FloatArray
    sense: FloatArray
    """1 where the source states seconds, -1 where it states a rate: relative errors are of what it states."""
    generations: tuple[str, ...]
    sources: tuple[str, ...]

    def take(self, mask: NDArray[np.bool_]) -> Sample:
        """The rows of a mask."""
        counts = Quantities(**{name: getattr(self.counts, name)[mask] for name in QUANTITY_NAMES})
        keep = np.flatnonzero(mask)
        return Sample(
            counts, self.measured_s[mask], self.sense[mask], tuple(self.generations[i] for i in keep), tuple(self.sources[i] for i in keep)
        )


def sample_of(rows: Sequence[Mapping[str, str]], catalog: Catalog) -> Sample:
    """Counts and measured steps of the rows with a speed metric; open choices are settled with the current constants."""
    found: list[Quantities] = []
    measured, sense, generations, sources = [], [], [], []
    for row in rows:
        if (row.get("comparable") or "yes") != "yes":
            continue
        try:
            run = explicit_run(row, catalog)
        except ProfileError:
            continue
        speed = [point for point in points_of(row, catalog)[0] if point.metric != MEMORY_METRIC]
        if not speed:
            continue
        result = predict(run)
        ratio = speed[0].measured / speed[0].predicted
        found.append(quantities(run.job, run.platform, result.layout))
        sense.append(1.0 if speed[0].metric == "step_s" else -1.0)
        measured.append(result.optimizer_step_s * ratio ** sense[-1])
        generations.append(generation_key(run.platform.gpu))
        sources.append(speed[0].source_key)
    stacked = {name: np.concatenate([np.broadcast_to(getattr(item, name), (1,)) for item in found]) for name in QUANTITY_NAMES}
    return Sample(Quantities(**stacked), np.array(measured), np.array(sense), tuple(generations), tuple(sources))


class Model:
    """The fitted constants as one vector of logarithms."""

    def __init__(self, table: Mapping[str, Any], prior: Mapping[str, Any]) -> None:
        self.names = [("common", name) for name in table["common"] if name not in FIXED]
        for group in BY_GENERATION:
            if group not in FIXED:
                self.names += [(group, name) for name in table[group]]
        self.now = np.log([table[group][name] for group, name in self.names])
        self.start = np.log([float(prior[group][name]) for group, name in self.names])
        self.table = table

    def constants(self, logs: FloatArray, generations: Sequence[str]) -> dict[str, Any]:
        """Constants for :func:`assemble`, those by generation as arrays over rows."""
        values = dict(zip(self.names, np.exp(logs), strict=True))
        result: dict[str, Any] = {name: values.get(("common", name), value) for name, value in self.table["common"].items()}
        for group in BY_GENERATION:
            own = {name: values.get((group, name), value) for name, value in self.table[group].items()}
            result[group] = np.array([own.get(name, own["default"]) for name in generations])
        return result

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Factor 4 around the start, and physical upper limits."""
        high = np.array([np.log(UPPER.get(name if group == "common" else group, np.inf)) for group, name in self.names])
        low = np.array([np.log(LOWER.get(name if group == "common" else group, 1e-9)) for group, name in self.names])
        return np.minimum(np.maximum(self.start - np.log(4.0), low), self.start - 1e-6), np.maximum(
            np.minimum(self.start + np.log(4.0), high), self.start + 1e-6
        )

    def errors(self, logs: FloatArray, sample: Sample) -> FloatArray:
        """log(predicted / measured) of every row."""
        parts = assemble(sample.counts, self.constants(logs, sample.generations))
        result: FloatArray = np.log(parts.total / sample.measured_s)
        return result


def fit(model: Model, sample: Sample) -> FloatArray:
    """Logarithms of the constants with the least robust, source-weighted error."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    counts = Counter(sample.sources)
    weights = np.array([counts[source] ** -0.25 for source in sample.sources])
    weights /= np.sqrt(np.sum(weights**2))

    def residuals(logs: FloatArray) -> FloatArray:
        robust = _pseudo_huber(model.errors(logs, sample), ROBUST_SCALE) * weights
        return np.concatenate([robust, PRIOR_WEIGHT / np.sqrt(len(logs)) * (logs - model.start) / PRIOR_SPREAD])

    found = least_squares(residuals, np.clip(model.start, *_inside(model.bounds())), bounds=model.bounds(), max_nfev=80)
    result: FloatArray = found.x
    return result


def _inside(bounds: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    return bounds[0] + 1e-9, bounds[1] - 1e-9


def _pseudo_huber(errors: FloatArray, scale: float) -> FloatArray:
    """Signed square root of the pseudo-Huber loss: linear growth of the loss beyond ``scale``."""
    loss = 2 * scale**2 * (np.sqrt(1 + (errors / scale) ** 2) - 1)
    result: FloatArray = np.sign(errors) * np.sqrt(loss)
    return result


@dataclass(frozen=True)
class MemoryCase:
    """One run: its peak in bytes where stated, and the bytes its GPU offers, which a run that happened did not exceed."""

    job: TrainingJob
    layout: TrainingLayout
    peak_bytes: float | None
    usable_bytes: float
    source: str

    def predicted(self, constants: Mapping[str, float]) -> float:
        """Bytes of one GPU."""
        return sum(float(part[0]) for part in training_memory_bytes(self.job, self.layout, constants).values())


def memory_cases(rows: Sequence[Mapping[str, str]], catalog: Catalog) -> list[MemoryCase]:
    """Comparable rows with a peak, and those that come near the limit of their GPU."""
    cases = []
    for row in rows:
        if (row.get("comparable") or "yes") != "yes":
            continue
        try:
            run = explicit_run(row, catalog)
        except ProfileError:
            continue
        peaks = [point for point in points_of(row, catalog)[0] if point.metric == MEMORY_METRIC]
        result = predict(run)
        limit = usable_bytes(run.platform)
        if peaks or result.total_bytes > NEAR_LIMIT * limit:
            peak = peaks[0].measured * GB if peaks else None
            cases.append(MemoryCase(run.job, result.layout, peak, limit, row.get("source_key", "")))
    return cases


def fit_memory(cases: Sequence[MemoryCase], table: Mapping[str, float]) -> tuple[dict[str, float], FloatArray]:
    """Memory constants with the least robust, source-weighted error where a peak is stated, held below the GPU's memory
    (at the low end of the predicted range) everywhere; and the errors of the stated peaks."""
    from scipy.optimize import least_squares

    names = [name for name in table if name != "usable_fraction"]
    start = np.log([table[name] for name in names])
    stated = np.array([case.peak_bytes is not None for case in cases])
    peaks = np.array([case.peak_bytes or 1.0 for case in cases])
    limits = np.array([case.usable_bytes for case in cases]) / MEMORY_SPREAD[0]
    counts = Counter((case.source, case.peak_bytes is not None) for case in cases)
    weights = np.array([counts[case.source, case.peak_bytes is not None] ** -0.5 for case in cases]) / np.sqrt(len(counts))

    def parts(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = dict(zip(names, np.exp(logs), strict=True))
        predicted = np.array([case.predicted(values) for case in cases])
        return np.log(predicted / peaks), np.maximum(np.log(predicted / limits), 0.0)

    def residuals(logs: FloatArray) -> FloatArray:
        errors, excess = parts(logs)
        return np.concatenate([np.where(stated, _pseudo_huber(errors, 0.1), 4 * excess) * weights, 0.05 * (logs - start)])

    low = start - np.log(4.0)
    high = np.array([np.log(MEMORY_UPPER.get(name, np.inf)) for name in names])
    high = np.minimum(start + np.log(4.0), high)
    found = least_squares(residuals, np.minimum(start, high - 1e-6), bounds=(low, high), max_nfev=25)
    return dict(zip(names, (float(value) for value in np.exp(found.x)), strict=True)), parts(found.x)[0][stated]


def described(errors: FloatArray, sources: Sequence[str]) -> dict[str, float]:
    """Median, 90th percentile and median over sources of |predicted/measured - 1|."""
    size = np.abs(np.expm1(errors))
    names = sorted(set(sources))
    by_source = [float(np.median(size[np.array([source == name for source in sources])])) for name in names]
    return {
        "rows": len(size),
        "median_abs_error": float(np.median(size)),
        "p90_abs_error": float(np.quantile(size, 0.9)),
        "source_median_abs_error": float(np.median(by_source)),
    }


def cross_validated(model: Model, sample: Sample) -> FloatArray:
    """Errors of every row with constants fitted without its source."""
    errors = np.zeros(len(sample.sources))
    for source in sorted(set(sample.sources)):
        mine = np.array([name == source for name in sample.sources])
        logs = fit(model, sample.take(~mine))
        errors[mine] = model.errors(logs, sample.take(mine))
    return errors


def rewritten(text: str, values: Mapping[str, float], figures: Mapping[str, Any]) -> str:
    """The data file with the fitted numbers in place and the figures of the fit in its ``[fit]`` table."""
    lines, group = [], ""
    for line in text.splitlines():
        header = re.fullmatch(r"\[(\w+)\]", line.strip())
        group = header.group(1) if header else group
        entry = re.fullmatch(r"(\w+) = .*", line.strip())
        name = entry.group(1) if entry else ""
        if f"{group}.{name}" in values:
            lines.append(f"{name} = {values[f'{group}.{name}']:.4g}")
        elif group == "fit" and name in figures:
            lines.append(f"{name} = {figures[name]:.4g}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cross", action="store_true")
    options = parser.parse_args()
    with options.rows.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    sample = sample_of(rows, load_catalog())
    model = Model(training_table(), tomllib.loads(PRIOR_FILE.read_text(encoding="utf-8")))
    print("before", described(sample.sense * model.errors(model.now, sample), sample.sources))
    logs = fit(model, sample)
    errors = model.errors(logs, sample)
    found: dict[str, Any] = described(sample.sense * errors, sample.sources)
    print("after ", found)
    for (group, name), old, new in zip(model.names, np.exp(model.now), np.exp(logs), strict=True):
        print(f"  {group}.{name}: {old:.4g} -> {new:.4g}")
    for source in sorted(set(sample.sources)):
        own = errors[np.array([name == source for name in sample.sources])]
        print(f"  {source:16} {own.size:4} median |e| {np.median(np.abs(np.expm1(own))):.3f} bias of step {np.expm1(np.median(own)):+.3f}")
    if options.cross:
        crossed = described(sample.sense * cross_validated(model, sample), sample.sources)
        print("leave one source out", crossed)
        found |= {f"cross_{name}": value for name, value in crossed.items() if name != "rows"}
    memory, memory_errors = fit_memory(memory_cases(rows, load_catalog()), training_table()["memory"])
    print("memory", memory, float(np.median(np.abs(np.expm1(memory_errors)))), float(np.quantile(np.abs(np.expm1(memory_errors)), 0.9)))
    found["memory_median_abs_error"] = float(np.median(np.abs(np.expm1(memory_errors))))
    values = {f"{group}.{name}": float(value) for (group, name), value in zip(model.names, np.exp(logs), strict=True)}
    values |= {f"memory.{name}": value for name, value in memory.items()}
    if options.write:
        DATA_FILE.write_text(rewritten(DATA_FILE.read_text(encoding="utf-8"), values, found), encoding="utf-8")


if __name__ == "__main__":
    main()
