"""The page about the API names every address there is."""

from __future__ import annotations

from pathlib import Path

from app.main import create_app
from app.settings import Settings
from app.store.database import Database

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_address_is_described():
    paths = create_app(Settings(log_level="ERROR"), database=Database("sqlite://")).openapi()["paths"]
    missing = [path for path in paths if path not in PAGE]
    assert missing == []
