"""A contract: negotiated prices of an instance or of a GPU, with its source."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.providers.amounts import Exchanged, HourlyAmountText
from plumbline.declarations.providers.dated import Dated, Month, check_one_at_a_time
from plumbline.declarations.providers.rates import ListedPurchase, Term


class Committed(Declared):
    """Hours that are paid whether they are used or not. Those of a day, or of a month (UTC), do not move to another one."""

    instances: int | None = Field(None, ge=1, le=100_000, description="whole instances, every hour; or hours_per_month")
    hours_per_month: float | None = Field(
        None, gt=0, description="instance-hours of a calendar month, such as 500; by days of a month that the price holds in part"
    )
    used: dict[Month, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="instance-hours by month from the provider's own report, such as {2026-10: 1391.5}"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Committed:
        if (self.instances is None) == (self.hours_per_month is None):
            raise ValueError("expected either instances, such as 2, or hours_per_month, such as 500")
        return self


class ContractPrice(Exchanged, Dated):
    """One price."""

    purchase: ListedPurchase
    term: Term | None = Field(None, description="how long a reservation binds, 1y or 3y")
    price: HourlyAmountText
    committed: Committed | None = Field(None, description="of reserved: what is bought until `until`, such as {instances: 2}")

    @model_validator(mode="after")
    def _consistent(self) -> ContractPrice:
        if self.term is not None and self.purchase != "reserved":
            raise ValueError(f"term {self.term} does not fit purchase {self.purchase}; expected purchase: reserved, or no term")
        if self.committed is not None:
            if self.purchase != "reserved" or self.until is None:
                raise ValueError("committed; expected it of purchase: reserved with until")
            for month in self.committed.used:
                if not f"{self.since:%Y-%m}" <= month <= f"{self.until - timedelta(days=1):%Y-%m}":
                    raise ValueError(f"committed.used has {month}; expected months from {self.since:%Y-%m} until {self.until}")
        self.check_currency(self.price.currency)
        return self


class Contract(Declared):
    """One YAML file under `include/config/contracts/`; a provider's `price_sources` names it."""

    name: Name
    description: str = ""
    source: str = Field(min_length=3, description="the document, such as 'contract 2026-114, annex B'")
    prices: tuple[ContractPrice, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Contract:
        check_one_at_a_time(self.prices, lambda p: f"{p.purchase} {p.term} prices" if p.term else f"{p.purchase} prices")
        return self

    def on(self, day: date) -> tuple[ContractPrice, ...]:
        """The prices that hold on a day, at most one for each purchase and term."""
        return tuple(p for p in self.prices if p.holds(day))
