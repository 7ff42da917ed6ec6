"""What a recommendation page shows, prepared: key figures, layout sentence, bars, picture."""

from __future__ import annotations

from dataclasses import dataclass

from app.advice.recommendation import Design, Estimate, Recommendation
from app.report import text
from app.report.bars import Bar, memory_bar, time_bar
from app.report.charts import Chart, cost_by_design, cost_over_time, scaling_chart
from app.report.picture import architecture_picture, legend, picture_words

AT_LOAD = "whole installation, at the asked load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One key figure: label, value with range, and what it means."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationView:
    """Everything the page formats beyond the document itself."""

    recommendation: Recommendation
    figures: tuple[Figure, ...]
    layout: str
    speed: str
    picture: str
    picture_words: str
    legend: str
    memory: Bar | None
    time: Bar | None
    confidence: str
    costs: Chart | None
    over_time: Chart | None
    scaling: Chart | None


def recommendation_view(recommendation: Recommendation) -> RecommendationView:
    """The view of one document; pure formatting."""
    design, estimate = recommendation.design, recommendation.estimate
    return RecommendationView(
        recommendation=recommendation,
        figures=key_figures(recommendation),
        layout="" if design is None else layout_sentence(design),
        speed="" if estimate is None else first_speed(estimate),
        picture=architecture_picture(recommendation),
        picture_words=picture_words(recommendation),
        legend="; ".join(legend(recommendation)),
        memory=None if estimate is None else memory_bar(estimate),
        time=None if estimate is None else time_bar(estimate),
        confidence=confidence_words(recommendation.confidence),
        costs=cost_by_design(recommendation),
        over_time=cost_over_time(recommendation.cost),
        scaling=scaling_chart(recommendation),
    )


def confidence_words(value: float) -> str:
    """Confidence in words."""
    return "high" if value >= 0.8 else "good" if value >= 0.65 else "moderate" if value >= 0.45 else "low"


def layout_sentence(design: Design) -> str:
    """``40 GPUs = 5 copies x 8 GPUs (tensor parallel 8)``."""
    if design.gpu is None:
        return "No GPU is used."
    plan = design.parallel
    names = (("tensor", plan.tp), ("pipeline", plan.pp), ("data", plan.dp), ("context", plan.cp), ("expert", plan.ep))
    split = ", ".join(f"{name} parallel {degree}" for name, degree in names if degree > 1)
    gpus = f"{design.gpus:,} GPU" + ("" if design.gpus == 1 else "s")
    if design.gpus == 1:
        return "One GPU, one copy of the job."
    per = f"{design.gpus_per_replica} GPU" + ("" if design.gpus_per_replica == 1 else "s")
    copies = f"{design.replicas:,} {'copy' if design.replicas == 1 else 'copies'}"
    return f"{gpus} = {copies} of the job × {per}" + (f" ({split})" if split else "") + "."


def key_figures(recommendation: Recommendation) -> tuple[Figure, ...]:
    """The handful of figures that answer the question."""
    found: list[Figure] = []
    estimate, cost, facility = recommendation.estimate, recommendation.cost, recommendation.facility
    if estimate is not None:
        found += _speed(estimate)
    if facility is not None:
        found.append(
            Figure(label="Power", value=f"{text.number(facility.it_kw)} kW", note=f"average; peak {text.number(facility.peak_kw)} kW")
        )
    if cost is not None:
        note = f"over {cost.horizon_years:g} years, all included" + ("" if cost.complete else "; incomplete, some prices are not known")
        found.append(Figure(label="Lifetime cost", value=text.usd_range(cost.tco_usd), note=note))
        found.append(Figure(label="To buy", value=text.usd_range(cost.capex_usd), note="hardware, installation"))
    return tuple(found)


def _speed(estimate: Estimate) -> list[Figure]:
    found: list[Figure] = []
    if estimate.serving is not None:
        serving = estimate.serving
        at = f"{serving.percentile:g}th percentile"
        if serving.hours is not None:
            found.append(Figure(label="Finished in", value=text.ranged(serving.hours, "h")))
        if serving.ttft_ms is not None:
            found.append(Figure(label="First token", value=text.ranged(serving.ttft_ms, "ms"), note=f"TTFT, {at}"))
        if serving.tpot_ms is not None:
            found.append(
                Figure(label="Then a token every", value=text.ranged(serving.tpot_ms, "ms"), note=f"TPOT without the first token, {at}")
            )
        if serving.output_tokens_per_s.mid > 0:
            found.append(
                Figure(
                    label="Output", value=text.ranged(serving.output_tokens_per_s, "tokens/s"), note="whole installation, at the asked load"
                )
            )
        else:
            found.append(
                Figure(
                    label="Reads", value=text.ranged(serving.input_tokens_per_s, "tokens/s"), note="whole installation, at the asked load"
                )
            )
        if serving.hours is None:
            share, used = text.number(serving.concurrent_per_replica), text.percent(serving.utilisation)
            note = f"{share} per copy at the asked load; {used} of capacity used"
            found.append(Figure(label="Holds at most", value=f"{text.count(serving.max_concurrent)} in flight", note=note))
    if estimate.training is not None:
        training = estimate.training
        if training.days is not None:
            note = f"failures and checkpoints take {text.percent(1 - training.goodput_fraction)} of it"
            found.append(Figure(label="Run takes", value=text.ranged(training.days, "days"), note=note))
        found.append(Figure(label="Trains at", value=text.ranged(training.tokens_per_s, "tokens/s"), note="all GPUs together"))
        found.append(Figure(label="MFU", value=text.percent_range(training.mfu), note="share of the dense 16-bit peak"))
    for name, value in (estimate.hpc or {}).items():
        shown = text.percent_range(value) if name.endswith("_fraction") else text.ranged(value, text.figure_unit(name))
        found.append(Figure(label=text.figure_label(name), value=shown))
    return found


def first_speed(estimate: Estimate) -> str:
    """The first speed figure of a design, for one cell of a table."""
    figures = _speed(estimate)
    return f"{figures[0].label}: {figures[0].value}" if figures else ""
