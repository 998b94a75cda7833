"""The provider page's availability: months, outages and the heat map of the week, from the checks in the archive."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from tests.fakes.trials import CONFIG
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.analysis.availability import HourOfWeek
from plumbline.archive import open_archive
from plumbline.cli.app import app as cli
from plumbline.dashboard.app import create_app
from plumbline.metrics.time_spans import month_span
from plumbline.presentation.availability import week_chart
from plumbline.presentation.charts.static import svg
from plumbline.results.availability_check import AvailabilityCheck

NOW = datetime.now(timezone.utc)
BEGIN = month_span(month_span(NOW)[0] - timedelta(days=1))[0]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Last month hour by hour: three misses at noon of the 2nd, an expired token the whole 3rd."""
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "simulated-2core.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"watch": {"uptime": {"every": "1h"}}}))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    causes: dict[int, str] = {**dict.fromkeys((36, 37, 38), "server_error"), **dict.fromkeys(range(48, 72), "bad_declaration")}
    checks = [
        AvailabilityCheck("simulated-2core", "uptime", BEGIN + timedelta(hours=n), c, c or "", None if c else 0.2, simulated=True)
        for n in range(240)
        for c in [causes.get(n)]
    ]
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        archive.save_availability_checks(checks)
    return TestClient(create_app(archive_url=url, reports=tmp_path / "reports"))


def test_the_page_shows_months_outages_and_the_week(client: TestClient) -> None:
    page = Parsed(client.get("/providers/simulated-2core").text)
    data = client.get("/providers/simulated-2core.json").json()
    (watch,) = data["watches"]
    _, month, _ = watch["months"]
    assert (month["month"], month["checks"], month["evidence"]) == (f"{BEGIN:%Y-%m}", 240 - 24, "213 of 216 checks answered")
    assert month["share"].endswith(" %") and month["low"] < 0.3 < 0.99 < month["high"], "most of the month was not watched"
    assert month["apart"] == "24 × bad declaration (ours)" and month["down"] == "3.00 h"
    (outage,) = watch["outages"]
    assert outage["opened"] == f"{BEGIN + timedelta(hours=36):%Y-%m-%d %H:%M}"
    assert (outage["recovery"], outage["whose"]) == ("3.00 h", "the provider's")
    assert "uptime-week" in page.charts


def test_a_provider_without_a_watch_has_no_such_section(client: TestClient) -> None:
    assert client.get("/providers/simulated-h100.json").json()["watches"] == []


def test_the_heat_map_separates_slow_hours_and_refusals_and_is_static_too() -> None:
    hours = [HourOfWeek(day, hour, 10.0, 4, 0) for day in range(5) for hour in range(24)]
    slow, refused = HourOfWeek(5, 9, 30.0, 4, 1), HourOfWeek(6, 9, None, 4, 4)
    chart = week_chart("capacity", "Time to a node", [*hours, slow, refused])
    assert chart is not None
    by_colour = {trace["marker"]["color"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in chart.data}
    assert len(by_colour["$good"]) == 120 and by_colour["$warn"] == [(9, 5)] and by_colour["$bad"] == [(9, 6)]
    assert "var(--" in svg(chart)
    assert week_chart("capacity", "Time to a node", [refused]) is None


def test_a_month_of_all_watched_providers_says_what_the_command_prints(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_ARCHIVE_URL", f"sqlite:///{tmp_path / 'archive.db'}")
    month = f"{BEGIN:%Y-%m}"
    data, page = client.get(f"/availability.json?month={month}").json(), Parsed(client.get(f"/availability?month={month}").text)
    printed = CliRunner().invoke(cli, ["availability", "--month", month, "--json"])
    assert json.loads(printed.stdout) == data
    (one,) = data["providers"]
    assert (one["provider"], one["simulated"], one["down_s"]) == ("simulated-2core", True, 3 * 3600.0)
    assert page.one("#summary").text == "1 of 1 watched provider was down, simulated-2core longest: 3.00 h."
    own = json.loads(CliRunner().invoke(cli, ["availability", "simulated-2core", "--month", month, "--json"]).stdout)
    assert (
        own[0]["months"] == one["watches"][0]["months"]
        and "213 of 216 checks answered" in page.one('[data-provider="simulated-2core"]').text
    )
    nothing = Parsed(client.get("/availability").text)
    assert nothing.one("#summary").text == "No check of 1 watched provider counts in this month: nothing is known.", "no check is not up"
    assert client.get("/availability?month=May").status_code == client.get("/availability?month=2099-01").status_code == 422
    assert ("page", "/availability") in {(place["kind"], place["path"]) for place in client.get("/jump").json()}
    assert page.one('nav[aria-label="pages beside this one"]').texts("a")[:2] == ["Promises", "Availability"]
