"""Findings about this installation: opened when a failure is seen, continued while it lasts, resolved when it is gone. No Airflow in here."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from plumbline.declarations import DeclarationError, load
from plumbline.drift.own import OWNER_NAME, own_finding
from plumbline.orchestration.own_failures import AirflowView, failures
from plumbline.orchestration.stored import record_of

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift.own import OwnFailure

_log = logging.getLogger(__name__)


def check(airflow: AirflowView, now: datetime) -> list[str]:
    """Look at everything that Airflow and the archive know, and reconcile the findings; ids of those that opened, changed or resolved."""
    from plumbline.archive import open_archive

    try:
        declared = load()
    except DeclarationError as error:  # the DAG files that need them are unreadable, which is a finding
        _log.error("the declarations cannot be read: benchmarks and schedules are not checked\n%s", error)
        declared = None
    with open_archive() as archive:
        found, codes = failures(archive, declared, airflow, now)
        return reconcile(archive, found, codes, now)


def reconcile(archive: Archive, failures: Iterable[OwnFailure], codes: Collection[str], now: datetime) -> list[str]:
    """Bring the open findings with these codes in line with what fails now; the ids of those that opened, changed or resolved.

    Only codes that were checked belong in `codes`: what was not looked at stays as it is.
    """
    open_ones = {
        str(view.detail.get("subject")): view
        for view in archive.findings_of(OWNER_NAME, "self", unsettled=True)
        if str(view.detail.get("subject")).split(" ")[0] in codes
    }
    touched: list[str] = []
    for failure in failures:
        finding = own_finding(failure)
        known = open_ones.pop(failure.subject, None)
        if known is None:
            touched += archive.save_findings([record_of(finding)])
        elif (known.headline, known.detail.get("explanation"), known.detail.get("remedy")) != (
            finding.headline,
            finding.explanation,
            finding.remedy,
        ):
            since = known.detail.get("since") or finding.since
            going_on = replace(finding, finding_id=known.finding_id, since=since, state=known.state)
            archive.continue_finding(record_of(going_on), f"{now:%Y-%m-%d}", finding.headline)
            touched.append(known.finding_id)
    for view in open_ones.values():
        why = f"recovered: the check of {now:%Y-%m-%d %H:%M} UTC no longer shows it"
        archive.set_finding_state(view.finding_id, "resolved", by=OWNER_NAME, why=why)
        touched.append(view.finding_id)
    return touched
