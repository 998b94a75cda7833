"""Write a campaign's scorecards, decisions and report; send a monthly digest of open findings, ranked by cost."""

from plumbline.airflow.dags import build

DAGS = build("scorecard_report")
