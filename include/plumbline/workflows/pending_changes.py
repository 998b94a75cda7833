"""Changes of a provider that wait for a rerun. The audit log keeps them: `change_seen`, `change_told`, `change_measured`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.archive import Archive, AuditView, open_archive
from plumbline.declarations import Declarations, Provider
from plumbline.launch.plan import KINDS
from plumbline.workflows.plan import RunParameters

Change = dict[str, Any]
"""One fact that is different: {fact, old, new}; None where it was or is unknown."""
AUTHOR = "provider_watch"
CHANGE_DETECTED, EVENT_SENT, CHANGE_MEASURED = "change_seen", "change_told", "change_measured"
_NAMED = 3
"""Changes that a reason spells out."""


@dataclass(frozen=True)
class RerunDecision:
    """`event`: what to send now. None: nothing, and `why` says what it waits for."""

    event: dict[str, Any] | None
    why: str


def record_changes(
    archive: Archive, provider: str, changes: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], findings: Sequence[str]
) -> list[Change]:
    """Write down which of the provider's `changes` against its baseline are news since the last look; those.

    `facts` are all that hold now: one that was noted as changed, and is back, has changed too. To look again is no news.
    """
    known = _known(archive.audit(provider))
    now = {str(c["fact"]): c for c in changes}
    fresh: list[Change] = [
        {"fact": fact, "old": known.get(fact, c["old"]), "new": c["new"]}
        for fact, c in sorted(now.items())
        if fact not in known or known[fact] != c["new"]
    ]
    back = sorted(fact for fact in known if fact not in now and fact in facts and facts[fact] != known[fact])
    fresh += [{"fact": fact, "old": known[fact], "new": facts[fact]} for fact in back]
    if fresh:
        archive.add_audit(
            who=AUTHOR,
            what=CHANGE_DETECTED,
            subject=provider,
            why=change_summary(fresh),
            detail={"diff": fresh, "findings": sorted(findings)},
        )
    return fresh


def pending_event(archive: Archive, provider: str) -> dict[str, Any] | None:
    """The event that tells of every change no run has begun after; None if there is none, or if all is as it was measured."""
    log = archive.audit(provider)
    measured = max((e.detail["up_to"] for e in log if e.what == CHANGE_MEASURED), default="")
    seen = [e for e in log if e.what == CHANGE_DETECTED and _at(e) > measured]
    merged: dict[str, Change] = {}
    for change in (change for entry in seen for change in entry.detail["diff"]):
        merged[change["fact"]] = {**change, "old": merged.get(change["fact"], change)["old"]}
    diff = [change for _, change in sorted(merged.items()) if change["old"] != change["new"]]
    if not diff:
        return None
    findings = sorted({finding for entry in seen for finding in entry.detail["findings"]})
    return {"provider": provider, "reason": change_summary(diff), "diff": diff, "findings": findings, "at": _at(seen[-1])}


def providers_with_pending_changes(archive: Archive, declared: Declarations) -> list[str]:
    """The names of the watched providers that have changes waiting."""
    return [p.name for p in monitored_providers(declared) if pending_event(archive, p.name) is not None]


def monitored_providers(declared: Declarations) -> list[Provider]:
    """The enabled providers that are looked at between campaigns."""
    return [p for p in declared.enabled_providers() if p.watch.enabled]


def decide_rerun(archive: Archive, provider: Provider, now: datetime, *, active: int, paused: bool) -> RerunDecision:
    """Whether the provider's benchmark is to be started now: `active` of its runs are queued or running, `paused` says whether it would run."""
    event = pending_event(archive, provider.name)
    if event is None:
        return RerunDecision(None, f"nothing that is measured changed on {provider.name}")
    held_back = f"{event['reason']}: held back, because "
    if paused:
        return RerunDecision(None, f"{held_back}{provider.dag_id} is paused; unpause it, and the next look starts it")
    if active:
        # Airflow 3.3.2 makes one more run of all events that come meanwhile, and hands it only the first: what the others say comes a run later.
        return RerunDecision(
            None, f"{held_back}{provider.dag_id} has {active} run{'s' * (active > 1)} queued or running; a later look starts the next"
        )
    last = max((e.at for e in archive.audit(provider.name) if e.what in (EVENT_SENT, CHANGE_MEASURED)), default=None)
    if last is not None and now < (again := last + timedelta(seconds=provider.watch.debounce)):
        return RerunDecision(
            None, f"{held_back}a rerun began at {last:%H:%M} UTC; the next may begin from {again:%Y-%m-%d %H:%M} on (watch.debounce)"
        )
    return RerunDecision(event, str(event["reason"]))


def record_event(archive: Archive, provider: str, event: Mapping[str, Any]) -> None:
    """Write down that the event is sent."""
    archive.add_audit(who=AUTHOR, what=EVENT_SENT, subject=provider, why=str(event["reason"]), detail=dict(event))


def record_measured(archive: Archive, provider: str, asked: RunParameters, changes: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Write down what a benchmark run measures that waited: what the events that started it tell of, or all there is if somebody else's event
    or a person started it for everything. A monthly slot is one block of a campaign that began before, and a choice of workloads may miss what changed.
    """
    run_id = asked.origin.run_id if asked.origin else ""
    told = [str(change["at"]) for change in changes if "at" in change]
    whole = asked.workloads is None and (asked.kinds is None or {*asked.kinds} == {*KINDS})
    everything = asked.slot is None and (whole or bool(changes))
    if not told and not (everything and pending_event(archive, provider)):
        return
    if any(e.detail["run_id"] == run_id for e in archive.audit(provider) if e.what == CHANGE_MEASURED):
        return  # every lane of a run is planned by itself
    up_to = max(told) if told else _text(now)
    archive.add_audit(who=AUTHOR, what=CHANGE_MEASURED, subject=provider, why=asked.reason, detail={"run_id": run_id, "up_to": up_to})


def record_run(provider: str, asked: RunParameters, changes: Sequence[Mapping[str, Any]]) -> None:
    """The same with the installation's archive, as of now."""
    with open_archive() as archive:
        record_measured(archive, provider, asked, changes, datetime.now(timezone.utc))


def change_summary(diff: Sequence[Mapping[str, Any]]) -> str:
    """One line that a person reads: `driver.version 550.90.07 → 570.86.15; and 2 more facts changed`."""
    named = [f"{c['fact']} {_shown(c['old'])} → {_shown(c['new'])}" for c in diff[:_NAMED]]
    more = len(diff) - len(named)
    return "; ".join([*named, f"and {more} more fact{'s' * (more > 1)} changed"] if more else named)


def _known(log: Sequence[AuditView]) -> dict[str, Any]:
    """What was last noted of each fact that ever changed."""
    return {change["fact"]: change["new"] for entry in log if entry.what == CHANGE_DETECTED for change in entry.detail["diff"]}


def _at(entry: AuditView) -> str:
    """Its time, as text that sorts."""
    return _text(entry.at)


def _text(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)
