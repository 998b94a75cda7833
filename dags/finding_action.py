"""Act on a finding: acknowledge, accept as the new baseline, snooze, or rerun on a fresh node."""

from plumbline.airflow.dags import build

DAGS = build("finding_action")
