"""What stands now: of each series its newest campaign that left usable numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from tests.data.result_documents import document, failed, provider, training_metrics, trial
from tests.unit.archive.test_indexes import explained
from tests.unit.results.test_published import result

from plumbline.archive import Archive, open_archive
from plumbline.archive.schema import Base
from plumbline.results import Reason

SERIES = trial().series_key
URI = "file:///store"


def month(number: int) -> datetime:
    return datetime(2025, number, 1, 1, tzinfo=timezone.utc)


def test_the_newest_campaign_with_a_usable_trial_stands(archive: Archive) -> None:
    for number in (9, 10):
        archive.record(document(trial(campaign=f"2025-{number:02}", planned_at=month(number))), uri=URI)
    archive.record(failed(trial(campaign="2025-11", planned_at=month(11))), uri=URI)
    rejected = document(trial(campaign="2025-12", planned_at=month(12)))
    archive.record(rejected, action="reject", quality_reasons=(Reason(code="implausible", detail="too good"),), uri=URI)
    (part,) = archive.newest_usable()
    assert (part.series.series_key, part.campaign_id, part.planned_at) == (SERIES, "2025-10", month(10))


def test_every_series_by_itself_and_imported_ones_never(archive: Archive) -> None:
    other = provider("lab-other")
    archive.record(document(), uri=URI)
    archive.record(document(trial("inference", where=other, campaign="2025-10", planned_at=month(10))), uri=URI)
    archive.import_outside([result()])
    found = [(p.series.provider, p.series.workload, p.campaign_id) for p in archive.newest_usable()]
    assert sorted(found) == [("lab-2core", "gpt-test", "2025-11"), ("lab-other", "chat-test", "2025-10")]
    assert [p.series.provider for p in archive.newest_usable(["chat-test"])] == ["lab-other"]
    assert archive.newest_usable([]) == []


def test_attempts_are_all_of_the_campaign_but_those_that_a_correction_replaced(archive: Archive) -> None:
    archive.record(failed(trial(repeat=1)), uri=URI)
    archive.record(document(trial(repeat=1, attempt=2)), uri=URI)
    archive.record(document(trial(repeat=2)), uri=URI)
    better = document(trial(repeat=2, attempt=2), metrics=training_metrics(step_time=0.2))
    archive.correct(
        better, 1, by="ada", why="the clock was wrong", action="annotate", quality_reasons=(Reason(code="note", detail="seen"),), uri=URI
    )
    archive.record(document(trial(campaign="2025-10", planned_at=month(10))), uri=URI)
    found = archive.attempts_of(archive.newest_usable())
    assert [(a.trial_id[-2:], a.attempt, a.quality_action) for a in found] == [
        ("r1", 1, "accept"),
        ("r1", 2, "accept"),
        ("r2", 2, "annotate"),
    ]
    assert found[-1].quality_reasons == (Reason(code="note", detail="seen"),) and found[-1].checksum == better.checksum
    contents = archive.contents([a.trial_pk for a in found])
    assert better.checksum in contents[found[-1].trial_pk] and len(contents) == 3


def test_more_than_one_statement_can_name_is_asked_in_several(archive: Archive) -> None:
    archive.record(document(), uri=URI)
    (part,) = archive.newest_usable()
    others = [replace(part, campaign_id=f"2024-{n}") for n in range(501)]
    assert len(archive.attempts_of([*others, part])) == 1


def test_of_trials_metrics_and_documents_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri=URI)
        plans = explained(archive, lambda a: a.contents([t.trial_pk for t in a.attempts_of(a.newest_usable(["gpt-test"]))]))
    scanned = {line.split()[1] for line in plans if line.startswith("SCAN ")} & {*Base.metadata.tables}
    assert plans and scanned <= {"series"}, "there are few series, and many of everything else"


def test_an_acceptance_is_no_newest_campaign_and_no_result_where_there_is_another(archive: Archive) -> None:
    def record(campaign: str, number: int, where: str = "lab-2core", **fields: object) -> None:
        planned = trial(campaign=campaign, planned_at=month(number), where=provider(where)).model_copy(update=fields)
        archive.record(document(planned), uri=URI)

    record("accept-1", 12, placement="each_node", on_nodes=("n1",))
    assert archive.newest_campaign() == "accept-1" and [p.campaign_id for p in archive.newest_usable()] == ["accept-1"]
    assert archive.compared_campaigns(12) == (), "an acceptance compares no providers"
    record("od-1", 9, reason="acceptance of lab-2core")
    assert [(c.campaign_id, c.purpose) for c in archive.campaigns()] == [("od-1", "on_demand"), ("accept-1", "acceptance")]
    assert archive.newest_campaign() == "od-1" and [c.campaign_id for c in archive.compared_campaigns(12)] == ["od-1"]
    record("2025-08", 8)
    record("accept-2", 12, "other", placement="each_node", on_nodes=("n1",))
    assert archive.newest_campaign() == "2025-08" and [c.campaign_id for c in archive.compared_campaigns(12)] == ["2025-08"]
    assert archive.latest_campaign(SERIES) == "od-1"
    assert [(p.series.provider, p.campaign_id) for p in archive.newest_usable()] == [("lab-2core", "od-1"), ("other", "accept-2")]
    assert {name: [h.campaign_id for h in heads] for name, heads in archive.acceptances().items()} == {
        "lab-2core": ["accept-1"],
        "other": ["accept-2"],
    }
