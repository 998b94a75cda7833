"""What a look at a provider means: exact, once, and nothing of what comes and goes with nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from tests.golden import Golden
from tests.unit.findings.conftest import written

from plumbline.declarations.thresholds import EnvironmentRules
from plumbline.findings.environment_check import (
    AcceptedFacts,
    EnvironmentReconciliation,
    change_rows,
    count_values,
    format_counts,
    merge_facts,
    reconcile_environment,
    uniform_facts,
)
from plumbline.findings.types.failing_check import check_failing_finding
from plumbline.results.finding import Finding
from plumbline.results.sample import Facts

DAY, NEXT = date(2026, 11, 21), date(2026, 11, 22)
OLD = {"driver.version": "550.90.07", "gpu.product": "H100", "os.kernel": "6.8", "kubernetes.version": "v1.31.0"}
NEW = {**OLD, "driver.version": "570.86.15"}
ACCEPTED = AcceptedFacts({name: [value] for name, value in OLD.items()}, "the environment check of 2026-11-01")


def looked(nodes: Sequence[Facts], open_findings: Sequence[Finding] = (), day: date = DAY, **fields: Any) -> EnvironmentReconciliation:
    return reconcile_environment(
        "lab", fields.pop("accepted", ACCEPTED), nodes, open_findings, day, rerun="benchmark_lab measures again", **fields
    )


def opened(nodes: Sequence[Facts], **fields: Any) -> Finding:
    return looked(nodes, **fields).opened[0]


def test_a_driver_that_nobody_knew_is_a_finding_of_the_provider_and_of_the_day(golden: Golden) -> None:
    found = opened([NEW, NEW, OLD])
    golden("findings.environment_check", written(found))
    assert (found.kind, found.severity, found.campaign_id, found.since, found.series) == ("environment", "warn", None, "2026-11-21", ())
    (member,) = found.members
    assert (member.name, found.attributed_to) == ("driver.version", ("driver.version",)) and "2 of 3" in member.fact
    assert opened([NEW], simulated=True).simulated


def test_nothing_changed_if_nodes_come_and_go_or_tell_less_or_what_does_not_matter() -> None:
    both = AcceptedFacts({**ACCEPTED.facts, "driver.version": ["550.90.07", "570.86.15"]}, "two pools")
    for nodes in ([OLD], [OLD] * 7, [NEW], [], [{"os.kernel": "6.8"}], [{**OLD, "nccl.version": "2.26"}]):
        assert looked(nodes, accepted=both) == EnvironmentReconciliation()
    listed = {**OLD, "kubernetes.version": "v1.32.0"}
    assert looked([listed]).opened == ()
    assert opened([listed], rules=EnvironmentRules(matters=("kubernetes.version",))).members[0].name == "kubernetes.version"
    assert looked([NEW], rules=EnvironmentRules(ignored=("driver.*",))).opened == ()


def test_it_is_told_once_however_often_one_looks_and_on_however_many_nodes() -> None:
    found = opened([NEW, OLD])
    for nodes in ([NEW, OLD], [NEW, NEW, NEW], [{**NEW, "driver.version": None}]):
        again = looked(nodes, [found], NEXT)
        assert again.findings == ()


def test_another_value_goes_on_with_the_finding_and_another_fact_is_one_of_its_own() -> None:
    found = opened([NEW])
    third = looked([{**NEW, "driver.version": "575.1"}], [found], NEXT)
    assert third.opened == () and "550.90.07 → 575.1" in third.continued[0].evidence
    assert third.continued[0].finding_id == found.finding_id and third.continued[0].since == "2026-11-21"
    kernel = looked([{**NEW, "os.kernel": "6.11"}], [found], NEXT)
    assert kernel.opened and [m.name for m in kernel.opened[0].members] == ["os.kernel"] and kernel.continued == ()


def test_a_second_change_on_the_same_day_joins_the_first_and_after_that_was_settled_it_is_another() -> None:
    found = opened([NEW])
    both = {**NEW, "os.kernel": "6.11"}
    joined = looked([both], [found])
    assert joined.opened == () and [m.name for m in joined.continued[0].members] == ["driver.version", "os.kernel"]
    assert "6.8 → 6.11" in joined.continued[0].evidence
    later = opened([both], settled={found.finding_id})
    assert later.finding_id != found.finding_id and opened([both], settled={found.finding_id}) == later


def test_it_is_over_when_all_of_it_is_back_and_smaller_when_some_is() -> None:
    found = opened([{**NEW, "os.kernel": "6.11"}])
    partly = looked([{**OLD, "os.kernel": "6.11"}], [found], NEXT)
    assert [m.name for m in partly.continued[0].members] == ["os.kernel"] and "driver" not in partly.continued[0].evidence
    ((over, why),) = looked([OLD], [found], NEXT).resolved
    assert over.finding_id == found.finding_id and "2026-11-22" in why
    assert looked([{"gpu.product": "H100"}], [found], NEXT).resolved == (), "what a look does not see is not back"
    assert looked([], [found], NEXT).resolved == ()


def test_what_a_campaign_showed_first_is_not_told_again_and_only_a_campaign_takes_it_back() -> None:
    reviewed = replace(opened([NEW]), finding_id="r" * 12, campaign_id="2026-11", since=None)
    for nodes in ([NEW], [OLD]):
        again = looked(nodes, [reviewed])
        assert again.findings == ()
    product = {**OLD, "gpu.product": "H200"}
    device = replace(reviewed, members=(replace(reviewed.members[0], name="gpu.*.product"),))
    assert looked([product], [device]).opened == () and looked([product], [reviewed]).opened != ()


def test_eight_devices_that_changed_alike_are_one_change() -> None:
    before = {f"gpu.{i}.product": "H100" for i in range(8)}
    after = dict.fromkeys(before, "H200")
    (change,) = looked([after], accepted=AcceptedFacts({k: [v] for k, v in before.items()}, "then")).changes
    assert (change.old, change.new) == (("H100",), ("H200",)) and "(all 8)" in change.text
    assert change_rows([change]) == [{"fact": "gpu.product", "old": "H100", "new": "H200"}]


def test_news_are_the_same_however_many_nodes_show_them() -> None:
    few, many = (change_rows(looked(nodes).changes) for nodes in ([NEW, OLD, OLD], [NEW, NEW, OLD]))
    assert few == many == [{"fact": "driver.version", "old": "550.90.07", "new": "570.86.15"}]


def test_nodes_in_words() -> None:
    nodes = [NEW, OLD, OLD]
    assert format_counts(count_values(nodes)["driver.version"]) == "2×550.90.07, 1×570.86.15"
    assert format_counts(count_values(nodes)["os.kernel"]) == "6.8"
    assert merge_facts(nodes)["driver.version"] == ["550.90.07", "570.86.15"] and merge_facts(nodes)["os.kernel"] == "6.8"
    assert merge_facts([*nodes, OLD]) == merge_facts(nodes), "one more node is no other environment"
    assert "driver.version" not in uniform_facts(nodes) and uniform_facts(nodes)["os.kernel"] == "6.8"


def test_that_nobody_could_look_is_one_finding_however_long_it_lasts(golden: Golden) -> None:
    found = check_failing_finding("lab", DAY, "the cluster of connection k8s_a gave no usable answer")
    assert found.kind == "missing_data"
    golden("findings.environment_check_failing", written(found))
    assert found.finding_id == check_failing_finding("lab", DAY, "another reason").finding_id
