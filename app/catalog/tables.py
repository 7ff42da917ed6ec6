"""Read one data file into typed rows. Every refusal names the file, the row and the column."""

from __future__ import annotations

import csv
import dataclasses
import io
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from app.catalog.model_shape import ModelShape
from app.catalog.schema import ModelSource, Row

R = TypeVar("R", bound=BaseModel)


class CatalogError(ValueError):
    """A data file is wrong; the message names file, row and column."""


def fault(file: str, row: str, column: str, problem: str) -> CatalogError:
    """The one form of message for a wrong cell."""
    return CatalogError(f"{file}, row {row}, column {column}: {problem}")


def parse_toml(text: str, file: str, table: str) -> list[dict[str, Any]]:
    """The rows of one table; a file that is not TOML or has another table is refused."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{file}: not valid TOML: {error}") from None
    if set(data) != {table}:
        raise CatalogError(f"{file}: expected only [[{table}]] rows, found {sorted(data)}")
    return [{column: tuple(value) if isinstance(value, list) else value for column, value in row.items()} for row in data[table]]


def parse_csv(text: str, file: str, kind: type[Row]) -> Iterator[dict[str, str]]:
    """The filled cells of each row by column; an unknown column or a cell without one is refused."""
    reader = csv.DictReader(io.StringIO(text))
    for column in reader.fieldnames or ():
        if column not in kind.model_fields:
            raise fault(file, "1 (header)", column, f"not a column of {kind.__name__}")
    for number, row in enumerate(reader, start=1):
        if None in row:
            raise fault(
                file, str(number), f"after {(reader.fieldnames or [''])[-1]}", "more cells than columns; quote text that has commas"
            )
        yield {column: value for column, value in row.items() if value}


def check_rows(rows: Iterable[Mapping[str, Any]], file: str, kind: type[R], key: str = "id", *, typed: bool = True) -> list[R]:
    """Typed rows; the first fault is raised. ``typed``: values have types of their own (TOML), so ``"80"`` is no number."""
    found: list[R] = []
    for number, raw in enumerate(rows, start=1):
        try:
            found.append(kind.model_validate(raw, strict=typed))
        except ValidationError as error:
            raise _first_fault(error, file, f"{number} ({raw.get(key, '?')})") from None
    return found


def _first_fault(error: ValidationError, file: str, row: str) -> CatalogError:
    first = error.errors(include_url=False)[0]
    column = str(first["loc"][0]) if first["loc"] else "(row)"
    given = "" if first["type"] == "missing" or not first["loc"] else f" (got {first.get('input')!r})"
    return fault(file, row, column, first["msg"] + given)


def by_id(rows: Iterable[R], file: str, key: str = "id") -> Mapping[str, R]:
    """Rows by id; an id used twice is refused."""
    found: dict[str, R] = {}
    for number, row in enumerate(rows, start=1):
        name: str = getattr(row, key)
        if name in found:
            raise fault(file, f"{number} ({name})", key, "used twice")
        found[name] = row
    return MappingProxyType(found)


_SHAPE_TYPES = {item.name: str(item.type) for item in dataclasses.fields(ModelShape)}
_SHAPE = TypeAdapter(ModelShape)
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
MAY_BE_NEGATIVE = frozenset({"other_params_b"})
ROUNDED_TOTAL = 1.02
"""Published totals are rounded ("56B"), computed active counts are not: the latter may pass the former by this factor."""


def read_models(text: str, file: str = "models.toml") -> tuple[Mapping[str, ModelShape], Mapping[str, ModelSource]]:
    """Model shapes and, apart, where each row comes from."""
    shapes: dict[str, ModelShape] = {}
    sources: dict[str, ModelSource] = {}
    for number, raw in enumerate(parse_toml(text, file, "model"), start=1):
        row = f"{number} ({raw.get('id', '?')})"
        columns = {key: value for key, value in raw.items() if key in _SHAPE_TYPES}
        _check_types(columns, file, row)
        try:
            shape = _SHAPE.validate_python({"origin": "catalog", **columns})
        except ValidationError as error:
            raise _first_fault(error, file, row) from None
        if shape.id in shapes:
            raise fault(file, row, "id", "used twice")
        _check_shape(shape, file, row)
        rest = {key: value for key, value in raw.items() if key not in _SHAPE_TYPES}
        try:
            sources[shape.id] = ModelSource.model_validate(rest)
        except ValidationError as error:
            raise _first_fault(error, file, row) from None
        shapes[shape.id] = shape
    return MappingProxyType(shapes), MappingProxyType(sources)


def _check_types(columns: Mapping[str, Any], file: str, row: str) -> None:
    """Numbers are numbers and not below 0; the dataclass itself would take ``"80"`` or ``true`` for one."""
    for column, value in columns.items():
        expected = _PYTHON_TYPES.get(_SHAPE_TYPES[column])
        if expected is None:
            continue
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            raise fault(file, row, column, f"must be a {_SHAPE_TYPES[column]} (got {value!r})")
        if isinstance(value, (int, float)) and column not in MAY_BE_NEGATIVE and value < 0:
            raise fault(file, row, column, f"must be at least 0 (got {value!r})")


def _check_shape(shape: ModelShape, file: str, row: str) -> None:
    """What must agree between the columns of one model."""
    mixing = shape.full_attention_layers + shape.sliding_layers + shape.linear_layers
    if mixing > shape.layers:
        raise fault(
            file, row, "full_attention_layers", f"full, sliding and linear layers are {mixing}, more than the {shape.layers} layers"
        )
    if shape.mlp_layers + shape.moe_layers > shape.layers:
        raise fault(file, row, "moe_layers", f"with mlp_layers more than the {shape.layers} layers")
    if shape.sliding_layers and shape.has_layers and not shape.sliding_window:
        raise fault(file, row, "sliding_window", "sliding layers need a window")
    if shape.kv_heads and shape.heads % shape.kv_heads:
        raise fault(file, row, "kv_heads", f"must divide the {shape.heads} heads")
    if shape.top_k > shape.experts:
        raise fault(file, row, "top_k", f"more than the {shape.experts} experts")
    if shape.params_b and shape.active_params_b > shape.params_b * ROUNDED_TOTAL:
        raise fault(file, row, "active_params_b", "more than params_b")
    if not 0 < shape.kv_cache_share <= 1:
        raise fault(file, row, "kv_cache_share", "must be above 0 and at most 1")
