"""Read and check the catalogue's data files. Errors name the file, the row and the column."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.catalog.links import LINKS, Link
from app.catalog.model_shape import ModelShape
from app.catalog.schema import ApiPrice, Cable, CloudPrice, Gpu, ModelSource, Nic, Price, Row, RunningCost, Server, Switch

R = TypeVar("R", bound=Row)
RELEASE = "2026.12"
"""Month the data was collected; the content hash follows it in :attr:`Catalog.version`."""


class CatalogError(ValueError):
    """A data file is wrong; the message names file, row and column."""


@dataclass(frozen=True)
class Catalog:
    """Everything that exists, by id. ``version`` changes with any byte of the data."""

    gpus: Mapping[str, Gpu]
    servers: Mapping[str, Server]
    models: Mapping[str, ModelShape]
    model_sources: Mapping[str, ModelSource]
    switches: Mapping[str, Switch]
    nics: Mapping[str, Nic]
    cables: Mapping[str, Cable]
    prices: tuple[Price, ...]
    running_costs: tuple[RunningCost, ...]
    cloud_prices: tuple[CloudPrice, ...]
    version: str
    links: Mapping[str, Link] = field(default_factory=lambda: LINKS)

    @cached_property
    def api_prices(self) -> tuple[ApiPrice, ...]:
        """Hosted-API prices, read when first asked for: the largest table and the least used."""
        return tuple(_csv_rows("api_prices.csv", ApiPrice))

    @cached_property
    def _servers_by_gpu(self) -> dict[str, tuple[Server, ...]]:
        found: dict[str, list[Server]] = {}
        for server in self.servers.values():
            for gpu_id in server.gpu_ids:
                found.setdefault(gpu_id, []).append(server)
        return {gpu_id: tuple(servers) for gpu_id, servers in found.items()}

    def servers_for(self, gpu_id: str) -> tuple[Server, ...]:
        """Servers sold with a GPU."""
        return self._servers_by_gpu.get(gpu_id, ())

    @cached_property
    def _models_by_key(self) -> dict[str, list[ModelShape]]:
        found: dict[str, list[ModelShape]] = {}
        for shape in self.models.values():
            for key in {model_key(shape.id), model_key(shape.name)}:
                found.setdefault(key, []).append(shape)
        return found

    def find_model(self, text: str) -> ModelShape | None:
        """The model meant by ``text``: an exact id first, then without case, organisation and release suffixes.

        Several rows that differ only in such a suffix give the first in the file; None when none matches.
        """
        if text in self.models:
            return self.models[text]
        lowered = {name.lower(): shape for name, shape in self.models.items()}
        if text.lower() in lowered:
            return lowered[text.lower()]
        matches = self._models_by_key.get(model_key(text))
        return matches[0] if matches else None

    def suggest_models(self, text: str) -> list[str]:
        """Ids of the three models whose names come nearest."""
        keys = {key: shapes[0].id for key, shapes in self._models_by_key.items()}
        return [keys[key] for key in get_close_matches(model_key(text), list(keys), n=3, cutoff=0.4)]

    def find_gpu(self, text: str) -> Gpu | None:
        """The GPU meant by an id or a name, without regard to case."""
        wanted = text.strip().lower()
        if wanted in self.gpus:
            return self.gpus[wanted]
        return next((gpu for gpu in self.gpus.values() if gpu.name.lower() == wanted), None)

    def suggest_gpus(self, text: str) -> list[str]:
        """Ids of the three GPUs whose ids come nearest."""
        return get_close_matches(text.strip().lower(), list(self.gpus), n=3, cutoff=0.3)


SUFFIXES = (
    "instruct", "base", "hf", "it", "chat", "fp8", "fp4", "nvfp4", "mxfp4", "gptq", "awq", "gguf", "int4", "int8", "w4a16", "w8a8",
    "dynamic", "bf16", "fp16", "preview", "8bit", "4bit", "block", "kv",
)  # fmt: skip


@cache
def model_key(text: str) -> str:
    """A model's name without organisation, case, and the suffixes that do not change its shape."""
    name = text.rsplit("/", 1)[-1].lower().replace("_", "-").replace(" ", "-")
    name = re.sub(r"^meta-", "", name)
    parts = [part for part in re.split(r"[-]+", name) if part]
    while len(parts) > 1 and (parts[-1] in SUFFIXES or re.fullmatch(r"(20)?2[3-6]\d{2}", parts[-1])):
        parts.pop()
    return "".join(parts)


def _text(name: str) -> str:
    return (resources.files("app.catalog") / "data" / name).read_text(encoding="utf-8")


def parse_toml(text: str, file: str, table: str) -> list[dict[str, Any]]:
    """The rows of one table; a file that is not TOML or has another table is refused."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{file}: not valid TOML: {error}") from None
    if set(data) != {table}:
        raise CatalogError(f"{file}: expected only [[{table}]] rows, found {sorted(data)}")
    rows: list[dict[str, Any]] = data[table]
    return rows


def check_rows(rows: Iterable[Mapping[str, Any]], file: str, kind: type[R], key: str = "id") -> list[R]:
    """Typed rows; the first fault is raised with file, row and column."""
    found: list[R] = []
    for number, raw in enumerate(rows, start=1):
        try:
            found.append(kind.model_validate(raw))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            column = ".".join(str(step) for step in first["loc"]) or "row"
            raise CatalogError(
                f"{file}, row {number} ({raw.get(key, '?')}), column {column}: {first['msg']} (got {first.get('input')!r})"
            ) from None
    return found


def by_id(rows: Iterable[R], file: str) -> Mapping[str, R]:
    """Rows by id; an id used twice is refused."""
    found: dict[str, R] = {}
    for row in rows:
        name: str = row.id  # type: ignore[attr-defined]
        if name in found:
            raise CatalogError(f"{file}, row {name}, column id: used twice")
        found[name] = row
    return MappingProxyType(found)


def _toml_rows(file: str, table: str, kind: type[R]) -> Mapping[str, R]:
    return by_id(check_rows(parse_toml(_text(file), file, table), file, kind), file)


def _csv_rows(file: str, kind: type[R]) -> list[R]:
    reader = csv.DictReader(io.StringIO(_text(file)))
    known = set(kind.model_fields)
    unknown = set(reader.fieldnames or ()) - known
    if unknown:
        raise CatalogError(f"{file}, row 1, column {sorted(unknown)[0]}: not a column of {kind.__name__}")
    return check_rows(({name: value for name, value in row.items() if value != ""} for row in reader), file, kind, "item")


_SHAPE_FIELDS = {item.name for item in dataclasses.fields(ModelShape)}
_SHAPE = TypeAdapter(ModelShape)


def read_models(text: str, file: str = "models.toml") -> tuple[Mapping[str, ModelShape], Mapping[str, ModelSource]]:
    """Model shapes and, apart, where each row comes from."""
    shapes: dict[str, ModelShape] = {}
    sources: dict[str, ModelSource] = {}
    for number, raw in enumerate(parse_toml(text, file, "model"), start=1):
        name = str(raw.get("id", "?"))
        shape = {key: value for key, value in raw.items() if key in _SHAPE_FIELDS}
        rest = {key: value for key, value in raw.items() if key not in _SHAPE_FIELDS}
        try:
            shapes_row = _SHAPE.validate_python({"origin": "catalog", **shape})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            column = ".".join(str(step) for step in first["loc"]) or "row"
            raise CatalogError(f"{file}, row {number} ({name}), column {column}: {first['msg']}") from None
        if name in shapes:
            raise CatalogError(f"{file}, row {name}, column id: used twice")
        _check_shape(shapes_row, file, number)
        shapes[name] = shapes_row
        sources[name] = check_rows([rest], f"{file}, row {number} ({name})", ModelSource)[0]
    return MappingProxyType(shapes), MappingProxyType(sources)


def _check_shape(shape: ModelShape, file: str, number: int) -> None:
    for column in ("layers", "hidden", "heads", "kv_heads", "vocab", "experts", "top_k", "params_b"):
        if getattr(shape, column) < 0:
            raise CatalogError(f"{file}, row {number} ({shape.id}), column {column}: must be at least 0")
    if shape.top_k > shape.experts:
        raise CatalogError(f"{file}, row {number} ({shape.id}), column top_k: more than the {shape.experts} experts")
    if shape.params_b and shape.active_params_b > shape.params_b * 1.02:
        raise CatalogError(f"{file}, row {number} ({shape.id}), column active_params_b: more than params_b")


def check_references(catalog: Catalog) -> None:
    """Every id one table uses of another exists there."""
    for server in catalog.servers.values():
        for gpu_id in server.gpu_ids:
            if gpu_id not in catalog.gpus:
                raise CatalogError(f"servers.toml, row {server.id}, column gpu_ids: no GPU {gpu_id!r} in gpus.toml")
    known = {*catalog.gpus, *catalog.servers, *catalog.switches, *catalog.nics, *catalog.cables}
    for price in catalog.prices:
        if price.item_id and price.item_id not in known:
            raise CatalogError(f"prices.csv, row {price.item}, column item_id: {price.item_id!r} is in no table")
    for offer in catalog.cloud_prices:
        if offer.gpu_id and offer.gpu_id not in catalog.gpus:
            raise CatalogError(f"cloud_prices.csv, row {offer.instance}, column gpu_id: no GPU {offer.gpu_id!r} in gpus.toml")


def _version() -> str:
    digest = hashlib.sha256()
    for item in sorted((resources.files("app.catalog") / "data").iterdir(), key=lambda entry: entry.name):
        if item.name.endswith((".toml", ".csv")):
            digest.update(item.name.encode())
            digest.update(item.read_bytes())
    return f"{RELEASE}+{digest.hexdigest()[:8]}"


@cache
def load_catalog() -> Catalog:
    """The catalogue, read and checked once per process."""
    models, sources = read_models(_text("models.toml"))
    catalog = Catalog(
        gpus=_toml_rows("gpus.toml", "gpu", Gpu),
        servers=_toml_rows("servers.toml", "server", Server),
        models=models,
        model_sources=sources,
        switches=_toml_rows("switches.toml", "switch", Switch),
        nics=_toml_rows("nics.toml", "nic", Nic),
        cables=_toml_rows("cables.toml", "cable", Cable),
        prices=tuple(_csv_rows("prices.csv", Price)),
        running_costs=tuple(_csv_rows("running_costs.csv", RunningCost)),
        cloud_prices=tuple(_csv_rows("cloud_prices.csv", CloudPrice)),
        version=_version(),
    )
    check_references(catalog)
    return catalog
