"""A promise in words: the same on scorecards, the page of promises, the command line and in a claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from plumbline.declarations.promises.judging.share import PromisedShare, PromiseVerdict, tries_to_keep
from plumbline.metrics.formatting import common_scale, format_limit, format_name, format_percent
from plumbline.metrics.proportions import Proportion
from plumbline.metrics.time_spans import TimeSpan
from plumbline.metrics.units import Amount, AmountText

_MARKS: dict[PromiseVerdict, Literal["good", "bad"]] = {"kept": "good", "broken": "bad"}


class PrintedAmount(Protocol):
    """An amount of USD that prints itself."""

    @property
    def amount(self) -> float: ...


@dataclass(frozen=True)
class PromiseRow:
    """One promise. `promised`: empty without one. `measured` with its interval; `needed`: what would show it kept, in words; `tries`: the numbers.

    `evidence`: entries of the operations log that show it. `credit`: what a broken one grants, in words; `usd`: in money, None if unknown.
    `last`: when the last of what breaks it began, None where that is not known. `down`: the spans that are counted as down, and `single_s` the
    seconds of single missed checks, which add up to what is down. `witness`: who alone shows it, empty where the operations log is a second
    witness. `claim`: what became of its claim, in words; `deadline`: until when it can be made, in words, empty where the contract's term is not
    declared.
    """

    name: str
    promised: str
    measured: str
    interval: str
    needed: str
    tries: PromisedShare
    evidence: tuple[str, ...] = ()
    credit: AmountText = ""
    usd: Amount | None = None
    last: datetime | None = None
    down: tuple[TimeSpan, ...] = ()
    single_s: float = 0.0
    witness: str = ""
    claim: str = ""
    deadline: str = ""

    @classmethod
    def of_tries(cls, name: str, promised: str, measured: str, tries: PromisedShare, noun: str, failure: str, **more: Any) -> PromiseRow:
        """Of a share of tries, with its interval and what it needs. `noun`, `failure`: a try and one that failed. `more`: further fields."""
        return cls(name, promised, measured, format_interval(tries.share), format_needed(tries, noun, failure), tries, **more)

    @property
    def verdict(self) -> PromiseVerdict:
        return self.tries.verdict

    @property
    def verdict_text(self) -> str:
        return f"{format_name(self.verdict)}{f', needs {self.needed}' if self.needed else ''}"

    @property
    def judged(self) -> str:
        """The promise and its verdict, beside a measurement."""
        return f"promised {self.promised}: {self.verdict_text}"

    @property
    def sentence(self) -> str:
        shown = f"; operations log: {', '.join(self.evidence)}" if self.evidence else ""
        shown += f"; {self.one_witness}" if self.one_witness else ""
        return f"{self.name}: promised {self.promised}, measured {self.measured}{f' ({self.interval})' if self.interval else ''}{shown}"

    @property
    def one_witness(self) -> str:
        """Who alone shows a promise that is judged; empty where nothing is, or where there is a second witness."""
        return f"one witness, {self.witness}" if self.witness and self.verdict in ("kept", "broken") else ""

    @property
    def to_do(self) -> str:
        """What became of the claim of its credit, else until when it can be made; empty without a credit, and where the term is not declared."""
        return self.claim or (self.deadline if self.credit else "")

    def granting(self, share: float, credit: PrintedAmount | None) -> PromiseRow:
        """The row with its credit: a share of the month's bill, and in money if that is known."""
        money = f", {credit}" if credit is not None else ""
        return replace(self, credit=f"{format_limit(share)} of the month's bill{money}", usd=None if credit is None else credit.amount)

    @property
    def mark(self) -> Literal["good", "bad", ""]:
        return _MARKS.get(self.verdict, "")


def format_seconds(value: float) -> str:
    return common_scale("s", [value]).text(value)


def format_interval(share: Proportion) -> str:
    """The interval of a share; empty without observations."""
    return "" if share.low is None else f"{format_percent(share.low)} … {format_percent(share.high)}"


def plural(tried: str) -> str:
    return f"{tried}{'es' if tried.endswith('h') else 's'}"


def format_needed(judged: PromisedShare, tried: str, failed: str) -> str:
    """`381 launches without a failure, or 563 with 1, 532 more`: of a flawless record, and of this one."""
    if judged.verdict != "not_shown" or judged.promised is None:
        return ""
    tries = plural(tried)
    if judged.needed is None:
        return f"an endless record of {tries} without a {failed}"
    flawless, more = f"{tries_to_keep(judged.promised)} {tries} without a {failed}", f"{judged.needed - judged.share.n} more"
    return f"{flawless}, or {judged.needed} with {judged.failures}, {more}" if judged.failures else f"{flawless}, {more}"
