"""What fails in an installation, from an Airflow that says so and a real archive: each failure appears, and is gone with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.trials import CONFIG

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, load
from plumbline.workflows import check_installation
from plumbline.workflows.airflow_view import DagFiles, DeclaredDag, DeployedDag
from plumbline.workflows.check_installation import CHECKED, WITHOUT_DECLARATIONS, find_failures, slots_before

NOW = datetime(2026, 12, 1, 23, 30, tzinfo=timezone.utc)
DAG = "benchmark_local_1core"
SCHEDULED = f"scheduled__{NOW - timedelta(hours=2):%Y-%m-%dT%H:%M:%S}+00:00"


SLOT = NOW.replace(hour=4, minute=17)
STEPS = tuple(f"{lane}.{step}" for lane in ("training", "inference") for step in ("plan", "collect", "validate", "record"))
DAGS = (
    DeclaredDag(DAG, "dags/benchmark.py", tasks=(*STEPS, "publish"), scheduled=True),
    DeclaredDag("upkeep", "dags/upkeep.py", tasks=("sweep", "tell"), scheduled=True, by_itself=True, repeats=True, slots=(SLOT,)),
    DeclaredDag("upkeep_daily", "dags/upkeep.py", tasks=("verify",), scheduled=True, by_itself=True, repeats=True, slots=(SLOT,)),
    DeclaredDag("a_new_one", "dags/new.py", tasks=("step",), scheduled=True, by_itself=True, repeats=True, slots=(SLOT,)),
    DeclaredDag("drift_review", "dags/review.py", tasks=("compare",), scheduled=True, by_itself=True, starts=("decision",)),
    DeclaredDag("decision", "dags/decision.py", tasks=("answer",), by_itself=True),
    DeclaredDag("by_hand", "dags/by_hand.py", tasks=("act",), by_itself=True),
)


@dataclass
class Airflow:
    """An Airflow in which all is well, until a test says otherwise."""

    red: dict[str, dict[str, dict[str, str | None]]] = field(default_factory=dict)
    newest: dict[str, dict[str, str | None]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    is_paused: dict[str, bool] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """DAGs that Airflow does not have."""
    due: dict[str, datetime] = field(default_factory=dict)
    busy: tuple[str, ...] = ()
    declares: tuple[DeclaredDag, ...] = DAGS
    files: frozenset[str] = frozenset(dag.file for dag in DAGS)
    runs: bool = True
    reads_dags: bool = True
    beats: dict[str, datetime | None] = field(default_factory=lambda: {"triggerer": NOW, "dag_processor": NOW})

    def dag_files(self) -> DagFiles:
        there = {d.dag_id: d for d in self.declares if d.file in self.files and d.file not in self.unreadable}
        return DagFiles(there, self.unreadable, self.files | set(self.unreadable))

    def dag(self, dag_id: str) -> DeployedDag | None:
        return None if dag_id in self.without else DeployedDag(self.is_paused.get(dag_id, False), self.due.get(dag_id))

    def active(self, dag_id: str) -> bool:
        return dag_id in self.busy

    def task_states(self, dag_id: str, task_ids: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        runs = self.red.get(dag_id, {})
        return {run: {t: s for t, s in states.items() if t.rstrip("_0123456789") in task_ids} for run, states in runs.items()}

    def newest_states(self, dag: DeclaredDag) -> tuple[str, Mapping[str, str | None]] | None:
        return (SCHEDULED, self.newest[dag.dag_id]) if dag.dag_id in self.newest else None

    def started(self, dag_id: str, slot: datetime) -> bool:
        return self.runs

    def heartbeats(self) -> Mapping[str, datetime | None]:
        return self.beats


@pytest.fixture(scope="module")
def declared() -> Declarations:
    known = load(CONFIG)
    return replace(known, providers={"local-1core": known.providers["local-1core"].model_copy(update={"enabled": True})})


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: NOW - timedelta(days=40))
    with open_archive() as opened:
        find_failures(opened, None, Airflow(), NOW)  # the first check, 40 days ago
        yield opened


BROKEN = {
    "a red record": ({"red": {DAG: {SCHEDULED: {"training.record_3": "failed"}}}}, f"task_failed {DAG} {SCHEDULED}", "record"),
    "a red collect": ({"red": {DAG: {SCHEDULED: {"training.collect": "failed"}}}}, f"task_failed {DAG} {SCHEDULED}", "collect"),
    "a red sweep": ({"newest": {"upkeep": {"sweep_1": "failed", "tell": "success"}}}, "task_failed upkeep", "cluster doctor"),
    "a red nightly verify": ({"newest": {"upkeep_daily": {"verify": "failed"}}}, "task_failed upkeep_daily", "archive verify"),
    "a DAG file that cannot be parsed": ({"unreadable": {"dags/b.py": "x\nboom\n"}}, "dag_unreadable dags/b.py", "plumbline check"),
    "a benchmark that is paused past its slot": ({"is_paused": {DAG: True}, "runs": False}, f"benchmark_missed {DAG}", "dags unpause"),
    "a slot that the scheduler missed": ({"runs": False}, f"benchmark_missed {DAG}", "plumbline trigger local-1core"),
    "a paused nightly check": ({"is_paused": {"upkeep_daily": True}}, "dag_paused upkeep_daily", "dags unpause upkeep_daily"),
    "a paused watch of a new file": ({"is_paused": {"a_new_one": True}}, "dag_paused a_new_one", "dags unpause a_new_one"),
    "a red task of a new file": (
        {"newest": {"a_new_one": {"step": "failed"}}},
        "task_failed a_new_one",
        "'Triage' on the page of a_new_one",
    ),
    "a red answer of a DAG that another one starts": (
        {"red": {"decision": {"f_2026-11": {"answer": "failed"}}}},
        "task_failed decision f_2026-11",
        "'Triage' on the page of decision",
    ),
    "a DAG that Airflow does not have": ({"without": ("a_new_one",)}, "dag_missing a_new_one", "dag-processor"),
    "a DAG file that is gone": (
        {"files": frozenset(d.file for d in DAGS) - {"dags/new.py"}},
        "dag_missing dags/new.py",
        "Bring the file back",
    ),
    "a DAG that its file declares no more": ({"declares": DAGS[:1] + DAGS[2:]}, "dag_missing upkeep", "Bring the file back"),
    "a DAG that does not start": ({"due": {"upkeep_daily": SLOT}}, "dag_late upkeep_daily", "dags trigger upkeep_daily"),
    "a triggerer that is away": (
        {"beats": {"triggerer": NOW - timedelta(minutes=6), "dag_processor": NOW}},
        "component_away triggerer",
        "up -d triggerer",
    ),
    "a DAG processor that never began": (
        {"beats": {"triggerer": NOW, "dag_processor": None}},
        "component_away dag_processor",
        "dag-processor",
    ),
}


@pytest.mark.fault("each part of the installation, one at a time", ends="one finding of kind self with its remedy", keeps="no duplicate")
@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_each_failure_is_one_finding_with_a_remedy_and_is_over_with_its_cause(
    archive: Archive, declared: Declarations, case: tuple[dict[str, object], str, str]
) -> None:
    broken, subject, remedy = case
    airflow = Airflow(**broken)  # type: ignore[arg-type]
    for _ in range(2):
        found, codes = find_failures(archive, declared, airflow, NOW)
        check_installation.reconcile_failures(archive, found, codes, NOW)
    (finding,) = archive.findings_of("plumbline", "self")
    assert (finding.state, finding.detail["subject"]) == ("open", subject)
    assert remedy in finding.detail["remedy"]
    found, codes = find_failures(archive, declared, Airflow(), NOW)
    assert found == []
    check_installation.reconcile_failures(archive, found, codes, NOW)
    assert [f.state for f in archive.findings_of("plumbline", "self")] == ["resolved"]


def test_a_red_trial_is_data_about_the_provider(archive: Archive, declared: Declarations) -> None:
    airflow = Airflow(red={DAG: {SCHEDULED: {"training.trial.run_0": "failed"}}})
    assert find_failures(archive, declared, airflow, NOW)[0] == []


def test_slots_before_the_first_look_and_slots_measured_since_are_not_missed(archive: Archive, declared: Declarations) -> None:
    provider = declared.providers["local-1core"]
    slots = slots_before(declared, provider, NOW)
    assert slots and all(slot.day == 1 for slot in slots) and slots_before(declared, provider, NOW.replace(hour=0, minute=0)) == []
    assert find_failures(archive, declared, Airflow(runs=False), NOW)[0]
    archive.record(document(trial(where=provider, campaign="on-demand", planned_at=NOW - timedelta(minutes=1))), uri="file:///s")
    assert find_failures(archive, declared, Airflow(runs=False), NOW)[0] == []


def test_a_new_installation_is_not_blamed_for_slots_before_it_began(
    tmp_path: Path, declared: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: NOW)
    with open_archive(f"sqlite:///{tmp_path / 'new.db'}") as new:
        for _ in range(2):
            assert find_failures(new, declared, Airflow(runs=False), NOW)[0] == []


def test_without_declarations_only_the_slots_of_benchmarks_are_not_checked(archive: Archive) -> None:
    airflow = Airflow(runs=False, is_paused={"upkeep_daily": True}, unreadable={"dags/benchmark.py": "bad declaration"})
    found, codes = find_failures(archive, None, airflow, NOW)
    assert [f.code for f in found] == ["dag_unreadable", "dag_paused"] and set(codes) == set(WITHOUT_DECLARATIONS) < set(CHECKED)


NOTHING_WRONG = {
    "started by people, who see its end": {"red": {"by_hand": {"manual__1": {"act": "failed"}}}},
    "paused from the start, for a person to unpause": {"is_paused": {DAG: True}},
    "still running past its next slot": {"due": {"upkeep_daily": SLOT}, "busy": ("upkeep_daily",)},
    "due within the hour": {"due": {"upkeep_daily": NOW - timedelta(minutes=59)}},
    "deployed after its slot": {"due": {"upkeep_daily": SLOT + timedelta(days=1)}},
}


@pytest.mark.parametrize("case", NOTHING_WRONG.values(), ids=NOTHING_WRONG)
def test_nothing_is_wrong_with_a_dag_that_is(archive: Archive, declared: Declarations, case: dict[str, object]) -> None:
    assert find_failures(archive, declared, Airflow(**case), NOW)[0] == []  # type: ignore[arg-type]


def test_a_dag_that_was_deployed_just_now_is_not_missing_yet(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: NOW)
    airflow = Airflow(declares=(*DAGS, DeclaredDag("just_now", "dags/just_now.py")), without=("just_now",))
    airflow.files |= {"dags/just_now.py"}
    for late, codes in ((0, []), (59, []), (61, ["dag_missing"])):
        now = NOW + timedelta(minutes=late)
        airflow.beats = dict.fromkeys(airflow.beats, now)
        assert [f.code for f in find_failures(archive, None, airflow, now)[0]] == codes


def test_a_benchmark_goes_with_its_declaration(archive: Archive) -> None:
    assert find_failures(archive, None, Airflow(declares=DAGS[1:]), NOW)[0] == []


def test_an_airflow_that_does_not_say_which_dags_are_paused_judges_none_of_them(archive: Archive) -> None:
    paused = Airflow(is_paused=dict.fromkeys(("upkeep_daily",), True))
    seen, codes = find_failures(archive, None, paused, NOW)
    assert "dag_paused" in {one.code for one in seen} and "dag_paused" in codes
    silent = Airflow(reads_dags=False)
    failures, checked = find_failures(archive, None, silent, NOW)
    # Not checked, so an open finding about them stays open.
    assert set(WITHOUT_DECLARATIONS) - set(checked) == {"dag_paused", "dag_late"} and failures == []
