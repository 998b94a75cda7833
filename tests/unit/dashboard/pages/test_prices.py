"""The pages of prices: what is declared, accepted and read stand beside each other, and what is held is said first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.parsed import Parsed

from plumbline.archive import Archive, FindingRecord
from plumbline.archive.records import PriceReadingView
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages.prices import price_chart, prices_page, provider_prices
from plumbline.declarations import Declarations, Price, load
from plumbline.declarations.installation import override_home
from plumbline.metrics.formatting import format_money_change
from plumbline.results.finding import ChoiceMove, Finding
from plumbline.results.price_reading import Reading

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NAME = "example-eks-p5"


def reading(days_ago: int, usd: float, purchase: Any = "on_demand", source: str = "gpuhunt") -> Reading:
    at = NOW - timedelta(days=days_ago)
    return Reading(NAME, purchase, None, source, "v1", at, usd, "USD", "instance_hour", 8)


def held(archive: Archive) -> None:
    detail = {"subject": "held price on-demand", "since": "2026-11-20", "members": [{"name": "price.on_demand", "text": "held"}]}
    archive.save_findings([FindingRecord("held", "", None, NAME, "price", "warn", "WARN it cannot be", detail)])


@pytest.fixture
def declared() -> Declarations:
    return load()


@pytest.fixture
def client(archive: Archive, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as opened:
        yield opened


def test_what_is_newer_counts(archive: Archive, declared: Declarations) -> None:
    listed = max((p for p in declared.providers[NAME].prices if p.purchase == "on_demand"), key=lambda p: p.since)
    before = next(r for r in prices_page(archive, declared, NOW.date()).rows if (r.provider, r.purchase) == (NAME, "on-demand"))
    assert before.price == "98.32 → 55.04 USD/h (−44 %)" and before.source == listed.source
    archive.accept_price(NAME, "on_demand", None, 77.0, listed.since + timedelta(days=1), "a letter", by="ada", why="agreed")
    after = next(r for r in prices_page(archive, declared, NOW.date()).rows if (r.provider, r.purchase) == (NAME, "on-demand"))
    assert (after.price, after.source) == (format_money_change(listed.price, 77.0, "USD/h"), "a letter")


def test_each_term_says_what_is_in_force_by_whom_why_and_what_waits(archive: Archive, client: TestClient, declared: Declarations) -> None:
    day = NOW.date() - timedelta(days=3)
    archive.accept_price(NAME, "reserved", "1y", 18.4, day, "given by root", by="root", why="signed on Monday")
    held(archive)
    rows = {r.purchase: r for r in provider_prices(archive, declared, NAME, NOW).rows}
    agreed = rows["reserved 1y"]
    assert (agreed.price, agreed.since, agreed.by, agreed.why) == ("18.40 USD/h", str(day), "root", "signed on Monday")
    assert "reserved" not in rows, "a purchase of which nothing is known without a term has no row that denies the one with it"
    assert (rows["on-demand"].pending, rows["on-demand"].finding_id) == ("held: not in use until accepted", "held")
    assert rows["on-demand"].by == "" and agreed.pending == ""
    for address in ("/prices", f"/prices/{NAME}"):
        text = client.get(address).text
        assert "root: signed on Monday" in text and "none: not declared" not in text
    archive.accept_price(NAME, "reserved", "1y", 18.4, NOW.date() + timedelta(days=9), "given by ada", by="ada", why="later")
    early = next(r for r in prices_page(archive, declared, day).rows if r.purchase == "reserved 1y")
    assert early.by == "root", "a price that begins later is not in force"


def test_the_page_of_a_provider_has_the_price_of_each_term_for_who_may_see_costs(
    archive: Archive, client: TestClient, tmp_path: Path
) -> None:
    archive.accept_price(NAME, "reserved", "1y", 18.4, NOW.date() - timedelta(days=3), "given by root", by="root", why="signed on Monday")
    held(archive)
    page = Parsed(client.get(f"/providers/{NAME}").text)
    rows = {row[0]: row for tr in page.all("#terms tbody tr") if (row := tr.texts("td"))}
    assert rows["reserved 1y"][1].startswith("18.40 USD/h") and "root: signed on Monday" in rows["reserved 1y"][3]
    assert rows["on-demand"][5] == "held: not in use until accepted" and page.one("#terms summary .kind").text.endswith(", 1 pending")
    with TestClient(
        create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path, may_see_money=lambda: False)
    ) as hidden:
        assert 'id="terms"' not in hidden.get(f"/providers/{NAME}").text and hidden.get(f"/providers/{NAME}.json").json()["terms"] == []


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


def test_one_price_is_in_force_at_a_time(archive: Archive, client: TestClient, declared: Declarations) -> None:
    listed = max((p for p in declared.providers[NAME].prices if p.purchase == "on_demand"), key=lambda p: p.since)
    agreed = listed.since + timedelta(days=1)
    archive.accept_price(NAME, "on_demand", None, 77.0, agreed, "a letter", by="ada", why="agreed")
    shown = provider_prices(archive, declared, NAME, NOW)
    newest, before, oldest = (price for kind, price in shown.held if kind == "on-demand")
    assert (newest.price, newest.until, before.price, before.until) == (77.0, None, listed.price, agreed)
    assert oldest.until == before.since
    (chart,) = (c for c in shown.charts if c.name == "price-on-demand")
    (line,) = (d for d in chart.data if d.get("mode", "lines") == "lines")
    assert line["y"][-2:] == [77.0, 77.0] and listed.price in line["y"]
    assert line["x"][line["y"].index(77.0)] == agreed.isoformat(), "the old price ends where the new one begins"
    assert format_money_change(listed.price, 77.0, "USD/h") in client.get(f"/prices/{NAME}").text


def test_what_a_price_moved_is_on_its_page_before_the_chart(archive: Archive, client: TestClient) -> None:
    finding = Finding(
        finding_id="moved", series_key="", campaign_id=None, kind="price", severity="warn", evidence="", explanation="", provider=NAME,
        workload_kind="", workload="", subject="price on-demand", effect=0.3, since="2026-09-01", moves=(ChoiceMove("product", "inference", NAME, "cirrus"),),
    )  # fmt: skip
    archive.save_findings([FindingRecord("moved", "", None, NAME, "price", "warn", "", asdict(finding))])
    text = client.get(f"/prices/{NAME}").text
    first = f"{NAME} raised its price 30 % on 1 September 2026: product moves to cirrus"
    assert first in text and text.index(first) < text.index('id="list"')
    archive.set_finding_state("moved", "resolved", by="ada", why="seen")
    text = client.get(f"/prices/{NAME}").text
    assert text.index('id="settled"') < text.index(first)


def test_steps_break_where_no_price_holds_and_held_readings_are_hollow() -> None:
    def held(usd: float, since: date, until: date | None) -> Price:
        return Price.model_construct(None, purchase="on_demand", price=usd, since=since, until=until, source="s")

    spans = [held(10.0, date(2026, 8, 1), date(2026, 9, 1)), held(9.0, date(2026, 10, 1), None)]
    read = [
        PriceReadingView(**reading(d, 9.0).stored, reading_id=f"r{d}", usd_per_gpu_hour=9.0 / 8, usd_per_instance_hour=9.0, recorded_at=NOW)
        for d in (3, 1)
    ]
    chart = price_chart("on_demand", None, spans, read, "2026-11-20", NOW)
    assert chart is not None
    lines = {d["name"]: d for d in chart.data}
    assert lines["in force"]["y"] == [10.0, 10.0, None, 9.0, 9.0]
    assert lines["in force"]["x"][-1] == "2026-11-22", "what holds now is seen to hold"
    assert lines["read: gpuhunt"]["marker"]["symbol"] == ["circle", "circle-open"]
    whole = price_chart("on_demand", None, spans, read, None, NOW)
    assert whole is not None and "Hollow" not in whole.caption
    assert price_chart("spot", None, (), (), None, NOW) is None
