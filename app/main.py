"""The application: everything wired together. ``uvicorn app.main:create_app --factory`` serves it."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

import app as package
from app.advice.advisor import recommend as advise
from app.advice.recommendation import Recommendation
from app.api import advice, catalog, estimates, problems, profiles, system
from app.api.dependencies import Recommend
from app.api.middleware import BodyLimit, Metrics, Observation, RateLimit, SameOrigin
from app.api.operations import document_with
from app.api.schemas import CatalogAnswer, PriceAnswer, ProfileToSave
from app.catalog.loader import Catalog, load_catalog
from app.settings import Settings
from app.store.database import Database
from app.web import pages
from app.workload.profile import WorkloadProfile

STATIC = Path(__file__).resolve().parents[1] / "static"
DESCRIPTION = (
    "From a workload to GPUs, servers, network and cost, with reasons. Demand numbers may be plain or {low, mid, high}; "
    "predictions are {low, mid, high} and hold the true value four times in five. Money is in USD."
)


def create_app(
    settings: Settings | None = None,
    *,
    catalog_rows: Catalog | None = None,
    database: Database | None = None,
    recommend: Recommend = advise,
) -> FastAPI:
    """An application. What is not given is made from the settings; a database that was given is its giver's to close."""
    settings = settings or Settings()
    configure_logging(settings.log_level)
    own_database = database is None
    store = database or Database(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if own_database:
            store.dispose()

    app = FastAPI(
        title="Sizing advisor",
        version=package.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.catalog = catalog_rows or load_catalog()
    app.state.database = store
    app.state.recommend = recommend
    app.state.metrics = metrics
    problems.install(app)
    for module in (advice, estimates, profiles, catalog, system):
        app.include_router(module.router)
    app.include_router(pages.router)
    app.state.error_page = partial(pages.problem_page, app.state.catalog)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    document_with(app, (WorkloadProfile, ProfileToSave), (Recommendation, CatalogAnswer, PriceAnswer), {"Request": REQUEST})
    # The last added is the outermost: whatever is refused further in is still counted, logged and given its headers.
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    if settings.requests_per_minute:
        app.add_middleware(RateLimit, per_minute=settings.requests_per_minute)
    app.add_middleware(SameOrigin)
    app.add_middleware(Observation, metrics=metrics)
    return app


REQUEST = {"type": "object", "description": "Columns of the public measurement files as keys; an unknown key is refused with its name"}


def configure_logging(level: str) -> None:
    """One JSON object a line on standard error, each with the request's id."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
