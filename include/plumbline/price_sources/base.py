"""What a price source does, and how it fails. A failure is never a price of 0."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from plumbline.declarations import Provider
from plumbline.results.price_reading import Reading


class PriceSourceError(Exception):
    """No price of `provider` was learnt from `source`; the message says why and what to do."""

    def __init__(self, source: str, provider: str, why: str, remedy: str) -> None:
        super().__init__(source, provider, why, remedy)
        self.source, self.provider, self.why, self.remedy = source, provider, why, remedy

    def __str__(self) -> str:
        return f"{self.source}, price of {self.provider}: {self.why}; {self.remedy}"


class PriceSourceDown(PriceSourceError):
    """The source cannot be read: time or its operator mends that."""


class NoPrice(PriceSourceError):
    """The source was read and says nothing that can be used for the provider: its declaration or the source's data mends that."""


class PriceSource(Protocol):
    """One way to learn prices."""

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """What the source says of the provider at `at` (UTC): at least one reading, at most one for each purchase and term.

        Raises PriceSourceDown if it cannot be read, NoPrice if it says nothing usable.
        """
        ...
