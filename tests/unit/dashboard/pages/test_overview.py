"""What a cell of the overview says of its series."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from tests.data.result_documents import PLANNED, document, provider, training_metrics, training_workload, trial

from plumbline.analysis.decisions.decision_record import read_decisions
from plumbline.answers.active_runs import ActiveRun, ReadActiveRuns
from plumbline.answers.spend import spend_by_campaign
from plumbline.archive import Archive, DecisionRecord, FindingRecord, open_archive
from plumbline.archive.audit import SERIES_REVIEWED
from plumbline.dashboard.active_runs import ask_airflow
from plumbline.dashboard.app import create_app
from plumbline.declarations import Declarations, load
from plumbline.metrics.formatting import format_amount
from plumbline.presentation.heat_map import HeatCell, HeatView
from plumbline.presentation.overview import Overview, newest_decisions, overview
from plumbline.presentation.tiles import Tile


def cells(shown: Overview) -> dict[tuple[str, str], HeatCell]:
    return {(row.provider, cell.workload): cell for row in shown.map.rows for cell in row.cells if cell is not None}


@pytest.mark.parametrize(
    ("view", "level", "text"), [("speed", "none", "–"), ("reliability", "h5", "0/2"), ("drift", "h1", "?"), ("age", "h0", "1 d")]
)
def test_a_workload_without_a_usable_trial_anywhere_has_a_column(tmp_path: Path, view: HeatView, level: str, text: str) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        for repeat in (1, 2):
            asked = trial(workload=training_workload(name="nowhere"), repeat=repeat)
            archive.record(document(asked, metrics=(), status="invalid"), uri="file:///store")
        shown = overview(archive, load(), (), PLANNED + timedelta(days=1), view=view)
    assert shown.map is not None
    assert [column.workload for column in shown.map.columns] == ["gpt-test", "nowhere"]
    cell = cells(shown)["lab-2core", "nowhere"]
    assert (cell.level, cell.text) == (level, text)
    assert ("no usable trial: step_time_unsteady: neighbours" in cell.words) == (view == "speed")


def test_a_cell_that_rests_on_a_single_repeat_is_marked(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(trial(where=provider("local-1core"))), uri="file:///store")
        for repeat in (1, 2):
            archive.record(document(trial(repeat=repeat, where=provider("local-2core"))), uri="file:///store")
        shown = overview(archive, load(), (), PLANNED + timedelta(days=1))
    found = cells(shown)
    marked = {name: (cell.single, "a single repeat" in cell.words) for (name, _), cell in found.items()}
    assert marked == {"local-1core": (True, True), "local-2core": (False, False)}
    assert shown.map is not None and shown.map.has_single


def test_campaigns_are_in_the_order_of_time_with_their_outcome_and_what_they_cost(tmp_path: Path) -> None:
    price = {"purchase": "on_demand", "price": "3.6 USD/h", "since": "2025-01-01", "source": "price page"}
    priced = replace(load(), providers={"local-1core": provider("local-1core", prices=[price])})
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for campaign in ("2025-10", "2025-11", "2025-12"):
            for repeat in (1, 2):
                archive.record(document(trial(campaign=campaign, repeat=repeat, where=provider("local-1core"))), uri="file:///store")
        archive.record(document(trial(campaign="2025-12", where=provider("gone"))), uri="file:///store")
        archive.record(
            document(trial(campaign="2025-11", repeat=3, where=provider("local-1core")), metrics=(), status="invalid"), uri="file:///store"
        )
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "lab-2core", "performance", "page", "PAGE  slower")])
        shown = overview(archive, priced, (), PLANNED + timedelta(days=1))
        (paid,) = {use.usd for key, use in spend_by_campaign(archive, priced, ["2025-10"]).items()}
        hidden = overview(archive, priced, (), PLANNED + timedelta(days=1), money=False)
    assert [c.campaign_id for c in shown.campaigns] == ["2025-12", "2025-11", "2025-10"]
    (first,), others = ([c for c in shown.campaigns if (c.campaign_id == "2025-11") is own] for own in (True, False))
    assert (first.campaign_id, first.findings, first.outcome) == ("2025-11", "1 page", "2 of 3 trials usable, 1 invalid")
    assert {c.campaign_id: c.outcome for c in others} == {"2025-10": "all 2 trials usable", "2025-12": "all 3 trials usable"}
    own = next(c for c in others if c.campaign_id == "2025-10")
    assert paid and own.paid == format_amount(paid) and next(c.paid for c in others if c is not own).startswith("≥ ")
    ((label, total),) = shown.paid
    assert label == "total" and total == f"≥ {format_amount(paid * 7 / 2)}"
    assert hidden.paid == () and {c.paid for c in hidden.campaigns} == {"–"}


@pytest.mark.parametrize(("state", "drifted"), [("open", True), ("acknowledged", True), ("resolved", False)])
def test_a_drift_that_somebody_is_on_is_still_a_drift(tmp_path: Path, state: str, drifted: bool) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "lab-2core", "performance", "page", "PAGE  slower")])
        if state != "open":
            archive.set_finding_state("f1", state, "ada", "a test")  # type: ignore[arg-type]
        shown = overview(archive, load(), (), PLANNED + timedelta(days=1))
    (cell,) = cells(shown).values()
    assert cell.drifted is drifted and ("drifted" in cell.words) is drifted
    assert [g.lead.view.finding_id for g in shown.groups] == (["f1"] if state == "open" else []), "the list is of open findings"


REVIEWED = {"state": "steady", "metric": "step_time", "effect": 0.09, "detectable": 0.013, "repeats": None}


@pytest.mark.parametrize(
    ("review", "days", "level", "words"),
    [
        (None, 1, "h1", "cannot tell: not compared yet"),
        ({**REVIEWED, "effect": 0.005}, 1, "h0", "steady (±1.3 %)"),
        ({**REVIEWED, "state": "moved", "threshold": 0.1}, 1, "h3", "moved +9.0 %, under your 10 % (step time)"),
        # Age hides no change.
        ({**REVIEWED, "state": "moved"}, 60, "h3", "moved +9.0 %, under its threshold (step time); measured 60 days ago"),
        ({**REVIEWED, "state": "suspected", "repeats": 3}, 1, "h4", "suspected: step time +9.0 % (3 more repeats)"),
        ({**REVIEWED, "state": "cannot_tell", "repeats": 1}, 1, "h1", "cannot tell (1 more repeat)"),
        ({**REVIEWED, "effect": 0.005}, 60, "h2", "stale: measured 60 days ago"),
        ({**REVIEWED, "state": "steady", "campaign_id": "2025-10"}, 1, "h1", "cannot tell: not compared yet"),
    ],
)
def test_a_state_says_what_could_be_seen(tmp_path: Path, review: dict[str, object] | None, days: int, level: str, words: str) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        if review is not None:
            detail = {"campaign_id": "2025-11", **review}
            archive.add_audit(who="drift", what=SERIES_REVIEWED, subject=trial().series_key, detail=detail)
        shown = overview(archive, load(), (), PLANNED + timedelta(days=days), view="drift")
    (cell,) = cells(shown).values()
    assert (cell.level, cell.words) == (level, words)


def test_winners_come_first_and_a_column_has_one_unit(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name, step in (("slow", 1.4), ("near", 1.04), ("best", 0.999)):
            for repeat in (1, 2):
                asked = trial(where=provider(name), repeat=repeat)
                archive.record(document(asked, metrics=training_metrics(step * (1 + repeat / 1000))), uri="file:///store")
        failed = trial(where=provider("broken"))
        archive.record(document(failed, metrics=(), status="invalid"), uri="file:///store")
        shown = overview(archive, load(), (), PLANNED + timedelta(days=1))
        aged = overview(archive, load(), (), PLANNED + timedelta(days=50), view="age")
    assert [row.provider for row in shown.map.rows] == ["best", "near", "slow", "broken"]
    found = {who: (cell.level, cell.text) for (who, _), cell in cells(shown).items()}
    assert found == {"best": ("h0", "1.00"), "near": ("h1", "1.04"), "slow": ("h4", "1.40"), "broken": ("none", "–")}
    assert [column.unit for column in shown.map.columns] == ["s"]
    assert {cell.level for cell in cells(aged).values()} == {"h5"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_provider_whose_instances_changed_is_told_by_those_that_it_has_now(tmp_path: Path, order: tuple[int, int]) -> None:
    kinds = ("a-old", "b-new")
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for month, at in enumerate(order):
            where = provider().model_copy(update={"instance_type": kinds[at]})
            asked = trial(campaign=f"2025-{10 + month}", where=where, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked), uri="file:///store")
        shown = overview(archive, load(), (), PLANNED + timedelta(days=31))
        reliability = overview(archive, load(), (), PLANNED + timedelta(days=31), view="age")
    assert [cell.text for cell in cells(reliability).values()] == ["1 d"], "the newest campaign's, of the instance of now"
    assert len(cells(shown)) == 1


def statements(archive: Archive, declared: Declarations) -> int:
    asked: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        asked.append(statement)

    event.listen(archive.engine, "before_cursor_execute", note)
    overview(archive, declared, (), PLANNED + timedelta(days=1))
    event.remove(archive.engine, "before_cursor_execute", note)
    return len(asked)


def test_the_page_costs_the_same_statements_however_many_providers_there_are(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        declared = load()
        names = [f"lab-{n:02d}" for n in range(12)]
        asked = {}
        for count, name in enumerate(names, 1):
            archive.record(document(trial(where=provider(name))), uri="file:///store")
            asked[count] = statements(archive, declared)
        # Of few the year is drawn too.
        assert asked[2] == asked[8] < 36 and asked[9] == asked[12] < asked[8]
        assert len(overview(archive, declared, (), PLANNED).map.rows) == len(names)


FILTERED = {"": 3, "?cloud=local": 2, "?cloud=nowhere": 0, "?kind=inference": 0, "?state=stale": 3, "?state=drifted": 0}
"""Rows of the map by the page's query."""


def test_the_filter_is_in_the_address(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name in ("local-1core", "local-2core", "gone"):
            archive.record(document(trial(where=provider(name))), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        assert client.get("/?state=nonsense").status_code == 422
        texts = {query: client.get(f"/{query}").text for query in FILTERED}
    heats = {query: text.partition('<table class="heat')[2].partition("<tbody>")[2] for query, text in texts.items()}
    assert {query: heat.split("</tbody>")[0].count("<tr>") for query, heat in heats.items()} == FILTERED


@pytest.mark.parametrize("measured", [False, True])
def test_one_banner_replaces_the_badges_where_nothing_was_measured(tmp_path: Path, measured: bool) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for name in ("lab-a", "lab-b"):
            archive.record(document(trial(where=provider(name)), simulated=True), uri="file:///store")
        if measured:
            archive.record(document(trial(where=provider("lab-c"))), uri="file:///store")
    with TestClient(create_app(archive_url=f"sqlite:///{tmp_path / 'archive.db'}", reports=tmp_path)) as client:
        for path in ("/", "/providers", "/providers/lab-a", "/workloads/gpt-test"):
            text = client.get(path).text
            assert ('id="all-simulated"' in text) is not measured, path
            assert measured or 'class="chip simulated"' not in text, path
        assert not measured or 'class="chip simulated"' in client.get("/providers").text


@pytest.mark.parametrize(("chances", "named"), [((0.9, 0.1), "new"), ((0.1,) * 10, "no clear winner among 9")])
def test_a_first_choice_below_one_half_is_no_winner(tmp_path: Path, chances: tuple[float, ...], named: str) -> None:
    ranking = [{"provider": f"p{n}" if n else "new", "eligible": True, "probability_first": p} for n, p in enumerate(chances)]
    detail = {"workloads": ["chat-tiny-cpu"], "ranking": ranking}
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.save_decision(DecisionRecord("d", "product", "inference", "new", chances[0], detail))
        (found,) = [w for w in newest_decisions(read_decisions(archive.newest_decisions()), load(), PLANNED) if w.decided]
    assert found.first == named


def test_who_was_decided_for_stands_first_and_a_choice_without_a_decision_says_so(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for number, who in enumerate(("old", "new")):
            archive.save_decision(DecisionRecord(f"d{number}", "product", "inference", who, 0.9, {"workloads": ["chat-tiny-cpu"]}))
        shown = [w.decision for w in overview(archive, load(), (), PLANNED).winners]
        found = {(d.team, d.workloads): d.first_name for d in shown if d.kind == "inference"}
    assert found["product", ("chat-tiny-cpu",)] == "new"
    assert found["product", ("chat-8b",)] is None


def test_a_cell_has_its_newest_campaigns_on_demand(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        for month in range(1, 5):
            for repeat in (1, 2):
                asked = trial(campaign=f"2025-{month:02d}", repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
                archive.record(document(asked, metrics=training_metrics(1 + month / 10 + repeat / 1000)), uri="file:///store")
    client = TestClient(create_app(archive_url=url, reports=tmp_path))
    where = trial()
    found = client.get(f"/cells/{where.provider.name}/{where.workload.name}").json()
    assert [point["campaign"] for point in found["points"]] == ["2025-01", "2025-02", "2025-03", "2025-04"]
    assert found["text"].startswith("1.40") and "…" in found["interval"]
    assert client.get(f"/cells/{where.provider.name}/never-ran").status_code == 404


def tile_of(tmp_path: Path, read: ReadActiveRuns | None) -> Tile:
    """The tile of what runs now, or of the newest campaign."""
    active = ask_airflow(read)
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        shown = overview(archive, load(), (), PLANNED + timedelta(days=1), active=active)
    (found,) = [tile for tile in shown.tiles if tile.name in ("Running now", "Newest campaign")]
    return found


def run(
    dag_id: str = "benchmark_local_2core", state: Literal["running", "queued"] = "running", trials: int = 0, days: int = 1
) -> ActiveRun:
    return ActiveRun(dag_id, state, PLANNED + timedelta(days=days), trials, trials // 2, f"/dags/{dag_id}/runs/1")


@pytest.mark.parametrize(
    ("active", "value", "note"),
    [
        ([run(trials=12)], "local-2core", "6 of 12 trials since 01:00 UTC"),
        ([run()], "local-2core", "since 01:00 UTC"),
        ([run("provider_watch", days=0)], "provider_watch", "since 2025-11-01 01:00 UTC"),
        ([run(), run("rerun", "queued")], "1 running, 1 queued", "local-2core since 01:00 UTC; rerun queued since 01:00 UTC"),
        ([run("rerun", "queued")] * 4, "4 queued", "; ".join(["rerun queued since 01:00 UTC"] * 3) + "; …"),
        ([ActiveRun("rerun", "queued", None, 0, 0, "/x")], "rerun", "queued"),
    ],
)
def test_a_tile_says_what_runs_now(tmp_path: Path, active: list[ActiveRun], value: str, note: str) -> None:
    found = tile_of(tmp_path, lambda: active)
    assert (found.name, found.value) == ("Running now", value)
    assert re.fullmatch(re.escape(note) + r"; next 2025-12-01 \d\d:\d\d UTC on .+", found.note)
    assert (found.link, found.in_airflow) == (active[0].path, True)


def test_of_few_providers_the_year_is_drawn_and_of_many_the_map_fills_the_screen(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for n in range(8):
            for month in (1, 2):
                at = PLANNED + timedelta(days=30 * month)
                asked = trial(where=provider(f"lab-{n}"), campaign=f"2025-{month:02d}", planned_at=at)
                archive.record(document(asked, metrics=training_metrics(1 + month / 10)), uri="file:///store")
        few = overview(archive, load(), (), PLANNED + timedelta(days=90))
        asked = trial(where=provider("lab-8"), campaign="2025-02", planned_at=PLANNED + timedelta(days=60))
        archive.record(document(asked, metrics=training_metrics(1.2)), uri="file:///store")
        many = overview(archive, load(), (), PLANNED + timedelta(days=90))
    assert few.trend is not None and few.trend.data[0]["y"] == [100, pytest.approx(100 * 1.1 / 1.2, abs=0.01)]
    assert many.trend is None


def test_where_nothing_runs_the_newest_campaign_is_named(tmp_path: Path) -> None:
    found = tile_of(tmp_path, list)
    assert (found.name, found.value, found.link, found.in_airflow) == ("Running now", "nothing", "/campaigns/2025-11", False)
    assert "2025-11: 1 trial" in found.note


def refused() -> list[ActiveRun]:
    raise OperationalError("SELECT", {}, Exception("no such table: dag_run"))


@pytest.mark.parametrize("read", [None, refused])
def test_without_an_answer_of_airflow_the_newest_campaign_is_shown(tmp_path: Path, read: ReadActiveRuns | None) -> None:
    found = tile_of(tmp_path, read)
    assert (found.name, found.value, found.in_airflow) == ("Newest campaign", "2025-11", False)


def test_a_run_leads_to_its_page_in_airflow(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.record(document(), uri="file:///store")
    text = TestClient(create_app(archive_url=url, reports=tmp_path, active_runs=lambda: [run()]), root_path="/plumbline").get("/").text
    assert '<a class="tile " href="/dags/benchmark_local_2core/runs/1" target="_top">' in text
