"""The page of a campaign: a page's worth of series and trials, what was found and decided by it, and its tables to download."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, failed, training_metrics, training_workload, trial

from plumbline.archive import Archive, DecisionRecord, open_archive
from plumbline.dashboard.app import create_app

CAMPAIGN = "/campaigns/2025-11"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        for repeat, step in ((1, 0.1), (2, 0.12)):
            opened.record(document(trial(repeat=repeat), metrics=training_metrics(step)), uri="file:///store")
        opened.record(failed(trial(repeat=3)), uri="file:///store")
        yield opened


@pytest.fixture
def client(archive: Archive, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path / "reports")) as opened:
        yield opened


def test_the_page_says_what_was_measured_and_how_it_ended(client: TestClient) -> None:
    text = client.get(CAMPAIGN).text
    assert "Campaign: test" in text
    assert re.findall(r'<span class="tally"><b>(\d+)</b> (\w+)</span>', text)[:2] == [("2", "usable"), ("1", "failed")]
    assert re.findall(r'class="value">([^<]+)<', text)[0] == "110 ms" and "100 … 120" in text
    assert ">2 of 3</a>" in text and text.count('href="/trials/') == 3
    assert client.get("/campaigns/2099-01").status_code == 404


def test_many_series_and_trials_are_read_a_page_at_a_time(archive: Archive, client: TestClient) -> None:
    for n in range(26):
        for repeat in (1, 2):
            archive.record(document(trial(workload=training_workload(name=f"gpt-{n:02d}"), repeat=repeat)), uri="file:///store")
    first = client.get(CAMPAIGN).text
    assert "trials:" not in first, "the whole is not counted where one page does not hold it"
    assert first.count('href="/workloads/') == 25 and first.count('href="/trials/') == 50
    following = re.search(r'rel="next" href="([^"]*after=\d+[^"]*)"', first)
    assert following is not None
    rest = client.get(following[1].replace("&amp;", "&"))
    assert rest.text.count('href="/trials/') == 5 and "after=" not in rest.text.split('id="trials"')[1]
    more = re.search(r'rel="next" href="([^"]*series_after=[^"]*)"', first)
    assert more is not None and client.get(more[1].replace("&amp;", "&")).text.count('href="/workloads/') == 2
    one = client.get(CAMPAIGN, params={"series": trial().series_key}).text
    assert one.count('href="/trials/') == 3
    assert client.get(f"{CAMPAIGN}?after=x").status_code == 422


def test_decisions_that_rest_on_it_and_no_others(archive: Archive, client: TestClient) -> None:
    archive.save_decision(DecisionRecord("d1", "platform", "training", "lab-2core", 0.9, {"campaigns": {"lab-2core": ["2025-11"]}}))
    archive.save_decision(DecisionRecord("d2", "product", "training", "lab-2core", 0.9, {"campaigns": {"lab-2core": ["2025-10"]}}))
    text = client.get(CAMPAIGN).text
    assert 'id="decision-d1"' in text and 'id="decision-d2"' not in text


def test_exported_tables_are_handed_out_and_nothing_else(client: TestClient, tmp_path: Path) -> None:
    assert "--tables csv" in client.get(CAMPAIGN).text
    folder = tmp_path / "reports" / "2025-11" / "tables"
    folder.mkdir(parents=True)
    (folder / "trials.csv").write_text("trial\r\n")
    (folder / "trials.parquet").write_bytes(b"PAR1")
    (folder / "README.md").write_text("# Tables")
    (folder.parent / "report.html").write_text("report")
    text = client.get(CAMPAIGN).text
    assert f'href="{CAMPAIGN}/tables/trials.csv"' in text and f'href="{CAMPAIGN}/tables/trials.parquet"' in text
    found = client.get(f"{CAMPAIGN}/tables/trials.csv")
    assert found.text == "trial\r\n" and 'filename="2025-11.trials.csv"' in found.headers["content-disposition"]
    for name in ("README.md", "costs.csv", "..%2Freport.html", "..%2F..%2F..%2Farchive.db", ".csv", "trials.csv%0A"):
        assert client.get(f"{CAMPAIGN}/tables/{name}").status_code == 404
