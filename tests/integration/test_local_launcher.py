"""The local launcher against real, badly behaved processes: whatever they do, the record says it and nothing is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, local_provider

from plumbline.declarations import Trial, installation_paths
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.harness.process_tree import ProcessId
from plumbline.launch.local import machine_access
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.results import LaunchRecord, ResultStore, log_transport

REPOSITORY = Path(__file__).resolve().parents[2]
# What each small program starts with: it knows its trial, can report, and notes every process that it makes.
PRELUDE = """
import argparse, json, os, signal, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("run"); parser.add_argument("--trial"); parser.add_argument("--out")
options = parser.parse_args()
trial = json.loads(Path(options.trial).read_text())
home = Path(os.environ["PLUMBLINE_HOME"])
def note():
    with (home / "pids").open("a") as file:
        file.write(f"{os.getpid()}\\n")
def progress(phase, fraction):
    print(json.dumps({"event": "plumbline-progress", "trial_id": trial["trial_id"], "phase": phase, "fraction": fraction, "note": "n"}), flush=True)
note()
"""
ESCAPE = """
def escape():
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note()
        time.sleep(60)
        os._exit(0)
escape()
while len((home / "pids").read_text().split()) < 2:
    time.sleep(0.01)
"""
DOCUMENT = """
from plumbline.declarations import Trial
from plumbline.results import Environment, Reason, ResultDocument, ResultStore, Validity, metric_row
def document(validity, **more):
    asked = Trial.model_validate_json(Path(options.trial).read_text())
    sealed = ResultDocument.sealed(trial=asked, harness_version="0", environment=Environment.of({"a": 1}), validity=validity, **more)
    ResultStore(options.out).put_document(sealed)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own."""
    path = tmp_path / "home"
    path.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(path))
    # Locks and scratch folders go where all installations of a user meet; here that is the test's own folder.
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return path


@pytest.fixture
def store(home: Path) -> ResultStore:
    return ResultStore(installation_paths().results_url)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], list[str]]:
    """A command that runs a small program in place of the harness."""

    def write(*parts: str) -> list[str]:
        path = tmp_path / f"{uuid.uuid4().hex}.py"
        path.write_text(PRELUDE + "\n".join(textwrap.dedent(part) for part in parts))
        return [sys.executable, str(path)]

    return write


def trial_on(machine: str | None = None, **launcher: Any) -> Trial:
    return a_trial(provider=local_provider(machine=machine or f"test-{uuid.uuid4().hex[:12]}", **launcher))


def assert_nothing_left(home: Path) -> None:
    pids = [int(pid) for pid in (home / "pids").read_text().split()] if (home / "pids").exists() else []
    assert [pid for pid in pids if ProcessId.of(pid)] == []
    assert list((home / "work").iterdir()) == []
    left = [path for path in Path(tempfile.gettempdir()).rglob("*") if path.suffix != ".lock"]
    assert {path.name for path in left} <= {f"plumbline-{os.getuid()}"}, "beside the folder of the locks"


def names(record: LaunchRecord) -> list[str]:
    return [event.name for event in record.events]


def test_a_trial_that_works(home: Path, store: ResultStore, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret-1")
    monkeypatch.setenv("SLACK_TOKEN", "secret-2")
    trial = trial_on(cpus=[0])
    told: list[ProgressLine] = []
    command = program(
        DOCUMENT,
        """
        progress("steady", 0.5)
        print("cores", sorted(os.sched_getaffinity(0)), "session", os.getsid(0) != os.getpid(), os.environ["TMPDIR"])
        print("secrets", [v for v in os.environ.values() if v.startswith("secret-")], signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        document(Validity(status="valid"), metrics=(metric_row("step_time", 0.1, 5),))
        progress("cooldown", 1.0)
        """,
    )
    record = ProcessLauncher(command).launch(trial, store, told.append)
    folder = store.folder(trial)
    assert (record.failure_class, record.exit_code) == (None, 0), record
    assert [(line.phase, line.fraction) for line in told] == [("steady", 0.5), ("cooldown", 1.0)]
    assert names(record) == ["queued", "requested", "process_started", "harness_ready", "finished"]
    assert record.node["cpus.used"] == "0"
    log = store.get(f"{folder}/launch.log").decode()
    assert "cores [0]" in log
    assert "secrets [] set()" in log
    assert record.log_tail.startswith("cores [0]")
    assert "plumbline-progress" in log
    assert "plumbline-progress" not in record.log_tail
    assert store.trial(folder) == trial
    assert store.launch(folder) == record
    assert not Path(log.split("session True ")[1].split("\n")[0]).exists()
    assert_nothing_left(home)


def test_a_trial_that_never_ends_and_ignores_sigterm(home: Path, store: ResultStore, program: Any) -> None:
    command = program("signal.signal(signal.SIGTERM, signal.SIG_IGN)", ESCAPE, "time.sleep(60)")
    record = ProcessLauncher(command, grace_s=0.5).launch(trial_on(timeout="1s"), store)
    assert record.failure_class == "timeout"
    assert "launcher.timeout, 1 s" in str(record.failure_detail)
    assert_nothing_left(home)


@pytest.mark.full
def test_a_trial_that_leaves_a_daemon_behind(home: Path, store: ResultStore, program: Any) -> None:
    command = program(DOCUMENT, ESCAPE, 'document(Validity(status="valid"))')
    record = ProcessLauncher(command, grace_s=0.3).launch(trial_on(), store)
    assert record.failure_class is None, record
    assert_nothing_left(home)


def test_a_trial_that_eats_memory(home: Path, store: ResultStore, program: Any) -> None:
    hog = "import subprocess\nsubprocess.run([sys.executable, '-c', 'import time; x = bytearray(200 * 2**20); time.sleep(60)'])"
    record = ProcessLauncher(program(hog), grace_s=1.0).launch(trial_on(memory="100MiB", timeout="30s"), store)
    assert record.failure_class == "out_of_memory"
    assert "100 MiB" in str(record.failure_detail)
    assert_nothing_left(home)


@pytest.mark.full
def test_shared_memory_is_not_counted_twice(home: Path, store: ResultStore, program: Any) -> None:
    shared = """
    x = bytearray(60 * 2**20)
    for i in range(0, len(x), 4096): x[i] = 1
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(1.5)
            os._exit(0)
    time.sleep(1.5)
    document(Validity(status="valid"))
    """
    record = ProcessLauncher(program(DOCUMENT, shared)).launch(trial_on(memory="200MiB"), store)
    assert record.failure_class is None, record.failure_detail
    assert_nothing_left(home)


@pytest.mark.parametrize(
    ("body", "failure_class", "said"),
    [
        ("print('reading'); raise KeyError('no such tensor')", "harness_error", "no such tensor"),
        ("print('trial.json: phases[0] is wrong'); sys.exit(2)", "bad_declaration", "phases[0] is wrong"),
        ("sys.exit(0)", "harness_error", "exit status 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "interrupted", "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "harness_error", "SIGSEGV"),
        (
            DOCUMENT
            + "document(Validity(status='failed', reasons=(Reason(code='x', detail='no port'),), failure_class='server_error')); sys.exit(3)",
            "server_error",
            "no port",
        ),
        (DOCUMENT + "document(Validity(status='valid')); sys.exit(3)", "harness_error", "exit status 3"),
    ],
)
def test_a_trial_that_fails(home: Path, store: ResultStore, program: Any, body: str, failure_class: str, said: str) -> None:
    trial = trial_on()
    record = ProcessLauncher(program(body)).launch(trial, store)
    assert record.failure_class == failure_class
    assert said in str(record.failure_detail)
    assert store.launch(store.folder(trial)) == record
    assert_nothing_left(home)


def test_a_command_that_does_not_exist(home: Path, store: ResultStore) -> None:
    record = ProcessLauncher(["/nowhere/at-all"]).launch(trial_on(), store)
    assert record.failure_class == "harness_error"
    assert "cannot be started" in str(record.failure_detail)
    assert_nothing_left(home)


def test_cores_that_are_not_there(home: Path, store: ResultStore, program: Any) -> None:
    printing = "print('cores', sorted(os.sched_getaffinity(0))); sys.exit(1)"
    fewer = ProcessLauncher(program(printing)).launch(trial_on(cpus=[0, 4095]), store)
    assert "cores [0]" in fewer.log_tail
    assert (fewer.node["cpus.declared"], fewer.node["cpus.used"]) == ("0,4095", "0")
    trial = trial_on(cpus=[4094, 4095]).model_copy(update={"trial_id": "another"})
    none = ProcessLauncher(program("note()")).launch(trial, store)
    assert none.failure_class == "bad_declaration"
    assert "4094,4095" in str(none.failure_detail)
    assert "process_started" not in names(none)
    assert store.launch(store.folder(trial)) == none
    assert_nothing_left(home)


def test_an_attempt_is_never_overwritten(home: Path, store: ResultStore, program: Any) -> None:
    trial = trial_on()
    ProcessLauncher(program("sys.exit(1)")).launch(trial, store)
    first = store.get(f"{store.folder(trial)}/launch.json")
    ProcessLauncher(program("sys.exit(2)")).launch(trial, store)
    assert [folder.rpartition("/")[2] for folder in store.attempts(trial.campaign_id, trial.trial_id)] == ["attempt-1", "attempt-2"]
    assert store.get(f"{store.folder(trial)}/launch.json") == first
    second = store.launch(store.attempts(trial.campaign_id, trial.trial_id)[1])
    assert second is not None
    assert second.failure_class == "bad_declaration"


def test_a_flood_of_output(home: Path, store: ResultStore, program: Any) -> None:
    flood = "sys.stdout.write('x' * 100 + '\\n')\nfor _ in range(40): os.write(1, b'y' * 2**20)\nprint('\\nthe end'); sys.exit(1)"
    trial = trial_on()
    record = ProcessLauncher(program(flood)).launch(trial, store)
    log = store.get(f"{store.folder(trial)}/launch.log", log_transport.MAX_LOG_BYTES)
    assert b"further bytes were not stored" in log
    assert record.log_tail.endswith("the end")
    assert len(record.log_tail) <= 4096


def test_a_launcher_that_is_interrupted(home: Path, store: ResultStore, program: Any) -> None:
    trial = trial_on()

    def interrupt(_: ProgressLine) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ProcessLauncher(program(ESCAPE, 'progress("steady", 0.1)\ntime.sleep(60)'), grace_s=0.5).launch(trial, store, interrupt)
    record = store.launch(store.folder(trial))
    assert record is not None
    assert record.failure_class == "interrupted"
    assert_nothing_left(home)


LAUNCH = """
import json, sys
from plumbline.declarations import Trial, installation_paths
from plumbline.launch.local.process_launcher import ProcessLauncher
from plumbline.results import ResultStore
trial = Trial.model_validate_json(open(sys.argv[1]).read())
said = lambda line: print(json.dumps([line.phase, line.note]), flush=True)
record = ProcessLauncher(json.loads(sys.argv[2]), grace_s=0.5).launch(trial, ResultStore(installation_paths().results_url), said)
print(json.dumps(record.failure_class), flush=True)
"""


def launched(tmp_path: Path, trial: Trial, command: list[str]) -> subprocess.Popen[str]:
    """A launcher in a process of its own."""
    specification = tmp_path / f"{uuid.uuid4().hex}.json"
    specification.write_text(trial.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": search_path(REPOSITORY / "include")}
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(specification), json.dumps(command)], env=environment, stdout=subprocess.PIPE, text=True
    )


def eventually(condition: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def alive(home: Path) -> list[int]:
    return [int(pid) for pid in (home / "pids").read_text().split() if ProcessId.of(int(pid))]


def test_a_launcher_that_is_killed(home: Path, tmp_path: Path, program: Any) -> None:
    launcher = launched(tmp_path, trial_on(), program(ESCAPE, 'progress("steady", 0.1)\ntime.sleep(60)'))
    assert launcher.stdout is not None
    assert "steady" in launcher.stdout.readline()
    assert len(alive(home)) == 2
    launcher.kill()
    launcher.wait()
    eventually(lambda: alive(home) == [], "the keeper ends the trial when its launcher is gone")
    machine_access.end_abandoned(home / "work")
    assert_nothing_left(home)


@pytest.mark.full
def test_a_launcher_that_is_killed_together_with_the_keeper(home: Path, tmp_path: Path, program: Any) -> None:
    machine = f"test-{uuid.uuid4().hex[:12]}"
    launcher = launched(tmp_path, trial_on(machine), program(ESCAPE, 'progress("steady", 0.1)\ntime.sleep(60)'))
    assert launcher.stdout is not None
    assert "steady" in launcher.stdout.readline()
    running = json.loads(next((home / "work").glob("*.pid")).read_text())
    assert machine_access.end_abandoned(home / "work") == [], "a living launcher's trial is none of the sweep's business"
    launcher.send_signal(signal.SIGSTOP)  # so that it cannot clean up between the two
    os.kill(running["keeper"], signal.SIGKILL)
    launcher.kill()
    launcher.wait()
    left = alive(home)
    assert len(left) == 2, "nobody was there to end them"
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        assert set(left) <= set(machine_access.end_abandoned(home / "work"))
        assert_nothing_left(home)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert machine_access.end_abandoned(home / "work") == []


def test_trials_on_one_machine_never_overlap(home: Path, tmp_path: Path, program: Any, store: ResultStore) -> None:
    machine = f"test-{uuid.uuid4().hex[:12]}"
    span = """
    began = time.monotonic(); progress("steady", 0.1)
    while not (home / "go").exists(): time.sleep(0.01)
    with (home / "spans").open("a") as file: file.write(json.dumps([began, time.monotonic()]) + "\\n")
    sys.exit(1)
    """
    first = launched(tmp_path, trial_on(machine), program(span))
    assert first.stdout is not None
    assert "steady" in first.stdout.readline()
    told: list[ProgressLine] = []
    other = trial_on(machine).model_copy(update={"trial_id": "another"})

    def tell(line: ProgressLine) -> None:
        told.append(line)
        time.sleep(0.2)  # the other one could begin now, if it did not wait
        (home / "go").touch()

    ProcessLauncher(program(span)).launch(other, store, tell)
    first.communicate()
    (_, end), (begin, _) = sorted(json.loads(line) for line in (home / "spans").read_text().splitlines())
    assert end <= begin
    assert told[0].phase == "queued"
    assert machine in told[0].note
    assert "local-1core" in told[0].note
    assert_nothing_left(home)


@pytest.mark.full
def test_a_machine_that_stays_busy(home: Path, tmp_path: Path, program: Any, store: ResultStore) -> None:
    machine = f"test-{uuid.uuid4().hex[:12]}"
    first = launched(tmp_path, trial_on(machine), program('progress("steady", 0.1)\ntime.sleep(60)'))
    assert first.stdout is not None
    assert "steady" in first.stdout.readline()
    other = trial_on(machine).model_copy(update={"trial_id": "another"})
    record = ProcessLauncher(program("note()"), patience_s=0.2).launch(other, store)
    assert record.failure_class == "launch_timeout"
    assert machine in str(record.failure_detail)
    assert store.launch(store.folder(other)) == record
    first.terminate()
    first.wait()
    eventually(lambda: alive(home) == [], "a terminated launcher's trial ends")
    machine_access.end_abandoned(home / "work")
    assert_nothing_left(home)


@pytest.mark.full
def test_an_orphan_does_not_block_the_machine(home: Path, tmp_path: Path, program: Any, store: ResultStore, monkeypatch: Any) -> None:
    """A second installation meets what a killed launcher of the first one left behind."""
    machine = f"test-{uuid.uuid4().hex[:12]}"
    stubborn = program("signal.signal(signal.SIGTERM, signal.SIG_IGN)", 'progress("steady", 0.1)\ntime.sleep(60)')
    first = launched(tmp_path, trial_on(machine), stubborn)
    assert first.stdout is not None
    assert "steady" in first.stdout.readline()
    running = json.loads(next((home / "work").glob("*.pid")).read_text())
    os.kill(running["keeper"], signal.SIGSTOP)  # a keeper that cannot do its work still holds the lock
    first.kill()
    first.wait()
    second = tmp_path / "second"
    second.mkdir()
    monkeypatch.setenv("PLUMBLINE_HOME", str(second))
    assert ProcessLauncher(program("sys.exit(2)")).launch(trial_on(machine), store).failure_class == "bad_declaration"
    assert_nothing_left(home)
    assert_nothing_left(second)
