"""Buttons on findings: who may, with which form, and only once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.acting import AppliedRuns, acting_as
from tests.data.result_documents import document, trial
from tests.parsed import Parsed
from tests.unit.dashboard.pages.test_findings import drifted, stored

from plumbline.archive import Archive, open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.results.finding import DECISION_CHANGE_PREFIX
from plumbline.workflows.finding_action import ActionNotStarted


def buttons(client: TestClient, path: str = "/findings/f1") -> list[str]:
    return Parsed(client.get(path).text).values("[name=action]", "value")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'archive.db'}"


@pytest.fixture
def archive(url: str) -> Iterator[Archive]:
    with open_archive(url) as opened:
        opened.record(document(trial(campaign="2025-12")), uri="file:///store")
        stored(opened, drifted())
        yield opened


@pytest.fixture
def runs(url: str) -> AppliedRuns:
    return AppliedRuns(url)


def client_of(runs: AppliedRuns, tmp_path: Path, name: str = "ann", may: bool = True, money: bool = True) -> TestClient:
    app = create_app(archive_url=runs.archive_url, reports=tmp_path, may_see_money=lambda: money, acting=acting_as(runs, name, may))
    return TestClient(app, follow_redirects=False)


@pytest.fixture
def client(archive: Archive, runs: AppliedRuns, tmp_path: Path) -> TestClient:
    return client_of(runs, tmp_path)


def token_of(client: TestClient, path: str = "/findings/f1") -> str:
    return Parsed(client.get(path).text).values("[name=form]", "value")[0]


@pytest.mark.parametrize(("action", "state"), [("acknowledge", "acknowledged"), ("accept", "accepted"), ("resolve", "resolved")])
def test_a_button_applies_its_action_and_the_audit_log_has_user_and_reason(
    client: TestClient, archive: Archive, action: str, state: str
) -> None:
    done = client.post("/findings/act", data={"form": token_of(client), "action": action, "why": "ticket 7"})
    assert (done.status_code, done.headers["location"]) == (303, f"/findings/f1?requested={action}#actions")
    assert archive.finding("f1").state == state
    entry = archive.audit("f1")[-1]
    assert (entry.who, entry.what, entry.why) == ("ann", f"finding_{state}", "ticket 7")


def test_a_rejected_change_keeps_its_baseline_and_stays_acknowledged(client: TestClient, archive: Archive) -> None:
    assert client.post("/findings/act", data={"form": token_of(client), "action": "reject", "why": "not ours"}).status_code == 303
    assert archive.finding("f1").state == "acknowledged" and "reject" not in buttons(client)
    assert [(e.who, e.what, e.why) for e in archive.audit("f1")][-1] == ("ann", "baseline_kept", "not ours")


def test_an_accepted_finding_can_be_reopened(client: TestClient, archive: Archive) -> None:
    archive.set_finding_state("f1", "accepted", by="ann", why="new normal")
    assert buttons(client) == ["reopen"]
    done = client.post("/findings/act", data={"form": token_of(client), "action": "reopen", "why": "ticket 8"})
    assert done.status_code == 303 and archive.finding("f1").state == "open"
    entry = archive.audit("f1")[-1]
    assert (entry.who, entry.what, entry.why) == ("ann", "finding_reopened", "ticket 8")


@pytest.mark.parametrize("until", ["14d", f"{datetime.now(timezone.utc) + timedelta(days=14):%Y-%m-%d}"])
def test_a_snooze_takes_days_or_a_date(client: TestClient, archive: Archive, until: str) -> None:
    done = client.post("/findings/act", data={"form": token_of(client), "action": "snooze", "why": "holiday", "until": until})
    end = archive.finding("f1").snoozed_until
    assert done.status_code == 303 and end is not None
    assert timedelta(days=12) < end - datetime.now(timezone.utc) <= timedelta(days=14)


def test_a_rerun_starts_the_providers_benchmark(archive: Archive, runs: AppliedRuns, tmp_path: Path) -> None:
    provider = load().enabled_providers()[0]
    stored(archive, replace(drifted(), finding_id="f2", provider=provider.name, campaign_id=None, since="2025-12-01", members=()))
    client = client_of(runs, tmp_path)
    assert "rerun" in buttons(client, "/findings/f2")
    done = client.post("/findings/act", data={"form": token_of(client, "/findings/f2"), "action": "rerun", "why": "noisy node?"})
    assert (done.status_code, runs.reruns) == (303, [provider.dag_id])
    assert archive.audit("f2")[-1].what == "rerun_asked"


def test_a_provider_that_is_not_declared_has_no_rerun(client: TestClient) -> None:
    assert buttons(client) == ["acknowledge", "accept", "reject", "resolve", "snooze"]
    assert client.post("/findings/act", data={"form": token_of(client), "action": "rerun", "why": "x"}).status_code == 409


def test_who_may_not_act_sees_no_button_and_is_refused(archive: Archive, client: TestClient, runs: AppliedRuns, tmp_path: Path) -> None:
    viewer = client_of(runs, tmp_path, may=False)
    for path in ("/findings/f1", "/findings"):
        assert 'name="action"' not in viewer.get(path).text
    # Even the form of the same name, from a user who lost the role.
    assert viewer.post("/findings/act", data={"form": token_of(client), "action": "accept", "why": "x"}).status_code == 403
    assert archive.finding("f1").state == "open"


def test_pages_outside_airflow_only_read(archive: Archive, url: str, tmp_path: Path) -> None:
    client = TestClient(create_app(archive_url=url, reports=tmp_path))
    assert 'name="action"' not in client.get("/findings/f1").text
    assert client.post("/findings/act", data={"action": "accept", "why": "x"}).status_code in (404, 405)


def test_a_form_without_its_token_or_with_a_wrong_one_is_refused(
    client: TestClient, archive: Archive, runs: AppliedRuns, tmp_path: Path
) -> None:
    good = token_of(client)
    others = token_of(client_of(runs, tmp_path, name="bob"))
    elsewhere = token_of(TestClient(create_app(archive_url=runs.archive_url, reports=tmp_path, acting=acting_as(runs, secret="another"))))
    for token in ({}, {"form": ""}, {"form": f"{good}x"}, {"form": others}, {"form": elsewhere}, {"form": [good, others]}):
        assert client.post("/findings/act", data={**token, "action": "accept", "why": "x"}).status_code == 403, token
    assert archive.finding("f1").state == "open" and not runs.runs


def test_the_same_form_twice_does_nothing_and_names_who_acted(client: TestClient, archive: Archive, runs: AppliedRuns) -> None:
    form = {"form": token_of(client), "action": "acknowledge", "why": "mine"}
    assert client.post("/findings/act", data=form).status_code == 303
    before = archive.audit("f1")
    again = client.post("/findings/act", data=form)
    assert again.status_code == 409 and "acknowledged by <b>ann</b>: mine" in again.text
    assert archive.audit("f1") == before and len(runs.runs) == 1


def test_an_action_that_waits_is_not_requested_again_by_another_user(
    client: TestClient, archive: Archive, runs: AppliedRuns, tmp_path: Path
) -> None:
    runs.held = True
    assert client.post("/findings/act", data={"form": token_of(client), "action": "accept", "why": "mine"}).status_code == 303
    bob = client_of(runs, tmp_path, name="bob")
    page = bob.get("/findings/f1").text
    assert "requested by ann: mine" in page
    again = bob.post("/findings/act", data={"form": token_of(bob), "action": "accept", "why": "me too"})
    assert again.status_code == 409 and "requested by <b>ann</b> (queued): mine" in again.text
    assert archive.finding("f1").state == "open" and len(runs.runs) == 1


INCOMPLETE: tuple[dict[str, str], ...] = (
    {"why": ""},
    {"why": "  "},
    {"why": "x" * 501},
    {"action": ""},
    {"action": "delete"},
    {"action": "snooze", "until": "soon"},
    {"action": "snooze", "until": "2020-01-01"},
    {"action": "snooze", "until": "now"},
)


def test_an_incomplete_form_does_nothing(client: TestClient, runs: AppliedRuns) -> None:
    form = {"form": token_of(client), "action": "accept", "why": "x"}
    assert [client.post("/findings/act", data=form | field).status_code for field in INCOMPLETE] == [422] * len(INCOMPLETE)
    assert not runs.runs


def test_a_refused_form_keeps_what_was_typed_with_the_error_beside_its_field(client: TestClient, archive: Archive) -> None:
    form = {"form": token_of(client), "action": "snooze", "why": "a <long> holiday", "until": "soon"}
    page = client.post("/findings/act", data=form).text
    assert 'value="a &lt;long&gt; holiday"' in page and 'value="soon" size="50" autocomplete="off" autofocus aria-invalid="true"' in page
    assert 'id="error-until">&#34;soon&#34; is no time; expected' in page and 'id="error-why"' not in page
    again = {name: Parsed(page).values(f"[name={name}]", "value")[0] for name in ("form", "why")}
    assert again["form"] == form["form"]
    assert client.post("/findings/act", data=again | {"action": "snooze", "until": "14d"}).status_code == 303
    assert archive.audit("f1")[-1].what == "finding_snoozed"


def test_findings_of_one_cause_are_answered_by_one_form(client: TestClient, archive: Archive, runs: AppliedRuns, tmp_path: Path) -> None:
    client_without_money = client_of(runs, tmp_path, money=False)
    archive.set_finding_state("f1", "resolved", by="ann", why="fixed")
    cause = replace(drifted(), attributed_to=("gpu.driver",))
    for name in ("f3", "f4"):
        stored(archive, replace(cause, finding_id=name))
    article = Parsed(client.get("/findings?state=open").text).one("article.sev-page.listed")
    assert (
        any("#claim" in href for href in article.values("a", "href"))
        and "#claim" not in client_without_money.get("/findings?state=open").text
    )
    tokens = article.values("[name=form]", "value")
    assert len(tokens) == 2 and article.values("[name=action]", "value") == ["acknowledge", "accept", "reject", "resolve", "snooze"]
    assert client.post("/findings/act", data={"form": tokens, "action": "acknowledge", "why": "driver"}).status_code == 303
    assert [archive.finding(name).state for name in ("f3", "f4")] == ["acknowledged"] * 2
    assert client.post("/findings/act", data={"form": tokens, "action": "rerun", "why": "driver"}).status_code == 409


def test_without_access_to_costs_a_finding_of_a_first_choice_cannot_be_accepted(
    archive: Archive, runs: AppliedRuns, tmp_path: Path
) -> None:
    stored(archive, replace(drifted(), finding_id="f5", subject=f"{DECISION_CHANGE_PREFIX}platform/training/w"))
    token = token_of(client_of(runs, tmp_path), "/findings/f5")
    reader = client_of(runs, tmp_path, money=False)
    assert reader.get("/findings/f5").status_code == 404
    assert reader.post("/findings/act", data={"form": token, "action": "accept", "why": "x"}).status_code == 404
    assert archive.finding("f5").state == "open"


def test_without_the_dag_nothing_starts(client: TestClient, runs: AppliedRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise ActionNotStarted("no DAG")

    form = {"form": token_of(client), "action": "accept", "why": "kept reason"}
    monkeypatch.setattr(runs, "start", start)
    refused = client.post("/findings/act", data=form)
    assert refused.status_code == 503 and "no DAG." in refused.text and 'value="kept reason"' in refused.text


def test_a_rerun_on_a_paused_benchmark_says_so_at_the_click(archive: Archive, runs: AppliedRuns, tmp_path: Path) -> None:
    provider = load().enabled_providers()[0]
    stored(archive, replace(drifted(), finding_id="f2", provider=provider.name, campaign_id=None, since="2025-12-01", members=()))
    client = client_of(runs, tmp_path)
    runs.paused = {provider.dag_id}
    form = {"form": token_of(client, "/findings/f2"), "action": "rerun", "why": "noisy node?"}
    refused = client.post("/findings/act", data=form)
    assert refused.status_code == 503 and not runs.runs
    assert f"plumbline airflow dags unpause {provider.dag_id}</code>" in refused.text and f'href="/dags/{provider.dag_id}"' in refused.text
    assert 'value="noisy node?"' in refused.text
    assert client.post("/findings/act", data=form | {"action": "acknowledge"}).status_code == 303, "only a rerun needs the benchmark"
    runs.paused = set()
    assert client.post("/findings/act", data=form | {"form": token_of(client, "/findings/f2")}).status_code == 303


def test_a_settled_finding_has_no_form(client: TestClient, archive: Archive) -> None:
    archive.set_finding_state("f1", "resolved", by="ann", why="fixed")
    assert 'name="action"' not in client.get("/findings/f1").text
