"""What holds for every test: no Airflow home in the home folder of whoever runs the tests, and signals that do what Python makes them do."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest

# Before any test imports Airflow, which makes its home when it is imported.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)


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
