"""One probe of a provider between two campaigns, and what it means for the findings. No Airflow in here: the DAG, the command line and
tests come this way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, load
from plumbline.launch import probing
from plumbline.launch.looking import Look, of_the_machine
from plumbline.launch.probing import PutOff
from plumbline.orchestration import watched, watching
from plumbline.orchestration.accepted import said_alike
from plumbline.results.probe import LIMIT_S

if TYPE_CHECKING:
    from plumbline.archive import Archive, FindingView
    from plumbline.drift.probe import Course, Judged, Probed
    from plumbline.results import Scalar
    from plumbline.results.probe import ProbeDocument

_EARLY = timedelta(hours=12)
"""A daily run must not miss its day because the last probe ended some minutes later than this one begins."""
_REMEMBERED = 50
"""Probes, the last ones, that a figure can be held against."""


@dataclass(frozen=True)
class ProbeSeen:
    """What one probe showed. `put_off`: why none was made; everything else is empty then. `figures`: each metric with the usual one, `changes`
    of facts against what was accepted, `news` that a benchmark waits for, rows {fact, old, new}; ids of `findings`; `notes` of what is missing."""

    provider: str
    at: datetime
    put_off: str | None = None
    figures: tuple[Judged, ...] = ()
    changes: tuple[Mapping[str, str], ...] = ()
    news: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The news in one line; empty if there is none."""
        return watched.reason_for(self.news) if self.news else ""


def not_due(archive: Archive, declared: Declarations, provider: Provider, now: datetime) -> str | None:
    """Why the provider needs no probe now; None if it is due: none was made for `watch.probe`, or the
    last one was slow for once or did not count."""
    every = provider.watch.probe
    if every is None:
        return f"{provider.name} declares no watch.probe"
    past = _history(archive, provider, archive.findings_of(provider.name))
    last = archive.latest_snapshot(provider.name, "probe")
    if last is None or now - last.taken_at >= timedelta(seconds=every) - _EARLY:
        return None
    from plumbline.drift import probe as drift

    if (not last.figures or drift.Course(drift.judged(past, _limits(declared))).again) and now - last.taken_at >= _EARLY:
        return None
    return f"{provider.name} was probed on {last.taken_at:%Y-%m-%d}"


def probe(provider: str, at: datetime | None = None, *, limit_s: float = LIMIT_S) -> ProbeSeen:
    """Probe a declared provider now (`at` another time: what a simulated one shows then), keep what was seen, and open, continue and resolve
    findings. `limit_s`: of the measuring.

    LookupError for an unknown provider. A TrialFailure, Refused or OSError if it cannot be probed.
    """
    from plumbline.archive import open_archive

    declared = load()
    known = declared.providers.get(provider)
    if known is None:
        raise LookupError(f'no provider is called "{provider}"; declared: {", ".join(sorted(declared.providers))}')
    now = at or datetime.now(timezone.utc)
    with open_archive() as archive:
        if (spent := _spent(archive, known, now, limit_s)) is not None:
            return ProbeSeen(provider, now, put_off=spent)
    document = probing.probe(declared, known, now, limit_s=limit_s)
    if isinstance(document, PutOff):
        return ProbeSeen(provider, now, put_off=document.why)
    with open_archive() as archive:
        return held(archive, declared, known, document)


def held(archive: Archive, declared: Declarations, provider: Provider, document: ProbeDocument) -> ProbeSeen:
    """Hold a probe's facts and figures against what was there before, and keep both the findings and the snapshot."""
    from plumbline.drift import probe as drift
    from plumbline.orchestration.stored import readable

    at, figures = document.taken_at, document.figures
    # A machine that others keep busy measures its neighbours; there is no trial here to be called degraded.
    disturbed = document.foreign_cpu is not None and document.foreign_cpu >= declared.thresholds.validity.foreign_cpu_degraded
    if disturbed:
        figures = {}
    findings = archive.findings_of(provider.name)
    standing = readable(f for f in findings if f.state in ("open", "acknowledged"))
    now = drift.course(
        provider.name,
        [*_history(archive, provider, findings), drift.Probed(at.date(), figures)],
        _limits(declared),
        standing,
        rerun=watching.rerun_of(provider),
        simulated=provider.simulated,
        settled={f.finding_id for f in findings} - {f.finding_id for f in standing},
    )
    news, concerned = _keep(archive, provider, now, at)
    # Last of all, with the snapshot: what was not finished is told again by the next probe, against the same past.
    looked = watching.held(archive, declared, provider, Look((_facts(archive, provider, document),), {}), at, probed=figures)
    left_out = tuple(f"{name} was left out: {why}" for name, why in document.left_out.items())
    if disturbed:
        left_out += (f"others used {document.foreign_cpu:.0%} of the cores: the figures do not count, the next look probes again",)
    again = ("slower than usual, for once: the next look probes again",) if now.again else ()
    return ProbeSeen(
        provider.name,
        at,
        figures=now.judged,
        changes=looked.changes,
        news=(*news, *looked.news),
        findings=tuple(dict.fromkeys((*concerned, *looked.findings))),
        notes=(*left_out, *again, *looked.notes),
    )


def _keep(archive: Archive, provider: Provider, now: Course, at: datetime) -> tuple[list[watched.Change], list[str]]:
    """Store what the figures mean; what of it waits for a benchmark, and the findings that it is about."""
    from plumbline.declarations.metrics import METRICS
    from plumbline.declarations.reading import reading
    from plumbline.orchestration.stored import record_of

    news: list[watched.Change] = []
    if now.new is not None:
        # The change first: a finding that stands is not told again, but a change that was noted twice is one.
        if provider.watch.enabled:
            news = watched.note(archive, provider.name, now.changes, {}, [now.new.finding_id])
        archive.save_findings([record_of(now.new)])
        return news, [now.new.finding_id]
    if now.continued is not None:
        archive.continue_finding(record_of(now.continued), f"{at:%Y-%m-%d}", now.continued.headline)
        return news, [now.continued.finding_id]
    if now.over is not None:
        finding, why = now.over
        # The usual figure, not this one: a change that no benchmark began after is then taken back, and starts none.
        names = {m.name for m in finding.members}
        back = {j.metric: reading(j.usual, METRICS[j.metric].unit) for j in now.judged if j.metric in names}
        if provider.watch.enabled:
            news = watched.note(archive, provider.name, (), back, [finding.finding_id])
        archive.set_finding_state(finding.finding_id, "resolved", by=watched.WATCHER, why=why)
        return news, [finding.finding_id]
    return news, []


def _history(archive: Archive, provider: Provider, findings: list[FindingView]) -> list[Probed]:
    """The provider's probes, oldest first; of the last time that somebody accepted slower ones, those that began it and later."""
    from plumbline.drift.probe import SUBJECT, Probed

    since = max(
        (str(f.detail["since"]) for f in findings if (f.kind, f.state, f.detail["subject"]) == ("performance", "accepted", SUBJECT)),
        default="",
    )
    past = archive.snapshots(provider.name, "probe", latest=_REMEMBERED)
    return [Probed(s.taken_at.date(), s.figures) for s in past if s.taken_at.date().isoformat() >= since]


def _limits(declared: Declarations) -> dict[str, float]:
    """The thresholds that are declared for metrics, whatever is measured."""
    return {name: limits.warn for name, limits in declared.thresholds.drift.metrics.items()}


def _facts(archive: Archive, provider: Provider, document: ProbeDocument) -> dict[str, Scalar]:
    """The machine's own facts. On a cluster without those that its API tells of the nodes in other words: they would differ for ever."""
    facts = of_the_machine(document.environment.facts)
    if not isinstance(provider.launcher, KubernetesLauncher):
        return facts
    nodes = {name for look in archive.snapshots(provider.name, "cluster") for name in look.facts}
    return {name: value for name, value in facts.items() if name not in nodes - said_alike(provider)}


def _spent(archive: Archive, provider: Provider, now: datetime, limit_s: float) -> str | None:
    """Why the provider's budget does not carry a probe; None if it does, or there is none."""
    if provider.budget is None:
        return None
    from plumbline.reports.spending import balance, use_now

    left = balance(archive, provider, now)
    why = left.with_used(use_now(archive, provider, limit_s, now)).exceeded
    return None if why is None else f"{provider.name} is not probed: its budget of {left.month} does not carry it ({why})"
