"""What would change the answer: one input at a time, searched until the design changes.

Each search re-decides on a short list (the winner's hardware and the best of each other architecture), doubling or
halving the input until the architecture or the count changes, then closing in on the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from app.advice.candidates import Candidate
from app.advice.decision import Decision, decide
from app.advice.explain import LABELS, plural
from app.advice.ranking import Option
from app.advice.recommendation import FlipCondition
from app.catalog.loader import Catalog
from app.ranges import Range
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile

STEPS = (2.0, 8.0)
"""Multiples tried upwards, and their inverses downwards, where the winner's own limit is not known."""
CLOSER = 3
"""Bisections after a change is found."""
BEYOND = 1.02
"""Just past a limit that is known: the design is asked again there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One input that can move: its profile path, unit, present value and how to scale the demand."""

    input: str
    unit: str
    value: float
    scaled: Callable[[float], Demand]
    limit: float | None = None
    """Multiple at which the winner stops serving, where the engine says it: capacity over load, time over deadline."""
    limit_upwards: bool = True


def flip_conditions(profile: WorkloadProfile, demand: Demand, decision: Decision, catalog: Catalog) -> list[FlipCondition]:
    """Thresholds for every lever of the workload; empty when nothing was chosen."""
    winner = decision.winner
    if winner is None:
        return []
    short_list = _short_list(decision)
    found: list[FlipCondition] = []
    for lever in levers(demand, winner):
        for upwards in (True, False):
            if lever.limit is not None and upwards == lever.limit_upwards:
                flip = _at_limit(lever, lever.limit, winner, profile, catalog, short_list)
            else:
                flip = _search(lever, upwards, winner, profile, catalog, short_list)
            if flip is not None:
                found.append(flip)
                if lever.input == "training.deadline_days" and demand.training is not None:
                    found.append(_as_tokens(flip, lever.value, demand.training.tokens.mid / 1e9))
    return found


def _as_tokens(flip: FlipCondition, days: float, tokens_b: float) -> FlipCondition:
    """The same threshold in tokens: k times the deadline equals 1/k of the tokens."""
    return FlipCondition(
        input="training.tokens_b",
        unit="billion tokens",
        value=_rounded(tokens_b * days / flip.value),
        direction="below" if flip.direction == "above" else "above",
        architecture=flip.architecture,
        design_change=flip.design_change,
    )


def levers(demand: Demand, winner: Option) -> Iterator[Lever]:
    """The inputs of this kind of work that customers change."""
    serving, training, batch, hpc = demand.serving, demand.training, demand.batch, demand.hpc
    figures = winner.sized
    if serving is not None:
        if serving.concurrent is not None:
            mid = serving.concurrent
            yield Lever(
                input="serving.concurrent_users",
                unit="requests in flight",
                value=mid.mid,
                scaled=lambda factor: replace(demand, serving=replace(serving, concurrent=mid.scaled(factor))),
                limit=figures.serving.max_concurrent / mid.mid if figures.serving is not None else None,
            )
        elif serving.requests_per_s is not None:
            rate = serving.requests_per_s
            yield Lever(
                input="serving.requests_per_s",
                unit="requests/s",
                value=rate.mid,
                scaled=lambda factor: replace(demand, serving=replace(serving, requests_per_s=rate.scaled(factor))),
            )
    if batch is not None:
        yield Lever(
            input="batch.deadline_h",
            unit="h",
            value=batch.deadline_h,
            scaled=lambda factor: replace(demand, batch=replace(batch, deadline_h=batch.deadline_h * factor)),
            limit=_share(figures.serving.hours if figures.serving is not None else None, batch.deadline_h),
            limit_upwards=False,
        )
    if training is not None and training.deadline_days is not None:
        # Twice the tokens is half the deadline: one search serves both, see flip_conditions.
        days = training.deadline_days
        yield Lever(
            input="training.deadline_days",
            unit="days",
            value=days,
            scaled=lambda factor: replace(demand, training=replace(training, deadline_days=days * factor)),
            limit=_share(figures.training.days if figures.training is not None else None, days),
            limit_upwards=False,
        )
    if hpc is not None and hpc.problem_size is not None:
        size = hpc.problem_size
        yield Lever(
            input="hpc.problem_size_m",
            unit="million atoms or cells",
            value=size / 1e6,
            scaled=lambda factor: replace(demand, hpc=replace(hpc, problem_size=size * factor)),
        )
    if demand.data_science is not None:
        data = demand.data_science
        yield Lever(
            input="data_science.dataset_gb",
            unit="GB",
            value=data.dataset_gb.mid,
            scaled=lambda factor: replace(demand, data_science=replace(data, dataset_gb=_range_scaled(data.dataset_gb, factor))),
        )


def _share(taken: Range | None, allowed: float) -> float | None:
    """Time taken over time allowed, when it is below 1; beyond, the limit is not this one."""
    if taken is None or allowed <= 0:
        return None
    share = taken.mid / allowed
    return share if 0 < share <= 1 else None


def _range_scaled(value: Range, factor: float) -> Range:
    return value.scaled(factor)


def _short_list(decision: Decision) -> Callable[[Candidate], bool]:
    """Candidates worth re-asking: hardware of the winner and of the best design of each architecture."""
    leaders: dict[object, Option] = {}
    for option in decision.options:
        leaders.setdefault(option.architecture, option)
    keys = {_key(option.candidate) for option in leaders.values()}
    winner = decision.options[0].candidate

    def considered(candidate: Candidate) -> bool:
        if _key(candidate) in keys:
            return True
        # The step up on the same hardware: more GPUs of one server, then several servers.
        same = candidate.platform.gpu.id == winner.platform.gpu.id and candidate.platform.server is winner.platform.server
        return same and candidate.span != winner.span

    return considered


def _key(candidate: Candidate) -> tuple[str, str, str, str]:
    platform = candidate.platform
    return platform.gpu.id, platform.server.id if platform.server else "", candidate.span, candidate.protocol


def _signature(option: Option | None) -> tuple[object, ...]:
    if option is None:
        return (None,)
    return option.architecture, option.sized.platform.gpu.id, option.sized.gpus


def _at_limit(
    lever: Lever,
    limit: float,
    winner: Option,
    profile: WorkloadProfile,
    catalog: Catalog,
    considered: Callable[[Candidate], bool],
) -> FlipCondition | None:
    """What leads just past the winner's own limit; None when the winner, surprisingly, still does."""
    factor = limit * BEYOND if lever.limit_upwards else limit / BEYOND
    changed = decide(profile, lever.scaled(factor), catalog, considered).winner
    if _signature(changed) == _signature(winner):
        return None
    return FlipCondition(
        input=lever.input,
        unit=lever.unit,
        value=_rounded(lever.value * limit),
        direction="above" if lever.limit_upwards else "below",
        architecture=None if changed is None else changed.architecture,
        design_change=_change(winner, changed),
    )


def _search(
    lever: Lever,
    upwards: bool,
    winner: Option,
    profile: WorkloadProfile,
    catalog: Catalog,
    considered: Callable[[Candidate], bool],
) -> FlipCondition | None:
    """First multiple at which the design changes, closed in by bisection; None when it never does within the steps."""

    def at(factor: float) -> Option | None:
        return decide(profile, lever.scaled(factor), catalog, considered).winner

    base = _signature(winner)
    inside = 1.0
    for step in STEPS:
        factor = step if upwards else 1 / step
        changed = at(factor)
        if _signature(changed) != base:
            break
        inside = factor
    else:
        return None
    outside = factor
    for _ in range(CLOSER):
        middle = (inside * outside) ** 0.5
        option = at(middle)
        if _signature(option) != base:
            outside, changed = middle, option
        else:
            inside = middle
    return FlipCondition(
        input=lever.input,
        unit=lever.unit,
        value=_rounded(lever.value * outside),
        direction="above" if upwards else "below",
        architecture=None if changed is None else changed.architecture,
        design_change=_change(winner, changed),
    )


def _rounded(value: float) -> float:
    """Three significant figures; the threshold is not known better."""
    return float(f"{value:.3g}")


def _change(winner: Option, changed: Option | None) -> str:
    if changed is None:
        return "nothing within the limits meets the demand"
    sized = changed.sized
    count = f"{plural(sized.gpus, 'GPU')} ({sized.platform.gpu.name}) in {plural(sized.servers, 'server')}"
    if changed.architecture is not winner.architecture:
        return f"{LABELS[changed.architecture]}: {count}"
    return f"{count} instead of {plural(winner.sized.gpus, 'GPU')} ({winner.sized.platform.gpu.name})"
