"""Prices that no vendor lists by the hour: instances of one's own, serverless GPUs; and support plans beside the prices."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from pydantic import Field, model_validator

from plumbline.declarations.providers.amounts import Amount, PricePerUnit, SourcedAmount
from plumbline.declarations.providers.dated import Dated
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.units import Pause, Share

YEAR_H = 8766


def _exact(value: float) -> Fraction:
    return Fraction(repr(value))


class _Priced(SourcedAmount, Dated):
    """Base of declarations whose amounts have one currency; the prices among them are per the unit that `_UNITS` names."""

    @model_validator(mode="after")
    def _one_currency(self) -> _Priced:
        for field, unit in _UNITS.items():
            given = getattr(self, field, None)
            if given is None:
                continue
            self.check_currency(given.currency, field)
            if unit and given.per != unit:
                raise ValueError(f"{field} is per {given.per}; expected one such as 0.10 {given.currency}/{unit}")
        return self


_UNITS = {"capital": "", "residual": "", "energy": "kWh", "space": "month", "people": "month", "gpu_second": "GPU-second"}
_UNITS["per_month"] = "month"


class Ownership(_Priced):
    """Instances of one's own. Their hour costs the same whether it is used or not; amounts are for all `instances` together."""

    purchase: ClassVar[Purchase] = "owned"
    instances: int = Field(1, ge=1, le=100_000, description="instances that share the amounts")
    capital: Amount = Field(description="what they cost to buy, with network and installation")
    years: float = Field(gt=0, le=30, description="of straight-line depreciation")
    residual: Amount | None = Field(None, description="what they are worth after these years; nothing if omitted")
    power_kw: float = Field(0.0, ge=0, description="their mean draw, without cooling")
    pue: float = Field(1.0, ge=1, le=5, description="power of the site over power of the instances")
    energy: PricePerUnit | None = Field(None, description="price of power, such as 0.12 USD/kWh; required with power_kw")
    space: PricePerUnit | None = Field(None, description="racks and network, such as 2000 USD/month")
    people: PricePerUnit | None = Field(None, description="who run the hardware, such as 5000 USD/month")

    @model_validator(mode="after")
    def _fits(self) -> Ownership:
        if (self.power_kw > 0) != (self.energy is not None):
            raise ValueError("expected both power_kw and energy, such as power_kw: 10.2 and energy: 0.12 USD/kWh, or neither")
        if self.residual is not None and self.residual.amount > self.capital.amount:
            raise ValueError(f"residual is above capital, {self.capital.amount:.15g}; expected at most that")
        return self

    def usd_per_hour(self, _gpus: int) -> float:
        residual, energy, space, people = (_exact(a.amount if a else 0.0) for a in (self.residual, self.energy, self.space, self.people))
        depreciation = (_exact(self.capital.amount) - residual) / (_exact(self.years) * YEAR_H)
        power = _exact(self.power_kw) * _exact(self.pue) * energy
        return float((depreciation + power + (space + people) * 12 / YEAR_H) * _exact(self.usd_per_unit) / self.instances)


class ServerlessRate(_Priced):
    """GPUs that are billed while they are up, and that go away without requests."""

    purchase: ClassVar[Purchase] = "serverless"
    gpu_second: PricePerUnit = Field(description="such as 0.00116 USD/GPU-second")
    minimum: Pause = Field(0.0, description="seconds that each start is billed at least")
    idle: Pause = Field(0.0, description="how long it stays up, billed, after the last request; then it scales to zero")

    def usd_per_hour(self, gpus: int) -> float:
        """The price of an hour in which it is up."""
        return float(_exact(self.gpu_second.amount) * _exact(self.usd_per_unit) * 3600 * gpus)


class SupportPlan(_Priced):
    """Support that is paid beside the instances: so much a month, or a share of their bill."""

    what: str = Field(min_length=3, description="the plan, such as 'enterprise support'")
    per_month: PricePerUnit | None = Field(None, description="such as 15000 USD/month")
    share: Share | None = Field(None, description="of what the instances cost, such as 10%")
    instance_hours: float | None = Field(None, gt=0, description="instance-hours in use a month, which share per_month")

    @model_validator(mode="after")
    def _exactly_one(self) -> SupportPlan:
        if (self.per_month is None) == (self.share is None) or (self.per_month is None) != (self.instance_hours is None):
            raise ValueError("expected share, such as 10%, or per_month, such as 15000 USD/month, with instance_hours, such as 700")
        return self
