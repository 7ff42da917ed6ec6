"""A number with its uncertainty: demand asked for as low/mid/high, or a prediction."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Range(BaseModel):
    """Low, middle and high value of one quantity, in the unit its field name states.

    For a prediction, ``low..high`` holds the true value four times in five.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    low: float = Field(description="Low end: the true value lies below it one time in ten")
    mid: float = Field(description="Most likely value")
    high: float = Field(description="High end: the true value lies above it one time in ten")

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low <= self.mid <= self.high:
            raise ValueError(f"low <= mid <= high must hold, got {self.low}, {self.mid}, {self.high}")
        return self

    @classmethod
    def exact(cls, value: float) -> Range:
        """A value without uncertainty."""
        value = float(value)
        return cls(low=value, mid=value, high=value)

    @classmethod
    def around(cls, mid: float, low_factor: float, high_factor: float) -> Range:
        """``mid`` with multiplicative error factors, ``low_factor <= 1 <= high_factor``."""
        mid = float(mid)
        ends = (mid * low_factor, mid * high_factor)
        return cls(low=min(ends), mid=mid, high=max(ends))

    def scaled(self, factor: float) -> Range:
        """Every end multiplied by a non-negative factor."""
        if factor < 0 or not math.isfinite(factor):
            raise ValueError(f"factor must be finite and >= 0, got {factor}")
        return Range(low=self.low * factor, mid=self.mid * factor, high=self.high * factor)

    def plus(self, other: Range) -> Range:
        """Sum of two fully dependent ranges, end by end."""
        return Range(low=self.low + other.low, mid=self.mid + other.mid, high=self.high + other.high)
