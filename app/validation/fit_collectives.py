"""Refit the collective constants of links inside one server from published sweeps.

``python -m app.validation.fit_collectives SWEEPS.csv [--write]`` prints the residuals and, with ``--write``,
replaces ``app/engine/data/links.toml``. Needs SciPy (the ``test`` extra). Rows are pooled by link kind and
collective; nothing is fitted to one source row or one model.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.engine.collective_request import COLLECTIVE_NAMES, link_kind
from app.engine.links import LINKS_FILE
from app.engine.platform import PCIE_BYTES_PER_S_PER_LANE
from app.units import US

FloatArray = NDArray[np.float64]

WIRE_BYTES_PER_S = {
    "nvlink3": 300e9,
    "nvlink4": 450e9,
    "nvlink5": 900e9,
    "pcie4": PCIE_BYTES_PER_S_PER_LANE[4] * 16,
    "pcie5": PCIE_BYTES_PER_S_PER_LANE[5] * 16,
}
"""One direction per GPU; vendors' data sheets, halved."""

LINES = 3
BOUNDS_US = (2.0, 200.0)
STEP_BOUNDS_US = (1e-2, 40.0)
FRACTION_BOUNDS = (1e-3, 1.2)
EXPONENT_BOUNDS = (-2.0, 0.6)
PRINTED_PEAK_BYTES_PER_S = {"pcie4": 24e9}
"""The PCIe 4 sweep (11 GB/s on two GPUs, 5 on four, 1.4 on eight) runs over a host path known to be poor, and NVIDIA prints
24 GB/s for PCIe 4 (GTC24 S62129). With one sweep and one peak, the bandwidth regime stands at their geometric middle."""
STARTS = (((8.0, 12.0, 30.0), (0.02, 0.3, 0.8)), ((5.0, 20.0, 60.0), (0.1, 0.5, 0.9)), ((10.0, 12.0, 20.0), (0.02, 0.3, 0.8)))


def _time_s(logs: FloatArray, ranks: FloatArray, volume: FloatArray, wire: float, in_network: bool) -> FloatArray:
    """Lower envelope of three straight lines (and the in-network one above four GPUs); see ``collective_time_s``."""
    crowd = (ranks / 8.0) ** logs[3 * LINES]
    lines = []
    for i in range(LINES):
        alpha, step, fraction = np.exp(logs[3 * i : 3 * i + 3])
        lines.append(US * (alpha + step * (ranks - 2)) + volume / (wire * fraction * crowd))
    time: FloatArray = np.minimum.reduce(lines)
    if in_network:
        alpha, fraction = np.exp(logs[3 * LINES + 1 :])
        time = np.where(ranks > 4, np.minimum(time, US * alpha + volume / (wire * fraction)), time)
    return time


def fit_one(kind: str, collective: str, points: list[tuple[int, float, float]]) -> tuple[str, FloatArray]:
    """Constants of one link kind and collective as a TOML table, and the relative errors of the fit."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    ranks, sizes, measured = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    wire = WIRE_BYTES_PER_S[kind]
    in_network = collective == "all_reduce" and kind in ("nvlink4", "nvlink5")
    volume = (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks * sizes

    def residuals(logs: FloatArray) -> FloatArray:
        result: FloatArray = np.log(_time_s(logs, ranks, volume, wire, in_network) / measured)
        return result

    low = [*np.log([BOUNDS_US[0], STEP_BOUNDS_US[0], FRACTION_BOUNDS[0]] * LINES), EXPONENT_BOUNDS[0]]
    high = [*np.log([BOUNDS_US[1], STEP_BOUNDS_US[1], FRACTION_BOUNDS[1]] * LINES), EXPONENT_BOUNDS[1]]
    if in_network:
        low += [*np.log([10.0, 0.3])]
        high += [*np.log([100.0, 1.2])]
    best = None
    for alphas, fractions in STARTS:
        start = [value for i in range(LINES) for value in np.log([alphas[i], 1.0, fractions[i]])] + [0.0]
        if in_network:
            start += [*np.log([40.0, 1.0])]
        found = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=400)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    logs = best.x
    if kind in PRINTED_PEAK_BYTES_PER_S:
        logs = _halfway(logs, PRINTED_PEAK_BYTES_PER_S[kind] / wire)
    errors: FloatArray = np.expm1(residuals(logs))
    return _table(kind, collective, logs, in_network, errors), errors


def _halfway(logs: FloatArray, peak_fraction: float) -> FloatArray:
    """Constants whose fastest line stands at the geometric middle of the fit and a peak that holds for any rank count.

    ``sqrt(f (n / 8) ** x * peak) = sqrt(f * peak) (n / 8) ** (x / 2)``; the slower lines keep their rate at eight ranks.
    """
    result = logs.copy()
    fastest = 3 * int(np.argmax(logs[2 : 3 * LINES : 3])) + 2
    result[fastest] = (logs[fastest] + np.log(peak_fraction)) / 2
    result[3 * LINES] = logs[3 * LINES] / 2
    return result


def _table(kind: str, collective: str, logs: FloatArray, in_network: bool, errors: FloatArray) -> str:
    lines = sorted((np.exp(logs[3 * i : 3 * i + 3]) for i in range(LINES)), key=lambda line: float(line[2]))
    size = np.abs(errors)
    text = [
        f"[{kind}.{collective}]",
        f"alpha_us = [{', '.join(f'{line[0]:.4g}' for line in lines)}]",
        f"step_us = [{', '.join(f'{line[1]:.4g}' for line in lines)}]",
        f"wire_fraction = [{', '.join(f'{line[2]:.4g}' for line in lines)}]",
        f"ranks_exponent = {logs[3 * LINES]:.3f}",
    ]
    if in_network:
        alpha, fraction = np.exp(logs[3 * LINES + 1 :])
        text.append(f"in_network = {{ alpha_us = {alpha:.4g}, wire_fraction = {fraction:.4g} }}")
    text.append(
        f"fit = {{ points = {errors.size}, median_abs_error = {np.median(size):.3f}, p90_abs_error = {np.quantile(size, 0.9):.3f} }}"
    )
    return "\n".join(text)


HEADER = """# Collectives inside one server, by link kind and collective.
# Written by `python -m app.validation.fit_collectives`; do not edit.
#
# time = lowest of three lines: alpha_us + step_us * (ranks - 2) + volume / (wire * wire_fraction * (ranks / 8) ** ranks_exponent),
# volume = 2 (n-1)/n * size for all-reduce, (n-1)/n * size for the others; in_network: NVSwitch reduces, more than four ranks.
# Data: single-node NCCL 2.27 / 2.29 sweeps, 512 B to 512 MiB, fp16 and int8, 2 / 4 / 8 GPUs (NVIDIA AIConfigurator tables,
# Apache-2.0). PCIe 4: bandwidth halfway between one sweep over a poor host path and the 24 GB/s NVIDIA prints.
as_of = "2026-12"
"""


def main() -> None:
    """Fit all groups of the sweeps file and print or write the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    groups: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    with arguments.sweeps.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            key = (link_kind(row["intra_link"]), COLLECTIVE_NAMES[row["collective"]])
            groups[key].append((int(row["n_gpus"]), float(row["message_bytes"]), float(row["latency_us"]) * US))
    tables, errors = [], []
    for (kind, collective), points in sorted(groups.items()):
        text, group_errors = fit_one(kind, collective, points)
        tables.append(text)
        errors.append(np.abs(group_errors))
    pooled = np.concatenate(errors)
    summary = f"points = {pooled.size}, median_abs_error = {np.median(pooled):.3f}, p90_abs_error = {np.quantile(pooled, 0.9):.3f}"
    document = HEADER + f"fit = {{ {summary} }}\n\n" + "\n\n".join(tables) + "\n"
    if arguments.write:
        LINKS_FILE.write_text(document, encoding="utf-8")
    print(summary if arguments.write else document)


if __name__ == "__main__":
    main()
