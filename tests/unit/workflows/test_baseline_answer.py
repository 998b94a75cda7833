"""What becomes of an answer: the baseline, the finding's state, the audit log, and the benchmark that is to run again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.data.result_documents import PLANNED, document, training_metrics, trial
from tests.fakes.trials import cluster_provider, declared
from tests.unit.results.test_finding import NOTICED

from plumbline.archive import Archive, WrongState
from plumbline.results.finding import Finding
from plumbline.workflows.baseline_decision import TIMED_OUT, apply_answer, reopen, undecided_findings
from plumbline.workflows.review import review_campaign


@pytest.fixture
def finding(archive: Archive) -> Finding:
    """A slowdown that the second campaign showed and the third one still shows."""
    for month, step_time in ((1, 0.1), (2, 0.12), (3, 0.121)):
        for repeat in range(1, 7):
            asked = trial(campaign=f"2026-0{month}", repeat=repeat, planned_at=PLANNED + timedelta(days=30 * month))
            archive.record(document(asked, metrics=training_metrics(step_time * (1 + 0.001 * repeat))), uri="file:///nowhere")
        review_campaign(f"2026-0{month}")
    (stored,) = archive.findings()
    return Finding.of(stored.detail).with_state(stored.state)


def test_accept_moves_the_baseline_to_the_newest_campaign_that_showed_it(archive: Archive, finding: Finding) -> None:
    why = "the new driver stays"
    done = apply_answer(archive, declared(), finding.finding_id, "accept", "ada", why)
    assert done.baselines == {finding.series_key: "2026-03"} and done.rerun is None
    assert archive.baseline(finding.series_key) == ["2026-03"]
    assert archive.finding(finding.finding_id).state == "accepted"
    assert apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "again") == replace(done, repeated=True)
    assert [(e.who, e.why) for e in archive.audit(finding.series_key)][-1] == ("ada", why)
    with pytest.raises(WrongState, match="is accepted"):
        apply_answer(archive, declared(), finding.finding_id, "keep", "bob", "no")


def test_an_old_answer_given_again_does_not_take_a_later_baseline_back(archive: Archive, finding: Finding) -> None:
    done = apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "the new driver stays")
    archive.accept_baseline(finding.series_key, "2026-02", by="bob", why="2026-03 was measured on the wrong node")
    assert apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "again") == replace(done, repeated=True)
    assert archive.baseline(finding.series_key) == ["2026-02"]


def test_reopening_restores_the_baseline_and_the_past_stays(archive: Archive, finding: Finding) -> None:
    key = finding.series_key
    apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "the new driver stays")
    assert reopen(archive, finding.finding_id, "bob", "the vendor mended it") == {key: ("2026-01",)}
    assert archive.baseline(key) == ["2026-01"] and archive.finding(finding.finding_id).state == "open"
    assert [(b.campaign_id, b.accepted_by, b.why) for b in archive.baseline_history(key)][1:] == [
        ("2026-03", "ada", "the new driver stays"),
        ("2026-01", "bob", "the vendor mended it"),
    ]
    assert archive.audit(finding.finding_id)[-1].what == "finding_reopened"
    assert reopen(archive, finding.finding_id, "bob", "again") == {}
    compared = archive.baselines_of_campaigns(key, ["2026-01", "2026-02", "2026-03"])
    assert {c: [b.campaign_id for b in own] for c, own in compared.items()} == {
        "2026-01": [],
        "2026-02": ["2026-01"],
        "2026-03": ["2026-01"],
    }


def test_reopening_leaves_a_baseline_that_moved_on_and_refuses_what_accepted_none(archive: Archive, finding: Finding) -> None:
    with pytest.raises(ValueError, match="why"):
        reopen(archive, finding.finding_id, "bob", " ")
    apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "the new driver stays")
    archive.accept_baseline(finding.series_key, "2026-02", by="bob", why="2026-03 was measured on the wrong node")
    assert reopen(archive, finding.finding_id, "bob", "back") == {}
    assert archive.baseline(finding.series_key) == ["2026-02"]
    archive.set_finding_state(finding.finding_id, "resolved", by="bob", why="a false alarm")
    with pytest.raises(WrongState, match="resolved"):
        reopen(archive, finding.finding_id, "bob", "back")


def test_keep_leaves_the_baseline_and_is_not_asked_again(archive: Archive, finding: Finding) -> None:
    assert undecided_findings([finding]) == [finding]
    why = "a ticket is open"
    apply_answer(archive, declared(), finding.finding_id, "keep", "ada", why)
    assert archive.baseline(finding.series_key) == ["2026-01"]
    kept = archive.finding(finding.finding_id)
    assert kept.state == "acknowledged" and undecided_findings([finding.with_state(kept.state)]) == []
    assert [(e.who, e.what, e.why) for e in archive.audit(finding.finding_id)][-1] == ("ada", "baseline_kept", why)


def test_a_question_that_nobody_answered_keeps_and_leaves_the_finding_open(archive: Archive, finding: Finding) -> None:
    apply_answer(archive, declared(), finding.finding_id, "keep", TIMED_OUT, "no answer within a week")
    assert archive.finding(finding.finding_id).state == "open"
    assert archive.audit(finding.finding_id)[-1].who == TIMED_OUT
    apply_answer(archive, declared(), finding.finding_id, "accept", "ada", "late, but yes")
    before = len(archive.audit())
    apply_answer(archive, declared(), finding.finding_id, "keep", TIMED_OUT, "no answer within a week")
    assert len(archive.audit()) == before, "what was decided elsewhere meanwhile is not answered by silence"


def test_rerun_names_the_benchmark_and_a_fresh_node_only_where_there_are_several(archive: Archive, finding: Finding) -> None:
    known = declared()
    workload = known.workloads["gpt-tiny-cpu"]

    def on(provider: str) -> Finding:
        key = f"training/gpt-tiny-cpu@{workload.version}/h1/torch/{provider}/here/host"
        return replace(finding, finding_id=f"{len(provider):012x}", provider=provider, series_key=key, series=(key,), standing=(key,))

    from plumbline.workflows.findings import finding_record

    cluster = cluster_provider()
    both = replace(known, providers={**known.providers, cluster.name: cluster})
    archive.save_findings([finding_record(on("local-1core")), finding_record(on(cluster.name)), finding_record(on("gone"))])
    here = apply_answer(archive, both, on("local-1core").finding_id, "rerun", "ada", "was it the node?").rerun
    assert here is not None and here.dag_id == "benchmark_local_1core"
    assert archive.finding(on("local-1core").finding_id).state == "open", "nothing is decided: the rerun's review asks again"
    assert archive.audit(on("local-1core").finding_id)[-1].what == "rerun_asked"
    assert (here.conf["workloads"], here.conf["kinds"], "placement" in here.conf) == (["gpt-tiny-cpu"], ["training"], False)
    there = apply_answer(archive, both, on(cluster.name).finding_id, "rerun", "ada", "was it the node?").rerun
    assert there is not None and there.conf["placement"] == "fresh_node"
    assert json.dumps(there.conf) and "confirm finding" in there.conf["reason"]
    with pytest.raises(ValueError, match=r"^gone "):
        apply_answer(archive, both, on("gone").finding_id, "rerun", "ada", "x")


def test_an_answer_needs_a_name_and_a_reason(archive: Archive, finding: Finding) -> None:
    with pytest.raises(ValueError, match="why is empty"):
        apply_answer(archive, declared(), finding.finding_id, "keep", "ada", " ")
    with pytest.raises(LookupError):
        apply_answer(archive, declared(), "0" * 12, "keep", "ada", "x")


def test_what_no_campaign_showed_yet_can_be_accepted_and_measured(archive: Archive) -> None:
    from plumbline.workflows.findings import finding_record

    noticed = replace(NOTICED, provider="local-1core")
    archive.save_findings([finding_record(noticed)])
    again = apply_answer(archive, declared(), noticed.finding_id, "rerun", "ada", "what does it do?").rerun
    assert again is not None and again.conf["workloads"] == ["chat-tiny-cpu", "gpt-tiny-cpu"], "nobody knows yet which of them it concerns"
    assert apply_answer(archive, declared(), noticed.finding_id, "accept", "ada", "announced").baselines == {}
    assert archive.finding(noticed.finding_id).state == "accepted"
