"""The command line: serve, migrate, recommend, estimate, validate, backup, restore.

Exit code 0: done; 1: the input was refused, the reason is on standard error; 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from app.cli.shown import shown_lines
from app.json_text import JsonTextError, load_object
from app.settings import Settings
from app.workload.profile import ProfileError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Sizes AI and HPC infrastructure.", pretty_exceptions_enable=False)
Json = Annotated[bool, typer.Option("--json", help="Print the same JSON as the API")]
File = Annotated[str, typer.Argument(help="A JSON file, or - for standard input")]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except (ProfileError, JsonTextError, OSError, ValueError) as error:
        refuse(error)


def refuse(error: Exception) -> None:
    """Say what was refused and leave with 1."""
    if isinstance(error, ProfileError):
        for item in error.errors:
            print(f"{item.field}: {item.message}" + (f" ({item.limit})" if item.limit else ""), file=sys.stderr)
    elif isinstance(error, JsonTextError):
        print(f"{error.field}: {error}", file=sys.stderr)
    else:
        print(str(error), file=sys.stderr)
    sys.exit(1)


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False, default=str))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on")] = None,
) -> None:
    """Serve pages and API. Says so when the database still needs `migrate`."""
    import uvicorn

    from app.store.database import Database

    settings = Settings()
    database = Database(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
    current = database.is_current()
    database.dispose()
    if not current:
        print("The database is not at the current schema; run: python -m app migrate", file=sys.stderr)
        sys.exit(1)
    address, number = host or settings.host, settings.port if port is None else port
    print(f"Sizing advisor: http://{address}:{number}", file=sys.stderr)
    uvicorn.run("app.main:create_app", factory=True, host=address, port=number, log_level="warning")


@app.command()
def migrate() -> None:
    """Bring the database to the current schema, making it where there is none."""
    from app.store.database import Database

    settings = Settings()
    database = Database(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
    database.migrate()
    database.dispose()
    print("The database is current.", file=sys.stderr)


@app.command()
def recommend(file: File, as_json: Json = False) -> None:
    """Recommend for one profile."""
    from app.advice.advisor import recommend as advise
    from app.catalog.loader import load_catalog
    from app.workload.profile import parse_profile

    profile = parse_profile(load_object(_read(file)))
    answer = advise(profile, load_catalog(), created_at=datetime.now(UTC), recommendation_id=str(uuid4()))
    if as_json:
        print(answer.model_dump_json(indent=2))
        return
    print(answer.summary)
    if answer.runner_up:
        print(answer.runner_up)
    for reason in answer.reasons:
        print(f"- {reason}")
    if answer.cost is not None:
        print(f"Lifetime cost over {answer.cost.horizon_years:g} years: {answer.cost.tco_usd.mid:,.0f} USD")


@app.command()
def estimate(
    kind: Annotated[Literal["training", "serving", "collective", "fabric"], typer.Argument()], file: File, as_json: Json = False
) -> None:
    """Estimate one explicit design, collective or network."""
    from app.catalog.loader import load_catalog

    answer = estimator(kind)(load_object(_read(file)), load_catalog())
    if as_json:
        _print_json(answer)
        return
    print("\n".join(shown_lines(answer)))


def estimator(kind: str) -> Any:
    """The function behind one kind of estimate."""
    if kind == "training":
        from app.engine.training.request import estimate_layout

        return estimate_layout
    if kind == "serving":
        from app.engine.serving.request import estimate_point

        return estimate_point
    if kind == "collective":
        from app.engine.collective_request import estimate_collective

        return estimate_collective
    from app.design.fabric_request import estimate_fabric

    return estimate_fabric


Csv = Annotated[Path | None, typer.Option(exists=True, dir_okay=False)]


@app.command()
def validate(
    training: Csv = None,
    inference: Csv = None,
    memory: Csv = None,
    pairs: Csv = None,
    tco: Csv = None,
    collectives: Csv = None,
    fabrics: Csv = None,
    scenarios: Csv = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the whole result here")] = None,
) -> None:
    """Compare predictions with published measurements."""
    from app.validation.run import FILES, validate_files

    given = dict(zip(FILES, (training, inference, memory, pairs, tco, collectives, fabrics, scenarios), strict=True))
    chosen = {name: path for name, path in given.items() if path is not None}
    if not chosen:
        print("Name at least one file, such as --scenarios FILE; see --help.", file=sys.stderr)
        sys.exit(2)
    if pairs is not None and inference is None:
        print("--pairs names rows of the inference file: give --inference as well.", file=sys.stderr)
        sys.exit(2)
    result = validate_files(chosen)
    _show(result)
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1, allow_nan=False, default=str), encoding="utf-8")


SHOWN = (
    "rows", "predicted", "median_abs_error", "source_median_abs_error", "p90_abs_error", "bias", "spearman", "interval_coverage",
    "correct", "accuracy", "gpus_within", "class_agreement",
)  # fmt: skip


def _show(result: dict[str, Any]) -> None:
    table = Table("family", *(name.replace("_", " ") for name in SHOWN), title="Predictions against published measurements")
    for family, figures in result.items():
        if not isinstance(figures, dict):
            continue
        table.add_row(family, *(_cell(figures.get(name)) for name in SHOWN))
        for metric, part in (figures.get("by_metric") or {}).items():
            table.add_row(f"  {metric}", *(_cell(part.get(name)) for name in SHOWN))
    Console(width=200).print(table)
    for figures in result.values():
        if isinstance(figures, dict) and figures.get("scaling"):
            _show_scaling(figures["scaling"])


def _show_scaling(scaling: dict[str, Any]) -> None:
    title = (
        f"Scaling against the smallest count: {scaling['within_6_points']} of {scaling['sets']} sets within 6 points, "
        f"{scaling['sources_within']} of {scaling['sources']} sources in the median set"
    )
    table = Table("source", "model", "gpu", "kind", "layout", "gpus", "measured", "predicted", "worst points", title=title)
    for each in scaling["per_set"]:
        efficiencies = (" ".join(f"{value:.2f}" for value in each[name]) for name in ("measured", "predicted"))
        gpus = " ".join(str(count) for count in each["gpus"])
        names = (each[name] for name in ("source_key", "model", "gpu_id", "kind", "layout"))
        table.add_row(*names, gpus, *efficiencies, f"{each['worst_points']:.1f}")
    Console(width=200).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@app.command()
def backup(target: Annotated[Path, typer.Argument(help="File to write")]) -> None:
    """Copy the SQLite database while the server runs."""
    import sqlite3

    source = _sqlite_file()
    if target.exists():
        print(f"{target} exists already; name another file", file=sys.stderr)
        sys.exit(1)
    with sqlite3.connect(source) as database, sqlite3.connect(target) as copy:
        database.backup(copy)
    print(f"Written: {target}", file=sys.stderr)


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A backup")],
    force: Annotated[bool, typer.Option(help="Overwrite the present database")] = False,
) -> None:
    """Put a backup in place of the database; stop the server first."""
    import sqlite3

    target = _sqlite_file(must_exist=False)
    if target.exists() and not force:
        print(f"{target} exists; add --force to overwrite it", file=sys.stderr)
        sys.exit(1)
    target.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(source) as backup_file, sqlite3.connect(target) as database:
        if backup_file.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            print(f"{source} is not a sound SQLite database", file=sys.stderr)
            sys.exit(1)
        backup_file.backup(database)
    print(f"Restored: {target}", file=sys.stderr)


def _sqlite_file(must_exist: bool = True) -> Path:
    from app.store.database import sqlite_path

    path = sqlite_path(Settings().database_url)
    if path is None:
        print("backup and restore serve SQLite; use pg_dump and pg_restore for PostgreSQL", file=sys.stderr)
        sys.exit(1)
    if must_exist and not path.exists():
        print(f"{path} does not exist; run: python -m app migrate", file=sys.stderr)
        sys.exit(1)
    return path
