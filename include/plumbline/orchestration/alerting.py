"""Telling people about findings: to the log, to Slack where a connection exists."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import DeclarationError, Declarations, load
from plumbline.orchestration.telling import SETTLED, case_of

if TYPE_CHECKING:
    from plumbline.alerts import Case
    from plumbline.archive import Archive, FindingView
    from plumbline.drift.own import OwnFailure

LOCK, PATIENCE_S = "alerts", 600.0


def alert(log: logging.Logger | None = None) -> dict[str, list[str]]:
    """Tell people about every finding that is not settled, and of those that were told and are over now: that they are.

    What was told already is recognised, what could not be told is retried, what is due (a reminder, the end of quiet hours) is told. Finding
    ids by what became of them; to the log always, to Slack where a connection exists. Call it as often as you like: one process at a time
    tells, and another one that waited longer than ten minutes leaves it to that one.
    """
    from plumbline.alerts import Delivery, connect, deliver
    from plumbline.archive import open_archive
    from plumbline.orchestration.own_findings import reconcile
    from plumbline.orchestration.pictures import show

    log = log or logging.getLogger(__name__)
    slack = connect()
    with open_archive() as archive, archive.alone(LOCK, PATIENCE_S) as had:
        if not had:
            log.warning("another process has been telling findings for ten minutes: this one leaves it to that and to the next run")
            return asdict(Delivery())
        declared = _declared(log)
        now = datetime.now(timezone.utc)
        cases, unreadable = _cases(archive, declared, now)
        for failure in unreadable:
            log.error("%s: %s", failure.title, failure.cause)
        if reconcile(archive, unreadable, ("finding_unreadable",), now):
            cases, _ = _cases(archive, declared, now)
        done = deliver(cases, archive, slack, declared.alerts if declared else None, now=now, log=log)
        if slack is not None:
            show(archive, slack.client, [case.finding for case in cases])
        return asdict(done)


def _cases(archive: Archive, declared: Declarations | None, now: datetime) -> tuple[list[Case], list[OwnFailure]]:
    """What each finding's message is made of; one that cannot be read is a failure of ours and keeps no other from people."""
    from plumbline.alerts import render
    from plumbline.drift.own import OwnFailure
    from plumbline.orchestration.stored import UNREADABLE

    cases, unreadable = [], []
    for view in _wanted(archive):
        try:
            case = case_of(archive, declared, view, now)
            render(case.finding, None, case.context)
        except UNREADABLE as error:
            unreadable.append(
                OwnFailure(
                    code="finding_unreadable",
                    what=view.finding_id,
                    occurrence=view.finding_id,
                    since=view.opened_at,
                    severity="warn",
                    title=f"finding {view.finding_id} of {view.provider} cannot be read and is not sent",
                    cause=f"{type(error).__name__}: {error}; its headline: {view.headline}",
                    remedy="If a newer plumbline wrote it, install that version here. Else look at the finding and end it: "
                    f"plumbline findings resolve {view.finding_id} --why …",
                )
            )
        else:
            cases.append(case)
    return cases, unreadable


def _declared(log: logging.Logger) -> Declarations | None:
    """What is declared; None where it cannot be read. A mistake in one file must not keep findings from people."""
    try:
        return load()
    except DeclarationError as error:
        log.error("the declarations cannot be read: findings are told in the connection's channel, without routing and cost\n%s", error)
        return None


def _wanted(archive: Archive) -> list[FindingView]:
    from plumbline.alerts.thread import MOVED

    wanted = {f.finding_id: f for state in ("open", "acknowledged") for f in archive.findings(state)}
    for incident in archive.incidents():
        if incident.state not in (*SETTLED, MOVED) and incident.finding_id not in wanted:
            wanted[incident.finding_id] = archive.finding(incident.finding_id)
    return list(wanted.values())
