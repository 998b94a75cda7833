"""Long lists a page at a time: every row once, in one order, wherever the cut lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.data.result_documents import document, failed, training_workload, trial

from plumbline.archive import Archive, DecisionRecord, FindingRecord, Outcomes
from plumbline.archive.repository import Slice
from plumbline.results.price_reading import Reading

URI = "file:///store"


def walked(page: Callable[[str | None], Slice[Any]]) -> list[list[Any]]:
    """All pages, one after the other."""
    pages, after = [], None
    for _ in range(20):
        found = page(after)
        pages.append(list(found.rows))
        after = found.after
        if after is None:
            return pages
    raise AssertionError("the pages never end")


def filled(archive: Archive) -> None:
    """A campaign with three series of two repeats, the last of which failed at first; and another campaign."""
    for name in ("gpt-a", "gpt-b", "gpt-c"):
        for repeat in (1, 2):
            archive.record(document(trial(workload=training_workload(name=name), repeat=repeat)), uri=URI)
    again = training_workload(name="gpt-c")
    archive.record(failed(trial(workload=again, repeat=3)), uri=URI)
    archive.record(document(trial(workload=again, repeat=3, attempt=2)), uri=URI)
    archive.record(document(trial(campaign="2025-12")), uri=URI)


def finding(number: int, **more: Any) -> FindingRecord:
    given = {"kind": "performance", "severity": "warn", "provider": "lab-2core", "campaign_id": None, **more}
    return FindingRecord(finding_id=f"f{number:02d}", series_key="", headline=f"finding {number}", **given)


def test_trials_of_a_campaign_come_once_each_in_the_order_of_their_recording(archive: Archive) -> None:
    filled(archive)
    pages = walked(lambda after: archive.trials_page("2025-11", after=after, limit=3))
    assert [len(page) for page in pages] == [3, 3, 2]
    assert [(t.workload, t.repeat, t.attempt) for page in pages for t in page][-3:] == [("gpt-c", 2, 1), ("gpt-c", 3, 1), ("gpt-c", 3, 2)]
    one = archive.trials_page("2025-11", pages[0][0].series_key).rows
    assert [(t.workload, t.repeat) for t in one] == [("gpt-a", 1), ("gpt-a", 2)]
    with pytest.raises(ValueError, match="invalid literal"):
        archive.trials_page(after="nothing")


def test_a_page_that_is_just_full_is_the_last_one(archive: Archive) -> None:
    filled(archive)
    assert [len(p) for p in walked(lambda after: archive.trials_page("2025-11", after=after, limit=4))] == [4, 4]


def test_series_of_a_campaign_say_how_they_ended_and_what_they_measured(archive: Archive) -> None:
    filled(archive)
    pages = walked(lambda after: archive.campaign_series("2025-11", [("step_time", "median")], after, 2))
    assert [[s.series.workload for s in page] for page in pages] == [["gpt-a", "gpt-b"], ["gpt-c"]]
    last = pages[1][0]
    assert last.outcomes == Outcomes(planned=3, usable=3), "a trial counts once, by its best attempt"
    assert last.values == {"step_time": (0.1, 0.1, 0.1)}
    assert archive.campaign_series("2025-11").rows[0].values == {}, "what nobody asks for is not read"
    assert archive.campaign_series("2099-01").rows == ()


def test_a_campaign_says_what_it_was_planned_as(archive: Archive) -> None:
    filled(archive)
    head = archive.campaign_head("2025-11")
    assert head is not None and (head.campaign_id, head.reason) == ("2025-11", "test")
    assert archive.campaign_head("2099-01") is None


def test_findings_by_state_kind_severity_and_provider(archive: Archive) -> None:
    archive.save_findings([finding(n) for n in range(5)])
    archive.save_findings([finding(5, kind="price", provider="other", severity="info")])
    archive.set_finding_state("f03", "resolved", "ada", "over")
    pages = walked(lambda after: archive.findings_page(after=after, limit=2))
    assert [f.finding_id for page in pages for f in page] == ["f05", "f00", "f01", "f02", "f03", "f04"]
    assert [f.finding_id for f in archive.findings_page(state="open", kind="performance").rows] == ["f00", "f01", "f02", "f04"]
    assert [f.finding_id for f in archive.findings_page(provider="other").rows] == ["f05"]
    assert [f.finding_id for f in archive.findings_page(severity="info", after="f05").rows] == []
    with pytest.raises(LookupError, match='no finding "nothing"'):
        archive.findings_page(after="nothing")


def test_a_campaign_shows_what_it_opened_and_what_it_showed_again(archive: Archive) -> None:
    filled(archive)
    archive.save_findings(
        [
            finding(1, campaign_id="2025-11"),
            finding(2, campaign_id="2025-11", detail={"seen_in": ["2025-12"]}),
            finding(3, campaign_id="2025-12"),
        ]
    )
    assert [f.finding_id for f in archive.findings_shown_by("2025-12", 10)] == ["f02", "f03"]
    assert [f.finding_id for f in archive.findings_shown_by("2025-12", 1)] == ["f02"]
    assert archive.findings_shown_by("2099-01", 10) == ()


def shared(number: int, **more: Any) -> FindingRecord:
    """A cause that several providers share."""
    return finding(number, provider="fleet", detail={"cause": {"providers": ["lab-2core", "lab-4core"]}, "seen_in": ["2025-12"]}, **more)


def test_a_shared_cause_is_a_finding_of_each_provider_that_has_it(archive: Archive) -> None:
    archive.save_findings([finding(1), finding(2, provider="other"), shared(3)])
    assert [f.finding_id for f in archive.findings_page(provider="lab-2core").rows] == ["f01", "f03"]
    assert [f.finding_id for f in archive.findings_page(provider="lab-4core").rows] == ["f03"]
    assert [f.finding_id for f in archive.findings_page(provider="other").rows] == ["f02"]
    assert [f.finding_id for f in archive.findings_page(providers=["other", "lab-4core"]).rows] == ["f02", "f03"]
    assert archive.findings_page("resolved", provider="lab-4core").rows == ()


@pytest.mark.parametrize("provider", ["fleet", "lab-2core"])
def test_a_campaign_shows_a_cause_again_also_after_it_was_accepted(archive: Archive, provider: str) -> None:
    filled(archive)
    archive.save_findings([replace(shared(1, campaign_id="2025-11"), provider=provider), shared(2, campaign_id="2025-11")])
    archive.set_finding_state("f01", "accepted", "ada", "the driver stays")
    for found in (archive.findings_shown_by("2025-12", 10), archive.findings(campaign_id="2025-12")):
        assert [(f.finding_id, f.state) for f in found] == [("f01", "accepted"), ("f02", "open")]


def test_decisions_newest_first(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(datetime(2026, 11, 1, tzinfo=timezone.utc) + timedelta(days=n) for n in range(9))
    monkeypatch.setattr("plumbline.archive.engine.utc_now", lambda: next(times))
    for n in range(4):
        archive.save_decision(DecisionRecord(f"d{n}", "platform" if n else "product", "training", "a", 0.9, {}))
    pages = walked(lambda after: archive.decisions_page(after=after, limit=3))
    assert [[d.decision_id for d in page] for page in pages] == [["d3", "d2", "d1"], ["d0"]]
    assert [d.decision_id for d in archive.decisions_page("product", "training").rows] == ["d0"]
    with pytest.raises(LookupError, match='no decision "nothing"'):
        archive.decisions_page(after="nothing")


def test_prices_and_newest_readings_of_several_providers_at_once(archive: Archive) -> None:
    def reading(provider: str, purchase: Any, day: int) -> Reading:
        at = datetime(2026, 11, day, tzinfo=timezone.utc)
        return Reading(provider, purchase, None, "csv", "v1", at, float(day), "USD", "gpu_hour", 1)

    places = (("a", "on_demand", 1), ("a", "on_demand", 3), ("a", "spot", 2), ("b", "on_demand", 1), ("c", "on_demand", 9))
    archive.record_readings([reading(*each) for each in places])
    found = archive.newest_readings(["a", "b"])
    assert {(r.provider, r.purchase): r.usd_per_instance_hour for r in found} == {
        ("a", "on_demand"): 3.0,
        ("a", "spot"): 2.0,
        ("b", "on_demand"): 1.0,
    }
    for name in ("a", "c"):
        archive.accept_price(name, "on_demand", None, 2.0, date(2026, 11, 1), "s", by="ada", why="agreed")
    assert [p.provider for p in archive.prices(["a", "b"])] == ["a"]


def test_what_a_decision_can_rest_on_moves_its_mark(archive: Archive) -> None:
    marks = [archive.as_of()]
    archive.record(document(), uri=URI)
    marks.append(archive.as_of())
    archive.accept_price("a", "on_demand", None, 2.0, date(2026, 11, 1), "s", by="ada", why="agreed")
    marks.append(archive.as_of())
    assert len(set(marks)) == 3 and archive.as_of() == marks[-1]


def test_providers_by_name(archive: Archive) -> None:
    filled(archive)
    assert archive.provider_names() == ("lab-2core",)
