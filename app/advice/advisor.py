"""The whole path: profile and catalogue in, Recommendation out. Pure: the moment and the id are given."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import app
from app.advice import recommendation as doc
from app.advice.acceptance import acceptance_checks
from app.advice.build import (
    Built,
    bill_document,
    build,
    cost_document,
    facility_document,
    network_document,
    storage_document,
)
from app.advice.cpu import CpuOption, ask_cpu, cpu_design_document, cpu_estimate_document, cpu_leads, cpu_parts, cpu_summary
from app.advice.decision import Decision, Refusal, decide
from app.advice.documents import bounds_document, design_document, estimate_document
from app.advice.explain import LABELS, comparison, figures_phrase, hardware_phrase, reasons, runner_up, summary
from app.advice.facts import facts_of
from app.advice.flips import flip_conditions
from app.advice.launch import launch_settings
from app.advice.ranking import Option, speed_s
from app.advice.recommendation import Architecture, Recommendation
from app.advice.rules import firing
from app.catalog.loader import Catalog
from app.design.fabric import fabric_faults
from app.engine.result import Shortfall
from app.ranges import Range
from app.units import percent
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile
from app.workload.resolve import demand_of

ENGINE_VERSION = "1"
"""Raised whenever a formula or a fitted constant changes, so that a stored answer says what computed it."""


def recommend(
    profile: WorkloadProfile,
    catalog: Catalog,
    *,
    created_at: datetime,
    recommendation_id: str,
    include_trace: bool = False,
) -> Recommendation:
    """Decide for a profile and write the whole document.

    A demand that nothing can meet gives ``architecture`` None, with the nearest designs and the binding limit.

    Raises:
        ProfileError: the profile names something the catalogue does not know, or lacks what its work needs.
    """
    demand = demand_of(profile, catalog)
    decision = decide(profile, demand, catalog)
    cpu = ask_cpu(demand, profile)
    winner = decision.winner
    if not isinstance(cpu, Shortfall) and cpu_leads(cpu, profile, None if winner is None else winner.cost.horizon_usd):
        parts = _cpu_parts(cpu, decision, demand, profile, catalog)
    else:
        parts = _gpu_parts(decision, cpu, demand, profile, catalog)
    return Recommendation(
        id=recommendation_id,
        created_at=created_at,
        profile=profile.to_json(),
        assumptions=[
            doc.Assumption(field=item.field, value=item.value, unit=item.unit, why=item.why, source=item.source)
            for item in demand.assumptions
        ],
        trace=_trace(decision) if include_trace else None,
        versions=doc.Versions(app=app.__version__, engine=ENGINE_VERSION, catalog=catalog.version),
        **parts,
    )


def _gpu_parts(
    decision: Decision, cpu: CpuOption | Shortfall, demand: Demand, profile: WorkloadProfile, catalog: Catalog
) -> dict[str, Any]:
    """The document's parts when a GPU design leads, or nothing serves."""
    winner = decision.winner
    built = None if winner is None else build(winner, demand, profile, catalog)
    return {
        "architecture": None if winner is None else winner.architecture,
        "summary": _summary(decision),
        "runner_up": runner_up(decision, profile.constraints.objective),
        "confidence": _confidence(winner, demand),
        "confidence_why": _confidence_why(winner, demand),
        "reasons": reasons(decision, demand),
        "design": None if winner is None else design_document(winner.sized),
        "estimate": None if winner is None else estimate_document(winner.sized),
        "bill_of_materials": [] if built is None else bill_document(built.bill),
        "network": None if built is None else network_document(built.network),
        "facility": None if built is None else facility_document(built.facility),
        "storage": None if built is None else storage_document(built.storage),
        "cost": None if built is None else cost_document(built.cost),
        "alternatives": _alternatives(decision, cpu, demand, profile, catalog),
        "rejected": _rejected(decision, cpu),
        "findings": _findings(decision, demand, profile, built),
        "flip_conditions": flip_conditions(profile, demand, decision, catalog),
        "bounds": None if winner is None else bounds_document(winner.sized),
        "launch": [] if winner is None else launch_settings(demand, winner.sized),
        "acceptance": [] if winner is None else acceptance_checks(winner.sized, demand),
    }


def _cpu_parts(cpu: CpuOption, decision: Decision, demand: Demand, profile: WorkloadProfile, catalog: Catalog) -> dict[str, Any]:
    """The document's parts when no GPU is needed."""
    busy = cpu.fit.busy_fraction
    other = decision.winner
    return {
        "architecture": Architecture.CPU_ONLY,
        "summary": cpu_summary(cpu),
        "runner_up": "" if other is None else f"Runner-up: {hardware_phrase(other)[:1].lower()}{hardware_phrase(other)[1:]}.",
        "confidence": 0.7,
        "confidence_why": "The CPU estimate is a plain roofline; at so small a load its error does not change the answer.",
        "reasons": [f"The server is busy {percent(busy)} of its time.", "A GPU would stand idle most of the day."],
        **cpu_parts(cpu, profile, catalog, None),
        "alternatives": []
        if other is None
        else [_alternative(LABELS[other.architecture], other, "the CPU server is enough", demand, profile, catalog)],
        "rejected": _rejected(decision, cpu),
        "findings": [],
        "flip_conditions": [],
        "bounds": None,
        "launch": [],
        "acceptance": [],
    }


def _summary(decision: Decision) -> str:
    if decision.winner is not None:
        return summary(decision.winner)
    nearest = _nearest(decision)
    if nearest is None:
        return "Nothing in the catalogue meets this demand within the limits given."
    return f"Nothing meets this demand within the limits given: {nearest.shortfall.message}."


def _nearest(decision: Decision) -> Refusal | None:
    found = [decision.refusal_of(architecture) for architecture in Architecture]
    present = [refusal for refusal in found if refusal is not None]
    return next((refusal for refusal in present if refusal.shortfall.nearest is not None), present[-1] if present else None)


def _headline(option: Option) -> Range | None:
    """The range the confidence speaks about: the run's rate, the token time, or the first figure of a job."""
    sized = option.sized
    if sized.training is not None:
        return sized.training.tokens_per_s
    if sized.serving is not None:
        figures = (sized.serving.tpot_ms, sized.serving.output_tokens_per_s, sized.serving.input_tokens_per_s)
        return next((figure for figure in figures if figure is not None and figure.mid > 0), None)
    if sized.job is not None:
        return next(iter(sized.job.figures.values()), None)
    return None


def _confidence(winner: Option | None, demand: Demand) -> float:
    """1 less half the relative width of the headline range, less 0.1 for an inferred model, within 0.2..0.95."""
    if winner is None:
        return 0.2
    value = _headline(winner)
    width = (value.high - value.low) / (2 * value.mid) if value is not None and value.mid > 0 else 0.5
    inferred = 0.1 if demand.shape is not None and demand.shape.origin == "inferred" else 0.0
    return round(min(max(1 - width / 2 - inferred, 0.2), 0.95), 2)


def _confidence_why(winner: Option | None, demand: Demand) -> str:
    if winner is None:
        return "No design was found, so no prediction stands behind this."
    value = _headline(winner)
    if value is None or value.mid <= 0:
        return "No speed is predicted for this kind of work."
    text = f"The main prediction holds within -{1 - value.low / value.mid:.0%} to +{value.high / value.mid - 1:.0%} four times in five"
    if demand.shape is not None and demand.shape.origin == "inferred":
        text += "; the model's architecture was inferred from its size"
    return text + "."


def _alternative(label: str, option: Option, why: str, demand: Demand, profile: WorkloadProfile, catalog: Catalog) -> doc.Alternative:
    return doc.Alternative(
        label=label,
        architecture=option.architecture,
        design=design_document(option.sized),
        estimate=estimate_document(option.sized),
        cost=cost_document(build(option, demand, profile, catalog).cost),
        why_not_first=why,
    )


def _alternatives(
    decision: Decision, cpu: CpuOption | Shortfall, demand: Demand, profile: WorkloadProfile, catalog: Catalog
) -> list[doc.Alternative]:
    """The best design of each other architecture, then the fastest; or the nearest designs when nothing fits."""
    winner, objective = decision.winner, profile.constraints.objective
    if winner is None:
        return _nearest_designs(decision)
    chosen: list[tuple[str, Option]] = []
    for architecture in Architecture:
        option = decision.best_of(architecture)
        if option is not None and architecture is not winner.architecture:
            chosen.append((LABELS[architecture], option))
    chosen.sort(key=lambda pair: decision.options.index(pair[1]))
    fastest = min(decision.options, key=lambda option: speed_s(option.sized))
    if fastest is not winner and all(fastest is not option for _, option in chosen):
        chosen.append(("Fastest", fastest))
    other_gpu = next((option for option in decision.options if option.candidate.platform.gpu.id != winner.candidate.platform.gpu.id), None)
    if other_gpu is not None and all(other_gpu is not option for _, option in chosen):
        chosen.append(("Another GPU", other_gpu))
    found = [_alternative(label, option, comparison(option, winner, objective), demand, profile, catalog) for label, option in chosen]
    if not isinstance(cpu, Shortfall):
        found.append(
            doc.Alternative(
                label=LABELS[Architecture.CPU_ONLY],
                architecture=Architecture.CPU_ONLY,
                design=cpu_design_document(cpu),
                estimate=cpu_estimate_document(cpu),
                cost=None,
                why_not_first=f"one CPU server would be {percent(cpu.fit.busy_fraction)} busy; it {figures_phrase(cpu.fit.figures)}",
            )
        )
    return found


def _nearest_designs(decision: Decision) -> list[doc.Alternative]:
    found = []
    for architecture in Architecture:
        refusal = decision.refusal_of(architecture)
        if refusal is not None and refusal.shortfall.nearest is not None:
            nearest = refusal.shortfall.nearest
            found.append(
                doc.Alternative(
                    label=f"Nearest: {LABELS[architecture]}",
                    architecture=architecture,
                    design=design_document(nearest),
                    estimate=estimate_document(nearest),
                    cost=None,
                    why_not_first=refusal.shortfall.message,
                )
            )
    return found


def _rejected(decision: Decision, cpu: CpuOption | Shortfall) -> list[doc.Rejected]:
    """Every architecture that offers no design, with the limit that stopped the one that came closest."""
    found = []
    for architecture in Architecture:
        if decision.best_of(architecture) is not None:
            continue
        if architecture is Architecture.CPU_ONLY:
            if not isinstance(cpu, Shortfall):
                continue
            shortfall = cpu
        else:
            refusal = decision.refusal_of(architecture)
            shortfall = refusal.shortfall if refusal is not None else _NOT_CONSIDERED
        found.append(
            doc.Rejected(
                architecture=architecture,
                constraint=shortfall.constraint,
                needed=shortfall.needed,
                available=shortfall.available,
                unit=shortfall.unit,
                message=shortfall.message,
            )
        )
    return found


_NOT_CONSIDERED = Shortfall(
    constraint="constraints",
    needed=None,
    available=0,
    unit="designs",
    message="the GPUs and limits given leave no hardware of this kind to consider",
)


def _findings(decision: Decision, demand: Demand, profile: WorkloadProfile, built: Built | None) -> list[doc.Finding]:
    winner = decision.winner
    if winner is None or built is None:
        return []
    facts = facts_of(profile, demand, winner.candidate, winner.sized)
    facts["price_complete"] = built.cost.complete if built.cost is not None else False
    found = [
        doc.Finding(
            rule=rule.id,
            effect=rule.effect,
            message=rule.text(facts),
            values={name: facts[name] for name in sorted({condition["fact"] for condition in rule.conditions})},
            sources=list(rule.sources),
        )
        for rule in firing(facts)
    ]
    if isinstance(built.facility, Shortfall):
        found.append(doc.Finding(rule="rack-limit", effect="warn", message=built.facility.message, values={}, sources=["facility plan"]))
    faults = fabric_faults(built.network) if built.network is not None else []
    found += [doc.Finding(rule="fabric-check", effect="warn", message=text, values={}, sources=["fabric as a graph"]) for text in faults]
    found += [doc.Finding(rule="question", effect="info", message=text, values={}, sources=["profile"]) for text in demand.questions]
    found += [doc.Finding(rule="engine-note", effect="info", message=text, values={}, sources=["engine"]) for text in winner.sized.notes]
    return found


def _trace(decision: Decision) -> dict[str, Any]:
    """The derivation of the decision as a tree: demand, every option with its score parts, and the choice."""
    winner = decision.winner
    return {
        "label": "decision",
        "formula": "lowest score by the objective among designs that meet the demand; ties to the simpler design",
        "inputs": {"options": len(decision.options), "refusals": len(decision.refusals)},
        "value": None if winner is None else str(winner.architecture),
        "unit": "",
        "source": "advice",
        "children": [
            {
                "label": hardware_phrase(option),
                "formula": "horizon cost = capital recovery + yearly cost x horizon",
                "inputs": {"capex_usd": option.cost.capex_usd, "yearly_usd": option.cost.yearly_usd},
                "value": option.cost.horizon_usd if option.cost.capex_usd is not None else None,
                "unit": "USD",
                "source": "price book",
                "children": [
                    {
                        "label": name,
                        "formula": "",
                        "inputs": {},
                        "value": part.mid,
                        "unit": "GB per GPU",
                        "source": "engine",
                        "children": [],
                    }
                    for name, part in option.sized.memory_gb.items()
                ],
            }
            for option in decision.options[:10]
        ],
    }
