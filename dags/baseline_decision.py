"""Ask a person what a confirmed change means for the baseline."""

from plumbline.airflow.dags import build

DAGS = build("baseline_decision")
