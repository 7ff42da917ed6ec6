"""What failures and checkpoints take from a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

GPU_HOURS_BETWEEN_FAILURES = 50_700.0
"""One unplanned interruption per 50,700 GPU-hours: 419 in 54 days on 16,384 H100 (Llama 3 report, arXiv 2407.21783)."""
RESTART_S = 600.0
"""Detect, replace, restart and reload: about ten minutes in published operations of large runs."""
CHECKPOINT_S = 60.0
"""Time a checkpoint stops training when the storage is sized for it (see app.design.storage)."""


def best_checkpoint_interval_s(gpus: ArrayLike, checkpoint_s: float = CHECKPOINT_S) -> NDArray[np.float64]:
    """Young's interval ``sqrt(2 C M)``, C checkpoint time and M mean time between failures of the job, seconds
    (J. W. Young, CACM 17(9), 1974)."""
    between = GPU_HOURS_BETWEEN_FAILURES * 3600 / np.maximum(np.asarray(gpus, dtype=float), 1.0)
    return np.sqrt(2 * checkpoint_s * between)


def goodput_fraction(gpus: ArrayLike, checkpoint_s: float = CHECKPOINT_S, restart_s: float = RESTART_S) -> NDArray[np.float64]:
    """Useful share of wall time: ``1 / (1 + C/T + (T/2 + R)/M)`` at the best interval T (first order, Daly 2006)."""
    between = GPU_HOURS_BETWEEN_FAILURES * 3600 / np.maximum(np.asarray(gpus, dtype=float), 1.0)
    interval = best_checkpoint_interval_s(gpus, checkpoint_s)
    result: NDArray[np.float64] = 1 / (1 + checkpoint_s / interval + (interval / 2 + restart_s) / between)
    return result
