"""Routing, quiet hours and volumes as people declare them; each mistake gives one error with file, line, field and what was expected."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
import yaml
from tests.unit.declarations.test_broken import only_problem

from plumbline.declarations import Alerts, QuietHours, Route, load
from plumbline.declarations.alerts import Condition, RentedVolume
from plumbline.declarations.installation import REPOSITORY

WHOLE = """\
airflow_url: https://airflow.example.com
remind_every: 3d
reopen_within: 30d
routes:
  - when: {provider: "h*", severity: [page]}
    channels: [C0123456789, C0987654321]
    owner: U0123456789
  - when: {workload: gpt, kind: [performance]}
    channels: [G0123456789]
    quiet_hours: {start: "20:00", end: "07:00", timezone: Europe/Berlin, days: [sat]}
  - owner: S0123456789
volumes:
  - {provider: here, time_per_month: 730h}
  - {provider: "h*", workload: gpt, time_per_month: 40h, purchase: spot}
"""


@pytest.fixture
def declared(config: Path) -> Path:
    (config / "alerts.yaml").write_text(WHOLE)
    return config


def test_the_whole_file(declared: Path) -> None:
    alerts = load(declared).alerts
    assert [route.owner for route in alerts.routes] == ["U0123456789", None, "S0123456789"]
    assert (alerts.remind_every, alerts.volumes[0].time_per_month, alerts.volumes[1].purchase) == (3 * 86400, 730 * 3600, "spot")


def test_the_page_shows_a_file_that_is_right_and_every_key() -> None:
    page = (REPOSITORY / "docs" / "alerts.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    shown, *channels = [Alerts.model_validate_json(json.dumps(yaml.safe_load(example))) for example in examples]
    assert {channel.kind for each in channels for channel in each.channels.values()} == {"notifier", "webhook"}
    assert len(shown.routes) == 3 and len(shown.volumes) == 2
    for model in (Alerts, Route, Condition, QuietHours, RentedVolume):
        assert [name for name in model.model_fields if name not in page] == []


def test_without_the_file_there_are_no_rules(config: Path) -> None:
    alerts = load(config).alerts
    assert (alerts.routes, alerts.volumes, alerts.remind_every) == ((), (), 7 * 86400)


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ("C0987654321]", '"#alerts"]', "6  routes[0].channels[1]", "a channel's id such as C0123456789, not its name"),
        ("C0987654321]", "C0123456789]", "6  routes[0].channels", "names a channel twice"),
        ("owner: U0123456789", "owner: ada", "7  routes[0].owner", "user group (S0123456789)"),
        (
            "Europe/Berlin",
            "Berlin",
            "10  routes[1].quiet_hours.timezone",
            '"Berlin" is no time zone; expected a name such as Europe/Berlin',
        ),
        ('end: "07:00"', 'end: "20:00"', "10  routes[1].quiet_hours.end", "as start; expected another"),
        ('end: "07:00"', 'end: "7am"', "10  routes[1].quiet_hours.end", 'such as "07:00"'),
        ("{workload: gpt, kind: [performance]}", "{}", "8  routes[1].when", "names nothing"),
        ("kind: [performance]", "kinds: [performance]", "8  routes[1].when.kinds", "did you mean kind?"),
        ("  - when: {workload: gpt, kind: [performance]}\n    channels", "  - channels", "8  routes[1]", "expected it last"),
        ("  - owner: S0123456789", "  - when: {kind: [price]}", "11  routes[2]", "does nothing; expected channels, owner or quiet_hours"),
        ('provider: "h*", severity', 'provider: "hr*", severity', "5  routes[0].when.provider", 'no declared provider fits "hr*"'),
        ("workload: gpt, kind", "workload: gtp, kind", "8  routes[1].when.workload", "such as gpt"),
        ("{provider: here,", "{provider: there,", "13  volumes[0].provider", 'no declared provider fits "there"'),
        ("workload: gpt, time", "workload: gtp, time", "14  volumes[1].workload", "such as gpt"),
        ("730h", "730", "13  volumes[0].time_per_month", "expected a duration such as 60s"),
        (
            '{provider: "h*", workload: gpt, time_per_month: 40h, purchase: spot}',
            "{provider: here, time_per_month: 1h}",
            "14  volumes[1]",
            "one entry",
        ),
        ("remind_every: 3d", "remind_every: 1s", "2  remind_every", "3600"),
        ("https://airflow", "airflow", "1  airflow_url", "such as https://airflow.example.com"),
    ],
)
def test_each_mistake_is_named(declared: Path, old: str, new: str, where: str, said: str) -> None:
    assert WHOLE.count(old) == 1
    (declared / "alerts.yaml").write_text(WHOLE.replace(old, new))
    problem = only_problem(declared)
    assert f"alerts.yaml:{where}:" in problem and said in problem


@pytest.mark.parametrize(
    ("at", "quiet"),
    [
        ("2026-11-20T18:59", False),  # Friday 19:59 in Berlin
        ("2026-11-20T19:00", True),
        ("2026-11-20T05:59", True),
        ("2026-11-20T06:00", False),
        ("2026-11-21T11:00", True),  # a Saturday
        ("2026-11-22T11:00", False),
        ("2026-07-01T18:00", True),  # in summer the same clock is an hour earlier in UTC
        ("2026-07-01T17:59", False),
    ],
)
def test_quiet_hours_go_by_the_clock_of_their_zone(at: str, quiet: bool) -> None:
    hours = QuietHours(start="20:00", end="07:00", timezone="Europe/Berlin", days=("sat",))
    assert hours.quiet(datetime.fromisoformat(at).replace(tzinfo=timezone.utc)) is quiet


def test_a_volume_for_providers_to_come_is_no_mistake(declared: Path) -> None:
    (declared / "alerts.yaml").write_text(WHOLE.replace('"h*", workload: gpt, time', '"gone-*", workload: gpt, time'))
    assert load(declared).alerts.volumes[1].provider == "gone-*"


def test_quiet_hours_within_a_day() -> None:
    noon = QuietHours(start="12:00", end="13:00", timezone="UTC")
    assert [noon.quiet(datetime(2026, 11, 20, hour, tzinfo=timezone.utc)) for hour in (11, 12, 13)] == [False, True, False]


def test_a_week_must_have_a_day_left() -> None:
    with pytest.raises(ValueError, match="days"):
        QuietHours(start="20:00", end="07:00", timezone="UTC", days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"))


def test_a_condition_holds_for_what_it_names() -> None:
    rule = Condition(provider="core*", workload="gpt*", kind=("performance",))
    assert rule.holds("coreweave", ("chat", "gpt-8b"), "performance", "warn")
    assert not rule.holds("nebius", ("gpt-8b",), "performance", "warn")
    assert not rule.holds("coreweave", ("chat",), "performance", "warn")
    assert not rule.holds("coreweave", (), "performance", "warn"), "of no workload at all"
    assert not rule.holds("coreweave", ("gpt-8b",), "price", "warn")
    assert not Condition(severity=("page",)).holds("coreweave", (), "price", "warn")
