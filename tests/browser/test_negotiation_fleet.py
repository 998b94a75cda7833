"""The negotiation view with fifty providers: what it shows on a wide screen and on a phone, and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.fleet import TEAMS
from tests.browser.large_fleet import declare, record_months
from tests.browser.served import served

from plumbline.dashboard.app import create_app
from plumbline.declarations import load
from plumbline.declarations.installation import override_home

pytestmark = pytest.mark.full  # simulates a fleet first; test_decision_page.py tries the view with two providers
PROVIDERS = 49
"""Of fifty; one is silent in this campaign."""
LIMIT_MS = 180_000
"""The first page draws every provider's numbers."""
NEGOTIATE = "/decisions/product/inference/negotiate?workload=chat-1b-gpu&provider=delta-us-east-h100"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pages of one campaign of fifty simulated providers."""
    folder = tmp_path_factory.mktemp("fifty")
    home, config = folder / "home", declare(folder / "config")
    with override_home(home, config):
        record_months(load(), "2026-10", repeats=2, workloads=("chat-1b-gpu",))
        with served(create_app()) as found:
            yield found


def settled(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('#result:not([aria-busy])') !== null")
    page.wait_for_function("() => [...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('svg'))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_fits_the_window_and_begins_with_offer_and_answer(
    address: str, chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    page.goto(address + NEGOTIATE, wait_until="load")
    settled(page)
    assert page.locator("#provider option").count() == PROVIDERS
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    for selector in ("#provider", "#price", "#slide"):
        box = page.locator(selector).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width and box["y"] + box["height"] < 900, selector
    assert page.locator("#walk-away tbody tr").count() == 2
    assert page.locator("#moves tbody tr").count() == len(TEAMS)
    context.close()


def test_an_offer_that_makes_it_first_is_found_by_keyboard(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(LIMIT_MS)
    page.goto(address + NEGOTIATE, wait_until="load")
    settled(page)
    page.locator("#provider").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "price"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "slide"
    page.keyboard.press("Home")
    page.locator('#moves tr[data-moves="yes"]').first.wait_for()
    settled(page)
    assert "delta-us-east-h100" in page.locator('#moves tr[data-moves="yes"]').first.inner_text()
    assert "price=" in page.url
    page.close()
