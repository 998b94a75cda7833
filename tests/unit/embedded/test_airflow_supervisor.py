"""The supervisor with misbehaving components: however it ends, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from tests.fakes.quick_python import search_path

from plumbline.embedded import supervisor

pytestmark = pytest.mark.integration  # real processes and the real clock

INCLUDE = Path(__file__).resolve().parents[3] / "include"
# Stands in for Airflow's command: each component notes its pid, one leaves a child in another session, one may die or be stubborn.
FAKE_AIRFLOW = """
import os, pathlib, signal, subprocess, sys, time

home, name = pathlib.Path(os.environ["AIRFLOW_HOME"]), sys.argv[1]
def note(what, pid):
    (home / f"{what}.new").write_text(str(pid))
    (home / f"{what}.new").rename(home / f"{what}.pid")
if name == "db":
    note("migration", os.getpid())
    sys.exit(int(os.environ.get("FAKE_MIGRATION_STATUS", "0")))
if name == "scheduler":
    child = "import os, time; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True); time.sleep(120)"
    note("runaway", int(subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE).stdout.readline()))
if name == "triggerer" and os.environ.get("FAKE_STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
note(name, os.getpid())
if name == os.environ.get("FAKE_DIES"):
    while not (home / "die").exists():
        time.sleep(0.05)
    sys.exit(7)
time.sleep(120)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    package = tmp_path / "fake" / "airflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(FAKE_AIRFLOW)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def start(home: Path, steady_s: float = supervisor.STEADY_S, **settings: str) -> subprocess.Popen[bytes]:
    path = search_path(home.parent / "fake", INCLUDE)
    env = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": path, **settings}
    # From another folder, so that `-m airflow` is the fake wherever the tests run; our scheduler would import tasks that need the real one.
    fake = "s.COMPONENTS.update(scheduler=('airflow', 'scheduler', '--skip-serve-logs'))"
    code = f"import sys; from plumbline.embedded import supervisor as s; s.STEADY_S = {steady_s}; {fake}; sys.exit(s.main())"
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=home, start_new_session=True)


def all_up(home: Path) -> list[psutil.Process]:
    names = [*supervisor.COMPONENTS, "runaway"]
    wait_for(lambda: all((home / f"{name}.pid").exists() for name in names), "all have started")
    top = psutil.Process(int((home / "scheduler.pid").read_text())).parent()
    assert top is not None
    runaway = psutil.Process(int((home / "runaway.pid").read_text()))
    wait_for(lambda: runaway.ppid() == top.pid, "the runaway has run away, and was adopted")
    return top.children(recursive=True)


def wait_for(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_it_ends_everything_when_its_owner_lets_go(home: Path) -> None:
    process = start(home)
    family = all_up(home)
    assert len(alive(family)) == len(supervisor.COMPONENTS) + 1, "the runaway is adopted"
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(120) == supervisor.STOPPED_BY_OWNER
    assert alive(family) == []


def test_it_ends_everything_when_it_is_told_to(home: Path) -> None:
    process = start(home)
    family = all_up(home)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == supervisor.STOPPED_BY_OWNER
    assert alive(family) == []


def test_components_hear_of_its_violent_death(home: Path) -> None:
    process = start(home)
    family = all_up(home)
    components = [p for p in family if p.ppid() == process.pid and p.pid == int((home / "scheduler.pid").read_text())]
    process.kill()
    process.wait()
    wait_for(lambda: alive(components) == [], "the components have ended")
    for left in alive(family):
        left.kill()


@pytest.mark.full
def test_a_stubborn_component_is_killed_after_the_grace_time(home: Path) -> None:
    process = start(home, FAKE_STUBBORN="1")
    family = all_up(home)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(supervisor.GRACE_S + 120)
    assert alive(family) == []


def test_a_component_that_dies_takes_the_rest_along_and_is_named(home: Path) -> None:
    process = start(home, FAKE_DIES="dag-processor")
    family = all_up(home)
    (home / "die").touch()
    assert process.wait(120) == supervisor.COMPONENT_ENDED
    assert process.stdout is not None
    out = process.stdout.read()
    assert b"dag-processor ended with status 7" in out
    assert alive(family) == []


@pytest.mark.fault("one component of `plumbline up` is killed", ends="started again alone, and named", keeps="the other components")
def test_killed_components_are_started_again_alone_and_named(home: Path) -> None:
    process = start(home, steady_s=0)
    all_up(home)
    before = {name: (home / f"{name}.pid").read_text() for name in supervisor.COMPONENTS}
    killed = ("dag-processor", "triggerer")
    process.send_signal(signal.SIGSTOP)  # both ends are seen at once
    for name in killed:
        (home / f"{name}.pid").unlink()
        os.kill(int(before[name]), signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: all((home / f"{name}.pid").exists() for name in killed), "both run again")
    after = {name: (home / f"{name}.pid").read_text() for name in supervisor.COMPONENTS}
    assert {name for name in after if after[name] != before[name]} == set(killed)
    out, _ = process.communicate(timeout=120)
    lines = sorted(out.decode().splitlines())
    assert [line.split()[0] for line in lines] == list(killed) and all("status -9" in line for line in lines)
    assert process.returncode == supervisor.STOPPED_BY_OWNER


def test_the_database_comes_first_and_only_once_a_version(home: Path) -> None:
    process = start(home)
    all_up(home)
    process.communicate(timeout=120)
    assert (home / "migrated-to").read_text() == version("apache-airflow-core")
    for name in ("migration", "runaway", *supervisor.COMPONENTS):
        (home / f"{name}.pid").unlink()
    again = start(home)
    all_up(home)
    again.communicate(timeout=120)
    assert not (home / "migration.pid").exists()


def test_without_a_database_nothing_starts(home: Path) -> None:
    process = start(home, FAKE_MIGRATION_STATUS="1")
    assert process.wait(120) == supervisor.COMPONENT_ENDED
    assert process.stdout is not None
    out = process.stdout.read()
    assert b"migration ended with status 1" in out
    assert not (home / "scheduler.pid").exists()
    assert not (home / "migrated-to").exists()
