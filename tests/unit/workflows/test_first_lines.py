"""The first line of each open finding is the same on every surface, in a year of three providers (tests/browser/fleet.py)."""

from __future__ import annotations

import email
import email.policy
import html
import json
import re
import textwrap
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from tests.browser.fleet import PROVIDERS, rehearsed
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.alerts import render
from plumbline.alerts.digest import render_digest
from plumbline.answers.monthly_costs import headlines
from plumbline.archive import Archive, open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.installation import override_home
from plumbline.workflows.alert import alert_of, build_digest
from plumbline.workflows.report import write_files

pytestmark = pytest.mark.full
RISE, MOVES = (
    "borealis-eu-h100 raised its price 30 % on 1 September 2026",
    "aurora-us-h100 leads for platform, cirrus-eu-h100 leads for product",
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Archive]]:
    """Its home and archive, with a declared volume: what is lost has an amount."""
    home, config = rehearsed(tmp_path_factory.mktemp("f3"))
    volumes = [{"provider": "*", "purchase": "on_demand", "time_per_month": "730h"}]
    (config / "alerts.yaml").write_text(yaml.safe_dump({"volumes": volumes}))
    with override_home(home, config), open_archive() as archive:
        yield home, archive


@pytest.fixture(scope="module")
def lines(fleet: tuple[Path, Archive]) -> dict[str, str]:
    return headlines(fleet[1], load(), fleet[1].findings("open"))


def test_a_price_and_the_choices_that_it_moved_are_one_line_with_money(lines: dict[str, str]) -> None:
    (story,) = {line for line in lines.values() if "price" in line}
    assert re.fullmatch(rf"{RISE}, about [\d,]+ USD a month more: {MOVES}", story), "the rise costs it, the move does not"
    assert len(lines) == len(set(lines.values())) + 1, "two first choices, one story"


def test_no_line_names_more_than_three_providers_or_its_severity(lines: dict[str, str]) -> None:
    for line in lines.values():
        assert sum(name in line for name in PROVIDERS) <= 3 and not re.search(r"PAGE|WARN|INFO|SIMULATED", line)


def test_pages_and_commands(fleet: tuple[Path, Archive], lines: dict[str, str]) -> None:
    client = TestClient(create_app(), root_path="/plumbline")
    inbox = Parsed(client.get("/findings?state=open").text).text
    listed = json.loads(CliRunner().invoke(app, ["findings", "--json"]).stdout)["findings"]
    printed = " ".join(CliRunner(env={"COLUMNS": "400"}).invoke(app, ["findings"]).stdout.split())
    assert {one["finding_id"]: one["headline"] for one in listed} == lines
    for finding_id, line in lines.items():
        assert Parsed(client.get(f"/findings/{finding_id}").text).texts("h1")[0] == line
        assert line in inbox and line in printed
        assert line in CliRunner().invoke(app, ["findings", "show", finding_id]).stdout.splitlines()[0]


def test_messages(fleet: tuple[Path, Archive], lines: dict[str, str]) -> None:
    _, archive = fleet
    now = datetime.now(timezone.utc)
    digest = render_digest(build_digest(archive, load(), f"{now:%Y-%m}", now, simulated=True)).text
    for view in archive.findings("open"):
        alert = alert_of(archive, load(), view)
        message = render(alert.finding, alert.context)
        assert message.title == f"SIMULATED {view.severity.upper()}: {lines[view.finding_id]}"
        assert message.title in message.blocks[0]["text"]["text"]
        assert message.text.splitlines()[0] == message.title and lines[view.finding_id] in digest


def test_report_and_mail(fleet: tuple[Path, Archive], lines: dict[str, str]) -> None:
    home, _ = fleet
    write_files("2026-10", mail=True)
    report = home / "reports" / "2026-10"
    mail = email.message_from_bytes((report / "report.eml").read_bytes(), policy=email.policy.default)
    texts = {
        "html": Parsed((report / "report.html").read_text()).text,
        "markdown": html.unescape((report / "report.md").read_text()),
        "mail": Parsed(mail.get_body(("html",)).get_content()).text,  # type: ignore[union-attr]
    }
    for name, text in texts.items():
        assert [line for line in lines.values() if line not in text] == [], name
        assert "no clear winner" in text and "first choice" in text, textwrap.shorten(text, 200)
