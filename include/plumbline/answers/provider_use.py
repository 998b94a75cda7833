"""What trials take of a provider: their use so far, what the next ones are expected to use, and the balance of its monthly budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice

from plumbline.analysis.cost.budget import Balance, BudgetUse, budget_use, sum_uses
from plumbline.analysis.document_sample import held_seconds
from plumbline.analysis.prices.book import all_with_effective_prices, with_effective_prices
from plumbline.archive import Archive
from plumbline.archive.records import TrialView
from plumbline.declarations import AnyWorkload, Declarations, Provider, series_key
from plumbline.launch.monthly_estimate import MonthlyEstimate, estimate_month, estimate_workload, limit_s
from plumbline.results import HeldPart

CAPACITY_HELD_S = 120.0
"""Seconds that the pod of a capacity check may hold its node."""


_CAMPAIGNS, _TRIALS = 3, 5
"""The newest trials of a series' newest campaigns, from which the next one's use is expected."""


def budget_balance(archive: Archive, provider: Provider, now: datetime, apart: str | None = None) -> Balance:
    """The provider's budget of the month of `now` and its use. `apart`: the Airflow run whose attempts do not count. ValueError without a budget."""
    if provider.budget is None:
        raise ValueError(f"{provider.name} declares no budget; expected one such as {{usd_per_month: 5000}}")
    month = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    uses = [use for attempt, use in attempt_uses(archive, provider, month) if apart is None or attempt.run_id != apart]
    held = (
        one
        for one in archive.availability_checks(provider.name, "capacity", provider.simulated, (month, now + timedelta(microseconds=1)))
        if one.seconds is not None
    )
    uses += (use_now(archive, provider, CAPACITY_HELD_S, one.at, one.gpus) for one in held)
    return Balance(provider.name, f"{month:%Y-%m}", provider.budget, sum_uses(uses))


def over_budget(archive: Archive, provider: Provider, now: datetime, limit_s: float, what: str) -> str | None:
    """Why the provider's budget does not permit `what`, which holds a node for `limit_s`; None if it does, or there is no budget."""
    if provider.budget is None:
        return None
    left = budget_balance(archive, provider, now)
    why = left.with_used(use_now(archive, provider, limit_s, now)).exceeded
    return None if why is None else f"{what} skipped: it would exceed the budget of {provider.name} for {left.month} ({why})"


def attempt_uses(archive: Archive, provider: Provider, since: datetime) -> Iterator[tuple[TrialView, BudgetUse]]:
    """Each attempt on the provider that began at `since` or later, and what it took at the effective price of its day."""
    priced = with_effective_prices(provider, archive.prices(provider.name))
    for attempt, document in archive.held_since(provider.name, since):
        yield attempt, _use(priced, attempt, document)


def campaign_uses(archive: Archive, declared: Declarations, campaigns: Sequence[str]) -> Iterator[tuple[TrialView, BudgetUse]]:
    """The use of each attempt of these campaigns; without a declaration a provider has no price."""
    priced = all_with_effective_prices(declared.providers.values(), archive.prices(sorted(declared.providers)))
    for attempt, document in archive.held_in(campaigns):
        provider = priced.get(attempt.provider)
        yield attempt, undeclared_use(attempt.provider) if provider is None else _use(provider, attempt, document)


def undeclared_use(name: str) -> BudgetUse:
    """The use of a provider without a declaration: no price."""
    return BudgetUse(usd=None, unpriced=f"{name} is no longer declared", share=None)


def _use(priced: Provider, attempt: TrialView, document: HeldPart | None) -> BudgetUse:
    gpus, tokens = (None, ()) if document is None else (document.trial.workload.gpus, document.usage)
    return budget_use(priced, _held_s(attempt, document, priced), (attempt.started_at or attempt.planned_at).date(), gpus, tokens)


def expected_use(archive: Archive, provider: Provider, workload: AnyWorkload, now: datetime, apart: str | None = None) -> BudgetUse:
    """The expected use of one trial: as the last ones of its series; without any, as estimated by `launch.monthly_estimate`, within its launcher's
    limit."""
    priced, day = with_effective_prices(provider, archive.prices(provider.name)), now.astimezone(timezone.utc).date()
    one = estimate_workload(priced, workload, day, _last_held_s(archive, provider, series_key(workload, provider), apart))
    return budget_use(priced, one.trial_s * one.nodes, day, workload.gpus)


def use_now(archive: Archive, provider: Provider, held_s: float, now: datetime, gpus: int | None = None) -> BudgetUse:
    """The use of `gpus` accelerators (None: all) of the provider's instances for `held_s` seconds, summed over the nodes, at the effective price."""
    return budget_use(with_effective_prices(provider, archive.prices(provider.name)), held_s, now.astimezone(timezone.utc).date(), gpus)


def forecast_month(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> MonthlyEstimate:
    """A whole monthly rerun, every slot and repeat, at the effective price: by the times of the last trials of each series where there are any."""
    workloads = declared.monthly_workloads(provider)
    durations_s = {w.name: _last_held_s(archive, provider, series_key(w, provider)) for w in workloads}
    priced = with_effective_prices(provider, archive.prices(provider.name))
    return estimate_month(declared, priced, now.astimezone(timezone.utc).date(), durations_s)


def _last_held_s(archive: Archive, provider: Provider, key: str, apart: str | None = None) -> list[float]:
    """Seconds, over all nodes, of the last usable trials of a series, the newest first."""
    campaigns = reversed(archive.series_campaigns(key, _CAMPAIGNS))
    newest = (t for campaign_id, _ in campaigns for t in reversed(archive.trials(campaign_id, key)) if t.usable)
    own = (t for t in newest if apart is None or t.run_id != apart)
    times = (_held_s(t, archive.held_part(t.trial_id, t.attempt), provider) for t in own)
    return list(islice((seconds for seconds in times if seconds > 0), _TRIALS))


def _held_s(attempt: TrialView, document: HeldPart | None, provider: Provider) -> float:
    if attempt.status == "missing":
        return 0.0
    if document is None:
        return limit_s(provider, 1)
    seconds = held_seconds(document)
    if seconds is not None:
        return seconds
    # Its launcher saw the end: without a span it never held a node.
    return 0.0 if document.launch is not None else limit_s(provider, document.trial.workload.nodes)
