"""Each planted fault is reported with file, row and column."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

import pytest

from app.catalog.loader import CatalogError, load_catalog, read_catalog

DATA = Path(str(resources.files("app.catalog") / "data"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "data")
    return tmp_path / "data"


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text, old
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_an_unchanged_copy_is_read_alike(folder: Path) -> None:
    assert read_catalog(folder).version == load_catalog().version


def test_any_edit_changes_the_version(folder: Path) -> None:
    _edit(folder / "gpus.toml", "tdp_w = 70\n", "tdp_w = 75\n")
    changed = read_catalog(folder)
    assert changed.gpus["t4"].tdp_w == 75
    assert changed.version != load_catalog().version


FAULTS = [
    # file, text, its replacement, row in the message, column in the message
    ("gpus.toml", "memory_gb = 16\n", 'memory_gb = "16 GB"\n', "row 1 (t4)", "column memory_gb"),  # unit in the cell
    ("gpus.toml", "memory_gb = 16\n", 'memory_gb = "16"\n', "row 1 (t4)", "column memory_gb"),  # number as text
    ("gpus.toml", "memory_gb = 16\n", "memory_gb = -16\n", "row 1 (t4)", "column memory_gb"),  # out of range
    ("gpus.toml", "memory_gb = 16\n", "memory_gib = 16\n", "row 1 (t4)", "column memory_gib"),  # unknown column
    ("gpus.toml", 'vendor = "nvidia"\n', "", "row 1 (t4)", "column vendor"),  # missing
    ("gpus.toml", 'id = "v100-sxm2-32gb"', 'id = "t4"', "row 2 (t4)", "column id"),  # duplicate
    ("gpus.toml", 'as_of = "2026-12"', 'as_of = "2026-13"', "row 1 (t4)", "column as_of"),  # no such month
    ("gpus.toml", 'kind = "datasheet"', 'kind = "rumour"', "row 1 (t4)", "column kind"),
    ("gpus.toml", "tdp_w = 70\n", 'tdp_w = 70\nfigure_kinds = { tpd_w = "measured" }\n', "row 1 (t4)", "column (row)"),  # misspelt
    ("servers.toml", 'gpu_ids = ["a100-sxm-80gb"]', 'gpu_ids = ["a100-sxm-88gb"]', "row 1 (nvidia-dgx-a100", "column gpu_ids"),  # dangling
    ("servers.toml", "gpus = 8\n", "gpus = 0\n", "row 1 (nvidia-dgx-a100", "column gpus"),
    ("servers.toml", "gpus = 8\n", "gpus = 8.5\n", "row 1 (nvidia-dgx-a100", "column gpus"),
    ("models.toml", "layers = 96\n", 'layers = "96"\n', "row 1 (gpt-3-175b)", "column layers"),
    ("models.toml", "layers = 96\n", "layers = true\n", "row 1 (gpt-3-175b)", "column layers"),
    ("models.toml", "layers = 96\n", "layers = 48\n", "row 1 (gpt-3-175b)", "column full_attention_layers"),
    ("models.toml", "hidden = 12288\n", "hidden = -1\n", "row 1 (gpt-3-175b)", "column hidden"),
    ("models.toml", "hidden = 12288\n", "hiden = 12288\n", "row 1 (gpt-3-175b)", "column hidden"),
    ("models.toml", "kv_heads = 96\n", "kv_heads = 7\n", "row 1 (gpt-3-175b)", "column kv_heads"),
    ("models.toml", "params_b = 175\n", "params_b = 175\nflavour = 1\n", "row 1 (gpt-3-175b)", "column flavour"),
    ("models.toml", "active_params_b = 175\n", "active_params_b = 200\n", "row 1 (gpt-3-175b)", "column active_params_b"),
    ("models.toml", 'id = "facebook/opt-175b"', 'id = "gpt-3-175b"', "row 2 (gpt-3-175b)", "column id"),
    ("switches.toml", 'protocol = "infiniband"', 'protocol = "token ring"', "row 1 (SW001)", "column protocol"),
    ("nics.toml", 'protocols = ["infiniband", "ethernet"]', "protocols = []", "row 1 (NIC001)", "column protocols"),
    ("cables.toml", "max_reach_m = 50\n", "max_reach_m = 0\n", "row 1 (CAB001)", "column max_reach_m"),
    ("sources.toml", 'trust = "high"', 'trust = "blind"', "row 1 (AIC)", "column trust"),
    ("prices.csv", "each,8000,11000,17500", "each,8000,eleven,17500", "row 1 (A100", "column typical_usd"),
    ("prices.csv", "each,8000,11000,17500", "each,8000,-1,17500", "row 1 (A100", "column typical_usd"),
    ("prices.csv", "each,8000,11000,17500", "each,18000,11000,17500", "row 1 (A100", "low_usd 18000 is more than typical_usd 11000"),
    ("prices.csv", "a100-sxm-80gb,each", "a100-sxm-8gb,each", "row 1 (A100", "column item_id"),  # dangling
    ("prices.csv", "low_usd,", "low_eur,", "row 1 (header)", "column low_eur"),
    ("prices.csv", "each,8000,11000,17500", "each,8,000,11000,17500", "row 1", "column after notes"),  # comma inside a number
    ("running_costs.csv", "average,US-TX,USD/kWh,,0.0882,", "average,US-TX,USD/kWh,0.1,0.0882,",
     "row 1 (commercial average)", "low 0.1 is more than typical 0.0882"),
    ("cloud_prices.csv", "aws,g4dn.xlarge,T4,t4,1", "aws,g4dn.xlarge,T4,t44,1", "row 1 (g4dn.xlarge)", "column gpu_id"),  # dangling
    ("cloud_prices.csv", "aws,g4dn.xlarge,T4,t4,1", "aws,g4dn.xlarge,T4,t4,0", "row 1 (g4dn.xlarge)", "column gpus"),
    ("api_prices.csv", "claude-haiku-4-5,,1,5", "claude-haiku-4-5,no/model,1,5", "row 1 (claude-haiku-4-5)", "column model_id"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "row", "column"), FAULTS, ids=[f"{fault[0]}-{fault[2].strip()[:40]}" for fault in FAULTS])
def test_a_fault_names_file_row_and_column(folder: Path, file: str, old: str, new: str, row: str, column: str) -> None:
    _edit(folder / file, old, new)
    with pytest.raises(CatalogError) as caught:
        read_catalog(folder)
    message = str(caught.value)
    assert message.startswith(f"{file}, {row}")
    assert column in message


def test_a_misspelt_value_is_shown(folder: Path) -> None:
    _edit(folder / "gpus.toml", "memory_gb = 16\n", 'memory_gb = "16 GB"\n')
    with pytest.raises(CatalogError, match=re.escape("(got '16 GB')")):
        read_catalog(folder)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[gpu]\n", "gpus.toml: not valid TOML"),
        ("[[card]]\nid = 'x'\n", "gpus.toml: expected only [[gpu]] rows, found ['card']"),
    ],
)
def test_a_file_of_another_form_is_refused(folder: Path, text: str, problem: str) -> None:
    (folder / "gpus.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=re.escape(problem)):
        read_catalog(folder)
