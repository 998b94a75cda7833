"""The page of a decision in a real browser: sliders recompute, by keyboard too, and every number leads to its trials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, ViewportSize
from tests.browser.chromium import WIDE
from tests.browser.sample import BEGAN
from tests.browser.served import served
from tests.browser.test_dashboard import seeded
from tests.data.acting import AppliedRuns, acting_as
from tests.unit.dashboard.pages.test_repeats import EXPERIMENTS

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.dashboard.pages import decisions
from plumbline.declarations import load
from plumbline.workflows.decide import decide_all

DECISION = "/decisions/product/inference?workload=chat-tiny-cpu"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample campaign of two providers, one fast and one cheap, with its decisions stored.

    The user may start repeats, of which two would raise the certainty."""
    home = seeded(tmp_path_factory.mktemp("home"), report=False)
    url = f"sqlite:///{home / 'archive.db'}"
    with open_archive(url) as archive:
        decide_all(archive, load(), BEGAN.date(), "campaign 2026-11 was reported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decisions, "next_experiments", lambda declared, decided: EXPERIMENTS)
        with served(create_app(archive_url=url, reports=home / "reports", acting=acting_as(AppliedRuns(url, held=True)))) as found:
            yield found


@pytest.fixture
def page(address: str, window: Page) -> Iterator[Page]:
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def fail(error: Error) -> None:
        complaints.append(str(error))

    window.on("console", note)
    window.on("pageerror", fail)
    window.goto(address + DECISION, wait_until="load")
    yield window
    window.remove_listener("console", note)
    window.remove_listener("pageerror", fail)
    window.set_viewport_size(WIDE)
    window.emulate_media(color_scheme="light")
    assert complaints == []


def violations(page: Page) -> list[tuple[str, str]]:
    """Serious ones, in light and in dark."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        drawn(page)
        found += Axe().run(page).response["violations"]
    return [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]


def shown(page: Page) -> list[str]:
    """Providers as they are ranked."""
    return [str(row.get_attribute("data-provider")) for row in page.locator("table.decided tbody tr").all()]


def drawn(page: Page) -> None:
    """Waits until every chart that the page declares has marks in it."""
    page.wait_for_function(
        "() => document.querySelectorAll('script[data-for]').length === [...document.querySelectorAll('.chart')]"
        ".filter(c => c.querySelector('.scatterlayer .trace, .barlayer .trace')).length"
    )


def test_a_slider_recomputes_the_ranking_and_the_charts_and_says_the_answer(page: Page) -> None:
    drawn(page)
    before, answer = shown(page), page.locator("#answer").inner_text()
    chart = page.locator("#probability-of-being-first .barlayer").inner_html()
    dearest = page.locator('input[name="w.cost_per_good_request"]')
    dearest.focus()
    dearest.press("End")
    for name in ("time_to_first_token", "time_per_output_token"):
        page.locator(f'input[name="w.{name}"]').press("Home")
    page.locator("#custom-weights").wait_for()
    page.wait_for_function("() => !document.getElementById('result').hasAttribute('aria-busy')")
    drawn(page)
    assert before[0] == "local-2core" and "local-2core" in answer
    assert shown(page)[0] == "local-1core" and "local-1core" in page.locator("#answer").inner_text(), "cost alone chooses another one"
    assert page.locator("#probability-of-being-first .barlayer").inner_html() != chart
    assert page.locator('output[for="w.cost_per_good_request"]').inner_text() == "100 %"
    assert "w.cost_per_good_request=100" in page.url
    page.reload(wait_until="load")
    assert shown(page)[0] == "local-1core", "the address says what was slid"
    page.locator("#declared").click()
    assert shown(page) == before


def test_nothing_can_be_decided_by_no_weight_at_all(page: Page) -> None:
    before, asked = shown(page), "**/*parts=main*"
    page.route(asked, lambda route: None)  # weights on the way are not answered
    for slider in page.locator("input[type=range]").all():
        slider.press("Home")
    page.locator("#answer[data-invalid]").wait_for()
    assert shown(page) == before
    page.unroute(asked)


def test_a_number_leads_to_the_trial_behind_it(page: Page) -> None:
    first = shown(page)[0]
    page.locator(f'tr[data-provider="{first}"] td a[href^="#"]').first.click()
    link = page.locator("details.behind[open] a").first
    link.wait_for(state="visible")
    name = link.inner_text()
    link.click()
    page.get_by_text(f"plumbline replay {name}", exact=False).first.wait_for(state="visible")
    assert f"/trials/{name}" in page.url


def test_without_a_script_the_form_decides_all_the_same(address: str, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + DECISION)
    page.locator('input[name="w.time_to_first_token"]').press("Home")
    page.locator('input[name="w.time_per_output_token"]').press("Home")
    page.get_by_role("button", name="Recompute").click()
    assert shown(page)[0] == "local-1core"
    context.close()


@pytest.mark.parametrize("width", [WIDE["width"], 390])
def test_the_pages_fit_every_window(address: str, page: Page, width: int) -> None:
    page.set_viewport_size(ViewportSize(width=width, height=WIDE["height"]))
    for path in (
        "/decisions",
        "/prices",
        "/prices/local-2core",
        "/findings",
        "/findings/7a11c2d94e0b",
        "/campaigns/2026-11",
        DECISION,
    ):
        page.goto(address + path, wait_until="load")
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, path


def test_the_old_address_of_a_negotiation_unfolds_what_would_change_the_first(address: str, page: Page) -> None:
    page.goto(f"{address}/decisions/product/inference/negotiate?workload=chat-tiny-cpu&provider=local-1core", wait_until="load")
    page.locator("#price-swings").wait_for(state="visible")
    assert page.url == f"{address}{DECISION}#sensitivity"


def test_axe_finds_no_serious_violation_beside_the_open_form_of_experiments(page: Page) -> None:
    for summary in page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    page.locator("form[aria-label='start repeats'] input[name=why]").fill("is it the node?")
    page.locator("form[aria-label='start repeats'] button").wait_for(state="visible")
    assert violations(page) == []


def test_repeats_are_started_by_keyboard_alone(page: Page) -> None:
    page.locator("form[aria-label='start repeats'] input[type=radio]").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "why"
    page.keyboard.type("is it the node?")
    page.keyboard.press("Enter")
    page.locator("#next-experiments ul.asked[role=status]").wait_for()
    assert "local-2core, chat-tiny-cpu: requested by ann: next best experiment: is it the node?" in page.locator("ul.asked").inner_text()
    assert page.url.endswith("#experiments")
