"""What holds for every test: a temporary Airflow home for each process that runs tests, signals that do what Python makes them do, quick
schemas of new archives, and a second try for tests of real servers and processes."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from tests.fakes.archive_schema import RecordedMigration

# Before any test imports Airflow, which makes its home when it is imported. Processes of one run share no home.
if "AIRFLOW_HOME" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A neighbour on the machine can hold up a real server or process for seconds, so its tests get a second try; the first one's
    traceback is printed at the end, for whoever has it in their hands to mend, and a run grants few (pyproject.toml)."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("integration", "browser", "cluster")):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(autouse=True)
def _quick_schema() -> None:
    migrations = sys.modules.get("plumbline.archive.migrate")
    if migrations is not None and not isinstance(migrations.upgrade, RecordedMigration):
        migrations.upgrade = RecordedMigration(migrations)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt also where the tests run in the background, whose processes ignore it, and after parts of
    Airflow, which take signals for themselves and keep them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        if handler is not None:  # one that was not set from Python cannot be set from Python
            signal.signal(number, handler)
