"""The pages as people meet them: inside a real Airflow, behind its login, from its navigation, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, BrowserContext, Page
from tests.browser.airflow_pages import PREFIX, Airflow, airflow, examples, routes
from tests.browser.fleet import rehearsed
from tests.data.page_addresses import address_of

pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,  # test_dashboard.py tries the pages, tests/integration/test_plumbline_plugin.py their routes in Airflow
]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Home and declarations of a few months of three simulated providers."""
    return rehearsed(tmp_path_factory.mktemp("fleet"), "2026-05..2026-10", 2)


@pytest.fixture(scope="module")
def running(installation: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    with airflow(tmp_path_factory.mktemp("airflow"), *installation) as found:
        yield found


@pytest.fixture(scope="module")
def every_route(installation: tuple[Path, Path]) -> list[tuple[APIRoute, str]]:
    """Each route of the app with an address that it answers."""
    known = examples(*installation)
    return [(route, address_of(route, known)) for route in routes(*installation)]


@pytest.fixture
def logged_in(chromium: Browser, running: Airflow) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    running.log_in(context.new_page())
    yield context
    context.close()


def drawn(page: Page) -> int:
    """How many charts the page holds, all of them drawn: by Plotly on the pages, in the file of a report."""
    page.wait_for_function("() => [...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('svg'))")
    return page.locator(".chart:has(svg)").count()


def complaints_of(page: Page) -> list[str]:
    """What the browser will complain of from now on."""
    found: list[str] = []
    page.on("console", lambda m: found.append(f"{page.url}: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    return found


def test_nobody_sees_anything_without_a_login(running: Airflow, every_route: list[tuple[APIRoute, str]]) -> None:
    with httpx.Client(base_url=running.address, trust_env=False, follow_redirects=False) as http:
        answers = {
            f"{method} {path}": http.request(method, PREFIX + path).status_code
            for route, path in every_route
            for method in sorted(route.methods or ())
        }
        answers["GET what does not exist"] = http.get(f"{PREFIX}/no-such-page").status_code
    assert {a for name, a in answers.items() if name != "GET what does not exist"} <= {401, 403, 302, 303, 307}, answers
    # A path that is no route tells nothing either.
    assert answers["GET what does not exist"] in {401, 403, 404}


def test_it_opens_from_the_navigation(logged_in: BrowserContext) -> None:
    page = logged_in.pages[0]
    page.get_by_role("link", name="Plumbline").click()
    inside = page.frame_locator("iframe[title=Plumbline]")
    inside.get_by_role("heading", level=1).wait_for()
    inside.get_by_role("link", name="Decisions").first.click()
    inside.get_by_role("heading", level=1, name="Decisions").wait_for()
    inside.locator("a[href*='/decisions/platform/training']").first.click()
    inside.locator("input[type=range]").first.wait_for()


def test_every_page_loads_and_draws_without_a_complaint(
    logged_in: BrowserContext, running: Airflow, every_route: list[tuple[APIRoute, str]]
) -> None:
    page = logged_in.new_page()
    complaints, elsewhere, charts = complaints_of(page), list[str](), dict[str, int]()
    page.on("request", lambda r: elsewhere.append(r.url) if not r.url.startswith((running.address, "data:", "blob:")) else None)
    # A simulated trial has no raw file to hand out, and a report of few providers no table apart.
    readable = [path for route, path in every_route if "GET" in (route.methods or ()) and not re.search(r"/evidence/|/raw\.html$", path)]
    shown = [path for path in readable if _is_page(logged_in, running, path)]
    for path in shown:
        answer = page.goto(f"{running.address}{PREFIX}{path}", wait_until="load")
        assert answer is not None and answer.status == 200, path
        charts[path] = drawn(page)
        assert page.get_by_role("heading", level=1).count() == 1, path
    assert complaints == []
    assert elsewhere == []
    assert len(shown) >= 12, shown
    assert sum(n > 0 for n in charts.values()) >= 5, charts


def test_sliders_recompute_the_ranking_and_its_numbers_lead_to_trials(logged_in: BrowserContext, running: Airflow) -> None:
    page = logged_in.new_page()
    complaints = complaints_of(page)
    page.goto(f"{running.address}{PREFIX}/decisions/platform/training")
    result = page.locator("#result")
    before = result.inner_text()
    slider = page.locator("input[type=range]").first
    slider.focus()
    with page.expect_response(lambda r: "/decisions/platform/training?" in r.url and r.ok):
        slider.press("Home")
    page.wait_for_function("before => document.getElementById('result').innerText !== before", arg=before)
    page.locator("#result[aria-busy]").wait_for(state="detached")
    assert drawn(page) >= 2
    page.locator("#result details", has=page.locator("a[href*='/trials/']")).first.locator("summary").click()
    page.locator("#result a[href*='/trials/']").first.click()
    page.get_by_role("heading", name="From request to release").wait_for()
    assert "/trials/" in page.url
    assert complaints == []


def _is_page(context: BrowserContext, running: Airflow, path: str) -> bool:
    answer = context.request.get(f"{running.address}{PREFIX}{path}")
    assert answer.status == 200, (path, answer.status, answer.text()[:300])
    return answer.headers.get("content-type", "").startswith("text/html")
