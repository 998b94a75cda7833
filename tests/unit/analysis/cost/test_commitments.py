"""Reserved hours against hours computed by hand: terms that begin and end within a month, several contracts, renewals, and the price to renew at."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from tests.data.result_documents import provider

from plumbline.analysis.cost.commitments import USE, Commitment, commitments
from plumbline.analysis.cost.invoice import HeldSpan
from plumbline.declarations import Contract, Provider
from plumbline.findings import Reconciliation
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.findings.types.commitment import reconcile_commitments
from plumbline.results.finding import Finding
from plumbline.words.commitments import end_text, renewal_text

DAY_S = 86400.0


def price(since: str, until: str, usd: str = "2.50 USD/GPU-hour", **committed: Any) -> dict[str, Any]:
    return {"purchase": "reserved", "price": usd, "since": since, "until": until, "committed": committed or {"instances": 1}}


def contract(*prices: dict[str, Any], name: str = "neo") -> Contract:
    return Contract.model_validate({"name": name, "source": "contract 7", "prices": list(prices)}, strict=False)


def place(name: str, *contracts: str, usd: float = 8.0, gpus: int = 2, **changed: Any) -> Provider:
    prices = [{"purchase": "on_demand", "price": f"{usd} USD/h", "since": "2020-01-01", "source": "page"}]
    sources = [{"kind": "contract", "contract": c} for c in contracts]
    declared: Provider = provider(name, prices=prices, price_sources=sources, **changed)
    return declared.model_copy(update={"accelerator": declared.accelerator.model_copy(update={"count": gpus})})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def held(begin: str, hours: float, of: str = "north") -> HeldSpan:
    return HeldSpan(f"{of} {begin}", of, at(begin), at(begin) + timedelta(hours=hours), hours)


def found(now: str, *contracts: Contract, spans: tuple[HeldSpan, ...] = (), others: tuple[Provider, ...] = ()) -> tuple[Commitment, ...]:
    north = place("north", *(c.name for c in contracts))
    return commitments(contracts, {p.name: p for p in (north, *others)}, spans, at(now))


def hours(c: Commitment) -> tuple[float, ...]:
    return c.reserved_h, c.used_h, c.unused_h, c.ahead_h


def test_instances_from_the_middle_of_a_month_to_the_middle_of_the_next() -> None:
    """16 November until 10 December: 24 days of one instance of two GPUs, 576 h at 2 · 2.50 = 5.00 USD. On the 21st at noon 132 h have passed.
    Used: 10 h of the 16th, 24 h across the 17th and 18th; the 2 h before the term do not count. 132 − 34 = 98 h, 490.00 USD; ahead 444 h."""
    spans = held("2026-11-15T20:00", 4 + 10), held("2026-11-17T12:00", 24.0)
    (one,) = found("2026-11-21T12:00", contract(price("2026-11-16", "2026-12-10")), spans=spans)
    assert hours(one) == pytest.approx((576, 34, 98, 444))
    assert (str(one.unused_usd), str(one.ahead_usd), end_text(one)) == ("490.00 USD", "2,220.00 USD", "2026-12-10, in 19 days")


def test_hours_of_a_month_end_with_the_month() -> None:
    """620 h a month: 16 of October's 31 days are 320 h, November 620 h. Used 384 h in October, of which 64 are beyond what is reserved and no credit for
    November, and 100 h in November: nothing of it is lost before its end, then 520 h at 5.00 USD."""
    terms = contract(price("2026-10-16", "2026-12-01", hours_per_month=620))
    spans = (*(held(f"2026-10-{day}T00:00", 24.0) for day in range(16, 32)), held("2026-11-03T00:00", 100.0))
    (running,) = found("2026-11-20T00:00", terms, spans=spans)
    assert hours(running) == pytest.approx((940, 320 + 100, 0, 520))
    (over,) = found("2026-12-01T00:00", terms, spans=spans)
    assert hours(over) == pytest.approx((940, 420, 520, 0))
    assert (str(over.unused_usd), end_text(over)) == ("2,600.00 USD", "2026-12-01, expired")


def test_the_reported_use_of_a_month_replaces_held_hours() -> None:
    terms = contract(price("2026-10-01", "2026-12-01", instances=1, used={"2026-10": 700.25}))
    (one,) = found("2026-11-02T00:00", terms, spans=(held("2026-10-05T00:00", 20.0), held("2026-11-01T00:00", 6.0)))
    assert hours(one) == pytest.approx((61 * 24, 706.25, 744 - 700.25 + 24 - 6, 29 * 24))


def test_an_hour_is_used_of_one_contract_only() -> None:
    """Three instances on one day of two contracts with one each: 24 h of both, the third beyond. With one: of the contract that began first."""
    first, second = (
        contract(price("2026-10-01", "2026-12-01"), name="b-first"),
        contract(price("2026-11-01", "2027-01-01"), name="a-second"),
    )
    by_name = {c.contract: c for c in found("2026-11-02T00:00", first, second, spans=(held("2026-11-01T00:00", 24.0),) * 3)}
    assert [by_name[n].used_h for n in ("b-first", "a-second")] == [24, 24]
    by_name = {c.contract: c for c in found("2026-11-02T00:00", first, second, spans=(held("2026-11-01T00:00", 24.0),))}
    assert [by_name[n].used_h for n in ("b-first", "a-second")] == [24, 0]


def test_without_declared_use_there_is_no_price_to_renew_at() -> None:
    (one,) = found("2026-11-05T00:00", contract(price("2026-11-01", "2026-12-01")), spans=(held("2026-11-01T00:00", 15.0),))
    assert (one.used_h, one.renew_below, one.used_declared, renewal_text(one)) == (15, None, False, "not known without committed.used")


def test_the_price_to_renew_at_rests_on_declared_months_alone() -> None:
    """October: 372 of 744 h, 8.00 · 0.5 = 4.00 USD/h; that trials held nothing in November says nothing."""
    terms = contract(price("2026-10-01", "2026-12-01", instances=1, used={"2026-10": 372}))
    (one,) = found("2026-11-20T00:00", terms)
    assert one.renew_below == pytest.approx(4.0)


def test_one_that_has_not_begun_lost_nothing_and_names_no_price() -> None:
    (one,) = found("2026-11-02T00:00", contract(price("2026-12-15", "2027-01-01")))
    assert (hours(one), end_text(one), renewal_text(one)) == ((408, 0, 0, 408), "2027-01-01, not begun", "not known without committed.used")


def test_the_price_to_renew_at_is_that_of_the_used_hours_elsewhere() -> None:
    """Used 60 of 96 h. On demand here 8.00 · 0.625 = 5.00 USD/h; another provider's four GPUs for 6.00, two of them 3.00 · 0.625 = 1.875."""
    terms, used = (
        contract(
            price("2026-11-01", "2026-12-01", "100 EUR/instance-hour", instances=1, used={"2026-11": 60})
            | {"rate": "1.10 USD/EUR", "rate_on": "2026-01-01"}
        ),
        15.0,
    )
    spans = tuple(held(f"2026-11-0{day}T00:00", used) for day in range(1, 5))
    other = place("south", usd=6.0, gpus=4)
    (one,) = found("2026-11-05T00:00", terms, spans=spans, others=(other,))
    assert one.usd_per_hour == pytest.approx(110)
    assert one.renew_below == pytest.approx(1.875) and renewal_text(one).endswith(
        ": south, 3.00 USD/h on demand for the 62 % of hours that were used"
    )
    disabled = other.model_copy(update={"enabled": False})
    (one,) = found("2026-11-05T00:00", terms, spans=spans, others=(disabled,))
    assert one.renew_below == pytest.approx(5.0) and ": north, 8.00 USD/h on demand" in renewal_text(one)


def test_a_contract_that_two_providers_name_counts_once() -> None:
    north, south = place("north", "neo"), place("south", "neo")
    spans = held("2026-11-01T00:00", 5.0), held("2026-11-01T00:00", 7.0, of="south")
    (one,) = commitments([contract(price("2026-11-01", "2026-12-01"))], {"north": north, "south": south}, spans, at("2026-11-02T00:00"))
    assert (one.providers, one.used_h) == (("north", "south"), 12)


def reconciled(now: str, *contracts: Contract, known: tuple[Finding, ...] = (), days: int = 30) -> Reconciliation:
    return reconcile_commitments("north", found(now, *contracts), known, days * DAY_S, False)


def test_a_finding_opens_before_the_end_and_resolves_with_a_renewal() -> None:
    terms = price("2026-01-01", "2027-01-01")
    assert reconciled("2026-12-01T23:00", contract(terms)).findings == ()
    (opened,) = reconciled("2026-12-02T00:00", contract(terms)).opened
    assert opened.title.endswith("end on 2027-01-01")
    assert reconciled("2026-12-02T00:00", contract(terms), days=29).findings == ()
    assert reconciled("2026-12-03T00:00", contract(terms), known=(opened,)).unchanged == (opened,)
    ((_, why),) = reconciled("2026-12-03T00:00", contract(terms, price("2027-01-01", "2028-01-01")), known=(opened,)).resolved
    assert "renewed until 2028-01-01" in why
    ((_, why),) = reconciled("2027-01-01T00:00", contract(terms), known=(opened,)).resolved
    assert "expired" in why
    ((_, why),) = reconciled("2026-12-03T00:00", known=(opened,)).resolved
    assert "no such hours" in why


def test_a_finding_names_money_only_with_declared_use_and_says_which_use_is_seen() -> None:
    (bare,) = reconciled("2026-12-02T00:00", contract(price("2026-01-01", "2027-01-01"))).opened
    assert "USD" not in bare.explanation and "declare committed.used" in bare.explanation and USE in bare.explanation
    used = price("2026-01-01", "2027-01-01", instances=1, used={"2026-11": 360})
    (known,) = reconciled("2026-12-02T00:00", contract(used)).opened
    assert "renewing pays below 4.00 USD/h" in known.explanation and USE in known.explanation


def test_a_finding_says_what_is_paid_how_much_is_used_and_whether_to_renew() -> None:
    """November: 180 of 720 h used of an instance at 5.00 USD/h. On demand here 8.00 · 0.25 = 2.00 USD/h, so that renewing costs 3.00 USD more an
    hour: 3 · 24 · 30.44 = 2,191 USD a month. With 540 h used 8.00 · 0.75 = 6.00: renewing saves 730 USD."""
    for used, said in (
        (180, "25 % used: do not renew at this price, it costs about 2,200 USD a month more than"),
        (540, "75 % used: renew, it saves about 730 USD a month against"),
    ):
        terms = contract(price("2026-01-01", "2027-01-01", instances=1, used={"2026-11": used}))
        (opened,) = reconciled("2026-12-02T00:00", terms).opened
        assert f"north: reserved hours of neo end on 2027-01-01: pays 5.00 USD/h, {said}" in headline(opened)
        assert opened.since is not None and "since" not in headline(opened)
        assert [command for command, _ in type_of(opened).steps(opened)][1] == "plumbline cost commitments"
        changed = contract(price("2026-01-01", "2027-01-01", instances=1, used={"2026-11": 720}))
        (continued,) = reconciled("2026-12-03T00:00", changed, known=(opened,)).continued
        assert "100 % used" in continued.consequence and (continued.finding_id, continued.since) == (opened.finding_id, opened.since)


def test_a_second_contract_of_other_hours_is_no_renewal() -> None:
    other = contract(price("2026-06-01", "2027-06-01"), name="other")
    assert len(reconciled("2026-12-20T00:00", contract(price("2026-01-01", "2027-01-01")), other).opened) == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"purchase": "on_demand"}, "reserved with until"),
        ({"until": None}, "reserved with until"),
        ({"committed": {}}, "either instances"),
        ({"committed": {"instances": 1, "hours_per_month": 5}}, "either instances"),
        ({"committed": {"instances": 0}}, "greater than or equal to 1"),
        ({"committed": {"instances": 1, "used": {"2027-01": 5}}}, "expected months from 2026-01 until 2027-01-01"),
        ({"committed": {"instances": 1, "used": {"2026-1": 5}}}, "match"),
    ],
)
def test_what_commits_to_nothing_clear_is_refused(changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        contract(price("2026-01-01", "2027-01-01") | changed)


def test_dates_are_those_of_the_declaration() -> None:
    (one,) = found("2026-11-02T00:00", contract(price("2026-01-01", "2027-01-01") | {"term": "1y"}))
    assert (one.term, one.since, one.until, end_text(one)) == ("1y", date(2026, 1, 1), date(2027, 1, 1), "2027-01-01, in 60 days")
