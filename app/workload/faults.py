"""What is wrong with a profile, in words: the field, the fault, the limit and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

MAX_ERRORS = 50
MAX_SUGGESTIONS = 10
"""Unknown names for which the nearest known one is looked up; each look-up takes about a millisecond."""
MAX_FIELD = 200
"""Characters of a field path in an error; a hostile key may be a megabyte."""
MAX_NAME = 60
"""Longest unknown name compared with the known ones."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem: which field, what is wrong and what to try, and the limit that was broken."""

    field: str
    message: str
    limit: str = ""


class ProfileError(ValueError):
    """A profile that cannot be used; ``errors`` name every field at fault."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = errors


def fault(message: str, *, field: str = "", limit: str = "") -> PydanticCustomError:
    """An error to raise inside a validator. ``field`` is relative to the part being validated."""
    return PydanticCustomError("fault", "{message}", {"message": message, "field": field, "limit": limit})


def profile_errors(error: ValidationError, root: type[BaseModel]) -> list[FieldError]:
    """Field, message and limit of every problem pydantic found in a ``root``, one for each field."""
    found: dict[str, FieldError] = {}
    suggestions = 0
    for item in error.errors(include_url=False)[:MAX_ERRORS]:
        context = item.get("ctx") or {}
        steps = [str(step) for step in item["loc"]]
        path = ".".join([*steps, *([context["field"]] if context.get("field") else [])])[:MAX_FIELD] or "profile"
        if item["type"] == "extra_forbidden":
            suggestions += 1
            message, limit = unknown_field(steps, root if suggestions <= MAX_SUGGESTIONS else None)
        else:
            message, limit = _worded(item, context)
        found.setdefault(path, FieldError(path, message, limit))
    return list(found.values())


def unknown_field(steps: Sequence[str], root: type[BaseModel] | None) -> tuple[str, str]:
    """The nearest known name: of the same part first, then of any part, with its path. ``root`` None: no look-up."""
    name = steps[-1]
    if root is None or len(name) > MAX_NAME:
        return "is not a known field", ""
    here = _model_at(root, steps[:-1])
    siblings = list(here.model_fields) if here is not None else []
    near = get_close_matches(name, siblings, n=1)
    if near:
        return f"is not a known field; did you mean {near[0]}?", ""
    paths = known_paths(root)
    elsewhere = get_close_matches(name, list(paths), n=1, cutoff=0.75)
    if elsewhere:
        return f"is not a known field here; did you mean {paths[elsewhere[0]]}?", ""
    return "is not a known field" + (f"; known here: {', '.join(siblings)}" if 0 < len(siblings) <= 15 else ""), ""


def known_paths(root: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Last name to dotted path, of every field of ``root`` and its parts."""
    found: dict[str, str] = {}
    for name, field in root.model_fields.items():
        path = f"{prefix}{name}"
        found.setdefault(name, path)
        inner = part_of(field.annotation)
        if inner is not None:
            for last, dotted in known_paths(inner, f"{path}.").items():
                found.setdefault(last, dotted)
    return found


def part_of(annotation: Any) -> type[BaseModel] | None:
    """The part a field holds, alone, optional or in a list; None for a plain value or a range."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return None if annotation.__name__ == "Range" else annotation
    return next((part for part in map(part_of, get_args(annotation)) if part is not None), None)


def _model_at(root: type[BaseModel], steps: Sequence[str]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = root
    for step in steps:
        if step.isdigit():
            continue
        if model is None or step not in model.model_fields:
            return None
        model = part_of(model.model_fields[step].annotation)
    return model


def _worded(item: ErrorDetails, context: Mapping[str, Any]) -> tuple[str, str]:
    """Message and limit of one fault, without the validating library's jargon."""
    kind, given = item["type"], item["input"]
    if kind == "fault":
        return str(context["message"]), str(context["limit"])
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        key, words = {
            "greater_than": ("gt", "greater than"),
            "greater_than_equal": ("ge", "at least"),
            "less_than": ("lt", "less than"),
            "less_than_equal": ("le", "at most"),
        }[kind]
        bound = f"{words} {context[key]:,.15g}"
        return f"must be {bound}", bound
    if kind == "literal_error":
        return _choice(given, str(context["expected"]))
    if kind in ("float_type", "int_type", "int_from_float", "finite_number", "int_parsing_size"):
        return _no_number(kind, given)
    if kind in ("string_too_long", "too_long", "too_short", "string_too_short"):
        return _length(kind, context)
    return _PLAIN.get(kind, str(item["msg"]).removeprefix("Value error, ")), ""


_OBJECT = "must be an object with fields of its own, written in braces"
_DATE = "must be a date such as 2026-01-31"
_PLAIN = {
    "missing": "is required",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "has a character that text cannot hold (half of a surrogate pair)",
    "string_pattern_mismatch": "must have at least one visible character and no control characters",
    "tuple_type": "must be a list, written in square brackets",
    "list_type": "must be a list, written in square brackets",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "invalid_key": "must have text as its name",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
}


def _choice(given: Any, expected: str) -> tuple[str, str]:
    known = expected.replace("'", "").replace(" or ", ", ").split(", ")
    near = get_close_matches(given.lower(), known, n=1) if isinstance(given, str) and len(given) <= MAX_NAME else []
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"must be one of {', '.join(known)}{hint}", f"one of {', '.join(known)}"


def _no_number(kind: str, given: Any) -> tuple[str, str]:
    if kind == "finite_number" or (isinstance(given, int) and not isinstance(given, bool)):
        return "is not a number that can be worked with; give a finite number or leave the field out", "finite"
    if kind in ("int_type", "int_from_float"):
        return "must be a whole number, without quotes, fraction or decimal point", "whole number"
    return "must be a number, without quotes", "number"


def _length(kind: str, context: Mapping[str, Any]) -> tuple[str, str]:
    unit = "characters" if kind.startswith("string") else "entries"
    bound = f"at most {context['max_length']:,}" if "max_length" in context else f"at least {context['min_length']:,}"
    return f"must have {bound} {unit}", f"{bound} {unit}"
