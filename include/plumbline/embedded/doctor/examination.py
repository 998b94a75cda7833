"""Check the whole installation, one line and one remedy for each check. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from plumbline.declarations import DeclarationError, Declarations, installation_paths, load
from plumbline.declarations.addresses import local_path
from plumbline.declarations.dag_ids import in_shared_airflow
from plumbline.declarations.installation import REPOSITORY
from plumbline.embedded.doctor import airflow, databases, machine, watches
from plumbline.embedded.doctor.databases import find_airflow
from plumbline.launch.doctor_check import DoctorCheck, failed, ok


def examine() -> Iterator[DoctorCheck]:
    """Every check of this installation, the quick ones first; each broken thing is one line with its remedy."""
    here = installation_paths()
    declared, line = _declarations()
    yield line
    yield from machine.versions(None if REPOSITORY is None or in_shared_airflow() else REPOSITORY / "requirements.txt")
    yield machine.gpus()
    place = find_airflow(here.airflow_home)
    folders = {"reports and scratch": here.home, "Airflow's logs": here.airflow_home}
    if (results := local_path(here.results_url)) is not None:
        folders["results"] = results
    yield from machine.free_disk(folders)
    yield databases.archive_database(here.archive_url)
    yield watches.watches(here.archive_url, declared, datetime.now(timezone.utc))
    yield databases.airflow_database(place)
    yield machine.clock(place, here.archive_url)
    yield machine.result_store(here.results_url)
    known = airflow.metadata(place)
    yield from airflow.components(place, known, datetime.now(timezone.utc))
    yield from airflow.dags(place, known, declared, place.dags)
    yield from airflow.pools(place, known, declared)
    yield from airflow.connections(place, known, declared)
    yield airflow.request_key(place)
    yield from machine.pods(declared)


def _declarations() -> tuple[Declarations | None, DoctorCheck]:
    try:
        declared = load()
    except DeclarationError as error:
        first = str(error).strip().splitlines()[0]
        return None, failed("declarations", first, "`plumbline check` shows every problem")
    return declared, ok("declarations", f"{len(tuple(declared.enabled_providers()))} enabled providers")
