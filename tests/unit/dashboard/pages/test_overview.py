"""What a cell of the overview says of its series."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from tests.data.result_documents import PLANNED, document, provider, trial

from plumbline.archive import Archive, DecisionRecord, FindingRecord, open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages.overview import PROVIDERS_PER_PAGE, newest_decisions, overview
from plumbline.declarations import Declarations, load


@pytest.mark.parametrize(("state", "said"), [("open", "page"), ("acknowledged", "page"), ("resolved", "no baseline")])
def test_a_drift_that_somebody_is_on_is_still_a_drift(tmp_path: Path, state: str, said: str) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "lab-2core", "performance", "page", "PAGE  slower")])
        if state != "open":
            archive.set_finding_state("f1", state, "ada", "a test")  # type: ignore[arg-type]
        shown = overview(archive, load(), tmp_path, PLANNED + timedelta(days=1))
    ((cell,),) = (line.cells for line in shown.lines)
    assert cell is not None and cell.drift == said
    assert [f.finding_id for f in shown.findings] == (["f1"] if state == "open" else []), "the list is of what waits for somebody"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_provider_whose_instances_changed_is_told_by_those_that_it_has_now(tmp_path: Path, order: tuple[int, int]) -> None:
    kinds = ("a-old", "b-new")
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for month, at in enumerate(order):
            where = provider().model_copy(update={"instance_type": kinds[at]})
            asked = trial(campaign=f"2025-{10 + month}", where=where, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked), uri="file:///store")
        shown = overview(archive, load(), tmp_path, PLANNED + timedelta(days=31))
    ((cell,),) = (line.cells for line in shown.lines)
    assert cell is not None and cell.campaign_id == "2025-11" and kinds[order[1]] in cell.series_key


def statements(archive: Archive, reports: Path, declared: Declarations) -> int:
    asked: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        asked.append(statement)

    event.listen(archive.engine, "before_cursor_execute", note)
    overview(archive, declared, reports, PLANNED + timedelta(days=1))
    event.remove(archive.engine, "before_cursor_execute", note)
    return len(asked)


def test_a_page_of_providers_costs_the_same_however_many_follow(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        declared = load()
        names = [f"lab-{n:02d}" for n in range(2 * PROVIDERS_PER_PAGE + 1)]
        for count, name in enumerate(names, 1):
            archive.record(document(trial(where=provider(name))), uri="file:///store")
            if count == PROVIDERS_PER_PAGE:
                before = statements(archive, tmp_path, declared)
        assert statements(archive, tmp_path, declared) == before
        walked, after = [], ""
        while True:
            shown = overview(archive, declared, tmp_path, PLANNED, after)
            walked += shown.providers
            if shown.more is None:
                break
            after = shown.more
    assert walked == names


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
        (found,) = [w for w in newest_decisions(archive, load(), PLANNED) if w.decided]
    assert found.named == named


def test_who_was_decided_for_stands_first_and_a_choice_without_a_decision_says_so(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for number, who in enumerate(("old", "new")):
            archive.save_decision(DecisionRecord(f"d{number}", "product", "inference", who, 0.9, {"workloads": ["chat-tiny-cpu"]}))
        found = {(w.team, w.workloads): w.winner for w in overview(archive, load(), tmp_path, PLANNED).winners if w.kind == "inference"}
    assert found["product", ("chat-tiny-cpu",)] == "new"
    assert found["product", ("chat-8b",)] is None
