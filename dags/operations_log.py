"""Note what a provider did: an incident, a support ticket, a request for more quota, or maintenance."""

from plumbline.airflow.dags import build

DAGS = build("operations_log")
