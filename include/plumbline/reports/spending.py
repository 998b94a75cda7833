"""What a provider was used for in a month, from the archive: the time that every attempt held it, at the price of its day
(the accepted one, else the declared one).

Everything that ran counts, also what failed, was rejected or was repeated. An attempt counts in the month in which it began. One that nobody
saw the time of, although it was launched, counts with the limit that its launcher gives a trial; one that never got a place held nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

from plumbline.declarations import AnyWorkload, Declarations, Provider, SimulatedLauncher, series_key
from plumbline.launch.month import estimated_s
from plumbline.launch.plan import declared_slots
from plumbline.prices.budget import Balance, Use, expected_s, use_of
from plumbline.reports.numbers import held_s
from plumbline.reports.priced import at_accepted_prices
from plumbline.results import BadResult, ResultDocument

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.views import TrialView

_CAMPAIGNS, _TRIALS = 3, 5
"""Of a series, what the next trial is expected to be like: the newest trials of the newest campaigns."""
_SIMULATED_LIMIT_S = 3600.0
"""A simulated trial holds nothing and has no limit; this is what one that nobody saw the time of is counted with."""


def balance(archive: Archive, provider: Provider, now: datetime, apart: str | None = None) -> Balance:
    """The provider's budget of the month of `now` and what is used of it. `apart`: the Airflow run whose attempts
    do not count. ValueError without a budget."""
    if provider.budget is None:
        raise ValueError(f"{provider.name} declares no budget; expected one such as {{usd_per_month: 5000}}")
    month = now.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    used, priced = Use(), at_accepted_prices(archive, provider)
    for attempt in archive.held_since(provider.name, month):
        if apart is None or attempt.run_id != apart:
            document = _document(archive, attempt)
            gpus = None if document is None else document.trial.workload.gpus
            used += use_of(priced, _held_s(attempt, document, provider), (attempt.started_at or attempt.planned_at).date(), gpus)
    return Balance(provider.name, f"{month:%Y-%m}", provider.budget, used)


def expected_use(archive: Archive, provider: Provider, workload: AnyWorkload, now: datetime, apart: str | None = None) -> Use:
    """What one trial of the workload on the provider is expected to use: like the last ones of its series; without any, as `plumbline check`
    estimates it (`launch.month`), and at most what its launcher allows."""
    held = list(islice(_last_held_s(archive, provider, series_key(workload, provider), apart), _TRIALS))
    estimated = min(workload.nodes * estimated_s(workload, provider), limit_s(provider, workload.nodes))
    return use_now(archive, provider, expected_s(held, estimated), now, workload.gpus)


def use_now(archive: Archive, provider: Provider, held_s: float, now: datetime, gpus: int | None = None) -> Use:
    """What holding `gpus` accelerators (None: all) of the provider's instances for `held_s` seconds (summed over the nodes) takes at the
    price that holds now."""
    return use_of(at_accepted_prices(archive, provider), held_s, now.astimezone(timezone.utc).date(), gpus)


def monthly_use(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> Use:
    """What a whole monthly rerun of the provider is expected to use: every slot and repeat."""
    total = Use()
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
    launcher = provider.launcher
    return nodes * (_SIMULATED_LIMIT_S if isinstance(launcher, SimulatedLauncher) else launcher.timeout)


def _document(archive: Archive, attempt: TrialView) -> ResultDocument | None:
    try:
        return archive.document(attempt.trial_id, attempt.attempt)
    except BadResult:
        return None


def _held_s(attempt: TrialView, document: ResultDocument | None, provider: Provider) -> float:
    if attempt.status == "missing":
        return 0.0
    if document is None:
        return limit_s(provider, 1)
    held = held_s(document)
    if held is not None:
        return held
    # Whoever launched it saw it to its end: what has no span then never had a place.
    return 0.0 if document.launch is not None else limit_s(provider, document.trial.workload.nodes)
