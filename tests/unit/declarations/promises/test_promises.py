"""Every promise: a page lists it, enough evidence breaks it with the credit that the contract grants, and a claim names it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from plumbline.analysis.availability import AvailabilityHistory, availability, find_outages
from plumbline.declarations.promises import PROMISES, JudgedPromise, promisable
from plumbline.declarations.promises.judging.evidence import PromiseEvidence
from plumbline.declarations.promises.judging.promise import SOURCES
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.pooling import pool_measurements
from plumbline.presentation.promises import declared_promises, total_credit
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.operations import LogEntryView

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FLOORS = {"gpt-tiny-cpu": "tokens_per_second >= 700tokens/s in steady"}
DECLARED: dict[str, tuple[object, str]] = {
    "launch_success": ("99%", "launch success 99 %"),
    "provisioning_lead_time": ("15min", "lead time 15.0 min"),
    "availability": ("99.9%", "availability 99.9 %"),
    "capacity": ("95%", "capacity 95 %"),
    "time_to_recover": ("2h", "time to recover 2.00 h"),
    "support_response": ("2h", "support response 2.00 h"),
    "quota_response": ("2h", "quota response 2.00 h"),
    "speed_floors": (FLOORS, "speed of gpt-tiny-cpu"),
}
"""By promise what is declared, and how a page lists it."""


def sla(*names: str, **more: object) -> ServiceLevel:
    return ServiceLevel.model_validate_json(json.dumps({**{name: DECLARED[name][0] for name in names}, "credit": "5%", **more}))


def noted(kind: str, day: int) -> LogEntryView:
    at, of = NOW - day * DAY, {"what": "noted", "whose": "provider", "revision": 1, "recorded_at": NOW, "recorded_by": "ada"}
    return LogEntryView("p", kind, opened=at, answered=None, solved=at + 9 * HOUR, entry_id=f"{kind}-{day}", **of)  # type: ignore[arg-type]


def bad() -> PromiseEvidence:
    """Of a provider that keeps nothing."""
    asked = [AvailabilityCheck("p", "capacity", NOW - (60 - n) * HOUR, "insufficient_capacity") for n in range(60)]
    lost = find_outages(asked, 3600)
    month = availability(NOW, asked, lost, 3600, NOW)
    return PromiseEvidence(
        NOW,
        {None: 10, "insufficient_capacity": 30},
        pool_measurements("provisioning_lead_time", [(f"t{n}", 7200.0) for n in range(20)], ""),
        lambda workload, criterion: [(f"t{n}", 100.0) for n in range(20)],
        [noted(kind, day) for kind in ("incident", "ticket", "quota") for day in range(1, 8)],
        capacity=AvailabilityHistory("capacity", (month,), lost, ()),
    )


def judged(terms: ServiceLevel, seen: PromiseEvidence) -> list[JudgedPromise]:
    return [each for one in PROMISES for each in one.judge(terms, seen) if each.row.verdict != "not_promised"]


@pytest.mark.parametrize("name", DECLARED)
def test_a_promise_is_listed_and_named(name: str) -> None:
    assert declared_promises(sla(name)) == [DECLARED[name][1]]
    (promise,) = [one for one in PROMISES if one.id == name]
    assert promise.noun in promisable() and declared_promises(ServiceLevel()) == []


def test_every_promise_is_tried() -> None:
    assert list(DECLARED) == [one.id for one in PROMISES]
    assert declared_promises(sla(*DECLARED)) == [text for _, text in DECLARED.values()], "in the order of the registry"


@pytest.mark.parametrize("name", DECLARED)
def test_a_breach_grants_the_credit_of_its_promise(name: str) -> None:
    tiers = [{"below": "99.9%", "credit": "10%"}, {"below": "99%", "credit": "25%"}]
    broken = [each for each in judged(sla(name, credits=tiers if name == "availability" else []), bad()) if each.broken]
    assert broken and {each.promise.id for each in broken} == {name}
    for each in broken:
        monthly = name == "availability"
        assert (each.month is not None, each.grants) == (monthly, 0.25 if monthly else 0.05)
        assert each.credited(None).row.credit == f"{25 if monthly else 5} % of the month's bill"
        assert each.row.promised and each.row.sentence.count("promised") == 1 and each.source in SOURCES


def test_what_is_not_broken_or_grants_nothing_earns_no_credit() -> None:
    nothing = PromiseEvidence(NOW, {}, pool_measurements("provisioning_lead_time", [], "no launch was observed"))
    assert all(each.row.verdict == "not_shown" and each.credited(None) == each for each in judged(sla(*DECLARED), nothing))
    without = ServiceLevel.model_validate_json('{"launch_success": "99%"}')
    (each,) = judged(without, bad())
    assert each.broken and each.credited(None).row.credit == ""


class Dollars:
    def __init__(self, amount: float) -> None:
        self.amount = amount


def test_one_credit_counts_for_all_promises_but_those_of_a_month() -> None:
    terms = sla("launch_success", "capacity", "availability", credits=[{"below": "99.9%", "credit": "10%"}])
    broken: list[Any] = [each for each in judged(terms, bad()) if each.broken]
    assert {each.source for each in broken} == {"launches", "checks", "months"}
    assert total_credit([each.credited(Dollars(10.0)) for each in broken]) == 20.0
    assert total_credit([each.credited(None) for each in broken]) is None
