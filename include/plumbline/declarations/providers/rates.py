"""Prices as declared: contracts, rates beside the instance hour, tokens of hosted models, invoices and engineering time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.metrics.units import Duration, RequestPrice, TokenPrice

Purchase = Literal["on_demand", "spot", "reserved"]
Term = Literal["1y", "3y"]
"""How long a reservation binds."""


_NUMBER = r"\d+(?:\.\d+)?"
_HOURLY_AMOUNT = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/(GPU-hour|instance-hour)")
_EXCHANGE_RATE = re.compile(rf"({_NUMBER}) USD/([A-Z]{{3}})")
_HOURLY_AMOUNT_SHAPE = "a price such as 2.29 USD/GPU-hour or 19.80 EUR/instance-hour"
_EXCHANGE_RATE_SHAPE = "a rate such as 1.08 USD/EUR"


class HourlyAmount(NamedTuple):
    """An amount of a currency (ISO 4217) for one hour of a GPU or of the whole instance."""

    amount: float
    currency: str
    per: Literal["gpu_hour", "instance_hour"]


class ExchangeRate(NamedTuple):
    """USD for one unit of a currency."""

    usd: float
    currency: str


def _parse_hourly_amount(value: object) -> HourlyAmount:
    match = _HOURLY_AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f'"{value}" is not a price above 0 with its currency and hour; expected {_HOURLY_AMOUNT_SHAPE}')
    return HourlyAmount(float(match[1]), match[2], "gpu_hour" if match[3] == "GPU-hour" else "instance_hour")


def _parse_exchange_rate(value: object) -> ExchangeRate:
    match = _EXCHANGE_RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f'"{value}" is not an exchange rate to USD; expected {_EXCHANGE_RATE_SHAPE}')
    return ExchangeRate(float(match[1]), match[2])


def check_exchange_rate(currency: str, rate: ExchangeRate | None, rate_on: date | None, field: str = "price") -> None:
    """ValueError unless the `field`'s currency has an exchange rate with its day; USD must have none."""
    if currency == "USD" and (rate is not None or rate_on is not None):
        raise ValueError(f"rate is not needed: the {field} is in USD; expected no rate and no rate_on")
    if currency != "USD" and (rate is None or rate_on is None or rate.currency != currency):
        raise ValueError(f"{field} is in {currency}; expected rate, such as 1.08 USD/{currency}, and rate_on, the day of that rate")


HourlyAmountText = Annotated[
    HourlyAmount, BeforeValidator(_parse_hourly_amount), WithJsonSchema({"type": "string", "examples": ["2.29 USD/GPU-hour"]})
]
ExchangeRateText = Annotated[
    ExchangeRate, BeforeValidator(_parse_exchange_rate), WithJsonSchema({"type": "string", "examples": ["1.08 USD/EUR"]})
]


class ContractPrice(Declared):
    """One price. It holds from `since` (included) until `until` (excluded)."""

    purchase: Purchase
    term: Term | None = Field(None, description="how long a reservation binds, 1y or 3y")
    price: HourlyAmountText
    rate: ExchangeRateText | None = Field(None, description="exchange rate of the price's currency; required unless USD")
    rate_on: date | None = Field(None, description="the day of that rate")
    since: date
    until: date | None = None

    @property
    def usd_per_unit(self) -> float:
        """USD for one unit of the price's currency."""
        return self.rate.usd if self.rate is not None else 1.0

    @model_validator(mode="after")
    def _consistent(self) -> ContractPrice:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        if self.term is not None and self.purchase != "reserved":
            raise ValueError(f"term {self.term} does not fit purchase {self.purchase}; expected purchase: reserved, or no term")
        check_exchange_rate(self.price.currency, self.rate, self.rate_on)
        return self


class Contract(Declared):
    """One YAML file under `include/config/contracts/`; a provider's `price_sources` names it."""

    name: Name
    description: str = ""
    source: str = Field(min_length=3, description="the document, such as 'contract 2026-114, annex B'")
    prices: tuple[ContractPrice, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Contract:
        kinds: dict[tuple[str, str | None], list[ContractPrice]] = {}
        for price in self.prices:
            kinds.setdefault((price.purchase, price.term), []).append(price)
        for (purchase, term), prices in kinds.items():
            for earlier, later in pairwise(sorted(prices, key=lambda p: p.since)):
                if earlier.until is None or earlier.until > later.since:
                    what = f"{purchase} {term}" if term else purchase
                    raise ValueError(f"two {what} prices hold on {later.since}; expected `until: {later.since}` or earlier on the first")
        return self

    def on(self, day: date) -> tuple[ContractPrice, ...]:
        """The prices that hold on a day, at most one for each purchase and term."""
        return tuple(p for p in self.prices if p.since <= day and (p.until is None or day < p.until))


# Charges beside the instance hour, invoices, and the cost of people's time. They do not change the measurement, so trials do not carry them.


RateItem = Literal["cpu", "storage", "egress", "observability"]
BILLING_UNITS: Mapping[RateItem, tuple[str, ...]] = {
    "cpu": ("core-hour",),
    "storage": ("GB-month", "GiB-month"),
    "egress": ("GB", "GiB"),
    "observability": ("instance-hour",),
}
"""What each item is billed by."""

_UNIT_PRICE = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})/([A-Za-z][A-Za-z0-9-]*)")
_AMOUNT = re.compile(rf"({_NUMBER}) ([A-Z]{{3}})")


class PerUnit(NamedTuple):
    """An amount of a currency (ISO 4217) for one unit of something."""

    amount: float
    currency: str
    per: str


class CurrencyAmount(NamedTuple):
    """An amount of a currency (ISO 4217)."""

    amount: float
    currency: str


def parse_unit_price(value: object) -> PerUnit:
    """A price as it is written, such as 0.08 USD/GB-month; ValueError with the expected shape."""
    match = _UNIT_PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a price with its currency and unit; expected one such as 0.08 USD/GB-month')
    return PerUnit(float(match[1]), match[2], match[3])


def _parse_amount(value: object) -> CurrencyAmount:
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not an amount with its currency; expected one such as 1234.50 USD')
    return CurrencyAmount(float(match[1]), match[2])


def _text_schema(*examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": list(examples)})


PricePerUnit = Annotated[
    PerUnit,
    BeforeValidator(parse_unit_price),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    _text_schema("0.08 USD/GB-month"),
]
Amount = Annotated[
    CurrencyAmount,
    BeforeValidator(_parse_amount),
    PlainSerializer(lambda a: f"{a.amount:.15g} {a.currency}", return_type=str),
    _text_schema("1234.50 USD"),
]


class SourcedAmount(Declared):
    """An amount with its source, in any currency with its exchange rate to USD."""

    source: str = Field(min_length=3, description="of the figure, such as 'price page, 2026-11-02' or 'invoice 4711'")
    rate: ExchangeRateText | None = Field(None, description="exchange rate of the currency; required unless USD")
    rate_on: date | None = Field(None, description="the day of that rate")

    @property
    def usd_per_unit(self) -> float:
        """USD for one unit of the currency."""
        return self.rate.usd if self.rate is not None else 1.0


class _DatedAmount(SourcedAmount):
    """Holds from `since` (included) until `until` (excluded)."""

    since: date
    until: date | None = None

    @model_validator(mode="after")
    def _in_order(self) -> _DatedAmount:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        return self

    def holds(self, on: date) -> bool:
        """Whether it holds on a day."""
        return self.since <= on and (self.until is None or on < self.until)


class DeclaredRate(_DatedAmount):
    """A charge beside the instance, by its own unit; 0 for what is included."""

    item: RateItem = Field(description=f"one of {', '.join(get_args(RateItem))}")
    price: PricePerUnit

    @model_validator(mode="after")
    def _fits(self) -> DeclaredRate:
        check_exchange_rate(self.price.currency, self.rate, self.rate_on)
        if self.price.per not in BILLING_UNITS[self.item]:
            raise ValueError(
                f"price is per {self.price.per}, but {self.item} is billed by {' or '.join(BILLING_UNITS[self.item])}; "
                f"expected one such as 0.08 {self.price.currency}/{BILLING_UNITS[self.item][0]}"
            )
        return self


class Overhead(_DatedAmount):
    """People's time for a provider, which its invoices do not show.

    `per: campaign`: so much for each campaign, shared by its trials. `per: month`: so much a month, shared by the `instance_hours` that
    are used in one.
    """

    what: str = Field(min_length=3, description="the work, such as 'cluster and image updates'")
    time: Duration = Field(description="such as 2h")
    per: Literal["campaign", "month"]
    instance_hours: float | None = Field(
        None, gt=0, description="instance-hours in use a month, which share the time; with per: month only"
    )
    price: PricePerUnit = Field(description="what an hour of that time costs, such as 120 USD/h")

    @model_validator(mode="after")
    def _fits(self) -> Overhead:
        check_exchange_rate(self.price.currency, self.rate, self.rate_on)
        if self.price.per != "h":
            raise ValueError(
                f"price is per {self.price.per}, but time is paid by the hour; expected one such as 120 {self.price.currency}/h"
            )
        if (self.per == "month") != (self.instance_hours is not None):
            given = "missing" if self.instance_hours is None else "given"
            raise ValueError(f"per is {self.per} and instance_hours is {given}; expected instance_hours, such as 700, with per: month only")
        return self


class Invoice(SourcedAmount):
    """What was paid for a `month`, or in advance for the days from `since` (included) until `until` (excluded): the amount over its hours is the
    effective hourly price of that time."""

    month: str | None = Field(None, pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="such as 2026-10; or since and until")
    since: date | None = Field(None, description="first day of a time that was paid at once, such as a capacity block")
    until: date | None = Field(None, description="the day after its last one")
    purchase: Purchase = "on_demand"
    amount: Amount
    instance_hours: float = Field(gt=0, description="hours of the whole instance that the amount covers, such as 212.5")

    @model_validator(mode="after")
    def _fits(self) -> Invoice:
        check_exchange_rate(self.amount.currency, self.rate, self.rate_on, "amount")
        given = (self.month is not None, self.since is not None, self.until is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise ValueError("covers no clear time; expected month, or both since and until")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        if not self.amount.amount > 0:
            raise ValueError(
                f"amount is {self.amount.amount:g} {self.amount.currency}; expected what was paid, above 0: hours that were paid in advance belong to "
                "the invoice of that payment, with its since and until"
            )
        return self

    @property
    def days(self) -> tuple[date, date]:
        """The first day, and the day after the last one."""
        if self.month is None:
            assert self.since is not None and self.until is not None  # as checked
            return self.since, self.until
        first = date.fromisoformat(f"{self.month}-01")
        return first, (first + timedelta(days=31)).replace(day=1)

    def holds(self, on: date) -> bool:
        """Whether it covers a day."""
        first, after = self.days
        return first <= on < after


def check_rates(rates: Iterable[DeclaredRate]) -> None:
    """ValueError if two rates of one item hold on a day."""
    by_item: dict[str, list[DeclaredRate]] = {}
    for rate in rates:
        by_item.setdefault(rate.item, []).append(rate)
    for item, own in by_item.items():
        for earlier, later in pairwise(sorted(own, key=lambda r: r.since)):
            if earlier.until is None or earlier.until > later.since:
                raise ValueError(f"two {item} rates hold on {later.since}; expected `until: {later.since}` or earlier on the first")


def check_invoices(invoices: Iterable[Invoice]) -> None:
    """ValueError if a day was invoiced twice for one way to pay."""
    by_purchase: dict[str, list[Invoice]] = {}
    for invoice in invoices:
        by_purchase.setdefault(invoice.purchase, []).append(invoice)
    for purchase, own in by_purchase.items():
        for earlier, later in pairwise(sorted(own, key=lambda invoice: invoice.days)):
            if earlier.days[1] > later.days[0]:
                raise ValueError(
                    f"two {purchase} invoices of {later.month or later.since}; expected one with the sum of amounts and instance_hours"
                )


_STEPS = (1000, 1024)
_EXAMPLE = "{input: 2.00 USD/1M tokens, output: 8.00 USD/1M tokens}"


class TokenTier(Declared):
    """Prices of all tokens of a request whose prompt is longer than `above` tokens."""

    above: int = Field(ge=1000, description="tokens of the prompt, a multiple of 1,000 or 1,024, such as 200000")
    input: TokenPrice
    cached_input: TokenPrice | None = Field(None, description="tokens of the prompt that the vendor's cache had; as input if omitted")
    output: TokenPrice

    @model_validator(mode="after")
    def _check_step(self) -> TokenTier:
        if all(self.above % step for step in _STEPS):
            raise ValueError(f"above is {self.above}; expected a multiple of 1,000 or 1,024, at which results tell lengths apart")
        return self


class TokenRate(Declared):
    """What a hosted model bills, from `since` (included) until `until` (excluded): tokens, requests, or both."""

    input: TokenPrice | None = None
    cached_input: TokenPrice | None = Field(None, description="tokens of the prompt that the vendor's cache had; as input if omitted")
    output: TokenPrice | None = None
    request: RequestPrice | None = Field(None, description="each answered request, beside its tokens")
    tiers: tuple[TokenTier, ...] = Field((), max_length=20, description="other prices for longer prompts, the shortest first")
    since: date
    until: date | None = None
    source: str = Field(min_length=3, description="of the figures, such as 'price page, 2026-11-02'")

    @model_validator(mode="after")
    def _consistent(self) -> TokenRate:
        if (self.input is None) != (self.output is None):
            raise ValueError(f"{'output' if self.input is None else 'input'} without the other one; expected both, such as {_EXAMPLE}")
        if self.input is None and self.request is None:
            raise ValueError(f"bills neither tokens nor requests; expected such as {_EXAMPLE}, or request: 0.50 USD/1k requests")
        if self.input is None and (self.cached_input is not None or self.tiers):
            raise ValueError(f"cached_input or tiers without prices of tokens; expected such as {_EXAMPLE}")
        if any(later.above <= earlier.above for earlier, later in pairwise(self.tiers)):
            raise ValueError(f"tiers above {', '.join(str(tier.above) for tier in self.tiers)}; expected rising lengths")
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        return self

    def holds(self, on: date) -> bool:
        """Whether it holds on a day."""
        return self.since <= on and (self.until is None or on < self.until)

    def tier(self, above: int) -> TokenTier | None:
        """The tier of prompts that are longer than `above` tokens and in one step of lengths; None: the first prices."""
        return next((tier for tier in reversed(self.tiers) if above >= tier.above), None)


def check_token_prices(rates: Iterable[TokenRate]) -> None:
    """ValueError if two of them hold on a day."""
    for earlier, later in pairwise(sorted(rates, key=lambda rate: rate.since)):
        if earlier.until is None or earlier.until > later.since:
            raise ValueError(f"two token_prices hold on {later.since}; expected `until: {later.since}` or earlier on the first")
