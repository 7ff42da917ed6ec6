"""Refit the constants of the serving engine: ``python -m app.validation.fit_serving reference/inference.csv``.

Robust least squares on the logarithm of predicted over measured throughput, time to first token and time per token of
comparable rows; no large source dominates (each weighs as the square root of its points). Every constant is
held near a starting value by a log-normal prior, so that what the data cannot tell stays where it is. Cross-validation
leaves out one source at a time. Writes ``app/engine/data/serving.toml``.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.loader import Catalog, load_catalog
from app.engine.serving.constants import COMMON_KEYS, GENERATION_KEYS, PassConstants, pass_constants_from, serving_constants
from app.engine.serving.explicit import explicit_point
from app.engine.serving.point import PointWork, ServingPoint, point_turn, point_work, running_requests, serve
from app.engine.serving.step import Rates, rates_of
from app.engine.serving.work import PassWork
from app.validation.inference import comparisons, completed
from app.workload.profile import ProfileError

FloatArray = NDArray[np.float64]

DATA = Path(__file__).parents[1] / "engine" / "data" / "serving.toml"
PRIOR = DATA.with_name("serving_prior.toml")
FITTED_GENERATIONS = ("default", "ampere", "ada", "hopper", "blackwell", "blackwell_workstation", "cdna2", "cdna3")
ENGINE_KEYS = (
    "step_gap_s", "layer_gap_s", "moe_gap_s", "parallel_gap_s", "sequence_gap_s", "prompt_gap_s", "gap_growth_per_year",
    "kernel_loss_per_year", "cache_factor", "burst_share", "burst_decay",
)  # fmt: skip
FITTED_ENGINES = ("vllm", "sglang", "tensorrt_llm")
SHARES = ("memory_share", "cache_share", "product_share", "narrow_product_share", "expert_share", "attention_share", "burst_share")
UPPER = {
    **dict.fromkeys(SHARES, 0.97),
    "gap_growth_per_year": 3.0,
    "kernel_loss_per_year": 0.25,
    "join": 12.0,
    "widened_share": 1.0,
    "gguf_share": 1.0,
    "burst_decay": 1.0,
}
LOWER = {"gap_growth_per_year": 1.0, "join": 1.0}
PRIOR_WIDTH = {"memory_share": 0.1, "product_share": 0.25, "narrow_product_share": 0.25, "step_gap_s": 1.0,
               "layer_gap_s": 1.0, "moe_gap_s": 1.0, "parallel_gap_s": 1.0, "sequence_gap_s": 1.0, "prompt_gap_s": 0.7,
               "burst_share": 0.2, "burst_decay": 1.0, "gguf_share": 1.0, "group_repeat": 1.0}  # fmt: skip
USUAL_WIDTH = 0.4
MEASURED_IN_TRAINING = {"cdna3": 0.1}
"""Prior width of product shares that training runs fix: the stock engines of 2024 on these GPUs say little about products."""
PRIOR_WEIGHT = 1.0
METRIC_WEIGHT = {"ttft_ms": 0.5}
"""Times to the first token hold queueing that no steady state knows; they count less."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One comparison: its point, kind and the factor between the kind's time and the metric."""

    row_id: str
    source: str
    metric: str
    index: int
    kind: str
    factor: float
    measured: float


@dataclass(frozen=True, slots=True)
class Problem:
    """All comparable rows as stacked work, so that one evaluation of the constants is one pass over arrays."""

    points: list[ServingPoint]
    work: PointWork
    rates: Rates
    observations: list[Observation]
    kinds: list[tuple[str, str, float]]
    """Distinct (generation, engine, year) of the points; ``kind_of`` says which each point has."""
    kind_of: NDArray[np.intp]
    index: NDArray[np.intp]
    factor: FloatArray
    time_kind: NDArray[np.str_]


def problem_of(rows: Sequence[Mapping[str, str]], catalog: Catalog) -> Problem:
    """Rows to arrays. Requests in flight of open loops are those of the constants now in the data file."""
    points: list[ServingPoint] = []
    works: list[PointWork] = []
    rates: list[Rates] = []
    found: list[Observation] = []
    for row in rows:
        try:
            point = explicit_point(completed(row), catalog)
        except ProfileError:
            continue
        served = serve(point)
        _, waiting = (served.running, 0.0) if point.requests_per_s is not None else running_requests(point)
        seen = []
        for metric, measured, predicted in comparisons(row, point, served):
            described = _described(metric, predicted, point, served.turn_s, served.tpot_s)
            if described is not None:
                seen.append(Observation(row["id"], row["source_key"], metric, len(points), *described, measured))
        if seen:
            points.append(point)
            works.append(point_work(point, max(served.running, 1.0), waiting))
            rates.append(rates_of(point.job, point.platform.gpu))
            found.extend(seen)
    names = [field.name for field in fields(Rates)]
    stacked = Rates(**{name: np.array([getattr(rate, name) for rate in rates]) for name in names})
    keys: list[tuple[str, str, float]] = [(point.platform.gpu.generation, point.job.engine, point.job.year) for point in points]
    kinds = sorted(set(keys))
    return Problem(
        points=points,
        work=_stacked(works),
        rates=stacked,
        observations=found,
        kinds=kinds,
        kind_of=np.array([kinds.index(key) for key in keys]),
        index=np.array([item.index for item in found]),
        factor=np.array([item.factor for item in found]),
        time_kind=np.array([item.kind for item in found]),
    )


def _described(metric: str, predicted: float, point: ServingPoint, turn_s: float, tpot_s: float) -> tuple[str, float] | None:
    """(kind, factor): rates are factor over the turn or the gap, latencies the time itself in ms."""
    if metric == "ttft_ms":
        return "first", 1e3
    if metric == "tpot_ms":
        return "gap", 1e3
    if point.requests_per_s is not None:
        return None
    if metric == "prefill_tok_s":
        return None
    if abs(predicted * tpot_s - 1) < 1e-6:
        return "gap_rate", 1.0
    return "turn_rate", predicted * turn_s


def _stacked(works: list[PointWork]) -> PointWork:
    parts: dict[str, Any] = {}
    for field in fields(PointWork):
        values = [getattr(work, field.name) for work in works]
        parts[field.name] = PassWork.stacked(values) if field.name in ("decode", "prompt") else np.array([float(value) for value in values])
    return PointWork(**parts)


class Parameters:
    """The fitted numbers as one vector of logarithms, and back to a table like the data file."""

    def __init__(self, table: dict[str, Any], prior: dict[str, Any]) -> None:
        self.table = table
        self.names: list[tuple[str, str, str]] = [("common", "", key) for key in COMMON_KEYS]
        self.names += [("generation", name, key) for name in FITTED_GENERATIONS for key in GENERATION_KEYS]
        self.names += [("engine", name, key) for name in FITTED_ENGINES for key in ENGINE_KEYS]
        self.start = np.log([max(self._value(prior, name), 1e-9) for name in self.names])
        self.now = np.log([max(self._value(table, name), 1e-9) for name in self.names])
        self.width = np.array([self._width(row, key) for _, row, key in self.names])
        self.lower = np.array([np.log(LOWER.get(key, 1e-9)) for _, _, key in self.names])
        self.upper = np.array([np.log(UPPER.get(key, 1e9)) for _, _, key in self.names])

    @staticmethod
    def _width(row: str, key: str) -> float:
        if key.endswith("product_share") and row in MEASURED_IN_TRAINING:
            return MEASURED_IN_TRAINING[row]
        return PRIOR_WIDTH.get(key, USUAL_WIDTH)

    @staticmethod
    def _value(table: dict[str, Any], name: tuple[str, str, str]) -> float:
        section, row, key = name
        if section == "common":
            return float(table["common"][key])
        fallback = "default" if section == "generation" else "vllm"
        return float(table[section].get(row, {}).get(key, table[section][fallback][key]))

    def as_table(self, vector: FloatArray) -> dict[str, Any]:
        """The data file's tables with the vector's numbers."""
        result: dict[str, dict[str, Any]] = {}
        for name, rows in self.table.items():
            if name in ("common", "generation", "engine"):
                result[name] = dict(rows) if name == "common" else {key: dict(values) for key, values in rows.items()}
        for (section, row, key), value in zip(self.names, np.exp(vector), strict=True):
            if section == "common":
                result["common"][key] = float(value)
            else:
                result[section].setdefault(row, {})[key] = float(value)
        return result


def constants_of(problem: Problem, table: dict[str, Any]) -> PassConstants:
    """Constants of every point as arrays."""
    known = [pass_constants_from(table, *key) for key in problem.kinds]
    names = [field.name for field in fields(PassConstants)]
    return PassConstants(**{name: np.array([getattr(one, name) for one in known])[problem.kind_of] for name in names})


def predictions(problem: Problem, table: dict[str, Any]) -> FloatArray:
    """Every observation's predicted value."""
    with np.errstate(over="ignore", invalid="ignore"):
        turn, _ = point_turn(problem.work, problem.rates, constants_of(problem, table))
    queue = problem.work.waiting * turn.turn_s / problem.work.running
    index, factor, kind = problem.index, problem.factor, problem.time_kind
    first, gap, whole = (turn.first_s + queue)[index], turn.gap_s[index], turn.turn_s[index]
    values: FloatArray = np.select(
        [kind == "first", kind == "gap", kind == "gap_rate"], [first * factor, gap * factor, factor / gap], factor / whole
    )
    return values


def weights_of(observations: list[Observation]) -> FloatArray:
    """Each source's metric weighs as the square root of its points."""
    counts = Counter((item.source, item.metric) for item in observations)
    return np.array([METRIC_WEIGHT.get(item.metric, 1.0) * counts[(item.source, item.metric)] ** -0.25 for item in observations])


def fitted(problem: Problem, parameters: Parameters, keep: NDArray[np.bool_] | None = None, start: FloatArray | None = None) -> FloatArray:
    """Vector of constants that explains the kept observations best."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    measured = np.log([item.measured for item in problem.observations])
    weight = weights_of(problem.observations) * (1.0 if keep is None else keep)

    def residuals(vector: FloatArray) -> FloatArray:
        error = np.log(predictions(problem, parameters.as_table(vector))) - measured
        robust = np.sign(error) * np.sqrt(2 * 0.15**2 * (np.sqrt(1 + (error / 0.15) ** 2) - 1))
        prior = PRIOR_WEIGHT * 0.1 * (vector - parameters.start) / parameters.width
        return np.concatenate([weight * robust, prior])

    begin = np.clip(parameters.start if start is None else start, parameters.lower + 1e-6, parameters.upper - 1e-6)
    solution = least_squares(residuals, begin, bounds=(parameters.lower, parameters.upper), max_nfev=40, x_scale=0.3)
    return np.asarray(solution.x)


def figures(problem: Problem, table: dict[str, Any], keep: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """Median absolute error by metric, over rows and over sources."""
    error = np.abs(predictions(problem, table) / np.array([item.measured for item in problem.observations]) - 1)
    result: dict[str, float] = {}
    for metric in sorted({item.metric for item in problem.observations}):
        chosen = np.array([item.metric == metric for item in problem.observations]) & (True if keep is None else keep)
        if not chosen.any():
            continue
        groups: dict[str, list[float]] = defaultdict(list)
        for position in np.flatnonzero(chosen):
            groups[problem.observations[position].source].append(float(error[position]))
        result[metric] = round(float(np.median(error[chosen])), 4)
        result[f"{metric}_by_source"] = round(float(np.median([np.median(values) for values in groups.values()])), 4)
    return result


SPREAD_METRICS = {
    "rate": ("throughput", "single_stream_tok_s"),
    "tpot": ("tpot_ms",),
    "ttft": ("ttft_ms",),
}
SPREAD_QUANTILES = (0.09, 0.91)


def spreads(problem: Problem, table: dict[str, Any]) -> dict[str, list[float]]:
    """Factors on a prediction between which four measurements in five lie, each source weighing as in the fit."""
    ratio = np.array([item.measured for item in problem.observations]) / predictions(problem, table)
    weight = weights_of(problem.observations) ** 2
    result = {}
    for name, metrics in SPREAD_METRICS.items():
        chosen = np.array([item.metric in metrics for item in problem.observations])
        order = np.argsort(ratio[chosen])
        share = np.cumsum(weight[chosen][order]) / weight[chosen].sum()
        ends = [float(np.interp(quantile, share, ratio[chosen][order])) for quantile in SPREAD_QUANTILES]
        result[name] = [round(min(ends[0], 1.0), 3), round(max(ends[1], 1.0), 3)]
    return result


def cross_validated(problem: Problem, parameters: Parameters, start: FloatArray, folds: int) -> dict[str, float]:
    """Figures with every source predicted by a fit that has not seen it; sources in ``folds`` groups."""
    sources = sorted({item.source for item in problem.observations})
    group = {source: number % folds for number, source in enumerate(sources)}
    held = np.empty(len(problem.observations))
    for fold in range(folds):
        outside = np.array([group[item.source] == fold for item in problem.observations])
        vector = fitted(problem, parameters, ~outside, start)
        held[outside] = predictions(problem, parameters.as_table(vector))[outside]
    error = np.abs(held / np.array([item.measured for item in problem.observations]) - 1)
    metrics = sorted({item.metric for item in problem.observations})
    return {
        metric: round(float(np.median(error[np.array([item.metric == metric for item in problem.observations])])), 4) for metric in metrics
    }


def written(table: dict[str, Any], original: dict[str, Any], facts: dict[str, Any]) -> str:
    """The data file's text. Versions and limits, which no fit changes, are carried over."""
    lines = ["# Constants of the serving engine, fitted; meaning of each: app/engine/serving/constants.py.", "[fit]"]
    lines += [f"{key} = {_toml(value)}" for key, value in facts.items()]
    lines += ["", "[common]", *(f"{key} = {value:.4g}" for key, value in table["common"].items())]
    for section in ("generation", "engine"):
        for row, values in table[section].items():
            kept = original[section].get(row, {})
            merged = {**kept, **values}
            lines += ["", f"[{section}.{row}]", *(f"{key} = {_toml(value)}" for key, value in merged.items())]
    for name, rows in original.items():
        if name not in ("fit", "common", "generation", "engine"):
            lines += _section(name, rows)
    return "\n".join(lines) + "\n"


def _section(name: str, rows: dict[str, Any]) -> list[str]:
    plain = {key: value for key, value in rows.items() if not isinstance(value, dict)}
    lines = ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in plain.items())] if plain else []
    for key, value in rows.items():
        if isinstance(value, dict):
            lines += _section(f"{name}.{key}", value)
    return lines


def _key(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, bool | str):
        return f'"{value}"' if isinstance(value, str) else str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> None:
    """Fit, report and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--rounds", type=int, default=2, help="fits, each with the open loops of the one before")
    parser.add_argument("--folds", type=int, default=0, help="cross-validation groups of sources; 0 = none")
    parser.add_argument("--afresh", action="store_true", help="begin at the prior, not at the constants in use")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with options.rows.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["comparable"] == "yes"]
    original = tomllib.loads(DATA.read_text(encoding="utf-8"))
    catalog = load_catalog()
    parameters = Parameters(original, tomllib.loads(PRIOR.read_text(encoding="utf-8")))
    vector = parameters.start if options.afresh else parameters.now
    for number in range(options.rounds):
        problem = problem_of(rows, catalog)
        vector = fitted(problem, parameters, start=vector)
        table = parameters.as_table(vector)
        result = figures(problem, table)
        say(f"round {number + 1}: {len(problem.observations)} figures of {len(problem.points)} rows: {result}")
        facts: dict[str, Any] = {
            "as_of": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "rows": len(problem.points),
            "figures": len(problem.observations),
            "method": "robust least squares on log ratios with priors; app/validation/fit_serving.py",
            "median_abs_error": result,
        }
        original["spread"] = spreads(problem, table)
        if options.folds and number == options.rounds - 1:
            facts["cross_validated_median_abs_error"] = cross_validated(problem, parameters, vector, options.folds)
            say(f"held-out sources: {facts['cross_validated_median_abs_error']}")
        if options.write:
            DATA.write_text(written(table, original, facts), encoding="utf-8")
            serving_constants.cache_clear()
            from app.engine.serving import constants

            constants._cached.cache_clear()


if __name__ == "__main__":
    main()
