"""Reading the questionnaire: from what was typed to a profile, and from a profile to what the form shows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.web.fields import BY_PATH, FIELDS, WORKLOADS, FormField, default_of, fields_for
from app.workload.profile import FieldError, ProfileError, WorkloadProfile, parse_profile

MAX_CONFIG = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A form as it stands: what was typed, what is wrong with it, and the profile when nothing is."""

    workload: str
    values: dict[str, str]
    errors: tuple[FieldError, ...] = ()
    profile: WorkloadProfile | None = None
    messages: dict[str, str] = field(default_factory=dict)


def values_of(profile: WorkloadProfile) -> dict[str, str]:
    """What the form shows for a profile."""
    document = profile.to_json()
    owned = document.get("constraints", {}).get("owned") or [{}]
    values = {}
    for item in FIELDS:
        source = {"owned": owned[0]} if item.path.startswith("owned.") else document
        value = _get(source, item.path)
        if value is not None:
            values[item.path] = _shown(value)
    values["name"] = profile.name
    return values


def _get(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, Mapping) and set(value) == {"low", "mid", "high"}:
        low, mid, high = (f"{value[end]:.15g}" for end in ("low", "mid", "high"))
        return mid if low == high else f"{low} / {mid} / {high}"
    if isinstance(value, Mapping):
        return json.dumps(value, indent=2)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def read_form(form: Mapping[str, str]) -> Filled:
    """Read what was typed. Every value is kept for showing again; faults name their field."""
    workload = form.get("workload", "")
    if workload not in WORKLOADS:
        error = FieldError("workload", "choose one of the kinds of work listed", "")
        return Filled(workload="online_inference", values=dict(form), errors=(error,))
    raw: dict[str, Any] = {"workload": workload}
    errors: list[FieldError] = []
    name = form.get("name", "").strip()
    if name:
        raw["name"] = name
    for item in fields_for(workload):
        text = form.get(item.path, "").strip()
        if item.kind == "check":
            _check(raw, item, text, bool(form.get("form", "")))
            continue
        if not text or text == default_of(item):
            continue
        try:
            _put(raw, item.path, _parsed(item, text))
        except ValueError as error:
            errors.append(FieldError(item.path, str(error), ""))
    _fold_owned(raw)
    values = {key: value[:MAX_CONFIG] for key, value in form.items()}
    profile = None
    if not errors:
        try:
            profile = parse_profile(raw)
        except ProfileError as error:
            errors = error.errors
    errors = [_to_form(error, workload) for error in errors]
    return Filled(
        workload=workload,
        values=values,
        errors=tuple(errors),
        profile=profile,
        messages={error.field: error.message for error in reversed(errors)},
    )


def _check(raw: dict[str, Any], item: FormField, text: str, submitted: bool) -> None:
    """A box: ticked is true; not ticked is false where the default is true and the form was really sent."""
    ticked = text not in ("", "0", "false", "off")
    if ticked != (default_of(item) == "on") and (ticked or submitted):
        _put(raw, item.path, ticked)


def _parsed(item: FormField, text: str) -> Any:
    if item.kind == "number":
        parts = [part.strip() for part in text.split("/")]
        if len(parts) == 3:
            low, mid, high = (_number(part) for part in parts)
            return {"low": low, "mid": mid, "high": high}
        return _number(text)
    if item.kind == "integer":
        value = _number(text)
        if value != int(value):
            raise ValueError("must be a whole number")
        return int(value)
    if item.kind == "list":
        return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
    if item.kind == "json":
        if len(text) > MAX_CONFIG:
            raise ValueError(f"is too long: at most {MAX_CONFIG:,} characters")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not valid JSON: {str(error)[:120]}") from None
        if not isinstance(value, dict):
            raise ValueError("must be a JSON object, as in a config.json")
        return value
    return text


THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def _number(text: str) -> float:
    """A number as people type it: 1,000 or 1 000 or 0.5; three with slashes are a range. A comma that does not part
    thousands is refused: 2,5 may be meant as two and a half."""
    if "," in text and not THOUSANDS.fullmatch(text.strip().removesuffix("%").strip()):
        raise ValueError(f"{text[:40]!r} is not clear: write a point before decimals (2.5) and commas only between thousands (2,500)")
    cleaned = text.replace(",", "").replace(" ", "").replace("_", "").removesuffix("%")
    try:
        value = float(cleaned)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number; type digits such as 1500 or 0.5, or low / mid / high") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _put(raw: dict[str, Any], path: str, value: Any) -> None:
    target = raw
    *steps, last = path.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value


def _fold_owned(raw: dict[str, Any]) -> None:
    """The one owned machine of the form becomes the list of the profile, when a GPU is named."""
    owned = raw.pop("owned", None)
    if owned and owned.get("gpu"):
        raw.setdefault("constraints", {})["owned"] = [{"count": 1, **owned}]


def _to_form(error: FieldError, workload: str) -> FieldError:
    """A fault of the profile at the form's field that can mend it."""
    path = error.field.replace("constraints.owned.0.", "owned.")
    while path and path not in BY_PATH and path not in ("workload", "name"):
        path = path.rpartition(".")[0]
    if not path:
        first = {"model": "model.id"}.get(error.message.split(":")[0], "")
        path = first or next(item.path for item in fields_for(workload) if item.part == "load")
    if path in ("model",):
        path = "model.id"
    return FieldError(path, error.message, error.limit)
