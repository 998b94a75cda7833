"""How a price source fails: it does not answer, or it answers and has no price. Neither is ever a price of 0."""

from __future__ import annotations

from plumbline.prices.reading import SourceKind


class PriceSourceError(Exception):
    """No price of `provider` was learnt from `source`; the message says why and what to do."""

    def __init__(self, source: SourceKind, provider: str, why: str, remedy: str) -> None:
        super().__init__(source, provider, why, remedy)
        self.source, self.provider, self.why, self.remedy = source, provider, why, remedy

    def __str__(self) -> str:
        return f"{self.source}, price of {self.provider}: {self.why}; {self.remedy}"


class PriceSourceDown(PriceSourceError):
    """The source cannot be read: time or its operator mends that."""


class NoPrice(PriceSourceError):
    """The source was read and says nothing that can be used for the provider: its declaration or the source's data mends that."""
