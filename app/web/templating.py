"""Jinja set up once: autoescape on, unknown names are errors, numbers through the report's filters."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse

from app.ranges import Range
from app.report import text
from app.report.views import first_speed
from app.web.catalog_tables import TABLE_NAMES
from app.web.fields import BY_PATH, FormField, default_of

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"

ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt_llm": "TensorRT-LLM"}
EFFECT_WORDS = {"veto": "Ruled out:", "require": "Needed:", "prefer": "Better:", "warn": "Mind:", "info": "Note:"}


def label_of(path: str) -> str:
    """The form's label of a profile field; a field without one is named as words."""
    item = BY_PATH.get(path)
    if path == "workload":
        return "Kind of work"
    if item is None:
        return text.words(path.rsplit(".", 1)[-1])
    label = item.label.removeprefix("or ")
    return label[:1].upper() + label[1:]


def field_id(path: str) -> str:
    """The HTML id of a field."""
    return "f-" + path.replace(".", "-")


def on_form(path: str) -> bool:
    """Whether the form has a field for a profile path."""
    return path in BY_PATH


def typeable(path: str) -> bool:
    """Whether a field is one number, which can be typed where the assumption stands."""
    return path in BY_PATH and BY_PATH[path].kind in ("number", "integer")


def engine_name(value: str) -> str:
    """An engine as its makers write it."""
    return ENGINE_NAMES.get(value, text.words(value))


def changed_count(items: list[FormField], form: Any) -> int:
    """How many fields differ from their defaults."""
    return sum(1 for item in items if form.values.get(item.path, "").strip() not in ("", default_of(item)))


def memory_value(memory: Mapping[str, Range | float], label: str) -> str:
    """The memory part whose words are ``label``, with its range."""
    value = next((part for name, part in memory.items() if text.words(name) == label), None)
    return text.ranged(value) if isinstance(value, Range) else text.number(value)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        "number", "count", "ranged", "percent", "percent_range", "usd", "usd_range", "exact_usd", "architecture", "words", "moment",
        "shown", "sentence",
    ):  # fmt: skip
        environment.filters[name] = getattr(text, name)
    environment.filters["command_line"] = shlex.join
    environment.filters["memory_value"] = memory_value
    environment.filters["engine_name"] = engine_name
    environment.globals |= {
        "label_of": label_of,
        "field_id": field_id,
        "on_form": on_form,
        "typeable": typeable,
        "default_of": default_of,
        "changed_count": changed_count,
        "first_speed": first_speed,
        "table_name": TABLE_NAMES.__getitem__,
        "effect_word": EFFECT_WORDS.__getitem__,
    }
    return environment


ENVIRONMENT = _environment()


def page(template: str, status: int = 200, /, **context: Any) -> HTMLResponse:
    """A rendered page."""
    return HTMLResponse(ENVIRONMENT.get_template(template).render(**context), status_code=status)
