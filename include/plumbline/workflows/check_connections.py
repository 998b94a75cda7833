"""Airflow connections that the triggerer needs, and what it answered when it was asked for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from plumbline.archive import open_archive
from plumbline.declarations import Declarations, load_in_force
from plumbline.declarations.connections import needed_by_triggerer
from plumbline.declarations.dag_ids import UPKEEP_DAG
from plumbline.findings.types.installation import INSTALLATION, FailureCode, InstallationFailure
from plumbline.launch.connections import airflow_connection
from plumbline.metrics.formatting import shorten
from plumbline.workflows.check_installation import reconcile_failures

CODES: tuple[FailureCode, ...] = ("connection_missing",)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectionAnswer:
    """What a process found for each name that it was asked for. `unread`: name → why the place that may hold it did not answer."""

    there: Sequence[str] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


def read_connections(names: Sequence[str]) -> ConnectionAnswer:
    """Which connections this process can read. Their content goes nowhere."""
    there, missing, unread = list[str](), list[str](), dict[str, str]()
    for name in names:
        try:
            airflow_connection(name, "is not defined")
        except ValueError:
            missing.append(name)
        except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises is no answer
            unread[name] = f"{type(error).__name__}: {error}" if isinstance(error, ConnectionError) else type(error).__name__
        else:
            there.append(name)
    return ConnectionAnswer(there, missing, unread)


def needed_now() -> list[str]:
    """The connections to ask the triggerer for."""
    return sorted(needed_by_triggerer(load_in_force()))


def store_answer(row: Mapping[str, Any], now: datetime) -> list[str]:
    """Open, continue or resolve the findings; ids of those that changed. A connection that could not be read keeps the finding that it has."""
    answer, declared = ConnectionAnswer(**row), load_in_force()
    for name, why in answer.unread.items():
        _log.warning("The triggerer could not read connection %s, so whether it lacks it is not shown: %s", name, why)
    with open_archive() as archive:
        known = {str(view.detail.get("subject")) for view in archive.findings_of(INSTALLATION, "self", unsettled=True)}
        unread = [failure for name in answer.unread if (failure := _failure(declared, name, now)).subject in known]
        return reconcile_failures(archive, [*(_failure(declared, name, now) for name in answer.missing), *unread], CODES, now)


def _failure(declared: Declarations, name: str, now: datetime) -> InstallationFailure:
    users = needed_by_triggerer(declared).get(name, ())
    return InstallationFailure(
        code="connection_missing",
        what=name,
        occurrence=f"{now:%Y-%m-%d}",
        since=now,
        severity="page",
        title=f"The triggerer lacks the connection {name}: {shorten(users) or 'what uses it'} cannot be measured or checked",
        cause=f"when upkeep asked it, the triggerer found no connection {name} in any place that it reads",
        remedy=f"Define {name} where the triggerer reads connections: Airflow's database, the secrets backend, or its own environment; then "
        f"`plumbline airflow dags trigger {UPKEEP_DAG}` asks again",
    )
