"""What a person reads before deciding about a finding."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from tests.fakes.trials import cluster_provider, declared
from tests.golden import Golden
from tests.unit.results.test_finding import NOTICED

from plumbline.findings.headline import headline
from plumbline.results.finding import Finding, Member
from plumbline.workflows.baseline_decision import build_question
from plumbline.workflows.plan import ACCEPT, RERUN

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
        evidence=f"PAGE  {provider} · training {WORKLOAD} · step_time +8.1 %, since campaign 2026-11, 6 of 6 repeats",
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


def test_it_says_what_happened_why_what_each_answer_does_and_what_silence_does(golden: Golden) -> None:
    question = build_question(finding(), declared(), BY)
    assert question.subject == f"PAGE  {headline(finding())}"
    # Underscores are escaped: Markdown would set what lies between two of them in italics.
    golden("workflows.question", question.body)


def test_a_rerun_promises_a_fresh_node_only_where_there_is_one() -> None:
    cluster = cluster_provider()
    both = replace(declared(), providers={**declared().providers, cluster.name: cluster})

    def rerun(provider: str) -> str:
        return next(line for line in build_question(finding(provider), both, BY).body.splitlines() if line.startswith(f"- **{RERUN}**"))

    assert WORKLOAD in rerun("local-1core") and "same place" in rerun("local-1core")
    assert "on nodes" in rerun(cluster.name) and "same place" not in rerun(cluster.name)
    assert "not possible: gone" in rerun("gone")


def test_a_group_names_the_series_of_each_member_and_is_cut() -> None:
    one = finding()
    other = one.series_key.replace("training", "inference")
    many = tuple(Member(f"m{i}", f"m{i} +9 %", series_key=other) for i in range(12))
    body = build_question(replace(one, members=many, series=(one.series_key, other), standing=(one.series_key, other)), declared(), BY).body
    shown = [line for line in body.splitlines() if line.startswith("- m")]
    assert len(shown) == 10 and all(f"(inference {WORKLOAD})" in line for line in shown)
    assert "2 more" in body and "2 series" in body


def test_a_finding_that_went_on_is_accepted_as_its_newest_campaign_shows_it() -> None:
    body = build_question(replace(finding(), seen_in=("2026-12",)), declared(), BY).body
    assert "(2026-12)" in next(line for line in body.splitlines() if line.startswith(f"- **{ACCEPT}**"))


def test_before_any_campaign_showed_it_accepting_means_what_is_seen_from_now_on(golden: Golden) -> None:
    golden("workflows.question_without_campaign", build_question(replace(NOTICED, provider="local-1core"), declared(), BY).body)
