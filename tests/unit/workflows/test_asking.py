"""What a person reads before deciding about a finding."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from tests.fakes.trials import cluster_provider, declared
from tests.unit.results.test_finding import NOTICED

from plumbline.results.finding import Finding, Member
from plumbline.workflows.baseline_decision import build_question

WORKLOAD = "gpt-tiny-cpu"
BY = datetime(2026, 11, 28, 3, 5, tzinfo=timezone.utc)


def finding(provider: str = "local-1core") -> Finding:
    key = f"training/{WORKLOAD}@{declared().workloads[WORKLOAD].version}/h1/torch/{provider}/here/host"
    return Finding(
        finding_id="0123456789ab",
        series_key=key,
        campaign_id="2026-11",
        kind="performance",
        severity="page",
        headline=f"PAGE  {provider} · training {WORKLOAD} · step_time +8.1 %, since campaign 2026-11, 6 of 6 repeats",
        explanation="explained by: driver 550 → 570; matmul_tflops −9.1 % agrees",
        provider=provider,
        workload_kind="training",
        workload=WORKLOAD,
        subject="performance",
        members=(Member("step_time", "step_time +8.1 %", series_key=key), Member("tokens", "tokens_per_second −7.5 %", series_key=key)),
        baseline_campaigns=("2026-09", "2026-10"),
        series=(key,),
        standing=(key,),
    )


def test_it_says_what_happened_why_what_each_answer_does_and_what_silence_does() -> None:
    asked = build_question(finding(), declared(), BY)
    assert asked.subject == finding().headline
    assert asked.body.startswith("Explained by: driver 550 → 570; matmul\\_tflops −9.1 % agrees."), (
        "Markdown would set what lies between two _ in italics"
    )
    assert "- step\\_time +8.1 %\n- tokens\\_per\\_second −7.5 %" in asked.body
    assert "the series is held against its newest campaign that shows it (2026-11)" in asked.body
    assert "the baseline stays as it is (2026-09, 2026-10)" in asked.body
    assert "Without an answer by 2026-11-28 03:05 UTC the old baseline is kept" in asked.body
    assert "- `plumbline compare 2026-10 2026-11 --provider local-1core`" in asked.body


def test_a_rerun_promises_a_fresh_node_only_where_there_is_one() -> None:
    cluster = cluster_provider()
    both = replace(declared(), providers={**declared().providers, cluster.name: cluster})
    assert "benchmark\\_local\\_1core measures gpt-tiny-cpu again, in the same place" in build_question(finding(), both, BY).body
    assert "again, on nodes that it was not on lately" in build_question(finding(cluster.name), both, BY).body
    assert "cannot be done: gone is not an enabled provider" in build_question(finding("gone"), both, BY).body


def test_a_group_names_the_series_of_each_member_and_is_cut() -> None:
    one = finding()
    other = one.series_key.replace("training", "inference")
    many = tuple(Member(f"m{i}", f"m{i} +9 %", series_key=other) for i in range(12))
    body = build_question(replace(one, members=many, series=(one.series_key, other), standing=(one.series_key, other)), declared(), BY).body
    assert f"- m0 +9 % (inference {WORKLOAD})" in body
    assert "- … and 2 more" in body and "m10" not in body
    assert "each of the 2 series is held against its newest campaign" in body


def test_a_finding_that_went_on_is_accepted_as_its_newest_campaign_shows_it() -> None:
    assert "newest campaign that shows it (2026-12)" in build_question(replace(finding(), seen_in=("2026-12",)), declared(), BY).body


def test_before_any_campaign_showed_it_accepting_means_what_is_seen_from_now_on() -> None:
    asked = build_question(replace(NOTICED, provider="local-1core"), declared(), BY)
    assert "What is seen of the provider from now on is held against it" in asked.body
    assert "the baseline stays as it is (none was measured yet)" in asked.body and "plumbline compare" not in asked.body
