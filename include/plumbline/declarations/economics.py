"""`economics.yaml` and cost plans: utilisation, volumes, overhead, spot interruptions, hosted alternatives."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, model_validator
from typing_extensions import Self

from plumbline.declarations.alerts import Pattern
from plumbline.declarations.base import Declared, ExactlyOne, Name
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.formatting import unknown_name
from plumbline.metrics.units import (
    ByteSize,
    Duration,
    HourlyPrice,
    MonthlyAmount,
    MonthlyGrowth,
    Multiple,
    Rate,
    RequestPrice,
    Share,
    Spread,
    TokenPrice,
)

SOURCE_FIELD = Field(min_length=3, description="who says so, such as 'dispatch log of October 2026' or a page with its date")


Figure = TypeVar("Figure")


class _Ranged(Declared, Generic[Figure]):
    """Base of the ranges: what is expected, and how low and how high it may turn out."""

    low: Figure
    expected: Figure
    high: Figure

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, expected, high = (getattr(self, name) for name in ("low", "expected", "high"))
        if not low <= expected <= high:
            raise ValueError(f"the range {low:.6g}, {expected:.6g}, {high:.6g} does not rise; expected low <= expected <= high")
        return self


class Utilisation(_Ranged[Share]):
    """Share of the paid time in which an instance delivers at the rate that was measured."""


class FailureRate(_Ranged[Spread]):
    """Share of the paid work that fails and is paid for again, below 100 %."""

    @model_validator(mode="after")
    def _check_below_one(self) -> FailureRate:
        if self.high >= 1:
            raise ValueError("high is 100%: nothing would ever be delivered; expected a percentage below 100%")
        return self


class PriceFactor(_Ranged[Multiple]):
    """The instance's price, as multiples of the effective price."""


class PriceRange(_Ranged[HourlyPrice]):
    """The instance's price for one kind of purchase; precedes `price`."""

    purchase: Purchase


class DataRange(_Ranged[ByteSize]):
    """Data in a month: sent out, or stored all month."""


class MonthlyVolume(ExactlyOne):
    """Monthly volume: exactly one of these."""

    example: ClassVar[str] = "{requests: 50000000}"
    requests: int | None = Field(None, ge=1)
    output_tokens: int | None = Field(None, ge=1)
    trained_tokens: int | None = Field(None, ge=1)
    trained_samples: int | None = Field(None, ge=1)


class TrainingRun(ExactlyOne):
    """The size of one training run: exactly one of these."""

    example: ClassVar[str] = "{time: 500h}"
    trained_tokens: int | None = Field(None, ge=1)
    trained_samples: int | None = Field(None, ge=1)
    time: Duration | None = Field(None, description="at the measured rate and without an interruption, such as 500h")


class Checkpoints(Declared):
    """Checkpoints that are kept, such as those of a year of weekly fine-tunings."""

    size: ByteSize | None = Field(None, description="of one; as measured if omitted")
    kept: int = Field(ge=1, description="how many are stored at a time")


class Assumption(Declared):
    """Figures for the providers and workloads that it names. The first matching entry with a figure counts."""

    provider: Pattern = "*"
    workload: Name | None = Field(None, description="every workload if omitted")
    utilisation: Utilisation | None = None
    price: PriceFactor | None = None
    price_per_hour: tuple[PriceRange, ...] = ()
    failure_rate: FailureRate | None = None
    egress: DataRange | None = Field(None, description="data that leaves the provider in a month")
    storage: DataRange | None = Field(None, description="data stored there all month")
    checkpoints: Checkpoints | None = None
    volume: MonthlyVolume | None = None
    growth: MonthlyGrowth | None = Field(None, description="of the volume, such as 5%/month")
    always_on: int | None = Field(None, ge=1, description="instances paid all month, whatever their load")
    engineering: MonthlyAmount | None = Field(None, description="monthly cost of the people who run it")
    run: TrainingRun | None = None
    source: str = SOURCE_FIELD

    @model_validator(mode="after")
    def _require_a_figure(self) -> Assumption:
        if not any(getattr(self, name) for name in _FIGURES) and self.engineering is None:
            raise ValueError(f"has no figure; expected at least one of {', '.join(_FIGURES)}, engineering")
        purchases = [each.purchase for each in self.price_per_hour]
        if len(set(purchases)) != len(purchases):
            raise ValueError(f"price_per_hour names {', '.join(purchases)}; expected each purchase once")
        return self


_FIGURES = (
    "utilisation",
    "price",
    "price_per_hour",
    "failure_rate",
    "egress",
    "storage",
    "checkpoints",
    "volume",
    "growth",
    "always_on",
    "run",
)


class SpotRate(Declared):
    """How often a running spot instance is reclaimed. The first matching entry counts."""

    provider: Pattern
    interruptions: Rate = Field(description="for each instance that runs, such as 0.05/h")
    since: date = Field(description="the day of the figure")
    source: str = SOURCE_FIELD


class NodeFailureRate(Declared):
    """How often a running instance fails, however it is paid for. The first matching entry counts."""

    provider: Pattern
    failures: Rate = Field(description="of each instance that runs, such as 0.0002/h")
    since: date = Field(description="the day of the figure")
    source: str = SOURCE_FIELD


class HostedModel(Declared):
    """The price of a similar hosted model, by tokens or by requests."""

    name: Name
    workloads: tuple[Name, ...] = Field(min_length=1, description="workloads that it could serve instead")
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


@dataclass(frozen=True)
class SourcedFigure(Generic[Figure]):
    """A declared figure with its source."""

    value: Figure
    source: str


class Economics(Declared):
    """The file `economics.yaml`. Without it costs are at the measured rate and the effective price, and list what they exclude."""

    assumptions: tuple[Assumption, ...] = Field((), max_length=500)
    spot: tuple[SpotRate, ...] = Field((), max_length=500)
    node_failures: tuple[NodeFailureRate, ...] = Field((), max_length=500)
    hosted: tuple[HostedModel, ...] = Field((), max_length=200)

    @model_validator(mode="after")
    def _distinct(self) -> Economics:
        names = [each.name for each in self.hosted]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f'hosted[{i}].name "{name}" is a duplicate; expected another name')
        return self

    def assumed(self, field: str, provider: str, workload: str) -> SourcedFigure[Any] | None:
        """A figure of the first `Assumption` for the provider and the workload that has it, or None."""
        figures = (SourcedFigure(getattr(entry, field), entry.source) for entry in self._entries(provider, workload))
        return next((figure for figure in figures if figure.value not in (None, ())), None)

    def price_per_hour(self, provider: str, workload: str, purchase: Purchase) -> SourcedFigure[PriceRange] | None:
        """The declared range of an instance's price for one kind of purchase."""
        figures = (SourcedFigure(price, entry.source) for entry in self._entries(provider, workload) for price in entry.price_per_hour)
        return next((figure for figure in figures if figure.value.purchase == purchase), None)

    def _entries(self, provider: str, workload: str) -> Iterator[Assumption]:
        return (a for a in self.assumptions if fnmatchcase(provider, a.provider) and a.workload in (None, workload))

    def interruptions(self, provider: str) -> SpotRate | None:
        """How often the provider reclaims a spot instance, or None."""
        return next((each for each in self.spot if fnmatchcase(provider, each.provider)), None)

    def failures(self, provider: str) -> NodeFailureRate | None:
        """How often an instance of the provider fails, or None."""
        return next((each for each in self.node_failures if fnmatchcase(provider, each.provider)), None)

    def hosted_for(self, workload: str) -> tuple[HostedModel, ...]:
        """Hosted models that could serve the workload instead."""
        return tuple(each for each in self.hosted if workload in each.workloads)

    def unknown_names(self, providers: Collection[str], workloads: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Undeclared names, each as the field's path and a message. Only a pattern may match nothing."""
        for i, entry in enumerate(self.assumptions):
            yield from _unknown_name(("assumptions", i, "provider"), entry.provider, "provider", providers)
            if entry.workload is not None:
                yield from _unknown_name(("assumptions", i, "workload"), entry.workload, "workload", workloads)
        for i, rate in enumerate(self.spot):
            yield from _unknown_name(("spot", i, "provider"), rate.provider, "provider", providers)
        for i, failing in enumerate(self.node_failures):
            yield from _unknown_name(("node_failures", i, "provider"), failing.provider, "provider", providers)
        for i, hosted in enumerate(self.hosted):
            for j, name in enumerate(hosted.workloads):
                yield from _unknown_name(("hosted", i, "workloads", j), name, "workload", workloads)


def _unknown_name(
    field: tuple[str | int, ...], name: str, what: str, known: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if name not in known and not {"*", "?"} & set(name):
        yield field, unknown_name(what, name, known)
