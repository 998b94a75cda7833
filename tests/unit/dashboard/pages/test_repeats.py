"""The next best experiment on a decision's page, and the button that starts it: who may, with which form, and only once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.sample import campaign, record
from tests.data.acting import AppliedRuns, acting_as
from tests.parsed import Parsed

from plumbline.analysis.decisions.experiments import Experiment
from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages import decisions
from plumbline.declarations import load
from plumbline.workflows.finding_action import ActionNotStarted

PAGE = "/decisions/product/inference?workload=chat-tiny-cpu"
EXPERIMENTS = (
    Experiment("local-1core", "chat-tiny-cpu", "2026-11", 3, 6, 6, 0.08, 1.5),
    Experiment("local-2core", "chat-tiny-cpu", "2026-11", 3, 6, 6, 0.02, None, "no price"),
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    data = campaign(folder / "results")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
    return folder


@pytest.fixture
def home(measured: Path, tmp_path: Path) -> Path:
    shutil.copy(measured / "archive.db", tmp_path / "archive.db")
    return tmp_path


@pytest.fixture
def runs(home: Path) -> Iterator[AppliedRuns]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decisions, "next_experiments", lambda declared, decided: EXPERIMENTS)
        yield AppliedRuns(f"sqlite:///{home / 'archive.db'}", held=True)


def client_of(runs: AppliedRuns, name: str = "ann", may: bool = True, money: bool = True, secret: str = "a secret") -> TestClient:
    acting = acting_as(runs, name, may, secret)
    app = create_app(archive_url=runs.archive_url, may_see_money=lambda: money, acting=acting)
    return TestClient(app, follow_redirects=False)


def tokens(client: TestClient) -> list[str]:
    return Parsed(client.get(PAGE).text).values("[name=form]", "value")


def test_the_page_names_repeats_gain_and_cost(runs: AppliedRuns) -> None:
    client = client_of(runs)
    part = Parsed(client.get(PAGE).text).part("experiments").text
    assert [v in part for v in ("3 → 6", "+8.0 points", "1.50 USD", "5.33 points", "unknown", "no price")] == [True] * 6
    assert len(tokens(client)) == 2


def test_the_button_starts_the_rerun_of_this_series_alone(runs: AppliedRuns) -> None:
    client = client_of(runs)
    done = client.post("/decisions/repeats", data={"form": tokens(client)[0], "why": "close race"})
    assert done.status_code == 303 and done.headers["location"].startswith("/decisions/product/inference?workload=chat-tiny-cpu")
    (started,) = runs.confs
    assert started == (
        "rerun",
        {
            "reason": "next best experiment: close race",
            "providers": ["local-1core"],
            "workloads": ["chat-tiny-cpu"],
            "kinds": ["inference"],
            "repeats": 6,
        },
    )
    page = client.get(PAGE).text
    assert "requested by ann: next best experiment: close race" in page and len(tokens(client)) == 1, "the other one can still be started"


def test_a_second_request_starts_nothing_also_by_another_user(runs: AppliedRuns) -> None:
    ann, bob = client_of(runs), client_of(runs, "bob")
    first, other = tokens(ann)[0], tokens(bob)[0]
    assert ann.post("/decisions/repeats", data={"form": first, "why": "mine"}).status_code == 303
    assert ann.post("/decisions/repeats", data={"form": first, "why": "mine"}).status_code == 409
    again = bob.post("/decisions/repeats", data={"form": other, "why": "me too"})
    assert again.status_code == 409 and "requested by <b>ann</b>" in again.text and len(runs.confs) == 1


def test_who_may_not_start_runs_sees_the_repeats_but_no_button(runs: AppliedRuns) -> None:
    viewer, token = client_of(runs, may=False), tokens(client_of(runs))[0]
    text = viewer.get(PAGE).text
    assert "3 → 6" in text and "/decisions/repeats" not in text
    assert viewer.post("/decisions/repeats", data={"form": token, "why": "x"}).status_code == 403
    assert client_of(runs, money=False).post("/decisions/repeats", data={"form": token, "why": "x"}).status_code == 403
    assert not runs.confs


def test_a_form_without_its_token_or_with_a_wrong_one_is_refused(runs: AppliedRuns) -> None:
    client = client_of(runs)
    good, others, elsewhere = tokens(client)[0], tokens(client_of(runs, "bob"))[0], tokens(client_of(runs, secret="another"))[0]
    for token in ({}, {"form": ""}, {"form": f"{good}x"}, {"form": others}, {"form": elsewhere}):
        assert client.post("/decisions/repeats", data={**token, "why": "x"}).status_code == 403, token
    assert not runs.confs


def test_without_a_reason_nothing_starts(runs: AppliedRuns) -> None:
    client = client_of(runs)
    token = tokens(client)[0]
    for why in ("", "  ", "x" * 501):
        assert client.post("/decisions/repeats", data={"form": token, "why": why}).status_code == 422
    assert not runs.confs


def test_newer_results_than_the_form_knows_refuse_it(runs: AppliedRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    old = (Experiment("local-1core", "chat-tiny-cpu", "2026-10", 3, 6, 6, 0.08, 1.5),)
    monkeypatch.setattr(decisions, "next_experiments", lambda declared, decided: old)
    client = client_of(runs)
    assert client.post("/decisions/repeats", data={"form": tokens(client)[0], "why": "x"}).status_code == 409
    assert not runs.confs


def test_before_airflow_has_read_the_dag_nothing_starts(runs: AppliedRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise ActionNotStarted("no DAG")

    client = client_of(runs)
    form = {"form": tokens(client)[0], "why": "x"}
    monkeypatch.setattr(runs, "start", start)
    assert client.post("/decisions/repeats", data=form).status_code == 503


def test_pages_outside_airflow_only_read(runs: AppliedRuns) -> None:
    client = TestClient(create_app(archive_url=runs.archive_url))
    assert "3 → 6" in client.get(PAGE).text and "/decisions/repeats" not in client.get(PAGE).text
    assert client.post("/decisions/repeats", data={"why": "x"}).status_code in (404, 405)
    assert {e.provider for e in EXPERIMENTS} <= {p.name for p in load().enabled_providers()}
