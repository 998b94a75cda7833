"""What trials left where they run: the newest count of each provider, as the hourly upkeep stored it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.declarations import installation_paths
from plumbline.metrics.formatting import format_count
from plumbline.whole_file import write_whole

_ENDING = ".cluster"


@dataclass(frozen=True)
class Leftovers:
    """Our pods, or what else a launcher counts, at one provider.

    `running`: campaign ("" without one) → number, without those that are being deleted. `expired`: how many outlived their launch. `utc`: time
    of the count, ISO 8601. `noun`: what is counted, in the singular. `where`: what finds them by hand, once nothing declares the provider.
    """

    running: Mapping[str, int]
    expired: int
    utc: str
    noun: str = "pod"
    where: str = ""

    @property
    def total(self) -> int:
        return sum(self.running.values())

    def __str__(self) -> str:
        if not self.total:
            return f"no {self.noun}s"
        campaigns = ", ".join(f"{n} of {campaign}" if campaign else f"{n} of no campaign" for campaign, n in sorted(self.running.items()))
        over = f"; {self.expired} past {'its' if self.expired == 1 else 'their'} end" if self.expired else ""
        return f"{format_count(self.total, self.noun)} ({campaigns}){over}"

    def row(self) -> dict[str, Any]:
        """Its JSON form: the numbers under the noun's plural, such as `pods`."""
        return {f"{self.noun}s": dict(self.running), "expired": self.expired, "utc": self.utc, "where": self.where}

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Leftovers:
        """Of its JSON form; KeyError or ValueError for another one."""
        (nouns,) = row.keys() - {"expired", "utc", "where"}
        return cls(row[nouns], row["expired"], row["utc"], nouns.removesuffix("s"), row.get("where", ""))


def store_leftovers(provider: str, counted: Leftovers) -> None:
    """Store a provider's newest count, atomically."""
    write_whole(_file(provider), json.dumps(counted.row()))


def stored_leftovers(provider: str) -> Leftovers | None:
    """The newest stored count; None without a readable one."""
    try:
        return Leftovers.read(json.loads(_file(provider).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def counted_providers() -> list[str]:
    """Names of all providers with a stored count, also of those that are no longer declared."""
    return sorted(path.stem for path in installation_paths().work.glob(f"*{_ENDING}"))


def _file(provider: str) -> Path:
    return installation_paths().work / f"{provider}{_ENDING}"
