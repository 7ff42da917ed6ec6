"""Or buy nothing: the same model on a hosted API, priced per token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from app.catalog.schema import ApiPrice
from app.money import cents
from app.units import SECONDS_PER_DAY

DAYS_PER_YEAR = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoad:
    """Average token rates of the year, tokens per second.

    cached_share: input tokens served from a prompt cache, 0..1; utilisation: share of the design's capacity in use,
    0 = not known.
    """

    input_tokens_per_s: float
    output_tokens_per_s: float
    cached_share: float = 0.0
    batch: bool = False
    utilisation: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Input and output together."""
        return self.input_tokens_per_s + self.output_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedApi:
    """The cheapest hosted API of the same model for this mix of tokens."""

    provider: str
    model: str
    usd_per_million_input: Decimal
    usd_per_million_cached_input: Decimal | None
    usd_per_million_output: Decimal
    usd_over_horizon: Decimal
    break_even_tokens_per_day: float | None
    source: str
    note: str = ""
    """Where the break-even is not reached: up to how many tokens a day."""


def model_key(model_id: str) -> str:
    """Model ids compare without organisation and case."""
    return model_id.rsplit("/", 1)[-1].strip().lower()


def blended_usd_per_million(row: ApiPrice, load: TokenLoad) -> float | None:
    """Price of a million tokens of the load's mix, USD; None when input or output has no price.

    (input share x ((1 - cached) x input price + cached x cached price) + output share x output price). Batch
    prices apply to offline work where the provider has them; a cached price that is not stated is the input price.
    """
    inputs, outputs = row.input_usd_per_million, row.output_usd_per_million
    if load.batch:
        inputs, outputs = row.batch_input_usd_per_million or inputs, row.batch_output_usd_per_million or outputs
    if inputs is None or (outputs is None and load.output_tokens_per_s > 0) or load.tokens_per_s <= 0:
        return None
    cached = float(inputs if row.cached_input_usd_per_million is None else row.cached_input_usd_per_million)
    share_in = load.input_tokens_per_s / load.tokens_per_s
    per_input = (1 - load.cached_share) * float(inputs) + load.cached_share * cached
    return share_in * per_input + (1 - share_in) * float(outputs or 0)


def hosted_api(
    model_id: str, load: TokenLoad, rows: Iterable[ApiPrice], own_usd_per_year: float, horizon_years: float, *, air_gapped: bool
) -> HostedApi | None:
    """The cheapest exact match; None when the site has no outside connection, nothing matches or nothing is free of doubt.

    break_even_tokens_per_day: tokens of this mix a day above which owning costs less, at the design's fixed yearly cost;
    None, with a note, where that is more than the design can serve.
    """
    if air_gapped or load.tokens_per_s <= 0:
        return None
    wanted = model_key(model_id)
    best: tuple[float, ApiPrice] | None = None
    for row in rows:
        if not row.model_id or model_key(row.model_id) != wanted or row.licence == "closed":
            continue
        price = blended_usd_per_million(row, load)
        if price is None or price <= 0:
            continue
        if best is None or (price, row.provider) < (best[0], best[1].provider):
            best = (price, row)
    if best is None:
        return None
    price, row = best
    tokens_per_year = load.tokens_per_s * DAYS_PER_YEAR * SECONDS_PER_DAY
    break_even: float | None = own_usd_per_year / DAYS_PER_YEAR / price * 1e6 if own_usd_per_year > 0 else None
    most_per_day = load.tokens_per_s / load.utilisation * SECONDS_PER_DAY if load.utilisation > 0 else float("inf")
    note = ""
    if break_even is not None and break_even > most_per_day:
        break_even, note = None, f"not reached up to {most_per_day:,.0f} tokens a day, the most this design serves"
    return HostedApi(
        provider=row.provider,
        model=row.provider_model,
        usd_per_million_input=row.input_usd_per_million or Decimal(0),
        usd_per_million_cached_input=None if row.cached_input_usd_per_million is None else row.cached_input_usd_per_million,
        usd_per_million_output=row.output_usd_per_million or Decimal(0),
        usd_over_horizon=cents(tokens_per_year / 1e6 * price * horizon_years),
        break_even_tokens_per_day=break_even,
        note=note,
        source=row.source,
    )
