"""What a design costs to own over the horizon, and what the alternatives to owning cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from app.costing.cloud import CloudOffer, cloud_offers
from app.costing.constants import (
    COLOCATION_USD_PER_KW_MONTH,
    COST_OF_CAPITAL,
    DEFAULT_HORIZON_YEARS,
    GPU_FAILURES_PER_YEAR,
    MONTHS_PER_YEAR,
    RESIDUAL_AFTER_36_MONTHS,
    STAFF_USD_PER_YEAR,
    SUPPORT_FRACTION_PER_YEAR,
    UNCOVERED_FAILURE_FRACTION,
)
from app.costing.hosted_api import HostedApi, TokenLoad, hosted_api
from app.costing.price_book import price_book
from app.costing.rates import Rate, electricity_rate
from app.costing.tco import (
    break_even_months,
    break_even_utilisation,
    capital_cost_per_year,
    energy_usd_per_year,
    residual_fraction,
    staff_fte,
    usd_per_gpu_hour,
    usd_per_million_tokens,
)
from app.design.bill import total_usd
from app.design.facility import FacilityPlan
from app.design.parts import Line
from app.engine.result import Sized
from app.money import ZERO_USD, Usd, cents
from app.units import HOURS_PER_YEAR

if TYPE_CHECKING:
    from app.catalog.loader import Catalog
    from app.workload.profile import Constraints

NOT_HARDWARE = ("installation", "software")
"""Lines that leave nothing to sell and need no vendor support."""
GPU_LINES = ("server", "gpu", "spare")
ENDS = (0, 1, 2)
"""Low, typical, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the installation does over a year, for unit costs. tokens: average rates; run_hours: length of one run."""

    tokens: TokenLoad | None = None
    run_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary:
    """Lifetime cost: tco = capex - residual + horizon x opex (opex includes the cost of capital), exact to the cent.

    complete is False when a price in it is not known; the totals then hold the known lines only.
    """

    complete: bool
    capex_usd: Usd
    opex_usd_per_year: Usd
    opex_parts_usd_per_year: dict[str, Usd]
    tco_usd: Usd
    horizon_years: float
    usd_per_gpu_hour: Usd | None
    usd_per_million_tokens: Usd | None
    usd_per_run: Usd | None
    cloud: CloudOffer | None
    break_even_utilisation: float | None
    break_even_months: float | None
    hosted_api: HostedApi | None
    residual_usd: Decimal = Decimal("0.00")
    """Typical value left at the end of the horizon."""
    notes: tuple[str, ...] = ()


def load_of(sized: Sized, *, prefix_reuse: float = 0.0) -> Load:
    """The load the design was sized for, taken as constant over the year."""
    if sized.serving is not None:
        figures = sized.serving
        batch = figures.hours is not None
        served = TokenLoad(
            input_tokens_per_s=figures.input_tokens_per_s.mid,
            output_tokens_per_s=figures.output_tokens_per_s.mid,
            cached_share=prefix_reuse,
            batch=batch,
            utilisation=figures.utilisation,
        )
        return Load(tokens=served, run_hours=figures.hours.mid if figures.hours is not None else None)
    if sized.training is not None:
        rate = sized.training.tokens_per_s.mid if sized.training.samples_per_s is None else 0.0
        days = sized.training.days
        tokens = TokenLoad(input_tokens_per_s=rate, output_tokens_per_s=0.0) if rate > 0 else None
        return Load(tokens=tokens, run_hours=days.mid * 24 if days is not None else None)
    if sized.job is not None:
        hours = next((value.mid for name, value in sized.job.figures.items() if name in ("hours_per_run", "hours")), None)
        return Load(run_hours=hours)
    return Load()


def cost_of(
    sized: Sized,
    bill: tuple[Line, ...],
    facility: FacilityPlan,
    constraints: Constraints | None,
    catalog: Catalog,
    *,
    load: Load | None = None,
    model_id: str = "",
) -> CostSummary:
    """Cost of ``sized`` with its bill and facility. ``load`` defaults to what the design was sized for.

    model_id: catalogue or Hugging Face id for the hosted-API comparison; empty = none is made.
    """
    load = load_of(sized) if load is None else load
    offers = cloud_offers(sized, price_book(catalog).cloud_rows.get(sized.platform.gpu.id, ()), _horizon(constraints))
    offer = offers[0] if offers and not _air_gapped(constraints) else None
    rented = constraints is not None and constraints.deployment == "cloud"
    own = owning_cost(bill, facility, constraints, catalog, gpus=sized.gpus, load=load)
    summary = _rental_cost(own, offer, load, sized.gpus) if rented else own
    yearly = float(summary.tco_usd.mid) / summary.horizon_years
    comparable = offer if not rented and yearly > 0 else None
    return replace(
        summary,
        cloud=offer,
        break_even_utilisation=break_even_utilisation(yearly, float(comparable.usd_per_hour)) if comparable else None,
        break_even_months=_months(summary.capex_usd, summary.opex_usd_per_year, comparable),
        hosted_api=_api(load, model_id, catalog, yearly, summary.horizon_years, constraints) if sized.serving is not None else None,
    )


def owning_cost(
    bill: tuple[Line, ...],
    facility: FacilityPlan,
    constraints: Constraints | None,
    catalog: Catalog,
    *,
    gpus: int,
    load: Load,
) -> CostSummary:
    """Cost of buying and running what the bill lists, nothing compared.

    gpus: for the cost per GPU-hour; 0 without GPUs.
    """
    horizon = _horizon(constraints)
    rate = _electricity(constraints, catalog)
    capex, complete = total_usd(bill)
    parts = opex_parts(bill, facility, rate, horizon)
    residual = residual_usd(bill, horizon)
    opex = Usd.total(parts.values())
    tco = _tco(capex, residual, opex, horizon)
    return CostSummary(
        complete=complete,
        capex_usd=capex,
        opex_usd_per_year=opex,
        opex_parts_usd_per_year=parts,
        tco_usd=tco,
        horizon_years=horizon,
        usd_per_gpu_hour=_per_gpu_hour(tco, horizon, gpus),
        usd_per_million_tokens=_per_million(tco, horizon, load),
        usd_per_run=_per_run(tco, horizon, load),
        cloud=None,
        break_even_utilisation=None,
        break_even_months=None,
        hosted_api=None,
        residual_usd=cents(residual[1]),
        notes=(f"Electricity {rate.mid:.3f} USD/kWh: {rate.source}",),
    )


def _rental_cost(own: CostSummary, offer: CloudOffer | None, load: Load, gpus: int) -> CostSummary:
    """The same design rented: nothing is bought; incomplete when no instance carries it."""
    horizon = own.horizon_years
    parts = {"rental": Usd.exact(offer.usd_per_hour * HOURS_PER_YEAR)} if offer is not None else {}
    opex = Usd.total(parts.values())
    tco = opex.times(horizon)
    return replace(
        own,
        complete=offer is not None,
        capex_usd=ZERO_USD,
        opex_usd_per_year=opex,
        opex_parts_usd_per_year=parts,
        tco_usd=tco,
        usd_per_gpu_hour=_per_gpu_hour(tco, horizon, gpus),
        usd_per_million_tokens=_per_million(tco, horizon, load),
        usd_per_run=_per_run(tco, horizon, load),
        residual_usd=Decimal("0.00"),
        notes=("Rented: nothing is bought; the bill of materials shows what owning would take",),
    )


def opex_parts(bill: tuple[Line, ...], facility: FacilityPlan, rate: Rate, horizon_years: float) -> dict[str, Usd]:
    """Running cost by part, USD per year."""
    hardware = _sum(bill, lambda item: item.category not in NOT_HARDWARE)
    gpu_hardware = _sum(bill, lambda item: item.category in GPU_LINES)
    prices = (rate.low, rate.mid, rate.high)
    energy = tuple(energy_usd_per_year(facility.it_kw, facility.pue, price) for price in prices)
    rented_kw = 0.0 if facility.cooling_class == "office" else facility.peak_kw
    space = tuple(rented_kw * price * MONTHS_PER_YEAR for price in COLOCATION_USD_PER_KW_MONTH)
    staff = staff_fte(facility.peak_kw) * STAFF_USD_PER_YEAR
    support = tuple(hardware[end] * SUPPORT_FRACTION_PER_YEAR[end] for end in ENDS)
    failures = tuple(gpu_hardware[end] * GPU_FAILURES_PER_YEAR[end] * UNCOVERED_FAILURE_FRACTION for end in ENDS)
    return {
        "energy": _usd(energy),
        "space": _usd(space),
        "staff": Usd.of(staff * 0.7, staff, staff * 1.4),
        "support": _usd(support),
        "failures": _usd(failures),
        "cost_of_capital": _usd(_financing(bill, horizon_years)),
    }


def residual_usd(bill: tuple[Line, ...], horizon_years: float) -> tuple[Decimal, Decimal, Decimal]:
    """Value of the hardware at the end of the horizon in the low, typical and high *cost* case, to the cent."""
    hardware = _sum(bill, lambda item: item.category not in NOT_HARDWARE)
    low, mid, high = (cents(hardware[end] * residual_fraction(RESIDUAL_AFTER_36_MONTHS[end], horizon_years)) for end in ENDS)
    return low, mid, high


def _financing(bill: tuple[Line, ...], horizon_years: float) -> tuple[float, float, float]:
    """Cost of capital a year: capital recovery of everything bought less the plain loss of value."""
    everything = _sum(bill, lambda item: True)
    hardware = _sum(bill, lambda item: item.category not in NOT_HARDWARE)
    ends = []
    for end in ENDS:
        bought = everything[end]
        left = hardware[end] * residual_fraction(RESIDUAL_AFTER_36_MONTHS[end], horizon_years)
        share = left / bought if bought > 0 else 0.0
        whole = capital_cost_per_year(bought, share, COST_OF_CAPITAL[end], horizon_years)
        ends.append(max(whole - (bought - left) / horizon_years, 0.0))
    return ends[0], ends[1], ends[2]


def _sum(bill: tuple[Line, ...], wanted: Callable[[Line], bool]) -> tuple[float, float, float]:
    """Low, typical and high sum of the known lines that ``wanted`` accepts."""
    chosen = Usd.total(item.total_usd for item in bill if item.total_usd is not None and wanted(item))
    return float(chosen.low), float(chosen.mid), float(chosen.high)


def _usd(ends: tuple[float, ...]) -> Usd:
    ordered = sorted(ends)
    return Usd.of(ordered[0], ends[1], ordered[-1])


def _tco(capex: Usd, residual: tuple[Decimal, Decimal, Decimal], opex: Usd, horizon_years: float) -> Usd:
    running = opex.times(horizon_years)
    low = capex.low - residual[0] + running.low
    mid = capex.mid - residual[1] + running.mid
    high = capex.high - residual[2] + running.high
    return Usd(min(low, mid), mid, max(mid, high))


def _per_gpu_hour(tco: Usd, horizon_years: float, gpus: int) -> Usd | None:
    if gpus <= 0:
        return None
    return Usd.unit(*(usd_per_gpu_hour(float(end) / horizon_years, gpus) for end in (tco.low, tco.mid, tco.high)))


def _per_million(tco: Usd, horizon_years: float, load: Load) -> Usd | None:
    if load.tokens is None or load.tokens.tokens_per_s <= 0:
        return None
    hours = horizon_years * HOURS_PER_YEAR
    return Usd.unit(*(usd_per_million_tokens(float(end) / hours, load.tokens.tokens_per_s) for end in (tco.low, tco.mid, tco.high)))


def _per_run(tco: Usd, horizon_years: float, load: Load) -> Usd | None:
    """Share of the lifetime cost that falls on one run, the machine being busy between runs with others."""
    if load.run_hours is None or load.run_hours <= 0:
        return None
    return tco.times(load.run_hours / (horizon_years * HOURS_PER_YEAR))


def _months(capex: Usd, opex: Usd, offer: CloudOffer | None) -> float | None:
    if offer is None:
        return None
    return break_even_months(float(capex.mid), float(opex.mid), float(offer.usd_per_hour))


def _horizon(constraints: Constraints | None) -> float:
    return float(constraints.horizon_years or DEFAULT_HORIZON_YEARS) if constraints is not None else DEFAULT_HORIZON_YEARS


def _air_gapped(constraints: Constraints | None) -> bool:
    return constraints is not None and constraints.air_gapped


def _electricity(constraints: Constraints | None, catalog: Catalog) -> Rate:
    if constraints is None:
        return electricity_rate(None, None, ())
    stated = constraints.electricity_usd_per_kwh
    return electricity_rate(None if stated is None else float(stated), constraints.region, catalog.running_costs)


def _api(load: Load, model_id: str, catalog: Catalog, yearly: float, horizon: float, constraints: Constraints | None) -> HostedApi | None:
    """The same tokens bought; only asked for inference, the tokens of a training run are not for sale."""
    if load.tokens is None or not model_id:
        return None
    return hosted_api(model_id, load.tokens, catalog.api_prices, yearly, horizon, air_gapped=_air_gapped(constraints))
