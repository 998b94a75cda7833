"""Check the providers between campaigns: report changes at once, and measure again if they can move results."""

from plumbline.airflow.dags import build

DAGS = build("provider_watch")
