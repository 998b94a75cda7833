"""What holds for every test: a temporary Airflow home for each process that runs tests, signals that do what Python makes them do, quick
schemas of new archives, quick starts of Python, an idle machine for tests that need one, and a second try for tests of real servers and
processes."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.fakes.exclusive_lock import ExclusiveLock
from tests.fakes.postgres_server import archive_url, postgres_server  # noqa: F401 - one server for all tests of a process
from tests.fakes.quick_python import search_path, sitecustomize  # noqa: F401 - for this process too
from tests.golden import Golden

# Before any test imports Airflow, which makes its home when it is imported. Processes of one run share no home.
if "AIRFLOW_HOME" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
# Servers that two processes start at once would both find the default port free.
if worker := os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw"):
    os.environ.setdefault("PLUMBLINE_PORT", str(18080 + int(worker)))
# Also of the processes that run tests.
os.environ["PYTHONPATH"] = search_path(*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
# The width of what commands print, whatever terminal runs the tests; read when the command line is imported.
os.environ["COLUMNS"] = "140"


# A full collection walks all that the test modules import, for a second; of that, nothing is ever garbage. The client of a load collects,
# freezes and unfreezes around each phase, which would undo it here.
gc.disable()
_freeze = gc.freeze

_FIRST = ("integration", "browser", "dags", "workflows", "harness")


def pytest_collection_finish() -> None:
    _freeze()
    gc.enable()
    gc.freeze = gc.unfreeze = lambda: None


@pytest.fixture(autouse=True, scope="module")
def _freeze_imports() -> Iterator[None]:
    """Also what a module's tests import: with Airflow's operators each collection takes half a second."""
    yield
    gc.collect()
    _freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="accept the messages of this run into tests/data/golden/messages.toml")


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    return Golden(write=pytestconfig.getoption("write_golden"))


def _order(item: pytest.Item) -> int:
    """The slowest folders first, so that two processes end together."""
    folders = item.path.relative_to(Path(__file__).parent).parts[:2]
    return next((number for number, name in enumerate(_FIRST) if name in folders), len(_FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests below browser/ and integration/ have that marker. A neighbour on the machine can hold up a real server or process for seconds, so its tests get a second try; the first one's
    traceback is printed at the end, for whoever has it in their hands to mend, and a run grants few (pyproject.toml)."""
    items.sort(key=_order)
    for item in items:
        if (folder := item.path.relative_to(Path(__file__).parent).parts[0]) in ("browser", "integration"):
            item.add_marker(folder)
        if any(item.get_closest_marker(name) for name in ("integration", "browser", "cluster")):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the limit of pytest-timeout
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With several processes (`-n 2`): a test marked `exclusive` runs while no other does."""
    if "PYTEST_XDIST_TESTRUNUID" not in os.environ:
        return (yield)
    with ExclusiveLock(os.environ["PYTEST_XDIST_TESTRUNUID"]).hold(exclusive=item.get_closest_marker("exclusive") is not None):
        return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The process that distributes the tests removes their lock."""
    if run := getattr(config.pluginmanager.getplugin("dsession"), "nodemanager", None):
        ExclusiveLock(run.testrunuid).remove()


_QUICKER = {"plumbline.archive": "quick_archives", "fastapi.routing": "quick_pages", "plumbline.presentation.html.report": "quick_charts"}
"""What tests make again and again, and what makes it quicker."""


@pytest.fixture(autouse=True, scope="session")
def _quicker() -> None:
    for name, fake in _QUICKER.items():
        if name in sys.modules:  # else no test of this run uses it here
            import_module(f"tests.fakes.{fake}").install()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """With several processes, PyTorch's threads would wait for each other's cores. Processes that a test starts are not affected."""
    if "PYTEST_XDIST_WORKER" in os.environ and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _cublas() -> Iterator[None]:
    """A training in this process sets cuBLAS's workspace for all that follow: the environment's facts name it."""
    yield
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


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
