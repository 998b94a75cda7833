"""Compare new results with their baselines and report drift."""

from plumbline.airflow.dags import build

DAGS = build("drift_review")
