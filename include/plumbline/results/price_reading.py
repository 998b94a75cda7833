"""One price as a source reports it, also in USD per GPU-hour and per instance-hour."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.declarations.providers.rates import Term as Term
from plumbline.declarations.trials import digest
from plumbline.metrics.units import Amount

Per = Literal["gpu_hour", "instance_hour"]


@dataclass(frozen=True)
class Reading:
    """A price that `source` reports for `provider` at `observed_at`: `amount` of `currency` per `per`, as given.

    `provider` is a declared provider's name; in the replay of a history, `cloud/region/instance_type`. `term` is set for a
    reservation whose length is known. `gpus`: accelerators in one instance (cores of a CPU provider), at least 1. `usd_per_unit`:
    USD for one unit of the currency, 1.0 for USD itself. An amount of 0 is kept as reported; the price check holds it.
    `typical`: the lowest and the highest USD per GPU-hour that the source lists for the same product, number of accelerators and purchase
    elsewhere; None if it lists none. It says whether a first price is plausible, and is neither stored nor part of the identity.

    Raises ValueError for an impossible figure: negative or not finite, no GPU, no time zone, USD that is not worth 1 USD."""

    provider: str
    purchase: ListedPurchase
    term: Term | None
    source: str
    source_version: str
    observed_at: datetime
    amount: Amount
    currency: str
    per: Per
    gpus: int
    usd_per_unit: Amount = 1.0
    typical: tuple[float, float] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        def wrong(field: str, value: object, expected: str) -> ValueError:
            return ValueError(f"{self.source}, price of {self.provider}: {field} is {value}; expected {expected}")

        if not math.isfinite(self.amount) or self.amount < 0:
            raise wrong("amount", self.amount, "a finite number, at least 0")
        if self.gpus < 1:
            raise wrong("gpus", self.gpus, "at least 1")
        if not math.isfinite(self.usd_per_unit) or self.usd_per_unit <= 0:
            raise wrong("usd_per_unit", self.usd_per_unit, "a finite number above 0")
        if self.currency == "USD" and self.usd_per_unit != 1.0:
            raise wrong("usd_per_unit", self.usd_per_unit, "1.0 for USD")
        if self.observed_at.utcoffset() != timedelta(0):
            raise wrong("observed_at", self.observed_at.isoformat(), "a time in UTC")
        if self.term is not None and self.purchase != "reserved":
            raise wrong("term", self.term, f"none for {self.purchase}: only reservations have one")

    @property
    def usd_per_gpu_hour(self) -> float:
        return self._usd / (self.gpus if self.per == "instance_hour" else 1)

    @property
    def usd_per_instance_hour(self) -> float:
        return self._usd * (self.gpus if self.per == "gpu_hour" else 1)

    @property
    def stored(self) -> dict[str, Any]:
        """The fields that are stored and identify the reading."""
        return {name: value for name, value in asdict(self).items() if name != "typical"}

    @property
    def reading_id(self) -> str:
        """Hash of the stored fields: the same reading taken in twice is one."""
        # Whatever class of tzinfo says UTC, and int or float, the same reading hashes the same.
        fields = self.stored | {
            "observed_at": self.observed_at.astimezone(timezone.utc).isoformat(),
            "amount": float(self.amount),
            "usd_per_unit": float(self.usd_per_unit),
        }
        return digest(fields)[:32]

    @property
    def _usd(self) -> float:
        return self.amount * self.usd_per_unit
