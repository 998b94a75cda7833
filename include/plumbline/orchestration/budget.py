"""The hard stop of a provider's monthly budget: what of a plan is left out, and the finding that says so. No Airflow in here.

A run's trials are cut at whole rounds, in the order in which they would run: a round is one repeat in one slot of everything that was asked
for, so that every series keeps the same repeats and none is half measured. What does not fit ends the plan; nothing smaller slips in behind.
All lanes of a run are cut together, and what the run itself has measured already does not count as used: each lane, and a lane that is
planned again, cuts alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.launch.plan import KINDS
from plumbline.orchestration.asked import Asked, campaign_of, trials_of
from plumbline.prices.budget import Balance, Use, fitting

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Finding

SUBJECT = "budget"
_BY = "budget"
_MOST_NAMED = 3


class BudgetReached(Exception):
    """Nothing of what was asked for fits what is left of the month; the message says which limit it would go past, and how to go on."""


@dataclass(frozen=True)
class Cut:
    """What of a run's trials the budget carries. `why`: the limit that the first trial of `left_out` would go past; None if all fit.

    `balance` is without the run, `after` with what is kept of it, by what such trials took before.
    """

    provider: Provider
    balance: Balance
    after: Balance
    kept: tuple[Trial, ...]
    left_out: tuple[Trial, ...]
    why: str | None

    def __str__(self) -> str:
        if self.why is None:
            return f"{self.provider.name}: {self.after} after this run"
        return (
            f"{self.provider.name}: {len(self.left_out)} of {len(self.kept) + len(self.left_out)} trials go past the budget of "
            f"{self.balance.month} and are left out ({self.why}); {self.balance} before this run"
        )


def cut(archive: Archive, provider: Provider, trials: Sequence[Trial], now: datetime) -> Cut:
    """The trials of one run on one provider, of all lanes, held against what is left of the month. The provider declares a budget."""
    from plumbline.reports.spending import balance, expected_use

    apart = next((t.origin.run_id for t in trials if t.origin is not None), None)
    standing = balance(archive, provider, now, apart)
    one = {t.workload.name: t.workload for t in trials}
    uses = {name: expected_use(archive, provider, workload, now, apart) for name, workload in one.items()}
    rounds: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        rounds.setdefault((trial.slot, trial.repeat), []).append(trial)
    ordered = [rounds[key] for key in sorted(rounds)]
    taken = [_sum(uses[t.workload.name] for t in several) for several in ordered]
    fit, why = fitting(standing, taken)
    kept, left_out = (tuple(t for several in part for t in several) for part in (ordered[:fit], ordered[fit:]))
    return Cut(provider, standing, standing.with_used(_sum(taken[:fit])), kept, left_out, why)


def cuts(archive: Archive, declared: Declarations, planned: Mapping[str, Sequence[Trial]], now: datetime) -> dict[str, Cut]:
    """The cut of each provider that declares a budget, of trials that are planned but not asked for yet, by provider."""
    return {
        name: cut(archive, declared.providers[name], trials, now)
        for name, trials in planned.items()
        if declared.providers[name].budget is not None
    }


def holds_back(
    archive: Archive, declared: Declarations, provider: Provider, workloads: tuple[str, ...] | None, now: datetime
) -> str | None:
    """Why a rerun of these workloads (None: of everything that runs monthly) would measure nothing now; None if it would measure.

    A rerun that is not even started leaves the same finding as one that is cut, once a month.
    """
    if provider.budget is None:
        return None
    asked = Asked(campaign_of(now), "a change of the provider", workloads=workloads)
    trials = [trial for kind in KINDS for trial in trials_of(asked, declared, provider, kind, now)]
    done = cut(archive, provider, trials, now)
    if done.kept or not trials:
        return None
    if not _of_month(_standing(archive, provider), done.balance.month):
        keep(archive, done, now)
    return f"{done}. To go on: {how_to_go_on(provider)}"


def keep(archive: Archive, done: Cut, now: datetime) -> Finding | None:
    """Store what the cut means: a finding opens, or goes on, if something was left out, and it is returned.

    What stood of an earlier month, or was left out of this one and is planned now, resolves.
    """
    from plumbline.orchestration.stored import record_of

    standing = _standing(archive, done.provider)
    this_month = _of_month(standing, done.balance.month)
    planned = {trial.series_key for trial in done.kept}
    for old in standing:
        if old not in this_month:
            _resolve(archive, old, f"the month is over; {done.balance}")
        elif not done.left_out and {m.series_key for m in old.members} <= planned:
            _resolve(archive, old, f"what was left out is planned in campaign {done.kept[0].campaign_id}; {done.after}")
    if not done.left_out:
        return None
    found = _finding(done, now)
    if this_month:
        found = replace(found, finding_id=this_month[0].finding_id, since=this_month[0].since)
        archive.continue_finding(record_of(found), done.left_out[0].campaign_id, found.headline)
    else:
        archive.save_findings([record_of(found)])
    return found


def _standing(archive: Archive, provider: Provider) -> list[Finding]:
    from plumbline.orchestration.stored import readable

    views = archive.findings_of(provider.name, "missing_data", unsettled=True)
    return [f for f in readable(views) if f.subject == SUBJECT]


def _of_month(findings: Sequence[Finding], month: str) -> list[Finding]:
    return [f for f in findings if (f.since or "").startswith(month)]


def _resolve(archive: Archive, finding: Finding, why: str) -> None:
    archive.set_finding_state(finding.finding_id, "resolved", by=_BY, why=why)


def how_to_go_on(provider: Provider) -> str:
    """What somebody can do about a budget that is reached."""
    return (
        f"raise `budget` ({provider.budget}) in the declaration of {provider.name}, ask for less (`plumbline trigger {provider.name} "
        f"--workload … --repeats …`), or wait for the next month; `plumbline budget {provider.name}` shows what is left"
    )


def _finding(done: Cut, now: datetime) -> Finding:
    from plumbline.drift.finding import Finding, Member, finding_id

    provider, campaign = done.provider, done.left_out[0].campaign_id
    total, gone = len(done.kept) + len(done.left_out), len(done.left_out)
    members = []
    for key in dict.fromkeys(t.series_key for t in done.left_out):
        own = [t for t in done.left_out if t.series_key == key]
        all_of_it = len(own) + sum(t.series_key == key for t in done.kept)
        name = f"{own[0].workload.kind} {own[0].workload.name}"
        members.append(Member(name, f"{name}: {len(own)} of {all_of_it} trials left out", series_key=key))
    named = ", ".join(m.name for m in members[:_MOST_NAMED]) + (
        f" and {len(members) - _MOST_NAMED} more" if len(members) > _MOST_NAMED else ""
    )
    title = f"budget of {done.balance.month} reached: {gone} of {total} trials left out"
    return Finding(
        finding_id=finding_id(provider.name, campaign, "missing_data", SUBJECT),
        series_key="",
        campaign_id=None,
        since=f"{now.astimezone(timezone.utc):%Y-%m-%d}",
        kind="missing_data",
        severity="warn",
        headline=f"WARN  {'SIMULATED  ' if provider.simulated else ''}{provider.name} · {title} of campaign {campaign} ({done.why})",
        explanation=f"left out: {named}; {done.balance} before that run. To go on: {how_to_go_on(provider)}",
        provider=provider.name,
        workload_kind="",
        workload="",
        subject=SUBJECT,
        title=title,
        simulated=provider.simulated,
        members=tuple(members),
    )


def _sum(uses: Iterable[Use]) -> Use:
    total = Use()
    for use in uses:
        total += use
    return total
