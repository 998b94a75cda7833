"""The task that says which short trials are due; `rerun_tasks.start` starts them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from plumbline.declarations import load
from plumbline.orchestration import probing


@task
def due() -> list[dict[str, Any]]:
    """The runs to start; skipped if none is due."""
    from plumbline.archive import open_archive

    with open_archive() as archive:
        found = probing.due(archive, load(), datetime.now(timezone.utc))
    if not found:
        raise AirflowSkipException("no provider declares watch.probe and is due")
    return found
