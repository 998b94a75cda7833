"""Twenty questions of three users, asked on the pages and on the command line.

`python -m tests.browser.questions [FOLDER]` simulates a year of three providers with promises, an outage, a delivery and an invoice (or takes
the one in FOLDER), and prints the rows of docs/measurements/questions.md: way, clicks, seconds, and whether the answer is the right one.
The clicks follow visible links from the overview, the seconds are those of the last page and of the command in this process.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.browser import fleet  # noqa: E402
from tests.parsed import Parsed  # noqa: E402

from plumbline.cli.app import app  # noqa: E402
from plumbline.dashboard.app import create_app  # noqa: E402
from plumbline.declarations.installation import override_home  # noqa: E402


@dataclass(frozen=True)
class Question:
    """`clicks`: texts of the links from the overview; `answer`: what the page says then, as a pattern; `command` and `said`: the same on the
    command line."""

    who: str
    text: str
    clicks: tuple[str, ...]
    answer: str
    command: str
    said: str


QUESTIONS = (
    Question(
        "product", "Where do I serve my model, and how sure is that?", ("product · inference",),
        r"cirrus-eu-h100.{0,200}8\d %", "decide --team product", r"cirrus-eu-h100.{0,200}8\d(\.\d)? %",
    ),
    Question(
        "product", "What does moving from where I run save a month?", ("Could be saved",),
        r"borealis-eu-h100.{0,40}aurora-us-h100|aurora-us-h100.{0,400}borealis-eu-h100", "status", r"1,030 USD a month.{0,80}borealis-eu-h100 → aurora-us-h100",
    ),
    Question(
        "product", "Why did my first choice move?", ("product · inference",),
        r"borealis-eu-h100 raised its price 30 %|price rose 2\.99 → 3\.90", "findings", r"borealis-eu-h100 raised its price 30 % on 1 September 2026",
    ),
    Question("product", "What happened since Monday?", ("Events",), r"campaigns? ended.*First choice of product", "status --since 7d", r"First choice of product"),
    Question(
        "product", "How long until more load is served, at each provider?", ("Workloads", "Scaling"),
        r"No served workload steps its load up\. The phase", "scaling", r"scale_out",
    ),
    Question(
        "product", "In which region is my model served best?", ("Workloads", "Places"),
        r"58\.9/s .{0,20}… .{0,10} cirrus-eu-h100 best place", "places chat-1b-gpu", r"best place",
    ),
    Question(
        "product", "How many repeats and hours is the ranking made of?", ("product · inference",),
        r"3 repeats", "decide --team product -v", r"3 repeats",
    ),
    Question(
        "platform", "What drifted, since when, and why?", ("Open findings",),
        r"driver 550\.90\.07 → 570\.86\.15.{0,80}8\.3 % slower since June 2026", "findings", r"8\.3 % slower since June 2026",
    ),
    Question(
        "platform", "Which nodes of the delivery go back, and which are reset first?", ("Promises", "Acceptance"),
        r"Send back 1 of 4 nodes: cirrus-eu-h100-node-3; reset first 1 of 4 nodes: cirrus-eu-h100-node-2", "accept cirrus-eu-h100 --last", r"node-3.*send back|send back.*node-3",
    ),
    Question(
        "platform", "Was the network of the delivery measured?", ("Promises", "Acceptance"),
        r"network between nodes was not measured", "accept cirrus-eu-h100 --last", r"network.{0,40}not measured",
    ),
    Question(
        "platform", "Who was down in October, and how long?", ("Promises", "Availability", "2026-10"),
        r"aurora-us-h100.*2026-10-05", "availability aurora-us-h100 --month 2026-10", r"2026-10-05",
    ),
    Question(
        "platform", "What would prove a promise that is still open?", ("Promises", "borealis-eu-h100"),
        r"381 launches without a failure", "promises borealis-eu-h100", r"381 launches without a failure",
    ),
    Question(
        "platform", "Who still runs the old driver?", ("Changes",), r"borealis-eu-h100 : 550\.90\.07 cirrus-eu-h100 : 550\.90\.07",
        "findings list -v", r"[Ss]till on another value.{0,80}550\.90\.07",
    ),
    Question(
        "platform", "How did the newest campaign end?", ("Newest campaign",), r"18 trials|all 18|18 of 18", "status", r"2026-10.{0,6}18 trials",
    ),
    Question(
        "finance", "What was paid last month and this one, and what comes next?", ("Spend",),
        r"2026-10.*2026-11.*2026-12", "cost month", r"2026-10.*2026-11.*2026-12",
    ),
    Question("finance", "What do open findings cost a month?", ("Lost a month",), r"6,038", "findings", r"6,038"),
    Question(
        "finance", "What can be claimed, and until when?", ("Promises",), r"2,014\.80 USD .{0,8}[Tt]o claim until 30 December 2026",
        "promises", r"2,014\.80 USD; to claim until 30 December 2026",
    ),
    Question(
        "finance", "Does the invoice agree?", ("Spend", "Invoices"), r"1 of 1 invoice differs, 82\.80 USD more than expected",
        "cost invoices", r"82\.80",
    ),
    Question(
        "finance", "Which price is in force at borealis, by whom and why?", ("Prices", "borealis-eu-h100"),
        r"23\.92 → 31\.20 USD/h .{0,10}2026-09-01 declared simulated price change", "prices list borealis-eu-h100", r"31\.20.*2026-09-01",
    ),
    Question(
        "finance", "From which use on is owning cheaper than renting?", ("Spend", "Owning and renting"),
        r"cheapest is rent below 25\.8 % and own from 25\.8 % of the capacity", "cost break-even cirrus-eu-h100 chat-1b-gpu", r"25\.8 %",
    ),
)  # fmt: skip
"""Of the year that `installation` makes; an answer is right by what it plants: a price, a driver, faults of two nodes, an outage, an invoice."""

_CIRRUS = """
owned: [{instances: 1, capital: 300000 USD, years: 4, residual: 50000 USD, power_kw: 10, pue: 1.3, energy: 0.12 USD/kWh, since: 2025-01-01, source: "offer"}]
"""
_ALERTS = 'volumes: [{provider: "*", purchase: on_demand, time_per_month: 730h}]\n'
_ECONOMICS = (
    'assumptions: [{provider: "*", utilisation: {low: 30%, expected: 50%, high: 80%}, '
    'volume: {requests: 50000000}, growth: 5%/month, source: "made up"}]\n'
)
_PROMISES = "sla: {launch_success: 99%, provisioning_lead_time: 15min, availability: 99.9%, credits: [{below: 99.9%, credit: 10%}], claim_within: 60d}\n"
_OUTAGE = '  outages:\n    - {begin: "2026-10-05T09:00:00Z", end: "2026-10-05T21:30:00Z"}\nwatch: {uptime: {every: 1h}}\n'
_NODES = """    - {kind: node_fault, since: "2026-10", on_nodes: [2], counters: {row_remap_pending: 1}}
    - {kind: node_fault, since: "2026-10", on_nodes: [3], counters: {row_remap_failure: 1}}
"""
_INVOICE = """BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,PricingQuantity,PricingUnit,RegionId,ResourceId,ServiceName,SkuId
27.60,USD,Usage,2026-10-01T02:00:00Z,2026-10-01T03:00:00Z,27.60,1,Hours,us-east,i-01,Compute,Box:simulated-8xh100
82.80,USD,Usage,2026-10-09T09:00:00Z,2026-10-09T12:00:00Z,82.80,3,Hours,us-east,i-03,Compute,Box:simulated-8xh100
"""


@contextmanager
def installation(folder: Path) -> Iterator[Path]:
    """The year, with what the questions are about; simulated if the folder does not hold it."""
    home, config = folder / "home", folder / "config"
    made = home.exists()
    with pytest.MonkeyPatch.context() as patch:
        if not made:
            patch.setattr(fleet, "declare", _declared(fleet.declare))
            fleet.rehearsed(folder)
        patch.chdir(folder)
        with override_home(home, config):
            if not made:
                (folder / "invoice.csv").write_text(_INVOICE)
                for command in (
                    "accept cirrus-eu-h100 --campaign accept-1 --nodes 4",
                    "cost reconcile invoice.csv --provider aurora-us-h100 --record",
                ):
                    ran(command)
            yield folder


def _declared(declare: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def more(folder: Path) -> Path:
        config = declare(folder)
        (config / "alerts.yaml").write_text(_ALERTS)
        (config / "economics.yaml").write_text(_ECONOMICS)
        providers = config / "providers"
        aurora, cirrus = providers / "aurora-us-h100.yaml", providers / "cirrus-eu-h100.yaml"
        text = aurora.read_text()
        aurora.write_text(re.sub(r"sla: .*\n", _PROMISES, text.replace("prices:", f"{_OUTAGE}prices:")))
        cirrus.write_text(cirrus.read_text().replace("drift: []", f"drift:\n{_NODES.rstrip()}") + _CIRRUS)
        return config

    return more


def ran(command: str) -> tuple[str, float]:
    """What a command prints on one line, and its seconds."""
    began = time.monotonic()
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return " ".join(done.output.split()), time.monotonic() - began


def followed(client: TestClient, clicks: tuple[str, ...]) -> tuple[str, str, float]:
    """Address and text of the page to which these links lead from the overview, and the seconds that it took. LookupError."""
    path = "/"
    for click in clicks:
        links = [(link.text, str(link.tag["href"])) for link in Parsed(client.get(path).text).all("a[href]")]
        fits = (lambda text, c=click: text == c, lambda text, c=click: text.startswith(c), lambda text, c=click: c in text)
        found = next((address for fit in fits for text, address in links if fit(text)), None)
        if found is None:
            raise LookupError(f"no link {click!r} on {path}")
        path = found.split("#")[0].replace("/plumbline", "", 1) or "/"
    began = time.monotonic()
    page = client.get(path)
    return path, Parsed(page.text).text, time.monotonic() - began


@dataclass(frozen=True)
class Answer:
    """`path`: of the page, or why no link leads to it. `page`, `command`: whether each has the right answer; `page_s`, `command_s`: how long it took."""

    path: str
    page: bool
    command: bool
    page_s: float = 0.0
    command_s: float = 0.0


def asked(client: TestClient, question: Question) -> Answer:
    said, took = ran(question.command)
    found = re.search(question.said, said) is not None
    try:
        path, text, seconds = followed(client, question.clicks)
    except LookupError as error:
        return Answer(str(error), False, found, 0.0, took)
    return Answer(path, re.search(question.answer, text) is not None, found, seconds, took)


def main(folder: Path) -> None:
    with installation(folder), TestClient(create_app()) as client:
        for number, question in enumerate(QUESTIONS, 1):
            answer, way = asked(client, question), " → ".join(question.clicks)
            said = f"{_word(answer.page)} | {answer.page_s:.1f} | `plumbline {question.command}` | {_word(answer.command)} | {answer.command_s:.1f}"
            sys.stdout.write(f"| {number} | {question.who} | {question.text} | {way} | {said} |\n")
            sys.stdout.flush()


def _word(right: bool) -> str:
    return "yes" if right else "no"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="questions-") as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
