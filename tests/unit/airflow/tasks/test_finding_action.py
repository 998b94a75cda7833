"""The task that applies an action on a finding in the name of the user who started its run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.data.result_documents import document, trial
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.airflow.tasks.review import act
from plumbline.archive import open_archive


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


def run(by: str | None) -> Any:
    return SimpleNamespace(triggering_user_name=by)


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
