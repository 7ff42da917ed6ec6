"""The page about the API names every address there is."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store.database import Database

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_documented_requests_are_answered():
    """The example body the documentation shows for each computing address works as it stands."""
    app = create_app(Settings(log_level="ERROR"), database=Database("sqlite://"))
    with TestClient(app) as client:
        for path, operations in app.openapi()["paths"].items():
            body = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
            example = body.get("example") or body.get("schema", {}).get("example")
            if example is not None and path.startswith("/api/v1/estimates"):
                assert client.post(path, json=example).status_code == 200, path


def test_the_documentation_page_is_styled():
    with TestClient(create_app(Settings(log_level="ERROR"), database=Database("sqlite://"))) as client:
        sheet = re.search(r'rel="stylesheet" href="([^"]+)"', client.get("/docs").text)
        assert sheet is not None
        assert client.get(sheet[1]).status_code == 200


def test_every_address_is_described():
    paths = create_app(Settings(log_level="ERROR"), database=Database("sqlite://")).openapi()["paths"]
    missing = [path for path in paths if path not in PAGE]
    assert missing == []
