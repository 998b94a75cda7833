"""Promises of a contract as pages and commands list them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plumbline.answers.promises import ProviderPromises
from plumbline.declarations.promises import PROMISES, JudgedPromise
from plumbline.declarations.promises.judging.row import format_interval
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.formatting import format_money, join_words
from plumbline.metrics.proportions import Proportion
from plumbline.metrics.time_spans import month_span
from plumbline.metrics.units import Amount, exact


def declared_promises(sla: ServiceLevel) -> list[str]:
    """What a contract promises, such as `availability 99.9 %` and `lead time 15.0 min`."""
    return [text for promise in PROMISES for text in promise.declared(sla)]


def format_share(share: Proportion) -> str:
    return f"{share.successes} of {share.n} ({format_interval(share)})"


def claimed_credits(broken: Iterable[JudgedPromise]) -> list[tuple[str, str, float | None]]:
    """The credits that a claim lists, each once: what for, in words, and in USD, None where that is unknown. A breach of a month earns its own; one of
    other promises earns the contract's `credit` for a month's bill once, however many are broken in it. One without a date, such as of the share of
    launches, is of the last month in which another one broke, so that nothing is claimed twice."""
    every, listed = list(broken), dict[tuple[object, ...], tuple[list[str], str, float | None]]()
    newest = max((each.row.last for each in every if each.month is None and each.row.last is not None), default=None)
    for each in every:
        last = each.row.last or newest
        key = (each.row.name,) if each.month is not None else (last and month_span(last)[0], each.grants)
        names, _, _ = listed.setdefault(key, ([], each.row.credit, each.row.usd))
        names.append(each.row.name)
    return [(join_words(names), text, usd) for names, text, usd in listed.values()]


def total_credit(broken: Iterable[JudgedPromise]) -> float | None:
    """The sum of what `claimed_credits` lists, in USD. None where one is unknown."""
    known = [None if usd is None else exact(usd) for _, _, usd in claimed_credits(broken)]
    return float(sum(filter(None, known))) if known and None not in known else None


@dataclass(frozen=True)
class PromiseTotals:
    """How many promises are broken, kept, and open: not shown either way. `usd`: the credits of broken ones that are known in money, None without
    one: the same sum as the ledger's. `unknown`: providers with a breach that earns a credit of unknown amount. `lapsed`: broken ones
    whose credit it is too late to claim, and `claimed`: those whose claim a person marked as sent, credited or refused; they are in
    neither."""

    broken: int
    kept: int
    open: int
    usd: Amount | None
    unknown: tuple[str, ...] = ()
    lapsed: int = 0
    claimed: int = 0

    def text(self, money: bool = True) -> str:
        """`1 broken, 17,082 USD to claim; 4 kept; 3 open`; without `money` no amount and nothing about one."""
        claim = ""
        if money and self.usd is not None:
            claim = f", {format_money(self.usd, 'USD')} to claim"
        if money and self.unknown:
            claim += f"{' and' if claim else ','} a credit of unknown amount from {join_words(self.unknown)}"
        claim += f", {self.lapsed} of them too late to claim" if self.lapsed else ""
        claim += f", {self.claimed} of them claimed already" if self.claimed else ""
        return f"{self.broken} broken{claim}; {self.kept} kept; {self.open} open"


def promise_totals(found: Sequence[ProviderPromises]) -> PromiseTotals:
    """Over providers. A breach whose contract declares no credit adds none."""
    verdicts = [row.verdict for one in found for row in one.rows]
    earned = {one.provider: [each for each in one.judged if each.broken and each.grants is not None] for one in found}
    credits = {name: [each for each in broken if not each.lapsed and not each.row.claim] for name, broken in earned.items()}
    # Of each credit, as the ledger has it: one of unknown amount hides no other.
    sums = {name: [usd for _, _, usd in claimed_credits(broken)] for name, broken in credits.items() if broken}
    known = [exact(usd) for each in sums.values() for usd in each if usd is not None]
    return PromiseTotals(
        verdicts.count("broken"),
        verdicts.count("kept"),
        verdicts.count("not_shown"),
        float(sum(known)) if known else None,
        tuple(sorted(name for name, each in sums.items() if None in each)),
        sum(each.lapsed and not each.row.claim for broken in earned.values() for each in broken),
        sum(bool(each.row.claim) for broken in earned.values() for each in broken),
    )


def promises_data(one: ProviderPromises) -> dict[str, Any]:
    """A provider's promises as plain values, with their totals."""
    return {**one.view, "totals": asdict(promise_totals([one]))}


@dataclass(frozen=True)
class PromiseLine:
    """A provider among all."""

    provider: str
    totals: PromiseTotals


@dataclass(frozen=True)
class PromiseOverview:
    """Promises of several providers that promise something: `lines` and `broken` rows by provider, the highest credit first."""

    totals: PromiseTotals
    lines: tuple[PromiseLine, ...]
    broken: tuple[tuple[str, JudgedPromise], ...]


def promise_overview(found: Sequence[ProviderPromises]) -> PromiseOverview:
    lines = [PromiseLine(one.provider, promise_totals([one])) for one in found]
    lines.sort(key=lambda line: (-(line.totals.usd or 0), -line.totals.broken, -line.totals.open, line.provider))
    by_name = {one.provider: one for one in found}
    broken = tuple((line.provider, each) for line in lines for each in by_name[line.provider].judged if each.broken)
    return PromiseOverview(promise_totals(found), tuple(lines), broken)
