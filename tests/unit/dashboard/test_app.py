"""The pages over a real archive file: what they show, what they refuse, and that looking changes nothing."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy.exc import DBAPIError
from tests.browser.sample import campaign, record
from tests.data.result_documents import document, trial
from tests.fakes.next_schema import newer_program
from tests.parsed import Parsed

from plumbline.archive import FindingRecord, open_archive
from plumbline.archive.migrate import head, upgrade
from plumbline.dashboard.app import create_app
from plumbline.dashboard.sources import ArchiveReader, MissingArchive
from plumbline.declarations import load
from plumbline.metrics.formatting import capitalize_first, format_name
from plumbline.presentation.html.report import write_report
from plumbline.presentation.series_summary import format_age
from plumbline.results import Curve, Event, Evidence, LaunchRecord, Notice, PodRecord, Point, ResultStore, Telemetry, metric_row

HOSTILE = '<script>alert("x")</script>'
EXPLANATION = "explained by: cpu.frequency_max_mhz 3700 → 3400"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    data = campaign(folder / "results")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
        first = data.documents[0].trial
        archive.bootstrap_baseline(first.series_key, load().thresholds.drift)
        archive.save_findings(
            [
                FindingRecord(
                    finding_id="7a11c2d94e0b",
                    series_key=first.series_key,
                    campaign_id=first.campaign_id,
                    provider="local-1core",
                    kind="performance",
                    severity="page",
                    headline=f"PAGE  step_time +7.9 % {HOSTILE}",
                    detail={"explanation": EXPLANATION},
                )
            ]
        )
    write_report(replace(data, documents=data.documents[:1], store=None), folder / "reports")  # with fewer charts to draw
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")) as found:
        yield found


def test_the_overview_says_status_drift_age_and_numbers(client: TestClient) -> None:
    text = client.get("/").text
    assert any("page" in chip for chip in Parsed(text).texts(".chip.sev-page"))
    assert "cannot tell" in text
    assert any(re.match(r"[\d.,]+ .*, best", title) for title in Parsed(text).values("[title]", "title"))
    assert ">3/3<" in client.get("/?view=reliability").text
    assert 'href="/campaigns/2026-11"' in text
    assert 'href="/reports/2026-11"' in text


def test_a_trial_says_why_it_is_degraded_and_how_to_repeat_it(client: TestClient, home: Path) -> None:
    text = client.get("/trials/2026-11.local-1core.training.gpt-tiny-cpu.0200.r2").text
    assert '<span class="chip degraded">degraded</span>' in text
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        found = archive.document("2026-11.local-1core.training.gpt-tiny-cpu.0200.r2")
    assert found is not None and all(reason.detail in text for reason in found.validity.reasons)
    assert "plumbline replay 2026-11.local-1core.training.gpt-tiny-cpu.0200.r2" in text
    assert "evidence/steps.parquet" in text
    assert len(re.findall(r"[0-9a-f]{64}", text)) >= 3


def test_evidence_that_is_kept_no_longer_says_so_and_other_evidence_does_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    files = tuple(Evidence(kind="log", uri=uri, sha256=64 * "0", bytes=1) for uri in ("evidence/run.log", "odd/kept.log"))
    with open_archive(url) as archive:
        for month in (11, 12):
            asked = trial(campaign=f"2025-{month}", planned_at=datetime(2025, month, 1, tzinfo=timezone.utc))
            archive.record(document(asked, evidence=files), uri=f"file:///store/{ResultStore.folder(asked)}")
        archive.expire_evidence(0.0, "evidence.keep: 30d", "file:///store")
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as client:
        old, new = (client.get(f"/trials/{trial(campaign=name).trial_id}").text for name in ("2025-11", "2025-12"))
    assert old.count("deleted: evidence.keep: 30d, ") == 1 and "deleted: " not in old[old.index("odd/kept.log") :]
    assert "deleted: " not in new


def test_a_phase_has_a_line_for_each_metric_and_says_where_its_time_went(client: TestClient) -> None:
    steady = Parsed(client.get("/trials/2026-11.local-1core.inference.chat-tiny-cpu.0200.r1").text).one("#phase-steady")
    (line,) = [row for row in steady.all("tr") if format_name("time_to_first_token") in row.text]
    assert line.texts(".stat") == ["p50"] and re.search(r"p95 [\d.]+ ms", line.one(".others").text)
    assert re.search(r"queue [\d.]+ m?s", steady.one(".note.stages").text)


def test_a_trial_says_what_became_of_its_own_criteria(client: TestClient) -> None:
    page = Parsed(client.get("/trials/2026-11.local-1core.inference.chat-tiny-cpu.0200.r1").text)
    criterion = load().workloads["chat-tiny-cpu"].acceptance[0]
    (line,) = [row for row in page.part("acceptance").all("tr") if criterion.text in row.text]
    assert line.all(".chip.pass") and re.search(r"[\d.]+ ms .*\d+ %", line.text)
    failed = client.get("/trials/2026-11.local-1core.training.gpt-tiny-cpu.0200.r3?attempt=2").text
    assert 'id="not-evaluated">3 acceptance criteria' in failed


def test_a_model_that_answers_at_once_leads_with_its_latency_and_rate(tmp_path: Path) -> None:
    asked = trial("inference")
    rows = [
        metric_row("request_scheduled_latency", 0.0065, 442),
        metric_row("request_throughput", 31.6, 442),
        metric_row("output_token_throughput", 31.6, 442),
    ]
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(asked, metrics=rows), uri="s3://x")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get("/").text
        cells = client.get("/providers/lab-2core").text
    assert "request scheduled latency" in text and Parsed(text).texts("td.h0 > a") == ["6.50"]
    leading = [value.tag.parent.get_text(" ", strip=True) for value in Parsed(cells).all("span.value:has(+ small)")]
    assert leading[:2] == ["6.50 ms request scheduled latency", "31.6/s request throughput"]


def test_signals_have_units_that_people_read(tmp_path: Path) -> None:
    sampled = [
        Telemetry(phase="steady", signal="server_resident", unit="bytes", n=9, mean=4.5 * 2**28, min=2.0**30, max=1.5 * 2**30),
        Telemetry(phase="steady", signal="foreign_cpu", unit="ratio", n=9, mean=0.25, min=0.0, max=0.5),
    ]
    found = document(trial("inference"), telemetry=sampled)
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(found, uri="s3://x")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get(f"/trials/{found.trial.trial_id}").text
    assert Parsed(text).part("telemetry").texts("td.num") == ["1.12 GiB", "1.00 GiB", "1.50 GiB", "25.0 %", "0.0 %", "50.0 %"]


def test_attempts_are_told_apart(client: TestClient) -> None:
    name = "/trials/2026-11.local-1core.training.gpt-tiny-cpu.0200.r3"
    best, failed = client.get(name).text, client.get(f"{name}?attempt=2").text
    assert '<span class="chip valid">valid</span>' in best
    assert "<b>Failed:</b> launch timeout" in failed
    assert f"{name}?attempt=2" in best


def test_the_pods_of_a_launch_say_where_they_ran_and_what_the_cluster_said(tmp_path: Path) -> None:
    data = campaign(tmp_path / "results")
    at = data.documents[0].timeline[0].utc
    pod = PodRecord(
        name="pl-gpt-r1a1-0",
        rank=0,
        node="gpu-node-7",
        facts={"gpu.product": "NVIDIA-H100-80GB-HBM3", "image_cached": False},
        events=(Event(name="scheduled", utc=at, clock="cluster"), Event(name="started", utc=at + timedelta(seconds=12), clock="cluster")),
        notices=(Notice(utc=at, kind="Warning", reason="FailedMount", message=f"secret {HOSTILE} not found", count=3),),
        exit_code=137,
        reason="OOMKilled",
    )
    waited = PodRecord(
        name="pl-gpt-r1a1-1",
        rank=1,
        events=(
            Event(name="created", utc=at, clock="cluster"),
            Event(name="requested", utc=at + timedelta(seconds=0.6), clock="launcher"),
            Event(name="finished", utc=at + timedelta(seconds=71.6), clock="launcher"),
        ),
        reason="Unschedulable",
    )
    document = data.documents[0].with_launch(LaunchRecord(launcher="kubernetes", events=(), pods=(pod, waited)))
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document, uri="s3://x")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get(f"/trials/{document.trial.trial_id}").text
    assert re.search(rf"<code>{pod.node}</code>[^<]*{pod.reason}[^<]*{pod.exit_code}", text)
    assert "12.00 s" in text
    assert "Not scheduled: Unschedulable." in text
    part = text[text.index("Not scheduled") :]
    assert part.index("requested") < part.index("created"), "the cluster's clock is cut to whole seconds"
    assert "71.00 s" in part
    assert "NVIDIA-H100-80GB-HBM3" in text
    assert "FailedMount 3×" in text
    assert HOSTILE not in text


def test_curves_are_a_table_by_their_places(tmp_path: Path) -> None:
    points = tuple(Point(at=at, value=value, n=8) for at, value in ((128, 0.01), (1024, 0.0835), (2048, None)))
    curve = Curve(phase="context", along="input_tokens", metric="prefill_time", statistic="mean", unit="s", points=points)
    found = document(trial("inference"), curves=(curve,), metrics=[])
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(found, uri="s3://x")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get(f"/trials/{found.trial.trial_id}").text
    part = Parsed(text).one("#phase-context")
    assert [at for at in part.texts("th.num") if at.replace(",", "").isdigit()] == ["128", "1,024", "2,048"]
    assert part.texts("td.num") == ["10.0 ms", "83.5 ms", "–"]


def test_findings_by_state_with_their_explanation_and_as_text(client: TestClient) -> None:
    text = client.get("/findings?state=open").text
    assert capitalize_first(EXPLANATION) in text
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    assert 'id="7a11c2d94e0b"' in text and "snoozed" not in text, "messages lead to it there"
    assert 'id="no-findings"' in client.get("/findings?state=resolved").text
    assert client.get("/findings?state=nonsense").status_code == 422


def test_a_snoozed_finding_says_so_while_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.save_findings([FindingRecord("f1", "", None, "lab", "price", "warn", "dearer", {"since": "2026-11-20"})])
        with TestClient(create_app(archive_url=url, reports=tmp_path)) as client:
            for until, shown in (("2999-12-01T09:00+00:00", True), ("2020-01-01T00:00+00:00", False)):
                archive.snooze_finding("f1", datetime.fromisoformat(until), "ada", "known")
                assert ("until 2999-12-01 09:00" in client.get("/findings").text) is shown


def test_a_campaign_lists_its_trials(client: TestClient) -> None:
    text = client.get("/campaigns/2026-11").text
    assert text.count("/trials/2026-11.") == 12
    assert "launch timeout" in text


def test_the_report_is_served_and_may_ask_nobody_for_anything(client: TestClient) -> None:
    found = client.get("/reports/2026-11")
    assert found.status_code == 200
    assert "<h1>" in found.text and "<svg" in found.text
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "connect-src" not in found.headers["content-security-policy"]
    assert "form-action 'none'" in found.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/reports/..%2F..%2Farchive.db",
        "/reports/.hidden",
        "/reports/2099-01",
        "/reports/2026-11%0A",
        "/campaigns/2099-01",
        "/trials/nothing",
        "/static/app.py",
        "/static/..%2Fapp.py",
        "/docs",
        "/redoc",
    ],
)
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/trials/nothing?attempt=", "/trials/nothing/charts?attempt=", "/campaigns/2026-11?after="])
def test_a_number_that_no_column_holds_is_refused_before_the_archive_is_asked(client: TestClient, path: str) -> None:
    for number in (10**25, -(10**25)):
        assert client.get(f"{path}{number}").status_code == 422


def test_a_name_that_a_database_refuses_is_not_found(archive_url: str, tmp_path: Path) -> None:
    open_archive(archive_url).close()
    with TestClient(create_app(archive_url=archive_url, reports=tmp_path)) as client:
        for path in ("/trials/a%00b", "/campaigns/a%00b", "/findings/a%00b", "/reports/a%00b"):
            assert client.get(path).status_code == 404, path
        told = client.get("/trials/a%00b.json")
        assert told.status_code == 404 and told.json()["detail"]


def test_every_answer_is_kept_by_nobody_and_is_what_it_says(home: Path) -> None:
    def nobody() -> None:
        raise HTTPException(401)

    trial_id = "2026-11.local-1core.training.gpt-tiny-cpu.0200.r1"
    known = {"campaign_id": "2026-11", "trial_id": trial_id, "number": "0", "finding_id": "7a11c2d94e0b", "provider": "local-1core"}
    for guards in ([], [Depends(nobody)]):
        app = create_app(guards, archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")
        with TestClient(app) as client:
            paths = [re.sub(r"\{([^}]+)\}", lambda m: known.get(m[1], "platform"), str(getattr(route, "path", ""))) for route in app.routes]
            for path in (*paths, "/nothing", "/trials/x?attempt=x"):
                headers = client.get(path, follow_redirects=False).headers
                if not path.startswith("/static/"):
                    assert headers["cache-control"] == "no-store", path
                assert headers["x-content-type-options"] == "nosniff", path
                assert "default-src 'none'" in headers["content-security-policy"].split("; "), path
                assert headers["referrer-policy"] == "same-origin", path


def test_links_know_where_the_app_is_mounted(home: Path) -> None:
    outer = FastAPI()
    outer.mount("/plumbline", create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports"))
    with TestClient(outer) as client:
        text = client.get("/plumbline/").text
        links = {href for href in Parsed(text).values("[href]", "href") if href.startswith("/")}
        assert links
        assert all(link.startswith("/plumbline/") for link in links)
        assert {client.get(link).status_code for link in links} == {200}


@pytest.mark.parametrize(
    ("path", "entry"), [("/", "Overview"), ("/findings", "Findings"), ("/changes", "Changes"), ("/campaigns/2026-11", None)]
)
def test_only_the_page_that_is_open_is_marked_in_the_navigation(client: TestClient, path: str, entry: str | None) -> None:
    assert Parsed(client.get(path).text).texts("nav [aria-current=page]") == ([entry] if entry else [])


def test_a_jump_leads_to_pages_that_exist(client: TestClient) -> None:
    places = client.get("/jump").json()
    assert {"page", "provider", "workload", "decision", "campaign", "promises"} == {place["kind"] for place in places}
    shown = [place["path"] for place in places if place["kind"] != "decision"][:30]
    assert {path for path in shown if client.get(path).status_code != 200} == set()


def test_a_jump_finds_ids_by_how_they_begin_and_by_a_part(client: TestClient) -> None:
    links = Parsed(client.get("/campaigns/2026-11").text).values("a[href^='/trials/']", "href")
    trial = links[0].removeprefix("/trials/").partition("?")[0]
    for part in (trial, trial[3:]):
        found = client.get("/jump/ids", params={"part": part}).json()
        assert {"kind": "trial", "name": trial, "path": f"/trials/{trial}"} in found, part
    campaign = trial.split(".")[0]
    found = client.get("/jump/ids", params={"part": campaign}).json()
    assert found[0] == {"kind": "campaign", "name": campaign, "path": f"/campaigns/{campaign}"}
    assert client.get("/jump/ids", params={"part": "20"}).json() == [] == client.get("/jump/ids", params={"part": "no%such"}).json()


def test_a_mistyped_query_comes_back_as_it_was_typed(client: TestClient) -> None:
    page = client.get("/findings?since=yesterday&provider=lab", headers={"Accept": "text/html"})
    assert page.status_code == 422
    assert 'name="since" value="yesterday" size="50" autocomplete="off" autofocus aria-invalid="true"' in page.text
    assert 'id="error-since">' in page.text and 'name="provider" value="lab"' in page.text
    assert client.get("/findings?since=yesterday", headers={"Accept": "application/json"}).json()["detail"][0]["loc"][1] == "since"


def test_every_route_is_behind_the_dependencies(home: Path) -> None:
    def nobody() -> None:
        raise HTTPException(401)

    app = create_app([Depends(nobody)], archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")
    paths = [re.sub(r"\{[^}]+\}", "2026-11", str(getattr(route, "path", ""))) for route in app.routes]
    assert len(paths) >= 6
    with TestClient(app) as client:
        assert {client.get(path).status_code for path in paths} == {401}


def test_no_archive_is_said_and_none_is_made(tmp_path: Path) -> None:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'none' / 'archive.db'}", reports=tmp_path)) as client:
        found = client.get("/")
        assert found.status_code == 200
        assert "No results yet" in found.text
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_archive_is_said(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "archive.db") as connection:
        connection.execute("create table other (x)")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        found = client.get("/")
        assert (found.status_code, "cannot be read" in found.text) == (503, True)


def test_a_document_that_does_not_hold_any_more_is_told_and_not_shown(tmp_path: Path) -> None:
    import sqlite3

    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
    with sqlite3.connect(tmp_path / "archive.db") as connection:
        # A disk or a person does not ask the archive's own guards.
        for (name,) in connection.execute("select name from sqlite_master where type = 'trigger' and tbl_name = 'documents'").fetchall():
            connection.execute(f"drop trigger {name}")
        connection.execute("update documents set content = ?", (zlib.compress(b"{}"),))
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        page, told = client.get(f"/trials/{trial().trial_id}"), client.get(f"/trials/{trial().trial_id}.json")
    assert page.status_code == 500 and "does not hold" in page.text and "plumbline archive verify" in page.text
    assert told.status_code == 500 and "does not hold" in told.json()["detail"]


@pytest.mark.fault("a page tries to write", ends="refused by the database", keeps="the archive")
def test_either_database_refuses_what_a_page_would_write(archive_url: str) -> None:
    finding = FindingRecord("f1", "", None, "lab-2core", "price", "warn", "WARN  a test")
    with open_archive(archive_url) as archive:
        archive.save_findings([finding])
    shown = ArchiveReader(archive_url).archive()
    with pytest.raises(DBAPIError, match=r"(?i)read.?only"):
        shown.set_finding_state("f1", "resolved", "someone", "by way of a page")
    assert shown.finding("f1").state == "open"
    shown.close()


@pytest.mark.fault(
    "a page meets an archive of another schema", ends="503 and one sentence until it is migrated", keeps="the archive as it is"
)
def test_a_page_waits_for_a_migration(archive_url: str, tmp_path: Path) -> None:
    with open_archive(archive_url) as archive, TestClient(create_app(archive_url=archive_url, reports=tmp_path)) as client:
        assert client.get("/").status_code == 200
        older = head()
        with newer_program(tmp_path):
            page, told = client.get("/"), client.get("/findings.json")
            assert (page.status_code, told.status_code) == (503, 503)
            assert "plumbline archive migrate" in page.text and older in told.json()["detail"]
            upgrade(archive.engine)
            assert client.get("/").status_code == 200


def test_a_replaced_archive_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    reader = ArchiveReader(f"sqlite:///{file}")
    with pytest.raises(MissingArchive):
        reader.archive()
    open_archive(reader.url).close()
    first = reader.archive()
    assert reader.archive() is first
    new = tmp_path / "new.db"
    open_archive(f"sqlite:///{new}").close()
    new.replace(file)
    assert reader.archive() is not first


def test_ages_are_read_at_a_glance() -> None:
    now = datetime(2026, 11, 20, tzinfo=timezone.utc)
    deltas = (timedelta(seconds=5), timedelta(minutes=1), timedelta(hours=5), timedelta(days=41))
    assert [format_age(now - d, now) for d in deltas] == ["just now", "1 minute ago", "5 hours ago", "41 days ago"]


def test_imported_results_are_marked_have_a_page_and_no_place_among_our_providers(tmp_path: Path) -> None:
    from tests.unit.results.test_published import result

    one = result(metrics=(metric_row("time_to_train", 630.0, 1),), original={"note": HOSTILE})
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.import_outside([one])
        archive.record(document(trial(campaign="ours")), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        overview = client.get("/").text
        assert 'href="/providers/lab-2core"' in overview and "somebody" not in overview
        assert overview.count('<span class="chip imported">imported</span>') == 1
        campaign = client.get(f"/campaigns/{one.campaign_id}").text
        assert '<span class="chip imported">imported</span>' in campaign
        page = client.get(f"/trials/{one.trial_id}").text
        assert "time to train" in page and "10.5 min" in page and "never scored" in page and HOSTILE not in page
        assert "chip imported" not in client.get("/campaigns/ours").text
