"""The load of a service: requests in flight or per second, from whichever number the customer knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.ranges import Range
from app.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from app.workload import defaults
from app.workload.filling import Filler
from app.workload.profile import FieldError, ProfileError, Serving

StatedBy = Literal["concurrent_users", "requests_per_s", "tokens_per_day", "people"]


@dataclass(frozen=True, slots=True)
class Load:
    """Exactly one of ``concurrent`` and ``requests_per_s`` is known."""

    concurrent: Range | None
    requests_per_s: Range | None
    stated_by: StatedBy


@dataclass(frozen=True, slots=True)
class Request:
    """What one request is: the tokens that ``tokens_per_day`` counts, and the seconds it stays in flight."""

    tokens: float | None
    """None: this workload has no tokens to count."""
    seconds: float
    seconds_why: str


def load_of(serving: Serving, filler: Filler, request: Request) -> Load:
    """The one stated load as requests in flight or requests per second.

    Raises:
        ProfileError: no load is stated, or in tokens where there are none.
    """
    if serving.concurrent_users is not None:
        return Load(serving.concurrent_users, None, "concurrent_users")
    if serving.requests_per_s is not None:
        return Load(None, serving.requests_per_s, "requests_per_s")
    if serving.tokens_per_day is not None:
        return Load(None, _peak_rate(serving.tokens_per_day, filler, request), "tokens_per_day")
    if serving.people is not None:
        return Load(_people(serving, filler, request), None, "people")
    message = "is required: requests in flight at the peak (or requests_per_s, tokens_per_day, people)"
    raise ProfileError([FieldError("serving.concurrent_users", message, "greater than 0")])


def _peak_rate(tokens_per_day: Range, filler: Filler, request: Request) -> Range:
    """Requests per second at the peak = tokens a day / seconds a day / tokens a request x peak to average."""
    if request.tokens is None:
        message = "cannot be used here, where the work is not counted in tokens; give concurrent_users or requests_per_s"
        raise ProfileError([FieldError("serving.tokens_per_day", message, "concurrent_users or requests_per_s")])
    peak = defaults.PEAK_TO_AVERAGE
    filler.note("serving.tokens_per_day", peak.value, peak.unit, peak.why, peak.source)
    return tokens_per_day.scaled(peak.value / (SECONDS_PER_DAY * max(request.tokens, 1.0)))


def _people(serving: Serving, filler: Filler, request: Request) -> Range:
    """Heads to requests in flight by Little's law: arrivals per second x seconds a request is in the system."""
    people = serving.people
    assert people is not None
    share = people.active_share
    if share is None:
        share = defaults.ACTIVE_SHARE
        why = "Busy-hour share of staff with access"
        filler.note("serving.people.active_share", share.model_dump(), "share of heads", why, defaults.PEOPLE_SOURCE)
    rate = people.requests_per_active_hour
    if rate is None:
        rate = defaults.REQUESTS_PER_ACTIVE_HOUR
        why = "An active person's requests in the busy hour"
        filler.note("serving.people.requests_per_active_hour", rate.model_dump(), "requests/h", why, defaults.PEOPLE_SOURCE)
    seconds = request.seconds
    filler.note(
        "serving.concurrent_users",
        f"{people.count.mid:,.0f} heads x {share.mid:.0%} active x {rate.mid:g} requests/h x {seconds:.0f} s / 3600",
        "requests in flight",
        f"Little's law with {request.seconds_why}",
        defaults.PEOPLE_SOURCE,
    )

    def in_flight(count: float, active: float, hourly: float) -> float:
        return max(count * active * hourly * seconds / SECONDS_PER_HOUR, 1.0)

    return Range(
        low=in_flight(people.count.low, share.low, rate.low),
        mid=in_flight(people.count.mid, share.mid, rate.mid),
        high=in_flight(people.count.high, share.high, rate.high),
    )
