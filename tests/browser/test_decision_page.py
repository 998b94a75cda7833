"""The page of a decision in a real browser: sliders recompute, by keyboard too, and every number leads to its trials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.chromium import QUICK_SHAPES, SHAPES, executable
from tests.browser.sample import BEGAN
from tests.browser.served import served
from tests.browser.test_dashboard import seeded

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.workflows.decide import decide_all

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(executable() is None, reason="no Chromium found: install the package chromium or name one in CHROMIUM"),
]
DECISION = "/decisions/product/inference?workload=chat-tiny-cpu"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample campaign of two providers, one fast and one cheap, with its decisions stored."""
    home = seeded(tmp_path_factory.mktemp("home"))
    with open_archive(f"sqlite:///{home / 'archive.db'}") as archive:
        decide_all(archive, load(), BEGAN.date(), "campaign 2026-11 was reported")
    app = create_app(archive_url=f"sqlite:///{home / 'archive.db'}", reports=home / "reports")
    with served(app) as found:
        yield found


@pytest.fixture
def page(address: str, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(address + DECISION, wait_until="load")
    yield opened
    context.close()
    assert complaints == []


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
    before = shown(page)
    for slider in page.locator("input[type=range]").all():
        slider.press("Home")
    page.locator("#answer[data-invalid]").wait_for()
    assert shown(page) == before


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


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_the_pages_fit_every_window(address: str, chromium: Browser, shape: str) -> None:
    context = chromium.new_context(**SHAPES[shape])  # type: ignore[arg-type]
    page = context.new_page()
    for path in (DECISION, "/decisions", "/prices", "/prices/local-2core", "/findings", "/findings/7a11c2d94e0b", "/campaigns/2026-11"):
        page.goto(address + path, wait_until="load")
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, path
    context.close()
