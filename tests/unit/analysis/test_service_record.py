"""Numbers of a provider that belong to no trial, in teams' decisions: weights, gates, certainty, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.data.decision_trials import preference, repeats

from plumbline.analysis.availability import AvailabilityHistory, AvailabilityMonth
from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision, decide_choice
from plumbline.analysis.decisions.decision_record import input_hashes
from plumbline.analysis.service_record import ServiceRecord, service_metrics, with_service
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyCriterion, Criterion, Preference
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.declarations.workloads.workload import Primary
from plumbline.metrics import own_metric
from plumbline.metrics.pooling import pool_measurements
from plumbline.metrics.proportions import wilson_interval
from plumbline.words.decisions import why_not_texts

NOVEMBER = datetime(2026, 11, 1, tzinfo=timezone.utc)
UPTIME = {"availability": {"worst": "99%", "best": "99.9%"}}


def record(answered: int, checks: int, *tickets: float, unknown: int = 0) -> ServiceRecord:
    """A check a second, and seconds of which nothing is known."""
    up, down = ((NOVEMBER, NOVEMBER + timedelta(seconds=answered)),), float(checks - answered)
    month = AvailabilityMonth(
        NOVEMBER, wilson_interval(answered, checks), float(checks + unknown), up, (), 0.0, down, down, unknown, {}, 0, ()
    )
    pooled = {
        kind: pool_measurements(f"{name}_response", [(str(i), t) for i, t in enumerate(times)], "none")
        for kind, name, times in (("ticket", "support", tickets), ("quota", "quota", ()))
    }
    return ServiceRecord((AvailabilityHistory("uptime", (month,), (), ()),), {}, pool_measurements("", [], "none"), pooled, {})  # type: ignore[arg-type]


def trials(names: str = "ab") -> tuple[TrialSample, ...]:
    """Providers that answer alike."""
    return tuple(t for name in names for t in repeats(name, *({"time_to_first_token": 0.2 + 0.001 * (i % 3)} for i in range(6))))


def decided(wanted: Preference, service: dict[str, ServiceRecord], names: str = "ab") -> TeamDecision:
    results = CurrentResults(trials(names), {}, {(n, "chat"): "2026-11" for n in names}, frozenset(), date(2026, 11, 20), service=service)
    return decide_choice("t", "inference", wanted, results)


def chance(wanted: Preference, service: dict[str, ServiceRecord], first: str = "a") -> float:
    (found,) = [r.probability_first for r in decided(wanted, service).decision.ranking if r.provider == first]
    assert found is not None
    return found


def test_availability_decides_as_sure_as_its_checks_are_many() -> None:
    weighed = preference({"time_to_first_token": 0.5, "availability": 0.5}, values=UPTIME)
    many, few = ({"a": record(999 * n, 1000 * n), "b": record(995 * n, 1000 * n)} for n in (40, 2))
    found = decided(weighed, many).decision
    assert found.first_name == "a" and [c.metric for c in found.columns] == ["time_to_first_token", "availability"]
    assert found.ranking[0].values[1] == 0.999 and found.ranking[1].values[1] == 0.995
    assert chance(weighed, many) > 0.97 > 0.7 > chance(weighed, few) > 0.5
    assert decided(weighed, {"a": many["b"], "b": many["a"]}).decision.first_name == "b"
    (_, swing) = decided(weighed, many).weight_swings
    assert swing.metric == "availability"


def test_a_gate_is_judged_on_the_value_and_drawn_from_its_interval() -> None:
    gated = preference({"time_to_first_token": 1.0}, "availability >= 99.5%")
    ranking = decided(gated, {"a": record(9960, 10_000), "b": record(9900, 10_000)}).decision.ranking
    assert [(r.provider, r.eligible) for r in ranking] == [("a", True), ("b", False)]
    sure, doubtful = ({"a": record(9990, 10_000), "b": record(n, 10_000)} for n in (9990, 9951))
    assert chance(gated, doubtful, "b") < 0.35 < chance(gated, sure, "b")


def test_what_is_unknown_passes_no_gate_and_the_ranking_says_so() -> None:
    gated = preference({"time_to_first_token": 1.0}, "availability >= 99%")
    service = {"a": record(9999, 10_000), "b": record(5000, 5000, unknown=5000), "c": record(9000, 10_000), "d": record(0, 0, unknown=9000)}
    why = {r.provider: why_not_texts(r) for r in decided(gated, service, "abcd").decision.ranking}
    assert why == {
        "a": (),
        "b": ('gate "availability >= 99%" on chat is not shown: at least 50.000 %, at most 100.000 %; the rest is unknown',),
        "c": ('gate "availability >= 99%" on chat is not met',),
        "d": ('gate "availability >= 99%" on chat is not shown: no check of its uptime counts (watch.uptime of the provider)',),
    }


def test_what_nothing_observed_is_missing_and_said_once() -> None:
    weighed = preference({"time_to_first_token": 0.5, "availability": 0.3, "support_response": 0.2})
    service = {"a": record(999, 1000, *range(60, 66)), "b": record(0, 0, 60.0, 61.0)}
    found = decided(weighed, service, "abc").decision
    assert [r.provider for r in found.eligible] == ["a"] and found.ranking[0].values[1:] == (0.999, 62.5)
    why = {r.provider: why_not_texts(r) for r in found.ranking}
    assert (
        why["b"]
        == why["c"]
        == (
            "availability is not known: no check of its uptime counts (watch.uptime of the provider)",
            "support_response is not known: an interval needs six answered tickets in the operations log",
        )
    )
    both = preference({"availability": 1.0}, workloads=("chat", "more"))
    more = (*trials(), *(replace(t, workload="more") for t in trials()))
    results = CurrentResults(more, {}, {}, frozenset(), date(2026, 11, 20))
    assert {len(r.why_not) for r in decide_choice("t", "inference", both, results).decision.ranking} == {1}


def test_a_preference_without_them_is_left_as_it_is() -> None:
    plain, service = preference({"time_to_first_token": 1.0}), {"a": record(999, 1000)}
    assert service_metrics(plain) == frozenset() and with_service(trials(), service, plain) == trials()
    assert input_hashes(decided(plain, service)) == input_hashes(decided(plain, {}))
    weighed = preference({"time_to_first_token": 0.5, "availability": 0.5})
    before, after = (input_hashes(decided(weighed, {"a": record(n, 1000), "b": record(999, 1000)})) for n in (999, 998))
    assert before.trials != after.trials and before.question == after.question, "a month's checks are another input"


@pytest.mark.parametrize("line", ["availability >= 99%", "availability within 1% of baseline in steady"])
def test_no_trial_is_judged_by_a_number_of_the_provider(line: str) -> None:
    with pytest.raises(ValidationError, match="of the provider, not of a trial; expected it in the weights or gates of a team"):
        TypeAdapter(AnyCriterion).validate_python(line)


def test_shapes_of_a_gate() -> None:
    assert Criterion.model_validate("availability >= 99.9%").phase == "steady"
    for wrong, expected in (("availability >= 99% in steady", "without a phase"), ("error_rate <= 1%", "METRIC <=")):
        with pytest.raises(ValidationError, match=expected):
            Criterion.model_validate(wrong)
    with pytest.raises(ValidationError, match="of the provider"):
        Primary.model_validate("availability")
    with pytest.raises(ValidationError, match="of the provider"):
        ServiceLevel.model_validate({"speed_floors": {"w": "availability >= 99%"}})
    with pytest.raises(ValueError, match="expected these, or another name"):
        own_metric("availability", "ratio", "higher_is_better")
