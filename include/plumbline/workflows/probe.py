"""Probe a provider: measure arithmetic and memory for up to two minutes, and update findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.answers.findings import readable_findings
from plumbline.answers.provider_use import over_budget
from plumbline.archive import Archive, FindingView, open_archive
from plumbline.declarations import Declarations, Provider, load_in_force
from plumbline.findings import probe as drift
from plumbline.findings.probe import ProbeReconciliation, ProbeResult, ProbeVerdict
from plumbline.findings.types.probe import Probe
from plumbline.launch.launcher import ProbeSkipped, ProviderFacts, machine_facts
from plumbline.launch.registry import launcher_for
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_quantity
from plumbline.results import Scalar
from plumbline.results.finding import OPEN_STATES
from plumbline.results.probe_document import PROBE_LIMIT_S, ProbeDocument
from plumbline.workflows import check_provider, pending_changes
from plumbline.workflows.check_provider import shared_facts
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import declared_provider

_EARLY = timedelta(hours=12)
"""So that a daily run does not skip its day because the last probe ended some minutes later."""
_REMEMBERED = 50
"""The last probes that a figure is compared with."""


@dataclass(frozen=True)
class ProbeReport:
    """One probe. `put_off`: why it was skipped; the rest is empty then. `figures`: each metric with the usual value; `changes` from the accepted
    facts and pending `news`: rows {fact, old, new}; ids of `findings`; `notes`: what is missing."""

    provider: str
    at: datetime
    put_off: str | None = None
    figures: tuple[ProbeVerdict, ...] = ()
    changes: tuple[Mapping[str, str], ...] = ()
    news: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The news in one line; empty without any."""
        return pending_changes.change_summary(self.news) if self.news else ""


def skip_reason(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> str | None:
    """Why no probe is due; None if one is: none within `watch.probe`, or the last one was slow once or did not count."""
    every = provider.watch.probe
    if every is None:
        return f"{provider.name} declares no watch.probe"
    past = _history(archive, provider, archive.findings_of(provider.name))
    last = archive.latest_snapshot(provider.name, "probe", now)
    if last is None or now - last.taken_at >= timedelta(seconds=every) - _EARLY:
        return None
    if (
        not last.figures or drift.ProbeReconciliation(judged=drift.judge_probes(past, _limits(declared))).again
    ) and now - last.taken_at >= _EARLY:
        return None
    return f"{provider.name} was probed on {last.taken_at:%Y-%m-%d}"


def probe_provider(provider: str, at: datetime | None = None) -> ProbeReport:
    """Probe a declared provider (`at`: at another time, for simulated ones), store a snapshot, and reconcile findings.

    LookupError for an unknown provider. A TrialFailure, Refused or OSError if it cannot be probed.
    """
    declared = load_in_force()
    known = declared_provider(declared, provider)
    now = at or datetime.now(timezone.utc)
    if (why := declared.why_no_trial_starts(datetime.now(timezone.utc))) is not None:
        return ProbeReport(provider, now, put_off=why)
    with open_archive() as archive:
        if (spent := over_budget(archive, known, now, PROBE_LIMIT_S, "probe")) is not None:
            return ProbeReport(provider, now, put_off=spent)
    document = launcher_for(known).probe(declared, known, now, PROBE_LIMIT_S)
    if isinstance(document, ProbeSkipped):
        return ProbeReport(provider, now, put_off=document.why)
    with open_archive() as archive:
        return compare_with_history(archive, declared, known, document)


def compare_with_history(archive: Archive, declared: Declarations, provider: Provider, document: ProbeDocument) -> ProbeReport:
    """Compare a probe's facts and figures with the history; store the findings and the snapshot."""
    at, figures = document.taken_at, document.figures
    # On a busy machine the figures measure the neighbours.
    disturbed = document.foreign_cpu is not None and document.foreign_cpu >= declared.thresholds.validity.foreign_cpu_degraded
    if disturbed:
        figures = {}
    findings = archive.findings_of(provider.name)
    open_findings = readable_findings(f for f in findings if f.state in OPEN_STATES)
    now = drift.reconcile_probes(
        provider.name,
        [*_history(archive, provider, findings), drift.ProbeResult(at.date(), figures)],
        _limits(declared),
        open_findings,
        rerun=check_provider.rerun_note(provider),
        simulated=provider.simulated,
        settled={f.finding_id for f in findings} - {f.finding_id for f in open_findings},
    )
    news, concerned = _store(archive, provider, now, at)
    # Last, with the snapshot: after a crash the next probe compares with the same past.
    checked = check_provider.compare_with_accepted(
        archive, declared, provider, ProviderFacts((_facts(archive, provider, document),), {}), at, probed=figures
    )
    skipped = tuple(f"{name} skipped: {why}" for name, why in document.left_out.items())
    if disturbed:
        skipped += (f"other processes used {document.foreign_cpu:.0%} of the cores: figures ignored, the next check probes again",)
    again = ("slower than usual once: the next check probes again",) if now.again else ()
    return ProbeReport(
        provider.name,
        at,
        figures=now.judged,
        changes=checked.changes,
        news=(*news, *checked.news),
        findings=tuple(dict.fromkeys((*concerned, *checked.findings))),
        notes=(*skipped, *again, *checked.notes),
    )


def _store(archive: Archive, provider: Provider, now: ProbeReconciliation, at: datetime) -> tuple[list[pending_changes.Change], list[str]]:
    """Store the reconciliation; the pending changes, and the ids of the findings."""
    concerned = [finding.finding_id for finding in now.findings]
    # The usual figure, not this one: a change that no benchmark measured is then reverted and starts none.
    names = {m.name for finding, _ in now.resolved for m in finding.members}
    back = {j.metric: format_quantity(j.usual, METRICS[j.metric].unit) for j in now.judged if j.metric in names}
    news: list[pending_changes.Change] = []
    if provider.watch.enabled and (now.opened or now.resolved):
        # The change first: recording it twice is harmless, and an open finding does not record it again.
        news = pending_changes.record_changes(archive, provider.name, now.changes, back, concerned)
    apply(archive, now, by=pending_changes.AUTHOR, seen_in=f"{at:%Y-%m-%d}")
    return news, concerned


def _history(archive: Archive, provider: Provider, findings: list[FindingView]) -> list[ProbeResult]:
    """The provider's probes, oldest first; after an accepted slowdown, from its beginning on."""
    since = max(
        (str(f.detail["since"]) for f in findings if f.state == "accepted" and Probe.owns(f.kind, f.detail["subject"])),
        default="",
    )
    past = archive.snapshots(provider.name, "probe", latest=_REMEMBERED)
    return [ProbeResult(s.taken_at.date(), s.figures) for s in past if s.taken_at.date().isoformat() >= since]


def _limits(declared: Declarations) -> dict[str, float]:
    """The declared warn threshold by metric."""
    return {name: limits.warn for name, limits in declared.thresholds.drift.metrics.items()}


def _facts(archive: Archive, provider: Provider, document: ProbeDocument) -> dict[str, Scalar]:
    """The machine's facts. On a cluster without those that its API reports in another format: they would always differ."""
    facts = machine_facts(document.environment.facts)
    if not provider.launcher.facts_from_api:
        return facts
    nodes = {name for snapshot in archive.snapshots(provider.name, "cluster") for name in snapshot.facts}
    return {name: value for name, value in facts.items() if name not in nodes - shared_facts(provider)}
