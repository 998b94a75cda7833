"""The report in a real browser with the network off: charts drawn, nothing asked of anyone, nothing to complain about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.chromium import QUICK_SHAPES, browser, executable, opened
from tests.browser.sample import campaign

from plumbline.presentation.html.report import write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(executable() is None, reason="no Chromium found: install the package chromium or name one in CHROMIUM"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(campaign(folder / "results"), folder / "reports")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_charts_are_drawn_offline_without_a_complaint(report: Path, chromium: Browser, shape: str) -> None:
    with opened(chromium, report, shape) as (page, errors, requests):
        assert errors == []
        assert requests == []
        declared = page.locator("script[data-for]").count()
        assert declared > 20
        assert page.locator("#chart-cost-bill svg.main-svg").first.is_visible()
        # What is folded is drawn when a person unfolds it, and not before: it has no width to be drawn in.
        folded = page.locator("details .chart")
        assert folded.count() > 0 and page.locator("details .chart.js-plotly-plot").count() == 0
        for summary in page.locator("section:not(#raw) details > summary").all():
            summary.click()
        page.wait_for_function("document.querySelectorAll('.chart').length === document.querySelectorAll('.chart.js-plotly-plot').length")
        # Plotly stacks its drawing, its hover layer and its menu: a chart has drawn when it has a main SVG with marks in it.
        drawn = page.evaluate(
            "[...document.querySelectorAll('.chart')].filter(c => c.querySelector('svg.main-svg') "
            "&& c.querySelectorAll('.scatterlayer .trace, .barlayer .trace').length).length"
        )
        assert drawn == declared
        assert page.locator("svg.main-svg").count() >= declared
        assert errors == []
        assert requests == []
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "the page itself must not scroll sideways; wide tables scroll in their own boxes"


def test_charts_follow_the_colour_scheme(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, errors, _):

        def text_colour() -> str:
            return str(page.evaluate("getComputedStyle(document.querySelector('.chart .xtick text')).fill"))

        light = text_colour()
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"getComputedStyle(document.querySelector('.chart .xtick text')).fill !== '{light}'")
        assert text_colour() != light
        assert errors == []


def test_raw_data_opens_by_keyboard(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, _, _requests):
        summary = page.locator("#raw details summary").first
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("#raw details").first.get_attribute("open") is not None
