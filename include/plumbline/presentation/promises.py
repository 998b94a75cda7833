"""Promises of a contract as pages and commands list them."""

from __future__ import annotations

from collections.abc import Iterable

from plumbline.declarations.promises import PROMISES, JudgedPromise
from plumbline.declarations.promises.judging.row import format_interval
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.proportions import Proportion
from plumbline.metrics.units import exact


def declared_promises(sla: ServiceLevel) -> list[str]:
    """What a contract promises, such as `availability 99.9 %` and `lead time 15.0 min`."""
    return [text for promise in PROMISES for text in promise.declared(sla)]


def format_share(share: Proportion) -> str:
    return f"{share.successes} of {share.n} ({format_interval(share)})"


def total_credit(broken: Iterable[JudgedPromise]) -> float | None:
    """The credits in USD of one month: those of promises about a month, and once that of all other ones. None where one is unknown."""
    credits = {each.month: each.row.usd for each in broken}
    known = [exact(usd) for usd in credits.values() if usd is not None]
    return float(sum(known)) if known and len(known) == len(credits) else None
