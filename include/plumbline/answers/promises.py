"""A provider's promises against the archive's measurements: the one source for the page, the command and the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from typing import Any

from plumbline.analysis.cost.service_credit import credit_of
from plumbline.analysis.prices.book import with_effective_prices
from plumbline.answers.availability_histories import availability_histories
from plumbline.answers.claim_marks import claim_key, claim_marks
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Criterion, Declarations, Provider
from plumbline.declarations.promises import PROMISES, JudgedPromise, Promise
from plumbline.declarations.promises.availability import MONTHS
from plumbline.declarations.promises.judging.evidence import Outage, PromiseEvidence, provider_outages
from plumbline.declarations.promises.judging.promise import SOURCES
from plumbline.declarations.promises.judging.row import PromiseRow
from plumbline.declarations.promises.judging.share import tries_to_keep
from plumbline.declarations.promises.judging.witnesses import ContradictedIncident, contradicted_incidents
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.findings.types.contradicted_incident import confirmed_entries
from plumbline.metrics.pooling import PooledMetric, pool_measurements
from plumbline.metrics.time_spans import day_is_over
from plumbline.results.operations import LogEntryView
from plumbline.words.claims import deadline

LAUNCH_CAMPAIGNS = 24
"""Newest campaigns whose launches count."""
_SPEED_CAMPAIGNS = 6
_REPEATS = tries_to_keep(0.5) or 0
"""The fewest repeats that tell on which side of a speed their median lies."""


DECLARE = "sla: {launch_success: 99%, provisioning_lead_time: 15min}"
"""A sample for a provider's declaration."""


@dataclass(frozen=True)
class ProviderPromises:
    """A provider's promises, `judged` by what shows them; also what it does not promise, where it was measured. `launches`: by campaign, oldest first.
    Of a speed the newest repeats count, as many as an interval needs. `log`: newest entry first. `outages` of its uptime and `refusals` of its
    capacity: those that checks found to be the provider's, newest first. `contradicted`: incidents of the log that checks contradict, and that a promise depends on."""

    provider: str
    launches: tuple[LaunchCounts, ...]
    judged: tuple[JudgedPromise, ...]
    log: tuple[LogEntryView, ...]
    outages: tuple[Outage, ...] = ()
    refusals: tuple[Outage, ...] = ()
    contradicted: tuple[ContradictedIncident, ...] = ()

    @property
    def rows(self) -> tuple[PromiseRow, ...]:
        """Rows of promises only."""
        return tuple(each.row for each in self.judged if each.row.verdict != "not_promised")

    @property
    def view(self) -> dict[str, Any]:
        return {"provider": self.provider, "campaigns": [c.campaign_id for c in self.launches], "promises": self.rows, "log": self.log}


def provider_promises(archive: Archive, declared: Declarations, name: str) -> ProviderPromises:
    """Credits at the declared volumes and each day's price, as far as the declarations hold them."""
    provider, now = declared.providers.get(name), datetime.now(timezone.utc)
    sla = provider.sla if provider is not None else ServiceLevel()
    launches, log = tuple(archive.launches(name, LAUNCH_CAMPAIGNS)), tuple(archive.operations(name))
    watched = {
        h.kind: h
        for h in (availability_histories(archive, provider, now, MONTHS, hours=False) if provider is not None and checkable(sla) else ())
    }
    uptime, asked = watched.get("uptime"), watched.get("capacity")
    outages = provider_outages(uptime.outages, log, now) if uptime else ()
    months = {month.begin: month for month in uptime.months} if uptime else {}
    seen = replace(_seen_by_trials(archive, provider, name, launches, now), log=log, outages=outages, months=months, capacity=asked)
    if contradicted_incidents(log, seen.months.values(), now):
        known = readable_findings(archive.findings_of(name, "reliability"))
        seen = replace(seen, confirmed=confirmed_entries(known, {(e.entry_id, e.revision) for e in log}))
    judged, contradicted = sorted(_judge(PROMISES, sla, seen), key=lambda each: SOURCES.index(each.source)), _decisive(sla, seen)
    if provider is not None:
        judged = _granting(archive, declared, provider, judged, _last_breach(judged) or now, now)
    refusals = tuple(o for o in (asked.outages if asked else ()) if o.whose == "provider")
    return ProviderPromises(name, launches, tuple(judged), log, outages, refusals, contradicted)


def judged_by_trials(archive: Archive, declared: Declarations, name: str) -> tuple[JudgedPromise, ...]:
    """The promises of a declared provider that its trials alone show, without credits: what `provider_promises` has of them, but no check
    between campaigns and no entry of the operations log is read."""
    provider, now = declared.providers[name], datetime.now(timezone.utc)
    launches = tuple(archive.launches(name, LAUNCH_CAMPAIGNS))
    judged = _judge(PROMISES, provider.sla, _seen_by_trials(archive, provider, name, launches, now))
    return tuple(sorted((each for each in judged if each.shown_by_trials), key=lambda each: SOURCES.index(each.source)))


def grant_credits(
    archive: Archive, declared: Declarations, name: str, judged: Sequence[JudgedPromise], last: datetime | None
) -> tuple[JudgedPromise, ...]:
    """Those that trials show of a declared provider, with their credits as `provider_promises` has them. `last`: when the last breach
    began that another witness shows, and whose month they are billed with; None without one."""
    now = datetime.now(timezone.utc)
    return tuple(_granting(archive, declared, declared.providers[name], judged, last or now, now))


def _seen_by_trials(
    archive: Archive, provider: Provider | None, name: str, launches: Sequence[LaunchCounts], now: datetime
) -> PromiseEvidence:
    ended: Counter[str | None] = Counter()
    for each in launches:
        ended.update(each.ended)
    lead_times = _lead_time(provider, launches)
    return PromiseEvidence(now, ended, lead_times, lambda workload, criterion: _repeats(archive, name, workload, criterion))


def _last_breach(judged: Iterable[JudgedPromise]) -> datetime | None:
    """The begin of the last breach of a promise of no month: its month's bill is that of breaches without a date too, which share its
    credit."""
    return max((each.row.last for each in judged if each.broken and each.month is None and each.row.last is not None), default=None)


def _granting(
    archive: Archive, declared: Declarations, provider: Provider, judged: Sequence[JudgedPromise], undated: datetime, now: datetime
) -> list[JudgedPromise]:
    """With credits at each day's price, whether it is too late to claim them, and what became of their claims. `undated`: in the month
    that breaches without a date are billed with."""
    priced, volumes = with_effective_prices(provider, archive.prices(provider.name)), declared.alerts.volumes_of(provider.name)
    found = [
        each if each.grants is None or not each.broken else each.credited(credit_of(each.grants, priced, volumes, each.billed(undated)[0]))
        for each in judged
    ]
    last_days = [each.last_day(provider.sla.claim_within, undated) if each.broken else None for each in found]
    found = [_until(each, day, now.date()) for each, day in zip(found, last_days, strict=True)]
    return _with_claims(archive, provider.name, found)


def _until(judged: JudgedPromise, day: date | None, today: date) -> JudgedPromise:
    lapsed = day_is_over(day, today)
    return replace(judged, lapsed=lapsed, row=replace(judged.row, deadline=deadline(day, lapsed)))


def _with_claims(archive: Archive, name: str, judged: list[JudgedPromise]) -> list[JudgedPromise]:
    """With what became of the claims of broken ones."""
    if not any(each.broken for each in judged):
        return judged
    marks = claim_marks(archive, [view.finding_id for view in archive.findings_of(name)]).values()
    known = {key: mark.text for mark in marks for key in mark.promises}
    return [replace(each, row=replace(each.row, claim=known.get(claim_key(each), ""))) if each.broken else each for each in judged]


def _judge(promises: Iterable[Promise[Any]], sla: ServiceLevel, seen: PromiseEvidence) -> list[JudgedPromise]:
    return [each for one in promises for each in one.judge(sla, seen)]


def _decisive(sla: ServiceLevel, seen: PromiseEvidence) -> tuple[ContradictedIncident, ...]:
    """Contradicted incidents, if a verdict or a credit would be another one by them."""
    found = contradicted_incidents(seen.log, seen.months.values(), seen.now, seen.confirmed)
    if not found:
        return ()
    believed = replace(seen, confirmed=frozenset(seen.confirmed) | {one.entry.entry_id for one in found})
    checked = [promise for promise in PROMISES if promise.checked]
    without, by_log = ([(j.month, j.row.verdict, j.grants) for j in _judge(checked, sla, each)] for each in (seen, believed))
    return found if without != by_log else ()


def broken_promises(archive: Archive, declared: Declarations, names: Iterable[str]) -> dict[str, tuple[PromiseRow, ...]]:
    """The broken promises of those of these providers that have one."""
    promising = [name for name in names if name in declared.providers and declared.providers[name].sla != ServiceLevel()]
    rows = {name: [r for r in provider_promises(archive, declared, name).rows if r.verdict == "broken"] for name in sorted(promising)}
    return {name: tuple(broken) for name, broken in rows.items() if broken}


def checkable(sla: ServiceLevel) -> bool:
    """Whether checks between campaigns bear on a promise."""
    return any(promise.checked and promise.declared(sla) for promise in PROMISES)


def _lead_time(provider: Provider | None, counts: Sequence[LaunchCounts]) -> PooledMetric:
    unprovisioned = provider.launcher.not_provisioned if provider is not None else None
    times = [] if unprovisioned is not None else [(c.campaign_id, t) for c in counts for t in c.lead_times]
    return pool_measurements("provisioning_lead_time", times, unprovisioned or "no launch was observed")


def _repeats(archive: Archive, name: str, workload: str, criterion: Criterion) -> list[tuple[str, float]]:
    """(campaign, value) of the newest repeats of the series that ran last."""
    newest = archive.newest_by_place(archive.series_of([name], workload=workload)).get((name, workload))
    values: list[tuple[str, float]] = []
    if newest is not None:
        key = newest.series.series_key
        pairs = [(key, campaign) for campaign, _ in reversed(archive.series_campaigns(key, _SPEED_CAMPAIGNS))]
        samples, wanted = archive.samples(pairs, [criterion.metric]), (criterion.metric, criterion.statistic, criterion.phase)
        for pair in pairs:
            if len(values) < _REPEATS:
                values += [(pair[1], o.value) for o in samples[pair].observations if (o.metric, o.statistic, o.phase) == wanted]
    return values
