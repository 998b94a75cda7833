"""Charges beside the instance hour, invoices, and the cost of people's time. They do not change the measurement, so trials do not carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from itertools import pairwise
from typing import Literal, get_args

from pydantic import Field, model_validator

from plumbline.declarations.providers.amounts import Amount, PricePerUnit, SourcedAmount
from plumbline.declarations.providers.dated import Dated, Month, check_order
from plumbline.metrics.units import Duration

ListedPurchase = Literal["on_demand", "spot", "reserved"]
"""What vendors list, and what is read and accepted."""
Purchase = Literal["on_demand", "spot", "reserved", "owned", "serverless"]
Term = Literal["1y", "3y"]
"""How long a reservation binds."""
RateItem = Literal["cpu", "storage", "egress", "observability"]
BILLING_UNITS: Mapping[RateItem, tuple[str, ...]] = {
    "cpu": ("core-hour",),
    "storage": ("GB-month", "GiB-month"),
    "egress": ("GB", "GiB"),
    "observability": ("instance-hour",),
}
"""Billing unit of each item."""


class DeclaredRate(SourcedAmount, Dated):
    """A charge beside the instance, by its own unit; 0 for what is included."""

    item: RateItem = Field(description=f"one of {', '.join(get_args(RateItem))}")
    price: PricePerUnit

    @model_validator(mode="after")
    def _fits(self) -> DeclaredRate:
        self.check_currency(self.price.currency)
        if self.price.per not in BILLING_UNITS[self.item]:
            raise ValueError(
                f"price is per {self.price.per}, but {self.item} is billed by {' or '.join(BILLING_UNITS[self.item])}; "
                f"expected one such as 0.08 {self.price.currency}/{BILLING_UNITS[self.item][0]}"
            )
        return self


class Overhead(SourcedAmount, Dated):
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
        self.check_currency(self.price.currency)
        if self.price.per != "h":
            raise ValueError(
                f"price is per {self.price.per}, but time is paid by the hour; expected one such as 120 {self.price.currency}/h"
            )
        if (self.per == "month") != (self.instance_hours is not None):
            given = "missing" if self.instance_hours is None else "given"
            raise ValueError(f"per is {self.per} and instance_hours is {given}; expected instance_hours, such as 700, with per: month only")
        return self


class Invoice(SourcedAmount):
    """The amount paid for a `month`, or in advance for the days from `since` (included) until `until` (excluded): the amount over its hours is the
    effective hourly price of that time."""

    month: Month | None = Field(None, description="such as 2026-10; or since and until")
    since: date | None = Field(None, description="first day of a time that was paid at once, such as a capacity block")
    until: date | None = Field(None, description="the day after its last one")
    purchase: ListedPurchase = "on_demand"
    amount: Amount
    instance_hours: float = Field(gt=0, description="hours of the whole instance that the amount covers, such as 212.5")

    @model_validator(mode="after")
    def _fits(self) -> Invoice:
        self.check_currency(self.amount.currency, "amount")
        given = (self.month is not None, self.since is not None, self.until is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise ValueError("covers no clear time; expected month, or both since and until")
        if self.since is not None:
            check_order(self.since, self.until)
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


def check_invoices(invoices: Iterable[Invoice]) -> None:
    """ValueError if a day was invoiced twice for one way to pay."""
    for earlier, later in pairwise(sorted(invoices, key=lambda invoice: (invoice.purchase, invoice.days))):
        if earlier.purchase == later.purchase and earlier.days[1] > later.days[0]:
            raise ValueError(
                f"two {later.purchase} invoices of {later.month or later.since}; expected one with the sum of amounts and instance_hours"
            )
