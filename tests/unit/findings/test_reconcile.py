"""What a campaign means for the findings that stand: one drift stays one finding, and ends when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from plumbline.analysis.drift.compare import compare
from plumbline.analysis.drift.comparison import Comparison
from plumbline.findings import Reconciliation
from plumbline.findings.campaign import findings_of
from plumbline.findings.headline import headline
from plumbline.findings.reconcile import reconcile
from plumbline.results.finding import Finding, Member

TRAINING = "training/gpt@1/h1/torch/local-2core/here/host-2core"
SERVING = "inference/chat@1/h1/triton/local-2core/here/host-2core"
LEADS = {TRAINING: "step_time", SERVING: "time_to_first_token"}
FIVE = [1.000, 1.004, 0.997, 1.002, 0.999]
FACTS = {"driver.version": "550", "os.kernel": "6.8"}
Reviewed = Callable[..., tuple[Reconciliation, list[Comparison]]]


@pytest.fixture
def reviewed(sample: Any, rules: Any, limits: Any) -> Reviewed:
    """reviewed(campaign, {series: factor}, open_findings, facts, repeats=…, newest=…): the course of a campaign against one baseline."""

    def run(
        campaign: str,
        factors: dict[str, float],
        open_findings: tuple[Finding, ...] = (),
        facts: dict[str, str] = FACTS,
        *,
        repeats: int = 5,
        newest: bool = True,
    ) -> tuple[Reconciliation, list[Comparison]]:
        compared = []
        for key, factor in factors.items():
            baseline = sample("2026-01", {LEADS[key]: FIVE[:repeats]}, key=key, environments=(FACTS,))
            candidate = sample(campaign, {LEADS[key]: [factor * v for v in FIVE[:repeats]]}, key=key, environments=(facts,))
            compared.append(compare([baseline], candidate, rules=rules, limits=limits))
        found = [f for c in compared for f in findings_of(c)]
        return reconcile(found, open_findings, compared, set(factors) if newest else set()), compared

    return run


def test_what_moved_in_both_directions_by_one_cause_stays_one_finding(reviewed: Reviewed) -> None:
    moved = {TRAINING: 1.3, SERVING: 0.6}
    (opened,) = reviewed("2026-02", moved)[0].opened
    assert (opened.direction_of(TRAINING), opened.direction_of(SERVING)) == ("regressed", "improved")
    again, _ = reviewed("2026-03", moved, (opened,))
    assert (again.opened, again.resolved) == ((), ())
    (on,) = again.continued
    assert (on.finding_id, on.campaign_id, on.seen_in) == (opened.finding_id, "2026-02", ("2026-03",))
    assert set(on.standing) == {TRAINING, SERVING}


def test_it_ends_with_the_last_series_that_recovers(reviewed: Reviewed) -> None:
    (opened,) = reviewed("2026-02", {TRAINING: 1.3, SERVING: 0.6})[0].opened
    (partly,) = reviewed("2026-03", {TRAINING: 1.0, SERVING: 0.6}, (opened,))[0].continued
    assert partly.standing == (SERVING,)
    ((over, why),) = reviewed("2026-04", {TRAINING: 1.0, SERVING: 1.0}, (partly,))[0].resolved
    assert over.finding_id == opened.finding_id
    assert "2026-04" in why and "2 series" in why


def test_the_other_direction_is_a_finding_of_its_own_and_the_old_one_is_over(reviewed: Reviewed) -> None:
    (opened,) = reviewed("2026-02", {TRAINING: 1.3})[0].opened
    went, _ = reviewed("2026-03", {TRAINING: 0.7}, (opened,))
    assert [f.campaign_id for f in went.opened] == ["2026-03"]
    assert [f.finding_id for f, _ in went.resolved] == [opened.finding_id]


def test_a_doubt_is_no_recovery(reviewed: Reviewed) -> None:
    (opened,) = reviewed("2026-02", {TRAINING: 1.3})[0].opened
    went, (compared,) = reviewed("2026-03", {TRAINING: 1.1}, (opened,), repeats=2)
    assert compared.verdict == "suspected"
    assert went == Reconciliation()


def test_an_old_campaign_that_is_reviewed_by_hand_ends_nothing_and_continues_nothing(reviewed: Reviewed) -> None:
    (opened,) = reviewed("2026-02", {TRAINING: 1.3})[0].opened
    for factor in (1.0, 1.3):
        assert reviewed("2026-03", {TRAINING: factor}, (opened,), newest=False)[0] == Reconciliation()
    (same,) = reviewed("2026-02", {TRAINING: 1.3}, (opened,), newest=False)[0].continued
    assert same == opened, "its own first campaign, again, changes nothing"


def test_another_fact_that_changes_later_is_news_and_the_first_goes_on(reviewed: Reviewed) -> None:
    driver = {**FACTS, "driver.version": "570"}
    (opened,) = reviewed("2026-02", {TRAINING: 1.0}, facts=driver)[0].opened
    went, _ = reviewed("2026-03", {TRAINING: 1.0}, (opened,), {**driver, "os.kernel": "6.11"})
    ((on,), (new,)) = went.continued, went.opened
    assert (on.finding_id, [m.name for m in on.members]) == (opened.finding_id, ["driver.version"])
    assert (new.campaign_id, [m.name for m in new.members]) == ("2026-03", ["os.kernel"])
    assert "6.8 → 6.11" in new.evidence and "driver" not in new.evidence
    back, _ = reviewed("2026-04", {TRAINING: 1.0}, (on, new), {**FACTS, "os.kernel": "6.11"})
    assert [f.finding_id for f, _ in back.resolved] == [opened.finding_id]


def noticed(**changes: Any) -> Finding:
    """What the watch found between two campaigns: a driver, and a Kubernetes that no trial looks at."""
    members = (Member("driver.version", "driver and firmware: driver 550 → 570"), Member("kubernetes.version", "kubernetes: v1.31 → v1.32"))
    made = Finding(
        finding_id="0123456789ab",
        series_key="",
        campaign_id=None,
        kind="environment",
        severity="warn",
        evidence="WARN  local-2core · environment changed: driver 550 → 570, since 2026-02-10",
        explanation="a rerun was started",
        provider="local-2core",
        workload_kind="",
        workload="",
        subject="environment",
        members=members,
        attributed_to=tuple(m.name for m in members),
        since="2026-02-10",
    )
    return replace(made, **changes)


def test_what_was_noticed_between_two_campaigns_is_the_finding_that_the_next_one_continues(reviewed: Reviewed) -> None:
    driver = {**FACTS, "driver.version": "570"}
    went, _ = reviewed("od-1", {TRAINING: 1.3}, (noticed(),), driver)
    (on,) = went.continued
    assert [f.kind for f in went.opened] == ["performance"], "the driver has its finding already"
    assert (on.finding_id, on.campaign_id, on.since, on.seen_in) == ("0123456789ab", None, "2026-02-10", ("od-1",))
    assert (on.series, on.standing, on.baseline_campaigns) == ((TRAINING,), (TRAINING,), ("2026-01",))
    assert "since 10 February 2026" in headline(on) and "performance changed too" in on.explanation
    assert [m.name for m in on.members] == ["driver.version", "kubernetes.version"], "what a trial does not see is not taken back"
    more, _ = reviewed("2026-03", {TRAINING: 1.3, SERVING: 1.0}, (on,), driver)
    assert [f.kind for f in more.opened] == ["performance"] and set(more.continued[0].series) == {TRAINING, SERVING}
    back, _ = reviewed("2026-04", {TRAINING: 1.0, SERVING: 1.0}, more.continued)
    assert [f.finding_id for f, _ in back.resolved] == ["0123456789ab"]


def test_another_fact_is_news_beside_what_was_noticed(reviewed: Reviewed) -> None:
    went, _ = reviewed("od-1", {TRAINING: 1.0}, (noticed(),), {**FACTS, "os.kernel": "6.11"})
    ((new,), on) = went.opened, went.continued
    assert ([m.name for m in new.members], new.campaign_id, on) == (["os.kernel"], "od-1", ())


def test_a_fact_of_a_device_is_the_one_that_a_label_of_its_node_tells(reviewed: Reviewed) -> None:
    product = noticed(members=(Member("gpu.product", "hardware: GPU H100 → H200"),), attributed_to=("gpu.product",))
    went, _ = reviewed("od-1", {TRAINING: 1.0}, (product,), {**FACTS, "gpu.0.product": "H200", "gpu.1.product": "H200"})
    assert went.opened == () and [m.name for m in went.continued[0].members] == ["gpu.*.product"]
