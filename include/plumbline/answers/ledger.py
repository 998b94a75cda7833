"""The ledger of money: what open findings cost or save a month, what can be claimed, what ends, and what moving a workload would save.

Every surface reads it. A row is a cost or a saving, never both. What one cause costs is in one row, that of the finding which leads the others of
its cause. Claims and reservations that end are rows of their own, and in no sum of what is lost or saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Literal

from plumbline.analysis.campaign_data import MonthlyTotal, sum_monthly
from plumbline.analysis.decisions.savings import Savings, Switch
from plumbline.answers.claim_marks import ClaimStanding
from plumbline.answers.costed_findings import CostedFinding, costed_findings
from plumbline.answers.trial_credits import TrialCredit, trial_credits
from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.findings.cause import witnesses
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.units import Amount
from plumbline.results.finding import OPEN_STATES, gravity
from plumbline.words.claims import broke_promises

Sort = Literal["cost", "gain", "claim", "ending", "move"]
"""An open finding that costs, one that saves, a credit to claim once, reserved hours that end, and a move that would save."""
Ends = Literal["baseline", "price", "first_choice", "log", "repair", "claim", "renewal", "move"]
"""What ends a row: accepting the new baseline, the price, the first choice or the log, a repair, a claim, renewing or not, or moving the workload."""


@dataclass(frozen=True)
class LedgerRow:
    """One amount. `row_id`: of a finding, `move/WORKLOAD/FROM/TO`, or `claim/PROVIDER/PROMISES` of a credit that trials prove, whose
    findings are in `counts`, the one that claims it first. `what`: its headline, without the amount.

    `usd`: USD a month, at least 0, of a claim once; None: not priced. Of an ending what renewing is worth, negative if it costs more than the
    cheapest other price, and `paid` is what is paid a month now. `share`: of a move, the fraction of the cost that it saves. `prices`: what the
    amount rests on. `until`: the day on which the price that it rests on ends, the last day of a claim, the end of the hours; None if it goes
    on until its owner decides. `since`: None of what no finding of its own has. `owner`: the teams that decide, none for operations.
    `counts`: findings of the same cause whose amount is in this one. `parts`: USD by provider, which add up to `usd`. `providers`: by
    name, of a shared cause all that have it. `claim`: where a claim stands.
    """

    row_id: str
    sort: Sort
    what: str
    provider: str
    usd: Amount | None
    ends: Ends
    owner: tuple[str, ...] = ()
    prices: str = ""
    since: date | None = None
    until: date | None = None
    simulated: bool = False
    counts: tuple[str, ...] = ()
    share: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    providers: tuple[str, ...] = ()
    paid: float | None = None
    claim: ClaimStanding = ""

    @property
    def change(self) -> float | None:
        """USD a month more, negative if less; None: not priced, or no monthly amount of a finding."""
        if self.usd is None or self.sort not in ("cost", "gain"):
            return None
        return self.usd if self.sort == "cost" else -self.usd


@dataclass(frozen=True)
class Ledger:
    """`rows`: the dearest first, claims after them, those without a price last. `savings`: where the moves come from; None without a decision. `row_of`:
    finding → the row that has its amount; only of findings that have one."""

    rows: tuple[LedgerRow, ...] = ()
    savings: Savings | None = None
    row_of: Mapping[str, str] = field(default_factory=dict)

    def change_of(self, finding_id: str) -> float | None:
        """What the finding's own row says: USD a month more, negative if less; None without a price, or where another row has it."""
        row = self.by_id.get(finding_id)
        return row.change if row is not None else None

    def headline_usd(self, finding_id: str, alone: float | None) -> float | None:
        """The amount of the finding's first line, the same on every surface: that of its own row. Where another row has it, or where the finding is
        settled, what it costs `alone`."""
        change = self.change_of(finding_id)
        return alone if change is None else change

    def claims_with(self, finding_id: str) -> tuple[LedgerRow, ...]:
        """The credits that trials prove and that the finding claims, beside the row that has its amount."""
        return tuple(row for row in self.rows if row.sort == "claim" and row.since is None and row.counts[:1] == (finding_id,))

    @property
    def unclaimed(self) -> tuple[LedgerRow, ...]:
        """The credits that no open finding claims."""
        return tuple(row for row in self.rows if row.sort == "claim" and row.since is None and not row.counts)

    def row_with(self, finding_id: str) -> LedgerRow | None:
        """The row that has the finding's amount: its own, or that of its cause."""
        return self.by_id.get(self.row_of.get(finding_id, finding_id))

    @cached_property
    def by_id(self) -> dict[str, LedgerRow]:
        return {row.row_id: row for row in self.rows}

    @property
    def monthly(self) -> tuple[LedgerRow, ...]:
        """The rows that are lost or saved a month."""
        return tuple(row for row in self.rows if row.sort in ("cost", "gain"))

    def total(self, simulated: bool | None = None) -> MonthlyTotal:
        """The sum of the rows: of simulated or of measured ones. By default of measured ones, with simulated ones apart, and of
        simulated ones where nothing else is open."""
        every = [row for row in self.rows if row.sort != "move"]
        rehearsal = all(row.simulated for row in every)
        own = [row for row in every if row.simulated is (rehearsal if simulated is None else simulated)]
        claims, endings = [row for row in own if row.claim == "to_claim"], [row for row in own if row.sort == "ending"]
        month = replace(
            sum_monthly(row.change for row in own if row.sort in ("cost", "gain")),
            to_claim=sum(row.usd or 0.0 for row in claims),
            claims=len(claims),
            claims_unknown=sum(row.usd is None for row in claims),
            claim_until=min((row.until for row in claims if row.until), default=None),
            reserved=sum(row.paid or 0.0 for row in endings),
            endings=len(endings),
            ends_on=min((row.until for row in endings if row.until), default=None),
        )
        return month if simulated is not None or rehearsal else replace(month, apart=self.total(simulated=True).lost)


def open_ledger(archive: Archive, declared: Declarations) -> Ledger:
    """The ledger of every open finding, without moves."""
    return read_ledger(archive, declared, costed_findings(archive, declared, archive.findings(OPEN_STATES)).values())


def read_ledger(
    archive: Archive,
    declared: Declarations | None,
    entries: Iterable[CostedFinding],
    savings: Savings | None = None,
    names: Collection[str] | None = None,
) -> Ledger:
    """The ledger of findings with their costs, and of the credits that trials of declared providers prove. `names`: of these providers
    alone."""
    every = sorted(entries, key=_age)
    return ledger_of(every, savings, trial_credits(archive, declared, (e.finding for e in every), names))


def _age(entry: CostedFinding) -> tuple[date, str]:
    return entry.opened, entry.finding.finding_id


def ledger_of(entries: Iterable[CostedFinding], savings: Savings | None = None, credits: Iterable[TrialCredit] = ()) -> Ledger:
    """The ledger of findings with their costs. `credits`: that trials prove."""
    open_ones = {e.finding.finding_id: e for e in entries if e.finding.state in OPEN_STATES}
    led = witnesses(e.finding for e in open_ones.values())

    def order(entry: CostedFinding) -> tuple[bool, bool, int, float, int, bool, str]:
        # The wider cause first, then the dearer of two findings about one pace, which rest on one baseline.
        f = entry.finding
        return (
            f.finding_id in led,
            f.cause is None,
            -len(f.series) if f.cause is not None else 0,
            -abs(entry.cost.usd or 0.0),
            gravity(f.severity),
            FirstChoice.has(f),
            f.finding_id,
        )

    taken: dict[tuple[str, bool], str] = {}  # what is paid, and whether it is more → the row that has it
    amounts: dict[str, float] = {}
    shares: dict[str, dict[str, float]] = {}
    row_of: dict[str, str] = {}
    for name, entry in sorted(open_ones.items(), key=lambda item: order(item[1])):
        root = _root(name, led)
        if entry.cost.usd is None:
            continue
        parts = [((part, usd >= 0), usd) for part, usd in entry.cost.parts or ((name, entry.cost.usd),)]
        new = [(part, usd) for part, usd in parts if part not in taken]
        row_of[name] = root if new else taken[parts[0][0]]
        if new:
            amounts[root] = amounts.get(root, 0.0) + sum(usd for _, usd in new)
            taken |= dict.fromkeys((part for part, _ in new), root)
            for (part, _), usd in new:
                place = _place(part, entry)
                own = shares.setdefault(root, {})
                own[place] = own.get(place, 0.0) + abs(usd)
    unpriced = {
        name: None
        for name, e in open_ones.items()
        if name not in led and name not in amounts and name not in row_of and e.cost.usd is None and e.cost.text and not e.cost.free
    }
    counts: dict[str, list[CostedFinding]] = {}
    for name, row in row_of.items():
        if name != row:
            counts.setdefault(row, []).append(open_ones[name])
    rows = [
        replace(_row(open_ones[name], usd, counts.get(name, ())), parts=tuple(shares.get(name, {}).items()))
        for name, usd in {**amounts, **unpriced}.items()
    ]
    rows += [_ending(entry) for entry in open_ones.values() if entry.finding.ending is not None]
    for claim in _claims(open_ones.values(), credits):
        rows.append(claim)
        if claim.row_id in open_ones:  # of a finding with an amount of its own, that one's row says what it costs
            row_of = {**dict.fromkeys(claim.counts, claim.row_id), **row_of}
    moves = [_move(move) for move in savings.moves] if savings is not None else []
    return Ledger(
        tuple(sorted([*rows, *moves], key=lambda r: (r.usd is None, r.sort == "claim", -(r.usd or 0.0), r.row_id))), savings, row_of
    )


def _root(name: str, led: Mapping[str, str]) -> str:
    """The finding that leads its cause; a witness may itself lead others."""
    seen = {name}
    while (following := led.get(name)) is not None and following not in seen:
        seen.add(name := following)
    return name


def _place(part: str, entry: CostedFinding) -> str:
    """The provider of what is paid, whose name it begins with."""
    return part.partition(" ")[0] if entry.cost.parts else entry.finding.provider


def _claims(entries: Iterable[CostedFinding], credits: Iterable[TrialCredit]) -> list[LedgerRow]:
    """A row for each credit: promises of a month that share one have one, whatever shows them broken."""
    same: dict[tuple[str, ...], list[CostedFinding]] = {}
    for entry in sorted(entries, key=_age):
        if (credit := entry.finding.credit) is not None:
            shared = (entry.finding.provider, credit.month, str(credit.share), entry.claim)
            same.setdefault(shared if credit.shared else (entry.finding.finding_id,), []).append(entry)
    rows = {}
    for key, (lead, *others) in same.items():
        row, credit = _row(lead, None, others), lead.finding.credit
        usd = lead.cost.credit
        assert credit is not None  # as collected
        until = date.fromisoformat(credit.until) if credit.until else None
        rows[key] = replace(
            row, sort="claim", usd=usd, until=until, ends="claim", claim=lead.claim,
            parts=() if usd is None else ((lead.finding.provider, usd),), prices="",
        )  # fmt: skip
    for proven in credits:
        key = (proven.provider, proven.month, str(proven.share), proven.claim)
        if (shown := rows.get(key)) is not None:  # granted once for the month: another witness shows it too
            rows[key] = replace(shown, counts=(*shown.counts, *(f for f in proven.findings if f not in shown.counts)))
        else:
            rows[key] = _proven(proven)
    return list(rows.values())


def _proven(credit: TrialCredit) -> LedgerRow:
    return LedgerRow(
        row_id=f"claim/{credit.provider}/{'+'.join(credit.promises)}",
        sort="claim",
        what=broke_promises(credit.provider, credit.promises),
        provider=credit.provider,
        providers=(credit.provider,),
        usd=credit.usd,
        ends="claim",
        until=credit.until,
        simulated=credit.simulated,
        counts=credit.findings,
        parts=() if credit.usd is None else ((credit.provider, credit.usd),),
        claim=credit.claim,
    )


def _ending(entry: CostedFinding) -> LedgerRow:
    ending = entry.finding.ending
    assert ending is not None  # as the caller chose
    row = replace(_row(entry, None, ()), sort="ending", usd=ending.renewing, paid=ending.paid)
    return replace(row, until=date.fromisoformat(ending.until), ends="renewal")


def _row(entry: CostedFinding, change: float | None, counts: Sequence[CostedFinding]) -> LedgerRow:
    finding = entry.finding
    return LedgerRow(
        row_id=finding.finding_id,
        sort="gain" if change is not None and change < 0 else "cost",
        what=headline(finding),
        provider=finding.provider,
        providers=finding.cause.providers if finding.cause is not None else (finding.provider,),
        usd=None if change is None else abs(change),
        ends=type_of(finding).accepting or "repair",
        owner=tuple(sorted({team for e in (entry, *counts) for team in e.teams})),
        prices=next((text for e in (entry, *counts) if (text := e.cost.basis or e.cost.text)), ""),
        since=entry.opened,
        until=next((e.cost.until for e in (entry, *counts) if e.cost.until), None),
        simulated=finding.simulated,
        counts=tuple(sorted(e.finding.finding_id for e in counts)),
    )


def _move(move: Switch) -> LedgerRow:
    return LedgerRow(
        row_id=f"move/{move.workload}/{move.provider}/{move.to}",
        sort="move",
        what=f"{move.workload} moves from {move.provider} to {move.to}",
        provider=move.provider,
        providers=(move.provider,),
        usd=move.usd or None,
        ends="move",
        owner=move.teams,
        share=move.saving,
    )
