"""From checked prices to findings: what is said, how loud, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.golden import Golden
from tests.unit.findings.conftest import written
from tests.unit.prices.readings import FIRST, ONE, RESERVED, SPOT, days

from plumbline.analysis.prices.check import check_price
from plumbline.findings import Reconciliation
from plumbline.findings.headline import headline
from plumbline.findings.price import price_finding, reconcile_prices
from plumbline.findings.types.price_change import PriceFinding
from plumbline.results.finding import Finding
from plumbline.results.price_reading import Reading
from plumbline.words.prices import verdict_reason


def found(*prices: float, accepted: float = 2.39, of: Reading = ONE) -> Finding:
    finding = price_finding(check_price(days(*prices, of=of), accepted))
    assert finding is not None
    return finding


def test_a_change_is_told_in_one_line_that_a_person_understands(golden: Golden) -> None:
    finding = found(2.39, 2.99, 2.99)
    golden("findings.price_changed", written(finding))
    assert (finding.kind, finding.subject, finding.since, finding.campaign_id) == ("price", "price on-demand", "2026-11-02", None)
    assert finding.effect == pytest.approx(0.251, abs=1e-3)


def test_prices_that_differ_late_are_told_with_the_decimals_that_they_need() -> None:
    assert "0.0401 → 0.041" in found(0.041, 0.041, accepted=0.0401).evidence
    assert "0.00001 → 0.000011" in found(0.000011, 0.000011, accepted=0.00001).evidence
    assert "100.00 → 101.50" in found(101.5, 101.5, accepted=100.0).evidence


@pytest.mark.parametrize(
    ("price", "of", "severity"),
    [(2.42, ONE, "warn"), (3.8, ONE, "warn"), (2.16, ONE, "info"), (2.14, ONE, "warn"), (3.0, SPOT, "warn"), (1.5, SPOT, "info")],
)
def test_a_rise_and_a_large_fall_of_a_list_price_warn_and_nothing_pages(price: float, of: Reading, severity: str) -> None:
    assert found(price, price, price, of=of).severity == severity


def test_what_was_read_on_the_way_is_named() -> None:
    assert "2.60 on 2026-11-02" in found(2.39, 2.6, 2.99, 2.99).explanation
    assert "2026-11-02" not in found(2.39, 2.99, 2.99).explanation


def test_a_hold_says_why_and_becomes_a_warning_when_it_stays(golden: Golden) -> None:
    once, twice = found(2.39, 0.69), found(2.39, 0.69, 0.69)
    assert (once.severity, twice.severity, once.subject) == ("info", "warn", "held price on-demand")
    verdict = check_price(days(2.39, 0.69), 2.39)
    golden("findings.price_held", written(once), reason=verdict_reason(verdict))


def test_what_is_unchanged_seen_once_or_first_is_no_finding() -> None:
    for prices, accepted in (((2.39,), 2.39), ((2.39, 2.99), 2.39), ((2.39,), None)):
        assert price_finding(check_price(days(*prices, of=replace(ONE, typical=(2.0, 3.0))), accepted)) is None


def test_an_outdated_price_leaves_open_findings_as_they_are() -> None:
    (change,) = course(2.39, 2.99, 2.99).opened
    hold = found(2.39, 0.69)
    catalog = replace(ONE, source="gpuhunt")
    outdated = check_price([catalog], 2.0, now=catalog.observed_at + timedelta(days=365))
    assert reconcile_prices([outdated], [change, hold]) == Reconciliation(unchanged=(change, hold))


def course(*prices: float, open_findings: tuple[Finding, ...] = (), accepted: float = 2.39, of: Reading = ONE):  # type: ignore[no-untyped-def]
    return reconcile_prices([check_price(days(*prices, of=of), accepted)], open_findings)


def test_a_change_opens_once_stands_as_it_is_and_goes_on_when_the_price_moves_further() -> None:
    (opened,) = course(2.39, 2.99, 2.99).opened
    again = course(2.39, 2.99, 2.99, 2.99, open_findings=(opened,))
    assert again == Reconciliation(unchanged=(opened,))
    further = course(2.39, 2.99, 2.99, 3.4, 3.4, open_findings=(opened.with_state("acknowledged"),))
    (now,) = further.continued
    assert (now.finding_id, now.since, now.state) == (opened.finding_id, opened.since, "acknowledged")
    assert "2.39 → 3.40" in now.evidence and "42 % on 2 November 2026" in headline(now)


def test_a_change_is_over_when_the_accepted_price_was_read_twice_again(golden: Golden) -> None:
    (opened,) = course(2.39, 2.99, 2.99).opened
    assert course(2.39, 2.99, 2.99, 2.39, open_findings=(opened,)).resolved == ()
    ((over, why),) = course(2.39, 2.99, 2.99, 2.39, 2.39, open_findings=(opened,)).resolved
    assert over is opened
    golden("findings.price_back", why)


def test_a_price_that_comes_back_after_it_was_settled_is_another_finding() -> None:
    first, later = found(2.39, 2.99, 2.99), found(2.39, 2.99, 2.99, 2.39, 2.99, 2.99)
    assert first.finding_id != later.finding_id
    assert first.finding_id == found(2.39, 2.99, 2.99, 2.99).finding_id


def test_a_hold_leaves_the_change_that_stands_alone_and_ends_with_a_price_that_can_be() -> None:
    (change,) = course(2.39, 2.99, 2.99).opened
    holding = course(2.39, 2.99, 2.99, 0.0, open_findings=(change,))
    (hold,) = holding.opened
    assert hold.subject == "held price on-demand" and holding.resolved == ()
    after = course(2.39, 2.99, 2.99, 0.0, 2.99, open_findings=(change, hold))
    ((over, why),) = after.resolved
    assert over == hold and "2.99" in why and "csv prices.csv" in why and after.unchanged == (change,)


def test_a_second_source_ends_a_hold_and_opens_the_change() -> None:
    catalog = replace(ONE, source="gpuhunt", source_version="20261103", amount=0.69, observed_at=FIRST + timedelta(days=2))
    hold = found(2.39, 0.69)
    went = reconcile_prices([check_price([*days(2.39, 0.69, 0.69), catalog], 2.39)], [hold])
    assert [f.subject for f in went.opened] == ["price on-demand"] and "confirmed by gpuhunt" in went.opened[0].evidence
    ((over, why),) = went.resolved
    assert over == hold and "gpuhunt confirms 0.69" in why


def test_a_spot_change_is_over_with_the_next_check_and_another_one_is_another_finding() -> None:
    (opened,) = course(1.0, 1.3, 1.3, accepted=1.0, of=SPOT).opened
    assert "median" in opened.evidence
    ((_, why),) = course(1.3, 1.3, 1.3, accepted=1.3, of=SPOT, open_findings=(opened,)).resolved
    assert "1.30" in why
    further = course(1.3, 1.6, 1.6, accepted=1.3, of=SPOT, open_findings=(opened,))
    assert [f.finding_id for f, _ in further.resolved] == [opened.finding_id] and len(further.opened) == 1


def test_terms_and_purchases_have_findings_of_their_own() -> None:
    assert PriceFinding.of("reserved", "1y") == "price reserved 1y"
    (opened,) = course(2.0, 2.2, 2.2, accepted=2.0, of=RESERVED).opened
    three_years = replace(RESERVED, term="3y")
    assert len(course(2.0, 2.2, 2.2, accepted=2.0, of=three_years, open_findings=(opened,)).opened) == 1


def test_a_simulated_provider_is_told_as_such() -> None:
    (opened,) = reconcile_prices([check_price(days(2.39, 2.99, 2.99), 2.39)], [], simulated=True).opened
    assert opened.simulated and headline(opened).startswith("coreweave-h100 raised its price 25 %")
