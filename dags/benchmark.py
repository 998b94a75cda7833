"""Benchmark one provider: training and inference."""

from plumbline.airflow.dags import build

DAGS = build("benchmark")
