"""The task that applies an action on a finding in the name of the user who started its run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.types import DagRunType
from tests.data.result_documents import document, trial
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.airflow.signed_requests import FIELD, NoSigningKey, RequestRefused, sign, starter_of
from plumbline.airflow.tasks.review import act, rerun, tell, wanted
from plumbline.archive import FindingRecord, open_archive
from plumbline.declarations.installation import REQUEST_KEY
from plumbline.workflows import baseline_decision
from plumbline.workflows.baseline_decision import Rerun
from plumbline.workflows.plan import ACTION_DAG


@pytest.fixture
def archive_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", url)
    monkeypatch.setenv(REQUEST_KEY, "the-key")
    with open_archive() as archive:
        archive.record(document(trial(campaign="2025-12")), uri="file:///store")
        stored(archive, drifted())
    return url


def form(**changed: Any) -> dict[str, Any]:
    return {"finding": "f1", "action": "acknowledge", "why": "ticket 7", "until": None, **changed}


def run(by: str | None, run_type: DagRunType = DagRunType.MANUAL, conf: dict[str, Any] | None = None, run_id: str = "f1_0") -> Any:
    return SimpleNamespace(triggering_user_name=by, run_type=run_type, conf=conf or {}, run_id=run_id, dag_id=ACTION_DAG)


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


PROGRAM = DagRunType.OPERATOR_TRIGGERED
NOW = datetime.now(timezone.utc)


def pressed(by: str, signed_at: datetime = NOW, **asked: Any) -> dict[str, Any]:
    """The form of a run that a page started for a button."""
    return sign(by, ACTION_DAG, "f1_0", form(**asked), signed_at)


def entries(archive_url: str) -> list[tuple[str, str, str]]:
    with open_archive(archive_url) as archive:
        return [(e.who, e.subject, e.why) for e in archive.audit() if e.what == "request_refused"]


@pytest.mark.parametrize("run_type", [PROGRAM, DagRunType.MANUAL])
def test_the_signature_counts_whatever_the_type_of_the_run(archive_url: str, run_type: DagRunType) -> None:
    asked = run("ann", run_type, pressed("ann"))
    for _ in range(2):  # a retry verifies the same request
        assert act.function(params=form(), dag_run=asked)["answer"] == "acknowledge"
    act.function(params=form(action="resolve"), dag_run=run(None, run_type, pressed("bob", action="resolve")))
    with open_archive(archive_url) as archive:
        assert [(e.who, e.what) for e in archive.audit("f1")][-2:] == [("ann", "finding_acknowledged"), ("bob", "finding_resolved")]
    assert entries(archive_url) == []


@pytest.mark.fault(
    "another DAG, or a copied, expired or another user's request, starts finding_action",
    ends="refused, and in the audit log",
    keeps="the finding as it was",
)
@pytest.mark.parametrize(
    ("started", "expected"),
    [
        (lambda: run("ann", PROGRAM, form()), "another DAG, or no person, started this run; expected a button"),
        (lambda: run(None, DagRunType.MANUAL, form()), "another DAG, or no person, started this run; expected a button"),
        (lambda: run("ann", PROGRAM, pressed("ann"), run_id="f1_copied"), "is for the run f1_0 of finding_action, not for this one"),
        (
            lambda: run("ann", PROGRAM, pressed("ann", NOW - timedelta(hours=13))),
            "the signed request expired at .*; press the button again",
        ),
        (lambda: run("ann", PROGRAM, pressed("bob")), "the signed request is bob's, but ann started the run"),
        (lambda: run("ann", PROGRAM, {**pressed("ann"), "finding": "f2"}), "says another finding than the run's form"),
        (lambda: run("ann", PROGRAM, {**pressed("ann"), "action": "resolve"}), "says another action than the run's form"),
        (lambda: run("ann", PROGRAM, {**pressed("ann"), "more": 1}), "says another more than the run's form"),
        (lambda: run("ann", PROGRAM, {**form(), FIELD: pressed("ann")[FIELD][:-2] + "xx"}), "is changed, or signed by another key"),
        (lambda: run("ann", DagRunType.MANUAL, {**form(), FIELD: ["no text"]}), "is changed, or signed by another key"),
    ],
)
def test_what_no_person_asked_for_is_refused_and_recorded(archive_url: str, started: Callable[[], Any], expected: str) -> None:
    refused = started()
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=expected):
            act.function(params=form(), dag_run=refused)
    ((who, subject, why),) = entries(archive_url)
    assert (who, subject) == (refused.triggering_user_name or "Airflow", "f1") and re.search(expected, why)
    with open_archive(archive_url) as archive:
        assert archive.finding("f1").state == "open"


def test_a_key_is_replaced_with_an_overlap(archive_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = run("ann", PROGRAM, pressed("ann"))
    monkeypatch.setenv(REQUEST_KEY, "next-key,the-key")
    new = sign("ann", ACTION_DAG, "f1_0", form(), NOW)
    assert starter_of(asked).from_page
    monkeypatch.setenv(REQUEST_KEY, "next-key")
    assert starter_of(run("ann", PROGRAM, new)).from_page
    with pytest.raises(RequestRefused, match="signed by another key"):
        starter_of(asked)
    monkeypatch.setenv(REQUEST_KEY, "")
    with pytest.raises(RequestRefused, match="no key to sign requests with"):
        starter_of(asked)
    with pytest.raises(NoSigningKey):
        pressed("ann")


def test_a_question_about_costs_is_asked_by_no_form_of_airflow(archive_url: str) -> None:
    with open_archive() as archive:
        archive.save_findings([FindingRecord("price", "", None, "lab", "price", "warn", "WARN dearer", {"since": "2026-11-20"})])
    with pytest.raises(AirflowFailException, match="finding price is about costs"):
        tell.function(params={"finding": "price"})


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

    def asked_by(by: str) -> Any:
        return act.function(params=form(action="rerun"), dag_run=run(by, PROGRAM, pressed(by, action="rerun")))

    asked = [asked_by(by) for by in ("ann", "ann", "bob")]
    (started,) = {wanted.function(each)[0]["trigger_run_id"] for each in asked}
    assert started.startswith("f1_2") and started.endswith("_rerun")
    with open_archive(archive_url) as archive:
        assert [e.who for e in archive.audit("f1") if e.what == "rerun_asked"] == ["ann", "bob"]
        archive.set_finding_state("f1", "acknowledged", by="ann", why="seen")
    (again,) = wanted.function(asked_by("ann"))
    assert again["trigger_run_id"] != started, "a finding that changed may be measured again"
    assert rerun([again]).partial_kwargs["skip_when_already_exists"] is True
