"""The pages of prices: what is declared, accepted and read stand beside each other, and what is held is said first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from plumbline.archive import Archive, FindingRecord, PriceView, open_archive
from plumbline.archive.records import PriceReadingRecord, PriceReadingView
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages.prices import price_chart, prices_page
from plumbline.declarations import Declarations, load
from plumbline.declarations.installation import override_home

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NAME = "example-eks-p5"


def reading(days_ago: int, usd: float, purchase: str = "on_demand", source: str = "gpuhunt") -> PriceReadingRecord:
    at = NOW - timedelta(days=days_ago)
    return PriceReadingRecord(
        f"{purchase}{days_ago}{source}", NAME, purchase, None, source, "v1", at, usd, "USD", "instance_hour", 8, usd, usd / 8, usd
    )


def held(archive: Archive) -> None:
    detail = {"subject": "held price on-demand", "since": "2026-11-20", "members": [{"name": "price.on_demand", "text": "held"}]}
    archive.save_findings([FindingRecord("held", "", None, NAME, "price", "warn", "WARN it cannot be", detail)])


@pytest.fixture
def declared() -> Declarations:
    return load()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        yield opened


@pytest.fixture
def client(archive: Archive, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as opened:
        yield opened


def test_what_is_newer_counts(archive: Archive, declared: Declarations) -> None:
    listed = max((p for p in declared.providers[NAME].prices if p.purchase == "on_demand"), key=lambda p: p.since)
    before = next(r for r in prices_page(archive, declared, NOW.date()).rows if (r.provider, r.purchase) == (NAME, "on_demand"))
    assert before.accepted == "–" and before.source == listed.source
    archive.accept_price(NAME, "on_demand", None, 77.0, listed.since + timedelta(days=1), "a letter", by="ada", why="agreed")
    after = next(r for r in prices_page(archive, declared, NOW.date()).rows if (r.provider, r.purchase) == (NAME, "on_demand"))
    assert (after.accepted, after.source) == ("77.00", "a letter") and after.declared == before.declared


def test_what_is_held_is_told_first_and_how_to_accept_it(archive: Archive, client: TestClient) -> None:
    assert 'id="held"' not in client.get("/prices").text
    held(archive)
    text = client.get("/prices").text
    assert text.index('id="held"') < text.index('id="current"')
    assert "findings accept held" in text


def test_a_provider_has_charts_a_list_and_readings(archive: Archive, client: TestClient) -> None:
    archive.record_readings([reading(2, 98.32), reading(1, 9.83), reading(1, 31.0, "spot", "csv")])
    held(archive)
    text = client.get(f"/prices/{NAME}").text
    assert 'data-for="price-on-demand"' in text and 'data-for="price-spot"' in text
    assert "Hollow since 2026-11-20" in text and "it cannot be" in text
    assert "98.32" in text and f"plumbline prices accept {NAME}" in text
    assert client.get("/prices/nobody").status_code == 404


def test_the_page_of_an_empty_installation_says_so(archive: Archive, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "thresholds.yaml").write_text((Path(__file__).parents[4] / "include/config/thresholds.yaml").read_text())
    with (
        override_home(tmp_path, config),
        TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client,
    ):
        assert 'id="no-price"' in client.get("/prices").text


def test_steps_break_where_no_price_holds_and_held_readings_are_hollow() -> None:
    def accepted(usd: float, since: date, until: date | None) -> PriceView:
        return PriceView(NAME, "on_demand", usd, since, until, "s", first_seen_at=NOW, last_seen_at=NOW)

    spans = [accepted(10.0, date(2026, 8, 1), date(2026, 9, 1)), accepted(9.0, date(2026, 10, 1), None)]
    read = [PriceReadingView(**vars(reading(d, 9.0)), recorded_at=NOW) for d in (3, 1)]
    chart = price_chart("on_demand", None, (), spans, read, "2026-11-20", NOW)
    assert chart is not None
    lines = {d["name"]: d for d in chart.data}
    assert lines["accepted"]["y"] == [10.0, 10.0, None, 9.0, 9.0]
    assert lines["accepted"]["x"][-1] == "2026-11-22", "what holds now is seen to hold"
    assert lines["read: gpuhunt"]["marker"]["symbol"] == ["circle", "circle-open"]
    whole = price_chart("on_demand", None, (), spans, read, None, NOW)
    assert whole is not None and "Hollow" not in whole.caption
    assert price_chart("spot", None, (), (), (), None, NOW) is None
