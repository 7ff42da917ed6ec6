"""What no other beats in everything at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pareto_front(points: NDArray[np.float64]) -> list[int]:
    """Rows of ``points`` that no other row equals or betters in every column, smaller being better, in the order of the columns."""
    left = np.lexsort(points.T[::-1])
    front: list[int] = []
    while left.size:
        # The first in order cannot be beaten by a later one.
        front.append(int(left[0]))
        left = left[~(points[left] >= points[left[0]]).all(axis=1)]
    return front
