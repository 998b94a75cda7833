"""`include/config/economics.yaml`: what nobody measures and a cost still depends on: how busy a provider is kept, what else is paid, how often
spot instances are taken away, and what a hosted model costs instead.

Nothing here has a default figure. What is left out is not known, and whoever needs it says which line to add.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from pydantic import Field, model_validator

from plumbline.declarations.alerts import Pattern
from plumbline.declarations.base import Declared, Name
from plumbline.declarations.purchases import Purchase
from plumbline.declarations.units import (
    ByteSize,
    Duration,
    HourlyPrice,
    MonthlyAmount,
    Multiple,
    Rate,
    RequestPrice,
    Share,
    Spread,
    TokenPrice,
)

Source = Field(min_length=3, description="who says so, such as 'dispatch log of October 2026' or a page with its date")


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


class Bytes(_Ranged):
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


class Run(Declared):
    """What one finished training run does: exactly one of these."""

    trained_tokens: int | None = Field(None, ge=1)
    trained_samples: int | None = Field(None, ge=1)
    time: Duration | None = Field(None, description="at the measured rate and without an interruption, such as 500h")

    @model_validator(mode="after")
    def _one(self) -> Run:
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
    egress: Bytes | None = Field(None, description="data that leaves the provider in a month")
    storage: Bytes | None = Field(None, description="data that is kept there all month long")
    volume: MonthlyVolume | None = None
    always_on: int | None = Field(None, ge=1, description="instances that are paid all month long however little is asked of them")
    engineering: MonthlyAmount | None = Field(None, description="what the people who run it cost in a month")
    run: Run | None = None
    source: str = Source

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
    source: str = Source


class Hosted(Declared):
    """What a model of the same kind costs where somebody else hosts it, by tokens or by requests."""

    name: Name
    workloads: tuple[Name, ...] = Field(min_length=1, description="workloads whose model it could serve instead")
    input: TokenPrice | None = None
    output: TokenPrice | None = None
    request: RequestPrice | None = None
    since: date
    source: str = Source

    @model_validator(mode="after")
    def _by_tokens_or_by_requests(self) -> Hosted:
        by_tokens = self.input is not None and self.output is not None
        if (self.request is not None) == by_tokens or (self.input is None) != (self.output is None):
            raise ValueError(
                "expected either both input and output, such as 0.20 USD/1M tokens, or request alone, such as 0.50 USD/1k requests"
            )
        return self


Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Said(Generic[Figure]):
    """A declared figure and who says so."""

    value: Figure
    source: str


class Economics(Declared):
    """The whole file. Without it every cost is at the measured rate and the price that holds, and says what it leaves out."""

    assumptions: tuple[Assumption, ...] = Field((), max_length=500)
    spot: tuple[SpotRate, ...] = Field((), max_length=500)
    hosted: tuple[Hosted, ...] = Field((), max_length=200)

    @model_validator(mode="after")
    def _distinct(self) -> Economics:
        names = [each.name for each in self.hosted]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f'hosted[{i}].name "{name}" stands a second time; expected a name of its own')
        return self

    def said(self, field: str, provider: str, workload: str) -> Said[Any] | None:
        """A figure of `Assumption` for a provider and a workload: of the first entry that fits and says it; None if none does."""
        for entry in self.assumptions:
            if fnmatchcase(provider, entry.provider) and entry.workload in (None, workload):
                value = getattr(entry, field)
                if value is not None and value != ():
                    return Said(value, entry.source)
        return None

    def price_per_hour(self, provider: str, workload: str, purchase: Purchase) -> Said[PriceRange] | None:
        """The declared range of an instance's price in one way of paying."""
        for entry in self.assumptions:
            if fnmatchcase(provider, entry.provider) and entry.workload in (None, workload):
                for found in entry.price_per_hour:
                    if found.purchase == purchase:
                        return Said(found, entry.source)
        return None

    def interruptions(self, provider: str) -> SpotRate | None:
        """How often the provider takes a spot instance away; None if nobody says."""
        return next((each for each in self.spot if fnmatchcase(provider, each.provider)), None)

    def hosted_for(self, workload: str) -> tuple[Hosted, ...]:
        """Hosted models that could serve the workload instead."""
        return tuple(each for each in self.hosted if workload in each.workloads)

    def unmatched(self, providers: Collection[str], workloads: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Names that nothing declared has, each as the field's path and a sentence. A pattern may fit nothing yet; a plain name may not."""
        for i, entry in enumerate(self.assumptions):
            yield from _unknown(("assumptions", i, "provider"), entry.provider, "provider", providers)
            if entry.workload is not None:
                yield from _unknown(("assumptions", i, "workload"), entry.workload, "workload", workloads)
        for i, rate in enumerate(self.spot):
            yield from _unknown(("spot", i, "provider"), rate.provider, "provider", providers)
        for i, hosted in enumerate(self.hosted):
            for j, name in enumerate(hosted.workloads):
                yield from _unknown(("hosted", i, "workloads", j), name, "workload", workloads)


def _unknown(field: tuple[str | int, ...], name: str, what: str, known: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if name not in known and not {"*", "?"} & set(name):
        near = get_close_matches(name, known, n=3) or sorted(known)[:3]
        yield field, f'no {what} is called "{name}"; expected one of {", ".join(near) or "(none declared)"}'


def _exactly_one(model: Declared, example: str) -> None:
    told = [name for name, value in model if value is not None]
    if len(told) != 1:
        raise ValueError(
            f"names {' and '.join(told) or 'nothing'}; expected exactly one of {', '.join(type(model).model_fields)}, such as {example}"
        )
