"""Measure several providers again, now, for a reason."""

from plumbline.airflow.dags import build

DAGS = build("rerun")
