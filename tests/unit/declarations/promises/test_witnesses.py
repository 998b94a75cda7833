"""The operations log against checks: what contradicts is not counted, what is logged twice is one, and what an interval can never show is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.declarations.promises.test_operations_log import BEGIN, END, FIVE, HOUR, LATER, NOVEMBER, entry, month_of

from plumbline.analysis.availability import availability
from plumbline.declarations.promises import never_shown
from plumbline.declarations.promises.availability import MonthAvailability, availability_row, month_availability
from plumbline.declarations.promises.judging.evidence import PromiseEvidence
from plumbline.declarations.promises.judging.witnesses import contradicted_incidents, merge_overlapping
from plumbline.declarations.promises.support_response import SupportResponse
from plumbline.declarations.promises.time_to_recover import TimeToRecover
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.pooling import pool_measurements
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.operations import LogEntryView


def terms(**more: object) -> ServiceLevel:
    return ServiceLevel.model_validate_json(json.dumps(more))


def judged(missed: Callable[[int], str | None], *log: LogEntryView, confirmed: frozenset[str] = frozenset()) -> MonthAvailability:
    month = month_of(missed)
    down = [(o.began, o.ended or LATER) for o in month.outages if o.whose == "provider"]
    return month_availability(NOVEMBER, log, terms(availability="99.9%"), LATER, down, {BEGIN: month}, confirmed)


def test_a_month_that_the_log_has_as_down_and_every_check_saw_as_up_is_not_shown() -> None:
    whole = entry("incident", BEGIN, END)
    found = judged(lambda n: None, whole)
    row = availability_row(found)
    assert (row.verdict, found.judged.failures, found.evidence) == ("not_shown", 0, ())
    assert (
        "8,640 of 8,640 checks answered" in row.measured
        and "the operations log has 720 h of incidents, of which checks saw 720 h" in row.measured
    )
    assert whole.entry_id in row.needed
    decided = availability_row(judged(lambda n: None, whole, confirmed=frozenset({whole.entry_id})))
    assert (decided.verdict, decided.evidence) == ("broken", (whole.entry_id,))


def test_what_the_checks_found_themselves_counts_whatever_the_log_adds() -> None:
    found = judged(lambda n: "server_error" if 2592 <= n < 2616 else None, entry("incident", NOVEMBER - 22 * HOUR, NOVEMBER + 2 * HOUR))
    assert (found.judged.verdict, found.judged.failures, found.evidence) == ("broken", 7200, ())


@pytest.mark.parametrize(
    ("opened", "solved", "contradicts"),
    [
        (NOVEMBER + timedelta(minutes=1), NOVEMBER + timedelta(minutes=4), False),  # between two checks
        (NOVEMBER - timedelta(minutes=4), NOVEMBER + timedelta(minutes=4), False),  # one answered check inside
        (NOVEMBER, NOVEMBER + 2 * HOUR, True),
    ],
)
def test_an_incident_that_the_interval_may_miss_contradicts_nothing(opened: datetime, solved: datetime, contradicts: bool) -> None:
    found = contradicted_incidents([entry("incident", opened, solved)], [month_of(lambda n: None)], LATER)
    assert bool(found) == contradicts and all(one.up_s == 7200 - 600 for one in found)


def test_time_without_checks_and_maintenance_contradict_nothing() -> None:
    log = [entry("incident", NOVEMBER, NOVEMBER + 2 * HOUR)]
    unchecked = month_of(lambda n: None, range(-1, 12 * 24 * 9))  # no check from 10 November on
    assert contradicted_incidents(log, [unchecked], LATER) == ()
    assert contradicted_incidents([entry("maintenance", BEGIN, END)], [month_of(lambda n: None)], LATER) == ()
    assert contradicted_incidents([entry("incident", BEGIN, END, whose="us")], [month_of(lambda n: None)], LATER) == ()


def test_an_entry_that_half_of_a_month_contradicts_proves_nothing_of_the_other_half() -> None:
    month = month_of(lambda n: None, range(-1, 4321))
    found = month_availability(NOVEMBER, [entry("incident", BEGIN, END)], terms(availability="99.9%"), LATER, (), {BEGIN: month})
    assert (found.judged.verdict, found.judged.failures) == ("not_shown", 0)
    following = month_availability(
        END + HOUR, [entry("incident", BEGIN, END + 24 * HOUR)], terms(availability="99.9%"), LATER, (), {BEGIN: month}
    )
    assert (following.judged.verdict, len(following.contradicted)) == ("not_shown", 1), "one entry over the end of a month is one witness"


def test_time_that_the_log_also_has_as_ours_is_not_the_providers() -> None:
    log = [entry("incident", NOVEMBER, NOVEMBER + 4 * HOUR), entry("incident", NOVEMBER + HOUR, NOVEMBER + 4 * HOUR, whose="us")]
    assert month_availability(NOVEMBER, log, terms(availability="99%"), LATER).judged.failures == 3600


SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=12)


@given(SPANS)
def test_merged_incidents_are_apart_and_hold_every_entry_once(spans: list[tuple[int, int]]) -> None:
    logged = [(str(n), NOVEMBER + begin * FIVE, NOVEMBER + (begin + length) * FIVE) for n, (begin, length) in enumerate(spans)]
    merged = merge_overlapping(logged, LATER)
    assert sorted(name for one in merged for name in one.entry_ids) == sorted(name for name, *_ in logged)
    assert all(a.ended is not None and a.ended <= b.began for a, b in pairwise(merged))
    covered = {begin + n for begin, length in spans for n in range(length)}
    assert sum(((one.ended or LATER) - one.began) / FIVE for one in merged) == len(covered)


def test_an_incident_or_a_ticket_that_is_logged_twice_is_one() -> None:
    sla = terms(time_to_recover="1h", support_response="1h")
    incidents = [entry("incident", NOVEMBER, NOVEMBER + 2 * HOUR), entry("incident", NOVEMBER + HOUR, NOVEMBER + 3 * HOUR)]
    found = TimeToRecover().times(incidents, sla, LATER)
    assert (found.kept.share.n, found.late) == (1, tuple(e.entry_id for e in incidents))
    tickets = [replace(entry("ticket", NOVEMBER + n * HOUR, None, answered=NOVEMBER + 4 * HOUR), reference="4711") for n in range(2)]
    assert SupportResponse().times(tickets, sla, LATER).kept.share.n == 1
    apart = [replace(each, reference="") for each in tickets]
    assert SupportResponse().times(apart, sla, LATER).kept.share.n == 2


def test_a_recovery_of_which_log_and_checks_differ_counts_neither_way() -> None:
    sla, month = terms(time_to_recover="1h", response_share="50%"), month_of(lambda n: "server_error" if 2592 <= n < 2640 else None)

    def recovery(log: LogEntryView, **more: object) -> tuple[int, int, str]:
        seen = PromiseEvidence(LATER, {}, pool_measurements("provisioning_lead_time", [], "none"), log=(log,), **more)  # type: ignore[arg-type]
        (each,) = TimeToRecover().judge(sla, seen)
        return each.row.tries.share.n, each.row.tries.unproven, each.row.measured

    of = {"outages": month.outages, "months": {BEGIN: month}}
    n, unproven, text = recovery(entry("incident", NOVEMBER, NOVEMBER + 0.5 * HOUR), **of)
    assert (n, unproven) == (0, 1) and "contradict each other" in text, "four hours by checks, half an hour by the log"
    clean = {"outages": (), "months": {BEGIN: month_of(lambda n: None)}}
    late = entry("incident", NOVEMBER, NOVEMBER + 5 * HOUR)
    assert recovery(late, **clean)[:2] == (0, 1)
    assert recovery(late, **clean, confirmed=frozenset({late.entry_id}))[:2] == (1, 0)
    assert recovery(late)[:2] == (1, 0), "without checks the log is the one witness"


@pytest.mark.parametrize(
    ("promised", "every", "expected"),
    [
        ({"availability": "99.9%"}, {"uptime": 900}, "3,838 answered checks needed in a month, 2,880 made: every 10.0 min"),
        ({"availability": "99.9%"}, {"uptime": 600}, ""),
        ({"availability": "99.99%"}, {"uptime": 300}, "38,411 answered checks needed in a month, 8,640 made: every 60.0 s"),
        ({"availability": "100%"}, {"uptime": 60}, "no number of checks"),
        ({"availability": "99.9%"}, {}, ""),
        ({"capacity": "99.9%"}, {"capacity": 21600}, "3,838 granted checks needed in 13 months, 1,560 made: every 2.00 h"),
        ({"capacity": "95%"}, {"capacity": 21600}, ""),
        ({"time_to_recover": "10min"}, {"uptime": 300}, "lasts 15.0 min at least: every 2.00 min"),
        ({"time_to_recover": "4h"}, {"uptime": 300}, ""),
    ],
)
def test_a_promise_that_the_interval_can_never_show_is_named_with_one_that_can(
    promised: dict[str, str], every: dict[str, float], expected: str
) -> None:
    found = never_shown(terms(**promised), every)
    assert len(found) == bool(expected) and all(expected in text for text in found), found


def test_the_interval_that_is_named_does_show_it() -> None:
    """A clean month at ten minutes keeps 99.9 %; one at fifteen does not, as outages between its checks are not seen."""
    for minutes, verdict in ((10, "kept"), (15, "not_shown")):
        every = timedelta(minutes=minutes)
        seen = [AvailabilityCheck("p", "uptime", BEGIN + n * every, None) for n in range(-1, int((END - BEGIN) / every) + 1)]
        month = availability(NOVEMBER, seen, (), every.total_seconds(), LATER)
        found = month_availability(NOVEMBER, [], terms(availability="99.9%"), LATER, (), {BEGIN: month})
        assert found.judged.verdict == verdict
    assert "outages between 2,880 checks are not seen" in availability_row(found).measured
    assert found.judgement.decides.startswith("3,838 checks")
