"""Check the uptime of endpoints and the capacity of clusters between campaigns, as often as declared."""

from plumbline.airflow.dags import build

DAGS = build("availability_watch")
