"""Read an organisation's own price list and decide which prices may enter the book by themselves.

Columns: ``item_id`` (catalogue id of a GPU or server), ``unit`` (must be ``each``), ``typical_usd``; optional
``low_usd``, ``high_usd``, ``as_of``, ``source``. A price that is implausible beside the book waits for a person.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from app.catalog.schema import Price

REQUIRED = ("item_id", "unit", "typical_usd")
OPTIONAL = ("low_usd", "high_usd", "as_of", "source", "item")
UNITS = ("each",)
PLAUSIBLE = (Decimal("0.4"), Decimal("2.5"))
"""A price outside these multiples of the book's is more often a wrong unit than a bargain."""
MOST_ROWS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProblem:
    """What is wrong with one line: refused (cannot be read) or waiting (readable, implausible)."""

    line: int
    item_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPrices:
    """accepted: rows for the book, category ``override``; waiting: readable prices a person must confirm; refused: the rest."""

    accepted: tuple[Price, ...]
    waiting: tuple[tuple[Price, RowProblem], ...]
    refused: tuple[RowProblem, ...]


def import_prices(text: str, book_usd: Mapping[str, Decimal], as_of: str) -> ImportedPrices:
    """Prices of a CSV text. ``book_usd``: the book's typical price by item id; ``as_of``: date of rows without one."""
    reader = csv.DictReader(io.StringIO(text))
    header = tuple(reader.fieldnames or ())
    missing = [name for name in REQUIRED if name not in header]
    unknown = [name for name in header if name not in REQUIRED + OPTIONAL]
    if missing or unknown:
        problem = f"missing columns: {', '.join(missing) or 'none'}; unknown columns: {', '.join(unknown) or 'none'}"
        return ImportedPrices(accepted=(), waiting=(), refused=(RowProblem(line=1, item_id="", message=problem),))
    accepted: list[Price] = []
    waiting: list[tuple[Price, RowProblem]] = []
    refused: list[RowProblem] = []
    for number, row in enumerate(reader, start=2):
        item_id = (row["item_id"] or "").strip()
        if number > MOST_ROWS + 1:
            refused.append(RowProblem(line=number, item_id=item_id, message=f"more than {MOST_ROWS} rows: split the file"))
            break
        outcome = _price(row, item_id, as_of)
        if isinstance(outcome, str):
            refused.append(RowProblem(line=number, item_id=item_id, message=outcome))
            continue
        doubt = _doubt(outcome, book_usd)
        if doubt:
            waiting.append((outcome, RowProblem(line=number, item_id=item_id, message=doubt)))
        else:
            accepted.append(outcome)
    return ImportedPrices(accepted=tuple(accepted), waiting=tuple(waiting), refused=tuple(refused))


def _price(row: Mapping[str, str | None], item_id: str, as_of: str) -> Price | str:
    """The price of a line, or what is wrong with it."""
    if not item_id:
        return "item_id is empty"
    unit = (row["unit"] or "").strip()
    if unit not in UNITS:
        return f"unit must be {' or '.join(UNITS)}, got {unit or 'nothing'}: say what one price buys"
    figures: dict[str, Decimal | None] = {}
    for name in ("low_usd", "typical_usd", "high_usd"):
        cell = (row.get(name) or "").strip()
        try:
            figures[name] = Decimal(cell) if cell else None
        except InvalidOperation:
            return f"{name} is not a number: {cell}"
        value = figures[name]
        if value is not None and not (value.is_finite() and value > 0):
            return f"{name} must be above 0, got {cell}"
    typical = figures["typical_usd"]
    if typical is None:
        return "typical_usd is empty"
    if (figures["low_usd"] or typical) > typical or (figures["high_usd"] or typical) < typical:
        return "low_usd <= typical_usd <= high_usd must hold"
    date = (row.get("as_of") or "").strip() or as_of
    try:
        return Price(
            category="override",
            item=(row.get("item") or item_id).strip() or item_id,
            item_id=item_id,
            unit=unit,
            source=(row.get("source") or "").strip() or "own price list",
            as_of=date,
            kind="list_price",
            low_usd=figures["low_usd"],
            typical_usd=typical,
            high_usd=figures["high_usd"],
        )
    except ValueError:
        return f"as_of must be a date such as 2026-11-30, got {date}"


def _doubt(price: Price, book_usd: Mapping[str, Decimal]) -> str:
    """Why a readable price should wait, or nothing."""
    known = book_usd.get(price.item_id)
    if known is None:
        return "no catalogue item of this id has a price to compare with"
    assert price.typical_usd is not None
    ratio = price.typical_usd / known
    if PLAUSIBLE[0] <= ratio <= PLAUSIBLE[1]:
        return ""
    return f"{price.typical_usd:,} USD is {ratio:.2f} times the book's {known:,} USD: check the unit (one GPU or a whole server)"
