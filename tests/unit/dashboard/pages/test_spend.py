"""The page of what is paid: by month, provider and workload, beside budgets; what is not known is not shown as nothing."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, provider, trial
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app

FILE = "providers/local-1core.yaml"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, tmp_path / "config")))
    return tmp_path / "config"


@pytest.fixture
def client(tmp_path: Path, config: Path) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        asked = trial(where=provider("local-1core"), planned_at=datetime.now(timezone.utc))
        archive.record(document(asked), uri="file:///nowhere")  # held for 40 s, an hour from now at the latest
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as found:
        yield found


def cells(page: str) -> list[str]:
    return Parsed(page).one('[data-provider="local-1core"]').texts("th, td")


def test_page_csv_and_command_show_the_same_months_with_their_sum(
    client: TestClient, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("price: 0.02 USD/h", "price: 90 USD/h"))
    page = client.get("/spend").text
    (shown,) = [row.texts(".value") for row in Parsed(page).all('tr[data-spend="local-1core"]') if "1.00" in row.texts(".value")]
    last, paid, share, forecast = shown
    assert (last, paid, share, forecast) == ("0.00", "1.00", "1.00", "0.00"), "its workload does not run monthly here"
    rows = list(csv.DictReader(io.StringIO(client.get("/spend.csv").text)))
    now = datetime.now(timezone.utc)
    column = f"{now:%Y-%m} paid"
    assert {row["forecast_from"] for row in rows if row["provider"] == "local-2core" and row["workload"] == "gpt-tiny-cpu"} == {"estimated"}
    (own,) = [row for row in rows if row["provider"] == "local-1core" and float(row[column]) > 0]
    (total,) = [row for row in rows if row["provider"] == "total"]
    assert float(own[column]) == float(total[column]) == pytest.approx(1.0, abs=1e-6)
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", f"sqlite:///{tmp_path / 'archive.db'}")
    answers = [
        CliRunner().invoke(app, ["cost", "month", *how]) for how in (["--json"], ["--csv"], ["--month", f"{now:%Y-%m}"], ["--month", "May"])
    ]
    assert [answer.exit_code for answer in answers] == [0, 0, 0, 2]
    (said,) = [row for row in json.loads(answers[0].stdout)["sums"] if row["provider"] == "total"]
    assert said["this_paid"] == float(total[column]) and answers[1].stdout == client.get("/spend.csv").text
    assert "1.00" in answers[2].stdout and "total" in answers[2].stdout
    assert client.get("/budgets", follow_redirects=False).headers["location"] == "/spend"


def test_what_is_used_and_left_stands_beside_the_limit(client: TestClient, config: Path) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("price: 0.02 USD/h", "price: 90 USD/h") + "budget: {usd_per_month: 10}\n")
    assert cells(client.get("/spend").text) == ["local-1core", "USD", "10.00", "1.00 10 %", "9.00"]
    assert 'href="/spend"' in client.get("/").text and "Reserved hours" not in client.get("/spend").text


def test_a_cost_that_is_not_known_is_said(client: TestClient, config: Path) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("since: 2026-01-01", "since: 2099-01-01") + "budget: {usd_per_month: 10}\n")
    name, *rest = cells(client.get("/spend").text)
    assert name.startswith("local-1core") and "no on_demand price" in name
    assert rest == ["USD", "10.00", "unknown", "unknown"]


def test_without_a_budget_the_page_says_how_to_set_one(client: TestClient) -> None:
    assert 'id="no-budget"' in client.get("/spend").text


def test_declarations_that_are_broken_are_quoted(client: TestClient, config: Path) -> None:
    (config / FILE).write_text((config / FILE).read_text() + "budget: {usd: 10}\n")
    answer = client.get("/spend")
    assert answer.status_code == 500
    assert "providers/local-1core.yaml" in answer.text


def test_reserved_hours_are_shown_where_a_contract_commits_to_them(client: TestClient, config: Path) -> None:
    with (config / FILE).open("a") as file:
        file.write("price_sources: [{kind: contract, contract: neo}]\n")
    price = "{purchase: reserved, price: 5.00 USD/instance-hour, since: 2020-01-01, until: 2020-01-03, committed: {instances: 2}}"
    (config / "contracts" / "neo.yaml").write_text(f"name: neo\nsource: contract 7\nprices:\n  - {price}\n")
    (shown,) = Parsed(client.get("/spend").text).all("[data-commitment]")
    assert shown.texts("th, td")[:8] == ["neo", "local-1core", "2020-01-01", "2020-01-03, expired", "96.0", "0.0", "96.0", "480.00 USD"]
    (said,) = client.get("/spend.json").json()["commitments"]
    assert (said["unused_usd"]["amount"], said["reserved_h"]) == (480, 96)


def test_answers_come_first_and_groups_add_up_to_the_sums(client: TestClient, config: Path) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("price: 0.02 USD/h", "price: 90 USD/h"))
    found, data = Parsed(client.get("/spend").text), client.get("/spend.json").json()
    now = datetime.now(timezone.utc)
    named = dict(zip(found.one("#answers").texts("dt"), found.one("#answers").texts("dd"), strict=True))
    assert named[f"Paid in {now:%Y-%m} so far"].startswith("1.00 USD") and list(named)[-1] == "Could be saved"
    assert not found.all("#spend .scroll:not(.whole)"), "no box scrolls inside the page"
    for groups in ("by_provider", "by_team"):
        for simulated, total in ((row["simulated"], row) for row in data["sums"]):
            for month in ("last_paid", "this_paid", "next_paid", "this_share"):
                parts = [row[month] or 0 for row in data[groups] if row["simulated"] is simulated]
                assert sum(parts) == pytest.approx(total[month]), (groups, month)
    assert {row["provider"] for row in data["by_provider"]} == {row["provider"] for row in data["rows"]}
    teams = [fold for fold in found.all("details[data-teams]") if "gpt-tiny-cpu" in fold.text]
    assert teams and "local-1core" in "".join(fold.text for fold in teams)
    assert found.values("details[data-providers]", "data-providers")[0] == "local-1core", "where most was paid"


def test_a_large_fleet_gets_its_first_byte_before_the_sums(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.dashboard.rendering.IMMEDIATE_PROVIDERS", 0)
    first = Parsed(client.get("/spend").text)
    assert first.values("#spend", "data-later") == ["/spend?parts=all"] and not first.all("#answers")
    assert Parsed(client.get("/spend?parts=all").text).all("#answers")
    assert Parsed(client.get("/spend").text).all("#answers"), "cached from now on"
