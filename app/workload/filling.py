"""Collects what was assumed while a profile's empty fields are filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.ranges import Range
from app.workload.defaults import Default
from app.workload.demand import Assumed
from app.workload.profile import WorkloadProfile


@dataclass
class Filler:
    """Values of a profile or their defaults, each default recorded with its reason."""

    assumed: list[Assumed] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    def note(self, field_name: str, value: Any, unit: str, why: str, source: str = "convention") -> None:
        """Record an assumption."""
        self.assumed.append(Assumed(field=field_name, value=value, unit=unit, why=why, source=source))

    def number(self, stated: float | None, field_name: str, default: Default) -> float:
        """The stated value, or the default with its reason recorded."""
        if stated is not None:
            return float(stated)
        self.note(field_name, default.value, default.unit, default.why, default.source)
        return float(default.value)

    def mid(self, stated: Range | None, field_name: str, default: Default) -> float:
        """Middle of a stated range, which is said when the range has a width, or the default."""
        if stated is None:
            return self.number(None, field_name, default)
        return self.middle(stated, field_name, default.unit)

    def middle(self, stated: Range, field_name: str, unit: str) -> float:
        """Middle of a stated range, and that only the middle is used, where low and high differ from it."""
        if stated.low < stated.high:
            why = f"The middle of the {stated.low:,.6g} to {stated.high:,.6g} stated; ask again with either end to see what it changes"
            self.note(field_name, stated.mid, unit, why, "stated range")
        return stated.mid

    def defaults_of(self, part: Any, path: str, reasons: dict[str, tuple[str, str]]) -> None:
        """Record the fixed defaults of a part that were not stated; ``reasons``: field to unit and why."""
        for name, (unit, why) in reasons.items():
            if name not in part.model_fields_set:
                self.note(f"{path}.{name}", getattr(part, name), unit, why)

    def growth(self, profile: WorkloadProfile) -> float:
        """One year's growth of the load, as a factor: what is ordered today serves until the next order can arrive."""
        growth = profile.constraints.growth_per_year
        if growth > 0:
            self.note("constraints.growth_per_year", 1 + growth, "x today's load", "Sized for the load one year from now")
        return 1 + growth
