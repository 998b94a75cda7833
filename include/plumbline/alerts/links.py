"""Where a finding can be looked at: the page, the decision that waits in Airflow, the evidence of a trial that shows it."""

from __future__ import annotations

from urllib.parse import quote

from plumbline.drift import Finding
from plumbline.drift.winner import choice_of, is_winner

_DECISION = "/required_actions?response_received=false"
"""Airflow's list of questions that wait for a person."""


def links(finding: Finding, airflow_url: str, trial_id: str | None = None, asked: bool = False) -> tuple[tuple[str, str], ...]:
    """Addresses with their words. `airflow_url`: where people open Airflow. `trial_id`: one that shows it. `asked`: somebody is to decide."""
    base = airflow_url.rstrip("/")
    found = [(f"{base}/plumbline/findings/{quote(finding.finding_id, safe='')}", "the finding on the page")]
    if asked and finding.state == "open":
        found.append((f"{base}{_DECISION}", "decide in Airflow"))
    if is_winner(finding):
        team, kind, workloads = choice_of(finding.subject)
        of = f"?workload={quote(workloads[0], safe='')}" if len(workloads) == 1 else ""
        found.append((f"{base}/plumbline/decisions/{quote(team, safe='')}/{kind}{of}", "the decision"))
    if finding.campaigns:
        found.append((f"{base}/plumbline/campaigns/{quote(finding.campaigns[-1], safe='')}", "the campaign"))
    if trial_id is not None:
        found.append((f"{base}/plumbline/trials/{quote(trial_id, safe='')}", "a trial with its evidence"))
    return tuple(found)
