"""Of how many series finding nothing may be said."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.metrics.formatting import format_count


@dataclass(frozen=True)
class Compared:
    """How many series of how many were compared with a baseline, and said something."""

    n: int
    of: int

    @property
    def missing(self) -> str:
        """Why finding nothing is no good news; empty where all were compared."""
        if not self.n:
            return "nothing was compared with a baseline yet"
        return f"{self.n} of {self.of} series compared" if self.n < self.of else ""

    @property
    def limit(self) -> str:
        """Of what finding nothing is said, behind `no open findings`."""
        return f": {self.missing}" if self.missing else f" in {format_count(self.n, 'compared series', 'compared series')}"
