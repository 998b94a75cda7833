from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.golden import Golden
from tests.unit.findings.conftest import written

from plumbline.analysis.drift.compare import compare
from plumbline.findings.campaign import findings_of
from plumbline.findings.headline import headline
from plumbline.results.finding import Finding

FIVE = [1.000, 1.004, 0.997, 1.002, 0.999]
FACTS = {"cpu.usable": 2, "os.name": "Debian"}


def times(factor: float) -> list[float]:
    return [factor * v for v in FIVE]


@pytest.fixture
def review(sample: Any, rules: Any, limits: Any) -> Any:
    """review(new metrics, new facts, **candidate fields): findings against a steady baseline of the same metrics."""

    def run(
        metrics: dict[Any, list[float]], facts: dict[str, Any] = FACTS, base: dict[Any, list[float]] | None = None, **fields: Any
    ) -> Any:
        baseline = sample(
            "2026-10", base or dict.fromkeys(metrics, FIVE), environments=(FACTS,) * 5, simulated=fields.get("simulated", False)
        )
        candidate = sample("2026-11", metrics, environments=(facts,) * 5, **fields)
        return findings_of(compare([baseline], candidate, rules=rules, limits=limits))

    return run


def test_nothing_moved_no_finding(review: Any) -> None:
    assert review({"step_time": FIVE}) == ()


def test_one_grouped_finding_that_reads_like_a_sentence(review: Any, golden: Golden) -> None:
    performance, environment = review(
        {"step_time": times(1.91), "tokens_per_second": times(1 / 1.91), "samples_per_second": times(1 / 1.91)}, {**FACTS, "cpu.usable": 1}
    )
    (interval,) = re.findall(r"\+\d\d … \+\d\d", performance.evidence)
    golden("findings.performance", written(performance), interval=interval)
    assert [m.name for m in performance.members] == ["step_time", "tokens_per_second", "samples_per_second"]
    assert (performance.metric, performance.attributed_to, performance.state) == ("step_time", ("cpu.usable",), "open")
    assert (environment.kind, environment.severity) == ("environment", "warn") and "performance changed too" in environment.explanation


def test_the_environment_is_a_finding_also_when_performance_did_not_move(review: Any) -> None:
    (found,) = review({"step_time": FIVE}, {**FACTS, "cpu.usable": 1})
    assert found.kind == "environment" and re.search(r"step_time.*\+0\.0 %", found.explanation)


def test_a_move_below_the_threshold_is_given_beside_it(review: Any) -> None:
    (found,) = review({"step_time": times(1.01)}, {**FACTS, "cpu.usable": 1})
    assert re.search(r"step_time.*\+1\.0 %.*\d+ % threshold", found.explanation)


def test_a_fact_that_does_not_matter_is_no_finding(review: Any) -> None:
    assert review({"step_time": FIVE}, {**FACTS, "os.name": "Ubuntu"}) == ()


@pytest.mark.parametrize(("factor", "severity"), [(1.03, "warn"), (1.20, "page"), (0.97, "info"), (0.80, "warn")])
def test_severity_follows_the_thresholds_and_improvements_never_page(review: Any, factor: float, severity: str) -> None:
    (found,) = review({"step_time": times(factor)})
    assert found.severity == severity and severity.upper() not in headline(found)


def test_p99_never_pages_alone(review: Any) -> None:
    (found,) = review({"time_to_first_token": FIVE, ("time_to_first_token", "p99", "steady"): times(3)})
    assert (found.severity, found.metric, found.effect) == ("warn", "time_to_first_token", pytest.approx(2.0))
    assert found.members[0].name.startswith("p99")


def test_a_worse_metric_leads_even_if_another_improved_more(review: Any) -> None:
    (found,) = review({"step_time": times(0.5), "tokens_per_second": times(0.5)})
    assert found.metric == "tokens_per_second" and found.severity == "page"


def test_failed_attempts_are_a_finding_by_class(review: Any, outcomes: Any) -> None:
    (found,) = review(
        {"step_time": FIVE}, outcomes=outcomes("valid", "failed:timeout", "failed:timeout", "failed:out_of_memory"), planned=4
    )
    assert (found.kind, found.severity, found.attributed_to) == ("reliability", "warn", ("timeout", "out_of_memory"))
    assert [m.text for m in found.members] == ["timeout × 2", "out_of_memory × 1"] and "3 of 4" in found.title


def test_failures_that_are_not_the_providers_are_said_to_be_so(review: Any, outcomes: Any) -> None:
    ran = outcomes("valid", "failed:insufficient_capacity", "failed:bad_declaration", "failed:image_error", "failed:unreachable")
    (found,) = review({"step_time": FIVE}, outcomes=ran, planned=5)
    assert found.explanation.endswith("; of these 2 by our own fault, 1 for a cause that is not proven to be the provider's")
    (found,) = review({"step_time": FIVE}, outcomes=outcomes("valid", "failed:insufficient_capacity"), planned=2)
    assert "of these" not in found.explanation


def test_nothing_succeeded_pages_though_there_is_nothing_to_compare(sample: Any, rules: Any, limits: Any, outcomes: Any) -> None:
    dead = sample("2026-11", {}, outcomes=outcomes("failed:unreachable", "failed:unreachable"), planned=2)
    (found,) = findings_of(compare([sample("2026-10", {"step_time": FIVE})], dead, rules=rules, limits=limits))
    assert (found.kind, found.severity) == ("reliability", "page")


def test_planned_trials_that_left_nothing_are_missing_data(review: Any, outcomes: Any) -> None:
    (found,) = review({"step_time": FIVE}, outcomes=outcomes("valid", "valid"), planned=5)
    assert (found.kind, found.severity) == ("missing_data", "warn") and "3 of 5" in found.evidence


def test_a_provider_that_fell_silent_pages(sample: Any, rules: Any, limits: Any) -> None:
    (found,) = findings_of(compare([sample("2026-10", {"step_time": FIVE})], sample("2026-11", {}, planned=4), rules=rules, limits=limits))
    assert (found.kind, found.severity) == ("missing_data", "page")


def test_all_went_well_is_no_reliability_finding(review: Any, outcomes: Any) -> None:
    assert review({"step_time": FIVE}, outcomes=outcomes("valid", "degraded"), planned=2) == ()


def test_new_errors_of_a_gpu_are_a_reliability_finding_of_their_own(review: Any, outcomes: Any) -> None:
    ran = outcomes("valid", "degraded!gpu_xid!gpu_lost", "degraded!gpu_xid!throttled", "failed:harness_error!gpu_lost")
    failed, found = review({"step_time": FIVE}, outcomes=ran, planned=4)
    assert failed.subject == "launches"
    assert (found.kind, found.subject, found.severity) == ("reliability", "gpu_errors", "warn")
    assert [(member.name, member.text) for member in found.members] == [("gpu_xid", "gpu_xid × 2"), ("gpu_lost", "gpu_lost × 2")]
    assert found.attributed_to == ("gpu_xid", "gpu_lost")
    assert "3 of 4" in found.title


def test_errors_that_the_hardware_corrected_are_information(review: Any, outcomes: Any) -> None:
    (found,) = review({"step_time": FIVE}, outcomes=outcomes("valid", "degraded!gpu_ecc_corrected"), planned=2)
    assert (found.subject, found.severity) == ("gpu_errors", "info")


def test_other_reasons_to_be_degraded_are_no_gpu_error(review: Any, outcomes: Any) -> None:
    assert review({"step_time": FIVE}, outcomes=outcomes("valid", "degraded!contended_cpu"), planned=2) == ()


def test_simulated_says_so(review: Any) -> None:
    (found,) = review({"step_time": times(2)}, simulated=True)
    assert found.simulated and "SIMULATED" not in headline(found)


def test_ids_are_stable_and_differ_by_kind_and_campaign(review: Any) -> None:
    first = review({"step_time": times(2)}, {**FACTS, "cpu.usable": 1})
    again = review({"step_time": times(3)}, {**FACTS, "cpu.usable": 1})
    assert [f.finding_id for f in first] == [f.finding_id for f in again] and first[0].finding_id != first[1].finding_id


def test_a_finding_survives_json(review: Any) -> None:
    (found,) = review({"step_time": times(2)})
    assert Finding.of({**json.loads(json.dumps(found.to_dict())), "opened_at": "2026-11-01"}) == found
    with pytest.raises(LookupError, match="evidence"):
        Finding.of({"finding_id": "a", "series_key": "s", "campaign_id": "c", "kind": "price", "severity": "warn"})
