"""The words of the verdict."""

from __future__ import annotations

import pytest

from app.advice.explain import share_words


@pytest.mark.parametrize(("share", "words"), [(0.0, "none"), (0.0004, "under 1%"), (0.0099, "under 1%"), (0.01, "1%"), (0.124, "12%")])
def test_a_small_share_is_not_called_nothing(share, words):
    """0.04% rounds to 0%, and would read as if there were no exchange."""
    assert share_words(share) == words
