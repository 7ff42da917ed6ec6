"""What several groups of tests need: a client over a fresh database, a real PostgreSQL, a browser."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database


@pytest.fixture(scope="session")
def client(tmp_path_factory) -> Iterator[TestClient]:
    """The application over a database of its own. Failures inside it are answers, as for a real client."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('client') / 'test.sqlite3'}")
    database.migrate()
    with TestClient(create_app(Settings(log_level="ERROR"), database=database), raise_server_exceptions=False) as test_client:
        yield test_client
    database.dispose()


def _postgres_binaries() -> Path | None:
    """Folder of initdb and postgres: on the path, or where Debian keeps it."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    return (
        next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)), Path("none")).parent
        if Path("/usr/lib/postgresql").exists()
        else None
    )


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory) -> Iterator[str]:
    """A PostgreSQL server of our own on loopback, stopped and removed at the end."""
    binaries = _postgres_binaries()
    if binaries is None or not (binaries / "initdb").exists():
        pytest.skip("no PostgreSQL server is installed here (package postgresql)")
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed")
    user = {}
    folder = tmp_path_factory.mktemp("postgres")
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root: it gets its package's own user.
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root and there is no user postgres")
        user = {"user": account.pw_uid, "group": account.pw_gid}
        for parent in (folder, *folder.parents):
            if parent == Path("/tmp"):
                break
            parent.chmod(0o755)
        os.chown(folder, account.pw_uid, account.pw_gid)
    data = folder / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "sizing", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True, capture_output=True, env=environment, cwd=folder, **user,
    )  # fmt: skip
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"],
        stdout=log, stderr=log, env=environment, cwd=folder, **user,
    )  # fmt: skip
    url = f"postgresql+psycopg://sizing@127.0.0.1:{port}/postgres"
    try:
        _wait_for(url)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)
        log.close()


def _wait_for(url: str) -> None:
    database = Database(url)
    try:
        for _ in range(100):
            try:
                if database.is_reachable():
                    return
            except OperationalError:
                pass
            time.sleep(0.1)
        raise RuntimeError("PostgreSQL did not come up within ten seconds")
    finally:
        database.dispose()
