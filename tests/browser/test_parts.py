"""The slow parts of a large fleet's pages in a real browser: they come by themselves, work like the rest, and move nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route
from tests.browser.served import served
from tests.data.large_fleet import PROVIDERS, WORKLOAD, large_fleet

from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home

ONE = "/decisions/lab/training"
PAGES = (
    ("/", "lab-00"),
    pytest.param("/decisions", "lab-00", marks=pytest.mark.full),
    (ONE, "lab-00"),
    (f"/workloads/{WORKLOAD}", "Scorecard"),
)
"""Each with a word of its slow parts."""
SHIFTS = """window.shifts = 0; new PerformanceObserver((list) => { for (const shift of list.getEntries()) window.shifts += shift.value; })
.observe({ type: 'layout-shift', buffered: true })"""
FILLED = "() => !document.querySelector('[data-later], [aria-busy]')"
DRAWN = "() => [...document.querySelectorAll('.chart')].every((c) => c.querySelector('.trace, .js-plotly-plot, .main-svg'))"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return large_fleet(tmp_path_factory.mktemp("large"))


@pytest.fixture
def address(fleet: tuple[Any, Any]) -> Iterator[str]:
    """Of an app without cached answers."""
    with override_home(*fleet), served(create_app()) as found:
        yield found


def opened(chromium: Browser, **shape: Any) -> Page:
    page = chromium.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True, **shape).new_page()
    page.add_init_script(SHIFTS)
    return page


def violations(page: Page) -> list[str]:
    return [v["id"] for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(("path", "word"), PAGES)
def test_parts_come_by_themselves_and_move_little(address: str, chromium: Browser, path: str, word: str) -> None:
    page, held = opened(chromium), list[Route]()
    page.route("**/*parts=*", lambda route: route.continue_() if held else held.append(route))
    page.goto(address + path, wait_until="load")
    page.wait_for_function("() => document.querySelector('[data-later][aria-busy]')")
    assert word not in page.locator("main").inner_text()
    assert violations(page) == [], "while it loads"
    held[0].continue_()
    page.wait_for_function(FILLED)
    page.wait_for_function(DRAWN)
    assert word in page.locator("main").inner_text()
    assert violations(page) == []
    assert page.evaluate("window.shifts") < 0.1
    page.context.close()


def test_the_map_is_walked_and_tables_sort_as_if_they_came_with_the_page(address: str, chromium: Browser) -> None:
    page = opened(chromium)
    page.goto(address, wait_until="load")
    page.wait_for_function(FILLED)
    page.locator('table.heat td a[tabindex="0"]').focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("table.heat tbody tr:nth-child(2) td a").evaluate("e => e === document.activeElement")
    assert page.locator("table.heat tbody tr").count() == PROVIDERS
    page.goto(address + ONE, wait_until="load")
    page.wait_for_function(FILLED)
    assert page.locator("#result button.csv").count() and page.locator("#experiments").count() == 1
    page.locator('input[name="w.step_time"]').press("Home")
    page.locator("#custom-weights").wait_for()
    page.wait_for_function(FILLED)
    page.context.close()


def test_a_part_that_fails_says_why_and_leaves_its_link(address: str, chromium: Browser) -> None:
    page = opened(chromium)
    page.route("**/*parts=*", lambda route: route.fulfill(status=500, body="<main><p>disk on fire</p></main>", content_type="text/html"))
    page.goto(address + ONE, wait_until="load")
    status = page.locator("#result [role=status]")
    page.wait_for_function("() => !document.querySelector('[aria-busy]')")
    assert "disk on fire" in status.inner_text() and status.get_by_role("link").is_visible()
    page.context.close()


def test_without_a_script_a_link_leads_to_the_whole_page(address: str, chromium: Browser) -> None:
    page = opened(chromium, java_script_enabled=False)
    page.goto(address + ONE)
    page.locator("#result a").click()
    assert page.locator('tr[data-provider="lab-00"]').count() == 1
    page.goto(address + "/")
    page.locator("#map a").click()
    assert page.locator("table.heat").count() == 1
    page.context.close()
