"""The page of the budgets: what was used, what is left, and what is not known is not shown as nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, provider, trial
from tests.fakes.trials import CONFIG

from plumbline.archive import open_archive
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
    row = page[page.index('data-provider="local-1core"') :].split("</tr>")[0]
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]


def test_what_is_used_and_left_stands_beside_the_limit(client: TestClient, config: Path) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("price: 0.02 USD/h", "price: 90 USD/h") + "budget: {usd_per_month: 10}\n")
    assert cells(client.get("/budgets").text) == ["local-1core", "USD", "10.00", "1.00 10 %", "9.00"]
    assert 'href="/budgets"' in client.get("/").text


def test_a_cost_that_is_not_known_is_said(client: TestClient, config: Path) -> None:
    text = (config / FILE).read_text()
    (config / FILE).write_text(text.replace("since: 2026-01-01", "since: 2099-01-01") + "budget: {usd_per_month: 10}\n")
    name, *rest = cells(client.get("/budgets").text)
    assert name.startswith("local-1core") and "no on_demand price" in name
    assert rest == ["USD", "10.00", "unknown", "unknown"]


def test_without_a_budget_the_page_says_how_to_set_one(client: TestClient) -> None:
    assert 'id="no-budget"' in client.get("/budgets").text


def test_declarations_that_are_broken_are_quoted(client: TestClient, config: Path) -> None:
    (config / FILE).write_text((config / FILE).read_text() + "budget: {usd: 10}\n")
    answer = client.get("/budgets")
    assert answer.status_code == 500
    assert "providers/local-1core.yaml" in answer.text
