"""The JSON API: every list in pages, every row as it is archived, and a description that cannot differ from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import PLANNED, document, metric_row, provider, trial

from plumbline.archive import DecisionRecord, FindingRecord, open_archive
from plumbline.dashboard.app import create_app

NAMES = ("a", "b", "c")
KEY = trial(where=provider("a")).series_key


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("home")
    url = f"sqlite:///{folder / 'archive.db'}"
    with open_archive(url) as archive:
        for month in range(3):
            for name in NAMES:
                asked = trial(campaign=f"2025-{month + 10}", where=provider(name), planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(
                    document(asked, metrics=[metric_row("step_time", 0.1 + month, 9, ci=(0.1, 0.2 + month))]), uri="file:///store"
                )
        archive.accept_baseline(KEY, "2025-10", "ada", "the first")
        archive.save_findings([FindingRecord(f"f{i}", KEY, "2025-12", "a", "performance", "warn", f"WARN  {i}") for i in range(3)])
        for day, usd in ((1, 2.0), (2, 3.0), (3, 4.0)):
            archive.accept_price("a", "on_demand", None, usd, date(2026, 1, day), "a test", by="ada", why="a test")
        for i in range(3):
            archive.save_decision(DecisionRecord(f"d{i}", "platform", "training", "a", 0.9, {"why": "a test"}))
    with TestClient(create_app(archive_url=url, reports=folder)) as found:
        yield found


def walked(client: TestClient, path: str, **asked: Any) -> list[dict[str, Any]]:
    """Every row of a list, two at a time."""
    rows: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        answer = client.get(f"/api/v1/{path}", params={**asked, "limit": 2} | ({"after": after} if after else {})).json()
        assert len(answer["items"]) <= 2
        rows += answer["items"]
        after = answer["after"]
        if after is None:
            return rows


@pytest.mark.parametrize(
    ("path", "asked", "key", "expected"),
    [
        ("series", {}, "provider", ["a", "b", "c"]),
        ("series", {"provider": "b"}, "provider", ["b"]),
        ("campaigns", {}, "campaign_id", ["2025-12", "2025-11", "2025-10"]),
        ("trials", {"series_key": KEY}, "campaign_id", ["2025-10", "2025-11", "2025-12"]),
        ("trials", {"campaign_id": "2025-11"}, "provider", ["a", "b", "c"]),
        ("findings", {"state": "open"}, "finding_id", ["f0", "f1", "f2"]),
        ("findings", {"state": "resolved"}, "finding_id", []),
        ("prices", {"provider": "a"}, "usd_per_hour", [2.0, 3.0, 4.0]),
        ("decisions", {"team": "platform"}, "decision_id", ["d2", "d1", "d0"]),
        ("decisions", {"team": "product"}, "decision_id", []),
    ],
)
def test_a_list_is_walked_page_by_page_and_nothing_is_left_out(
    client: TestClient, path: str, asked: dict[str, str], key: str, expected: list[Any]
) -> None:
    assert [one[key] for one in walked(client, path, **asked)] == expected


def test_a_number_has_its_history_newest_first_with_every_repeat(client: TestClient) -> None:
    asked = {"series_key": KEY, "metric": "step_time", "limit": 2}
    first = client.get("/api/v1/metrics", params=asked).json()
    assert (first["statistic"], first["phase"], first["unit"], first["direction"]) == ("median", "steady", "s", "lower_is_better")
    assert [(c["campaign_id"], c["baseline"], [p["value"] for p in c["points"]]) for c in first["campaigns"]["items"]] == [
        ("2025-12", False, [2.1]),
        ("2025-11", False, [1.1]),
    ]
    rest = client.get("/api/v1/metrics", params={**asked, "after": first["campaigns"]["after"]}).json()["campaigns"]
    assert [(c["campaign_id"], c["baseline"]) for c in rest["items"]] == [("2025-10", True)] and rest["after"] is None
    assert client.get("/api/v1/metrics", params={**asked, "metric": "speed"}).status_code == 422


def test_a_campaign_and_a_trial_in_full(client: TestClient) -> None:
    campaign = client.get("/api/v1/campaigns/2025-11").json()
    assert [(s["provider"], s["outcomes"]["usable"]) for s in campaign["series"]["items"]] == [("a", 1), ("b", 1), ("c", 1)]
    asked = trial(campaign="2025-11", where=provider("a"))
    one = client.get(f"/api/v1/trials/{asked.trial_id}").json()
    assert one["usable"] is True and one["metrics"][0]["value"] == 1.1 and one["metrics"][0]["ci_low"] == 0.1
    assert one["facts"]["cpu.usable"] == 2 and len(one["checksum"]) == 64


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/campaigns/2099-01", 404),
        ("/api/v1/trials/nothing", 404),
        ("/api/v1/campaigns?after=2099-01", 422),
        ("/api/v1/trials?after=x", 422),
        (f"/api/v1/trials?after={10**25}", 422),
        (f"/api/v1/trials/nothing?attempt={10**25}", 422),
        ("/api/v1/findings?after=nothing", 422),
        ("/api/v1/prices?after=nothing", 422),
        ("/api/v1/decisions?after=nothing", 422),
        ("/api/v1/series?limit=100000", 422),
        ("/api/v1/nothing", 404),
    ],
)
def test_what_cannot_be_answered_is_said_in_json(client: TestClient, path: str, status: int) -> None:
    found = client.get(path, headers={"accept": "text/html"})
    assert found.status_code == status and found.json()["detail"]


def test_without_an_archive_a_program_is_told_that_there_is_no_answer(tmp_path: Any) -> None:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'none' / 'archive.db'}", reports=tmp_path)) as client:
        found = client.get("/api/v1/series")
        assert found.status_code == 503 and "archive.db" in found.json()["detail"]


def test_the_page_has_every_call_of_the_description_with_its_parameters_and_answer(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    text = client.get("/api").text
    assert set(described["paths"]) >= {"/api/v1/series", "/api/v1/trials/{trial_id}", "/api/v1/metrics"}
    for path, methods in described["paths"].items():
        assert path.startswith("/api/v1/"), "pages are no part of the API"
        part = text[text.index(f"<code>GET {path}</code></h2>") :].split("</section>")[0]
        assert "curl -H" in part
        for parameter in methods["get"].get("parameters", ()):
            assert f"<code>{parameter['name']}</code>" in part
    trials = text[text.index("<code>GET /api/v1/trials</code></h2>") :].split("</section>")[0]
    assert re.search(r'class="depth1"><code>quality_reasons</code></th><td>list of objects', trials)
    (limit,) = [p for p in described["paths"]["/api/v1/trials"]["get"]["parameters"] if p["name"] == "limit"]
    assert limit["description"] in trials and f"at most {limit['schema']['maximum']}" in trials


def test_the_api_is_read_only(client: TestClient) -> None:
    methods = {m for route in client.app.routes for m in getattr(route, "methods", ())}  # type: ignore[attr-defined]
    assert methods <= {"GET", "HEAD"}
