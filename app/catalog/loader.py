"""The catalogue: everything that exists, read from the data files once and checked as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeVar

from pydantic import BaseModel

from app.catalog.links import LINKS, Link
from app.catalog.model_shape import ModelShape
from app.catalog.names import gpu_key, model_key, nearest
from app.catalog.schema import ApiPrice, Cable, CloudPrice, Gpu, ModelSource, Nic, Price, Row, RunningCost, Server, Source, Switch
from app.catalog.tables import CatalogError, by_id, check_rows, fault, parse_csv, parse_toml, read_models

__all__ = ["Catalog", "CatalogError", "load_catalog", "read_catalog"]

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T", bound=Row)
RELEASE = "2026.12"
"""Month the data was collected; the content hash follows it in :attr:`Catalog.version`."""


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
    api_prices: tuple[ApiPrice, ...]
    sources: Mapping[str, Source]
    version: str
    links: Mapping[str, Link] = field(default_factory=lambda: LINKS)

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

    @cached_property
    def _models_by_lower_id(self) -> dict[str, ModelShape]:
        return {name.lower(): shape for name, shape in self.models.items()}

    def find_model(self, text: str) -> ModelShape | None:
        """The model meant by ``text``: an exact id first, then without case, organisation and release endings.

        None when none matches, or several of different size do.
        """
        exact = self.models.get(text) or self._models_by_lower_id.get(text.strip().lower())
        if exact is not None:
            return exact
        matches = self._models_by_key.get(model_key(text), [])
        return matches[0] if len({(shape.params_b, shape.layers, shape.hidden) for shape in matches}) == 1 else None

    def suggest_models(self, text: str) -> list[str]:
        """Ids of the three models whose names come nearest."""
        keys = {key: shapes[0].id for key, shapes in self._models_by_key.items()}
        near = [keys[key] for key in nearest(model_key(text), keys, 6)]
        return list(dict.fromkeys(near))[:3]

    @cached_property
    def _gpus_by_key(self) -> dict[str, Gpu]:
        found: dict[str, Gpu] = {}
        for gpu in self.gpus.values():
            for key in (gpu_key(gpu.id), gpu_key(gpu.name)):
                found.setdefault(key, gpu)
        return found

    def find_gpu(self, text: str) -> Gpu | None:
        """The GPU meant by an id or a name, without regard to case, maker and punctuation."""
        return self.gpus.get(text) or self._gpus_by_key.get(gpu_key(text))

    def suggest_gpus(self, text: str) -> list[str]:
        """Ids of the three GPUs whose ids or names come nearest."""
        near = nearest(gpu_key(text), self._gpus_by_key, 6)
        return list(dict.fromkeys(self._gpus_by_key[key].id for key in near))[:3]


def check_references(catalog: Catalog) -> None:
    """Every id one table uses of another exists there, and every note on a single figure names a column."""
    for number, server in enumerate(catalog.servers.values(), start=1):
        for gpu_id in server.gpu_ids:
            if gpu_id not in catalog.gpus:
                raise fault("servers.toml", f"{number} ({server.id})", "gpu_ids", f"no GPU {gpu_id!r} in gpus.toml")
    known = {*catalog.gpus, *catalog.servers, *catalog.switches, *catalog.nics, *catalog.cables}
    for number, price in enumerate(catalog.prices, start=1):
        if price.item_id and price.item_id not in known:
            raise fault("prices.csv", f"{number} ({price.item})", "item_id", f"{price.item_id!r} is in no table")
    for number, offer in enumerate(catalog.cloud_prices, start=1):
        if offer.gpu_id and offer.gpu_id not in catalog.gpus:
            raise fault("cloud_prices.csv", f"{number} ({offer.instance})", "gpu_id", f"no GPU {offer.gpu_id!r} in gpus.toml")
    for number, hosted in enumerate(catalog.api_prices, start=1):
        if hosted.model_id and hosted.model_id not in catalog.models:
            raise fault("api_prices.csv", f"{number} ({hosted.provider_model})", "model_id", f"no model {hosted.model_id!r} in models.toml")


def _files(folder: Traversable) -> Iterator[Traversable]:
    """The data files, in the order of their names."""
    return iter(sorted((item for item in folder.iterdir() if item.name.endswith((".toml", ".csv"))), key=lambda item: item.name))


def _version(folder: Traversable) -> str:
    digest = hashlib.sha256()
    for item in _files(folder):
        digest.update(item.name.encode())
        digest.update(item.read_bytes())
    return f"{RELEASE}+{digest.hexdigest()[:8]}"


def read_catalog(folder: Traversable) -> Catalog:
    """The catalogue of a folder of data files; the first fault found is raised."""

    def toml(table: str, file: str, kind: type[R], key: str = "id") -> Mapping[str, R]:
        return by_id(check_rows(parse_toml((folder / file).read_text(encoding="utf-8"), file, table), file, kind, key), file, key)

    def csv_rows(file: str, kind: type[T], key: str) -> tuple[T, ...]:
        text = (folder / file).read_text(encoding="utf-8")
        return tuple(check_rows(parse_csv(text, file, kind), file, kind, key, typed=False))

    models, model_sources = read_models((folder / "models.toml").read_text(encoding="utf-8"))
    catalog = Catalog(
        gpus=toml("gpu", "gpus.toml", Gpu),
        servers=toml("server", "servers.toml", Server),
        models=models,
        model_sources=model_sources,
        switches=toml("switch", "switches.toml", Switch),
        nics=toml("nic", "nics.toml", Nic),
        cables=toml("cable", "cables.toml", Cable),
        prices=csv_rows("prices.csv", Price, "item"),
        running_costs=csv_rows("running_costs.csv", RunningCost, "item"),
        cloud_prices=csv_rows("cloud_prices.csv", CloudPrice, "instance"),
        api_prices=csv_rows("api_prices.csv", ApiPrice, "provider_model"),
        sources=toml("source", "sources.toml", Source, "key"),
        version=_version(folder),
    )
    check_references(catalog)
    return catalog


@cache
def load_catalog() -> Catalog:
    """The shipped catalogue, read and checked once per process."""
    return read_catalog(resources.files("app.catalog") / "data")
