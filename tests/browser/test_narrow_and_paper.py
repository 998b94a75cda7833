"""Every page of the fleet on a phone and on paper: nothing is wider than the screen, nothing cut, no navigation or sliders printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.airflow_pages import examples, routes
from tests.data.page_addresses import address_of

pytestmark = pytest.mark.full
PAPER = 700
"""Pixels between the margins of a page of A4, about."""
CUT = """() => [...document.querySelectorAll('main .scroll')].filter((box) => box.offsetParent && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.getAttribute('aria-label') || box.innerText.slice(0, 60))"""
SEEN = "(selector) => [...document.querySelectorAll(selector)].filter((box) => box.getClientRects().length).length"


def test_no_page_is_wider_than_a_phone_or_cut_on_paper(fleet: tuple[Path, Path], fleet_address: str, chromium: Browser) -> None:
    known = examples(*fleet)
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    wide, printed, seen = {}, {}, 0
    for route in routes(*fleet):
        url = fleet_address + address_of(route, known)
        if route.path.startswith("/reports/") or "text/html" not in context.request.get(url).headers.get("content-type", ""):
            continue
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(url, wait_until="load")
        page.wait_for_function("() => !document.querySelector('[data-later]')")
        seen += 1
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390 or (page.locator("header.bar").bounding_box() or {"height": 0})["height"] > 60:
            wide[route.path] = width
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        cut = page.evaluate(CUT)
        if cut or page.evaluate(SEEN, "header.bar, input, select") or page.evaluate("document.documentElement.scrollWidth") > PAPER:
            printed[route.path] = cut
        page.emulate_media(media="screen")
    assert seen >= 15
    assert wide == {}
    assert printed == {}
    context.close()
