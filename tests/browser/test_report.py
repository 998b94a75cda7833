"""The report in a real browser with the network off: the cover, its charts, folded sections, colours, and what a printer gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.chromium import QUICK_SHAPES, opened
from tests.browser.sample import campaign

from plumbline.presentation.html.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(campaign(folder / "results"), folder / "reports")


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_charts_are_drawn_offline_without_a_complaint(report: Path, chromium: Browser, shape: str) -> None:
    with opened(chromium, report, shape) as (page, errors, requests):
        assert page.locator("#cover svg.drawn").first.is_visible()
        folded = page.locator("details svg.drawn")
        assert folded.count() > 15 and not folded.first.is_visible()
        page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
        sizes = page.evaluate(
            "[...document.querySelectorAll('svg.drawn')].map((s) => [s.getBoundingClientRect().width, s.querySelectorAll('path, use').length])"
        )
        assert len(sizes) > 20 and all(width > 100 and marks > 2 for width, marks in sizes)
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "the page itself must not scroll sideways; wide tables scroll in their own boxes"
        assert (errors, requests) == ([], [])


def test_the_cover_fits_one_screen_and_answers(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, _, _requests):
        page.set_viewport_size({"width": 1280, "height": 800})
        assert page.locator("#cover").bounding_box()["height"] <= 800  # type: ignore[index]
        assert [page.locator("#cover .tile dt").nth(i).inner_text() for i in range(4)] == [
            "Spent",
            "Lost a month",
            "Could be saved",
            "Certainty",
        ]
        assert "1 regression" in page.locator("#cover h1").inner_text()
        assert page.locator("#cover tbody tr").count() >= 2
        assert page.locator("#cover .actions li .owner").count() >= 1


def test_charts_follow_the_colour_scheme(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, errors, _):

        def text_colour() -> str:
            return str(page.evaluate("getComputedStyle(document.querySelector('#cover svg.drawn text')).fill"))

        light = text_colour()
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"getComputedStyle(document.querySelector('#cover svg.drawn text')).fill !== '{light}'")
        assert errors == []


def test_a_folded_section_opens_by_its_link_and_by_keyboard(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, _, _requests):
        page.locator('nav a[href="#decisions"]').click()
        page.locator("#decisions table.ranking").first.wait_for()
        page.locator("#raw > details > summary").focus()
        page.keyboard.press("Enter")
        page.locator("#raw details.trial").first.wait_for()


def test_the_printed_page_begins_with_the_cover(report: Path, chromium: Browser) -> None:
    with opened(chromium, report, "wide-light") as (page, _, _):
        data = page.pdf()
    assert 2 <= len(re.findall(rb"/Type\s*/Page[^s]", data)) <= 12
