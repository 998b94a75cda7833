"""The monthly digest: gathered from the archive, sent to Slack where a connection exists. No Airflow in here."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations, load
from plumbline.orchestration.telling import SETTLED, cost_of

if TYPE_CHECKING:
    from plumbline.alerts.digest import Digest, Entry
    from plumbline.archive import Archive, FindingView


def month_before(moment: datetime) -> str:
    """The month that ended last, such as `2026-10` on any day of November 2026 (UTC)."""
    return f"{moment.astimezone(timezone.utc).replace(day=1) - timedelta(days=1):%Y-%m}"


def gather(archive: Archive, declared: Declarations, month: str, now: datetime) -> Digest:
    """What there is to say of a month (`2026-11`) now. ValueError for what is no month."""
    from plumbline.alerts.digest import Digest

    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise ValueError(f'"{month}" is no month; expected one such as 2026-11')
    told = [f for f in archive.findings() if f.state not in SETTLED or month in (f"{f.opened_at:%Y-%m}", f"{f.updated_at:%Y-%m}")]
    return Digest(month, now.date(), tuple(_entry(archive, declared, found) for found in told))


def send(month: str | None = None) -> str:
    """Send the digest of the month (the one that ended last); what became of it, in a word: `posted`, `updated`, `unchanged` or `log_only`.

    It goes to the log always. Raises what Slack's client raises: to call it again is safe.
    """
    import logging

    from plumbline.alerts import connect
    from plumbline.alerts.digest import render_digest
    from plumbline.alerts.posting import post_digest
    from plumbline.archive import open_archive

    log = logging.getLogger(__name__)
    now = datetime.now(timezone.utc)
    month = month or month_before(now)
    with open_archive() as archive:
        message = render_digest(gather(archive, load(), month, now))
        log.info("%s", message.text)
        slack = connect()
        return "log_only" if slack is None else post_digest(month, message, archive, slack)


def _entry(archive: Archive, declared: Declarations, view: FindingView) -> Entry:
    from plumbline.alerts.digest import Entry
    from plumbline.drift import Finding
    from plumbline.drift.sample import Series
    from plumbline.drift.winner import choice_of, is_winner
    from plumbline.reports.conclusions import KINDS

    finding = Finding.of(view.detail).with_state(view.state)
    workloads = {(s.kind, s.workload) for s in (Series.parse(key) for key in finding.series if key)}
    teams = tuple(
        team.name
        for team in declared.teams.values()
        if any((kind, name) in workloads for kind in KINDS for choice in team.preferences(kind) for name in choice.workloads)
    )
    if is_winner(finding):
        teams = (choice_of(finding.subject)[0],)
    settled = view.updated_at.date() if view.state in SETTLED else None
    return Entry(finding, cost_of(archive, declared, finding, view), view.opened_at.date(), settled, teams)
