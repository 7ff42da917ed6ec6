"""An organisation's own price list: what enters the book, what waits, what is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.costing.price_book import PriceBook
from app.costing.price_import import import_prices
from app.money import Usd
from tests.costing.small_catalog import H100, HGX, PRICES, SmallCatalog

BOOK = {"hgx-h100": Decimal(290_000), "rtx-a6000": Decimal(4000)}


def test_a_plausible_price_enters_the_book_and_is_used() -> None:
    found = import_prices("item_id,unit,typical_usd\nhgx-h100,each,250000\n", BOOK, "2026-12-01")
    assert not found.waiting
    assert not found.refused
    parts = PriceBook((*PRICES, *found.accepted), SmallCatalog().gpus).server_parts(HGX, H100, 8)
    assert parts.per_server[0].price is not None
    assert parts.per_server[0].price.usd == Usd.exact(250_000)


@pytest.mark.parametrize("usd", ["32000", "800000"])
def test_an_implausible_price_waits_for_a_person(usd: str) -> None:
    # 32,000 is one GPU of the eight (0.11 times); 800,000 is 2.76 times
    found = import_prices(f"item_id,unit,typical_usd\nhgx-h100,each,{usd}\n", BOOK, "2026-12-01")
    assert not found.accepted
    assert "check the unit" in found.waiting[0][1].message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("hgx-h100,hour,250000,,", "unit must be each"),
        ("hgx-h100,each,abc,,", "not a number"),
        ("hgx-h100,each,-5,,", "above 0"),
        ("hgx-h100,each,NaN,,", "above 0"),
        ("hgx-h100,each,,,", "typical_usd is empty"),
        (",each,5,,", "item_id is empty"),
        ("hgx-h100,each,250000,260000,", "must hold"),
        ("hgx-h100,each,250000,,yesterday", "as_of must be a date"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(row: str, message: str) -> None:
    found = import_prices(f"item_id,unit,typical_usd,low_usd,as_of\nhgx-h100,each,250000,,\n{row}\n", BOOK, "2026-12-01")
    assert len(found.accepted) == 1
    assert found.refused[0].line == 3
    assert message in found.refused[0].message


def test_columns_are_checked() -> None:
    assert "missing columns: unit" in import_prices("item_id,typical_usd\na,1\n", BOOK, "2026-12-01").refused[0].message
    assert "unknown columns: price" in import_prices("item_id,unit,typical_usd,price\n", BOOK, "2026-12-01").refused[0].message
