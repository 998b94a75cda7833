"""Findings: the same one is stored once, and goes through its states only forwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.data.result_documents import document, trial

from plumbline.archive import Archive, FindingRecord, IncidentRecord, WrongState

SLOWER = FindingRecord(
    finding_id="f1",
    series_key=trial().series_key,
    campaign_id="2025-11",
    provider="lab-2core",
    kind="performance",
    severity="page",
    headline="step_time +7.9 %",
    detail={"members": ["step_time", "tokens_per_second"]},
    effect=0.079,
    ci_low=0.068,
    ci_high=0.091,
    metric="step_time",
)


@pytest.fixture
def known(archive: Archive) -> Archive:
    archive.record(document(), uri="file:///store")
    assert archive.save_findings([SLOWER, replace(SLOWER, finding_id="f2", kind="environment", severity="warn", effect=None)]) == (
        "f1",
        "f2",
    )
    return archive


def test_a_finding_comes_back_as_it_was(known: Archive) -> None:
    view = known.finding("f1")
    assert (view.effect, view.ci_low, view.ci_high, view.detail, view.state) == (0.079, 0.068, 0.091, SLOWER.detail, "open")
    assert view.opened_at == view.updated_at == view.last_seen_at
    assert known.finding("f2").effect is None
    assert [e.what for e in known.audit("f1")] == ["finding_opened"]


def test_the_same_finding_again_is_only_seen_once_more(known: Archive) -> None:
    known.set_finding_state("f1", "acknowledged", by="ada", why="looking")
    before = known.finding("f1")
    assert known.save_findings([replace(SLOWER, headline="reworded", severity="info")]) == ()
    after = known.finding("f1")
    assert after.last_seen_at > before.last_seen_at
    assert replace(after, last_seen_at=before.last_seen_at) == before
    assert len(known.findings()) == 2


@pytest.mark.parametrize("path", [("acknowledged", "accepted"), ("acknowledged", "resolved"), ("accepted",), ("resolved",)])
def test_the_steps_that_a_finding_may_take(known: Archive, path: tuple[str, ...]) -> None:
    for state in path:
        view = known.set_finding_state("f1", state, by="ada", why="because")  # type: ignore[arg-type]
        assert view.state == state
    assert view.updated_at > view.opened_at
    assert [e.what for e in known.audit("f1")][1:] == [f"finding_{state}" for state in path]


@pytest.mark.parametrize(("first", "then"), [("acknowledged", "open"), ("accepted", "resolved"), ("resolved", "acknowledged")])
def test_the_steps_that_it_may_not(known: Archive, first: str, then: str) -> None:
    known.set_finding_state("f1", first, by="ada", why="because")  # type: ignore[arg-type]
    with pytest.raises(WrongState, match=f"finding f1 is {first} and cannot become {then}; expected"):
        known.set_finding_state("f1", then, by="ada", why="because")  # type: ignore[arg-type]
    assert known.finding("f1").state == first
    assert len(known.audit("f1")) == 2


def test_the_state_it_has_already_is_no_step(known: Archive) -> None:
    known.set_finding_state("f1", "resolved", by="ada", why="gone")
    known.set_finding_state("f1", "resolved", by="bob", why="gone too")
    assert [e.who for e in known.audit("f1")] == ["drift", "ada"]


def test_bad_steps_are_named(known: Archive) -> None:
    with pytest.raises(LookupError, match='no finding "f9"'):
        known.set_finding_state("f9", "resolved", by="ada", why="x")
    with pytest.raises(LookupError, match='no finding "f9"'):
        known.finding("f9")
    with pytest.raises(ValueError, match=r'"closed".* open, acknowledged'):
        known.set_finding_state("f1", "closed", by="ada", why="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="by is empty"):
        known.set_finding_state("f1", "resolved", by="", why="x")


def test_findings_by_state_and_campaign_newest_first(known: Archive) -> None:
    known.save_findings([replace(SLOWER, finding_id="f0", campaign_id=None, kind="price")])
    known.set_finding_state("f1", "resolved", by="ada", why="gone")
    assert [f.finding_id for f in known.findings()] == ["f0", "f1", "f2"]
    assert [f.finding_id for f in known.findings(state="open")] == ["f0", "f2"]
    assert [f.finding_id for f in known.findings(campaign_id="2025-11")] == ["f1", "f2"]
    assert [f.finding_id for f in known.findings(latest=1)] == ["f0"]
    assert known.findings(state="accepted") == []


def test_a_campaign_has_what_it_opened_and_what_it_showed_again_and_no_silence_that_began_after_it(known: Archive) -> None:
    known.record(document(trial(campaign="2025-12")), uri="file:///store")
    known.continue_finding(replace(SLOWER, detail={"seen_in": ["2025-12"]}), "2025-12", "still slower")
    known.save_findings([replace(SLOWER, finding_id="f3", kind="missing_data", detail={"subject": "silence", "seen_in": ["2025-12"]})])
    assert {f.finding_id for f in known.findings(campaign_id="2025-11")} == {"f1", "f2"}
    assert {f.finding_id for f in known.findings(campaign_id="2025-12")} == {"f1", "f3"}
    assert len(known.findings(campaign_id="2025-12", latest=1)) == 1
    assert known.findings(campaign_id="2026-01") == []


def test_a_thread_is_kept_for_each_finding_and_channel(known: Archive) -> None:
    said = IncidentRecord(finding_id="f1", channel="#perf", ts="171.1", state="open", message_hash="aa")
    known.save_incident(said)
    known.save_incident(replace(said, channel="#other", ts="171.2"))
    known.save_incident(replace(said, state="resolved", message_hash="bb"))
    threads = known.incidents("f1")
    assert [(t.channel, t.ts, t.state, t.message_hash) for t in threads] == [
        ("#perf", "171.1", "resolved", "bb"),
        ("#other", "171.2", "open", "aa"),
    ]
    assert threads[0].updated_at > threads[0].posted_at
    assert known.incidents("f2") == [] and len(known.incidents()) == 2
    with pytest.raises(LookupError, match='no finding "f9"'):
        known.save_incident(replace(said, finding_id="f9"))
