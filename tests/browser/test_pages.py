"""Pages over a year of three simulated providers in a real browser: charts drawn from the installed Plotly, links from their marks, the
keyboard, narrow windows, and no script, style or request from anywhere else."""

from __future__ import annotations

import csv
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from tests.browser.chromium import QUICK_SHAPES, SHAPES

pytestmark = pytest.mark.full  # simulates months of a fleet first; test_dashboard.py tries the pages on one campaign
PROVIDER = "/providers/aurora-us-h100"
PAGES = {
    "/": 2,
    "/providers": 0,
    PROVIDER: 4,
    "/workloads": 0,
    "/workloads/chat-1b-gpu": 6,
    "/spend": 0,
}
"""Charts on each page."""


@pytest.fixture(scope="module")
def address(fleet_address: str) -> str:
    return fleet_address


def drawn(page: Page) -> int:
    page.wait_for_function("() => document.querySelectorAll('.chart').length === document.querySelectorAll('.chart.js-plotly-plot').length")
    return page.locator(".chart.js-plotly-plot svg.main-svg .scatterlayer").count()


@pytest.mark.parametrize("shape", QUICK_SHAPES)
def test_every_chart_is_drawn_without_a_complaint_and_without_anybody_else(address: str, chromium: Browser, shape: str) -> None:
    context = chromium.new_context(**SHAPES[shape])  # type: ignore[arg-type]
    page = context.new_page()
    complaints: list[str] = []
    elsewhere: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith((address, "data:", "blob:")) else None)
    for path, charts in PAGES.items():
        response = page.goto(address + path, wait_until="load")
        assert response is not None and response.status == 200, path
        assert page.locator(".chart").count() == charts, path
        assert drawn(page) >= charts, path
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, path
        assert page.locator("nav.places [aria-current=page]").count() == 1, path
    assert complaints == []
    assert elsewhere == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(address: str, chromium: Browser, scheme: Literal["light", "dark"]) -> None:
    # Past the pages' own policy, which lets no script from a test in.
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    found = {}
    for path in (
        *PAGES,
        "/?view=cost",
        "/?view=drift",
        "/decisions",
        "/decisions/platform/training",
        "/findings",
        "/changes",
        "/prices",
        "/invoices",
    ):
        page.goto(address + path, wait_until="load")
        drawn(page)
        violations = Axe().run(page).response["violations"]
        found[path] = [(v["id"], v["nodes"][0]["html"]) for v in violations if v["impact"] in ("serious", "critical")]
    assert {path: bad for path, bad in found.items() if bad} == {}
    context.close()


def test_the_first_screen_says_what_regressed_who_is_best_and_what_to_do(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    tiles = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.tile')].filter((e) => e.getBoundingClientRect().bottom < innerHeight)
          .map((e) => [e.querySelector('.kind').innerText, e.innerText.replace(/\\s+/g, ' ')]))"""
    )
    assert "on aurora-us-h100: pretrain-1b-gpu trains" in tiles["Open findings"]
    assert "chat-1b-gpu: aurora-us-h100" in tiles["Best on cost"]
    (saving,) = [text for name, text in tiles.items() if name in ("Best switch", "Could be saved")]
    assert "→ aurora-us-h100" in saving and "%" in saving
    assert "2026-10" in tiles["Newest campaign"]
    rows = page.locator(".heat tbody tr")
    assert (
        all(box is not None and box["y"] + box["height"] < 900 for box in (row.bounding_box() for row in rows.all())) and rows.count() == 3
    )
    page.close()


def test_a_cell_shows_its_number_interval_and_campaigns_by_pointer_and_keyboard(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address + "/?view=cost")
    assert "best" in (page.locator(".heat td.h0 a").first.get_attribute("aria-label") or "")
    drifted, card = page.locator(".heat td.d a").first, page.locator("#cellcard")
    assert "drifted" in (drifted.get_attribute("aria-label") or "")
    drifted.hover()
    card.locator("polyline").wait_for()
    assert len((card.locator("polyline").get_attribute("points") or "").split()) == 8, "one point a campaign"
    assert "…" in card.locator(".value small").inner_text()
    page.mouse.move(5, 5)
    card.wait_for(state="hidden")
    drifted.focus()
    card.locator("polyline").wait_for()
    before = card.locator("b").inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('#cellcard b').textContent !== before", arg=before)
    assert page.evaluate("document.activeElement.closest('td') !== null")
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    page.close()


def test_the_theme_is_airflows(address: str, chromium: Browser) -> None:
    # The frame is put into one of the pages, whose policy allows none.
    page = chromium.new_page(color_scheme="light", bypass_csp=True)
    colour = "() => getComputedStyle(document.body).backgroundColor"
    page.goto(address + "/workloads")
    light = page.evaluate(colour)
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    assert page.evaluate(colour) != light
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.reload()
    assert page.evaluate(colour) == light
    # Inside a page of the same origin, as in Airflow, its class decides and changes at once.
    page.evaluate("document.documentElement.className = 'dark'; document.body.innerHTML = '<iframe src=\"/workloads\"></iframe>'")
    inside = page.frame_locator("iframe")
    inside.locator("main").wait_for(state="attached")
    frame = page.frames[1]
    assert frame.evaluate(colour) != light and not inside.locator(".brand").is_visible()
    page.evaluate("document.documentElement.className = 'light'")
    frame.wait_for_function(f"{colour[6:]} === '{light}'")
    page.close()


def test_a_name_is_a_jump_away_and_a_table_sorts_and_leaves_as_csv(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address + "/decisions")
    page.keyboard.press("Control+k")
    page.keyboard.type("cirrus")
    page.locator("#jump li a").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/providers/cirrus-eu-h100")
    page.goto(address + "/campaigns/2026-10")
    table = page.locator("table", has=page.locator("button.sort")).first
    head = table.locator("button.sort").first
    head.click()
    first = table.locator("tbody tr > :first-child")
    rising = first.all_inner_texts()
    head.click()
    assert first.all_inner_texts() == rising[::-1] and len(set(rising)) > 1
    cells = table.locator("tbody tr").first.locator("th, td")
    for index, text in enumerate(("=1+1", "-2.5", "@now")):
        cells.nth(index).evaluate("(cell, text) => { cell.textContent = text; }", text)
    with page.expect_download() as download:
        table.locator("xpath=../following-sibling::button[1]").click()
    assert download.value.suggested_filename.endswith(".csv")
    line = list(csv.reader(download.value.path().read_text(encoding="utf-8").splitlines()))[1]
    assert line[:3] == ["'=1+1", "-2.5", "'@now"], "text that a spreadsheet would run is text, numbers stay numbers"
    page.close()


def test_no_script_stands_in_a_page_and_none_would_run(address: str, chromium: Browser) -> None:
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(address + PROVIDER)
    assert page.locator("script:not([src]):not([type='application/json'])").count() == 0
    page.evaluate("() => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s); }")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in said for said in complaints)
    page.close()


def test_a_provider_begins_with_its_year_against_the_fleet(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address + PROVIDER)
    assert drawn(page)
    box = page.locator("#figure-year").bounding_box()
    assert box is not None and box["y"] + box["height"] < 900, "on the first screen"
    assert "of 3 providers" in page.locator("#lane").inner_text()
    names = page.evaluate("() => document.querySelector('#year').data.map((trace) => trace.name)")
    assert {"aurora-us-h100", "finding", "environment"} <= set(names)
    folded = page.locator("#launches")
    folded.click()
    page.wait_for_function(
        "() => document.querySelector('[aria-labelledby=launches] .chart .main-svg').getBoundingClientRect().width > 200"
    )
    page.close()


def test_a_mark_of_the_trend_leads_to_its_trial(address: str, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto(address + PROVIDER)
    assert drawn(page)
    page.locator("summary", has=page.locator("#trend")).click()
    page.locator(".chart[id^=trend]").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('.chart[id^=trend] .main-svg').getBoundingClientRect().width > 200")
    place = page.evaluate(
        """() => {
          const div = document.querySelector('.chart[id^=trend]'), full = div._fullLayout;
          const trace = div.data.find((t) => t.name === 'repeats'), box = div.getBoundingClientRect();
          return [box.x + full.xaxis._offset + full.xaxis.d2p(trace.x[0]), box.y + full.yaxis._offset + full.yaxis.d2p(trace.y[0])];
        }"""
    )
    page.mouse.move(*place)
    page.wait_for_timeout(300)
    page.mouse.click(*place)
    page.wait_for_url("**/trials/**")
    assert page.locator("h1").inner_text().startswith("aurora-us-h100")
    page.close()


def test_another_number_is_chosen_by_keyboard_alone(address: str, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto(address + PROVIDER)
    assert drawn(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("summary", has=page.locator("#trend")).press("Enter")
    number = page.locator("select[name=metric]")
    number.focus()
    number.select_option(label="time to first token p95")
    number.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**metric=time_to_first_token.p95.steady**")
    assert "p95" in page.locator("figure[id^=figure-trend] h3").inner_text()
    page.close()


def test_wide_tables_scroll_by_keyboard_where_they_do_not_fit(address: str, chromium: Browser) -> None:
    for width, scrolls in ((390, True), (1440, False)):
        page = chromium.new_page(viewport={"width": width, "height": 844})
        page.goto(address + "/workloads/chat-1b-gpu")
        card = page.locator(".scroll", has=page.locator("table.card"))
        assert (card.get_attribute("tabindex") == "0") is scrolls
        page.close()


def test_no_table_is_cut_in_a_window_of_1280_pixels(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    for path in ("/", "/decisions/product/inference", "/decisions/platform/training", PROVIDER, "/workloads/chat-1b-gpu", "/prices"):
        page.goto(address + path, wait_until="load")
        cut = "boxes => boxes.filter(b => b.scrollWidth > b.clientWidth).map(b => b.getAttribute('aria-label'))"
        assert page.locator(".scroll").evaluate_all(cut) == [], path
    page.close()


def test_tables_that_a_slider_brought_or_a_fold_hid_scroll_by_keyboard_too(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 320, "height": 844})
    page.goto(address + "/decisions/product/inference", wait_until="load")
    page.locator("input[type=range]").first.press("End")
    page.locator("#custom-weights").wait_for()
    by_hand = "boxes => boxes.filter(b => b.scrollWidth > b.clientWidth).every(b => b.getAttribute('tabindex') === '0')"
    page.wait_for_function("() => !document.getElementById('result').hasAttribute('aria-busy')")
    assert page.locator("#result .scroll").evaluate_all(by_hand)
    assert page.locator("#result .setups").evaluate_all("tables => tables.every(t => t.parentElement.getAttribute('tabindex') === '0')")
    page.locator("#sensitivity > summary").click()
    page.locator("#prices-sensitivity summary").click()
    page.wait_for_function("() => document.querySelector('#prices-sensitivity .scroll').getAttribute('tabindex') === '0'")
    page.close()


def test_charts_follow_the_colour_scheme(address: str, chromium: Browser) -> None:
    # The frame is put into one of the pages, whose policy allows none.
    page = chromium.new_page(color_scheme="light", bypass_csp=True)
    page.goto(address + PROVIDER)
    assert drawn(page)
    colour = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => {colour} !== '{light}'")  # a function: the pages' policy forbids to evaluate a string
    page.close()


def test_without_scripts_the_numbers_are_there(address: str, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + PROVIDER)
    page.locator("summary", has=page.locator("#trend")).click()
    page.locator("summary", has_text="Events and values").click()
    page.locator("a[href*='/trials/']").first.wait_for(state="visible")
    context.close()


def test_a_workload_takes_three_screens_and_opens_what_an_address_names(address: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    for path in ("/workloads/chat-1b-gpu", "/workloads/pretrain-1b-gpu"):
        page.goto(address + path)
        drawn(page)
        assert page.evaluate("document.documentElement.scrollHeight") <= 3 * 900
        assert not page.locator("table.card").is_visible()
    page.goto(address + "/workloads/chat-1b-gpu#card")
    page.locator("table.card").wait_for(state="visible")
    page.goto(address + "/workloads/chat-1b-gpu#behind")
    page.get_by_role("link", name="r1").first.click()
    chart = page.locator("main .chart").first
    box = chart.bounding_box()
    assert box is not None and box["y"] + box["height"] < 900, "a trial begins with a picture"
    assert page.locator("#leading dd").first.inner_text()
    page.close()
