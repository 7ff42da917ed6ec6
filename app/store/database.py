"""The connection to the database: engine, transactions, and whether the schema is current."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.orm import Session

from app.store.repositories import Customers, Profiles, Recommendations

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


@dataclass(frozen=True, slots=True)
class Store:
    """The repositories of one transaction."""

    session: Session
    profiles: Profiles
    customers: Customers
    recommendations: Recommendations


class Database:
    """An engine and its transactions. ``dispose`` closes every connection."""

    def __init__(self, url: str, *, busy_timeout_s: float = 10.0) -> None:
        self.url = url
        self.engine = _engine(url, busy_timeout_s)
        self._reading = self.engine.execution_options(sizing_read_only=True, **_read_only(url))

    @contextmanager
    def transaction(self, *, read_only: bool = False) -> Iterator[Store]:
        """Repositories within one transaction: committed when the block ends, rolled back when it raises."""
        with Session(self._reading if read_only else self.engine, expire_on_commit=False) as session, session.begin():
            customers = Customers(session)
            yield Store(session, Profiles(session, customers), customers, Recommendations(session))

    def is_reachable(self) -> bool:
        """Whether a query gets an answer."""
        with self._reading.connect() as connection:
            return bool(connection.execute(text("SELECT 1")).scalar_one() == 1)

    def revision(self) -> str | None:
        """The schema the database has; None = none yet."""
        with self._reading.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def is_current(self) -> bool:
        """Whether the database has the schema this code was written for."""
        return self.revision() == latest_revision()

    def migrate(self) -> None:
        """Bring the schema up to date; a database that is current is left alone."""
        with self.engine.begin() as connection:
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def dispose(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def latest_revision() -> str | None:
    """The newest schema among the migrations."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite database; None for another database or one in memory."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _read_only(url: str) -> dict[str, bool]:
    return {"postgresql_readonly": True} if make_url(url).get_backend_name() == "postgresql" else {}


def _engine(url: str, busy_timeout_s: float) -> Engine:
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Readers beside one writer, foreign keys held; sqlite3 leaves BEGIN to us, so that a write never starts as a read."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_immediate(connection: Any) -> None:
    """A transaction that may write takes the lock at once and waits for it; one that upgrades later would fail instead."""
    read_only = connection.get_execution_options().get("sizing_read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
