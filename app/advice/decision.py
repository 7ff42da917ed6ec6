"""Decide: ask the engine about every candidate, cost what fits, apply vetoes and preferences, rank.

The decision is the label of the winning design; every architecture that does not win keeps the limit
that beat it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.advice.candidates import Candidate, candidates
from app.advice.facts import facts_of
from app.advice.floor import cost_floor_usd, out_of_reach
from app.advice.ranking import Option, ranked, score
from app.advice.recommendation import Architecture
from app.advice.rules import firing
from app.advice.sizing import size_candidate
from app.catalog.loader import Catalog
from app.costing.quick import quick_usd
from app.engine.result import Shortfall, Sized
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile

PREFERENCE_PENALTY = 0.05
"""A `prefer` rule that speaks against a design counts as 5% of its score: it settles near-ties only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A candidate that cannot be chosen, with the limit that beat it."""

    candidate: Candidate | None
    architecture: Architecture
    shortfall: Shortfall


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything the engine and the rules said, best design first."""

    options: tuple[Option, ...]
    refusals: tuple[Refusal, ...]
    asked: frozenset[Architecture] = frozenset()
    """Architectures for which the engine was asked at least once."""

    @property
    def winner(self) -> Option | None:
        """The first choice, or None when nothing meets the demand."""
        return self.options[0] if self.options else None

    def best_of(self, architecture: Architecture) -> Option | None:
        """The best design of one architecture."""
        return next((option for option in self.options if option.architecture is architecture), None)

    def refusal_of(self, architecture: Architecture) -> Refusal | None:
        """The refusal that came closest to serving: able but not needed, then the smallest needed/available ratio, then the first."""
        found = [refusal for refusal in self.refusals if refusal.architecture is architecture]
        return min(found, key=_distance, default=None)


def _distance(refusal: Refusal) -> float:
    if refusal.shortfall.constraint == "not_needed":
        return 0.0
    needed, available = refusal.shortfall.needed, refusal.shortfall.available
    if not needed or available is None:
        return float("inf")
    if available <= 0:
        return 1e9
    ratio = needed / available
    return ratio if ratio >= 1 else 1 / max(ratio, 1e-9)


def decide(
    profile: WorkloadProfile,
    demand: Demand,
    catalog: Catalog,
    considered: Callable[[Candidate], bool] = lambda candidate: True,
) -> Decision:
    """All options that meet the demand, ranked, and all refusals. ``considered`` narrows the search (what-if runs)."""
    objective = profile.constraints.objective
    options: list[Option] = []
    refusals: list[Refusal] = []
    sized_once: dict[tuple[str, str, object], Sized | Shortfall] = {}
    cheapest: dict[Architecture, float] = {}
    wanted = [candidate for candidate in candidates(profile, catalog) if considered(candidate)]
    for floor, candidate in _cheapest_first(wanted, profile, demand, catalog):
        if floor > cheapest.get(candidate.architecture, math.inf):
            continue
        outcome = out_of_reach(demand, candidate) or _sized(demand, candidate, objective, sized_once)
        if isinstance(outcome, Sized):
            outcome = _within_constraints(profile, candidate, outcome)
        if isinstance(outcome, Shortfall):
            refusals.append(Refusal(candidate=candidate, architecture=candidate.architecture, shortfall=outcome))
            continue
        option = _option(profile, demand, candidate, outcome, catalog)
        if isinstance(option, Option):
            options.append(option)
            cheapest[option.architecture] = min(cheapest.get(option.architecture, math.inf), option.cost.horizon_usd)
        else:
            refusals.append(option)
    asked = frozenset(candidate.architecture for candidate in wanted)
    return Decision(options=tuple(ranked(options, objective)), refusals=tuple(refusals), asked=asked)


def _cheapest_first(wanted: list[Candidate], profile: WorkloadProfile, demand: Demand, catalog: Catalog) -> list[tuple[float, Candidate]]:
    """Candidates with a floor under their cost, lowest first; for other objectives than cost the floor is 0, since the
    dearest design may be the fastest."""
    if profile.constraints.objective != "cost":
        return [(0.0, candidate) for candidate in wanted]
    floors = [(cost_floor_usd(demand, candidate, profile, catalog), candidate) for candidate in wanted]
    return sorted(floors, key=lambda pair: pair[0])


def _sized(
    demand: Demand, candidate: Candidate, objective: str, sized_once: dict[tuple[str, str, object], Sized | Shortfall]
) -> Sized | Shortfall:
    """Size a candidate. One-GPU jobs do not see the server around them, so one answer serves every server size."""
    if candidate.span != "one_gpu":
        return size_candidate(demand, candidate, objective)
    key = (candidate.platform.gpu.id, candidate.span, candidate.max_gpus)
    if key not in sized_once:
        sized_once[key] = size_candidate(demand, candidate, objective)
    outcome = sized_once[key]
    return replace(outcome, platform=candidate.platform) if isinstance(outcome, Sized) else outcome


def _within_constraints(profile: WorkloadProfile, candidate: Candidate, sized: Sized) -> Sized | Shortfall:
    """Growth and redundancy added, then the limits on GPUs, site and network preference checked."""
    from app.advice.availability import with_availability

    constraints = profile.constraints
    sized = with_availability(sized, constraints.availability, candidate.max_gpus)
    if sized.gpus > candidate.max_gpus:
        return Shortfall(
            constraint="gpus",
            needed=sized.gpus,
            available=candidate.max_gpus,
            unit="GPUs",
            message=f"needs {sized.gpus} GPUs with the availability asked for; at most {candidate.max_gpus} may be used",
            nearest=sized,
        )
    preference = constraints.network_preference
    if candidate.protocol and preference not in ("any", candidate.protocol):
        return Shortfall(
            constraint="preference",
            needed=None,
            available=None,
            unit="",
            message=f"{candidate.protocol} is not the network asked for ({preference})",
            nearest=sized,
        )
    return sized


def _option(profile: WorkloadProfile, demand: Demand, candidate: Candidate, sized: Sized, catalog: Catalog) -> Option | Refusal:
    """Cost the design, then let vetoes refuse it and preferences weigh it."""
    cost = quick_usd(sized, catalog, profile.constraints, owned=candidate.owned is not None, network_exists=candidate.network_exists)
    budget = profile.constraints.budget_usd
    if budget is not None and cost.capex_usd is not None and cost.capex_usd > float(budget):
        shortfall = Shortfall(
            constraint="budget",
            needed=cost.capex_usd,
            available=float(budget),
            unit="USD",
            message=f"costs about {cost.capex_usd:,.0f} USD to buy; the budget is {float(budget):,.0f} USD",
            nearest=sized,
        )
        return Refusal(candidate=candidate, architecture=candidate.architecture, shortfall=shortfall)
    facts = facts_of(profile, demand, candidate, sized)
    vetoes = firing(facts, ("veto",))
    if vetoes:
        shortfall = Shortfall(
            constraint=f"rule:{vetoes[0].id}",
            needed=None,
            available=None,
            unit="",
            message=vetoes[0].text(facts),
            nearest=sized,
        )
        return Refusal(candidate=candidate, architecture=candidate.architecture, shortfall=shortfall)
    penalty = PREFERENCE_PENALTY * len(firing(facts, ("prefer",)))
    return Option(candidate=candidate, sized=sized, cost=cost, architecture=candidate.architecture, penalty=penalty)


def dearer_by(option: Option, other: Option, objective: str) -> float:
    """How much worse ``option`` scores than ``other``, as a share: 0.31 = 31% more."""
    base, own = score(other, objective), score(option, objective)
    if base <= 0 or not math.isfinite(base) or not math.isfinite(own):
        return 0.0
    return own / base - 1
