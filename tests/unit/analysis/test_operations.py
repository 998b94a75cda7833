"""Availability, responses and credits from the operations log, against figures computed by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from tests.data.result_documents import provider

from plumbline.analysis.operations import credit_of, month_availability, response_times
from plumbline.declarations import Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.provider import Price, ServiceLevel
from plumbline.metrics.proportions import wilson_interval
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


def test_checks_show_that_a_month_is_kept_and_never_that_it_is_broken() -> None:
    begin = NOVEMBER.replace(day=1)
    for answers, checks, verdict in ((8640, 8640, "kept"), (100, 100, "not_shown"), (8000, 8640, "not_shown")):
        found = month_availability(NOVEMBER, [], promised(), LATER, checked={begin: wilson_interval(answers, checks)})
        assert (found.judged.verdict, found.tier) == (verdict, None)
    down = [(begin, begin + 5 * HOUR)]
    assert month_availability(NOVEMBER, [], promised(), LATER, down, {begin: wilson_interval(8640, 8640)}).judged.verdict == "broken"
    earlier = {begin - timedelta(days=30): wilson_interval(8640, 8640)}
    assert month_availability(NOVEMBER, [], promised(), LATER, checked=earlier).judged.verdict == "not_shown"


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
