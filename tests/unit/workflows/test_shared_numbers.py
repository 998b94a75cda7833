"""What several surfaces show is one number: pages, `--json`, report, mail and digest of a year of three providers, and of fifty providers."""

from __future__ import annotations

import csv
import email
import email.policy
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import yaml
from bs4 import Tag
from fastapi.testclient import TestClient
from tests.browser import fleet, large_fleet
from tests.data.finding_examples import finding_examples
from tests.data.large_fleet import large_fleet as wide_archive
from tests.fakes.kept_findings import keep
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.alerts import render
from plumbline.alerts.digest import render_digest
from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.installation import override_home
from plumbline.metrics.formatting import common_scale, format_amount, format_money, format_probability
from plumbline.workflows.alert import alert_of, build_digest
from plumbline.workflows.report import write_files

pytestmark = pytest.mark.full
VOLUMES = [{"provider": "*", "purchase": "on_demand", "time_per_month": "730h"}]
"""With these, what is lost has an amount."""


def as_lines(html: str) -> list[str]:
    """A page's text: a line for each row of a table, term, heading, list item and paragraph, innermost ones alone."""
    blocks = {"tr", "p", "li", "h1", "h2", "h3", "dt", "dd", "summary", "caption", "div", "section", "td"}
    tags = (tag for tag in Parsed(html).tag.find_all(True) if tag.name in blocks)
    innermost = (tag for tag in tags if tag.name == "tr" or blocks.isdisjoint(of.name for of in tag.descendants if isinstance(of, Tag)))
    return [Parsed(tag).text for tag in innermost]


@dataclass
class Surfaces:
    """Every surface over one archive; each is asked once."""

    home: Path
    campaign: str

    @cached_property
    def _client(self) -> TestClient:
        return TestClient(create_app(), root_path="/plumbline")

    def page(self, address: str) -> list[str]:
        """A page with the parts that its script loads, and the pages that its list goes on with."""
        if address in self._pages:
            return self._pages[address]
        lines, seen = list[str](), set[str]()
        more: str | None = f"{address}{'&' if '?' in address else '?'}parts=all"
        while more and more not in seen:
            seen.add(more)
            answer = self._client.get(more)
            assert answer.status_code == 200, (more, answer.text[:300])
            lines += as_lines(answer.text)
            link = next((a.tag["href"] for a in Parsed(answer.text).all("a") if a.text == "More"), None)
            more = urljoin(f"http://host{more}", str(link)).removeprefix("http://host").removeprefix("/plumbline") if link else None
        self._pages[address] = lines
        return lines

    @cached_property
    def _pages(self) -> dict[str, list[str]]:
        return {}

    def text(self, address: str) -> str:
        return str(self._client.get(address).text)

    def command(self, *words: str) -> Any:
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == 0, result.output[-500:]
        return json.loads(result.stdout)

    @cached_property
    def reports(self) -> dict[str, list[str]]:
        """The report of the newest campaign as page, text and mail."""
        write_files(self.campaign, mail=True)
        folder = self.home / "reports" / self.campaign
        mail = email.message_from_bytes((folder / "report.eml").read_bytes(), policy=email.policy.default)
        return {
            "report.html": as_lines((folder / "report.html").read_text()),
            "report.md": (folder / "report.md").read_text().replace("&lt;", "<").replace("**", "").splitlines(),
            "mail": as_lines(mail.get_body(("html",)).get_content()),  # type: ignore[union-attr]
        }

    @cached_property
    def fleet(self) -> set[str]:
        return {row["provider"] for row in self.command("check")["months"]}

    @cached_property
    def decisions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.command("decide")["decisions"]
        return rows


@pytest.fixture(scope="module", params=["three", "fifty"])
def surfaces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    built = fleet if request.param == "three" else large_fleet
    home, config = built.rehearsed(tmp_path_factory.mktemp(request.param))
    (config / "alerts.yaml").write_text(yaml.safe_dump({"volumes": VOLUMES}))
    with override_home(home, config):
        with open_archive() as archive:
            newest = archive.campaigns()[-1].campaign_id
        yield Surfaces(home, newest)


def has(lines: list[str], *parts: str) -> bool:
    """Whether one line has all parts."""
    return any(all(re.search(rf"(?<![\w.,]){re.escape(part)}(?![\w]|[.,]\d)", line) for part in parts) for line in lines)


def shows(lines: list[str], who: str, text: str) -> bool:
    """Whether a line about `who` has the quantity, in the precision that is one for all of its table."""
    (number,), unit = re.findall(r"[\d,.]*\d", text)[:1], text.lstrip("0123456789,.").strip()
    wanted = float(number.replace(",", ""))
    found = (float(n.replace(",", "")) for line in lines if who in line and unit in line for n in re.findall(r"\d[\d,]*(?:\.\d+)?", line))
    return any(n == pytest.approx(wanted, rel=0.006) for n in found)


def test_spend_and_forecast(surfaces: Surfaces) -> None:
    spend, page = surfaces.command("cost", "month"), surfaces.page("/spend")
    bought = list(csv.DictReader(io.StringIO(surfaces.text("/spend.csv"))))
    forecast = {row["provider"]: row["usd"] for row in surfaces.command("check")["months"]}
    for row in spend["rows"]:
        paid, planned = (f"{row[name]:,.2f}" for name in ("last_paid", "next_paid"))
        assert has(page, row["provider"], row["workload"], paid, planned), row
        (line,) = [one for one in bought if (one["provider"], one["workload"]) == (row["provider"], row["workload"])]
        assert any(
            float(value) == pytest.approx(row["last_paid"], abs=0.005) for value in line.values() if re.fullmatch(r"[\d.]+", value or "")
        )
    for total in spend["sums"]:
        assert has(page, *(f"{total[name]:,.2f}" for name in ("last_paid", "next_paid"))), total
    for provider, usd in forecast.items():
        assert usd == pytest.approx(sum(row["next_paid"] for row in spend["rows"] if row["provider"] == provider)), provider


def test_what_the_campaign_cost(surfaces: Surfaces) -> None:
    bills = surfaces.command("cost", "campaign", surfaces.campaign)["providers"]
    paid = format_money(sum(bill["paid"]["amount"] for bill in bills))
    for name, lines in surfaces.reports.items():
        assert any(paid in line for line in lines), (name, paid)
    for bill in bills:
        said = [line for line in surfaces.reports["report.md"] if line.startswith(f"- {bill['provider']} · {bill['kind']}: ")]
        assert all(f"paid for machines: {format_money(bill['paid']['amount'])}" in line for line in said), bill["provider"]
        assert said or len(surfaces.fleet) > 10, "a report of fifty providers names the dearest"


def test_the_headline_and_its_money(surfaces: Surfaces) -> None:
    said = surfaces.command("scorecard", surfaces.campaign)
    strip = {tile["name"]: tile for tile in surfaces.command("status")["tiles"]}
    overview = surfaces.page("/")
    for name, lines in surfaces.reports.items():
        text = " ".join(lines)
        assert said["headline"] in text, name
        assert all(tile["name"] in text and tile["value"] in text and tile["note"] in text for tile in said["tiles"]), name
        assert all(action["title"] in text and action["why"] in text for action in said["actions"]), name
        for row in said["choices"][:5]:
            assert any(row["team"] in line and row["workloads"] in line and row["provider"] in line for line in lines), (name, row)
    for tile in said["tiles"]:
        if tile["name"] == "Lost a month":
            assert strip[tile["name"]] == tile
        if tile["name"] in strip:
            assert strip[tile["name"]]["value"] in " ".join(overview)


def test_who_is_first_and_how_sure(surfaces: Surfaces) -> None:
    listed = surfaces.page("/decisions")
    pages = {(d["team"], d["kind"]): surfaces.page(f"/decisions/{d['team']}/{d['kind']}") for d in surfaces.decisions}
    for decision in surfaces.decisions:
        if decision["cannot_tell"]:
            continue
        first = decision["ranking"][0]
        sure = format_probability(first["probability_first"])
        # Many that are alike have no first, and the same probability.
        alike = any("no clear winner" in line and decision["team"] in line and decision["kind"] in line and sure in line for line in listed)
        who = "no clear winner" if alike else first["provider"]
        assert has(listed, decision["team"], decision["kind"], who, sure), decision["team"]
        assert any(first["provider"] in line and sure in line for line in pages[decision["team"], decision["kind"]])
        (of,) = decision["workloads"]
        assert has(surfaces.reports["report.md"], decision["team"], of, who, sure), (decision["team"], of)


def test_unit_costs_and_their_winner(surfaces: Surfaces) -> None:
    for decision in surfaces.decisions:
        for answer in decision["cheapest"]:
            page = surfaces.page(f"/workloads/{answer['workload']}")
            for setup in answer["setups"]:
                if setup["cost"] is not None and setup["meets"]:
                    cost = common_scale("USD", [setup["cost"]], answer["metric"]).text(setup["cost"])
                    assert any(setup["provider"] in line for line in page), setup["provider"]
                    assert any(cost in line for line in page), (answer["workload"], setup["provider"], cost)


def test_prices_in_force(surfaces: Surfaces) -> None:
    page = surfaces.page("/prices")
    for decision in surfaces.decisions:
        for provider, price in decision["prices"].items():
            if price["usd_per_hour"] is not None:
                assert has(page, provider, format_amount(price["usd_per_hour"])), provider
                assert any(format_money(price["usd_per_hour"], "USD/h") in line for line in surfaces.page(f"/providers/{provider}")), (
                    provider
                )


def test_leading_numbers_of_each_provider(surfaces: Surfaces) -> None:
    cards = surfaces.command("scorecard", surfaces.campaign)["scorecards"]
    campaign = " ".join(surfaces.page(f"/campaigns/{surfaces.campaign}"))
    for card in cards:
        if (primary := card["primary"]) is None or primary["value"] is None:
            continue
        value = common_scale(primary["unit"], [primary["value"]], primary["metric"]).text(primary["value"])
        page = surfaces.page(f"/workloads/{card['workload']}")
        assert shows(page, card["provider"], value), (card["provider"], card["workload"], value)
        if len(surfaces.fleet) <= 10:  # else the report shows the best
            assert any(value in line for line in surfaces.reports["report.html"]), (card["provider"], card["workload"], value)
        assert card["provider"] in campaign


def test_open_findings_are_counted_and_named_alike(surfaces: Surfaces) -> None:
    listed = surfaces.command("findings")["findings"]
    (tile,) = [one for one in surfaces.command("status")["tiles"] if one["name"] == "Open findings"]
    assert str(tile["value"]) == str(len(listed))
    overview, inbox = surfaces.page("/"), surfaces.page("/findings?state=open")
    assert any("Open findings" in line and str(len(listed)) in line for line in overview) or has(overview, str(len(listed)))
    now = datetime.now(timezone.utc)
    with open_archive() as archive:
        digest = render_digest(build_digest(archive, load(), f"{now:%Y-%m}", now, simulated=True)).text
    for finding in listed:
        assert any(finding["headline"] in line for line in inbox), finding["headline"]
        if finding["severity"] == "page":
            assert finding["headline"] in digest


def test_how_many_trials_there_were(surfaces: Surfaces) -> None:
    (newest,) = [one for one in surfaces.command("campaigns", "--all") if one["campaign_id"] == surfaces.campaign]
    planned, usable = newest["outcomes"]["planned"], newest["outcomes"]["usable"]
    (tile,) = [one for one in surfaces.command("status")["tiles"] if one["name"] == "Newest campaign"]
    page = " ".join(surfaces.page(f"/campaigns/{surfaces.campaign}"))
    assert f"{planned} trials" in tile["note"]
    if "More" not in page:  # the sum stands over a list that is whole
        assert f"{planned} trials: {usable} usable" in page


def test_states_of_series(surfaces: Surfaces) -> None:
    """Counted as of today on overview and command line; the report counts as of its campaign, where nothing is old yet."""
    (tile,) = [one for one in surfaces.command("status")["tiles"] if one["name"] == "Newest results"]
    assert any(tile["note"] in line for line in surfaces.page("/")), tile["note"]
    named = re.compile(r"\d+ drifted|\d+ moved")
    for name in ("report.md", "report.html"):
        (line,) = {
            line for line in surfaces.reports[name] if "against their baselines" in line and re.search(r"\d+ (drifted|steady|moved)", line)
        }
        assert set(named.findall(tile["note"])) == set(named.findall(line)), (name, line)


def money_of(lines: list[str]) -> list[str]:
    """The clauses of these lines that have an amount a month."""
    return [
        clause
        for line in lines
        for clause in re.split(r"[.;:](?=\s|$)|·", line)
        if re.search(r"USD a month|a month by|lost a month", clause)
    ]


MORE, LESS = r"\b(more|lost|costs?|raised)\b", r"\b(less|saves?|saved|saving)\b"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    """A first campaign: no team runs anywhere yet."""
    home, config = fleet.rehearsed(tmp_path_factory.mktemp("first"), months="2025-11..2025-11")
    (config / "alerts.yaml").write_text(yaml.safe_dump({"volumes": VOLUMES}))
    for team in (config / "teams").glob("*.yaml"):
        team.write_text(re.sub(r"  current: .*\n", "", team.read_text()))
    with override_home(home, config):
        yield Surfaces(home, "2025-11")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    """More providers than a page waits for, and an open finding of each type."""
    home, config = wide_archive(tmp_path_factory.mktemp("wide"))
    (config / "alerts.yaml").write_text(yaml.safe_dump({"volumes": VOLUMES}))
    with override_home(home, config):
        with open_archive() as archive:
            trial = archive.trials(archive.campaigns()[-1].campaign_id)[0]
            for finding in finding_examples(trial.series_key, trial.campaign_id, trial.campaign_id).values():
                keep(archive, finding)
        yield Surfaces(home, trial.campaign_id)


def test_every_sum_of_money_is_that_of_its_rows(surfaces: Surfaces) -> None:
    check_money(surfaces)


def test_the_sums_of_a_wide_archive_are_those_of_their_rows(wide: Surfaces) -> None:
    check_money(wide, simulated=False)
    assert wide.command("findings")["total"]["lost"] > 0, "it has findings that cost"


def test_a_first_campaign_claims_no_saving(first: Surfaces) -> None:
    check_money(first)
    status = first.command("status")
    (saving,) = [one for one in status["tiles"] if one["name"] == "Could be saved"]
    assert saving["value"] == "not known" and not [row for row in status["ledger"]["rows"] if row["sort"] == "move"]
    for name, lines in first.reports.items():
        assert not [line for line in lines if re.search(r"To save, run|saves [\d,.]+ USD|\bstay\b|move from", line)], name


def check_money(surfaces: Surfaces, simulated: bool = True) -> None:
    """The ledger: tile, status, inbox, findings, digest, report, mail and messages show one sum, which the rows that they name add up to."""
    status, listed = surfaces.command("status"), surfaces.command("findings")
    rows = [row for row in listed["amounts"] if row["sort"] == "cost"]
    lost = sum(row["usd"] for row in rows if row["usd"] is not None)
    assert listed["total"]["lost"] == pytest.approx(lost) and listed["total"]["unknown"] == sum(row["usd"] is None for row in rows)
    assert {row["row_id"] for row in status["ledger"]["rows"] if row["sort"] == "cost"} == {row["row_id"] for row in rows}
    (tile,) = [one for one in status["tiles"] if one["name"] == "Lost a month"]
    (saving,) = [one for one in status["tiles"] if one["name"] == "Could be saved"]
    moves = [row["usd"] for row in status["ledger"]["rows"] if row["sort"] == "move"]
    if any(moves):
        assert saving["value"] == format_money(sum(usd for usd in moves if usd))
    priced = [row for row in rows if row["usd"] is not None]
    if priced:
        assert tile["value"] == format_money(lost)
    shown = json.loads(surfaces.text("/findings.json"))
    assert shown["total"]["lost"] == pytest.approx(lost)
    inbox = Parsed(surfaces.text("/findings"))
    column = [dd.text for dd in inbox.all("dd.num")]
    costs = [float(text.replace(",", "")) for text in column if re.fullmatch(r"[\d,]+(\.\d+)?", text)]
    assert sum(costs) == pytest.approx(lost, abs=0.51 * max(1, len(costs))), column
    now = datetime.now(timezone.utc)
    with open_archive() as archive:
        digest = build_digest(archive, load(), f"{now:%Y-%m}", now, simulated=simulated)
        assert {row.row_id for row in digest.ledger.rows} == {row["row_id"] for row in listed["amounts"]}
        text = render_digest(digest).text
        alerts = [alert_of(archive, load(), view) for view in archive.findings("open")]
        messages = [line for each in alerts for line in render(each.finding, each.context).text.splitlines()]
    if priced:
        assert f"Lost a month: {format_money(lost)}" in text
        assert any(format_money(lost) in line for line in surfaces.page("/findings"))
        for name, lines in surfaces.reports.items():
            assert format_money(lost) in " ".join(lines), name
    texts = {
        "digest": text.splitlines(),
        "messages": messages,
        "inbox": surfaces.page("/findings"),
        "overview": surfaces.page("/"),
        **surfaces.reports,
    }
    texts["tiles"] = [f"{one['name']} {one['note']}" for one in status["tiles"]]
    for name, lines in texts.items():
        both = [clause for clause in money_of(lines) if re.search(MORE, clause) and re.search(LESS, clause)]
        assert not both, (name, both)
