"""Measure every node of a provider, and write a signed sheet that says which ones to send back."""

from plumbline.airflow.dags import build

DAGS = build("acceptance")
