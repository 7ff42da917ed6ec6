"""Charts with one message each: lifetime cost by design, cost over time, scaling. Drawn as SVG, said again in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.advice.recommendation import Cost, Recommendation
from app.report.svg import document, element, text
from app.report.text import ARCHITECTURE_NAMES, number, percent, usd

WIDTH = 520.0


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart: its message as heading, the picture, and what the reader must know to read it."""

    title: str
    svg: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BarRow:
    """One labelled bar from zero, with its range as a thin line and its value in words."""

    label: str
    value: float
    low: float
    high: float
    shown: str
    class_: str


def row_bars(rows: list[BarRow], title: str, ident: str) -> str:
    """Horizontal bars from zero: label above each bar, value at its end."""
    step, bar = 44.0, 14.0
    scale = (WIDTH - 10) / max(*(row.high for row in rows), 1e-12)
    body = ""
    for index, row in enumerate(rows):
        y = index * step
        body += text(0, y + 14, row.label, "t", "start") + text(WIDTH, y + 14, row.shown, "t strong", "end")
        body += element("rect", x=0.0, y=y + 20, width=max(row.value * scale, 1.0), height=bar, class_=row.class_)
        if row.high > row.low:
            middle = y + 20 + bar / 2
            body += element("line", x1=row.low * scale, y1=middle, x2=row.high * scale, y2=middle, class_="range")
            for end in (row.low, row.high):
                body += element("line", x1=end * scale, y1=middle - 5, x2=end * scale, y2=middle + 5, class_="range")
    words = "; ".join(f"{row.label}: {row.shown}" for row in rows)
    return document(WIDTH, len(rows) * step, body, title, words + ".", ident)


def cost_by_design(recommendation: Recommendation) -> Chart | None:
    """Lifetime cost of the choice and of what was not chosen, in the colour of their architecture."""
    cost, architecture = recommendation.cost, recommendation.architecture
    if cost is None or architecture is None:
        return None
    rows = [_cost_row(f"Chosen: {ARCHITECTURE_NAMES[architecture]}", cost, str(architecture))]
    for item in recommendation.alternatives:
        if item.cost is not None and item.architecture is not None:
            name = ARCHITECTURE_NAMES[item.architecture]
            label = item.label if item.label == name else f"{item.label}: {name}"
            rows.append(_cost_row(f"{label}, {item.design.gpus:,} × {item.design.gpu_name}", item.cost, str(item.architecture)))
    if len(rows) < 2:
        return None
    cheaper = [row for row in rows[1:] if row.value < rows[0].value]
    title = "The chosen design costs least" if not cheaper else f"{len(cheaper)} of {len(rows) - 1} alternatives cost less"
    return Chart(title, row_bars(rows, title, "costs"), f"Lifetime cost over {cost.horizon_years:g} years; thin lines are the ranges.")


def _cost_row(label: str, cost: Cost, architecture: str) -> BarRow:
    low, mid, high = (float(value) for value in (cost.tco_usd.low, cost.tco_usd.mid, cost.tco_usd.high))
    shown = usd(mid) + ("" if cost.complete else ", incomplete")
    return BarRow(label=label, value=mid, low=low, high=high, shown=shown, class_=f"bar a-{architecture}")


def scaling_chart(recommendation: Recommendation) -> Chart | None:
    """How much of linear speed is kept at smaller and larger counts."""
    design, estimate = recommendation.design, recommendation.estimate
    if design is None or estimate is None or len(estimate.scaling) < 2:
        return None
    rows = []
    for point in estimate.scaling:
        chosen = point.gpus == design.gpus
        rows.append(
            BarRow(
                label=f"{point.gpus:,} GPUs" + (", chosen" if chosen else ""),
                value=point.efficiency, low=point.efficiency, high=point.efficiency,
                shown=f"{percent(point.efficiency)} of linear, {number(point.throughput)} per s",
                class_=f"bar a-{recommendation.architecture}" if chosen else "bar",
            )
        )  # fmt: skip
    last = estimate.scaling[-1]
    kept = "still keep" if last.efficiency >= 0.9 else "keep only"
    title = f"{last.gpus:,} GPUs {kept} {percent(last.efficiency)} of linear speed"
    return Chart(title, row_bars(rows, title, "scaling"), "Speed per GPU against the smallest count shown; bars start at zero.")


def cost_over_time(cost: Cost | None) -> Chart | None:
    """Money paid month by month: owning, renting, buying nothing. Only when there is something to compare with."""
    if cost is None or (cost.cloud is None and cost.hosted_api is None) or cost.horizon_years <= 0:
        return None
    years = max(cost.horizon_years, 1.0)
    start, yearly = cost.capex_usd, cost.opex_usd_per_year
    band = tuple((float(a), float(a) + float(b) * years) for a, b in ((start.low, yearly.low), (start.high, yearly.high)))
    lines = [("own", float(start.mid), float(start.mid) + float(yearly.mid) * years, "own")]
    if cost.cloud is not None:
        lines.append(("rent", 0.0, float(cost.cloud.usd_over_horizon) / cost.horizon_years * years, "rent"))
    if cost.hosted_api is not None:
        lines.append(("hosted service", 0.0, float(cost.hosted_api.usd_over_horizon) / cost.horizon_years * years, "api"))
    title = _time_title(cost)
    top = max(band[1][1], *(line[2] for line in lines))
    svg = _time_lines(lines, band, years, top, title)
    return Chart(
        title,
        svg,
        "Money paid so far, USD, middle values; the band is the range of owning. What the hardware is still worth is not deducted.",
    )


def _time_title(cost: Cost) -> str:
    months, horizon = cost.break_even_months, cost.horizon_years * 12
    if cost.hosted_api is not None and cost.hosted_api.usd_over_horizon < cost.tco_usd.mid:
        return "At this load a hosted service costs less than owning"
    if cost.cloud is None:
        return "Owning costs less than a hosted service"
    if months is None:
        return "Renting stays cheaper than owning"
    if months > horizon:
        return f"Renting stays cheaper for the {cost.horizon_years:g} years; owning would pay from month {months:.0f}"
    return f"Owning pays from month {months:.0f}"


def _time_lines(
    lines: list[tuple[str, float, float, str]], band: tuple[tuple[float, float], ...], years: float, top: float, title: str
) -> str:
    """Lines from now to the horizon with their names at the right end, kept apart."""
    left, right, height, head = 56.0, WIDTH - 118, 220.0, 12.0
    step = _round_step(top)
    ceiling = math.ceil(top / step) * step

    def y_of(value: float) -> float:
        return head + height * (1 - value / ceiling)

    body = ""
    for tick in range(round(ceiling / step) + 1):
        y = y_of(tick * step)
        body += element("line", x1=left, y1=y, x2=right, y2=y, class_="grid") + text(left - 6, y + 4, short_usd(tick * step), "t", "end")
    for year in range(int(years) + 1):
        x = left + (right - left) * year / years
        body += text(x, head + height + 20, "now" if year == 0 else f"year {year}", "t")
    (low_0, low_1), (high_0, high_1) = band
    corners = ((left, low_0), (right, low_1), (right, high_1), (left, high_0))
    body += element("polygon", points=" ".join(f"{x:.1f},{y_of(value):.1f}" for x, value in corners), class_="band")
    label_y = head + height + 6
    for name, first, last, class_ in sorted(lines, key=lambda line: line[2]):
        body += element("line", x1=left, y1=y_of(first), x2=right, y2=y_of(last), class_=f"line {class_}")
        # From the lowest up, each name where its line ends, or just above the one below it.
        y = min(y_of(last) + 4, label_y - 18 if label_y > head + height else label_y - 34)
        label_y = y
        body += text(right + 8, y, name, "t strong", "start") + text(right + 8, y + 15, short_usd(last), "t", "start")
    words = "; ".join(f"{name}: {short_usd(first)} now, {short_usd(last)} after {years:g} years" for name, first, last, _ in lines)
    return document(WIDTH, head + height + 30, body, title, words + ".", "time-cost")


def _round_step(top: float) -> float:
    """A tick step of 1, 2 or 5 times a power of ten that gives three to six ticks."""
    raw = max(top, 1.0) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)


def short_usd(value: float) -> str:
    """Money for an axis: $250k, $1.2M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"${value / size:.3g}{unit}"
    return f"${value:.0f}"
