"""`economics.yaml` and cost plans: utilisation, volumes, overhead, spot interruptions, hosted alternatives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from plumbline.declarations.alerts import Pattern
from plumbline.declarations.base import Declared, Name
from plumbline.declarations.providers.rates import PerUnit, Purchase
from plumbline.metrics.units import ByteSize, Duration, HourlyPrice, MonthlyAmount, Multiple, Rate, RequestPrice, Share, Spread, TokenPrice

SOURCE_FIELD = Field(min_length=3, description="who says so, such as 'dispatch log of October 2026' or a page with its date")


class _Ranged(Declared):
    """Base of the ranges: what is expected, and how low and how high it may turn out."""

    @model_validator(mode="after")
    def _ordered(self) -> _Ranged:
        low, expected, high = (getattr(self, name) for name in ("low", "expected", "high"))
        if not low <= expected <= high:
            raise ValueError(f"the range {low:.6g}, {expected:.6g}, {high:.6g} does not rise; expected low <= expected <= high")
        return self


class Utilisation(_Ranged):
    """Share of the paid time in which an instance delivers at the rate that was measured."""

    low: Share
    expected: Share
    high: Share


class FailureRate(_Ranged):
    """Share of the paid work that fails and is paid for again, below 100 %."""

    low: Spread
    expected: Spread
    high: Spread

    @model_validator(mode="after")
    def _some_succeeds(self) -> FailureRate:
        if self.high >= 1:
            raise ValueError("high is 100%: nothing would ever be delivered; expected a percentage below 100%")
        return self


class PriceFactor(_Ranged):
    """What the instance may cost, as multiples of the price that holds."""

    low: Multiple
    expected: Multiple
    high: Multiple


class PriceRange(_Ranged):
    """What the instance may cost in one way of paying for it; it goes before `price`."""

    purchase: Purchase
    low: HourlyPrice
    expected: HourlyPrice
    high: HourlyPrice


class DataRange(_Ranged):
    """An amount of data a month: sent out, or kept all month long."""

    low: ByteSize
    expected: ByteSize
    high: ByteSize


class MonthlyVolume(Declared):
    """How much is served or trained in a month: exactly one of these."""

    requests: int | None = Field(None, ge=1)
    output_tokens: int | None = Field(None, ge=1)
    trained_tokens: int | None = Field(None, ge=1)
    trained_samples: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one(self) -> MonthlyVolume:
        _exactly_one(self, "{requests: 50000000}")
        return self

    @property
    def said(self) -> tuple[str, int]:
        """What is counted, and how many a month."""
        return next((name, value) for name, value in self if value is not None)


class TrainingRun(Declared):
    """What one finished training run does: exactly one of these."""

    trained_tokens: int | None = Field(None, ge=1)
    trained_samples: int | None = Field(None, ge=1)
    time: Duration | None = Field(None, description="at the measured rate and without an interruption, such as 500h")

    @model_validator(mode="after")
    def _one(self) -> TrainingRun:
        _exactly_one(self, "{time: 500h}")
        return self


class Assumption(Declared):
    """One entry: figures for the providers and workloads that it names. Of each figure the first entry that fits and says it counts."""

    provider: Pattern = "*"
    workload: Name | None = Field(None, description="every workload if left out")
    utilisation: Utilisation | None = None
    price: PriceFactor | None = None
    price_per_hour: tuple[PriceRange, ...] = ()
    failure_rate: FailureRate | None = None
    egress: DataRange | None = Field(None, description="data that leaves the provider in a month")
    storage: DataRange | None = Field(None, description="data that is kept there all month long")
    volume: MonthlyVolume | None = None
    always_on: int | None = Field(None, ge=1, description="instances that are paid all month long however little is asked of them")
    engineering: MonthlyAmount | None = Field(None, description="what the people who run it cost in a month")
    run: TrainingRun | None = None
    source: str = SOURCE_FIELD

    @model_validator(mode="after")
    def _something(self) -> Assumption:
        if not any(getattr(self, name) for name in _FIGURES) and self.engineering is None:
            raise ValueError(f"says nothing; expected at least one of {', '.join(_FIGURES)}, engineering")
        purchases = [each.purchase for each in self.price_per_hour]
        if len(set(purchases)) != len(purchases):
            raise ValueError(f"price_per_hour names {', '.join(purchases)}; expected each purchase once")
        return self


_FIGURES = ("utilisation", "price", "price_per_hour", "failure_rate", "egress", "storage", "volume", "always_on", "run")


class SpotRate(Declared):
    """How often a spot instance is taken away while it runs. Of several entries that fit, the first counts."""

    provider: Pattern
    interruptions: Rate = Field(description="for each instance that runs, such as 0.05/h")
    since: date = Field(description="of what day the figure is")
    source: str = SOURCE_FIELD


class HostedModel(Declared):
    """What a model of the same kind costs where somebody else hosts it, by tokens or by requests."""

    name: Name
    workloads: tuple[Name, ...] = Field(min_length=1, description="workloads whose model it could serve instead")
    input: TokenPrice | None = None
    output: TokenPrice | None = None
    request: RequestPrice | None = None
    since: date
    source: str = SOURCE_FIELD

    @model_validator(mode="after")
    def _by_tokens_or_by_requests(self) -> HostedModel:
        by_tokens = self.input is not None and self.output is not None
        if (self.request is not None) == by_tokens or (self.input is None) != (self.output is None):
            raise ValueError(
                "expected either both input and output, such as 0.20 USD/1M tokens, or request alone, such as 0.50 USD/1k requests"
            )
        return self


Figure = TypeVar("Figure")


@dataclass(frozen=True)
class SourcedFigure(Generic[Figure]):
    """A declared figure and who says so."""

    value: Figure
    source: str


class Economics(Declared):
    """The whole file. Without it every cost is at the measured rate and the price that holds, and says what it leaves out."""

    assumptions: tuple[Assumption, ...] = Field((), max_length=500)
    spot: tuple[SpotRate, ...] = Field((), max_length=500)
    hosted: tuple[HostedModel, ...] = Field((), max_length=200)

    @model_validator(mode="after")
    def _distinct(self) -> Economics:
        names = [each.name for each in self.hosted]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f'hosted[{i}].name "{name}" stands a second time; expected a name of its own')
        return self

    def said(self, field: str, provider: str, workload: str) -> SourcedFigure[Any] | None:
        """A figure of `Assumption` for a provider and a workload: of the first entry that fits and says it; None if none does."""
        for entry in self.assumptions:
            if fnmatchcase(provider, entry.provider) and entry.workload in (None, workload):
                value = getattr(entry, field)
                if value is not None and value != ():
                    return SourcedFigure(value, entry.source)
        return None

    def price_per_hour(self, provider: str, workload: str, purchase: Purchase) -> SourcedFigure[PriceRange] | None:
        """The declared range of an instance's price in one way of paying."""
        for entry in self.assumptions:
            if fnmatchcase(provider, entry.provider) and entry.workload in (None, workload):
                for found in entry.price_per_hour:
                    if found.purchase == purchase:
                        return SourcedFigure(found, entry.source)
        return None

    def interruptions(self, provider: str) -> SpotRate | None:
        """How often the provider takes a spot instance away; None if nobody says."""
        return next((each for each in self.spot if fnmatchcase(provider, each.provider)), None)

    def hosted_for(self, workload: str) -> tuple[HostedModel, ...]:
        """Hosted models that could serve the workload instead."""
        return tuple(each for each in self.hosted if workload in each.workloads)

    def unknown_names(self, providers: Collection[str], workloads: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Names that nothing declared has, each as the field's path and a sentence. A pattern may fit nothing yet; a plain name may not."""
        for i, entry in enumerate(self.assumptions):
            yield from _unknown_name(("assumptions", i, "provider"), entry.provider, "provider", providers)
            if entry.workload is not None:
                yield from _unknown_name(("assumptions", i, "workload"), entry.workload, "workload", workloads)
        for i, rate in enumerate(self.spot):
            yield from _unknown_name(("spot", i, "provider"), rate.provider, "provider", providers)
        for i, hosted in enumerate(self.hosted):
            for j, name in enumerate(hosted.workloads):
                yield from _unknown_name(("hosted", i, "workloads", j), name, "workload", workloads)


def _unknown_name(
    field: tuple[str | int, ...], name: str, what: str, known: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if name not in known and not {"*", "?"} & set(name):
        near = get_close_matches(name, known, n=3) or sorted(known)[:3]
        yield field, f'no {what} is called "{name}"; expected one of {", ".join(near) or "(none declared)"}'


def _exactly_one(model: Declared, example: str) -> None:
    told = [name for name, value in model if value is not None]
    if len(told) != 1:
        raise ValueError(
            f"names {' and '.join(told) or 'nothing'}; expected exactly one of {', '.join(type(model).model_fields)}, such as {example}"
        )


# A plan: what something would cost, as a person writes it down, option by option and line by line. Read by `plumbline cost plan`.
#
# A quantity and a price say their units (`500 instance-hours`, `98.32 USD/instance-hour`), and only what fits is multiplied.


CostItem = Literal["gpu", "cpu", "idle", "failed_launches", "storage", "egress", "observability", "engineering", "hosted"]
"""`gpu`: the instance while it measured (`cpu` of one without accelerators); `idle`: while it was held and did not; `failed_launches`: what
attempts held that finished no run; `hosted`: what somebody else's service bills by the request or token."""
CostBasis = Literal["list", "spot", "reserved", "invoiced", "declared"]
"""`list`, `spot`, `reserved`: the price of an instance bought that way; `invoiced`: what a month's invoice came to for an hour; `declared`: a
rate or an overhead that the provider's declaration, or a plan, states."""

_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?"
_UNIT = r"[A-Za-z][A-Za-z0-9-]*"
_QUANTITY = re.compile(rf"{_NUMBER} ({_UNIT})")
_PRICE = re.compile(rf"{_NUMBER} ([A-Z]{{3}})/(?:(1k|1M) )?({_UNIT})")
_MULTIPLES = {"1k": 1_000, "1M": 1_000_000}
_LINE = re.compile(r"([a-z_]+)(?: \(([^()]+)\))?: (.+) at (.+)")
_QUANTITY_SHAPE = "a quantity such as 500 instance-hours or 50,000,000 requests"
_PRICE_SHAPE = "a price such as 98.32 USD/instance-hour or 0.60 USD/1M tokens"


class PlannedAmount(NamedTuple):
    """So much of a unit."""

    value: float
    unit: str


def canonical_unit(written: str) -> str:
    """A unit as it is compared: `hours` and `h` are `hour`, `requests` are `request`."""
    return "hour" if written == "h" else written.removesuffix("s") if len(written) > 3 else written


def _plain_number(whole: str, part: str | None) -> str:
    return whole.replace(",", "") + (part or "")


def _parse_quantity(value: object) -> PlannedAmount:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a number with its unit; expected {_QUANTITY_SHAPE}')
    return PlannedAmount(float(_plain_number(match[1], match[2])), canonical_unit(match[3]))


def _parse_unit_price(value: object) -> PerUnit:
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'"{value}" is not a price with its currency and unit; expected {_PRICE_SHAPE}')
    amount = Fraction(_plain_number(match[1], match[2])) / _MULTIPLES.get(match[4] or "", 1)
    return PerUnit(float(amount), match[3], canonical_unit(match[5]))


def _text_schema(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


PlannedQuantity = Annotated[
    PlannedAmount,
    BeforeValidator(_parse_quantity),
    PlainSerializer(lambda q: f"{q.value:.15g} {q.unit}", return_type=str),
    _text_schema("500 instance-hours"),
]
PlannedPrice = Annotated[
    PerUnit,
    BeforeValidator(_parse_unit_price),
    PlainSerializer(lambda p: f"{p.amount:.15g} {p.currency}/{p.per}", return_type=str),
    _text_schema("98.32 USD/instance-hour"),
]


class PlanLine(Declared):
    """One line: a quantity at a price that is written here with its source, or at the price of a declared provider's instance."""

    item: CostItem
    what: str = ""
    quantity: PlannedQuantity
    price: PlannedPrice | None = None
    basis: CostBasis = "declared"
    source: str = Field("", description="who says so; needed with price")
    since: date | None = Field(None, description="since when that price holds")
    provider: Name | None = Field(None, description="whose declared price of an instance-hour counts, instead of price and source")
    purchase: Purchase = "on_demand"
    on: date | None = Field(None, description="the day whose price of the provider counts; today if left out")

    @model_validator(mode="after")
    def _priced_once(self) -> PlanLine:
        if (self.price is None) == (self.provider is None):
            said = "neither" if self.price is None else "both"
            raise ValueError(
                f"{said} of price and provider; expected a price with its source, or the name of a provider whose price counts"
            )
        if self.price is not None and len(self.source) < 3:
            raise ValueError("price has no source; expected who says so, such as 'offer of 2026-11-02'")
        if self.price is not None and (self.purchase != "on_demand" or self.on is not None):
            raise ValueError("purchase and on choose among a provider's prices, and price is given; expected one or the other")
        if self.provider is not None and (self.source or self.since is not None or self.basis != "declared"):
            raise ValueError("provider brings source, since and basis with its price; expected none of them here")
        return self

    @classmethod
    def written(cls, text: str) -> PlanLine:
        """From one line of text, `ITEM (what): QUANTITY at PRICE`, such as `gpu: 500 instance-hours at 98.32 USD/instance-hour`.

        ValueError with the expected shape (pydantic's ValidationError for an item, quantity or price that is none).
        """
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not a line; expected one such as "gpu: 500 instance-hours at 98.32 USD/instance-hour"')
        given = {"item": match[1], "what": match[2] or "", "quantity": match[3], "price": match[4], "source": "given on the command line"}
        return cls.model_validate(given)


class PlanOption(Declared):
    """One way to do it; its lines are added up."""

    name: str = Field(min_length=1)
    lines: tuple[PlanLine, ...] = Field(min_length=1)


class CostPlan(Declared):
    """A plan's file: options that are held against the first one."""

    name: Name
    description: str = ""
    options: tuple[PlanOption, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_apart(self) -> CostPlan:
        names = [option.name for option in self.options]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'"{twice}" names two options; expected a name for each')
        return self
