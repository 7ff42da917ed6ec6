"""Numbers of a profile: a demand as a number or a range, and plain numbers, each within stated limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from app.ranges import Range
from app.workload.faults import fault

NOT_A_NUMBER = "must be a number without quotes, or an object with low, mid and high"
NOT_FINITE = "is not a number that can be worked with; give a finite number or leave the field out"
ENDS = ("low", "mid", "high")


@dataclass(frozen=True, slots=True)
class Within:
    """A demand: a number, or low, mid and high, all above 0 (or from 0, with ``zero``) and at most ``maximum``.

    The limits are far beyond any real demand; they keep later arithmetic finite.
    """

    maximum: float
    zero: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source)
        number = core_schema.float_schema(le=self.maximum, **({"ge": 0.0} if self.zero else {"gt": 0.0}))  # type: ignore[arg-type]
        accepted = core_schema.union_schema([number, inner])
        as_range = core_schema.no_info_before_validator_function(_as_range, inner, json_schema_input_schema=accepted)
        return core_schema.no_info_after_validator_function(self._check, as_range)

    @property
    def limit(self) -> str:
        """The limits in words."""
        return f"{'at least' if self.zero else 'greater than'} 0 and at most {self.maximum:,.15g}"

    def _check(self, value: Range) -> Range:
        if value.low < 0 or (value.low == 0 and not self.zero) or value.high > self.maximum:
            raise fault(f"must be {self.limit}", limit=self.limit)
        return value


def _as_range(value: Any) -> Any:
    """A bare number becomes an exact range; everything else but low, mid and high is refused."""
    if isinstance(value, Range):
        return value
    if isinstance(value, dict):
        given = [value[end] for end in ENDS if end in value]
        if not all(_is_number(end) for end in given):
            raise fault("low, mid and high must be numbers without quotes", limit="numbers")
        if not all(_is_finite(end) for end in given):
            raise fault(NOT_FINITE, limit="finite")
        if len(given) == len(ENDS) and not given[0] <= given[1] <= given[2]:
            raise fault("low must not exceed mid, nor mid exceed high; put the three in order", limit="low <= mid <= high")
        return value
    if not _is_number(value):
        raise fault(NOT_A_NUMBER, limit="number")
    if not _is_finite(value):
        raise fault(NOT_FINITE, limit="finite")
    return dict.fromkeys(ENDS, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for floating point
        return False


def number(maximum: float, *, minimum: float = 0.0, zero: bool = False) -> Any:
    """A plain finite number within limits; a boolean or text is refused. ``zero``: the minimum itself is allowed."""
    if zero or minimum > 0:
        return Field(ge=minimum, le=maximum, strict=True, allow_inf_nan=False)
    return Field(gt=minimum, le=maximum, strict=True, allow_inf_nan=False)
