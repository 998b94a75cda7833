"""The task that applies an action on a finding in the name of the user who started its run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.types import DagRunType
from tests.data.result_documents import document, trial
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.airflow.tasks.review import act, rerun, wanted
from plumbline.archive import FindingRecord, open_archive
from plumbline.workflows import baseline_decision
from plumbline.workflows.baseline_decision import Rerun


@pytest.fixture
def archive_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", url)
    with open_archive() as archive:
        archive.record(document(trial(campaign="2025-12")), uri="file:///store")
        stored(archive, drifted())
    return url


def form(**changed: Any) -> dict[str, Any]:
    return {"finding": "f1", "action": "acknowledge", "why": "ticket 7", "until": None, **changed}


def run(by: str | None, run_type: DagRunType = DagRunType.MANUAL) -> Any:
    return SimpleNamespace(triggering_user_name=by, run_type=run_type)


def test_the_user_of_the_run_is_the_author(archive_url: str) -> None:
    assert act.function(params=form(), dag_run=run("ann")) == {"finding_id": "f1", "answer": "acknowledge", "rerun": None}
    act.function(params=form(action="snooze", until="14d"), dag_run=run("bob"))
    with open_archive(archive_url) as archive:
        assert [(e.who, e.what) for e in archive.audit("f1")][-2:] == [("ann", "finding_acknowledged"), ("bob", "finding_snoozed")]


@pytest.mark.parametrize(
    ("changed", "by"),
    [({}, None), ({"finding": "none"}, "ann"), ({"why": " "}, "ann"), ({"action": "snooze"}, "ann"), ({"action": "rerun"}, "ann")],
)
def test_what_cannot_be_applied_fails_without_a_retry(archive_url: str, changed: dict[str, Any], by: str | None) -> None:
    with pytest.raises(AirflowFailException):
        act.function(params=form(**changed), dag_run=run(by))
    with open_archive(archive_url) as archive:
        assert archive.finding("f1").state == "open"


PAGE = DagRunType.OPERATOR_TRIGGERED


@pytest.mark.fault("a starter of finding_action lacks the right to start the benchmark or to see costs", ends="refused", keeps="the right")
@pytest.mark.parametrize(("action", "finding"), [("rerun", "f1"), ("accept", "price"), ("acknowledge", "price")])
def test_airflows_form_gives_no_right_that_the_page_checks(archive_url: str, action: str, finding: str) -> None:
    with open_archive(archive_url) as archive:
        archive.save_findings([FindingRecord("price", "", None, "lab", "price", "warn", "WARN dearer", {"since": "2026-11-20"})])
    with pytest.raises(AirflowFailException, match="which Airflow's form does not check; expected a button of the page"):
        act.function(params=form(action=action, finding=finding), dag_run=run("ann"))
    with open_archive(archive_url) as archive:
        assert archive.finding(finding).state == "open"
        assert "ann" not in {entry.who for entry in archive.audit(finding)}


@pytest.mark.fault(
    "a rerun is asked for twice, or its task is retried", ends="one run of the benchmark", keeps="what the second would cost"
)
def test_a_rerun_is_one_run_however_often_it_is_asked_for(archive_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline_decision, "plan_rerun", lambda *_: Rerun("benchmark_here", {"reason": "again"}))
    asked = [act.function(params=form(action="rerun"), dag_run=run(by, PAGE)) for by in ("ann", "ann", "bob")]
    (started,) = {wanted.function(each)[0]["trigger_run_id"] for each in asked}
    assert started.startswith("f1_2") and started.endswith("_rerun")
    with open_archive(archive_url) as archive:
        assert [e.who for e in archive.audit("f1") if e.what == "rerun_asked"] == ["ann", "bob"]
        archive.set_finding_state("f1", "acknowledged", by="ann", why="seen")
    (again,) = wanted.function(act.function(params=form(action="rerun"), dag_run=run("ann", PAGE)))
    assert again["trigger_run_id"] != started, "a finding that changed may be measured again"
    assert rerun([again]).partial_kwargs["skip_when_already_exists"] is True
