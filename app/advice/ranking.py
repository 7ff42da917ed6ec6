"""Order the designs that meet the demand: by the asked objective, ties to the simpler one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.advice.candidates import Candidate
from app.advice.recommendation import Architecture
from app.costing.quick import QuickCost
from app.engine.result import Sized

SIMPLICITY = (
    Architecture.CPU_ONLY,
    Architecture.SINGLE_GPU,
    Architecture.MULTI_GPU_PCIE,
    Architecture.NVLINK_SERVER,
    Architecture.ETHERNET_CLUSTER,
    Architecture.INFINIBAND_CLUSTER,
)
"""From the least to operate to the most."""

TIE_FRACTION = 0.10
"""Designs within this share of the best score are called equal: about the error of the cost estimate, so the
simpler one is taken. Larger differences are real."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A candidate that meets the demand, with what it costs. ``penalty``: rule preferences, as a share of the score."""

    candidate: Candidate
    sized: Sized
    cost: QuickCost
    architecture: Architecture
    penalty: float = 0.0

    @property
    def power_w(self) -> float:
        """Yearly-average power class of the GPUs in use, watts (TDP where the catalogue has one)."""
        return (self.sized.platform.gpu.tdp_w or 0.0) * self.sized.gpus


def speed_s(sized: Sized) -> float:
    """Seconds per unit of work as the user feels it: lower is better.

    Serving: seconds per output token plus first-token wait spread over a 100-token answer; batch: hours of
    the run; training: days of the run, or the step; jobs: inverse of the first throughput figure.
    """
    if sized.serving is not None:
        figures = sized.serving
        if figures.hours is not None:
            return figures.hours.mid * 3600
        tpot = figures.tpot_ms.mid if figures.tpot_ms else 0.0
        ttft = figures.ttft_ms.mid if figures.ttft_ms else 0.0
        return (tpot + ttft / 100) / 1000
    if sized.training is not None:
        return sized.training.days.mid * 86_400 if sized.training.days else sized.training.step_s.mid
    if sized.job is not None:
        for name, value in sized.job.figures.items():
            if name.endswith(("_hours", "_days", "_s", "hours_per_run", "_ms")):
                return value.mid
    return float(sized.gpus)


def score(option: Option, objective: str) -> float:
    """What the objective minimises: USD over the horizon, watts, or seconds; preferences of rules included."""
    if objective == "energy":
        base = option.power_w
    elif objective in ("latency", "time"):
        base = speed_s(option.sized)
    else:
        base = option.cost.horizon_usd
    return base * (1 + option.penalty)


def ranked(options: Sequence[Option], objective: str) -> list[Option]:
    """Best first. Among designs within :data:`TIE_FRACTION` of the best, the simplest, then the cheapest, leads."""
    if not options:
        return []
    ordered = sorted(options, key=lambda option: (not option.sized.keeps_usual_limits, score(option, objective), _identity(option)))
    limit = score(ordered[0], objective) * (1 + TIE_FRACTION)
    kept = ordered[0].sized.keeps_usual_limits
    tied = [option for option in ordered if score(option, objective) <= limit and option.sized.keeps_usual_limits == kept]
    leader = min(
        tied,
        key=lambda option: (_complexity(option), option.cost.horizon_usd, option.sized.gpus, _identity(option)),
    )
    return [leader, *(option for option in ordered if option is not leader)]


def place(architecture: Architecture) -> int:
    """How much an architecture asks of those who run it, by :data:`SIMPLICITY`. Neither network is the simpler one: RoCE wants
    a lossless set-up, InfiniBand skills and a manager of its own."""
    return min(SIMPLICITY.index(architecture), SIMPLICITY.index(Architecture.ETHERNET_CLUSTER))


def _complexity(option: Option) -> float:
    """Its architecture's place; a network already in place is simpler to use than any that must be bought."""
    if option.candidate.network_exists:
        return min(place(option.architecture), place(Architecture.ETHERNET_CLUSTER) - 0.5)
    return place(option.architecture)


def _identity(option: Option) -> tuple[str, int, str, str]:
    """A stable order between equal scores, so that the same profile always gets the same answer."""
    platform = option.sized.platform
    network = platform.scale_out.kind if platform.scale_out else ""
    return platform.gpu.id, platform.gpus_per_server, platform.server.id if platform.server else "", network
