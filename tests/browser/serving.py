"""A real server of our own on loopback, with a database of its own, for browser tests and screenshots."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from app.main import create_app
from app.settings import Settings
from app.store.database import Database

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
"""A browser of the system, or None."""
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a fresh server; it stops when the block ends."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        database = Database(f"sqlite:///{Path(folder) / 'test.sqlite3'}")
        database.migrate()
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        config = uvicorn.Config(create_app(Settings(log_level="ERROR"), database=database), log_level="error", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        for _ in range(200):
            if server.started:
                break
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)
            database.dispose()
