"""The list of findings, filtered and a page at a time, and everything that the page of one says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import PLANNED, document, provider, training_metrics, trial
from tests.parsed import Parsed

from plumbline.archive import Archive, FindingRecord, IncidentRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.presentation.metric_history import History, HistoryPoint, finding_chart
from plumbline.results.finding import Finding, Member, PromisedCredit
from plumbline.workflows.findings import finding_record

HOSTILE = "<script>alert(1)</script>"
SERIES = trial().series_key


def drifted() -> Finding:
    member = Member("step_time", f"step_time +20 % {HOSTILE}", 0.2, 0.15, 0.25, verdict="regressed", series_key=SERIES)
    return Finding(
        finding_id="f1",
        series_key=SERIES,
        campaign_id="2025-12",
        kind="performance",
        severity="page",
        evidence="PAGE  lab-2core · training gpt · step_time +20 % (95 %: +15 … +25), since campaign 2025-12",
        explanation="explained by: driver 1 → 2",
        provider="lab-2core",
        workload_kind="training",
        workload="gpt-tiny",
        subject="performance",
        title="step_time +20 %",
        effect=0.2,
        ci_low=0.15,
        ci_high=0.25,
        metric="step_time",
        members=(member,),
        baseline_campaigns=("2025-10", "2025-11"),
    )


def stored(archive: Archive, found: Finding) -> None:
    archive.save_findings([finding_record(found)])


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        for month, (campaign, step, driver) in enumerate((("2025-10", 0.1, "1"), ("2025-11", 0.1, "1"), ("2025-12", 0.12, "2"))):
            for repeat in (1, 2):
                asked = trial(campaign=campaign, repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
                opened.record(document(asked, metrics=training_metrics(step), facts={"gpu.driver": driver}), uri="file:///store")
        yield opened


@pytest.fixture
def client(archive: Archive, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as opened:
        yield opened


def test_the_page_of_a_finding_says_everything_about_it(archive: Archive, client: TestClient) -> None:
    stored(archive, drifted())
    archive.save_incident(
        IncidentRecord("f1", "C042", "1763.0042", "open", "hash", "page", {"opened": {"at": "2025-12-02T08:00:00", "ts": "1"}})
    )
    text = client.get("/findings/f1").text
    assert "Explained by: driver 1 → 2" in text
    assert 'data-for="history"' in text
    assert "+20 %" in text and "+15 … +25" in text and HOSTILE not in text
    assert "gpu.driver" in text and "2 of 2" in text, "the environments are compared anew"
    assert "<p>Cost unknown" in text
    assert text.count('href="/trials/2025-12.') == 2
    assert "https://slack.com/archives/C042/p17630042" in text and "opened 2025-12-02 08:00" in text
    assert "findings accept f1" in text
    assert "finding opened" in text
    assert client.get("/findings/f2").status_code == 404


def test_a_command_in_a_finding_is_code_and_not_markup_of_slack(archive: Archive, client: TestClient) -> None:
    stored(archive, replace(drifted(), kind="self", explanation=f"remedy: `plumbline doctor`; then {HOSTILE}"))
    for path in ("/findings/f1", "/findings"):
        text = client.get(path).text
        assert "<code>plumbline doctor</code>" in text and "`" not in text and HOSTILE not in text, path


def test_what_is_settled_asks_for_nothing_more(archive: Archive, client: TestClient) -> None:
    stored(archive, drifted())
    archive.set_finding_state("f1", "acknowledged", "ada", "on it")
    text = client.get("/findings/f1").text
    assert "findings resolve f1" in text and "findings reject f1" not in text
    archive.set_finding_state("f1", "resolved", "ada", "mended")
    text = client.get("/findings/f1").text
    assert "findings accept" not in text and "mended" in text


def test_a_finding_that_says_little_has_a_page_all_the_same(archive: Archive, client: TestClient) -> None:
    archive.save_findings([FindingRecord("old", "", None, "lab", "price", "warn", f"WARN dearer {HOSTILE}", {"since": "2026-11-20"})])
    text = client.get("/findings/old").text
    assert "since 2026-11-20" in text and 'id="unexplained"' in text
    assert HOSTILE not in text


def test_findings_are_chosen_and_read_a_page_at_a_time(archive: Archive, client: TestClient) -> None:
    archive.save_findings([FindingRecord(f"f{n:02d}", "", None, "lab-2core", "performance", "warn", f"finding {n}") for n in range(30)])
    archive.save_findings([FindingRecord("p", "", None, "other", "price", "info", "the price")])
    waiting = client.get("/findings?state=open&kind=performance").text
    assert waiting.count('<article class="finding') == 30 and 'rel="next"' not in waiting, "what waits is one list"
    for n in range(30):
        archive.set_finding_state(f"f{n:02d}", "resolved", "ada", "mended")
    archive.save_findings([FindingRecord("old", "", None, "lab-2core", "performance", "info", "an open one")])
    archive.set_finding_state("old", "acknowledged", "bob", "mine")
    first = client.get("/findings?kind=performance").text
    assert first.count('<article class="finding') == 26 and "the price" not in first
    assert 'id="old"' in first.split("<article")[1] and "<dd>bob</dd>" in first.split("<article")[1], "open ones first, with their owner"
    assert 'href="/findings?kind=performance&amp;after=f24"' in first
    second = client.get("/findings?kind=performance&after=f24").text
    assert second.count('<article class="finding') == 5 and 'rel="next"' not in second
    assert "the price" in client.get("/findings?provider=other&severity=").text
    assert 'id="no-findings"' in client.get("/findings?severity=page").text
    assert client.get("/findings?kind=nonsense").status_code == 422
    assert client.get("/findings?after=nonsense").status_code == 404
    assert f'<option value="{provider().name}">' in first


def test_the_sum_is_over_every_page_and_says_how_many_are_listed(
    archive: Archive, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plumbline.dashboard.pages.findings.WAITING_PER_PAGE", 2)
    for n in range(3):
        price = {"campaign_id": None, "since": "2025-12-05", "series_key": "", "series": (), "standing": (), "members": ()}
        about = {"kind": "price", "subject": f"held price {n}", "severity": "warn", "effect": None, "metric": None}
        credit = PromisedCredit(None, "2025-11")
        stored(archive, replace(drifted(), finding_id=f"f{n}", credit=credit, provider=f"lab-{n}", **price, **about))
    for address in ("/findings", "/findings?state=open", "/findings?state=open&after=f1"):
        page = Parsed(client.get(address).text)
        listed = len(page.all("article.finding"))
        assert listed < 3 and page.one("#part").text.startswith(f"{listed} of 3 open findings are on this page"), address
        assert "3 credits of unknown amount" in page.one("#total").text, address
        assert client.get(address.replace("/findings", "/findings.json")).json()["total"]["claims"] == 3, address
    monkeypatch.setattr("plumbline.dashboard.pages.findings.WAITING_PER_PAGE", 300)
    assert not Parsed(client.get("/findings").text).all("#part")


def named(article: Parsed) -> list[str]:
    """The findings whose pages an entry links to."""
    return [href.removeprefix("/findings/") for href in article.values("a", "href") if href.startswith("/findings/") and "#" not in href]


def test_findings_of_one_cause_are_one_entry_led_by_the_gravest(archive: Archive, client: TestClient) -> None:
    slower = replace(drifted(), attributed_to=("gpu.driver",))
    changed = replace(
        drifted(), finding_id="f2", kind="environment", severity="warn", subject="environment", title="environment changed: driver 1 → 2",
        evidence="WARN  lab-2core · environment changed: driver 1 → 2", attributed_to=("gpu.driver",), effect=None, metric=None, members=(),
    )  # fmt: skip
    elsewhere = replace(changed, finding_id="f3", provider="lab-other")
    for finding in (changed, elsewhere, slower):
        stored(archive, finding)
    first, second = Parsed(client.get("/findings?state=open").text).all("article")
    assert [named(first), named(second)] == [["f1", "f2"], ["f3"]]
    assert any(link.endswith("trains gpt-tiny 20 % slower since December 2025") for link in first.texts("a")), "words first"
    assert first.text.index("slower since") < first.text.index("95 %: +15"), "statistics folded"


def test_a_change_of_facts_alone_is_an_entry_for_each_provider(archive: Archive, client: TestClient) -> None:
    def changed(number: int, text: str) -> Finding:
        return replace(
            drifted(), finding_id=f"f{number}", provider=f"lab-{number}", kind="environment", severity="warn", subject="environment",
            title="environment changed", attributed_to=("driver.version",), effect=None, metric=None,
            members=(replace(drifted().members[0], name="driver.version", text=text),),
        )  # fmt: skip

    for number, text in enumerate(["driver 1 → 2 (3 of 3 trials)", *["driver 1 → 2 (2 of 3 trials)"] * 6, "driver 1 → 3 (3 of 3 trials)"]):
        stored(archive, changed(number, text))
    entries = [set(named(article)) for article in Parsed(client.get("/findings?state=open").text).all("article")]
    assert sorted(entries, key=min) == [{f"f{number}"} for number in range(8)], "only a pooled verdict joins providers"


def history(**more: object) -> History:
    points = (HistoryPoint("2025-10", (10.0, 10.2), True), HistoryPoint("2025-11", (10.1,)), HistoryPoint("2025-12", (12.0, 12.4)))
    return History("lab · gpt · step time", "ms", points, 2, "+20 %", **more)  # type: ignore[arg-type]


def test_the_chart_marks_the_change_what_was_before_it_and_the_baseline() -> None:
    chart = finding_chart(history(level=10.1, band=(11.5, 12.5)))
    marks = {d["name"]: d["x"] for d in chart.data}
    assert marks["baseline"] == ["2025-10"] and marks["before"] == ["2025-11"] and marks["since the change"] == ["2025-12"]
    assert len(chart.layout["shapes"]) == 4 and chart.layout["annotations"][0]["text"] == "baseline 10.1 ms"
    assert f"{history().change} since {history().begin}" in chart.caption


def test_a_price_is_drawn_as_steps_and_without_a_level_nothing_is_said_of_one() -> None:
    chart = finding_chart(history(steps=True))
    assert next(d for d in chart.data if d["name"] == "price")["line"]["shape"] == "hv"
    assert chart.layout["annotations"] == [] and len(chart.layout["shapes"]) == 2
