"""The form of several providers, as the runs of their benchmarks that it starts."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.fakes.trials import CONFIG

from plumbline.airflow.signed_requests import sign
from plumbline.airflow.tasks.benchmark import choose
from plumbline.archive import open_archive
from plumbline.declarations.installation import REQUEST_KEY
from plumbline.launch.plan import PlanError

RUN = SimpleNamespace(
    dag_id="rerun",
    run_id="manual__1",
    run_type="manual",
    conf={},
    triggering_user_name="ann",
    run_after=datetime(2026, 11, 20, 23, 42, tzinfo=timezone.utc),
)
FORM = {"reason": "new driver", "providers": ["local-2core", "local-1core"], "workloads": ["gpt-tiny-cpu"], "kinds": ["training"]}


def chosen(**form: Any) -> list[dict[str, Any]]:
    rows = choose.function(dag_run=RUN, params={"repeats": None, "campaign": None, **FORM, **form})
    assert isinstance(rows, list)
    return rows


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(CONFIG))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))


def test_each_provider_gets_its_run_of_one_campaign() -> None:
    rows = chosen()
    assert [row["trigger_dag_id"] for row in rows] == ["benchmark_local_1core", "benchmark_local_2core"]
    assert {row["trigger_run_id"] for row in rows} == {"rerun_manual__1"}, "started again, it is the same run"
    assert rows[0]["conf"] == {
        "campaign": "od-20261120-234200",
        "reason": "new driver",
        "workloads": ["gpt-tiny-cpu"],
        "kinds": ["training"],
        "repeats": None,
    }


def test_the_audit_log_says_who_asked_and_why_once() -> None:
    for _ in range(2):  # a retry of the task
        chosen(repeats=6)
    with open_archive() as archive:
        (entry,) = archive.audit("od-20261120-234200")
    assert (entry.who, entry.what, entry.why, entry.detail["repeats"]) == ("ann", "rerun_asked", "new driver", 6)


def test_nothing_chosen_is_everything_that_runs_monthly() -> None:
    row = chosen(providers=["local-1core"], workloads=[], kinds=["training", "inference"], campaign="od-driver", repeats=2)[0]
    assert {"gpt-tiny-cpu", "chat-tiny-cpu"} <= set(row["conf"]["workloads"])
    assert (row["conf"]["campaign"], row["conf"]["repeats"]) == ("od-driver", 2)


def test_what_does_not_exist_starts_nothing() -> None:
    with pytest.raises(PlanError, match="nowhere"):
        chosen(providers=["local-1core", "nowhere"])


@pytest.mark.parametrize(
    ("started", "author"),
    [
        ({}, "ann"),
        ({"run_type": "operator_triggered"}, "Airflow"),
        ({"triggering_user_name": None}, "Airflow"),
        ({"conf": "signed"}, "bob"),
    ],
)
def test_a_rerun_is_in_the_name_of_a_person_only_if_a_person_asked(
    started: dict[str, Any], author: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUEST_KEY, "key")
    run = SimpleNamespace(**{**vars(RUN), **started})
    if started.get("conf"):
        run.conf, run.triggering_user_name = sign("bob", "rerun", RUN.run_id, FORM, datetime.now(timezone.utc)), None
    choose.function(dag_run=run, params={"repeats": None, "campaign": None, **FORM})
    with open_archive() as archive:
        assert [e.who for e in archive.audit() if e.what == "rerun_asked"] == [author]


def test_a_request_of_another_run_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST_KEY, "key")
    copied = sign("ann", "rerun", "another", FORM, datetime.now(timezone.utc))
    with pytest.raises(AirflowFailException, match="each is for one run"):
        choose.function(dag_run=SimpleNamespace(**{**vars(RUN), "conf": copied}), params={"repeats": None, "campaign": None, **FORM})
    with open_archive() as archive:
        assert [e.what for e in archive.audit()] == ["request_refused"]
