"""Telling people about findings: to the log, to Slack where a connection exists."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import DeclarationError, Declarations, load
from plumbline.orchestration.telling import SETTLED, case_of

if TYPE_CHECKING:
    from plumbline.archive import Archive, FindingView

LOCK, PATIENCE_S = "alerts", 600.0


def alert(log: logging.Logger | None = None) -> dict[str, list[str]]:
    """Tell people about every finding that is not settled, and of those that were told and are over now: that they are.

    What was told already is recognised, what could not be told is retried, what is due (a reminder, the end of quiet hours) is told. Finding
    ids by what became of them; to the log always, to Slack where a connection exists. Call it as often as you like: one process at a time
    tells, and another one that waited longer than ten minutes leaves it to that one.
    """
    from plumbline.alerts import Delivery, connect, deliver
    from plumbline.archive import open_archive
    from plumbline.orchestration.pictures import show

    log = log or logging.getLogger(__name__)
    slack = connect()
    with open_archive() as archive, archive.alone(LOCK, PATIENCE_S) as had:
        if not had:
            log.warning("another process has been telling findings for ten minutes: this one leaves it to that and to the next run")
            return asdict(Delivery())
        declared = _declared(log)
        now = datetime.now(timezone.utc)
        cases = [case_of(archive, declared, view, now) for view in _wanted(archive)]
        done = deliver(cases, archive, slack, declared.alerts if declared else None, now=now, log=log)
        if slack is not None:
            show(archive, slack.client, [case.finding for case in cases])
        return asdict(done)


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
