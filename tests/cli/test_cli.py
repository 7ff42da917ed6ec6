"""The command line as people run it: exit codes, JSON, refusals on standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.workload.presets import preset

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, text: str = "", database: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"SIZING_DATABASE_URL": f"sqlite:///{database}"} if database else {})}
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments], input=text, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60
    )


def test_recommend_prints_the_same_json_as_the_api(client):
    profile = preset("embeddings").profile.to_json()
    done = run("recommend", "-", "--json", text=json.dumps(profile))
    assert done.returncode == 0
    ours, theirs = json.loads(done.stdout), client.post("/api/v1/recommendations", json=profile).json()
    for changing in ("id", "created_at"):
        ours.pop(changing), theirs.pop(changing)
    assert ours == theirs


def test_recommend_in_words(tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(preset("embeddings").profile.to_json()))
    done = run("recommend", str(file))
    assert done.returncode == 0
    assert "Lifetime cost" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"workload": "x"}', "workload"),
        ('{"workload": "online_inference", "model": {"id": "nope"}, "serving": {"concurrent_users": 1}}', "model.id"),
    ],
)
def test_refused_input_leaves_with_one_and_names_the_field(text, words):
    done = run("recommend", "-", text=text)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_refused():
    done = run("recommend", "no-such-file.json")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("recommend",), ("nonsense",), ("validate",), ("validate", "--scenarios", "no-such-file")])
def test_wrong_usage_leaves_with_two(arguments):
    assert run(*arguments).returncode == 2


def test_estimate_a_collective():
    request = {"collective": "all_reduce", "message_bytes": 1e9, "gpu": "h100-sxm-80gb", "n_gpus": 8}
    done = run("estimate", "collective", "-", "--json", text=json.dumps(request))
    assert done.returncode == 0
    assert json.loads(done.stdout)["busbw_gb_per_s"]["mid"] > 100


def test_migrate_backup_restore(tmp_path):
    database, copy = tmp_path / "a.sqlite3", tmp_path / "copy.sqlite3"
    assert run("backup", str(copy), database=database).returncode == 1
    assert run("migrate", database=database).returncode == 0
    assert run("backup", str(copy), database=database).returncode == 0
    assert run("backup", str(copy), database=database).returncode == 1
    assert run("restore", str(copy), database=database).returncode == 1
    assert run("restore", str(copy), "--force", database=database).returncode == 0


def test_serve_refuses_an_old_schema(tmp_path):
    done = run("serve", "--port", "0", database=tmp_path / "none.sqlite3")
    assert done.returncode == 1
    assert "migrate" in done.stderr


def test_validate_runs_a_scenario_file(tmp_path):
    line = {"id": "one", "profile": preset("embeddings").profile.to_json(), "expected": ["single_gpu"], "gpus_min": 1, "gpus_max": 4}
    file, out = tmp_path / "s.jsonl", tmp_path / "out.json"
    file.write_text(json.dumps(line) + "\n")
    done = run("validate", "--scenarios", str(file), "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["scenarios"]["accuracy"] == 1.0
