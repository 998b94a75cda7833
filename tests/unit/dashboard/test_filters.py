"""One filter for every page: what it selects, what an address holds, and what a link carries."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import PLANNED, document, provider, training_metrics, trial

from plumbline.analysis.fleet import HOURLY, MONTHLY, pooled_costs, with_monthly_outcomes
from plumbline.analysis.prices.book import Basis, Quote
from plumbline.answers.fleet import read_fleet
from plumbline.archive import FindingRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.alerts import RentedVolume
from plumbline.presentation.filters import Filter
from plumbline.presentation.series_summary import ORDER

NOW = datetime(2026, 3, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("chosen", "begin", "end"),
    [
        (Filter(), None, None),
        (Filter(last="3"), datetime(2025, 12, 31, 12, tzinfo=timezone.utc), None),
        (Filter(last="12"), datetime(2025, 3, 31, 12, tzinfo=timezone.utc), None),
        (Filter(last="6"), datetime(2025, 9, 30, 12, tzinfo=timezone.utc), None),
        (Filter(since=date(2026, 1, 2)), datetime(2026, 1, 2, tzinfo=timezone.utc), None),
        (Filter(until=date(2026, 1, 2)), None, datetime(2026, 1, 3, tzinfo=timezone.utc)),
    ],
)
def test_a_time_range_is_months_until_now_or_days(chosen: Filter, begin: datetime | None, end: datetime | None) -> None:
    assert chosen.span(NOW) == (begin, end)


def test_a_link_carries_what_its_page_takes() -> None:
    chosen = Filter(cloud="aws", kind="training", state="drifted", last="6", per="month")
    assert chosen.carried("/findings") == "?cloud=aws&last=6", "a finding has a kind and a state of its own"
    assert chosen.carried("/workloads/x") == "?kind=training&last=6&per=month"
    assert chosen.carried("/prices") == Filter().carried("/providers") == ""


def test_lists_hold_what_the_filter_leaves(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        for name in ("near", "far"):
            archive.record(document(trial(where=provider(name))), uri="file:///store")
        archive.save_findings(
            [FindingRecord("f-near", trial(where=provider("near")).series_key, "2025-11", "near", "performance", "warn", "x")]
        )
    client = TestClient(create_app(archive_url=url, reports=tmp_path))

    def has(path: str, text: str) -> bool:
        answer = client.get(path)
        assert answer.status_code == 200, path
        return text in answer.text

    assert has("/providers", "/providers/near") and has("/providers?kind=training", "/providers/near")
    assert not has("/providers?kind=inference", 'href="/providers/near"') and not has("/providers?cloud=nowhere", 'href="/providers/near"')
    assert has("/providers?state=drifted", 'href="/providers/near') and any(
        has(f"/providers?state={s}", 'href="/providers/far') for s in ORDER
    )
    assert not has("/providers?state=drifted", 'href="/providers/far')
    assert not has(f"/providers?until={PLANNED - timedelta(days=2):%Y-%m-%d}", 'href="/providers/near')
    assert has("/findings", 'id="f-near"') and has("/findings?last=12", 'id="f-near"')
    assert not has("/findings?until=2020-01-01", 'id="f-near"') and not has("/findings?cloud=nowhere", 'id="f-near"')
    assert has("/workloads?kind=training&last=6", "/workloads/")
    assert has("/providers?last=6", 'href="/findings?last=6"'), "the navigation carries it along"
    assert client.get("/providers?last=5").status_code == client.get("/findings?since=x").status_code == 422


def test_a_cost_is_of_an_outcome_an_hour_or_a_month(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name, step in (("slow", 1.5), ("fast", 1.0)):
            archive.record(document(trial(where=provider(name)), metrics=training_metrics(step)), uri="file:///store")
        own = read_fleet(archive, load(), PLANNED.date()).series
    price = Quote(Basis("on_demand", 2.0, PLANNED.date(), "a test"), None)
    priced = tuple(replace(s, usd_per_hour=2.0, price=price) for s in own)
    volume = RentedVolume.model_construct(provider="slow", workload=None, time_per_month=3600.0 * 100, purchase="on_demand")
    _, outcome = pooled_costs(priced)
    rented = with_monthly_outcomes(priced, (volume,))
    assert pooled_costs(rented, "hour")[0] == HOURLY and {p.value for p in pooled_costs(rented, "hour")[1].values()} == {2.0}
    kind, month = pooled_costs(rented, "month")
    assert kind == MONTHLY and month["slow"].value == pytest.approx(200.0), "where it is rented a month costs its hours"
    assert month["fast"].value / month["slow"].value == pytest.approx(outcome["fast"].value / outcome["slow"].value)
    assert pooled_costs(priced, "month") == ("", {}), "without a volume nothing is known"
