"""Keep the providers' clusters clean, and the archive sound, small and exported."""

from plumbline.airflow.dags import build

DAGS = build("upkeep")
