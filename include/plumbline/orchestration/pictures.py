"""The chart of a finding, put into its Slack thread. No Airflow in here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slack_sdk import WebClient

    from plumbline.alerts.chart import Picture
    from plumbline.archive import Archive
    from plumbline.drift import Finding

_log = logging.getLogger(__name__)


def show(archive: Archive, client: WebClient, findings: Iterable[Finding]) -> list[str]:
    """Put a chart into the Slack thread of each of these findings that has none; the ids of those that got one. Slack's failures are logged."""
    from plumbline.alerts.attachment import attach
    from plumbline.alerts.thread import MOVED

    wanted = {f.finding_id: f for f in findings}
    threads = [thread for thread in archive.incidents() if thread.finding_id in wanted and thread.state != MOVED]
    return attach(threads, lambda finding_id: picture_of(archive, wanted[finding_id]), archive, client)


def picture_of(archive: Archive, finding: Finding) -> Picture | None:
    """The finding's chart; None for a kind that has none (facts are no curve), and where the archive has too little to draw."""
    from plumbline.alerts.chart import picture
    from plumbline.reports.finding_history import history_of

    try:
        history = history_of(archive, finding)
    except (LookupError, TypeError, ValueError):  # a chart that cannot be drawn keeps no other from its thread
        _log.exception("the chart of finding %s cannot be drawn", finding.finding_id)
        return None
    return None if history is None else picture(history, f"plumbline-{finding.finding_id}.png")
