"""What a campaign is for, in words: the page of a campaign and lists of campaigns read the same."""

from __future__ import annotations

from collections.abc import Collection

from plumbline.declarations.purposes import Purpose
from plumbline.metrics.formatting import format_count, shorten

PURPOSES: dict[Purpose, str] = {
    "monthly": "monthly rerun",
    "on_demand": "on demand",
    "acceptance": "acceptance of nodes",
    "imported": "results of others",
}


def measured_text(purpose: Purpose, workloads: Collection[str], providers: Collection[str]) -> str:
    """What a campaign measured that is no monthly rerun, and what it is left out of; empty for another."""
    if purpose == "monthly" or not workloads:
        return ""
    what = f"{format_count(len(workloads), 'workload')} ({shorten(sorted(workloads))})"
    where = f"{format_count(len(providers), 'provider')} ({shorten(sorted(providers))})"
    if purpose == "imported":
        return f"Results of others for {what} on {where}."
    if purpose == "acceptance":
        return "An acceptance judges nodes, not providers: it is in no scorecard, no report and not in the speed index."
    return f"It measured {what} on {where}. It is no monthly rerun, so it is not in the speed index of providers that have one."


def request_text(purpose: Purpose, reason: str, workloads: Collection[str], providers: Collection[str]) -> str:
    """Of a campaign on demand: that it is one, why it was requested, and what it measured; empty for another."""
    if purpose != "on_demand":
        return ""
    why = f"requested for this reason: {reason.rstrip('.')}" if reason.strip() else "requested without a reason"
    return f"On demand, {why}. {measured_text(purpose, workloads, providers)}".strip()
