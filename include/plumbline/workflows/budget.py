"""Monthly budget of a provider: skip trials that exceed it, and open a finding.

A run is cut at whole rounds (one repeat in one slot of everything requested), so that no series is half measured. All lanes of a run are cut
alike: the run's own attempts do not count as used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from plumbline.analysis.cost.budget import Balance, rounds_within_budget, sum_uses
from plumbline.answers.findings import readable_findings
from plumbline.answers.provider_use import budget_balance, expected_use
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider, Trial
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.types.spent_budget import SpentBudget
from plumbline.launch.plan import RunRequest, plan, planned_trials
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding, Member
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import PlannedRun, RunsNotStarted, on_demand_campaign_id

_BY = "budget"


class BudgetReached(Exception):
    """No requested trial fits the rest of the month's budget; the message names the limit and the options."""


@dataclass(frozen=True)
class Cut:
    """A run's trials that fit the budget. `why`: the limit that the first trial of `left_out` exceeds; None if all fit.

    `balance`: without the run; `after`: with the expected use of `kept`.
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
            f"{self.provider.name}: {len(self.left_out)} of {len(self.kept) + len(self.left_out)} trials exceed the budget of "
            f"{self.balance.month} and are skipped ({self.why}); {self.balance} before this run"
        )

    @property
    def advice(self) -> str:
        """The cut, and the options of a person."""
        return f"{self}. To continue: {budget_remedy(self.provider)}"


def apply_budget(archive: Archive, provider: Provider, trials: Sequence[Trial], now: datetime) -> Cut:
    """Cut one run's trials on one provider, of all lanes, to the rest of the month's budget, which the provider must declare."""
    apart = next((t.origin.run_id for t in trials if t.origin is not None), None)
    balance = budget_balance(archive, provider, now, apart)
    workloads = {t.workload.name: t.workload for t in trials}
    uses = {name: expected_use(archive, provider, workload, now, apart) for name, workload in workloads.items()}
    rounds: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        rounds.setdefault((trial.slot, trial.repeat), []).append(trial)
    ordered = [rounds[key] for key in sorted(rounds)]
    taken = [sum_uses(uses[t.workload.name] for t in several) for several in ordered]
    fit, why = rounds_within_budget(balance, taken)
    affordable, left_out = (tuple(t for several in part for t in several) for part in (ordered[:fit], ordered[fit:]))
    return Cut(provider, balance, balance.with_used(sum_uses(taken[:fit])), affordable, left_out, why)


def budget_cuts(archive: Archive, declared: Declarations, planned: Mapping[str, Sequence[Trial]], now: datetime) -> dict[str, Cut]:
    """Provider with a budget → the cut of its planned trials."""
    return {
        name: apply_budget(archive, declared.providers[name], trials, now)
        for name, trials in planned.items()
        if declared.providers[name].budget is not None
    }


def budget_blocks(
    archive: Archive, declared: Declarations, provider: Provider, workloads: tuple[str, ...] | None, now: datetime
) -> str | None:
    """Why the budget permits no trial of a rerun of these workloads (None: all monthly ones); None if it permits any.

    A rerun without any trial opens the same finding as one that is cut, once a month.
    """
    if provider.budget is None:
        return None
    request = RunRequest(on_demand_campaign_id(now), "a change of the provider", workloads=workloads)
    trials = plan(declared, provider, request, now)
    done = apply_budget(archive, provider, trials, now)
    if done.kept or not trials:
        return None
    if not _of_month(_open_findings(archive, provider), done.balance.month):
        store_budget_finding(archive, done, now)
    return done.advice


def store_budget_finding(archive: Archive, done: Cut, now: datetime) -> Finding | None:
    """Open or continue, and return, the finding of a cut with skipped trials.

    Findings of earlier months resolve, and this month's if all its trials are planned now.
    """
    open_findings = _open_findings(archive, done.provider)
    this_month = _of_month(open_findings, done.balance.month)
    planned = {trial.series_key for trial in done.kept}
    resolved = [(old, f"resolved: the month ended; {done.balance}") for old in open_findings if old not in this_month]
    if not done.left_out:
        why = f"resolved: campaign {done.kept[0].campaign_id} plans the skipped trials; {done.after}" if done.kept else ""
        resolved += [(old, why) for old in this_month if {m.series_key for m in old.members} <= planned]
        apply(archive, Reconciliation(resolved=tuple(resolved)), by=_BY, seen_in="")
        return None
    finding = _finding(done, now)
    if this_month:
        finding = replace(finding, finding_id=this_month[0].finding_id, since=this_month[0].since)
    opened, continued = ((), (finding,)) if this_month else ((finding,), ())
    apply(archive, Reconciliation(opened, continued, tuple(resolved)), by=_BY, seen_in=done.left_out[0].campaign_id)
    return finding


def _open_findings(archive: Archive, provider: Provider) -> list[Finding]:
    views = archive.findings_of(provider.name, "missing_data", unsettled=True)
    return [f for f in readable_findings(views) if SpentBudget.has(f)]


def _of_month(findings: Sequence[Finding], month: str) -> list[Finding]:
    return [f for f in findings if (f.since or "").startswith(month)]


def budget_remedy(provider: Provider) -> str:
    return (
        f"raise `budget` ({provider.budget}) in the declaration of {provider.name}, request less (`plumbline trigger {provider.name} "
        f"--workload … --repeats …`), or wait for the next month; `plumbline budget {provider.name}` shows the balance"
    )


def _finding(done: Cut, now: datetime) -> Finding:
    provider, campaign = done.provider, done.left_out[0].campaign_id
    total, gone = len(done.kept) + len(done.left_out), len(done.left_out)
    members = []
    for key in dict.fromkeys(t.series_key for t in done.left_out):
        own = [t for t in done.left_out if t.series_key == key]
        all_of_it = len(own) + sum(t.series_key == key for t in done.kept)
        name = f"{own[0].workload.kind} {own[0].workload.name}"
        members.append(Member(name, f"{name}: {len(own)} of {all_of_it} trials skipped", series_key=key))
    title = f"budget of {done.balance.month} reached: {gone} of {total} trials skipped"
    return provider_finding(
        provider.name,
        "missing_data",
        SpentBudget.subject,
        began=campaign,
        since=f"{now.astimezone(timezone.utc):%Y-%m-%d}",
        severity="warn",
        title=title,
        evidence=f"{title} in campaign {campaign} ({done.why})",
        explanation=f"skipped: {shorten([m.name for m in members])}; {done.balance} before that run. To continue: {budget_remedy(provider)}",
        simulated=provider.simulated,
        members=tuple(members),
    )


def apply_budgets(archive: Archive, declared: Declarations, request: RunRequest, wanted: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs cut to their budgets; RunsNotStarted if a budget permits no trial, with each such provider."""
    planned = planned_trials(declared, request, [start.provider for start in wanted])
    done = budget_cuts(archive, declared, planned, datetime.now(timezone.utc))
    if spent := [one for one in done.values() if not one.kept]:
        raise RunsNotStarted("\n".join(one.advice for one in spent))
    return [
        replace(start, trials=len(one.kept), left_out=len(one.left_out), budget=str(one.after))
        if (one := done.get(start.provider))
        else start
        for start in wanted
    ]
