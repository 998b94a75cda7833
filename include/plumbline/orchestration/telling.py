"""All that a finding's message says, gathered from the archive: what it costs, where to look, what it is the return of. No Airflow in here but
its address."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import Alerts, Declarations
from plumbline.orchestration import reaching
from plumbline.orchestration.airflow_client import AirflowError
from plumbline.orchestration.deciding import questions

if TYPE_CHECKING:
    from plumbline.alerts import Case
    from plumbline.alerts.money import MonthlyCost
    from plumbline.archive import Archive, FindingView
    from plumbline.declarations.purchases import Purchase
    from plumbline.drift import Finding

SETTLED = ("accepted", "resolved")
_AIRFLOW_IS = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__API__BASE_URL")


def case_of(archive: Archive, declared: Declarations | None, view: FindingView, now: datetime | None = None) -> Case:
    """The finding with what its message says beside it; without declarations no cost and no owner."""
    from plumbline.alerts import Case, Context
    from plumbline.alerts.links import links
    from plumbline.alerts.routing import target_of
    from plumbline.drift import Finding
    from plumbline.reports.choices import changed_since

    alerts = declared.alerts if declared else Alerts()
    finding = Finding.of(view.detail).with_state(view.state)
    before = _before(archive, alerts, finding, view)
    address = alerts.airflow_url or _airflow_url()
    snoozed = view.snoozed_until is not None and view.snoozed_until > (now or datetime.now(timezone.utc))
    context = Context(
        owner=target_of(finding, alerts, "").owner,
        cost=cost_of(archive, declared, finding, view).text if declared else "",
        choice=changed_since(archive, finding, view.opened_at),
        links=links(finding, address, _trial(archive, finding), asked=bool(questions([finding]))) if address else (),
        snoozed_until=view.snoozed_until if snoozed else None,
        came_back=f"resolved on {before.updated_at:%Y-%m-%d}, was finding {before.finding_id}" if before else "",
    )
    return Case(finding, context, before.finding_id if before else None)


def _before(archive: Archive, alerts: Alerts, finding: Finding, view: FindingView) -> FindingView | None:
    """The finding that this one is the return of, if that was resolved not long before."""
    from plumbline.alerts.returning import is_return
    from plumbline.drift import Finding

    within = timedelta(seconds=alerts.reopen_within)
    resolved = [
        other
        for other in archive.findings_of(finding.provider, finding.kind)
        if other.state == "resolved" and timedelta(0) <= view.opened_at - other.updated_at <= within
    ]
    resolved.sort(key=lambda other: other.updated_at)
    for other in reversed(resolved):
        with suppress(LookupError, TypeError, ValueError):  # one that cannot be read is the return of nothing
            if is_return(finding, Finding.of(other.detail)):
                return other
    return None


def cost_of(archive: Archive, declared: Declarations, finding: Finding, view: FindingView) -> MonthlyCost:
    """What it costs a month by the prices of the day on which it began, so that the message stays the same until the finding or an accepted price changes."""
    from plumbline.alerts.money import MonthlyCost, monthly_cost
    from plumbline.orchestration.accepted_prices import accepted

    provider, began = declared.providers.get(finding.provider), view.opened_at.date()
    if finding.kind == "price" and view.state in SETTLED:
        return MonthlyCost(None, "")  # its effect is a fraction of a price that may hold no more

    def price(purchase: Purchase) -> float | None:
        assert provider is not None  # asked of a declared one only
        per_gpu = accepted(archive, provider, purchase, None, began)
        return None if per_gpu is None else per_gpu * provider.accelerator.count

    return monthly_cost(finding, declared.alerts, provider, began, price)


def _trial(archive: Archive, finding: Finding) -> str | None:
    """A trial that shows the finding: of its leading series in the newest campaign that does, one that counts if there is any."""
    if not finding.campaigns or not finding.series_key:
        return None
    trials = archive.trials(campaign_id=finding.campaigns[-1], series_key=finding.series_key)
    return next((t.trial_id for t in [*(t for t in trials if t.usable), *trials]), None)


def _airflow_url() -> str | None:
    """Where people open Airflow: the one that this process is part of or is told of, else the one that commands reach; None if there is none."""
    if "airflow.configuration" not in sys.modules and not any(os.environ.get(name) for name in _AIRFLOW_IS):
        # Airflow, asked without a home, would make one in ~/airflow: a preview leaves nothing behind.
        try:
            return reaching.address()
        except AirflowError:
            return None
    from airflow.configuration import conf

    return conf.get("api", "base_url", fallback=None) or None
