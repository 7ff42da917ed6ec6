"""Numbers as people read them."""

from __future__ import annotations

import pytest

from app.units import percent


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0%"),
        (0.0004, "under 0.1%"),
        (-0.0004, "under 0.1%"),
        (0.004, "0.4%"),
        (0.0097, "1.0%"),
        (0.00996, "1%"),
        (0.124, "12%"),
        (1.0, "100%"),
    ],
)
def test_a_small_share_is_not_called_nothing(share, words):
    """0.04% rounds to 0%, and would read as if there were no exchange."""
    assert percent(share) == words
