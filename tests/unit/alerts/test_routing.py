"""The first rule that fits says where a finding goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from tests.unit.alerts.test_message import FINDING

from plumbline.alerts.delivery import DeliveryTarget, route
from plumbline.declarations import Alerts, QuietHours, Route
from plumbline.declarations.alerts import Condition

HOME = "C0123456789"
NIGHT = QuietHours(start="20:00", end="07:00", timezone="UTC")
RULES = Alerts(
    routes=(
        Route(when=Condition(provider="local-*", severity=("page",)), channels=("C1111111111", "C2222222222"), owner="U0123456789"),
        Route(when=Condition(workload="chat"), channels=("C3333333333",)),
        Route(quiet_hours=NIGHT),
    )
)


def test_the_first_rule_that_fits() -> None:
    page = route(FINDING, RULES, HOME)
    assert (page.channels, page.owner, page.rule) == (("C1111111111", "C2222222222"), "U0123456789", "routes[0]")
    assert route(replace(FINDING, severity="warn"), RULES, HOME) == DeliveryTarget((HOME,), None, NIGHT, "routes[2]")


def test_a_rule_for_a_workload_holds_if_any_series_of_the_finding_is_of_it() -> None:
    both = replace(FINDING, severity="warn", series=(FINDING.series_key, "inference/chat@1/h2/triton/local-2core/here/host-2core"))
    assert route(both, RULES, HOME).channels == ("C3333333333",)


def test_without_rules_it_is_the_connections_channel() -> None:
    assert route(FINDING, Alerts(), HOME) == DeliveryTarget((HOME,))


def test_at_night_a_warning_waits_and_a_page_does_not() -> None:
    night, day = (datetime(2026, 11, 20, hour, tzinfo=timezone.utc) for hour in (23, 12))
    target = DeliveryTarget((HOME,), None, NIGHT)
    warn = replace(FINDING, severity="warn")
    assert target.waits(warn, night) and not target.waits(warn, day) and not target.waits(FINDING, night)
    assert not DeliveryTarget((HOME,)).waits(warn, night)
