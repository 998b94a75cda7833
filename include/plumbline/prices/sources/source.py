"""What every price source can do."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from plumbline.declarations import Provider
from plumbline.prices.reading import Reading


class PriceSource(Protocol):
    """One way to learn prices."""

    def read(self, provider: Provider, at: datetime) -> list[Reading]:
        """What the source says of the provider at `at` (UTC): at least one reading, at most one for each purchase and term.

        Raises PriceSourceDown if it cannot be read, NoPrice if it says nothing usable.
        """
        ...
