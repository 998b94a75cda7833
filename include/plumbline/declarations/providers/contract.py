"""A contract: negotiated prices of an instance or of a GPU, with its source."""

from __future__ import annotations

from datetime import date

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.providers.amounts import Exchanged, HourlyAmountText
from plumbline.declarations.providers.dated import Dated, check_one_at_a_time
from plumbline.declarations.providers.rates import ListedPurchase, Term


class ContractPrice(Exchanged, Dated):
    """One price."""

    purchase: ListedPurchase
    term: Term | None = Field(None, description="how long a reservation binds, 1y or 3y")
    price: HourlyAmountText

    @model_validator(mode="after")
    def _consistent(self) -> ContractPrice:
        if self.term is not None and self.purchase != "reserved":
            raise ValueError(f"term {self.term} does not fit purchase {self.purchase}; expected purchase: reserved, or no term")
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
