"""Pages that answer one question each, in a browser: no serious violation, reached and opened by the keyboard, whole on a phone and on paper; a node is
found by its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from tests.browser.served import served
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home

PROVIDER = "simulated-h100"
DRIFT = """  drift:
    - {kind: node_fault, since: "2026-01", on_nodes: [2], counters: {row_remap_pending: 1}}
    - {kind: node_fault, since: "2026-01", on_nodes: [3], counters: {row_remap_failure: 1}}
  outages:
    - {begin: "2026-10-05T09:00:00Z", end: "2026-10-05T21:30:00Z"}
watch:
  uptime: {every: 1h}
"""
PAGES = (
    "/promises",
    "/availability",
    "/acceptance",
    "/campaigns/accept-1",
    f"/providers/{PROVIDER}/promises",
    "/since?since=2026-01-01",
    "/invoices",
    "/owning",
    "/scaling",
    "/places",
)
OWNED = """owned: [{instances: 1, capital: 300000 USD, years: 4, power_kw: 10, pue: 1.3, energy: 0.12 USD/kWh, since: 2026-01-01, source: offer}]
"""
INVOICE = """BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,PricingQuantity,PricingUnit,RegionId,SkuId
117.00,USD,Usage,2026-10-05T09:00:00Z,2026-10-05T12:00:00Z,117.00,3,Hours,nowhere,Box:simulated-8xh100
"""
PAPER = 700
CUT = """() => [...document.querySelectorAll('main .scroll')].filter((box) => box.offsetParent && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.getAttribute('aria-label') || box.innerText.slice(0, 60))"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Pages of one provider with promises, an outage and an acceptance of four nodes, of which one is to be reset and one goes back."""
    folder = tmp_path_factory.mktemp("answers")
    config = shutil.copytree(CONFIG, folder / "config")
    file = config / "providers" / f"{PROVIDER}.yaml"
    text = file.read_text().replace("enabled: false", "enabled: true").replace("sla: {", "sla: {availability: 99.9%, ")
    head, _, rest = text.partition("  drift:\n")
    file.write_text(f"{head}{DRIFT}{rest[rest.index('prices:') :]}{OWNED}")
    (folder / "invoice.csv").write_text(INVOICE)
    with override_home(folder / "home", config), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = CliRunner().invoke(
            app, ["rehearse", "--provider", PROVIDER, "--workload", "pretrain-1b-gpu", "--campaigns", "2026-10..2026-10", "--repeats", "1"]
        )
        assert ran.exit_code in (0, 4), ran.output
        done = CliRunner().invoke(app, ["accept", PROVIDER, "--campaign", "accept-1", "--nodes", "4"])
        assert done.exit_code == 4, done.output
        bill = CliRunner().invoke(app, ["cost", "reconcile", "invoice.csv", "--provider", PROVIDER, "--record"])
        assert bill.exit_code == 4, bill.output
        with served(create_app()) as found:
            yield found


def opened(page: Page, url: str) -> None:
    page.goto(url, wait_until="load")
    page.wait_for_function("() => !document.querySelector('[data-later]')")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_axe_finds_no_serious_violation(address: str, chromium: Browser, scheme: Literal["light", "dark"]) -> None:
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True, viewport={"width": 1280, "height": 900})
    page, found = context.new_page(), {}
    for path in PAGES:
        opened(page, address + path)
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true })")
        bad = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
        found[path] = [(v["id"], v["nodes"][0]["html"]) for v in bad]
    assert {path: bad for path, bad in found.items() if bad} == {}
    context.close()


@pytest.mark.parametrize("paths", [PAGES[2:3], pytest.param(PAGES, marks=pytest.mark.full)], ids=["acceptance", "every page"])
def test_every_link_and_fold_is_reached_by_the_keyboard(address: str, chromium: Browser, paths: tuple[str, ...]) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    for path in paths:
        opened(page, address + path)
        wanted = page.locator("main a:visible, main summary:visible, main button:visible").count()
        page.evaluate("() => { document.body.tabIndex = -1; document.body.focus(); }")
        reached = set()
        for _ in range(wanted + 60):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate("() => [...document.querySelectorAll('main a, main summary, main button')].indexOf(document.activeElement)")
            )
        assert len(reached - {-1}) == wanted, path
    opened(page, address + "/acceptance")
    page.locator("main summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("main details").first.evaluate("each => each.open")
    page.close()


def test_nothing_is_wider_than_a_phone_or_cut_on_paper(address: str, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    for path in PAGES:
        page.set_viewport_size({"width": 390, "height": 844})
        opened(page, address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        assert page.evaluate(CUT) == [] and page.evaluate("document.documentElement.scrollWidth") <= PAPER, path
        assert page.locator("header.bar").is_hidden(), path
        page.emulate_media(media="screen")
    context.close()


def test_a_node_is_found_by_its_name_and_leads_to_its_verdict(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    opened(page, address + "/acceptance")
    row = page.locator("tr[data-node]").first
    node = row.get_attribute("data-node") or ""
    opened(page, address + "/")
    page.keyboard.press("Control+k")
    page.keyboard.type(node)
    page.locator("dialog").get_by_text(f"{node} of {PROVIDER}", exact=False).first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/acceptance#{PROVIDER}-*")
    page.close()
