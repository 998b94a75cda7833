"""Changes of a provider that wait for a rerun. The audit log keeps them: `change_seen`, `change_told`, `change_measured`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.archive import Archive, AuditView, open_archive
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.teams import KINDS
from plumbline.launch.plan import RunRequest
from plumbline.metrics.formatting import format_count

Change = dict[str, Any]
"""A changed fact: {fact, old, new}; None if unknown."""
AUTHOR = "provider_watch"
CHANGE_DETECTED, EVENT_SENT, CHANGE_MEASURED = "change_seen", "change_told", "change_measured"
_NAMED = 3


@dataclass(frozen=True)
class RerunDecision:
    """`event`: the event to send now; None: `why` says what the rerun waits for."""

    event: dict[str, Any] | None
    why: str


def record_changes(
    archive: Archive, provider: str, changes: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], findings: Sequence[str]
) -> list[Change]:
    """Record, and return, which of the provider's `changes` from its accepted facts are new since the last check.

    `facts`: all present ones; a recorded change that is back is new too.
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
    """The event with every change that no later run measures; None without one, or if all are back."""
    log = archive.audit(provider)
    measured = max((e.detail["up_to"] for e in log if e.what == CHANGE_MEASURED), default="")
    detected = [e for e in log if e.what == CHANGE_DETECTED and _text(e.at) > measured]
    merged: dict[str, Change] = {}
    for change in (change for entry in detected for change in entry.detail["diff"]):
        merged[change["fact"]] = {**change, "old": merged.get(change["fact"], change)["old"]}
    diff = [change for _, change in sorted(merged.items()) if change["old"] != change["new"]]
    if not diff:
        return None
    findings = sorted({finding for entry in detected for finding in entry.detail["findings"]})
    return {"provider": provider, "reason": change_summary(diff), "diff": diff, "findings": findings, "at": _text(detected[-1].at)}


def providers_with_pending_changes(archive: Archive, declared: Declarations) -> list[str]:
    return [p.name for p in monitored_providers(declared) if pending_event(archive, p.name) is not None]


def monitored_providers(declared: Declarations) -> list[Provider]:
    """The enabled providers with environment checks."""
    return [p for p in declared.enabled_providers() if p.watch.enabled]


def decide_rerun(archive: Archive, provider: Provider, now: datetime, *, active: int, paused: bool | None) -> RerunDecision:
    """Whether to start the provider's benchmark now. `active`: its queued and running DAG runs; `paused`: whether its DAG is, None if
    Airflow does not say it: the event of a paused one starts nothing, and is sent again after `watch.debounce`."""
    event = pending_event(archive, provider.name)
    if event is None:
        return RerunDecision(None, f"no pending change of {provider.name}")
    held_back = f"{event['reason']}: held back: "
    if paused:
        return RerunDecision(None, f"{held_back}{provider.dag_id} is paused; unpause it, and the next check starts a run")
    if active:
        # Airflow 3.3.2 makes one more run of all events that come meanwhile, and passes only the first to it.
        return RerunDecision(
            None, f"{held_back}{provider.dag_id} has {format_count(active, 'run')} queued or running; a later check starts the next one"
        )
    last = max((e.at for e in archive.audit(provider.name) if e.what in (EVENT_SENT, CHANGE_MEASURED)), default=None)
    if last is not None and now < (again := last + timedelta(seconds=provider.watch.debounce)):
        return RerunDecision(
            None, f"{held_back}a rerun began at {last:%H:%M} UTC; the next one starts after {again:%Y-%m-%d %H:%M} (watch.debounce)"
        )
    return RerunDecision(event, str(event["reason"]))


def record_event(archive: Archive, provider: str, event: Mapping[str, Any]) -> None:
    archive.add_audit(who=AUTHOR, what=EVENT_SENT, subject=provider, why=str(event["reason"]), detail=dict(event))


def record_measured(archive: Archive, provider: str, request: RunRequest, changes: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Record which pending changes a benchmark run measures: those of the events that started it, or all if a person or another event started a
    run of everything. A monthly slot or a choice of workloads measures none.
    """
    run_id = request.origin.run_id if request.origin else ""
    sent = [str(change["at"]) for change in changes if "at" in change]
    whole = request.workloads is None and (request.kinds is None or {*request.kinds} == {*KINDS})
    everything = request.slot is None and (whole or bool(changes))
    if not sent and not (everything and pending_event(archive, provider)):
        return
    if any(e.detail["run_id"] == run_id for e in archive.audit(provider) if e.what == CHANGE_MEASURED):
        return  # every lane of a run is planned by itself
    up_to = max(sent) if sent else _text(now)
    archive.add_audit(who=AUTHOR, what=CHANGE_MEASURED, subject=provider, why=request.reason, detail={"run_id": run_id, "up_to": up_to})


def record_run(provider: str, request: RunRequest, changes: Sequence[Mapping[str, Any]]) -> None:
    """`record_measured` with the installation's archive, as of now."""
    with open_archive() as archive:
        record_measured(archive, provider, request, changes, datetime.now(timezone.utc))


def change_summary(diff: Sequence[Mapping[str, Any]]) -> str:
    """The change as text, such as `driver.version 550.90.07 → 570.86.15; and 2 more facts changed`."""
    changes = [f"{c['fact']} {_format_fact(c['old'])} → {_format_fact(c['new'])}" for c in diff[:_NAMED]]
    more = len(diff) - len(changes)
    return "; ".join([*changes, f"and {format_count(more, 'more fact')} changed"] if more else changes)


def _known(log: Sequence[AuditView]) -> dict[str, Any]:
    """The last recorded value of each fact that ever changed."""
    return {change["fact"]: change["new"] for entry in log if entry.what == CHANGE_DETECTED for change in entry.detail["diff"]}


def _text(at: datetime) -> str:
    """A time as text that sorts."""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")


def _format_fact(value: object) -> str:
    return "unknown" if value is None else str(value)
