"""Monthly budget of a provider: skip trials that exceed it, and open a finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice

from plumbline.analysis.cost.budget import Balance, BudgetUse, budget_use, expected_held_s, rounds_within_budget
from plumbline.analysis.document_sample import held_seconds
from plumbline.analysis.prices.book import with_effective_prices
from plumbline.archive import Archive
from plumbline.archive.records import TrialView
from plumbline.declarations import AnyWorkload, Declarations, Provider, Trial, series_key
from plumbline.findings import Reconciliation
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.launch.plan import KINDS, declared_slots
from plumbline.results import InvalidResult, ResultDocument
from plumbline.results.finding import Finding, Member, finding_id
from plumbline.workflows.findings import apply, readable_findings
from plumbline.workflows.plan import PlannedRun, RunParameters, RunsNotStarted, on_demand_campaign_id, planned_trials, trials_of

_CAMPAIGNS, _TRIALS = 3, 5
"""Of a series, what the next trial is expected to be like: the newest trials of the newest campaigns."""
_SIMULATED_LIMIT_S = 3600.0
"""A simulated trial holds nothing and has no limit; this is what one that nobody saw the time of is counted with."""


def budget_balance(archive: Archive, provider: Provider, now: datetime, apart: str | None = None) -> Balance:
    """The provider's budget of the month of `now` and what is used of it. `apart`: the Airflow run whose attempts
    do not count. ValueError without a budget."""
    if provider.budget is None:
        raise ValueError(f"{provider.name} declares no budget; expected one such as {{usd_per_month: 5000}}")
    month = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    used, priced = BudgetUse(), with_effective_prices(provider, archive.prices(provider.name))
    for attempt in archive.held_since(provider.name, month):
        if apart is None or attempt.run_id != apart:
            document = _document(archive, attempt)
            gpus = None if document is None else document.trial.workload.gpus
            used += budget_use(priced, _held_s(attempt, document, provider), (attempt.started_at or attempt.planned_at).date(), gpus)
    return Balance(provider.name, f"{month:%Y-%m}", provider.budget, used)


def expected_use(archive: Archive, provider: Provider, workload: AnyWorkload, now: datetime, apart: str | None = None) -> BudgetUse:
    """What one trial of the workload on the provider is expected to use: like the last ones of its series; without any, as `plumbline check`
    estimates it (`launch.month`), and at most what its launcher allows."""
    held = list(islice(_last_held_s(archive, provider, series_key(workload, provider), apart), _TRIALS))
    estimated = min(workload.nodes * estimate_trial_s(workload, provider), limit_s(provider, workload.nodes))
    return use_now(archive, provider, expected_held_s(held, estimated), now, workload.gpus)


def use_now(archive: Archive, provider: Provider, held_s: float, now: datetime, gpus: int | None = None) -> BudgetUse:
    """What holding `gpus` accelerators (None: all) of the provider's instances for `held_s` seconds (summed over the nodes) takes at the
    price that holds now."""
    return budget_use(with_effective_prices(provider, archive.prices(provider.name)), held_s, now.astimezone(timezone.utc).date(), gpus)


def monthly_use(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> BudgetUse:
    """What a whole monthly rerun of the provider is expected to use: every slot and repeat."""
    total = BudgetUse()
    for workload in declared.monthly_workloads(provider):
        one = expected_use(archive, provider, workload, now)
        total += one.times(len(declared_slots(provider, workload)) * workload.repeats.per_slot)
    return total


def _last_held_s(archive: Archive, provider: Provider, key: str, apart: str | None) -> Iterator[float]:
    """What the usable trials of a series took, the newest first."""
    for campaign_id, _ in reversed(archive.series_campaigns(key, _CAMPAIGNS)):
        for trial in reversed(archive.trials(campaign_id, key)):
            if (
                trial.usable
                and (apart is None or trial.run_id != apart)
                and (seconds := _held_s(trial, _document(archive, trial), provider)) > 0
            ):
                yield seconds


def limit_s(provider: Provider, nodes: int) -> float:
    """Seconds, over all nodes, that a trial can hold the provider at the most."""
    return nodes * (_SIMULATED_LIMIT_S if provider.simulated else provider.launcher.trial_limit_s)


def _document(archive: Archive, attempt: TrialView) -> ResultDocument | None:
    try:
        return archive.document(attempt.trial_id, attempt.attempt)
    except InvalidResult:
        return None


def _held_s(attempt: TrialView, document: ResultDocument | None, provider: Provider) -> float:
    if attempt.status == "missing":
        return 0.0
    if document is None:
        return limit_s(provider, 1)
    held = held_seconds(document)
    if held is not None:
        return held
    # Whoever launched it saw it to its end: what has no span then never had a place.
    return 0.0 if document.launch is not None else limit_s(provider, document.trial.workload.nodes)


# The hard stop of a provider's monthly budget: what of a plan is left out, and the finding that says so. No Airflow in here.
#
# A run's trials are cut at whole rounds, in the order in which they would run: a round is one repeat in one slot of everything that was asked
# for, so that every series keeps the same repeats and none is half measured. What does not fit ends the plan; nothing smaller slips in behind.
# All lanes of a run are cut together, and what the run itself has measured already does not count as used: each lane, and a lane that is
# planned again, cuts alike.


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


def apply_budget(archive: Archive, provider: Provider, trials: Sequence[Trial], now: datetime) -> Cut:
    """The trials of one run on one provider, of all lanes, held against what is left of the month. The provider declares a budget."""

    apart = next((t.origin.run_id for t in trials if t.origin is not None), None)
    standing = budget_balance(archive, provider, now, apart)
    one = {t.workload.name: t.workload for t in trials}
    uses = {name: expected_use(archive, provider, workload, now, apart) for name, workload in one.items()}
    rounds: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        rounds.setdefault((trial.slot, trial.repeat), []).append(trial)
    ordered = [rounds[key] for key in sorted(rounds)]
    taken = [_sum(uses[t.workload.name] for t in several) for several in ordered]
    fit, why = rounds_within_budget(standing, taken)
    kept, left_out = (tuple(t for several in part for t in several) for part in (ordered[:fit], ordered[fit:]))
    return Cut(provider, standing, standing.with_used(_sum(taken[:fit])), kept, left_out, why)


def budget_cuts(archive: Archive, declared: Declarations, planned: Mapping[str, Sequence[Trial]], now: datetime) -> dict[str, Cut]:
    """The cut of each provider that declares a budget, of trials that are planned but not asked for yet, by provider."""
    return {
        name: apply_budget(archive, declared.providers[name], trials, now)
        for name, trials in planned.items()
        if declared.providers[name].budget is not None
    }


def budget_blocks(
    archive: Archive, declared: Declarations, provider: Provider, workloads: tuple[str, ...] | None, now: datetime
) -> str | None:
    """Why a rerun of these workloads (None: of everything that runs monthly) would measure nothing now; None if it would measure.

    A rerun that is not even started leaves the same finding as one that is cut, once a month.
    """
    if provider.budget is None:
        return None
    asked = RunParameters(on_demand_campaign_id(now), "a change of the provider", workloads=workloads)
    trials = [trial for kind in KINDS for trial in trials_of(asked, declared, provider, kind, now)]
    done = apply_budget(archive, provider, trials, now)
    if done.kept or not trials:
        return None
    if not _of_month(_open_findings(archive, provider), done.balance.month):
        store_budget_finding(archive, done, now)
    return f"{done}. To go on: {budget_remedy(provider)}"


def store_budget_finding(archive: Archive, done: Cut, now: datetime) -> Finding | None:
    """Store what the cut means: a finding opens, or goes on, if something was left out, and it is returned.

    What stood of an earlier month, or was left out of this one and is planned now, resolves.
    """
    standing = _open_findings(archive, done.provider)
    this_month = _of_month(standing, done.balance.month)
    planned = {trial.series_key for trial in done.kept}
    resolved = [(old, f"the month is over; {done.balance}") for old in standing if old not in this_month]
    if not done.left_out:
        why = f"the skipped trials are planned in campaign {done.kept[0].campaign_id}; {done.after}" if done.kept else ""
        resolved += [(old, why) for old in this_month if {m.series_key for m in old.members} <= planned]
        apply(archive, Reconciliation(resolved=tuple(resolved)), by=_BY, seen_in="")
        return None
    found = _finding(done, now)
    if this_month:
        found = replace(found, finding_id=this_month[0].finding_id, since=this_month[0].since)
    opened, continued = ((), (found,)) if this_month else ((found,), ())
    apply(archive, Reconciliation(opened, continued, tuple(resolved)), by=_BY, seen_in=done.left_out[0].campaign_id)
    return found


def _open_findings(archive: Archive, provider: Provider) -> list[Finding]:
    views = archive.findings_of(provider.name, "missing_data", unsettled=True)
    return [f for f in readable_findings(views) if f.subject == SUBJECT]


def _of_month(findings: Sequence[Finding], month: str) -> list[Finding]:
    return [f for f in findings if (f.since or "").startswith(month)]


def _resolve(archive: Archive, finding: Finding, why: str) -> None:
    archive.set_finding_state(finding.finding_id, "resolved", by=_BY, why=why)


def budget_remedy(provider: Provider) -> str:
    """What somebody can do about a budget that is reached."""
    return (
        f"raise `budget` ({provider.budget}) in the declaration of {provider.name}, ask for less (`plumbline trigger {provider.name} "
        f"--workload … --repeats …`), or wait for the next month; `plumbline budget {provider.name}` shows what is left"
    )


def _finding(done: Cut, now: datetime) -> Finding:
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
        explanation=f"left out: {named}; {done.balance} before that run. To go on: {budget_remedy(provider)}",
        provider=provider.name,
        workload_kind="",
        workload="",
        subject=SUBJECT,
        title=title,
        simulated=provider.simulated,
        members=tuple(members),
    )


def _sum(uses: Iterable[BudgetUse]) -> BudgetUse:
    total = BudgetUse()
    for use in uses:
        total += use
    return total


def apply_budgets(archive: Archive, declared: Declarations, asked: RunParameters, wanted: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The same, with what their budgets carry of it; NotStarted if a budget carries nothing, naming each such provider."""
    planned = planned_trials(declared, asked, [start.provider for start in wanted])
    done = budget_cuts(archive, declared, planned, datetime.now(timezone.utc))
    if spent := [one for one in done.values() if not one.kept]:
        raise RunsNotStarted("\n".join(f"{one}. To go on: {budget_remedy(one.provider)}" for one in spent))
    return [
        replace(start, trials=len(one.kept), left_out=len(one.left_out), budget=str(one.after))
        if (one := done.get(start.provider))
        else start
        for start in wanted
    ]
