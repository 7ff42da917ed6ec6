"""Money with its uncertainty: Decimal US dollars to the cent. Used by design and costing, formatted by views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def cents(value: Decimal | float | int) -> Decimal:
    """``value`` rounded half up to the cent; refuses NaN, infinity and negative amounts."""
    amount = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"an amount of money must be finite and >= 0, got {value}")
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Usd:
    """Low, middle and high amount, USD; amounts are whole cents, unit costs (:meth:`unit`) are finer."""

    low: Decimal
    mid: Decimal
    high: Decimal

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise ValueError(f"low <= mid <= high must hold, got {self.low}, {self.mid}, {self.high}")

    @classmethod
    def of(cls, low: Decimal | float, mid: Decimal | float, high: Decimal | float) -> Usd:
        """Three amounts rounded to the cent."""
        return cls(cents(low), cents(mid), cents(high))

    @classmethod
    def unit(cls, low: float, mid: float, high: float) -> Usd:
        """Three unit costs (per GPU-hour, per million tokens), kept to a hundredth of a cent."""
        fine = Decimal("0.0001")
        if min(low, mid, high) < 0:
            raise ValueError("a unit cost must be >= 0")
        return cls(*(Decimal(repr(float(end))).quantize(fine, rounding=ROUND_HALF_UP) for end in (low, mid, high)))

    @classmethod
    def exact(cls, amount: Decimal | float) -> Usd:
        """An amount without uncertainty."""
        value = cents(amount)
        return cls(value, value, value)

    @classmethod
    def total(cls, parts: Iterable[Usd]) -> Usd:
        """Sum of amounts, end by end (their errors taken as dependent); exact to the cent."""
        low = mid = high = Decimal("0.00")
        for part in parts:
            low, mid, high = low + part.low, mid + part.mid, high + part.high
        return cls(low, mid, high)

    def times(self, factor: int | float) -> Usd:
        """Every end multiplied by ``factor`` >= 0. A whole factor is exact to the cent."""
        by = Decimal(factor) if isinstance(factor, int) else Decimal(repr(float(factor)))
        return Usd(cents(self.low * by), cents(self.mid * by), cents(self.high * by))

    def plus(self, other: Usd) -> Usd:
        """Sum, end by end."""
        return Usd(self.low + other.low, self.mid + other.mid, self.high + other.high)


ZERO_USD = Usd.exact(0)
"""Nothing to pay. Never stands for a price that is not known; that is ``None``."""
