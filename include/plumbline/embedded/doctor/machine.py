"""Versions, GPUs, result store, free disk, clock, and pods on the clusters."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

import httpx
from packaging.requirements import Requirement
from sqlalchemy.exc import SQLAlchemyError

from plumbline.declarations import Declarations
from plumbline.declarations.dag_ids import UPKEEP_DAG, in_shared_airflow
from plumbline.declarations.urls import url_problem
from plumbline.embedded.doctor.databases import AirflowPlace, clock_of
from plumbline.harness.environment import described_gpus, hardware_judgements
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.launch.leftovers import counted_providers, stored_leftovers
from plumbline.launch.local.gpu_provider import gpu_facts
from plumbline.metrics.formatting import shorten
from plumbline.results import ResultStore
from plumbline.results.store_check import StoreFault, check_access
from plumbline.results.store_errors import one_line

LEAST_FREE_BYTES = 2 * 2**30
"""A campaign's raw evidence, the logs and a database that is migrated want some; PostgreSQL stops at none."""
_CLOCK_S = 10.0
_PYTHON = ((3, 10), (3, 13))
_PIN = re.compile(r"^([A-Za-z0-9][^\s#]*==[^\\\n]+)", re.MULTILINE)
_SHOWN = 5


def versions(lock: Path | None) -> Iterator[DoctorCheck]:
    """Python, and the installed packages against a checkout's lock file; without one, against the ranges of the installed package, or in an
    Airflow that a team had, whether that Airflow is supported."""
    here = sys.version_info[:2]
    if not _PYTHON[0] <= here <= _PYTHON[1]:
        yield failed("Python", f"{here[0]}.{here[1]}; expected 3.10 to 3.13", "`make PYTHON=python3.11 setup`")
    else:
        yield ok("Python", sys.version.split()[0])
    if lock is None:
        yield _airflow_version() if in_shared_airflow() else _ranges()
        return
    if not lock.is_file():
        yield unknown("packages", f"{lock} is not there to compare with", "the lock of the installed version, at that place")
        return
    every = map(Requirement, _PIN.findall(lock.read_text()))
    pinned = {r.name: str(r.specifier).removeprefix("==") for r in every if r.marker is None or r.marker.evaluate()}
    other = []
    for name, version_wanted in sorted(pinned.items()):
        try:
            if (installed := version(name)) != version_wanted:
                other.append(f"{name} {installed} instead of {version_wanted}")
        except PackageNotFoundError:
            other.append(f"{name} missing")
    if other:
        yield failed("packages", f"not as locked: {shorten(other, _SHOWN)}", "`make setup`, or build the server's image again")
    else:
        yield ok("packages", f"{len(pinned)} as locked; Airflow {pinned.get('apache-airflow', 'unknown')}")


def _ranges() -> DoctorCheck:
    other, held = [], 0
    for line in requires("plumbline") or ():
        requirement = Requirement(line)
        extras = ("", *(metadata("plumbline").get_all("Provides-Extra") or ()))
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            if requirement.marker is None:  # one of an extra is not missed: what needs it names the extra
                other.append(f"{requirement.name} missing")
            continue
        held += 1
        if not requirement.specifier.contains(installed, prereleases=True):
            other.append(f"{requirement.name} {installed} instead of {requirement.specifier}")
    if other:
        return failed(
            "packages", f"not as required: {shorten(other, _SHOWN)}", "install the wheel again with the same extras (docs/package.md)"
        )
    if not held:
        return unknown(
            "packages", f"plumbline {version('plumbline')} names no requirement to compare with", "install it as a wheel (docs/package.md)"
        )
    return ok("packages", f"{held} in the ranges of plumbline {version('plumbline')}")


def _airflow_version() -> DoctorCheck:
    try:
        from plumbline.airflow.versions import INSTALLED, NEWEST, OLDEST
    except ImportError as error:
        return failed("packages", str(error), "install a supported Airflow (docs/your-airflow.md)")
    bounds = f"Airflow {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if INSTALLED > NEWEST:
        return unknown("packages", f"Airflow {version('apache-airflow')} is newer than what was tried: {bounds}", "a newer plumbline")
    return ok("packages", f"Airflow {version('apache-airflow')}, plumbline {version('plumbline')}; supported: {bounds}")


def gpus() -> DoctorCheck:
    """This machine's GPUs: sound whole cards, parts of cards, or why they cannot be used."""
    facts = gpu_facts()
    count = facts.get("gpu.count")
    if why := facts.get("gpu.unknown_because"):
        return failed("GPUs here", str(why), "repair the driver, then `plumbline doctor` again; local-gpu is not measured until then")
    faults = [judgement.reason.detail for judgement in hardware_judgements(facts)]
    if faults:
        return failed("GPUs here", "; ".join(faults), "repair it, or its trials are degraded")
    if not count:
        hidden = facts.get("gpu.hidden_because")
        return skipped("GPUs here", str(hidden) if hidden else "not applicable: none")
    own = Counter(str(facts[f"gpu.{i}.product"]) for i in described_gpus(facts))
    parts = sorted({str(part) for i in described_gpus(facts) if (part := facts.get(f"gpu.{i}.slice")) is not None})
    names = ", ".join(f"{many} × {product}" for product, many in own.items())
    return ok("GPUs here", f"{names}, driver {facts['driver.version']}{'; no whole cards: ' if parts else ''}{', '.join(parts)}")


def result_store(url: str) -> DoctorCheck:
    """Write, read and delete one small object."""
    try:
        store = ResultStore(url, patience_s=0)
        check_access(store)
    except Exception as error:  # noqa: BLE001 (each store's own client raises its own kinds when it is opened)
        remedies = {"compare": "check for a cache or a proxy before the store", "delete": "allow DeleteObject: evidence expires by it"}
        remedy = remedies.get(error.step) if isinstance(error, StoreFault) else None
        otherwise = "check PLUMBLINE_RESULTS_URL, its credentials and that the store is there"
        shown = "PLUMBLINE_RESULTS_URL" if url_problem(url) else url
        return failed("result store", f"{shown}: {one_line(error)}", remedy or otherwise)
    return ok("result store", f"{url}: written, read, deleted")


def free_disk(folders: dict[str, Path], least_bytes: int = LEAST_FREE_BYTES) -> Iterator[DoctorCheck]:
    """Each file system once. `folders`: what is kept there → where; a folder that is not there yet counts as its parent."""
    devices = set[int]()
    for what, folder in folders.items():
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if (device := there.stat().st_dev) in devices:
            continue
        devices.add(device)
        free = shutil.disk_usage(there).free
        detail = f"{free / 2**30:.1f} GiB free for {what} in {folder}"
        if free < least_bytes:
            yield failed("free disk", f"{detail}; expected {least_bytes / 2**30:g}", "docs/operate.md, 'What grows'; or a larger disk")
        else:
            yield ok("free disk", detail)


def clock(place: AirflowPlace, archive_url: str) -> DoctorCheck:
    """This machine's clock against PostgreSQL's, else against the API server's; on one machine there is only one."""
    try:
        other = clock_of(archive_url) or _served_time(place)
    except (SQLAlchemyError, ValueError, OSError, httpx.HTTPError) as error:
        return unknown("clock", f"the server's cannot be read: {one_line(error)}", "an archive or API server that answers")
    if other is None:
        return skipped("clock", "not applicable: no other machine to compare with")
    apart = (datetime.now(timezone.utc) - other).total_seconds()
    if abs(apart) > _CLOCK_S:
        return failed(
            "clock", f"{apart:+.0f} s against the server's", "start time synchronisation (chrony or systemd-timesyncd) on both machines"
        )
    return ok("clock", f"{apart:+.1f} s against the server's")


def _served_time(place: AirflowPlace) -> datetime | None:
    if not place.running or place.address is None:
        return None
    date = httpx.get(f"{place.address.rstrip('/')}/api/v2/monitor/health", timeout=10, trust_env=False).headers.get("date")
    return parsedate_to_datetime(date).astimezone(timezone.utc) if date else None


def pods(declared: Declarations | None) -> Iterator[DoctorCheck]:
    """One for each cluster. No cluster is asked: one that does not answer would hold up every other line."""
    if declared is None:
        return
    for provider in (p for p in declared.enabled_providers() if p.launcher.outlasts_task):
        check, counted = f"{'pods' if provider.launcher.runs_pods else 'jobs'} on {provider.name}", stored_leftovers(provider.name)
        if counted is None:
            yield unknown(check, "not counted yet", f"wait for `{UPKEEP_DAG}`, which counts hourly")
        elif counted.expired:
            yield failed(check, f"{counted}, counted {counted.utc}", f"`plumbline cluster sweep {provider.name}`")
        else:
            yield ok(check, f"{counted}, counted {counted.utc}")
    for name in counted_providers():
        known, counted = declared.providers.get(name), stored_leftovers(name)
        if counted is None or not counted.total or (known is not None and known.enabled):
            continue
        what = (
            f"{counted}, counted {counted.utc}; it is {'disabled' if known is not None else 'no longer declared, and nothing sweeps there'}"
        )
        remedy = f"`plumbline cluster sweep {name}`" if known is not None else f"delete what is left yourself. By {counted.where}"
        yield failed(f"pods on {name}", what, remedy)
