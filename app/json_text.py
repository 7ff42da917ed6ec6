"""JSON as the adapters accept it: UTF-8, one meaning, bounded depth, nothing that later steps cannot hold."""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 32
MAX_NUMBER_CHARACTERS = 400
"""Longest number literal; 1.8e308 written out in full has 309 digits."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_UNSOUND = re.compile("[\x00\ud800-\udfff]")


class JsonTextError(ValueError):
    """Text that is not acceptable JSON; ``field`` says where, as far as that is known."""

    def __init__(self, message: str, field: str = "body") -> None:
        super().__init__(message)
        self.field = field


def load_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``.

    Refused, beside what is not JSON: NaN and infinities, numbers too large to hold, a key given twice,
    nesting beyond :data:`MAX_DEPTH`, and text with NUL or unpaired surrogates.

    Raises:
        JsonTextError: says what is wrong.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonTextError(f"is not UTF-8: byte {error.start} does not belong to a character") from None
    if _is_too_deep(text):
        raise JsonTextError(f"is nested too deeply; at most {MAX_DEPTH} levels")
    try:
        value = json.loads(text, parse_int=_whole, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise JsonTextError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    if not isinstance(value, dict):
        raise JsonTextError("must be a JSON object")
    _check(value)
    return value


def _is_too_deep(text: str) -> bool:
    """Whether brackets outside strings nest beyond the limit; found before parsing, which recurses."""
    depth = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif mark in "]}":
            depth -= 1
    return False


def _whole(text: str) -> int | float:
    """A whole number, or infinity for one that no later step could hold."""
    if len(text) > MAX_NUMBER_CHARACTERS:
        return math.inf
    value = int(text)
    try:
        float(value)
    except OverflowError:
        return math.inf
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise JsonTextError("is given twice", key[:100])
        found[key] = value
    return found


def _check(value: Any) -> None:
    """Every number finite, every text sound; walked without recursion, so that the path can be told."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str):
            _check_string(item, path)
        elif isinstance(item, float) and not math.isfinite(item):
            raise JsonTextError(
                "is not a number that can be worked with; give a finite number or leave the field out", path[:100] or "body"
            )
        elif isinstance(item, dict):
            for key, child in item.items():
                _check_string(key, path)
                stack.append((f"{path}.{key}" if path else key, child))
        elif isinstance(item, list):
            stack.extend((f"{path}.{number}", child) for number, child in enumerate(item))


def _check_string(text: str, path: str) -> None:
    if _UNSOUND.search(text):
        raise JsonTextError("has a character that text cannot hold (NUL or half of a surrogate pair)", path[:100] or "body")
