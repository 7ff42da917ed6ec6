"""What failures and checkpoints take from a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

GPU_HOURS_BETWEEN_FAILURES = 50_700.0
"""One unplanned interruption per 50,700 GPU-hours: 419 in 54 days on 16,384 H100 (Llama 3 report, arXiv 2407.21783).
Meta's A100 clusters lie on both sides: 2.3 to 6.5 failures per 1,000 node-days, or 29,000 to 82,000 GPU-hours
(arXiv 2410.21680)."""
RESTART_S = 600.0
"""Detect, replace, restart and reload: about ten minutes in published operations of large runs."""
CHECKPOINT_BYTES_PER_S_PER_GPU = 0.25e9
"""Rate at which one GPU's share of a checkpoint leaves for storage: 2 GB/s per 8-GPU server (assumption: what a storage
system sized by common guides gives each server; see app.design.storage for the one a design gets)."""
SHORTEST_CHECKPOINT_S = 5.0
"""Collect, serialise and return to work, however small the state (assumption)."""


def checkpoint_time_s(state_bytes: ArrayLike, gpus: ArrayLike) -> NDArray[np.float64]:
    """Seconds a checkpoint stops training when every GPU writes its share at once: ``max(5, bytes / (gpus x rate))``.

    state_bytes: weights, master copy and optimizer state of the whole job, bytes.
    """
    written = np.asarray(state_bytes, dtype=float) / (np.maximum(np.asarray(gpus, dtype=float), 1.0) * CHECKPOINT_BYTES_PER_S_PER_GPU)
    result: NDArray[np.float64] = np.maximum(written, SHORTEST_CHECKPOINT_S)
    return result


def time_between_failures_s(gpus: ArrayLike) -> NDArray[np.float64]:
    """Mean time between failures of a job, seconds: failures of single GPUs and their share of the rest add up."""
    result: NDArray[np.float64] = GPU_HOURS_BETWEEN_FAILURES * 3600 / np.maximum(np.asarray(gpus, dtype=float), 1.0)
    return result


def best_checkpoint_interval_s(gpus: ArrayLike, checkpoint_s: ArrayLike) -> NDArray[np.float64]:
    """Young's interval ``sqrt(2 C M)``, C checkpoint time and M mean time between failures of the job, seconds
    (J. W. Young, CACM 17(9), 1974)."""
    result: NDArray[np.float64] = np.sqrt(2 * np.asarray(checkpoint_s, dtype=float) * time_between_failures_s(gpus))
    return result


def goodput_fraction(gpus: ArrayLike, checkpoint_s: ArrayLike, restart_s: float = RESTART_S) -> NDArray[np.float64]:
    """Useful share of wall time: ``1 / (1 + C/T + (T/2 + R)/M)`` at the best interval T (first order, Daly 2006)."""
    interval = best_checkpoint_interval_s(gpus, checkpoint_s)
    lost = (interval / 2 + restart_s) / time_between_failures_s(gpus)
    result: NDArray[np.float64] = 1 / (1 + np.asarray(checkpoint_s, dtype=float) / interval + lost)
    return result
