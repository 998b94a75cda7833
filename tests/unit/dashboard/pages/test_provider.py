"""The pages of providers: one number over time with what could explain it, and how launches ended."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import FACTS, PLANNED, document, failed, inference_workload, metric_row, provider, training_metrics, trial
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed

from plumbline.answers.fleet_year import FleetYear, fleet_lane, fleet_year
from plumbline.archive import FindingRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.presentation.charts.fleet import year_chart
from plumbline.presentation.charts.trend import event_lanes
from plumbline.presentation.events.event import StreamEvent
from plumbline.results import Event, LaunchRecord

MONTHS = 14
CHANGED = 8
FIRST = datetime(2025, 1, 1, 1, 0, tzinfo=timezone.utc)
HOSTILE = "<img src=x>"


def planned(month: int) -> tuple[str, datetime]:
    return f"2025-m{month:02d}", FIRST + timedelta(days=30 * month)


def launched(lead_s: float) -> LaunchRecord:
    moments = (("requested", 1.0), ("harness_ready", 1.0 + lead_s))
    events = tuple(Event(name=name, utc=FIRST, monotonic_s=at, clock="launcher") for name, at in moments)
    return LaunchRecord(launcher="local", events=events)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('home') / 'archive.db'}"
    with open_archive(url) as archive:
        for month in range(MONTHS):
            campaign, at = planned(month)
            for repeat in (1, 2, 3):
                slow = 1.2 if month >= CHANGED else 1.0
                facts = FACTS | ({"torch.version": f"2.14.0{HOSTILE}"} if month >= CHANGED else {})
                numbers = [
                    metric_row("step_time", 0.1 * slow * (1 + 0.002 * repeat + 0.001 * (month % 3)), 20),
                    metric_row("tokens_per_second", 600 / slow, 20),
                ]
                asked = trial(campaign=campaign, repeat=repeat, where=provider("lab"), planned_at=at)
                archive.record(document(asked, metrics=numbers, facts=facts).with_launch(launched(4.0 + repeat)), uri="file:///store")
            archive.record(
                failed(trial(campaign=campaign, repeat=4, where=provider("lab"), planned_at=at), "insufficient_capacity"), uri="x"
            )
        key = trial(where=provider("lab")).series_key
        archive.accept_baseline(key, planned(0)[0], "ada", "the first")
        finding = FindingRecord("f1", key, planned(CHANGED)[0], "lab", "performance", "page", f"PAGE  slower {HOSTILE}")
        other = FindingRecord("f2", "other/series", planned(CHANGED)[0], "lab", "performance", "page", "PAGE  another workload")
        archive.save_findings([finding, other])
        asked = trial("inference", campaign=planned(0)[0], where=provider("lab"), planned_at=FIRST, workload=inference_workload())
        archive.record(document(asked), uri="file:///store")
    return url


@pytest.fixture(scope="module")
def client(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with TestClient(create_app(archive_url=url, reports=tmp_path_factory.mktemp("reports"))) as found:
        yield found


def traces(chart: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in chart["data"]}


def test_the_trend_and_the_launches_obey_the_time_range(client: TestClient) -> None:
    since, until = planned(CHANGED - 2)[1].date(), planned(CHANGED + 2)[1].date()
    text = client.get("/providers/lab", params={"since": str(since), "until": str(until), "metric": "step_time.value.steady"}).text
    drawn = traces(Parsed(text).charts["trend-gpt-test-step-time"])
    assert {str(at)[:10] for at in drawn["campaign median"]["x"]} == {str(planned(m)[1].date()) for m in range(CHANGED - 2, CHANGED + 3)}
    campaigns = [href for href in Parsed(text).part("launches").values("a", "href") if href.startswith("/campaigns/")]
    assert campaigns == [f"/campaigns/{planned(m)[0]}" for m in range(CHANGED + 2, CHANGED - 3, -1)]
    before = client.get("/providers/lab", params={"until": str(planned(CHANGED - 1)[1].date())}).text
    assert "2.14.0" not in before and "2.14.0" in text, "an event after the range is not of it"
    assert '<input type="hidden" name="metric" value="step_time.value.steady">' in text, "another range keeps the metric"
    assert 'id="no-year"' in client.get("/providers/lab?until=2020-01-01").text


def test_the_trend_has_every_repeat_the_medians_and_the_baselines_interval(client: TestClient) -> None:
    text = client.get("/providers/lab").text
    drawn = traces(Parsed(text).charts["trend-gpt-test-step-time"])
    assert len(drawn["repeats"]["x"]) == 3 * MONTHS
    assert len(drawn["campaign median"]["y"]) == MONTHS
    assert drawn["campaign median"]["marker"]["symbol"].count("square") == 1, "the baseline"
    band = next(name for name in drawn if name.startswith("baseline, "))
    assert min(drawn[band]["y"]) == pytest.approx(100.2) and max(drawn[band]["y"]) == pytest.approx(100.6)
    assert drawn["repeats"]["customdata"][0].startswith("/trials/2025-m00.lab.training")


def test_what_could_explain_a_change_stands_on_the_same_axis(client: TestClient) -> None:
    text = client.get("/providers/lab").text
    drawn = traces(Parsed(text).charts["trend-gpt-test-step-time"])
    when = (FIRST + timedelta(days=30 * CHANGED)).strftime("%Y-%m-%d %H:%M")
    for kind in ("finding", "environment", "change point"):
        assert drawn[kind]["x"] == [when], kind
    assert drawn["finding"]["customdata"] == ["/findings/f1"], "another workload's finding explains nothing here"
    assert "2.13.0 → 2.14.0" in drawn["environment"]["hovertext"][0]
    assert "lasting step of" in drawn["change point"]["hovertext"][0]
    assert "&lt;img" in drawn["finding"]["hovertext"][0], "Plotly reads markup in labels"
    numbers = {kind: drawn[kind]["text"][0] for kind in ("finding", "environment", "change point")}
    listed = [item.texts(".kind") for item in Parsed(text).all("#trend ~ ol.numbered li, details:has(#trend) ol.numbered li")]
    assert {kind: listed[int(number) - 1] for kind, number in numbers.items()} == {kind: [kind] for kind in numbers}
    assert HOSTILE not in text


def test_marks_that_are_too_near_share_one_with_the_span_of_their_numbers() -> None:
    days = (0, 1, 100, 300)
    events = [StreamEvent(f"e{day}", FIRST + timedelta(days=day), "outage", "ended", f"outage {day}", f"/{day}") for day in days]
    lane = event_lanes([*events[:2], StreamEvent("p", events[1].at, "price", "declared", "dearer"), *events[2:]])[0][0]
    assert lane["text"] == ["1…2", "4", "5"] and lane["customdata"] == ["/0", "/100", "/300"]
    assert lane["hovertext"][0] == "1: outage 0<br>2: outage 1"
    unknown = [StreamEvent("x", FIRST, "birthday", "had", "a year old")]
    assert event_lanes(unknown)[0][0]["name"] == "birthday" and event_lanes([])[0] == []


def test_another_workload_number_and_window_can_be_asked_for(client: TestClient) -> None:
    key = trial(where=provider("lab")).series_key
    text = client.get("/providers/lab", params={"series": key, "metric": "tokens_per_second.median.steady", "campaigns": 12}).text
    drawn = traces(Parsed(text).charts["trend-gpt-test-tokens-per-second"])
    assert len(drawn["campaign median"]["y"]) == 12
    assert '<option value="tokens_per_second.median.steady" selected>' in text
    chat = trial("inference", where=provider("lab"), workload=inference_workload()).series_key
    assert "trend-chat-test-" in client.get("/providers/lab", params={"series": chat}).text
    assert client.get("/providers/lab?campaigns=1").status_code == 422


def test_launches_that_got_no_place_count_and_carry_wilsons_interval(client: TestClient) -> None:
    text = client.get("/providers/lab").text
    share = Parsed(text).charts["launch-success"]["data"][0]
    assert share["text"][-1].endswith("3 of 4") and planned(MONTHS - 1)[0] in share["text"][-1] and share["y"][-1] == 0.75
    assert share["error_y"]["arrayminus"][-1] == pytest.approx(0.75 - 0.3006, abs=1e-3)
    assert "insufficient capacity" in text and ">6.00 s<" in text


def test_the_list_has_those_that_ran_and_those_that_are_declared(client: TestClient) -> None:
    text = client.get("/providers").text
    assert 'href="/providers/lab"' in text and "not declared" in text
    assert 'href="/providers/local-1core"' in text and "no trials" in text
    after = client.get("/providers?after=local-1core").text
    assert 'href="/providers/local-2core"' in after and 'href="/providers/lab"' not in after


def test_the_list_has_the_troubled_first_and_pages_in_that_order(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        for number in range(22):
            archive.record(document(trial(where=provider(f"z{number:02d}"))), uri="file:///store")
        for number, (name, severity) in enumerate((("z05", "warn"), ("z09", "page"), ("z07", "warn"), ("z07", "warn"))):
            archive.save_findings([FindingRecord(f"f{number}", "", "2025-11", name, "performance", severity, "it slowed", {})])
        shared = {"cause": {"providers": ["z11", "z12"]}}
        archive.save_findings([FindingRecord("all", "", "2025-11", "fleet", "performance", "page", "a driver", shared)])
    client, names, path = TestClient(create_app(archive_url=url, reports=tmp_path)), [], "/providers"
    first = client.get(path).text
    while path:
        page = Parsed(client.get(path).text)
        names += page.texts("th[scope=row] > a:first-child")
        (path,) = page.values("[rel=next]", "href") or [""]
    assert names[:5] == ["z09", "z11", "z12", "z07", "z05"]
    assert len(names) == len(set(names)) and {f"z{n:02d}" for n in range(22)} < set(names), "each provider once, on some page"
    assert "/findings/all" in client.get("/providers/z11").text and "/findings/all" not in client.get("/providers/z13").text
    assert "2 warn</a>" in first.split("/providers/z07")[1].split("</tr>")[0]


def test_a_provider_without_a_result_has_a_page_and_an_unknown_one_has_none(client: TestClient) -> None:
    text = client.get("/providers/local-1core").text
    assert 'id="no-trend"' in text and "USD/h" in text and Parsed(text).charts == {}
    assert client.get("/providers/nobody").status_code == 404


def test_a_price_that_followed_another_is_marked_on_its_day_and_leads_to_the_prices(
    client: TestClient, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    declared = (config / "providers" / "local-1core.yaml").read_text().replace("name: local-1core", "name: lab")
    prices = "prices:\n" + "".join(
        f"  - {{purchase: on_demand, price: {usd} USD/h, since: {since}{until}, source: a test}}\n"
        for usd, since, until in ((2, "2025-01-01", ", until: 2025-06-01"), (3, "2025-06-01", ""))
    )
    (config / "providers" / "lab.yaml").write_text(re.sub(r"prices:\n(?:  .*\n)+", prices, declared))
    with TestClient(create_app(archive_url=url, reports=tmp_path)) as other:
        drawn = traces(Parsed(other.get("/providers/lab").text).charts["trend-gpt-test-step-time"])
        assert drawn["price"]["x"] == ["2025-06-01 00:00"]
        assert all(part in drawn["price"]["hovertext"][0] for part in ("2.00 → 3.00", "+50 %"))
        assert other.get(drawn["price"]["customdata"][0]).status_code == 200
    monkeypatch.undo()
    assert "price" not in traces(Parsed(client.get("/providers/lab").text).charts["trend-gpt-test-step-time"])


def test_each_chart_has_an_id_of_its_own(client: TestClient) -> None:
    """Charts and parts are filled by id: one that is there twice is filled once."""
    text = client.get("/providers/lab").text
    ids = Parsed(text).values("[id]", "id")
    assert "year" in ids and len(ids) == len(set(ids))


def test_a_year_compares_all_workloads_with_the_fleet_and_counts_who_shares_a_driver(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name, last in (("here", 2.0), ("there", 1.0)):
            for month, step in ((10, 1.0), (11, last)):
                asked = trial(campaign=f"2025-{month}", where=provider(name), planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(document(asked, metrics=training_metrics(step)), uri="file:///store")
        year = fleet_year(archive)
        ranged = fleet_year(archive, (PLANNED + timedelta(days=320), None))
    assert [head.campaign_id for head in year.campaigns] == ["2025-10", "2025-11"]
    assert year.index["here"]["2025-11"] == pytest.approx(50.0) and year.index["there"]["2025-11"] == pytest.approx(100.0)
    assert [head.campaign_id for head in ranged.campaigns] == ["2025-11"]
    drivers = FleetYear(
        year.campaigns,
        year.index,
        {"here": {"driver.version": "570"}, "a": {"driver.version": "570"}, "b": {"driver.version": "550"}, "c": {}},
    )
    assert [(f.value, f.same, f.known) for f in fleet_lane(drivers, "here")] == [("570", 2, 3)] and fleet_lane(drivers, "c") == ()
    heads = [(head.campaign_id, head.planned_at) for head in year.campaigns]
    chart = year_chart("here", heads, year.index, ())
    assert chart is not None and next(trace for trace in chart.data if trace["name"] == "here")["y"] == [100.0, 50.0]
    assert year_chart("here", heads[:1], {"here": {"2025-10": 100.0}}, ()) is None
    crowd = year_chart("here", heads, {**year.index, **{f"p{n}": {"2025-10": 100.0, "2025-11": 90.0 + n} for n in range(20)}}, ())
    assert crowd is not None and len(crowd.data) == 3, "of many providers a band and a median"


def test_the_first_lines_say_what_is_wrong_what_it_costs_and_how_many_launches_succeeded(tmp_path: Path) -> None:
    url, name = f"sqlite:///{tmp_path / 'archive.db'}", "example-eks-p5"
    with open_archive(url) as archive:
        archive.record(document(trial(where=provider(name))), uri="file:///store")
        archive.record(failed(trial(where=provider(name), campaign="2025-12"), "insufficient_capacity"), uri="file:///store")
        quiet = TestClient(create_app(archive_url=url, reports=tmp_path)).get(f"/providers/{name}").text
        detail = {"evidence": "E"}
        for number, severity in enumerate(("warn", "page", "warn")):
            archive.save_findings(
                [FindingRecord(f"f{number}", "", "2025-12", name, "performance", severity, f"{severity} it slowed", detail)]
            )
    text = TestClient(create_app(archive_url=url, reports=tmp_path)).get(f"/providers/{name}").text
    answer, now = (Parsed(text).one(f"#{part}") for part in ("answer", "now"))
    assert "1 page, 2 warn" in answer.texts("b") and any("/findings/f1" in href for href in answer.values("a", "href"))
    assert "USD/h on demand, since" in now.text and "launches 1 of 2" in now.text and "last run" in now.text
    assert text.index('id="answer"') < text.index('id="fleet-year"') < text.index('id="trend"')
    assert "<b>No open finding</b>: nothing was compared with a baseline yet." in quiet and 'id="findings"' not in quiet
