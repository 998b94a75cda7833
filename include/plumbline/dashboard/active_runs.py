"""What Airflow runs now, as far as it can be asked."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from plumbline.answers.active_runs import ActiveRun, ReadActiveRuns

log = logging.getLogger(__name__)


def ask_airflow(read_runs: ReadActiveRuns | None) -> Sequence[ActiveRun] | None:
    """The runs in progress; None outside Airflow, and while its database does not answer."""
    if read_runs is None:
        return None
    try:
        return read_runs()
    except SQLAlchemyError:
        log.warning("Airflow's DAG runs cannot be read", exc_info=True)
        return None
