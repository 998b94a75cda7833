"""The pages of workloads: providers side by side, what cannot be compared, and the trials behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.browser.sample import campaign, record
from tests.data.result_documents import PLANNED, document, provider, training_metrics, training_workload, trial
from tests.parsed import Parsed
from tests.unit.formats.test_tool_files import DATA, FILES

from plumbline.analysis.fleet import FleetSeries
from plumbline.archive import FindingRecord, Outcomes, open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages.workloads import workload_lines
from plumbline.declarations import load
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_name
from plumbline.presentation.heat_map import rank_fleet
from plumbline.results import Reason, Validity
from plumbline.workflows.import_results import import_benchmark_file


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("home")
    data = campaign(folder / "results")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        record(archive, data)
    with TestClient(create_app(archive_url=f"sqlite:///{folder / 'archive.db'}", reports=folder)) as found:
        yield found


def test_providers_stand_side_by_side_with_intervals_and_every_repeat_leads_to_its_trial(client: TestClient) -> None:
    first = Parsed(client.get("/workloads/chat-tiny-cpu").text).charts["key-time-to-first-token"]["data"]
    assert [trace["y"][0] for trace in first] == ["local-1core", "local-1core", "local-2core", "local-2core"], "winners on top"
    assert first[-1]["error_x"]["array"][0] > 0
    linked = [path for trace in first for path in trace.get("customdata", ())]
    assert len(linked) == 5 and {client.get(path).status_code for path in linked} == {200}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Seven providers, the fastest last by name, of steps between 0.7 ms and 1.3 s."""
    folder = tmp_path_factory.mktemp("many")
    with open_archive(f"sqlite:///{folder / 'archive.db'}") as archive:
        for n, step in enumerate((1.3, 1.2, 0.9, 1.0, 1.1, 0.8, 0.0007)):
            for repeat in (1, 2):
                asked = trial(where=provider(f"lab-{n}"), repeat=repeat)
                archive.record(document(asked, metrics=training_metrics(step * (1 + repeat / 1000))), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{folder / 'archive.db'}", reports=folder)) as found:
        yield found


def test_each_provider_has_a_line_over_time_with_numbered_marks_of_what_happened(tmp_path: Path) -> None:
    """A driver changes on one of two providers; a third one has no number, a campaign of one provider is a dash."""
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for month in range(3):
            at = PLANNED + timedelta(days=30 * month)
            for name, step in (("lab-a", 1.0), ("lab-b", 0.5)):
                if (name, month) != ("lab-b", 1):
                    asked = trial(where=provider(name), campaign=f"2025-{10 + month}", planned_at=at)
                    facts = {"driver.version": "570.1" if (name, month) == ("lab-a", 2) else "560.1"}
                    archive.record(document(asked, metrics=training_metrics(step + month / 10), facts=facts), uri="file:///store")
        reason = Reason(code="gpu_xid", detail="spoilt")
        spoilt = trial(where=provider("lab-c"), campaign="2025-12", planned_at=PLANNED + timedelta(days=60))
        archive.record(document(spoilt, metrics=(), validity=Validity(status="invalid", reasons=(reason,))), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        page, data = Parsed(client.get("/workloads/gpt-test").text), client.get("/workloads/gpt-test.json").json()["side_by_side"]["trend"]
    drawn = page.charts["workload-trend"]
    lines = {trace["name"]: trace for trace in drawn["data"] if trace["mode"] == "lines+markers"}
    assert {name: len(trace["y"]) for name, trace in lines.items()} == {"lab-a": 3, "lab-b": 2}
    assert len({(t["line"]["color"], t["line"]["dash"]) for t in lines.values()}) == 2
    (event,) = [e for e in data["events"] if e["kind"] == "environment"]
    assert event["text"].startswith("lab-a: driver") and "560.1" in event["text"]
    (lane,) = [trace for trace in drawn["data"] if trace.get("name") == "environment"]
    assert lane["text"] == [str(data["events"].index(event) + 1)] and event["text"] in page.one("#trend-events ol.numbered").text
    assert data["providers"] == list(lines) and data["others"] == ["lab-c"] and "Without this number: lab-c" in page.part("over-time").text
    rows = {row["campaign_id"]: row["medians"] for row in data["campaigns"]}
    assert list(rows) == ["2025-12", "2025-11", "2025-10"] and "–" in rows["2025-11"] and "–" not in rows["2025-10"]


def test_one_campaign_is_no_trend(many: TestClient) -> None:
    page = Parsed(many.get("/workloads/gpt-test").text)
    assert "workload-trend" not in page.charts and "a trend needs a second one" in page.one("#no-trend").text


def test_a_workload_without_a_usable_trial_says_how_many_were_planned_and_why(tmp_path: Path) -> None:
    why = {"a": ("x1", "x2", "y"), "b": ("y",)}
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name, details in why.items():
            for repeat, detail in enumerate(details, start=1):
                reason = Reason(code="step_time_unsteady" if detail[0] == "x" else "gpu_xid", detail=detail)
                asked = trial(where=provider(f"lab-{name}"), repeat=repeat)
                spoilt = document(asked, metrics=(), validity=Validity(status="invalid", reasons=(reason,)))
                archive.record(spoilt, uri="file:///store")
        counted = {place: part.outcomes for place, part in archive.newest_by_place(archive.series_of(["lab-a", "lab-b"])).items()}
    assert counted == {("lab-a", "gpt-test"): Outcomes(3, invalid=3), ("lab-b", "gpt-test"): Outcomes(1, invalid=1)}
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        page = Parsed(client.get("/workloads/gpt-test").text)
        first, second = page.part("unusable").all("li")
        assert page.all("#no-results") == []
        assert "3 trials planned" in first.text and "no usable trial: step_time_unsteady: x1" in first.text
        assert "1 trial planned" in second.text and "no usable trial: gpu_xid: y" in second.text
        (trials,) = [href for href in first.values("a", "href") if href.startswith("/campaigns/")]
        assert client.get(trials).text.count('href="/trials/') == 3


def test_a_workload_has_one_winner_whatever_the_page(many: TestClient) -> None:
    pages, path = [], "/workloads/gpt-test"
    while path:
        pages.append(Parsed(many.get(path).text))
        (path,) = pages[-1].values("[rel=next]", "href") or [""]
    assert len(pages) == 2
    rows = [
        next(row for row in page.all("tr") if any(head.startswith("Step time") for head in row.texts("th[scope=row]"))) for page in pages
    ]
    assert [len(row.all(".mark")) for row in rows] == [1, 0], "one winner among all, on its page alone"
    heads = [[link for link in page.texts("th a:has(+ small)") if link.startswith("lab-")] for page in pages]
    assert heads == [["lab-6", "lab-5", "lab-2", "lab-3", "lab-4"], ["lab-1", "lab-0"]], "winners first"
    assert len({unit for row in rows for unit in row.texts(".unit")}) == 1
    placed = [page.part("places").text for page in pages]
    assert placed[0] == placed[1] and placed[0].index("lab-6") < placed[0].index("lab-5")


def test_the_first_lines_are_the_answer_and_each_number_has_its_own_colour() -> None:
    """The fastest costs three times the cheapest: its speed is green, its cost red."""
    priced = {"dear": (1.0, 33.0), "cheap": (1.08, 10.0)}
    series = [fleet_series(name, step, usd) for name, (step, usd) in priced.items()]
    ranked = rank_fleet(series, ("step_time", METRICS["step_time"].statistic, None), "hour")
    dear, cheap = ranked.lines
    assert (dear.provider, dear.first.tone, dear.cost.tone, dear.cost.behind) == ("dear", "good", "bad", "230 % behind")
    assert (cheap.first.tone, cheap.cost.tone) == ("", "good")
    assert ranked.answer == "dear is best at 1.00 s; cheap is cheapest at 10.00 USD and 8.0 % behind."
    assert rank_fleet(series[:1], None, "hour").answer == "", "one has nobody to be better than"


def fleet_series(name: str, step: float, usd: float) -> FleetSeries:
    measured = tuple({("step_time", METRICS["step_time"].statistic, "steady"): step * (1 + n / 1000)} for n in range(-1, 2))
    return FleetSeries(name, "training", "gpt", 1, name, "2025-11", PLANNED, False, measured, None, usd_per_hour=usd)


def test_cost_against_speed_is_drawn_for_who_may_see_costs(client: TestClient) -> None:
    text = client.get("/workloads/chat-tiny-cpu").text
    assert (
        text.index('class="answer"') < text.index('id="places"') < text.index('data-for="cost-against-speed"') < text.index('id="beside"')
    )
    hourly = client.get("/workloads/chat-tiny-cpu?per=hour").text
    assert hourly.count('data-for="cost-against-speed"') == 1


def test_criteria_costs_and_what_is_behind_them(client: TestClient) -> None:
    page = Parsed(client.get("/workloads/chat-tiny-cpu").text)
    criteria = page.part("acceptance")
    assert all(criterion.text in criteria.text for criterion in load().workloads["chat-tiny-cpu"].acceptance)
    assert criteria.all(".chip.pass")
    name = format_name("cost_per_1m_output_tokens").lower()
    priced = next(row for row in page.part("cost").all("tr") if name in row.text.lower())
    assert any(re.fullmatch(r"[\d.]+ USD", value) for value in priced.texts(".value"))
    assert sum(href.startswith("/trials/2026-11.") for href in page.part("behind").values("a", "href")) == 5


def test_a_difference_that_forbids_comparing_is_said_with_its_reason(client: TestClient) -> None:
    apart = Parsed(client.get("/workloads/gpt-tiny-cpu").text).part("apart")
    assert apart.all("li > b") or "same conditions" in apart.text
    assert "trials usable" not in apart.text


def test_the_list_names_the_teams_that_ask_and_what_never_ran(client: TestClient) -> None:
    def row_of(page: str, name: str) -> Parsed:
        return next(row for row in Parsed(client.get(page).text).all("tr") if f"{page}/{name}" in row.values("a", "href"))

    line = row_of("/workloads", "chat-tiny-cpu")
    assert "/decisions/product/inference?workload=chat-tiny-cpu" in line.values("a", "href")
    best, cheapest = (line.one(f"[data-name={name}]").text for name in ("best", "cheapest"))
    assert all(re.match(r"local-\dcore ?[\d.]+", who) for who in (best, cheapest))
    assert re.match(r"\d+ \w+ ago|just now", line.one("[data-name='last run']").text)
    assert "no results" in row_of("/workloads", "vision-cpu").text
    leader = row_of("/providers", best[: len("local-2core")])
    assert re.search(r"chat-tiny-cpu|\d workloads", leader.one("[data-name=best]").text), "the list of providers marks who leads where"


def test_the_list_has_the_troubled_first(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        keys = {}
        for name in ("gpt-a", "gpt-b", "gpt-c"):
            asked = trial(workload=training_workload(name=name))
            keys[name] = asked.series_key
            archive.record(document(asked), uri="file:///store")
        for number, (name, severity) in enumerate((("gpt-b", "warn"), ("gpt-c", "page"))):
            archive.save_findings(
                [FindingRecord(f"f{number}", keys[name], "2025-11", "lab-2core", "performance", severity, "it slowed", {})]
            )
        ran = [(line.name.workload, line.findings) for line in workload_lines(archive, load()) if line.ran]
    assert ran == [("gpt-c", "1 page"), ("gpt-b", "1 warn"), ("gpt-a", "")]


def test_a_workload_that_never_ran_says_so_and_an_unknown_one_has_no_page(client: TestClient) -> None:
    assert 'id="no-results"' in client.get("/workloads/vision-cpu").text
    assert client.get("/workloads/nothing").status_code == 404


def test_imported_runs_stand_beside_what_was_measured_with_their_gaps(tmp_path: Path) -> None:
    data = campaign(tmp_path / "results")
    file = DATA / FILES["vllm-bench"]
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        record(archive, data)
        for provider in ("local-2core", "example-lambda-h100"):
            done = import_benchmark_file(archive, load(), file, "vllm-bench", provider, "chat-tiny-cpu")
    (result,) = done.results
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get("/workloads/chat-tiny-cpu").text
        section = text[text.index('id="imported"') :].split("</section>")[0]
        page = client.get(f"/trials/{result.trial_id}").text
        elsewhere = client.get("/workloads/vision-cpu").text
    ours, others = section.split("<details")[1:] if "local-2core" in section.split("<details")[1] else section.split("<details")[:0:-1]
    assert "<code>other_load</code>" in ours and "<code>counted_from_send</code>" in ours
    assert file.name in ours and f"/trials/{result.trial_id.replace('example-lambda-h100', 'local-2core')[:20]}" in ours
    row = ours[ours.index("Time to first token") :].split("</tr>")[0]
    assert re.findall(r'class="value">([^<]+)<', row)[0] == "38.4 ms" and ">–<" not in row.split("</td>")[1] and "other_load" in row
    assert ">–<" in others[others.index("Time to first token") :].split("</tr>")[0].split("</td>")[1]
    assert result.source is not None and result.source.sha256 in page and "<code>itl_between_events</code>" in page
    assert 'id="imported"' not in elsewhere


def test_a_workload_that_only_others_measured_shows_their_runs(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        import_benchmark_file(archive, load(), DATA / FILES["aiperf"], "aiperf", "local-2core", "chat-cpu")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        text = client.get("/workloads/chat-cpu").text
    assert 'id="no-results"' in text and "<code>closed_loop</code>" in text[text.index('id="imported"') :]
