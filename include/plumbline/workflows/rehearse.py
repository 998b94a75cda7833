"""Rehearse months of campaigns on simulated providers, in this process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.failures import RETRIED, TrialFailure
from plumbline.launch.plan import PlanError, RunRequest, declared_slots, plan
from plumbline.metrics.time_spans import month_span
from plumbline.workflows import collect, plan_trials, record, run, validate
from plumbline.workflows.alert import send_alerts
from plumbline.workflows.check_availability import simulate_checks
from plumbline.workflows.lane_outcome import Row
from plumbline.workflows.plan import trial_groups
from plumbline.workflows.review import review_campaign

REASON = "rehearsal with a simulated provider"
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_TRIES = 3


@dataclass(frozen=True)
class RehearsedCampaign:
    """One campaign of one provider: trials by status, and the headlines of its open findings."""

    campaign_id: str
    provider: str
    trials: int
    statuses: dict[str, int]
    findings: tuple[str, ...]


def months_of(text: str, now: datetime) -> tuple[datetime, ...]:
    """The first days of the months of `2026-01..2026-10`, or of one month `2026-10`; PlanError for another format or months to come."""
    ends = [_MONTH.fullmatch(end) for end in text.split("..")]
    if len(ends) > 2 or None in ends:
        raise PlanError(f'"{text}" is not a month or a range of months; expected 2026-10 or 2026-01..2026-10')
    numbers = [int(match[1]) * 12 + int(match[2]) - 1 for match in ends if match is not None]
    begin, end = numbers[0], numbers[-1]
    if end < begin:
        raise PlanError(f'"{text}" ends before it begins; expected 2026-01..2026-10')
    months = tuple(datetime(number // 12, number % 12 + 1, 1, tzinfo=timezone.utc) for number in range(begin, end + 1))
    # The slots of a month are on its first day.
    if months[-1].date() >= now.astimezone(timezone.utc).date():
        raise PlanError(f"{months[-1]:%Y-%m} has not begun yet; expected months whose first day has passed, up to {now:%Y-%m}")
    return months


def simulated(declared: Declarations, names: Sequence[str]) -> Declarations:
    """The declarations with only these simulated providers, enabled; all simulated ones if none is named.

    PlanError for a provider that is unknown or not simulated.
    """
    known = {name: provider for name, provider in declared.providers.items() if provider.simulated}
    for name in names:
        if name not in known:
            what = (
                f'"{name}" is {declared.providers[name].launcher.kind}' if name in declared.providers else f'no provider is called "{name}"'
            )
            raise PlanError(f"{what}; expected a simulated provider: {', '.join(sorted(known)) or '(none is declared)'}")
    chosen = {name: known[name].model_copy(update={"enabled": True}) for name in sorted(set(names) or known)}
    if not chosen:
        raise PlanError("no simulated provider is declared; docs/rehearse-with-simulation.md shows one")
    return replace(declared, providers=chosen)


def trials_in(declared: Declarations, provider: Provider, month: datetime, request: RunRequest) -> list[Trial]:
    """The trials of one provider in one month, each at its slot on the first day, without those of a silent time."""
    slots = sorted({slot for w in declared.workloads_for(provider) for slot in declared_slots(provider, w)})
    trials = []
    for slot in slots:
        at = month.replace(hour=int(slot[:2]), minute=int(slot[3:]))
        trials += plan(declared, provider, replace(request, slot=slot), at)
    return trials


def rehearse_months(
    declared: Declarations,
    months: Sequence[datetime],
    on_campaign: Callable[[RehearsedCampaign], None],
    *,
    workloads: Sequence[str] | None = None,
    repeats: int | None = None,
    alerting: bool = False,
) -> list[RehearsedCampaign]:
    """Launch, collect, check, record and review the campaigns of these months on all providers of `declared`; see `simulated`.

    `on_campaign` is called after each review. Trials with a result are not launched again. `alerting`: send alerts after each campaign, as the
    drift review does. PlanError if no workload fits.
    """
    places = declared.enabled_providers()
    fits = {place.name: {w.name for w in declared.workloads_for(place)} for place in places}
    unknown = sorted(set(workloads or ()) - set().union(*fits.values()))
    if unknown:
        expected = ", ".join(sorted(set().union(*fits.values()))) or "(none)"
        raise PlanError(f"{', '.join(unknown)}: unknown workload on {', '.join(fits)}; expected some of {expected}")
    campaigns = [f"{month:%Y-%m}" for month in months]
    statuses: dict[tuple[str, str], Counter[str]] = {(c, place.name): Counter() for c in campaigns for place in places}
    checked: dict[tuple[str, str], list[Row]] = {key: [] for key in statuses}
    for place in places:
        wanted = None if workloads is None else tuple(w for w in workloads if w in fits[place.name])
        trials = [
            t
            for month in months
            for t in trials_in(declared, place, month, RunRequest(f"{month:%Y-%m}", REASON, workloads=wanted, repeats=repeats))
        ]
        for lane in trial_groups(declared, place):
            specs = [{"campaign_id": trial.campaign_id, "trial_id": trial.trial_id} for trial in lane.of(trials)]
            for trial, spec in zip(lane.of(trials), specs, strict=True):
                launch_with_retries(trial, spec)
                statuses[trial.campaign_id, place.name][collect.collect_trial(spec)["status"]] += 1
            # The checks look at rows one by one: all months in one table cost hardly more than one.
            for row in validate.validate_group(place.name, lane.name, specs) if specs else ():
                checked[row["campaign_id"], place.name].append(row)
    if not any(checked.values()):
        on_demand = sorted({w.name for place in places for w in declared.workloads_for(place)} - set(workloads or ()))
        raise PlanError(
            f"nothing to rehearse on {', '.join(p.name for p in places)} from {campaigns[0]} to {campaigns[-1]}: no monthly "
            "workload fits, or all is silent"
            + (f"; expected some of those on demand: --workload {', '.join(on_demand)}" if on_demand else "")
        )
    done = []
    for campaign_id in campaigns:
        # Month by month: a review must not see the future.
        with open_archive() as archive:
            for row in (row for place in places for row in checked[campaign_id, place.name]):
                record.record_trial(archive, row)
            for place in places:
                simulate_checks(archive, declared, place, *_checked_time(campaign_id))
        for place in places:
            status = statuses[campaign_id, place.name]
            done.append(RehearsedCampaign(campaign_id, place.name, status.total(), dict(status), _reviewed(campaign_id, place.name)))
            on_campaign(done[-1])
        if alerting:
            send_alerts()
    return done


def _checked_time(campaign_id: str) -> tuple[datetime, datetime]:
    """The campaign's month, as far as it has passed."""
    begin, end = month_span(datetime.fromisoformat(f"{campaign_id}-01T00:00:00+00:00"))
    return begin, min(end, datetime.now(timezone.utc))


def launch_with_retries(trial: Trial, spec: dict[str, str]) -> None:
    """Run it unless it has run; retry as Airflow's retry policy does."""
    store = stores.home()
    # A folder without either is of a launch that was killed before it ended.
    ended = ("result.json", "launch.json")
    if any(store.exists(f"{folder}/{file}") for folder in store.attempts(trial.campaign_id, trial.trial_id) for file in ended):
        return
    plan_trials.store_planned_trial(store, trial)
    for _ in range(_TRIES):
        try:
            run.run_trial(spec)
        except TrialFailure as failure:
            if failure.failure_class not in RETRIED:
                return  # recorded by collect: a failed trial is data
        else:
            return


def _reviewed(campaign_id: str, provider: str) -> tuple[str, ...]:
    """Headlines of the open findings after the review."""
    try:
        review_campaign(campaign_id, provider)
    except LookupError:
        return ()  # silent from the beginning
    with open_archive() as archive:
        return tuple(finding.headline for finding in archive.findings_of(provider, unsettled=True))
