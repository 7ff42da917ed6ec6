"""The guide's examples are rows the loader takes, and its tables name what exists."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

from app.catalog.loader import read_catalog
from app.workload.architecture import kv_cache_bytes_per_token, parameter_counts

GUIDE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")
DATA = Path(str(resources.files("app.catalog") / "data"))


def test_the_examples_load_together(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "data")
    examples = re.findall(r"```(?:toml|csv) (\S+)\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert [file for file, _ in examples] == ["gpus.toml", "servers.toml", "models.toml", "prices.csv"]
    for file, text in examples:
        with (tmp_path / "data" / file).open("a", encoding="utf-8") as target:
            target.write(("\n" if file.endswith(".toml") else "") + text)
    catalog = read_catalog(tmp_path / "data")
    assert [server.id for server in catalog.servers_for("example-96gb")] == ["example-4u"]
    assert catalog.prices[-1].typical_usd == 8200
    shape = catalog.models["example/Example-7B"]
    assert abs(parameter_counts(shape).total / 1e9 / shape.params_b - 1) < 0.02
    assert kv_cache_bytes_per_token(shape) == shape.kv_bytes_per_token_bf16_published


def test_every_data_file_is_named() -> None:
    assert {path.name for path in DATA.iterdir() if path.suffix in (".toml", ".csv")} <= set(
        re.findall(r"`([a-z_]+\.(?:toml|csv))`", GUIDE)
    )
