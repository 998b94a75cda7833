"""Outages and availability from checks, against numbers computed by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest

from plumbline.analysis.availability import (
    AvailabilityMonth,
    availability,
    by_hour_of_week,
    find_outages,
    join_answered,
    microseconds,
    whose_fault,
)
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.time_spans import month_span
from plumbline.results.availability_check import AvailabilityCheck

BEGIN = datetime(2026, 2, 1, tzinfo=timezone.utc)
EVERY = timedelta(minutes=5)
EVERY_S = EVERY.total_seconds()
END = BEGIN + timedelta(days=28)


def at(n: int) -> datetime:
    return BEGIN + n * EVERY


def checks(causes: Sequence[str | None], first: int = 0) -> list[AvailabilityCheck]:
    return [AvailabilityCheck("lab", "uptime", at(first + n), cause, cause or "", None if cause else 0.2) for n, cause in enumerate(causes)]


def judged(
    observations: Sequence[AvailabilityCheck], now: datetime = END, excluded: Sequence[tuple[datetime, datetime]] = ()
) -> AvailabilityMonth:
    return availability(BEGIN, observations, find_outages(observations, EVERY_S, excluded), EVERY_S, now, excluded)


def test_misses_before_checks_stopped_are_not_in_a_row_with_those_after() -> None:
    apart = [*checks([None, "server_error", "server_error"]), *checks(["server_error", None], first=200)]
    assert find_outages(apart, EVERY_S) == ()
    stopped = [*checks([None, *["server_error"] * 3]), *checks([None, None], first=200)]
    (outage,) = find_outages(stopped, EVERY_S)
    assert (outage.began, outage.ended, outage.recovery_s) == (at(1), at(4), None)
    assert judged(stopped).down_s == 3 * EVERY_S
    (late,) = find_outages([*checks([None, *["server_error"] * 3]), *checks(["server_error", None], first=5)], EVERY_S)
    assert (late.ended, late.recovery_s) == (at(6), 5 * EVERY_S)


def test_three_misses_in_a_row_are_an_outage_that_the_first_answer_ends() -> None:
    (outage,) = find_outages(checks([None, "server_error", "timeout", "server_error", None, None]), EVERY_S)
    assert (outage.began, outage.ended, outage.whose, outage.cause, outage.misses) == (at(1), at(4), "provider", "server_error", 3)
    assert outage.recovery_s == 15 * 60
    assert find_outages(checks([None, "server_error", "server_error", None, "server_error", None]), EVERY_S) == ()


def test_an_outage_that_lasts_has_no_end() -> None:
    (outage,) = find_outages(checks([None, *["server_error"] * 3]), EVERY_S)
    assert (outage.ended, outage.recovery_s) == (None, None)


def test_our_own_failures_are_no_outage_and_interrupt_none() -> None:
    assert find_outages(checks([None, *["bad_declaration"] * 50, None]), EVERY_S) == ()
    (outage,) = find_outages(checks(["server_error", "server_error", "bad_declaration", "server_error", None]), EVERY_S)
    assert (outage.began, outage.ended, outage.misses) == (at(0), at(4), 3)


def test_an_unproven_cause_is_no_outage_of_the_providers() -> None:
    (outage,) = find_outages(checks([None, *["unreachable"] * 5, None]), EVERY_S)
    assert outage.whose == "unproven"
    (outage,) = find_outages(checks([*["unreachable"] * 5, *["server_error"] * 3, None]), EVERY_S)
    assert (outage.whose, outage.began) == ("provider", at(5))


@pytest.mark.parametrize(
    ("cause", "whose"),
    [
        ("server_error", "provider"),
        ("insufficient_capacity", "provider"),
        ("bad_declaration", "operator"),
        ("quota_exceeded", "operator"),
        ("harness_error", "operator"),
        ("unreachable", "unproven"),
        ("launch_timeout", "unproven"),
    ],
)
def test_each_cause_has_an_owner(cause: str, whose: str) -> None:
    assert whose_fault(cause) == whose


def test_a_month_counts_checks_and_seconds() -> None:
    causes: list[str | None] = [None] * 8064  # 28 days of 288 checks
    causes[100] = "timeout"
    causes[1000:1012] = ["server_error"] * 12
    causes[2000:2010] = ["bad_declaration"] * 10
    causes[3000:3004] = ["unreachable"] * 4
    month = judged(checks(causes))
    assert month.share == wilson_interval(8064 - 1 - 12 - 10 - 4, 8064 - 10 - 4)
    assert (month.outage_s, month.down_s) == (3600, 3600 + 300), "a single miss stands for its interval"
    assert month.single_proven_s < 120, "and proves less"
    assert (dict(month.own), month.unproven) == ({"bad_declaration": 10}, 4)
    assert [o.whose for o in month.outages] == ["provider", "unproven"]
    assert month.unobserved_s == (10 + 4) * 300, "a check stands for the time until the next one"


def test_an_excluded_window_counts_nowhere() -> None:
    causes: list[str | None] = [None] * 288
    causes[10:40] = ["server_error"] * 30
    window = [(at(20), at(40))]
    month = judged(checks(causes), at(288), window)
    assert month.share == wilson_interval(258, 268)
    assert month.down_s == 10 * 300
    assert month.unobserved_s == 0
    assert judged(checks(causes), at(288), [(at(0), at(288))]).share.n == 0
    assert find_outages(checks(causes), EVERY_S, [(at(10), at(38))]) == ()


def test_an_outage_across_the_end_of_a_month_is_down_in_both() -> None:
    observations = checks([None, *["server_error"] * 24, None], 8064 - 13)
    outages = find_outages(observations, EVERY_S)
    later = availability(END, observations, outages, 300, END + timedelta(days=1))
    assert judged(observations, END + timedelta(days=1)).down_s == 12 * 300
    assert later.down_s == 12 * 300 and later.outages == outages
    assert later.share == wilson_interval(1, 13)


def test_time_before_the_first_check_and_of_a_silent_watch_is_unobserved() -> None:
    month = judged(checks([None] * 12, 288), at(288 + 12))
    assert month.unobserved_s == 86400
    assert month.share.ratio == 1.0
    assert judged([], at(288)).share.ratio is None


def test_a_month_is_the_calendars_in_utc() -> None:
    assert month_span(datetime(2026, 2, 28, 23, 30, tzinfo=timezone(timedelta(hours=-1)))) == (
        END,
        datetime(2026, 4, 1, tzinfo=timezone.utc),
    )


def test_lead_times_by_hour_of_the_week() -> None:
    monday = datetime(2026, 2, 2, 9, tzinfo=timezone.utc)
    observed = [
        AvailabilityCheck("lab", "capacity", monday, None, "", 30.0, 8),
        AvailabilityCheck("lab", "capacity", monday + timedelta(days=7), None, "", 50.0, 8),
        AvailabilityCheck("lab", "capacity", monday + timedelta(minutes=10), "insufficient_capacity", "full", None, 8),
        AvailabilityCheck("lab", "capacity", monday + timedelta(minutes=20), "quota_exceeded", "quota", None, 8),
        AvailabilityCheck("lab", "capacity", monday + timedelta(hours=1), None, "dry run", None, 8),
    ]
    first, second = by_hour_of_week(observed)
    assert (first.weekday, first.hour, first.seconds, first.checks, first.refused) == (0, 9, 40.0, 3, 1)
    assert (second.hour, second.seconds, second.checks) == (10, None, 1)


@pytest.mark.parametrize("seed", range(8))
def test_answered_checks_joined_to_one_say_what_the_single_ones_say(seed: int) -> None:
    chance = random.Random(seed)
    causes = [chance.choice([None] * 30 + ["server_error", "server_error", "bad_declaration", "unreachable"]) for _ in range(3000)]
    causes[700:740], causes[1500:1504] = ["server_error"] * 40, ["unreachable"] * 4
    single = [one for one in checks(causes) if chance.random() > 0.02]  # gaps
    excluded = [(at(300), at(310)), (at(305), at(330))]
    joined = tuple(
        join_answered([microseconds(o.at) for o in single if o.cause is None], [o for o in single if o.cause is not None], EVERY_S)
    )
    outages = find_outages(single, EVERY_S, excluded)
    assert len(joined) < len(single) / 2 and find_outages(joined, EVERY_S, excluded) == outages
    for now in (at(2000), BEGIN + timedelta(days=40)):
        for month in (BEGIN, BEGIN + timedelta(days=31)):
            of_joined, of_single = (availability(month, seen, outages, EVERY_S, now, excluded) for seen in (joined, single))
            assert of_joined == of_single
