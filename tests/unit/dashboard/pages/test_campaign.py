"""The page of a campaign: a page's worth of series and trials, what was found and decided by it, and its tables to download."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, failed, inference_workload, provider, training_metrics, training_workload, trial
from tests.parsed import Parsed

from plumbline.archive import Archive, DecisionRecord, FindingRecord, open_archive
from plumbline.archive.audit import SERIES_REVIEWED
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
    assert "Campaign, monthly rerun: test" in text and "about" not in Parsed(text).values("main p", "id")
    assert Parsed(text).texts(".tally")[:2] == ["2 usable", "1 failed"]
    assert Parsed(text).texts(".value")[0] == "110 ms" and "100 … 120" in text
    assert ">2 of 3</a>" in text and text.count('href="/trials/') == 3
    assert client.get("/campaigns/2099-01").status_code == 404


def test_a_campaign_on_demand_says_what_it_measured_and_why(archive: Archive, client: TestClient) -> None:
    archive.record(document(trial(campaign="od-1").model_copy(update={"reason": "acceptance of a new driver"})), uri="file:///store")
    page = Parsed(client.get("/campaigns/od-1").text)
    assert "Campaign, on demand: acceptance of a new driver" in page.text and "What it measured" in page.texts("h2")
    assert page.one("#about").text.startswith("It measured 1 workload (gpt-test) on 1 provider (lab-2core). It is no monthly rerun")
    data = client.get("/campaigns/od-1.json").json()
    assert (data["head"]["purpose"], data["purpose"], data["deliveries"]) == ("on_demand", "on demand", [])


def test_a_series_without_a_usable_trial_says_why(archive: Archive, client: TestClient) -> None:
    for repeat in (1, 2):
        asked = trial(workload=training_workload(name="nowhere"), repeat=repeat)
        archive.record(document(asked, metrics=(), status="invalid"), uri="file:///store")
    row = next(r for r in client.get(CAMPAIGN).text.split("<tr>") if "/workloads/nowhere" in r)
    assert "no usable trial: step_time_unsteady: neighbours" in row and ">0 of 2</a>" in row


def test_many_series_and_trials_are_read_a_page_at_a_time(archive: Archive, client: TestClient) -> None:
    for n in range(26):
        for repeat in (1, 2):
            archive.record(document(trial(workload=training_workload(name=f"gpt-{n:02d}"), repeat=repeat)), uri="file:///store")
    first = client.get(CAMPAIGN).text
    whole = archive.campaign_outcomes(["2025-11"])["2025-11"]
    assert f"{whole.planned} trials: {whole.usable} usable" in Parsed(first).text, "all of them, whatever the page holds"
    assert whole.planned >= 52
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


def test_the_filter_leaves_its_series_trials_findings_and_decisions(archive: Archive, client: TestClient) -> None:
    near, far = provider("near"), provider("far").model_copy(update={"region": "elsewhere"})
    for where in (near, far):
        archive.record(document(trial(where=where)), uri="file:///store")
    archive.record(document(trial("inference", where=near, workload=inference_workload())), uri="file:///store")
    detail = {"campaign_id": "2025-11", "state": "steady", "metric": "step_time", "effect": 0.0, "detectable": 0.01, "repeats": None}
    archive.add_audit(who="drift", what=SERIES_REVIEWED, subject=trial(where=near).series_key, detail=detail)
    later = {**detail, "campaign_id": "2025-12", "state": "drifted", "effect": 0.2}
    archive.add_audit(who="drift", what=SERIES_REVIEWED, subject=trial(where=near).series_key, detail=later)
    archive.save_findings(
        [
            FindingRecord(f"f-{name}", key, "2025-11", name, "performance", "warn", "x")
            for name, key in (("near", trial(where=near).series_key), ("far", ""))
        ]
    )
    for team in ("platform", "product"):
        archive.save_decision(DecisionRecord(f"d-{team}", team, "training", "near", 0.9, {"campaigns": {"near": ["2025-11"]}}))

    def shown(**query: str) -> tuple[set[str], int, set[str], set[str]]:
        """Series as provider and workload, trials, findings, decisions."""
        text = client.get(CAMPAIGN, params=query).text
        rows = re.findall(r'href="/providers/([^"?]+)[^"]*">[^<]*</a>.*?href="/workloads/([^"?]+)', text)
        return (
            {f"{p} {w}" for p, w in rows},
            text.count('href="/trials/'),
            set(re.findall(r'id="(f-\w+)"', text)),
            set(re.findall(r'id="decision-(\S+?)"', text)),
        )

    every = {"lab-2core gpt-test", "near gpt-test", "far gpt-test", f"near {inference_workload().name}"}
    assert shown() == (every, 6, {"f-near", "f-far"}, {"d-platform", "d-product"})
    assert shown(kind="inference") == ({f"near {inference_workload().name}"}, 1, set(), set())
    assert shown(cloud="nowhere") == (set(), 0, set(), {"d-platform", "d-product"})
    assert shown(state="steady") == ({"near gpt-test"}, 1, {"f-near"}, {"d-platform", "d-product"}), "as this campaign's review said it"
    assert shown(state="drifted")[0] == set()
    assert shown(state="cannot_tell", kind="training")[:2] == (every - {"near gpt-test", f"near {inference_workload().name}"}, 4)
    assert shown(team="product")[3] == {"d-product"}
    assert client.get(CAMPAIGN, params={"state": "x"}).status_code == 422


def test_a_filter_stays_from_page_to_page(archive: Archive, client: TestClient) -> None:
    for n in range(26):
        for repeat in (1, 2):
            archive.record(document(trial(workload=training_workload(name=f"gpt-{n:02d}"), repeat=repeat)), uri="file:///store")
    text = client.get(CAMPAIGN, params={"kind": "training"}).text
    following = [address.replace("&amp;", "&") for address in re.findall(r'rel="next" href="([^"]+)"', text)]
    assert len(following) == 2 and all("kind=training" in address for address in following)
    assert client.get(following[0]).text.count('href="/workloads/') == 2
    assert '<input type="hidden" name="series" value="a/key">' in client.get(CAMPAIGN, params={"series": "a/key"}).text


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
