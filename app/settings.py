"""Settings of a running server, read from the environment (prefix ``SIZING_``) or a ``.env`` file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every setting; ``SIZING_PORT=9000`` sets ``port``. Defaults suit one person on one machine."""

    model_config = SettingsConfigDict(env_prefix="SIZING_", env_file=".env", extra="ignore", frozen=True)

    database_url: str = Field(
        default="sqlite:///data/sizing.sqlite3",
        description="SQLAlchemy URL: SQLite, or postgresql+psycopg://user:password@host/name",
    )
    host: str = Field(default="127.0.0.1", description="Address the server listens on")
    port: int = Field(default=8000, ge=0, le=65_535, description="Port the server listens on")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Least severe event that is logged")
    max_body_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000, description="Largest request body, bytes")
    busy_timeout_s: float = Field(default=10.0, gt=0, le=300, description="How long a write waits for another one, seconds (SQLite)")
    requests_per_minute: int = Field(
        default=0, ge=0, description="Most writes and computations one client address may ask for in a minute; 0 = no limit"
    )
