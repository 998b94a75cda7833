"""Payments to providers: last month, this month so far, and the forecast of the next, by provider and workload. The command and the page
`spend` show the same rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.analysis.cost.budget import SUMS, Balance, BudgetUse, sum_known, sum_uses
from plumbline.analysis.cost.commitments import Commitment
from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.analysis.decisions.savings import Savings
from plumbline.answers.commitments import contract_commitments
from plumbline.answers.monthly_costs import stored_switches
from plumbline.answers.provider_use import attempt_uses, campaign_uses, forecast_month, undeclared_use
from plumbline.archive import Archive
from plumbline.archive.records import TrialView
from plumbline.declarations import Declarations
from plumbline.words.commitments import commitment_data


@dataclass(frozen=True)
class SpendRow:
    """A workload on a provider, or a sum. `last`, `current`: attempts that began in that month, with failed ones; `coming`: the forecast of a
    monthly rerun, `times` of what. `why`: what of it has no price."""

    provider: str
    workload: str
    simulated: bool
    last: BudgetUse
    current: BudgetUse
    coming: BudgetUse
    times: str = ""

    @property
    def months(self) -> tuple[BudgetUse, BudgetUse, BudgetUse]:
        return self.last, self.current, self.coming

    @property
    def why(self) -> str:
        return "; ".join(dict.fromkeys(use.unpriced for use in self.months if use.unpriced))


@dataclass(frozen=True)
class SpendGroup:
    """Rows of one provider, or of the workloads that the same teams decide about, with their sum under that name. What is simulated is a group of its own."""

    sum: SpendRow
    rows: tuple[SpendRow, ...]


@dataclass(frozen=True)
class Spend:
    """`months`: last, this and next, such as 2026-11. `sums`: of what is paid, and apart of what is simulated. `balances`: the month's budgets. `commitments`: reserved hours.
    `teams`: by workload, those that decide about it. `savings`: what moving would save a month, None without a decision."""

    months: tuple[str, str, str]
    rows: tuple[SpendRow, ...]
    sums: tuple[SpendRow, ...]
    balances: tuple[Balance, ...]
    commitments: tuple[Commitment, ...] = ()
    teams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    savings: Savings | None = None

    @property
    def by_provider(self) -> tuple[SpendGroup, ...]:
        """What was paid most comes first."""
        return _groups(self.rows, lambda row: row.provider)

    @property
    def by_team(self) -> tuple[SpendGroup, ...]:
        """A workload of several teams is in the group of these teams, so that the groups add up to the sums."""
        return _groups(self.rows, lambda row: ", ".join(self.teams.get(row.workload, ())) or NO_TEAM)

    @property
    def view(self) -> dict[str, Any]:
        budgets = [vars(balance) for balance in self.balances]
        rows, sums = spend_data(self.rows), spend_data(self.sums)
        return {
            "months": self.months,
            "rows": rows,
            "sums": sums,
            "budgets": budgets,
            "commitments": [commitment_data(c) for c in self.commitments],
            "by_provider": spend_data(group.sum for group in self.by_provider),
            "by_team": [{"team": row.pop("provider"), **row} for row in spend_data(group.sum for group in self.by_team)],
            "savings": None if self.savings is None else asdict(self.savings),
        }


NO_TEAM = "no team"
"""The group of workloads that no team decides about."""


def _groups(rows: Iterable[SpendRow], name: Callable[[SpendRow], str]) -> tuple[SpendGroup, ...]:
    found: dict[tuple[str, bool], list[SpendRow]] = defaultdict(list)
    for row in rows:
        found[name(row), row.simulated].append(row)
    groups = [SpendGroup(_sum(label, own, simulated), tuple(own)) for (label, simulated), own in found.items()]
    return tuple(sorted(groups, key=lambda group: (-sum(use.usd or 0.0 for use in group.sum.months), group.sum.provider)))


def spend(archive: Archive, declared: Declarations, now: datetime) -> Spend:
    """The month of `now` between its neighbours."""
    this = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before, after = (this - timedelta(days=1)).replace(day=1), (this + timedelta(days=32)).replace(day=1)
    months = (f"{before:%Y-%m}", f"{this:%Y-%m}", f"{after:%Y-%m}")
    rows: list[SpendRow] = []
    balances = []
    for name in sorted({*declared.providers, *archive.provider_names()}):
        provider = declared.providers.get(name)
        uses: dict[tuple[str, str], list[BudgetUse]] = defaultdict(list)
        if provider is None:
            held: Iterable[tuple[TrialView, BudgetUse]] = ((t, undeclared_use(name)) for t, _ in archive.held_since(name, before))
        else:
            held = attempt_uses(archive, provider, before)
        simulated = provider is not None and provider.simulated
        for attempt, use in held:
            uses[attempt.workload, f"{attempt.started_at or attempt.planned_at:%Y-%m}"].append(use)
            simulated |= attempt.source == "simulated"
        coming = {}
        if provider is not None and provider.enabled:
            coming = {each.workload: each for each in forecast_month(archive, declared, provider, now).scheduled}
        workloads = sorted({*coming, *(workload for workload, month in uses if month in months)})
        own = [
            SpendRow(
                name,
                workload,
                simulated,
                sum_uses(uses[workload, months[0]]),
                sum_uses(uses[workload, months[1]]),
                coming[workload].use if workload in coming else BudgetUse(),
                ("measured" if coming[workload].measured else "estimated") if workload in coming else "",
            )
            for workload in workloads
        ]
        rows += own
        if provider is not None and provider.budget is not None:
            balances.append(Balance(name, months[1], provider.budget, sum_uses(row.current for row in own)))
    sums = tuple(
        _sum(label, [r for r in rows if r.simulated is made_up], made_up)
        for label, made_up in SUMS
        if any(r.simulated is made_up for r in rows)
    )
    teams: dict[str, set[str]] = defaultdict(set)
    for team, _, preference in declared.choices():
        for workload in preference.workloads:
            teams[workload].add(team)
    stored = read_decisions(archive.newest_decisions())
    return Spend(
        months,
        tuple(rows),
        sums,
        tuple(balances),
        contract_commitments(archive, declared, now),
        {workload: tuple(sorted(names)) for workload, names in teams.items()},
        stored_switches(archive, declared, stored) if stored else None,
    )


def spend_by_campaign(archive: Archive, declared: Declarations, campaigns: Sequence[str]) -> dict[tuple[str, bool], BudgetUse]:
    """(campaign, simulated) → what its attempts are paid."""
    uses: dict[tuple[str, bool], list[BudgetUse]] = defaultdict(list)
    for attempt, use in campaign_uses(archive, declared, campaigns):
        uses[attempt.campaign_id, attempt.source == "simulated"].append(use)
    return {key: sum_known(own) for key, own in uses.items()}


def _sum(label: str, rows: Iterable[SpendRow], simulated: bool) -> SpendRow:
    """The sum without parts that have no price; `why` names them, and the sum is then a lower bound."""
    last, current, coming = (sum_known(column) for column in zip(*(row.months for row in rows), strict=True))
    return SpendRow(label, "", simulated, last, current, coming)


FIELDS = ("last", "this", "next")


def spend_data(rows: Iterable[SpendRow]) -> list[dict[str, str | bool | float | None]]:
    """Rows or sums as plain values in USD, for JSON and CSV."""
    return [
        {
            "provider": row.provider,
            "workload": row.workload,
            "simulated": row.simulated,
            **{
                f"{field}_{name}": value
                for field, use in zip(FIELDS, row.months, strict=True)
                for name, value in (("paid", use.usd), ("share", use.share))
            },
            "forecast_from": row.times,
            "unpriced": row.why,
        }
        for row in rows
    ]
