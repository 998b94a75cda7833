"""What each number that a page shows means, in one line: the one place that pages read it from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from plumbline.analysis.prices.book import OTHER_GPUS_TEXT
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import capitalize_first, format_name

_OWN = {
    "P(first)": "chance that it is really first, given the noise of the repeats",
    "score": "weighted geometric mean of its values; 1.00 is best on every metric",
    "P(right choice)": "what the repeats add to the chance that the provider chosen after them is really first",
    "P(cheapest)": "chance that it is really the cheapest that meets the requirements",
    "experiment cost": "time that its trials hold the provider, at its price",
    "in force": "USD per instance-hour that costs use today: the newer of the accepted and the declared price, with the one before it",
    "last reading": "what a price source said last; costs do not use it until it is accepted",
    # Tiles of the overview
    "open findings": "changes, failures and broken promises that no person has answered yet, by severity",
    "lost a month": "what open and acknowledged findings cost at the declared volumes, each cause once; credits and reservations beside it",
    "could be saved": "what moving each workload to the cheapest provider that suffices saves a month, from where its team runs it",
    "best on cost": "the provider with the lowest cost of the outcome on most workloads",
    "running now": "what Airflow runs or has queued; the newest campaign where it runs nothing",
    "newest campaign": "the newest monthly campaign as far as its trials are collected; another one where there is none",
    "newest results": "how long ago the newest trial of any series was planned, and how many series are in each state",
    # Spend
    "paid": "whole instances for as long as trials held them, failed trials included, at the price of each day",
    "share": f"the trials' part of what was paid; {OTHER_GPUS_TEXT}",
    "forecast": "a whole monthly rerun on every enabled provider at today's prices",
    "monthly limit": "what the provider's declaration allows in a calendar month (UTC), by what is paid",
    "used": "what trials of this month have used of the limit so far; unknown where a price is missing",
    "left": "what is left of the limit; a plan that exceeds it is cut to whole repeats",
    # Promises
    "broken": "promises that what was measured or logged proves broken, where the 95 % interval and an exact test agree",
    "kept": "promises that are proven kept by the same rule",
    "open": "promises that are proven neither way yet",
    "to claim": "credits of broken promises, each once; without those that are claimed already or too late to claim",
    "promised": "what the contract says, as the provider's file declares it",
    "measured": "what trials, checks between campaigns and the operations log show",
    "95 % interval": "where the true share or value lies, given so many tries",
    "still needed": "what would show the promise kept",
    "credit": "what the contract grants for a broken one: a share of the month's bill, and its amount where volumes and prices are declared",
    # Rankings of a workload
    "place": "rank by the first number, then by cost; none without a usable number",
    "distance": "how much worse than the best provider's; like the best where their intervals overlap",
    "repeats": "usable trials behind the numbers",
}
_WHEN = re.compile(r"( in| of)? ?\b\d{4}-\d{2}\b( so far)?")
_UNIT = re.compile(r", USD$")


def definition(name: str) -> str:
    """The line of a metric of the catalogue or of a page's own number; empty of a workload's own metric."""
    known = METRICS.get(name)
    return _OWN.get(name, known.description if known is not None else "")


def definitions(shown: Iterable[object]) -> list[tuple[str, str]]:
    """What each number on a page is, in the order of what is `shown`: tiles and rows, by their name and their own `meaning`, and
    headings, by their text without month, unit and statistic. Each once; what has no line is left out."""
    found: dict[str, str] = {}
    for each in shown:
        text = each if isinstance(each, str) else str(getattr(each, "name", ""))
        name, line = _heading(text)
        line = str(getattr(each, "meaning", "")) or line
        if line:
            found.setdefault(capitalize_first(name), line)
    return list(found.items())


def _heading(text: str) -> tuple[str, str]:
    """A heading as its definition names it, and the line."""
    name = _UNIT.sub("", _WHEN.sub("", text)).strip()
    lines = _lines()
    for tried in (name, name.rpartition(" ")[0]):  # a metric's statistic is its last word
        for key in (tried, tried[:1].lower() + tried[1:]):
            if line := lines.get(key):
                return tried, line
    return name, ""


@cache
def _lines() -> dict[str, str]:
    return {**{format_name(name): known.description for name, known in METRICS.items()}, **_OWN}
