"""The price book: published, derived and estimated prices, and prices that are not known."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.costing.price_book import PriceBook, price_book
from app.money import Usd, cents
from tests.costing.small_catalog import A6000, EDGE, H100, HGX, L4, PRICES, TOWER, TPU, SmallCatalog, price


def book(*more: object) -> PriceBook:
    return PriceBook((*PRICES, *more), SmallCatalog().gpus)  # type: ignore[arg-type]


def test_money_is_whole_cents() -> None:
    assert cents(1.005) == Decimal("1.01")
    assert Usd.of(0.1, 0.2, 0.3).times(3) == Usd(Decimal("0.30"), Decimal("0.60"), Decimal("0.90"))
    assert Usd.total([Usd.exact(0.1)] * 3).mid == Decimal("0.30")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.01])
def test_money_refuses_what_is_no_amount(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        cents(bad)


def test_whole_server_is_one_priced_unit() -> None:
    parts = book().server_parts(HGX, H100, 8)
    assert parts.whole
    assert parts.per_gpu is None
    assert parts.per_server[0].price is not None
    assert parts.per_server[0].price.usd == Usd.of(230_000, 290_000, 375_000)


def test_card_server_is_priced_by_part() -> None:
    parts = book().server_parts(EDGE, L4, 4)
    by_category = {part.category: part for part in parts.per_server}
    # one chassis for four slots 4,000; 32 cores x 140 = 4,480; 256 GB = 4 modules x 312.50; 3.84 TB x 208 = 798.72
    expected = {"server": (1, "4000.00"), "cpu": (1, "4480.00"), "memory": (4, "312.50"), "drive": (1, "798.72")}
    for category, (quantity, usd) in expected.items():
        part = by_category[category]
        assert part.quantity == quantity
        assert part.price is not None
        assert part.price.usd.mid == Decimal(usd)
    assert not parts.whole


def test_estimate_from_the_most_alike_gpu_says_so() -> None:
    # L4 from the RTX A6000: (24 x 300 x 121) / (48 x 768 x 155) = 0.15247; cube root 0.5343; x 4,000 = 2,137
    found = book().card(L4)
    assert found is not None
    assert (found.kind, found.comparable) == ("estimate", True)
    assert float(found.usd.mid) == pytest.approx(2137, abs=1)
    assert float(found.usd.low) < 0.6 * float(found.usd.mid)
    assert "no published price" in found.source


def test_what_is_not_sold_has_no_price() -> None:
    assert book().card(TPU) is None
    assert book().part("switch", "ethernet", 400) is None


def test_own_price_wins_and_changes_only_its_item() -> None:
    own = price("override", "our quote", None, "250000", None, item_id="hgx-h100")
    before, after = book(), book(own)
    changed = after.server_parts(HGX, H100, 8).per_server[0].price
    assert changed is not None
    assert changed.usd == Usd.exact(250_000)
    assert after.server_parts(TOWER, A6000, 2) == before.server_parts(TOWER, A6000, 2)
    assert after.card(A6000) == before.card(A6000)


def test_newest_reading_wins() -> None:
    newer = price("gpu", "RTX A6000 48GB", None, "3500", None, as_of="2026-11")
    older = price("gpu", "RTX A6000 48GB", None, "9000", None, as_of="2020")
    found = book(older, newer).card(A6000)
    assert found is not None
    assert found.usd.mid == Decimal("3500.00")


def test_conflicting_readings_give_their_geometric_mean() -> None:
    early = price("gpu", "RTX 5090 32GB", "2100", None, "2400")
    late = price("gpu", "RTX 5090 32GB (EUR incl. 20% VAT)", None, "6000", None, as_of="2026-10-07").model_copy(update={"unit": "EUR each"})
    gpu = A6000.model_copy(update={"id": "rtx-5090"})
    found = PriceBook((early, late), {"rtx-5090": gpu}).card(gpu)
    assert found is not None
    # 6,000 EUR / 1.2 x 1.15 = 5,750 USD; sqrt(2,250 x 5,750) = 3,596.87
    assert float(found.usd.mid) == pytest.approx(3596.87, abs=0.01)
    assert found.usd.low == Decimal("2100.00")
    assert found.usd.high == Decimal("5750.00")


def test_one_book_per_catalogue() -> None:
    catalog = SmallCatalog()
    assert price_book(catalog) is price_book(catalog)  # type: ignore[arg-type]
    assert price_book(SmallCatalog()) is not price_book(catalog)  # type: ignore[arg-type]
