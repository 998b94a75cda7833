"""Metrics that only the outside of a trial can see. They never enter what the harness signed: the archive takes them beside it."""

from __future__ import annotations

from plumbline.results import Event, LaunchRecord, MetricRow, row


def outside_metrics(record: LaunchRecord) -> tuple[MetricRow, ...]:
    """Phase `cold_start`: provisioning_lead_time in seconds, from the request to the harness's first sign of life.

    The value is None when the harness never gave one, or when the two moments are not on one clock.
    """
    lead = _between(record.events, "requested", "harness_ready")
    return (row("provisioning_lead_time", lead, 0 if lead is None else 1, phase="cold_start"),)


def _between(events: tuple[Event, ...], first: str, last: str) -> float | None:
    """Seconds between two moments of the launcher's clock."""
    at = {event.name: event.monotonic_s for event in events if event.clock == "launcher"}
    begin, end = at.get(first), at.get(last)
    return None if begin is None or end is None else end - begin
