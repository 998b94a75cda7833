"""What pages show of many series: a page's worth at a time, each series by its newest campaign, in the same number of statements."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.data.result_documents import PLANNED, document, failed, metric_row, provider, trial
from tests.unit.results.test_published import result

from plumbline.archive import Archive, open_archive


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as found:
        yield found


def fill(archive: Archive, names: list[str], months: int = 2) -> None:
    for month in range(months):
        for name in names:
            asked = trial(campaign=f"2025-{month + 10}", where=provider(name), planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked, metrics=[metric_row("step_time", 0.1 + month, 9)]), uri="file:///store")


def statements(archive: Archive, ask: object) -> int:
    asked: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        asked.append(statement)

    event.listen(archive.engine, "before_cursor_execute", note)
    ask()  # type: ignore[operator]
    event.remove(archive.engine, "before_cursor_execute", note)
    return len([s for s in asked if s.startswith(("SELECT", "WITH"))])


def test_imported_results_have_no_provider_of_ours(archive: Archive) -> None:
    fill(archive, ["a", "b", "c"], months=1)
    archive.import_outside([result()])
    assert archive.provider_names() == ("a", "b", "c")


def test_a_series_is_shown_by_its_newest_campaign(archive: Archive) -> None:
    fill(archive, ["a", "b"])
    parts = archive.newest_parts(archive.series_of(["b", "a"]), [("step_time", "median", "steady")])
    assert [(p.series.provider, p.campaign_id, p.outcomes.usable, p.baseline) for p in parts] == [
        ("a", "2025-11", 1, False),
        ("b", "2025-11", 1, False),
    ]
    assert parts[0].measured == ({("step_time", "median", "steady"): 1.1},)
    assert parts[0].values("step_time", "median") == (1.1,)
    archive.accept_baseline(parts[1].series.series_key, "2025-11", "ada", "a test")
    assert [p.baseline for p in archive.newest_parts(archive.series_of(["a", "b"]))] == [False, True]


def test_more_series_take_no_more_statements(archive: Archive) -> None:
    fill(archive, ["a", "b", "c"])
    few, many = archive.series_of(["a"]), archive.series_of(["a", "b", "c"])
    counts = {statements(archive, lambda s=s: archive.newest_parts(s, [("step_time", "median", "steady")])) for s in (few, many)}
    assert len(many) == 3 * len(few) and len(counts) == 1


def test_series_are_cut_by_key_and_asked_for_by_what_they_are(archive: Archive) -> None:
    fill(archive, ["a", "b", "c"])
    assert [s.provider for s in archive.series(limit=2)] == ["a", "b"]
    assert [s.provider for s in archive.series(provider="b", campaign_id="2025-10")] == ["b"]
    assert archive.series(campaign_id="2026-01") == []


def test_campaigns_are_cut_by_time_newest_first(archive: Archive) -> None:
    fill(archive, ["a"], months=3)
    first = archive.campaigns_page(limit=2)
    assert [c.campaign_id for c in first.rows] == ["2025-12", "2025-11"]
    assert [c.campaign_id for c in archive.campaigns_page(after=first.after).rows] == ["2025-10"]
    with pytest.raises(LookupError, match="2031-01"):
        archive.campaigns_page(after="2031-01")


def test_a_campaign_of_others_results_is_marked_and_one_of_ours_is_not(archive: Archive) -> None:
    fill(archive, ["a"], months=1)
    archive.import_outside([result()])
    outside = result().campaign_id
    assert archive.marked(["2025-10", outside]) == {"2025-10": (), outside: ("imported",)}


def test_workloads_are_named_once_and_know_who_ran_them(archive: Archive) -> None:
    fill(archive, ["a", "b"])
    ((kind, workload, version),) = [(w.kind, w.workload, w.version) for w in archive.workload_names()]
    assert (kind, workload, version) == ("training", trial().workload.name, trial().workload.version)
    assert archive.providers_of(workload, 1) == ["a"] and archive.providers_of(workload, 9) == ["a", "b"]


def test_launches_count_a_corrected_attempt_once(archive: Archive) -> None:
    fill(archive, ["a"], months=2)
    asked = trial(campaign="2025-11", repeat=2, where=provider("a"), planned_at=PLANNED + timedelta(days=30))
    archive.record(failed(asked, "launch_timeout"), uri="file:///store")
    (before, now) = archive.launches("a", 5)
    assert (before.campaign_id, dict(before.ended)) == ("2025-10", {None: 1})
    assert dict(now.ended) == {None: 1, "launch_timeout": 1}
    again = document(asked.model_copy(update={"attempt": 2}), metrics=[metric_row("step_time", 0.1, 9)])
    archive.correct(again, 1, by="ada", why="the log was misread", uri="file:///store")
    assert dict(archive.launches("a", 1)[0].ended) == {None: 2}
