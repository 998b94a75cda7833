"""Availability, responses and credits from the operations log, against figures computed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from tests.data.result_documents import provider

from plumbline.analysis.availability import AvailabilityMonth, availability, find_outages
from plumbline.analysis.cost.service_credit import credit_of
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.promises.availability import MonthAvailability, availability_row, month_availability
from plumbline.declarations.promises.judging.response import ResponseTime
from plumbline.declarations.promises.quota_response import QuotaResponse
from plumbline.declarations.promises.support_response import SupportResponse
from plumbline.declarations.promises.time_to_recover import TimeToRecover
from plumbline.declarations.providers.provider import Price
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.metrics.time_spans import month_span
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.operations import LogEntryView

PROMISED = {"availability": "99.9%", "credits": [{"below": "99.9%", "credit": "10%"}, {"below": "99%", "credit": "25%"}]}
NOVEMBER = datetime(2026, 11, 10, tzinfo=timezone.utc)
LATER = datetime(2027, 6, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def entry(
    kind: str, opened: datetime, solved: datetime | None, *, whose: str = "provider", answered: datetime | None = None
) -> LogEntryView:
    name = f"{kind}-{opened:%m%d%H%M}"
    of = {"what": "noted", "whose": whose, "entry_id": name, "revision": 1, "recorded_at": LATER, "recorded_by": "ada"}
    return LogEntryView("p", kind, opened=opened, answered=answered, solved=solved, **of)  # type: ignore[arg-type]


def promised(**more: object) -> ServiceLevel:
    return ServiceLevel.model_validate_json(json.dumps({**PROMISED, **more}))


@pytest.mark.parametrize(
    ("down_s", "verdict", "tier"),
    [  # November has 2,592,000 s: 0.1 % of it is 2,592 s, 1 % is 25,920 s
        (0, "not_shown", None),
        (2592, "not_shown", None),
        (2592.000001, "broken", 0.10),
        (25920, "broken", 0.10),
        (25920.000001, "broken", 0.25),
    ],
)
def test_a_tier_begins_below_its_limit(down_s: float, verdict: str, tier: float | None) -> None:
    log = [entry("incident", NOVEMBER, NOVEMBER + timedelta(seconds=down_s))]
    found = month_availability(NOVEMBER, log, promised(), LATER)
    assert (found.judged.verdict, found.tier and found.tier.credit) == (verdict, tier)
    assert found.evidence == (("incident-11100000",) if down_s else ())


@pytest.mark.parametrize(
    ("month", "days"), [(datetime(2026, 2, 10, tzinfo=timezone.utc), 28), (datetime(2026, 12, 10, tzinfo=timezone.utc), 31)]
)
def test_a_month_has_its_own_length(month: datetime, days: int) -> None:
    limit = timedelta(seconds=days * 86.4)
    for down, verdict in ((limit, "not_shown"), (limit + timedelta(microseconds=1), "broken")):
        assert month_availability(month, [entry("incident", month, month + down)], promised(), LATER).judged.verdict == verdict


def test_only_the_providers_own_outages_outside_maintenance_count_once() -> None:
    log = [
        entry("incident", NOVEMBER, NOVEMBER + 2 * HOUR),
        entry("incident", NOVEMBER + HOUR, NOVEMBER + 3 * HOUR),  # the same outage, seen by another
        entry("incident", NOVEMBER + 24 * HOUR, NOVEMBER + 30 * HOUR, whose="us"),
        entry("incident", NOVEMBER + 48 * HOUR, NOVEMBER + 50 * HOUR, whose="unknown"),
    ]
    assert month_availability(NOVEMBER, log, promised(), LATER).judged.failures == 3 * 3600
    declared = {"maintenance": [{"since": "2026-11-10T00:00Z", "until": "2026-11-10T01:00Z", "source": "mail of 3 November"}]}
    worked = entry("maintenance", NOVEMBER + 2 * HOUR, NOVEMBER + 2.5 * HOUR)
    found = month_availability(NOVEMBER, [*log, worked], promised(**declared), LATER)
    assert (found.judged.share.n, found.judged.failures) == (720 * 3600 - 5400, 5400)
    whole = entry("maintenance", NOVEMBER - 20 * 24 * HOUR, NOVEMBER + 40 * 24 * HOUR)
    found = month_availability(NOVEMBER, [*log, whole], promised(), LATER)
    assert (found.judged.share.n, found.judged.verdict, found.evidence) == (0, "not_shown", ())


FIVE = timedelta(minutes=5)
BEGIN, END = month_span(NOVEMBER)
TERMS = {"availability": "99.99%", "credits": []}


def month_of(missed: Callable[[int], str | None], watched: range = range(-1, 8641), now: datetime = LATER) -> AvailabilityMonth:
    """November by checks every five minutes: the cause that each of those watched missed for, None for an answer. One is before it and one after."""
    seen = [AvailabilityCheck("p", "uptime", BEGIN + n * FIVE, missed(n)) for n in watched]
    return availability(NOVEMBER, seen, find_outages(seen, 300), 300, now)


def by_checks(month: AvailabilityMonth, now: datetime = LATER, log: Sequence[LogEntryView] = (), **terms: object) -> MonthAvailability:
    down = [(o.began, o.ended or now) for o in month.outages if o.whose == "provider"]
    return month_availability(NOVEMBER, log, promised(**terms), now, down, {BEGIN: month})


@pytest.mark.parametrize("share", ["99%", "99.95%"])
def test_a_clean_and_fully_watched_month_is_kept(share: str) -> None:
    found = by_checks(month_of(lambda n: None), availability=share, credits=[])
    assert (found.judged.verdict, found.judgement.verdict, found.low, found.high, found.tier) == ("kept", "met", 1.0, 1.0, None)
    row = availability_row(found)
    assert (row.mark, row.needed) == ("good", "") and row.measured.startswith("uptime 100.0000 %, 0 s down; 8,640 of 8,640")


@pytest.mark.parametrize(
    ("month", "low", "high"),
    [
        (month_of(lambda n: "unreachable" if 1000 <= n < 1000 + 2880 else None), 5759 / 8640, 1.0),  # ten dark days: 2881 intervals
        (month_of(lambda n: None, range(-1, 4321)), 0.5, 1.0),  # 4320 intervals between answers in this month
        (month_of(lambda n: "unreachable"), 0.0, 1.0),
        (month_of(lambda n: None if n % 40 == 0 else "unreachable" if n % 80 == 1 else None, range(-1, 8641, 40)), 0.0, 1.0),
        (month_of(lambda n: "server_error" if n == 500 else None), 8638 / 8640, None),  # one miss proves seconds, not its five minutes
        (month_of(lambda n: "bad_declaration" if 500 <= n < 600 else None), (8640 - 101) / 8640, 1.0),
    ],
)
def test_what_is_unknown_keeps_no_promise_and_breaks_none(month: AvailabilityMonth, low: float, high: float | None) -> None:
    found = by_checks(month, **TERMS)
    assert (found.judged.verdict, found.judgement.verdict, found.judgement.tone, found.tier) == ("not_shown", "not_shown", "warn", None)
    assert found.low == pytest.approx(low, abs=1e-4) and (high is None or found.high == high)
    row = availability_row(found)
    assert "100.0" not in row.measured.partition("…")[0] and row.mark == "" and "not shown, needs checks of its uptime" in row.verdict_text


@pytest.mark.parametrize(("missed", "most"), [(lambda n: n % 3 > 0, 0.36), (lambda n: n % 10 == 0, 0.91)])
def test_flapping_is_down_though_no_three_checks_missed_in_a_row(missed: Callable[[int], bool], most: float) -> None:
    month = month_of(lambda n: "server_error" if missed(n) else None)
    assert month.outages == () and month.down_s >= (1 - most) * 30 * 86400
    found = by_checks(month)
    assert found.judged.verdict == "broken" and found.high is not None and 1 - month.down_s / (30 * 86400) <= found.high < most
    assert found.tier is not None and found.tier.credit == 0.25
    assert by_checks(month, log=[entry("incident", BEGIN, END, whose="us")]).judged.verdict == "not_shown", "people know better"


def test_a_month_that_lasts_can_be_broken_and_not_kept() -> None:
    now = END - HOUR
    clean = by_checks(month_of(lambda n: None, range(-1, 8628), now), now, availability="99%", credits=[])
    assert clean.judged.verdict == "not_shown" and "the month is not over" in clean.judgement.missing
    lost = by_checks(month_of(lambda n: "server_error" if 10 <= n < 100 else None, range(-1, 300), BEGIN + 25 * HOUR), BEGIN + 25 * HOUR)
    assert (lost.judged.verdict, lost.judged.failures) == ("broken", 90 * 300)


def test_a_logged_incident_of_unknown_cause_is_not_up_whatever_the_checks_say() -> None:
    log = [entry("incident", NOVEMBER, NOVEMBER + HOUR, whose="unknown")]
    found = by_checks(month_of(lambda n: None), log=log)
    assert (found.judged.verdict, found.unknown_s) == ("not_shown", 3600)
    assert by_checks(month_of(lambda n: None), log=[entry("maintenance", NOVEMBER, NOVEMBER + HOUR)]).judged.verdict == "kept"


def test_a_month_without_checks_is_not_shown() -> None:
    found = month_availability(NOVEMBER, [], promised(), LATER)
    assert (found.judged.verdict, found.seen) == ("not_shown", False) and found.judgement.missing.startswith("720 h neither seen")
    assert month_availability(NOVEMBER, [], ServiceLevel(), LATER).judgement.missing == "nothing is promised"


def test_an_outage_over_the_end_of_a_month_counts_in_both() -> None:
    end = datetime(2026, 12, 1, tzinfo=timezone.utc)
    log = [entry("incident", end - HOUR, end + 2 * HOUR)]
    assert [month_availability(at, log, promised(), LATER).judged.failures for at in (end - HOUR, end)] == [3600, 7200]


def test_an_outage_that_lasts_counts_until_now_and_the_rest_of_the_month_as_available() -> None:
    log = [entry("incident", NOVEMBER, None)]
    found = month_availability(NOVEMBER, log, promised(), NOVEMBER + HOUR)
    assert (found.judged.verdict, found.judged.failures, found.judged.share.n) == ("broken", 3600, 720 * 3600)


def priced(*prices: tuple[str, str, str | None]) -> Provider:
    listed = [{"purchase": "on_demand", "price": p, "since": since, "until": until, "source": "a test"} for p, since, until in prices]
    return provider().model_copy(update={"prices": tuple(Price.model_validate_json(json.dumps(each)) for each in listed)})


def hours(*amounts: str) -> list[RentedVolume]:
    return [
        RentedVolume.model_validate_json(json.dumps({"provider": "p", "time_per_month": amount, "workload": f"w{i}"}))
        for i, amount in enumerate(amounts)
    ]


@pytest.mark.parametrize(
    ("month", "share", "prices", "volumes", "expected"),
    [
        (11, 0.10, [("98.32 USD/h", "2026-01-01", None)], ["500h"], "4916.00"),  # 49,160.00
        (11, 0.25, [("98.32 USD/h", "2026-01-01", None)], ["500h"], "12290.00"),
        # 500 h over 30 days: 15 days at 10 and 15 at 13: 250 × 23 = 5,750
        (11, 0.10, [("10 USD/h", "2026-01-01", "2026-11-16"), ("13 USD/h", "2026-11-16", None)], ["500h"], "575.00"),
        # over 28 days: 7 at 10 and 21 at 13: 500 × (70 + 273) / 28 = 6,125; over 31: 7 and 24: 500 × (70 + 312) / 31 = 6,161.2903
        (2, 0.10, [("10 USD/h", "2026-01-01", "2026-02-08"), ("13 USD/h", "2026-02-08", None)], ["500h"], "612.50"),
        (12, 0.10, [("10 USD/h", "2026-01-01", "2026-12-08"), ("13 USD/h", "2026-12-08", None)], ["500h"], "616.13"),
        (11, 0.10, [("0.05 USD/h", "2026-01-01", None)], ["1h"], "0.01"),  # half a cent is one
        (11, 0.10, [("2.5 USD/h", "2026-01-01", None)], ["100h", "33h"], "33.25"),
    ],
)
def test_the_credit_is_right_to_the_cent(
    month: int, share: float, prices: list[tuple[str, str, str | None]], volumes: list[str], expected: str
) -> None:
    credit = credit_of(share, priced(*prices), hours(*volumes), datetime(2026, month, 20, tzinfo=timezone.utc))
    assert credit is not None and credit.cents == Decimal(expected) and credit.amount == float(expected)


def test_a_credit_without_a_volume_or_a_days_price_is_unknown() -> None:
    always, begun = priced(("1 USD/h", "2026-01-01", None)), priced(("1 USD/h", "2026-11-02", None))
    assert credit_of(0.1, always, [], NOVEMBER) is None
    assert credit_of(0.1, begun, hours("1h"), NOVEMBER) is None


def response_times(log: Sequence[LogEntryView], sla: ServiceLevel, now: datetime) -> tuple[ResponseTime, ...]:
    """Of incidents, tickets and quota requests."""
    return tuple(one().times(log, sla, now) for one in (TimeToRecover, SupportResponse, QuotaResponse))


def test_answers_are_judged_by_the_rule_of_all_promises() -> None:
    sla = promised(support_response="1h", time_to_recover="4h", response_share="95%")
    day = timedelta(days=1)
    tickets = [entry("ticket", NOVEMBER + n * day, None, answered=NOVEMBER + n * day + timedelta(minutes=30)) for n in range(2)]
    late = [entry("ticket", NOVEMBER + n * day, NOVEMBER + n * day + 2 * HOUR) for n in range(2, 5)]
    waiting = entry("ticket", NOVEMBER + 6 * day, None)
    recover, support, quota = response_times([*tickets, *late, waiting], sla, NOVEMBER + 6 * day + HOUR)
    assert (support.kept.share.successes, support.kept.share.n, support.kept.verdict) == (2, 5, "broken")
    assert support.late == tuple(each.entry_id for each in late), "an open ticket counts once it is late"
    _, support, _ = response_times([*tickets, *late, waiting], sla, NOVEMBER + 6 * day + 2 * HOUR)
    assert support.kept.share.n == 6 and waiting.entry_id in support.late
    assert (recover.kept.share.n, recover.kept.verdict, quota.kept.verdict) == (0, "not_shown", "not_promised")
    _, support, _ = response_times([*tickets, late[0]], sla, LATER)
    assert support.kept.verdict == "not_shown", "one of three may be chance"


def test_recovery_counts_proven_incidents_and_no_maintenance() -> None:
    sla = promised(time_to_recover="4h")
    log = [
        entry("incident", NOVEMBER, NOVEMBER + 5 * HOUR),
        entry("incident", NOVEMBER + 24 * HOUR, NOVEMBER + 30 * HOUR, whose="unknown"),
        entry("incident", NOVEMBER + 48 * HOUR, NOVEMBER + 60 * HOUR, whose="us"),
    ]
    recover, *_ = response_times(log, sla, LATER)
    assert (recover.kept.share.successes, recover.kept.share.n, recover.kept.unproven) == (0, 1, 1)
    recover, *_ = response_times([*log, entry("maintenance", NOVEMBER, NOVEMBER + HOUR)], sla, LATER)
    assert (recover.kept.share.successes, recover.late) == (1, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"availability": None},
        {"credits": [{"below": "99.95%", "credit": "10%"}]},
        {"credits": [{"below": "99%", "credit": "10%"}, {"below": "99%", "credit": "20%"}]},
        {"credits": [{"below": "99%", "credit": "10%"}, {"below": "98%", "credit": "10%"}]},
        {"maintenance": [{"since": "2026-11-10T01:00Z", "until": "2026-11-10T01:00Z", "source": "mail"}]},
        {"maintenance": [{"since": "2026-11-10T01:00", "until": "2026-11-10T02:00", "source": "mail"}]},
    ],
)
def test_terms_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected `below`|expected an instant|timezone"):
        promised(**wrong)
