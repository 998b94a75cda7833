"""What DAGs tell each other."""

from __future__ import annotations

from airflow.sdk import Asset

RESULTS = Asset(name="plumbline_results", uri="x-plumbline://results")
"""New results are in the archive; each event says of which campaign and provider: {campaign_id, provider}."""
