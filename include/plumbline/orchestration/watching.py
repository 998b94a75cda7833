"""One look at a provider between two campaigns, and what it means for the findings. No Airflow in here: the DAG, the command line and
tests come this way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Declarations, Provider, load
from plumbline.launch.looking import PATIENCE_S, Look
from plumbline.launch.looking import look as looked_at
from plumbline.orchestration import watched
from plumbline.orchestration.accepted import accepted

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Finding
    from plumbline.drift.watch import Shown

BLIND_AFTER = timedelta(hours=50)
"""Two daily looks in a row that failed: an hour without a network is no news."""


@dataclass(frozen=True)
class Looked:
    """What one look showed. `facts`: in words, as `2×550.90.07, 1×570.86.15` where nodes differ. `changes` against what was accepted and
    `news` since the last look: rows {fact, old, new}. `findings`: ids of those that stand or resolved now. `notes`: what could not be seen,
    and why nothing was concluded."""

    provider: str
    at: datetime
    nodes: int
    facts: Mapping[str, str]
    changes: tuple[Mapping[str, str], ...]
    news: tuple[Mapping[str, Any], ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The news in one line; empty if there is none."""
        return watched.reason_for(self.news) if self.news else ""


def look(provider: str, at: datetime | None = None, *, patience_s: float = PATIENCE_S) -> Looked:
    """Look at a declared provider now (`at` another time: what a simulated one shows then), keep what was seen, and open, continue and
    resolve findings. To look again changes nothing. `patience_s`: how long a cluster's API may not answer.

    LookupError for an unknown provider. Unreachable, BadDeclaration or Refused if its cluster cannot be looked at; after two days of that
    a finding says so.
    """
    from plumbline.archive import open_archive
    from plumbline.launch.cluster.api import Refused
    from plumbline.launch.failures import BadDeclaration, Unreachable

    declared = load()
    known = declared.providers.get(provider)
    if known is None:
        raise LookupError(f'no provider is called "{provider}"; declared: {", ".join(sorted(declared.providers))}')
    now = at or datetime.now(timezone.utc)
    try:
        seen = looked_at(known, now, patience_s=patience_s)
    except (Unreachable, BadDeclaration, Refused) as error:
        with open_archive() as archive:
            _blind(archive, known, now, str(error))
        raise
    with open_archive() as archive:
        return held(archive, declared, known, seen, now)


def held(
    archive: Archive,
    declared: Declarations,
    provider: Provider,
    seen: Look,
    now: datetime,
    *,
    probed: Mapping[str, float] | None = None,
) -> Looked:
    """Hold what was seen of a provider against what it was accepted as, and keep both the findings and the snapshot.

    `probed`: the figures, if it was a probe that saw it from inside.
    """
    from plumbline.archive import SnapshotRecord
    from plumbline.drift import watch
    from plumbline.orchestration.stored import readable

    nodes = [{**facts, **seen.whole} for facts in seen.nodes]
    findings = archive.findings_of(provider.name)
    standing = readable(f for f in findings if f.state in ("open", "acknowledged"))
    before = accepted(archive, provider, findings, now)
    shown = watch.shown(
        provider.name,
        before,
        nodes,
        standing,
        now.date(),
        rerun=rerun_of(provider),
        simulated=provider.simulated,
        settled={f.finding_id for f in findings} - {f.finding_id for f in standing},
        rules=declared.thresholds.drift.environment,
    )
    _keep(archive, shown, standing, now)
    changes, concerned = watch.news(shown.changes), _concerned(shown, standing)
    news = watched.note(archive, provider.name, changes, watch.alike(nodes), concerned) if provider.watch.enabled else []
    counts = watch.counted(nodes or [seen.whole])
    if counts:
        # Last of all: what was not finished is done again by the next look, against the same past.
        facts = watch.gathered(nodes or [seen.whole])
        if probed is not None:
            archive.save_snapshot(SnapshotRecord(provider.name, "probe", now, facts, probed))
        else:
            figures = {f"{key}={value}": n for key, own in counts.items() if len(own) > 1 for value, n in own.items()}
            archive.save_snapshot(SnapshotRecord(provider.name, "cluster", now, facts, {"nodes": len(nodes), **figures}))
    first = ("the first look: what changes from now on is found",) if nodes and not before.facts else ()
    words = {key: watch.in_words(own) for key, own in counts.items()}
    return Looked(provider.name, now, len(nodes), words, tuple(changes), tuple(news), tuple(concerned), (*seen.notes, *first))


def _keep(archive: Archive, shown: Shown, standing: Sequence[Finding], now: datetime) -> None:
    from plumbline.drift import watch
    from plumbline.orchestration.stored import record_of

    if shown.new is not None:
        archive.save_findings([record_of(shown.new)])
    for finding in shown.continued:
        archive.continue_finding(record_of(finding), f"{now:%Y-%m-%d}", finding.headline)
    for finding, why in shown.over:
        archive.set_finding_state(finding.finding_id, "resolved", by=watched.WATCHER, why=why)
    for finding in (s for s in standing if (s.kind, s.subject) == ("missing_data", watch.BLIND)):
        archive.set_finding_state(finding.finding_id, "resolved", by=watched.WATCHER, why="recovered: it could be looked at again")


def _concerned(shown: Shown, standing: Sequence[Finding]) -> list[str]:
    """The findings that the look is about: those of what differs now, and those that it ended."""
    from plumbline.drift.environment import fact

    about = {fact(change.key) for change in shown.changes}
    known = [s for s in standing if s.kind == "environment" and about & {fact(m.name) for m in s.members}]
    opened = [shown.new] if shown.new is not None else []
    return sorted({f.finding_id for f in (*known, *opened, *(finding for finding, _ in shown.over))})


def rerun_of(provider: Provider) -> str:
    """What a change of the provider starts, or why nothing, in words."""
    if not provider.enabled:
        return "nothing is measured again by itself: the provider is disabled"
    if not provider.watch.enabled:
        return f"nothing is measured again by itself: watch.enabled is false; plumbline trigger {provider.name} does"
    return f"{provider.dag_id} measures again because of it, as soon as provider_watch may start it"


def _blind(archive: Archive, provider: Provider, now: datetime, why: str) -> None:
    """Tell people if nobody could look for days: a silence that would hide every change."""
    from plumbline.drift.watch import unseen
    from plumbline.orchestration.stored import record_of

    last = archive.latest_snapshot(provider.name, "cluster")
    if last is not None and now - last.taken_at >= BLIND_AFTER:
        archive.save_findings([record_of(unseen(provider.name, last.taken_at.date(), why, provider.simulated))])
